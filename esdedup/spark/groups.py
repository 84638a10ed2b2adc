"""Finds the groups of similar documents of a DataFrame, as `esdedup group` finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from esdedup.arguments import accepts, from_settings
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping
from esdedup.pairing.comparison import Reading
from esdedup.sketch.scheme import Scheme
from esdedup.spark.components import components
from esdedup.spark.documents import Documents, numbered
from esdedup.spark.pairs import (
    Compared,
    SparkReport,
    compare,
    index_of,
    reading_of,
    report_on,
    told,
)
from esdedup.spark.tables import Batches, Tables, mapped
from esdedup.spark.verify import verified
from esdedup.stores.mapping import IndexMeta, TextFields, names_of

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
    `Limits` by name; the field of a keep rule is a column of `df`. The other
    arguments are those of `similar_pairs`.

    Returns a row for each document: id, digest, group, original (string), similarity (double). The
    group is the id of its representative, null for a document that is alone. A duplicate also has
    that id as its original, and the similarity to it. `report_of` gives the numbers, and losses are
    warned of.

    Raises UsageError for wrong arguments.
    """
    grouping = from_settings(Grouping, options, grouping)
    names = names_of(text_field)
    scheme = scheme or index_of(df, names)
    with Tables.of(df.sparkSession, work, "groups") as tables:
        found, report = find_groups(df, grouping, scheme, tables, id_field, names)
    return told(found, report, grouping.limits)


def find_groups(
    df: DataFrame,
    grouping: Grouping,
    scheme: Scheme | IndexMeta | None,
    tables: Tables,
    id_field: str,
    text_fields: Sequence[str],
) -> tuple[DataFrame, SparkReport]:
    """The documents with their groups, as `groups` returns them, and the numbers of the job."""
    if grouping.split_templates:
        raise UsageError("Spark does not take the documents of templates apart")
    names = id_field, text_fields
    if grouping.exact:
        meta = scheme if isinstance(scheme, IndexMeta) else IndexMeta(scheme or Scheme())
        reading = Reading(meta, None, grouping.keep)
        documents = numbered(df, reading, tables, *names)
        nothing = df.sparkSession.createDataFrame([], _JOINED)
        return _groups(documents, nothing, tables), report_on(documents, reading)
    reading = reading_of(scheme, grouping.limits, grouping.keep)
    compared = compare(df, reading, grouping.limits, tables, *names)
    join = _by_component if grouping.method == "components" else _by_leader
    joined = join(compared, reading, tables)
    return _groups(compared.documents, joined, tables), compared.report


def _by_component(compared: Compared, reading: Reading, tables: Tables) -> DataFrame:
    """The documents that are not the first of their component: number, head, similarity to it."""
    roots = components(compared.edges, tables).where("number != root")
    joined = roots.select("number", F.col("root").alias("head"))
    known = compared.edges.select(
        F.col("left").alias("head"), F.col("right").alias("number"), "similarity"
    )
    joined = tables.kept("joined", joined.join(known, ["head", "number"], "left"))
    # The first one of a chain may be less similar than the threshold.
    unknown = joined.where("similarity is null")
    pairs = unknown.select(F.col("head").alias("left"), F.col("number").alias("right"))
    documents = compared.documents.table
    others = verified(pairs, documents, reading.compared.scheme, 0.0)
    others = others.select(others.right.alias("number"), others.left.alias("head"), "similarity")
    return joined.where("similarity is not null").unionByName(others)


def _by_leader(compared: Compared, reading: Reading, tables: Tables) -> DataFrame:
    """The documents that follow a leader: number, head, similarity to it.

    Whether a document leads depends on earlier ones of its component only. Each component goes
    through one task, in the order of precedence.
    """
    roots = components(compared.edges, tables)
    edges = compared.edges.join(roots.withColumnRenamed("number", "left"), "left")
    ordered = edges.repartition("root").sortWithinPartitions("root", "right", "left")
    return mapped(ordered.select("root", "left", "right", "similarity"), _followers, _JOINED)


def _followers(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Do what `union_find.follow` does, for edges by component, right and left."""
    component, right = -1, -1
    followers: set[int] = set()
    leader, nearest = -1, -np.inf
    for batch in batches:
        found: list[tuple[int, int, float]] = []
        for root, one, other, near in zip(*(each.to_pylist() for each in batch), strict=True):
            if other != right or root != component:
                if leader >= 0:
                    followers.add(right)
                    found.append((right, leader, nearest))
                right, leader, nearest = other, -1, -np.inf
            if root != component:
                component, followers = root, set()
            if one not in followers and near > nearest:
                leader, nearest = one, near
        yield _joined(found)
    if leader >= 0:
        yield _joined([(right, leader, nearest)])


def _joined(rows: list[tuple[int, int, float]]) -> pa.RecordBatch:
    names = [field.split()[0] for field in _JOINED.split(", ")]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    kinds = pa.int64(), pa.int64(), pa.float64()
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _groups(documents: Documents, joined: DataFrame, tables: Tables) -> DataFrame:
    """The documents with their groups.

    joined: number, head, similarity: of the first document of each text that joined another.
    """
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
