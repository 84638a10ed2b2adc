"""Finds candidate pairs: documents that share a bucket, each with the first ones of the bucket.

Buckets are shuffled, and each is handled in one task. A bucket of very many documents is not
shuffled: its first documents, the centres of a star, go to the tasks that hold the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from esdedup.pairing.comparison import Reading
from esdedup.search.buckets import Capped
from esdedup.sketch.limits import Limits
from esdedup.spark.tables import Batches, Tables, mapped
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import I64, U64, Unsigned, blocks, offsets_of, ranges, run_starts
from esdedup.text.hashing import PRIME64_1, avalanche

_NOTHING = np.empty(0, np.int64)
PAIRS_A_BATCH = 1 << 18
"""Pairs of a record batch, of 16 bytes each."""
_SAMPLED = 16
"""Large buckets are looked for among one of this many documents."""
_LARGE = 2
"""A bucket is large if it holds this many times the documents that one is compared with."""
_LEAST_LARGE = 1_024
_MOST_CENTRES = 1 << 22
"""Centres of all stars, of 16 bytes each, which every task gets."""
_PAIR = "left bigint, right bigint"
_GROUP_LIMIT = "spark.sql.optimizer.windowGroupLimitThreshold"


@dataclass(frozen=True)
class Buckets:
    """The buckets that documents are in.

    dtype: of a band hash. bands: of a document. stopped: the bucket numbers of the stop list,
    ascending.
    """

    dtype: np.dtype[Any]
    bands: int
    stopped: I64

    @staticmethod
    def of(reading: Reading) -> Buckets:
        """The buckets of the documents of a reading."""
        assert reading.sketch is not None
        at, values = stopped_buckets(reading.compared.stop, reading.sketch)
        dtype = np.dtype(reading.dtype)
        stopped = np.sort(_numbers(values.astype(dtype), at))
        return Buckets(dtype, reading.sketch.tokens, stopped)

    def values(self, bands: Sequence[bytes]) -> Unsigned:
        """The band hashes of n documents, shape (n, bands)."""
        return np.frombuffer(b"".join(bands), self.dtype).reshape(-1, self.bands)

    def numbers(self, batch: pa.RecordBatch) -> I64:
        """The numbers of the buckets of a batch of n documents, shape (n, bands)."""
        return _numbers(self.values(batch.column("bands").to_pylist()), np.arange(self.bands))

    def rows(self, batch: pa.RecordBatch) -> tuple[I64, I64]:
        """The buckets of a batch, and the numbers of their documents, shape (m,) each."""
        bucket = self.numbers(batch).reshape(-1)
        number = np.repeat(_array(batch, "number"), self.bands)
        if self.stopped.size:
            kept = ~np.isin(bucket, self.stopped)
            bucket, number = bucket[kept], number[kept]
        return bucket, number


def candidate_pairs(
    compared: DataFrame, reading: Reading, limits: Limits, tables: Tables
) -> tuple[DataFrame, Capped]:
    """The pairs that share a bucket, and the buckets that were cut short.

    compared: number (bigint), bands (binary). Returns left, right (bigint), left < right, each
    pair once.
    """
    buckets, cap = Buckets.of(reading), limits.max_per_bucket
    large, sizes = _large_buckets(compared, buckets, cap)
    small = _placed(compared, buckets, large, within=False)
    ordered = small.repartition("bucket").sortWithinPartitions("bucket", "number")
    found = mapped(ordered, partial(_pairs, cap), _PAIR)
    if large.size:
        stars = _stars(compared, buckets, large, cap)
        found = found.union(mapped(compared, partial(_star_pairs, buckets, stars), _PAIR))
    kept = tables.kept("candidates", found.distinct())
    cut = kept.where("left < 0").agg(F.count("*"), F.max(-F.col("left"))).first()
    assert cut is not None
    over = sizes[sizes > cap]
    capped = Capped(int(cut[0]), int(cut[1] or 0)) + Capped(over.size, int(over.max(initial=0)))
    return kept.where("left >= 0"), capped


def _large_buckets(compared: DataFrame, buckets: Buckets, cap: int) -> tuple[I64, I64]:
    """The buckets of very many documents, ascending, and their sizes, found in a sample."""
    least = max(_LEAST_LARGE, _LARGE * cap)
    sample = compared.where(F.xxhash64("number") % _SAMPLED == 0)
    counts = _placed(sample, buckets, _NOTHING, within=False).groupBy("bucket").count()
    sampled = counts.where(F.col("count") >= least // _SAMPLED)
    largest = sampled.sort(F.desc("count")).limit(_MOST_CENTRES // cap).toArrow()
    found = np.sort(_array(largest, "bucket"))
    if not found.size:
        return found, found
    members = _placed(compared, buckets, found, within=True)
    counted = members.groupBy("bucket").count().sort("bucket").toArrow()
    return found, _array(counted, "count")


def _placed(compared: DataFrame, buckets: Buckets, large: I64, within: bool) -> DataFrame:
    """A row for each document and bucket: bucket, number (bigint).

    large: some buckets. within: True for rows of these only, False for all others.
    """
    rows = partial(_bucket_rows, buckets, large, within)
    return mapped(compared, rows, "bucket bigint, number bigint")


def _bucket_rows(
    buckets: Buckets, large: I64, within: bool, batches: Iterable[pa.RecordBatch]
) -> Batches:
    for batch in batches:
        bucket, number = buckets.rows(batch)
        if within or large.size:
            kept = np.isin(bucket, large) == within
            bucket, number = bucket[kept], number[kept]
        yield from _columns(bucket=bucket, number=number)


def _pairs(cap: int, batches: Iterable[pa.RecordBatch]) -> Batches:
    """The pairs of buckets, whose documents come one bucket after another, ascending.

    A bucket of more than `cap` gives a row more: its size, negative, and its number.
    """
    bucket, number, size = _NOTHING, _NOTHING, 0
    for batch in batches:
        begun = bucket.size
        bucket = np.concatenate([bucket, _array(batch, "bucket")])
        number = np.concatenate([number, _array(batch, "number")])
        starts = np.flatnonzero(run_starts(bucket))
        sizes = np.diff(np.append(starts, bucket.size))
        many = np.arange(bucket.size) - np.repeat(starts, sizes)
        many = np.minimum(many, cap)
        many[:begun] = 0
        first = np.repeat(starts, sizes)
        for some in blocks(many, PAIRS_A_BATCH) if many.any() else ():
            left = number[ranges(first[some], many[some])]
            yield from _columns(left=left, right=np.repeat(number[some], many[some]))
        # The last bucket may go on. It is known by its first documents.
        if sizes.size:
            sizes[0] += size - begun
            size = int(sizes[-1])
            yield from _cut(bucket[starts[:-1]], sizes[:-1], cap)
            bucket, number = bucket[starts[-1] :][:cap], number[starts[-1] :][:cap]
    yield from _cut(bucket[:1], np.full(min(bucket.size, 1), size), cap)


def _cut(bucket: I64, sizes: I64, cap: int) -> Batches:
    over = sizes > cap
    return _columns(left=-sizes[over], right=bucket[over])


@dataclass(frozen=True)
class Stars:
    """The first documents of large buckets.

    large: the buckets, ascending, shape (m,). centres: their first documents, ascending, shape
    (n,). keys: for each bucket and each of its centres, i * n + j, ascending, shape (k,). offsets:
    those of bucket i are keys[offsets[i]:offsets[i + 1]].
    """

    large: I64
    centres: I64
    keys: I64
    offsets: I64

    @staticmethod
    def of(large: I64, bucket: I64, number: I64) -> Stars:
        """The stars of large buckets. bucket, number: of their first documents, by both."""
        star = np.searchsorted(large, bucket)
        centres, centre = np.unique(number, return_inverse=True)
        counts = np.bincount(star, minlength=large.size)
        return Stars(large, centres, star * centres.size + centre, offsets_of(counts))


def _stars(compared: DataFrame, buckets: Buckets, large: I64, cap: int) -> Stars:
    members = _placed(compared, buckets, large, within=True)
    place = F.row_number().over(Window.partitionBy("bucket").orderBy("number"))
    firsts = members.withColumn("place", place).where(F.col("place") <= cap).drop("place")
    conf = compared.sparkSession.conf
    former = conf.get(_GROUP_LIMIT)
    # Up to this many rows of a bucket are chosen before it is shuffled.
    conf.set(_GROUP_LIMIT, str(max(cap, int(former or 0))))
    try:
        found = firsts.sort("bucket", "number").toArrow()
    finally:
        conf.set(_GROUP_LIMIT, former or "1000")
    return Stars.of(large, _array(found, "bucket"), _array(found, "number"))


def _star_pairs(buckets: Buckets, stars: Stars, batches: Iterable[pa.RecordBatch]) -> Batches:
    """The pairs of documents with the centres of their large buckets, each once a document."""
    width = stars.centres.size
    for batch in batches:
        number = _array(batch, "number")
        bucket = buckets.numbers(batch)
        at = np.searchsorted(stars.large, bucket).clip(max=stars.large.size - 1)
        row, column = np.nonzero(stars.large[at] == bucket)
        star = at[row, column]
        earlier = np.searchsorted(stars.centres, number)[row]
        first = stars.offsets[star]
        many = np.searchsorted(stars.keys, star * width + earlier) - first
        for some in _whole_rows(row, many):
            pairs = np.repeat(row[some], many[some]) * width
            pairs += stars.keys[ranges(first[some], many[some])] % width
            pairs.sort()
            pairs = pairs[run_starts(pairs)]
            left, right = stars.centres[pairs % width], number[pairs // width]
            yield from _columns(left=left, right=right)


def _whole_rows(row: I64, many: I64) -> Iterator[slice]:
    """Parts of entries that have about PAIRS_A_BATCH pairs, and all entries of each of their rows.

    row, many: of entries, by row, shape (m,).
    """
    if not many.any():
        return
    counts = np.bincount(row)
    ends = offsets_of(counts)
    for rows in blocks(np.bincount(row, many).astype(np.int64), PAIRS_A_BATCH):
        yield slice(int(ends[rows.start]), int(ends[rows.stop]))


def _numbers(values: Unsigned, at: I64) -> I64:
    """One number for each band and its value; of values beyond 32 bits a hash of both."""
    wide, position = values.astype(np.uint64), at.astype(np.uint64)
    if values.dtype.itemsize == 4:
        both: U64 = position << np.uint64(32) | wide
    else:
        both = avalanche(wide * PRIME64_1 + position)
    return both.view(np.int64)


def _array(batch: Any, name: str) -> I64:
    """A column of whole numbers."""
    found: I64 = batch.column(name).to_numpy().astype(np.int64, copy=False)
    return found


def _columns(**columns: I64) -> Batches:
    """Record batches of some columns, shape (n,) each; none of empty ones."""
    size = len(next(iter(columns.values())))
    for first in range(0, size, PAIRS_A_BATCH):
        arrays = [pa.array(each[first : first + PAIRS_A_BATCH]) for each in columns.values()]
        yield pa.RecordBatch.from_arrays(arrays, names=[*columns])
