"""Finds candidate pairs: documents that share a bucket, each with the first ones of the bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from esdedup.pairing.comparison import Reading
from esdedup.search.buckets import Capped
from esdedup.spark.tables import Batches, Tables, mapped
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import I64, U64, Unsigned
from esdedup.text.hashing import PRIME64_1, avalanche

_ROWS_A_SLICE = 10_000
"""Documents of a bucket that one task pairs with the first ones of the bucket."""


@dataclass(frozen=True)
class Buckets:
    """The buckets that documents are in.

    dtype: of a band hash. bands: of a document. stopped: the bucket numbers of the stop list.
    """

    dtype: np.dtype[Any]
    bands: int
    stopped: I64

    @staticmethod
    def of(reading: Reading) -> Buckets:
        """Return the buckets of the documents of a reading."""
        assert reading.sketch is not None
        at, values = stopped_buckets(reading.compared.stop, reading.sketch)
        dtype = np.dtype(reading.dtype)
        return Buckets(dtype, reading.sketch.tokens, _numbers(values.astype(dtype), at))

    def values(self, bands: Sequence[bytes]) -> Unsigned:
        """Return the band hashes of n documents, shape (n, bands)."""
        return np.frombuffer(b"".join(bands), self.dtype).reshape(-1, self.bands)

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield a row for each document and bucket: bucket, number.

        batches: number (bigint), bands (binary).
        """
        for batch in batches:
            values = self.values(batch.column("bands").to_pylist())
            bucket = _numbers(values, np.arange(self.bands)).reshape(-1)
            number = np.repeat(batch.column("number").to_numpy(), self.bands)
            kept = ~np.isin(bucket, self.stopped)
            columns = [pa.array(bucket[kept]), pa.array(number[kept])]
            yield pa.RecordBatch.from_arrays(columns, names=["bucket", "number"])


def candidate_pairs(
    compared: DataFrame, reading: Reading, cap: int, tables: Tables
) -> tuple[DataFrame, Capped]:
    """Return the pairs that share a bucket, and the buckets that the cap truncates.

    compared: number (bigint), bands (binary). cap: a document is paired with at most this many
    documents of a bucket, the first ones. Returns left, right (bigint), left < right, each pair
    once.
    """
    rows = mapped(compared, Buckets.of(reading).rows, "bucket bigint, number bigint")
    bucket = Window.partitionBy("bucket")
    size, place = F.count("*").over(bucket), F.row_number().over(bucket.orderBy("number"))
    placed = rows.withColumns({"size": size, "place": place}).where("size > 1")
    placed = tables.kept("buckets", placed)
    # Large buckets are joined in slices, each with all of the first documents, by several tasks.
    last = F.floor((F.col("size") - 1) / _ROWS_A_SLICE)
    slices = F.explode(F.sequence(F.lit(0).cast("bigint"), last)).alias("slice")
    firsts = placed.where(f"place <= {cap}").select("bucket", slices, F.col("number").alias("left"))
    slice_of = F.floor((F.col("place") - 1) / _ROWS_A_SLICE).alias("slice")
    others = placed.select("bucket", slice_of, F.col("number").alias("right"))
    pairs = firsts.join(others, ["bucket", "slice"]).where("left < right")
    truncated = placed.where(f"place = 1 and size > {cap}")
    found = truncated.agg(F.count("*"), F.max("size")).first()
    assert found is not None
    pairs = tables.kept("candidates", pairs.select("left", "right").distinct())
    return pairs, Capped(found[0], found[1] or 0)


def _numbers(values: Unsigned, at: I64) -> I64:
    """Return one number for each band and its value; a hash of both for values beyond 32 bits."""
    wide, position = values.astype(np.uint64), at.astype(np.uint64)
    if values.dtype.itemsize == 4:
        both: U64 = position << np.uint64(32) | wide
    else:
        both = avalanche(wide * PRIME64_1 + position)
    return both.view(np.int64)
