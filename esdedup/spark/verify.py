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
from esdedup.text.arrays import I64
from esdedup.text.jaccard import jaccard

_PAIR = "left bigint, right bigint"


def verified(pairs: DataFrame, documents: DataFrame, scheme: Scheme, threshold: float) -> DataFrame:
    """Return the pairs of at least a similarity: left, right (bigint), similarity (double).

    pairs: left, right: numbers of documents. documents: number, text.
    """
    both = _with(pairs, documents, "text")
    return mapped(both, partial(_verified, scheme, threshold), f"{_PAIR}, similarity double")


def sharing(pairs: DataFrame, documents: DataFrame, buckets: Buckets, least: int) -> DataFrame:
    """Return the pairs that share at least `least` bands. documents: number, bands."""
    if least <= 1:
        return pairs
    return mapped(_with(pairs, documents, "bands"), partial(_sharing, buckets, least), _PAIR)


def _with(pairs: DataFrame, documents: DataFrame, name: str) -> DataFrame:
    """Return pairs with a column of both documents, such as left_text and right_text."""
    for side in ("left", "right"):
        own = documents.select(F.col("number").alias(side), F.col(name).alias(f"{side}_{name}"))
        pairs = pairs.join(own, side)
    return pairs


def _verified(scheme: Scheme, threshold: float, batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        left, right = (batch.column(side).to_numpy() for side in ("left", "right"))
        # A text that is in several pairs of a batch is split once.
        both = np.concatenate([left, right])
        _, rows, at = np.unique(both, return_index=True, return_inverse=True)
        texts = pa.chunked_array([batch.column("left_text"), batch.column("right_text")])
        sets = shingle_sets(texts.take(pa.array(rows)).to_pylist(), scheme)
        similarity = jaccard(sets, at[: left.size], at[left.size :])
        near = similarity >= threshold
        columns = [pa.array(each[near]) for each in (left, right, similarity)]
        yield pa.RecordBatch.from_arrays(columns, names=["left", "right", "similarity"])


def _sharing(buckets: Buckets, least: int, batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        sides = [batch.column(f"{side}_bands").to_pylist() for side in ("left", "right")]
        bands = buckets.values([*sides[0], *sides[1]]).T
        rows: I64 = np.arange(batch.num_rows)
        enough = shared_bands(bands, rows, rows + batch.num_rows) >= least
        yield batch.select(["left", "right"]).filter(pa.array(enough))
