"""The tasks of Spark together find the pairs that one process finds."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.pairing.union_find import follow, singletons
from esdedup.spark.candidates import Buckets
from esdedup.spark.groups import _followers
from esdedup.text.arrays import I64, U64

SIZES = st.lists(st.integers(0, 5), max_size=30)


def batches(columns: dict[str, I64], sizes: list[int]) -> Iterator[pa.RecordBatch]:
    """Columns in record batches of some sizes, and one of the rest."""
    table = pa.table({name: pa.array(each) for name, each in columns.items()})
    at = 0
    for size in [*sizes, table.num_rows]:
        yield from table.slice(at, size).to_batches()
        at += size


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_buckets_of_the_stop_list_are_left_out(kind: type) -> None:
    bands: U64 = np.array([[1, 2], [1, 3]], kind)
    batch = pa.record_batch({"number": [0, 1], "bands": [row.tobytes() for row in bands]})
    (every,) = Buckets(np.dtype(kind), 2, np.empty(0, np.int64)).rows([batch])
    assert every.column("number").to_pylist() == [0, 0, 1, 1]
    bucket = every.column("bucket").to_numpy()
    assert bucket[0] == bucket[2]
    assert len(set(bucket.tolist())) == 3
    (kept,) = Buckets(np.dtype(kind), 2, bucket[:1]).rows([batch])
    assert kept.column("number").to_pylist() == [0, 1]
    assert kept.column("bucket").to_pylist() == bucket[1::2].tolist()


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
    mixed = np.random.default_rng(right.size).permutation(right.size)
    table = {"left": left[mixed], "right": right[mixed], "similarity": nearness[mixed]}
    rows = [row for batch in _followers(batches(table, sizes)) for row in batch.to_pylist()]
    assert {row["number"]: row["head"] for row in rows} == wanted
    assert all(edges[row["head"], row["number"]] == row["similarity"] for row in rows)
