"""The tasks of Spark together find the pairs that one process finds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.pairing.union_find import follow, singletons
from esdedup.search.buckets import bucket_column, capped, earlier_pairs
from esdedup.spark.candidates import Buckets, Stars, _pairs, _star_pairs
from esdedup.spark.groups import _followers
from esdedup.text.arrays import I64, U64

BANDS = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=14)
SIZES = st.lists(st.integers(0, 5), max_size=30)
CAPS = st.sampled_from([1, 2, 3, 100])
KIND = np.dtype(np.uint32)


def batches(columns: dict[str, I64], sizes: list[int]) -> Iterator[pa.RecordBatch]:
    """Columns in record batches of some sizes, and one of the rest."""
    table = pa.table({name: pa.array(each) for name, each in columns.items()})
    at = 0
    for size in [*sizes, table.num_rows]:
        for batch in table.slice(at, size).to_batches() or [table.schema.empty_table()]:
            if isinstance(batch, pa.RecordBatch):
                yield batch
        at += size


def expected(bands: U64, cap: int) -> tuple[set[tuple[int, int]], list[int]]:
    """The pairs of rows, and the sizes of the buckets that are cut."""
    columns = [bucket_column(band) for band in bands.T]
    left, right = earlier_pairs(columns, range(len(bands)), cap)
    cut = capped(columns, cap)
    return set(zip(left.tolist(), right.tolist(), strict=True)), [cut.buckets, cut.largest]


def found(made: Iterator[pa.RecordBatch]) -> tuple[list[tuple[int, int]], list[int]]:
    rows = [tuple(row.values()) for batch in made for row in batch.to_pylist()]
    sizes = [-left for left, _ in rows if left < 0]
    return [(a, b) for a, b in rows if a >= 0], [len(sizes), max(sizes, default=0)]


@given(BANDS, CAPS, SIZES)
def test_pairs_of_sorted_buckets(rows: list[list[int]], cap: int, sizes: list[int]) -> None:
    bands = np.array(rows, np.uint64)
    numbers = Buckets(KIND, 2, np.empty(0, np.int64)).numbers(of(bands)).reshape(-1)
    number = np.repeat(np.arange(len(bands)), 2)
    order = np.lexsort((number, numbers))
    columns = {"bucket": numbers[order], "number": number[order]}
    pairs, cut = found(_pairs(cap, batches(columns, sizes)))
    assert (set(pairs), cut) == expected(bands, cap)


@given(BANDS, CAPS, SIZES)
def test_pairs_of_stars(rows: list[list[int]], cap: int, sizes: list[int]) -> None:
    bands = np.array(rows, np.uint64)
    buckets = Buckets(KIND, 2, np.empty(0, np.int64))
    numbers = buckets.numbers(of(bands))
    large = np.unique(numbers)
    centres = [np.flatnonzero((numbers == one).any(axis=1))[:cap] for one in large]
    bucket = np.repeat(large, [each.size for each in centres])
    stars = Stars.of(large, bucket, np.concatenate(centres))
    whole, at = of(bands), 0
    parts = []
    for size in [*sizes, len(bands)]:
        parts.append(whole.slice(at, size))
        at += size
    pairs, _ = found(_star_pairs(buckets, stars, parts))
    # A batch gives a pair once, however many buckets it shares.
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected(bands, cap)[0]


def of(bands: U64) -> pa.RecordBatch:
    values = [row.astype(KIND).tobytes() for row in bands]
    return pa.record_batch({"number": np.arange(len(bands)), "bands": values})


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_buckets_of_the_stop_list_are_left_out(kind: type) -> None:
    buckets = Buckets(np.dtype(kind), 2, np.empty(0, np.int64))
    bands: U64 = np.array([[1, 2], [1, 3]], kind)
    batch = pa.record_batch({"number": [0, 1], "bands": [row.tobytes() for row in bands]})
    stopped = Buckets(np.dtype(kind), 2, buckets.numbers(batch)[:1, 0])
    bucket, number = stopped.rows(batch)
    assert number.tolist() == [0, 1]
    assert bucket.tolist() == buckets.numbers(batch)[:, 1].tolist()


EDGES = st.dictionaries(
    st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda edge: edge[0] < edge[1]),
    st.sampled_from([0.5, 0.75, 1.0]),
    max_size=25,
)


@given(EDGES, SIZES)
def test_leaders_are_chosen_as_in_one_process(
    edges: dict[tuple[int, int], float], sizes: list[int]
) -> None:
    ordered = np.array(sorted((right, left, near) for (left, right), near in edges.items()))
    right, left, nearness = ordered.reshape(-1, 3).T
    right, left = right.astype(np.int64), left.astype(np.int64)
    partition = singletons(10)
    follow(partition, left, right, nearness)
    wanted = {row: leader for row, leader in enumerate(partition.tolist()) if row != leader}
    columns = {"root": np.zeros(right.size, np.int64), "left": left, "right": right}
    table = {**columns, "similarity": nearness}
    rows = [row for batch in _followers(batches(table, sizes)) for row in batch.to_pylist()]
    assert {row["number"]: row["head"] for row in rows} == wanted
    assert all(edges[row["head"], row["number"]] == row["similarity"] for row in rows)
