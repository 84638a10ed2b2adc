"""Finds candidate pairs, documents that share a bucket, and verifies them exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from esdedup.pairing.comparison import Reading
from esdedup.pairing.verify import PairTask, verify
from esdedup.search.buckets import Capped, shared_bands
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import sketch as sketched
from esdedup.spark.tables import Batches, JobTables, mapped
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import I64, U64, Unsigned
from esdedup.text.hashing import PRIME64_1, avalanche
from esdedup.text.jaccard import hamming

_SIDES = ["left", "right"]
_PAIR = "left bigint, right bigint"
_ROWS_A_SLICE = 10_000
"""Documents of a bucket that one task pairs with the first ones of the bucket."""
_MEETINGS, _MEETINGS_A_ROW, _GROWTH = 1 << 20, 4, 16
"""Pairs that one block of documents may have, also for each row of a bucket. A further block costs
a few seconds for the jobs of Spark."""


@dataclass(frozen=True)
class Buckets:
    """The buckets that documents are in.

    sketch: of the documents. dtype: of its values. masks: of each token, which is in the buckets of
    these neighbours too. stopped: the bucket numbers of the stop list. scheme: of the sketch alone.
    passage: minimum words of a passage to compare by; 0 if passages are not compared.
    """

    sketch: Sketch
    dtype: np.dtype[Any]
    masks: list[U64]
    stopped: I64
    scheme: Scheme
    passage: int

    @property
    def column(self) -> str:
        """The column of the documents from which the buckets are computed."""
        return "text" if self.sketch.varies else "bands"

    @staticmethod
    def of(reading: Reading, limits: Limits) -> Buckets:
        """Return the buckets of the documents of a reading."""
        sketch, dtype = reading.sketch, np.dtype(reading.dtype)
        assert sketch is not None
        at, values = stopped_buckets(reading.compared.stop, sketch)
        masks = [np.zeros(1, np.uint64)] * sketch.tokens
        if sketch.metric == "hamming":
            masks = sketch.masks(limits, sides=2)
        stopped, passage = _numbers(values.astype(dtype), at), reading.passage(limits)
        return Buckets(sketch, dtype, masks, stopped, reading.compared.scheme, passage)

    def values(self, written: Sequence[bytes]) -> Unsigned:
        """Return the values of n documents, shape (n, width)."""
        return np.frombuffer(b"".join(written), self.dtype).reshape(-1, self.sketch.width)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield a row for each document and bucket: bucket, number. batches: number, `column`."""
        for batch in batches:
            given, number = batch.column(self.column).to_pylist(), batch.column("number").to_numpy()
            if self.sketch.varies:
                of_texts = sketched(given, self.scheme).values[self.sketch.name]
                tokens = self.sketch.token_values(of_texts)
                bucket = _numbers(tokens.hashes.astype(self.dtype), np.zeros(1, np.int64))
                number = np.repeat(number, tokens.counts)
            else:
                tokens = self.sketch.token_values(self.values(given))
                masked = enumerate(self.masks)
                near = [tokens[:, [at]] ^ mask.astype(self.dtype) for at, mask in masked]
                at = np.repeat(np.arange(len(near)), [mask.size for mask in self.masks])
                bucket = _numbers(np.concatenate(near, axis=1), at).reshape(-1)
                number = np.repeat(number, at.size)
            kept = ~np.isin(bucket, self.stopped)
            columns = [pa.array(bucket[kept]), pa.array(number[kept])]
            yield pa.RecordBatch.from_arrays(columns, names=["bucket", "number"])


class Placed(NamedTuple):
    """Documents in buckets of two or more.

    rows: bucket, number, size (of the bucket), place (in it, from 1). capped: the buckets that the
    cap truncates. meetings: pairs, once for each bucket that they share. few: as many of these as
    one block of documents may have. cap: a document is paired with at most this many documents of a
    bucket, the first ones.
    """

    rows: DataFrame
    capped: Capped
    meetings: int
    few: int
    cap: int

    def blocks(self, first: int, tables: JobTables) -> list[int]:
        """Return the numbers at which blocks of documents begin, from `first` on.

        If pairs are many there are several blocks, each of 16 times the documents before it.
        """
        times = 0
        while self.meetings > self.few * _GROWTH**times:
            times += 1
        if not times:
            return [first]
        shares = [_GROWTH**-at for at in range(times, 0, -1)]
        own = self.rows.where(f"number >= {first}")
        begins = F.percentile_approx("number", shares, 10_000).alias("begins")
        found = tables.kept("blocks", own.agg(begins)).first()
        return sorted({first, *((found and found[0]) or ())})


