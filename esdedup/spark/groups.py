"""Finds the groups of similar documents of a DataFrame, as `esdedup group` finds them."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from esdedup.arguments import accepts, from_settings
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping
from esdedup.pairing.comparison import Reading
from esdedup.pairing.union_find import follow, join, singletons
from esdedup.search.buckets import Capped
from esdedup.sketch.scheme import Scheme
from esdedup.spark.candidates import verified
from esdedup.spark.documents import Documents, numbered
from esdedup.spark.pairs import SparkReport, compare, index_of, reading_of, with_report
from esdedup.spark.tables import Batches, JobTables, mapped
from esdedup.stores.mapping import IndexMeta, TextFields, names_of
from esdedup.text.arrays import renumbered

_JOINED = "number bigint, head bigint, similarity double"


@accepts(Grouping)
def groups(
    df: DataFrame,
    *,
    scheme: Scheme | IndexMeta | None = None,
    id_field: str = "id",
    text_field: TextFields = "text",
    work: str | None = None,
    grouping: Grouping | None = None,
    **options: Any,
) -> DataFrame:
    """Return the documents with their groups.

    grouping: how to group, in place of options. options: the settings of `esdedup.Grouping` and its
    `Limits` by name; the field of a keep rule is a column of `df`. Others: as of `similar_pairs`.

    Returns a row for each document: id, digest, group, original (string), similarity (double). The
    group is the id of its representative, null for a document that is alone. A duplicate also has
    that id as its original, and the similarity to it. Losses raise warnings.

    Raises UsageError for wrong arguments.
    """
    grouping = from_settings(Grouping, options, grouping)
    if grouping.split_templates:
        raise UsageError("Spark does not support split templates")
    names = names_of(text_field)
    scheme = scheme or index_of(df, names)
    with JobTables.of(df.sparkSession, work, "groups") as tables:
        if grouping.exact:
            meta = scheme if isinstance(scheme, IndexMeta) else IndexMeta(scheme or Scheme())
            reading = Reading(meta, None, grouping.keep)
            documents = numbered(df, reading, tables, id_field, names)
            joined = df.sparkSession.createDataFrame([], _JOINED)
            report = SparkReport(
                **documents.counts, capped=Capped(), recall=1.0, basis=reading.basis
            )
        else:
            reading = reading_of(scheme, grouping.limits, grouping.keep)
            documents, edges, report = compare(
                df, reading, grouping.limits, tables, id_field, names
            )
            roots = _components(edges)
            if grouping.method == "components":
                compared = reading.compared.scheme
                joined = _by_component(roots, edges, documents.table, compared, tables)
            else:
                # Whether a document leads depends on earlier ones of its component, so each
                # component is processed by one task.
                roots = roots.withColumnRenamed("number", "left")
                whole = edges.join(roots, "left").repartition("root")
                whole = whole.select("left", "right", "similarity")
                joined = mapped(whole, _followers, _JOINED)
        found = _groups(documents, joined, tables)
    return with_report(found, report, grouping.limits)


def _components(edges: DataFrame) -> DataFrame:
    """Return the vertices of edges with the smallest of their component."""
    found = edges.select("left", "right").toArrow()
    left, right = (found.column(name).to_numpy() for name in ("left", "right"))
    vertices, one, other = renumbered(left, right)
    partition = singletons(vertices.size)
    join(partition, one, other)
    table = pa.table({"number": vertices, "root": vertices[partition]})
    return edges.sparkSession.createDataFrame(table)


def _by_component(
    roots: DataFrame, edges: DataFrame, documents: DataFrame, scheme: Scheme, tables: JobTables
) -> DataFrame:
    """Return the documents that are not the first of their component: number, head, similarity."""
    joined = roots.where("number != root").withColumnRenamed("root", "head")
    known = edges.withColumnsRenamed({"left": "head", "right": "number"})
    joined = tables.kept("joined", joined.join(known, ["head", "number"], "left"))
    # The first one of a chain may be less similar than the threshold.
    unknown = joined.where("similarity is null").drop("similarity")
    pairs = unknown.withColumnsRenamed({"head": "left", "number": "right"})
    others = verified(pairs, documents, scheme, 0.0)
    others = others.withColumnsRenamed({"left": "head", "right": "number"})
    return joined.where("similarity is not null").unionByName(others)


def _followers(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Yield the documents that follow a leader. batches: edges of whole components."""
    parts = [[column.to_numpy() for column in batch] for batch in batches]
    if not parts:
        return
    left, right, near = (np.concatenate(column) for column in zip(*parts, strict=True))
    rows, one, other = renumbered(left, right)
    order = np.lexsort((one, other))
    partition = singletons(rows.size)
    follow(partition, one[order], other[order], near[order])
    chosen = partition[other] == one
    columns = {"number": right[chosen], "head": left[chosen], "similarity": near[chosen]}
    yield pa.RecordBatch.from_pydict(columns)


def _groups(documents: Documents, joined: DataFrame, tables: JobTables) -> DataFrame:
    """Return the documents with their groups. joined: first documents of their text, with heads."""
    joined = tables.kept("members", joined)
    of_first = joined.withColumnRenamed("number", "first")
    copies = documents.copies.join(of_first, "first", "left").select(
        "number",
        F.coalesce("head", "first").alias("head"),
        F.coalesce("similarity", F.lit(1.0)).alias("similarity"),
    )
    members = joined.unionByName(copies)
    heads = members.select("head").distinct()
    alone = F.lit(None).cast("double").alias("similarity")
    marked = members.unionByName(heads.select(F.col("head").alias("number"), "head", alone))
    ids = documents.table.select(F.col("number").alias("head"), F.col("id").alias("group"))
    marked = marked.join(ids, "head")
    whole = documents.table.select("number", "id", "digest").join(marked, "number", "left")
    original = F.when(F.col("number") != F.col("head"), F.col("group")).alias("original")
    return tables.kept("groups", whole.select("id", "digest", "group", original, "similarity"))
