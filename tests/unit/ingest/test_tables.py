"""Tables of any types give the same records in parts of any size, in any process."""

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.records.files import BadRecord, ReadSizes, Record, chunks_of_file, read_records
from esdedup.stores.to_json import ENCODER
from tests.helpers.fuzz import fuzz

TEXTS = st.text(max_size=5) | st.just("long " * 30)
FLOATS = st.floats() | st.floats(-10, 10) | st.sampled_from([0.0, -0.0, 1e16, 9e15, 1e-4, 9e-5])
INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES_BY_TYPE: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.string_view(): TEXTS,
    pa.binary(): st.binary(max_size=3),
    pa.dictionary(pa.int8(), pa.string()): TEXTS,
    pa.dictionary(pa.int32(), pa.binary()): st.sampled_from([b"ab", b"\xff"]),
    pa.dictionary(pa.int8(), pa.timestamp("s", "UTC")): st.integers(0, 2),
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    pa.int64(): INTEGERS,
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): FLOATS,
    pa.float32(): st.floats(width=32),
    pa.decimal128(30, 2): st.decimals(-(10**20), 10**20, places=2),
    pa.timestamp("s"): st.integers(-(2**40), 2**40),
    pa.timestamp("us", "Asia/Tokyo"): INTEGERS,
    pa.date32(): st.dates(),
    pa.duration("ms"): st.integers(0, 10**9),
    pa.list_(pa.string()): st.lists(st.none() | TEXTS, max_size=3),
    pa.list_(pa.float64()): st.lists(FLOATS, max_size=3),
    pa.list_(pa.dictionary(pa.int8(), pa.string())): st.lists(TEXTS, max_size=2),
    pa.map_(pa.string(), pa.int8()): st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=2
    ),
    pa.struct({"a": pa.float64(), "b": pa.list_(pa.string())}): st.fixed_dictionaries(
        {"a": FLOATS, "b": st.lists(TEXTS, max_size=2)}
    ),
}


def array_of(values: list[Any], column_type: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(column_type):
        return pa.array(values, column_type.value_type).dictionary_encode()
    return pa.array(values, column_type)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of a few columns and rows."""
    rows = draw(st.integers(0, 20))
    types = draw(st.lists(st.sampled_from([*VALUES_BY_TYPE]), min_size=1, max_size=4))
    columns = {}
    for number, column_type in enumerate(types):
        values = st.lists(st.none() | VALUES_BY_TYPE[column_type], min_size=rows, max_size=rows)
        columns[f"c{number}"] = array_of(draw(values), column_type)
    return pa.table({"n": range(rows), **columns})


def written(table: pa.Table, path: Path, group: int) -> None:
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=group)
        return
    new = pa.ipc.new_stream if path.suffix == ".ipc" else pa.ipc.new_file
    with new(path, table.schema) as file:
        file.write_table(table, max_chunksize=group)


@fuzz
@given(
    table=tables(),
    name=st.sampled_from(["rows.parquet", "rows.arrow", "rows.ipc"]),
    group=st.sampled_from([1, 7, 100]),
    size=st.sampled_from([50, 1_000]),
    most=st.sampled_from([1, 3, 2_000]),
)
def test_records_do_not_depend_on_parts_and_processes(
    tmp_path: Path, table: pa.Table, name: str, group: int, size: int, most: int
) -> None:
    try:
        written(table, tmp_path / name, group)
    except pa.ArrowNotImplementedError:
        return  # Parquet lacks some types.
    records = [*read_records(str(tmp_path / name))]
    assert [record.line for record in records] == [*range(1, len(table) + 1)]
    for record in records:
        if isinstance(record, Record):
            assert record.json == ENCODER.encode(record.source)
        else:
            assert record.reason
    sizes = ReadSizes(documents=most, bytes=size)
    in_parts: list[Record | BadRecord] = []
    for chunk in chunks_of_file(str(tmp_path / name), sizes=sizes):
        chunk_records = [*chunk.records()]
        assert 0 < len(chunk_records) <= most
        assert repr([*pickle.loads(pickle.dumps(chunk)).records()]) == repr(chunk_records)
        in_parts += chunk_records
    assert repr(in_parts) == repr(records)


@pytest.mark.parametrize("name", ["rows.arrow", "rows.parquet"])
def test_a_part_is_sent_without_the_rest_of_its_batch(tmp_path: Path, name: str) -> None:
    table = pa.table({"text": [f"text {row} " * 20 for row in range(1_000)]})
    written(table, tmp_path / name, 1_000)
    chunks = [*chunks_of_file(str(tmp_path / name), sizes=ReadSizes(bytes=10_000))]
    assert len(chunks) > 10
    assert max(len(pickle.dumps(chunk)) for chunk in chunks) < 40_000


def test_a_group_of_long_texts_is_read_in_parts_of_the_size(tmp_path: Path) -> None:
    """Parts of 32 rows took four times as long, when a row group had more than 32 MB."""
    texts = ["word " * 200 + str(row) for row in range(40_000)]
    written(pa.table({"text": texts}), tmp_path / "rows.parquet", len(texts))
    lengths = [len([*chunk.records()]) for chunk in chunks_of_file(str(tmp_path / "rows.parquet"))]
    assert sum(lengths) == len(texts)
    assert min(lengths[:-1]) > 500
