"""Finds the connected components of similar pairs in O(log n) rounds.

Randomised contraction: Bögeholz, Brand, Todor, "In-database connected component analysis", 2020,
section V. In each round a vertex is joined to the one of its closed neighbourhood that comes first
in a random order. At most 3/4 of the vertices are expected to be left, so that all rounds together
take a small multiple of the first. The last edges are joined on the driver.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from esdedup.dedup.union_find import join, singletons
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
    # Each round's vertices are joined to what is left after it.
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
    """The edges between the vertices that are left after a round, and what it joined to what."""
    both = edges.union(edges.select(F.col("right").alias("left"), F.col("left").alias("right")))

    def place(name: str) -> Column:
        return F.struct(F.xxhash64(F.col(name), F.lit(turn)).alias("hash"), F.col(name).alias("v"))

    near = both.groupBy("left").agg(F.min(place("right")).alias("near"))
    link = near.select("left", F.least("near", place("left")).alias("near"))
    link = link.select(F.col("left").alias("number"), F.col("near.v").alias("joined"))
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