def placed_in(compared: DataFrame, buckets: Buckets, cap: int, tables: JobTables) -> Placed:
    """Place documents in their buckets. compared: number (bigint), and the buckets' column."""
    rows = mapped(compared, buckets.rows, "bucket bigint, number bigint")
    bucket = Window.partitionBy("bucket")
    size, place = F.count("*").over(bucket), F.row_number().over(bucket.orderBy("number"))
    placed = rows.withColumns({"size": size, "place": place}).where("size > 1")
    placed = tables.kept("buckets", placed)
    truncated, few = F.col("size") > cap, F.least(F.col("place") - 1, F.lit(cap))
    over = F.count_if(truncated & (F.col("place") == 1)), F.max(F.when(truncated, F.col("size")))
    counted = placed.agg(*over, F.sum(few.cast("bigint")), F.count("*")).first()
    assert counted is not None
    capped, largest, meetings, count = counted
    usual = max(_MEETINGS, _MEETINGS_A_ROW * count)
    return Placed(placed, Capped(capped, largest or 0), meetings or 0, usual, cap)


def candidate_pairs(
    placed: Placed, lefts: str = "true", rights: str = "true", followers: DataFrame | None = None
) -> DataFrame:
    """Return the pairs that share a bucket: left, right (bigint), left < right, each once.

    lefts, rights: SQL conditions on their number. followers: number, of documents that are no left
    ones.
    """
    rows = placed.rows.where(f"place <= {placed.cap} and {lefts}")
    if followers is not None:
        rows = rows.join(followers, "number", "left_anti")
    # Large buckets are joined in slices, each with all of the first documents, by several tasks.
    last = F.floor((F.col("size") - 1) / _ROWS_A_SLICE)
    slices = F.explode(F.sequence(F.lit(0).cast("bigint"), last)).alias("slice")
    firsts = rows.select("bucket", slices, F.col("number").alias("left"))
    slice_of = F.floor((F.col("place") - 1) / _ROWS_A_SLICE).alias("slice")
    others = placed.rows.where(rights)
    others = others.select("bucket", slice_of, F.col("number").alias("right"))
    pairs = firsts.join(others, ["bucket", "slice"]).where("left < right")
    return pairs.select("left", "right").distinct()


def _numbers(values: Unsigned, at: I64) -> I64:
    """Return one number for each band and its value; a hash of both for values beyond 32 bits."""
    wide, position = values.astype(np.uint64), at.astype(np.uint64)
    if values.dtype.itemsize == 4:
        both: U64 = position << np.uint64(32) | wide
    else:
        both = avalanche(wide * PRIME64_1 + position)
    return both.view(np.int64)


def verified(pairs: DataFrame, documents: DataFrame, buckets: Buckets, least: float) -> DataFrame:
    """Return the pairs of at least a nearness, which is the similarity, or the negative distance.

    Columns: left, right (bigint), similarity (double).
    """
    by_distance = buckets.sketch.metric == "hamming"
    column, compare = ("bands", _near) if by_distance else ("text", _verified)
    compared = _with(pairs, documents, column)
    return mapped(compared, partial(compare, buckets, least), f"{_PAIR}, similarity double")


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


def _verified(buckets: Buckets, least: float, batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        left, right = (batch.column(side).to_numpy() for side in ("left", "right"))
        # A text that is in several pairs of a batch is split once.
        both = np.concatenate([left, right])
        _, rows, at = np.unique(both, return_index=True, return_inverse=True)
        texts = pa.chunked_array([batch.column("left_text"), batch.column("right_text")])
        texts, sides = texts.take(pa.array(rows)), (at[: left.size], at[left.size :])
        similarity = verify(PairTask([texts.to_pylist], *sides, buckets.scheme, buckets.passage))[0]
        near = similarity >= least
        columns = [pa.array(each[near]) for each in (left, right, similarity)]
        yield pa.RecordBatch.from_arrays(columns, names=["left", "right", "similarity"])


def _near(buckets: Buckets, least: float, batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        sides = [buckets.values(batch.column(f"{each}_bands").to_pylist()) for each in _SIDES]
        nearness = -hamming(*(each.astype(np.uint64) for each in sides)).astype(np.float64)
        near = pa.array(nearness >= least)
        kept = batch.select(_SIDES).append_column("similarity", pa.array(nearness))
        yield kept.filter(near)


def _sharing(buckets: Buckets, least: int, batches: Iterable[pa.RecordBatch]) -> Batches:
    for batch in batches:
        sides = [batch.column(f"{side}_bands").to_pylist() for side in ("left", "right")]
        bands = buckets.values([*sides[0], *sides[1]]).T
        rows: I64 = np.arange(batch.num_rows)
        enough = shared_bands(bands, rows, rows + batch.num_rows) >= least
        yield batch.select(["left", "right"]).filter(pa.array(enough))
