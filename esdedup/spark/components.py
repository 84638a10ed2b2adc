"""Finds the connected components of similar pairs in O(log n) rounds.

Random mates: Reif, "Optimal parallel algorithms for integer sorting and graph connectivity", 1985;
Blelloch, "Programming parallel algorithms", Communications of the ACM 39 (3), 1996. In each round
about half of the vertices are heads, at random. Each other vertex that has a head as a neighbour is
joined to it, at least a quarter of all vertices with neighbours on average. The last edges are
joined on the driver.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from esdedup.pairing.union_find import join, singletons
from esdedup.spark.tables import Tables

EDGES_ON_DRIVER = 4_000_000
"""Edges, of 16 bytes each, that the driver joins by itself."""


def components(edges: DataFrame, tables: Tables, on_driver: int = EDGES_ON_DRIVER) -> DataFrame:
    """The vertices of edges, each with the smallest of its component: number, root (bigint).

    edges: left, right (bigint). on_driver: the most edges to join on the driver.
    """
    links: list[DataFrame] = []
    edges = edges.select("left", "right")
    while edges.count() > on_driver:
        edges, link = _contracted(edges, tables, len(links))
        links.append(link)
    found = _joined(edges)
    # A round joins its vertices to those that the next round begins with.
    for at, link in reversed([*enumerate(links)]):
        last = found.select(F.col("number").alias("joined"), F.col("root"))
        below = link.join(last, "joined", "left")
        root = F.coalesce("root", "joined").alias("root")
        found = tables.kept(f"joined-{at}", below.select("number", root))
    if not links:
        return found
    least = found.groupBy("root").agg(F.min("number").alias("least"))
    return found.join(least, "root").select("number", F.col("least").alias("root"))


def _contracted(edges: DataFrame, tables: Tables, turn: int) -> tuple[DataFrame, DataFrame]:
    """The edges between the remaining vertices, and the vertex that each was joined to."""
    both = edges.union(edges.select(F.col("right").alias("left"), F.col("left").alias("right")))

    def is_head(name: str) -> Column:
        return F.xxhash64(F.col(name), F.lit(turn)) % 2 == 0

    mate = F.when(is_head("right") & ~is_head("left"), F.col("right"))
    mates = both.groupBy("left").agg(F.min(mate).alias("mate"))
    link = mates.select(F.col("left").alias("number"), F.coalesce("mate", "left").alias("joined"))
    link = tables.kept(f"link-{turn}", link)
    for side in ("left", "right"):
        to = link.select(F.col("number").alias(side), F.col("joined").alias(f"{side}_joined"))
        edges = edges.join(to, side).drop(side)
    low, high = F.least("left_joined", "right_joined"), F.greatest("left_joined", "right_joined")
    left = edges.where("left_joined != right_joined").select(low.alias("left"), high.alias("right"))
    return tables.kept(f"edges-{turn}", left.distinct()), link


def _joined(edges: DataFrame) -> DataFrame:
    """The vertices of few edges, each with the smallest of its component."""
    found = edges.toArrow()
    left, right = (found.column(name).to_numpy() for name in ("left", "right"))
    vertices, at = np.unique(np.concatenate([left, right]), return_inverse=True)
    partition = singletons(vertices.size)
    join(partition, at[: left.size], at[left.size :])
    columns = {"number": vertices, "root": vertices[partition]}
    return edges.sparkSession.createDataFrame(
        pa.table({name: pa.array(each, pa.int64()) for name, each in columns.items()})
    )
