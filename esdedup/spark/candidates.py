"""Finds candidate pairs, documents that share a bucket, and verifies them exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from esdedup.compare.plan import Plan
from esdedup.search.buckets import Capped, shared_bands
from esdedup.search.scopes import WORDS_OF_FIELDS, instants_of_words, joining_of_words
from esdedup.sketch.comparisons import AnyComparison, TextComparison
from esdedup.sketch.hyperplanes import SignFilter
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import digest_words, operands_of
from esdedup.sketch.within import Within
from esdedup.spark.documents import SparkDocuments
from esdedup.spark.pairing_sizes import PairingSizes
from esdedup.spark.tables import Batches, JobTables, mapped
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import F64, I64, U64, Unsigned, run_starts
from esdedup.text.hashing import PRIME64_1, avalanche

_SIDES = ["left", "right"]
_COMPARED = "left bigint, right bigint, home bigint, similarity double, of_left double"


@dataclass(frozen=True)
class Buckets:
    """The buckets that documents are in.

    sketch: of the documents.
    dtype: of its values.
    masks: of each token, which is in the buckets of these neighbours too.
    stopped: the bucket numbers of the stop list.
    scheme: of the sketch alone.
    comparison: of the documents.
    within: the scope of similar documents, which is part of the numbers of buckets.
    """

    sketch: Sketch
    dtype: np.dtype[np.unsignedinteger]
    masks: list[U64]
    stopped: I64
    scheme: Scheme
    comparison: AnyComparison
    within: Within

    @staticmethod
    def of(plan: Plan) -> Buckets:
        """Return the buckets of the documents of a plan."""
        sketch, dtype = plan.sketch, np.dtype(plan.dtype)
        assert sketch is not None
        bands, values = stopped_buckets(plan.meta.stop, sketch)
        masks = [np.zeros(1, np.uint64)] * sketch.tokens
        if sketch.measure.by_values:
            masks = sketch.masks(plan.limits, sides=2)
        stopped = _numbers(values.astype(dtype), bands)
        return Buckets(sketch, dtype, masks, stopped, plan.scheme, plan.comparison, plan.within)

    @property
    def scope_columns(self) -> list[str]:
        """The columns of `rows` that pairs of one scope agree in, or are near in."""
        times = (f"at{number}" for number in range(len(self.within.windows)))
        return ["scope", *times] if self.within else []

    def values(self, written: Sequence[bytes]) -> Unsigned:
        """Return the values of n documents, shape (n, width)."""
        return np.frombuffer(b"".join(written), self.dtype).reshape(-1, self.sketch.width)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield a row for each document and bucket: bucket, number, and `scope_columns`.

        batches: of `SparkDocuments.compared`.
        """
        for batch in batches:
            if not self.within:
                bucket, row = self._of_bands(batch)
                columns = [pa.array(bucket), batch.column("number").take(pa.array(row))]
                yield pa.RecordBatch.from_arrays(columns, names=["bucket", "number"])
                continue
            filled = batch.filter(batch.column("filled"))
            yield self._in_scope(filled, *self._of_bands(filled))
            wordless = batch.filter(pc.invert(batch.column("filled")))
            yield self._in_scope(wordless, *_of_digests(wordless))

    def _of_bands(self, batch: pa.RecordBatch) -> tuple[I64, I64]:
        """Return buckets by the bands of documents, and the row of the document of each."""
        written = batch.column("bands").to_pylist()
        if self.sketch.varies:
            counts = [len(bands) // self.dtype.itemsize for bands in written]
            bucket = _numbers(self.values(written).reshape(-1), np.zeros(1, np.int64))
            row = np.repeat(np.arange(len(written)), counts)
        else:
            tokens = self.sketch.token_values(self.values(written))
            neighbours = [
                tokens[:, [band]] ^ mask.astype(self.dtype) for band, mask in enumerate(self.masks)
            ]
            bands = np.repeat(np.arange(len(neighbours)), [mask.size for mask in self.masks])
            bucket = _numbers(np.concatenate(neighbours, axis=1), bands).reshape(-1)
            row = np.repeat(np.arange(len(written)), bands.size)
        is_used = ~np.isin(bucket, self.stopped)
        return bucket[is_used], row[is_used]

    def _in_scope(self, batch: pa.RecordBatch, bucket: I64, row: I64) -> pa.RecordBatch:
        """Return rows of buckets of one scope each, of the documents of a batch."""
        width = WORDS_OF_FIELDS + len(self.within.windows)
        written = b"".join(batch.column("scope").to_pylist())
        words = np.frombuffer(written, np.uint64).reshape(-1, width)
        joining = joining_of_words(self.within, words)[row]
        bucket = (avalanche(bucket.view(np.uint64))[:, None] ^ joining).view(np.int64).ravel()
        row = np.repeat(row, joining.shape[1])
        columns = [pa.array(bucket), batch.column("number").take(pa.array(row))]
        # The first word of the values is part of the bucket.
        of_scope = [words[:, 1].view(np.int64), *instants_of_words(words)]
        columns += [pa.array(values[row]) for values in of_scope]
        names = ["bucket", "number", *self.scope_columns]
        return pa.RecordBatch.from_arrays(columns, names=names)


class Placed(NamedTuple):
    """Documents in buckets of two or more.

    rows: bucket, number, size (of the bucket), place (in it, from 1), first (number in it).
    capped: the buckets that the cap truncates.
    meetings: pairs, once for each bucket that they share.
    meetings_of_block: as many of these as one block of documents may have.
    cap: a document is paired with at most this many documents of a bucket, the first ones.
    sizes: how much work is done at once.
    within: the scope of similar documents.
    """

    rows: DataFrame
    capped: Capped
    meetings: int
    meetings_of_block: int
    cap: int
    sizes: PairingSizes
    within: Within

    def blocks(self, first: int, tables: JobTables) -> list[int]:
        """Return the numbers at which blocks of documents begin, from `first` on.

        If pairs are many there are several blocks, each of 16 times the documents before it.
        """
        times = 0
        growth = self.sizes.growth
        while self.meetings > self.meetings_of_block * growth**times:
            times += 1
        if not times:
            return [first]
        fractions = [growth**-power for power in range(times, 0, -1)]
        rows = self.rows.where(f"number >= {first}")
        begins = F.percentile_approx("number", fractions, 10_000).alias("begins")
        blocks = tables.once_table("blocks", rows.agg(begins)).first()
        return sorted({first, *((blocks and blocks[0]) or ())})


def placed_in(compared: DataFrame, buckets: Buckets, cap: int, tables: JobTables) -> Placed:
    """Place documents in their buckets. compared: as of `SparkDocuments.compared`."""
    columns = ["bucket", "number", *buckets.scope_columns]
    rows = mapped(compared, buckets.rows, ", ".join(f"{name} bigint" for name in columns))
    bucket = Window.partitionBy("bucket")
    size, place = F.count("*").over(bucket), F.row_number().over(bucket.orderBy("number"))
    first = F.min("number").over(bucket)
    placed = rows.withColumns({"size": size, "place": place, "first": first}).where("size > 1")
    placed = tables.once_table("buckets", placed)
    is_truncated = F.col("size") > cap
    partners = F.least(F.col("place") - 1, F.lit(cap)).cast("bigint")
    figures = placed.agg(
        F.count_if(is_truncated & (F.col("place") == 1)),
        F.max(F.when(is_truncated, F.col("size"))),
        F.sum(partners),
        F.count("*"),
    ).first()
    assert figures is not None
    capped, largest, meetings, count = figures
    sizes = tables.pairing_sizes
    meetings_of_block = max(sizes.meetings, sizes.meetings_of_row * count)
    truncated = Capped(capped, largest or 0)
    return Placed(placed, truncated, meetings or 0, meetings_of_block, cap, sizes, buckets.within)


def candidate_pairs(
    placed: Placed, lefts: str = "true", rights: str = "true", followers: DataFrame | None = None
) -> DataFrame:
    """Return the pairs that share a bucket: left, right, home (bigint), left < right, each once.

    home: the first document of a small bucket of both, null if they share none.
    lefts, rights: SQL conditions on their number. followers: number, of documents that are no left
    ones.
    """
    sizes = placed.sizes
    rows = placed.rows.where(f"place <= {placed.cap} and {lefts}")
    if followers is not None:
        rows = rows.join(followers, "number", "left_anti")
    # Large buckets are joined in slices, each with all of the first documents, by several tasks.
    last = F.floor((F.col("size") - 1) / sizes.slice)
    slices = F.explode(F.sequence(F.lit(0).cast("bigint"), last)).alias("slice")
    home = F.when(F.col("size") <= sizes.small_bucket, F.col("first")).alias("home")
    conditions = _in_one_scope(placed.within)
    firsts = rows.select(
        "bucket", slices, F.col("number").alias("left"), home, *_scope_of_side(placed, "left")
    )
    slice_of = F.floor((F.col("place") - 1) / sizes.slice).alias("slice")
    seconds = placed.rows.where(rights)
    seconds = seconds.select(
        "bucket", slice_of, F.col("number").alias("right"), *_scope_of_side(placed, "right")
    )
    if placed.meetings > sizes.meetings_of_task:
        tasks = 1 + placed.meetings // sizes.meetings_of_task
        seconds = seconds.repartition(tasks, "bucket", "slice")
    pairs = firsts.join(seconds, ["bucket", "slice"])
    pairs = pairs.where(" and ".join(["left < right", *conditions]))
    return pairs.groupBy("left", "right").agg(F.min("home").alias("home"))


def _scope_of_side(placed: Placed, side: str) -> list[Column]:
    """Return the columns of the scope of a side of pairs."""
    names = [name for name in placed.rows.columns if name == "scope" or name.startswith("at")]
    return [F.col(name).alias(f"{side}_{name}") for name in names]


def _in_one_scope(within: Within) -> list[str]:
    """Return the SQL conditions of pairs of one scope, by the columns of both sides."""
    if not within:
        return []
    lengths = [window.microseconds for window in within.windows]
    # Times are less than half of 63 bits, so no difference overflows.
    conditions = (
        f"abs(left_at{row} - right_at{row}) <= {length}" for row, length in enumerate(lengths)
    )
    return ["left_scope = right_scope", *conditions]


def _of_digests(batch: pa.RecordBatch) -> tuple[I64, I64]:
    """Return buckets by the texts of documents, and the row of the document of each."""
    digests = digest_words(batch.column("digest").to_pylist())
    return np.ascontiguousarray(digests[:, 0]).view(np.int64), np.arange(len(digests))


def _numbers(values: Unsigned, bands: I64) -> I64:
    """Return one number for each band and its value; a hash of both for values beyond 32 bits."""
    wide, position = values.astype(np.uint64), bands.astype(np.uint64)
    if values.dtype.itemsize == 4:
        both: U64 = position << np.uint64(32) | wide
    else:
        both = avalanche(wide * PRIME64_1 + position)
    return both.view(np.int64)


def verified(
    pairs: DataFrame,
    documents: SparkDocuments,
    buckets: Buckets,
    least: float,
    *,
    either: bool = False,
) -> DataFrame:
    """Return the pairs of at least a nearness, which is the similarity, or the negative distance.

    pairs: of `candidate_pairs`. Columns: left, right (bigint), similarity (double), of the right
    document, as in `sketch.comparisons`, and by a directed measure of_left (double).
    either: pairs of which either document is near enough, not only the right one.
    """
    column = "bands" if buckets.sketch.measure.by_values else "text"
    compare = partial(_compared, partial(_nearness, buckets), least, column, either=either)
    dropped = ("home",) if buckets.comparison.sides == 2 else ("home", "of_left")
    return mapped(_met(pairs, documents, column), compare, _COMPARED).drop(*dropped)


def sharing(
    pairs: DataFrame,
    documents: SparkDocuments,
    buckets: Buckets,
    least: int,
    pair_filter: SignFilter | None,
) -> DataFrame:
    """Return the pairs that share at least `least` bands, and that the filter keeps."""
    compare = partial(_compared, partial(_shared, buckets, pair_filter), least, "bands")
    compared = mapped(_met(pairs, documents, "bands"), compare, _COMPARED)
    return compared.drop("similarity", "of_left")


def _met(pairs: DataFrame, documents: SparkDocuments, name: str) -> DataFrame:
    """Return pairs in parts, each with the texts or the bands that it needs, each once.

    Columns: part, number (bigint), `name`, left, right, home (bigint). Rows of a part are together:
    its documents by number, of which left is null, and then its pairs.
    """
    count, sizes = pairs.count(), documents.sizes
    # Pairs of a small bucket go to one part; others to a grid, so that few parts need a document.
    size = documents.bytes / max(1, documents.counts["documents"]) if name == "text" else 0
    number_of_parts = count * max(1 / sizes.pairs, 2 * size / sizes.bytes)
    side = F.lit(1 + math.isqrt(int(number_of_parts)))
    row, column = (F.pmod(F.xxhash64(name), side) for name in _SIDES)
    of_home = F.pmod(F.xxhash64("home"), side * side)
    part = F.when(F.col("home").isNull(), row * side + column).otherwise(of_home)
    pairs = pairs.withColumn("part", part)
    compared = pairs.select("part", F.explode(F.array(*_SIDES)).alias("number")).distinct()
    if name == "text":
        compared = documents.with_texts(compared, is_small=count <= sizes.broadcast)
    else:
        compared = compared.join(documents.table.select("number", name), "number")
    both = compared.unionByName(pairs, allowMissingColumns=True)
    return both.repartition("part").sortWithinPartitions("part", "left", "number")


def _compared(
    measure: Callable[[list[Any], I64, I64], F64 | NDArray[np.int16]],
    least: float,
    name: str,
    batches: Iterable[pa.RecordBatch],
    *,
    either: bool = False,
) -> Batches:
    """Yield the pairs of at least a nearness. batches: of `_met`. either: as of `verified`."""
    for _, runs in groupby(_runs(batches), itemgetter(0)):
        rows = pa.Table.from_batches([run for _, run in runs])
        documents = rows.column("left").null_count
        compared, pairs = rows.slice(0, documents), rows.slice(documents)
        pairs = pairs.select([*_SIDES, "home"])
        numbers = compared.column("number").to_numpy()
        sides = (np.searchsorted(numbers, pairs.column(side).to_numpy()) for side in _SIDES)
        nearness = measure(compared.column(name).to_pylist(), *sides).astype(np.float64)
        pairs = pairs.append_column("similarity", pa.array(nearness[-1]))
        pairs = pairs.append_column("of_left", pa.array(nearness[0]))
        decisive = nearness.max(axis=0) if either else nearness[-1]
        yield from pairs.filter(pa.array(decisive >= least)).to_batches()


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each part of each batch, with the number of the part."""
    for batch in batches:
        part = batch.column("part").to_numpy()
        starts = np.flatnonzero(run_starts(part)).tolist()
        for start, end in pairwise([*starts, part.size]):
            yield int(part[start]), batch.slice(start, end - start)


def _nearness(buckets: Buckets, compared: list[Any], left: I64, right: I64) -> F64:
    """Return the nearness of pairs, shape (sides, pairs). compared: texts, or written bands."""
    comparison = buckets.comparison
    if isinstance(comparison, TextComparison):
        operands = operands_of(compared, buckets.scheme, comparison)
        nearness = comparison.nearness(operands, left, right)
        # Texts without words share buckets with equal ones alone.
        measure = buckets.sketch.measure
        nearness[:, operands.counts[left] == 0] = measure.nearness(measure.equal)
        return nearness
    return comparison.nearness(buckets.values(compared).astype(np.uint64), left, right)


def _shared(
    buckets: Buckets,
    pair_filter: SignFilter | None,
    written: list[bytes],
    left: I64,
    right: I64,
) -> NDArray[np.int16]:
    """Return how many bands pairs share, shape (1, pairs); 0 if the filter leaves them out."""
    bands = buckets.values(written).T
    if pair_filter is None:
        return shared_bands(bands, left, right)[None]
    is_kept = pair_filter.keeps(bands, left, right)
    shared = np.zeros(left.size, np.int16)
    shared[is_kept] = shared_bands(bands, left[is_kept], right[is_kept])
    return shared[None]
