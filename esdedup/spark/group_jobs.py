"""Group the similar documents of a DataFrame, as `esdedup group` does, or remove duplicates."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from esdedup.arguments import accepts, check_settings, from_settings
from esdedup.compare.keep_rule import Unordered
from esdedup.compare.plan import Plan
from esdedup.compare.union_find import follow, join, singletons
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, GroupingSettings
from esdedup.search.buckets import Capped
from esdedup.sketch.scheme import Scheme
from esdedup.spark.candidates import Buckets, verified
from esdedup.spark.documents import (
    SparkDocuments,
    chosen,
    column_of,
    field_of,
    numbered,
    require_of_spark,
)
from esdedup.spark.pair_jobs import (
    SparkReport,
    SparkResult,
    compare,
    index_of,
    measured,
    plan_of,
    warn,
)
from esdedup.spark.tables import Batches, JobTables, mapped
from esdedup.stores.mapping import IndexMeta, TextFields, names_of
from esdedup.text.arrays import renumbered

_JOINED = "number bigint, head bigint, similarity double"
_END = (1 << 63) - 1
_VERTICES_A_ROW = 1 << 17
_ROW = "row of esdedup"


@accepts(Grouping)
def groups(
    df: DataFrame,
    text: TextFields = "text",
    *,
    id: str = "id",
    scheme: Scheme | IndexMeta | None = None,
    work: str | None = None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> SparkResult:
    """Run a job that finds the groups of documents.

    df, text, id, scheme, work: as of `pairs`.
    grouping: how to group, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.8 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document that represents a group, such as "newest:published"; a field is a column. Of
        rows with one id, it names the one that is compared.
    exact: group only equal texts, after normalisation.
    split_templates, conflict: not supported on Spark.

    The table has a row for each document: id, digest, group, original (string), similarity
    (double). The group is the id of its representative, null for a document that is alone. A
    duplicate also has that id as its original, and the similarity to it, or, by a sketch of
    fingerprints, the distance (int). Losses raise warnings.

    Raises UsageError for wrong arguments.
    """
    require_of_spark(df)
    check_settings(groups, settings)
    grouping, names = from_settings(Grouping, settings, grouping), names_of(text)
    plan, grouping = _planned(df, names, scheme, grouping)
    with JobTables.of(df.sparkSession, work, "groups") as tables:
        documents = numbered(df, plan, tables, id, names)
        members, report = members_of(documents, plan, grouping, tables)
        table = _groups(documents, members, plan, tables)
    warn(report, plan)
    return SparkResult(table, report, tables.place)


@accepts(Grouping)
def dedup(
    df: DataFrame,
    text: TextFields = "text",
    *,
    id: str | None = None,
    scheme: Scheme | IndexMeta | None = None,
    work: str | None = None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> SparkResult:
    """Run a job that removes the rows that duplicate others.

    Each row is a document of its own, in the order in which Spark reads them; one without a text
    duplicates no other.

    df, text, scheme, work: as of `pairs`.
    id: a column that names documents in warnings; rows with equal ids are documents of their own.
    grouping: how to group, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.8 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document that represents a group, such as "newest:published"; a field is a column.
    exact: group only equal texts, after normalisation.
    split_templates, conflict: not supported on Spark.

    The table has the rows that stay, in any order, with the columns of `df`.
    """
    require_of_spark(df)
    check_settings(dedup, settings)
    grouping, names = from_settings(Grouping, settings, grouping), names_of(text)
    plan, grouping = _planned(df, names, scheme, grouping)
    with JobTables.of(df.sparkSession, work, "kept") as tables:
        if id is not None:
            field_of(df, id)
        rows = tables.once_table("rows", df.withColumn(_ROW, F.monotonically_increasing_id()))
        documents = numbered(rows, plan, tables, _ROW, names)
        members, report = members_of(documents, plan, grouping, tables)
        row_of = documents.table.select("number", F.col("id").cast("bigint").alias(_ROW))
        duplicates = members.join(row_of, "number")
        retained = chosen(rows, duplicates, _ROW, "left_anti").drop(_ROW)
        table = tables.once_table("kept", retained)
        if id is not None:
            report = replace(report, unordered=_named(report.unordered, rows, id))
    warn(report, plan, of_rows=False)
    return SparkResult(table, report, tables.place)


def _named(unordered: Unordered, rows: DataFrame, id: str) -> Unordered:
    """Return documents by their ids, which are numbers of rows. id: a column of `rows`."""
    numbers = [int(number) for number, _ in unordered.examples]
    named = rows.where(F.col(_ROW).isin(numbers)).select(_ROW, column_of(rows, id).cast("string"))
    ids = {number: id_of_row for number, id_of_row in named.collect() if id_of_row is not None}
    examples = [(ids.get(int(number), number), value) for number, value in unordered.examples]
    return replace(unordered, examples=examples)


def _planned(
    df: DataFrame, names: Sequence[str], scheme: Scheme | IndexMeta | None, grouping: Grouping
) -> tuple[Plan, Grouping]:
    """Return how the documents of a DataFrame are compared, and how they are grouped."""
    require_supported(grouping)
    scheme = scheme or index_of(df, names)
    plan = plan_of(scheme, grouping.limits, grouping.keep, exact=grouping.exact)
    return plan, grouping.by(plan)


def require_supported(grouping: Grouping) -> None:
    """Raise UsageError for settings that Spark does not support."""
    if grouping.conflict is not None:
        raise UsageError("Spark does not support `conflict`")
    if grouping.split_templates:
        raise UsageError("Spark does not support split templates")
    if grouping.exact and grouping.limits.within.windows:
        raise UsageError("Spark does not support `exact` with a window of time in `within`")


def members_of(
    documents: SparkDocuments, plan: Plan, grouping: Grouping, tables: JobTables, first: int = 0
) -> tuple[DataFrame, SparkReport]:
    """Return the documents that another one represents, and counts.

    Columns: number, head (bigint), similarity (double). grouping: by the plan (`Grouping.by`).
    first: documents before this number are not compared with each other, so that each may represent
    later ones.
    """
    if grouping.exact:
        joined = tables.spark.createDataFrame([], _JOINED)
        counts: Any = {**documents.counts, "capped": Capped(), "recall": 1.0}
        report = SparkReport(**counts, basis=plan.basis, unordered=documents.unordered)
    else:
        edges, placed, report = compare(documents, plan, tables)
        if grouping.method == "components":
            # No measure that components are found by is directed.
            similar = edges("all", "true", f"number >= {first}")
            pairs = _components(similar).where("number != root").toDF("right", "left")
            # The first one of a chain may be less similar than the threshold.
            chained = pairs.join(similar, ["left", "right"], "left_anti")
            chained = chained.withColumn("home", F.lit(None).cast("bigint"))
            chained = tables.once_table("chained", chained)
            buckets = Buckets.of(plan)
            chained = verified(chained, documents, buckets, float("-inf"))
            joined = pairs.join(similar, ["left", "right"]).unionByName(chained)
            joined = joined.withColumnsRenamed({"right": "number", "left": "head"})
            joined = tables.once_table("members", joined.select("number", "head", "similarity"))
        else:
            joined = _led(edges, placed.blocks(first, tables), tables)
    of_first = joined.withColumnRenamed("number", "first")
    copies = documents.copies.join(of_first, "first", "left").select(
        "number",
        F.coalesce("head", "first").alias("head"),
        F.coalesce("similarity", F.lit(plan.nearest)).alias("similarity"),
    )
    return joined.unionByName(copies), report


def _led(edges: Callable[..., DataFrame], begins: Sequence[int], tables: JobTables) -> DataFrame:
    """Return the documents that follow a leader, found block by block. begins: of the blocks.

    Most documents of a block follow earlier leaders, and need no comparison with each other.
    """
    joined = tables.spark.createDataFrame([], _JOINED)
    for start, end in pairwise([*begins, _END]):
        block, followers = f"number >= {start} and number < {end}", joined.select("number")
        similar = list[DataFrame]()
        if start:
            similar.append(edges(f"before-{start}", f"number < {start}", block, followers))
            followers = similar[0].select(F.col("right").alias("number")).distinct()
        similar.insert(0, edges(f"from-{start}", block, block, followers))
        pairs = reduce(DataFrame.unionByName, similar)
        # Whether a document leads depends on earlier ones of its component, so each component is
        # processed by one task.
        roots = _components(pairs).withColumnRenamed("number", "left")
        pairs = pairs.join(roots, "left").repartition("root").select("left", "right", "similarity")
        members = tables.once_table(f"members-{start}", mapped(pairs, _followers, _JOINED))
        joined = joined.unionByName(members)
    return joined


def _components(edges: DataFrame) -> DataFrame:
    """Return the vertices of edges with the smallest of their component.

    The driver holds all edges.
    """
    packed = mapped(edges.select("left", "right"), _packed, "left binary, right binary").collect()
    left, right = (
        np.frombuffer(b"".join(row[column] for row in packed), np.int64) for column in range(2)
    )
    vertices, left_row, right_row = renumbered(left, right)
    partition = singletons(vertices.size)
    join(partition, left_row, right_row)
    roots = vertices[partition]
    slices = [
        slice(start, start + _VERTICES_A_ROW) for start in range(0, vertices.size, _VERTICES_A_ROW)
    ]
    rows = [(vertices[rows].tobytes(), roots[rows].tobytes()) for rows in slices]
    table = edges.sparkSession.createDataFrame(rows, "number binary, root binary")
    return mapped(table, _unpacked, "number bigint, root bigint")


def _packed(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the numbers of each batch as one row, as no version of Spark collects numbers well."""
    for batch in batches:
        columns = {name: [batch.column(name).to_numpy().tobytes()] for name in batch.schema.names}
        yield pa.RecordBatch.from_pydict(columns)


