"""Verifies pairs: brings their texts together and computes exact Jaccard similarities."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from esdedup.search.buckets import shared_bands
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import shingle_sets
from esdedup.spark.candidates import Buckets
from esdedup.spark.tables import Batches, mapped
from esdedup.text.arrays import I64, Mask
from esdedup.text.jaccard import jaccard

VERIFIED = "left bigint, right bigint, similarity double"


def verified(
    pairs: DataFrame,
    documents: DataFrame,
    scheme: Scheme,
    threshold: float,
    buckets: Buckets | None = None,
    least: int = 1,
) -> DataFrame:
    """The pairs of at least a similarity: left, right (bigint), similarity (double).

    pairs: left, right (bigint): numbers of documents. documents: number, text, bands.
    buckets, least: only pairs that share at least this many bands.
    """
    names = ["text"] if buckets is None or least <= 1 else ["text", "bands"]
    for side in ("left", "right"):
        own = [F.col(name).alias(f"{side}_{name}") for name in names]
        pairs = pairs.join(documents.select(F.col("number").alias(side), *own), side)
    return mapped(pairs, partial(_verified, scheme, threshold, buckets, least), VERIFIED)


def _verified(
    scheme: Scheme,
    threshold: float,
    buckets: Buckets | None,
    least: int,
    batches: Iterable[pa.RecordBatch],
) -> Batches:
    for batch in batches:
        if buckets is not None and least > 1:
            batch = batch.filter(pa.array(_sharing(batch, buckets, least)))
        left, right = (batch.column(side).to_numpy() for side in ("left", "right"))
        both = np.concatenate([left, right])
        # A text that is in several pairs of a batch is split once.
        _, rows, at = np.unique(both, return_index=True, return_inverse=True)
        texts = pa.chunked_array([batch.column("left_text"), batch.column("right_text")])
        sets = shingle_sets(texts.take(pa.array(rows)).to_pylist(), scheme)
        similarity = jaccard(sets, at[: left.size], at[left.size :])
        near = similarity >= threshold
        columns = [pa.array(each[near]) for each in (left, right, similarity)]
        yield pa.RecordBatch.from_arrays(columns, names=["left", "right", "similarity"])


def _sharing(batch: pa.RecordBatch, buckets: Buckets, least: int) -> Mask:
    """Marks the pairs that share enough bands."""
    sides = [batch.column(f"{side}_bands").to_pylist() for side in ("left", "right")]
    bands = buckets.values([*sides[0], *sides[1]]).T
    rows: I64 = np.arange(batch.num_rows)
    shared: Mask = shared_bands(bands, rows, rows + batch.num_rows) >= least
    return shared