def _unpacked(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the numbers of rows of `_packed`."""
    for batch in batches:
        for row in batch.to_pylist():
            columns = {name: np.frombuffer(value, np.int64) for name, value in row.items()}
            yield pa.RecordBatch.from_pydict(columns)


def _followers(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the documents that follow a leader. batches: edges of whole components."""
    arrays = [[column.to_numpy() for column in batch] for batch in batches]
    if not arrays:
        return
    left, right, nearness = (np.concatenate(column) for column in zip(*arrays, strict=True))
    rows, left_row, right_row = renumbered(left, right)
    order = np.lexsort((left_row, right_row))
    partition = singletons(rows.size)
    follow(partition, left_row[order], right_row[order], nearness[order])
    follows = partition[right_row] == left_row
    columns = {
        "number": right[follows],
        "head": left[follows],
        "similarity": nearness[follows],
    }
    yield pa.RecordBatch.from_pydict(columns)


def _groups(
    documents: SparkDocuments, members: DataFrame, plan: Plan, tables: JobTables
) -> DataFrame:
    """Return the documents with their groups. members: of `members_of`."""
    heads = members.select("head").distinct()
    alone = F.lit(None).cast("double").alias("similarity")
    marked = members.unionByName(heads.select(F.col("head").alias("number"), "head", alone))
    ids = documents.table.select(F.col("number").alias("head"), F.col("id").alias("group"))
    marked = marked.join(ids, "head")
    rows = documents.table.select("number", "id", "digest").join(marked, "number", "left")
    original = F.when(F.col("number") != F.col("head"), F.col("group")).alias("original")
    rows = rows.select("id", "digest", "group", original, *measured(plan))
    return tables.once_table("groups", rows)
