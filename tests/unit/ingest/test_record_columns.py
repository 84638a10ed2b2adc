"""Records that are read by columns become the documents that they become one by one."""

import csv
import json
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from esdedup import MinHash, Scheme
from esdedup.compare.plan import Plan
from esdedup.compare.source import ReadChunk, read_chunk
from esdedup.exceptions import EsdedupError
from esdedup.records.documents import (
    document_columns,
    documents_of,
    encoded,
    encoded_columns,
)
from esdedup.records.files import Chunk, ReadSizes, chunks_of_file
from esdedup.sketch.limits import Limits
from esdedup.stores.mapping import IndexMeta
from tests.unit.ingest.test_files import OBJECTS, written_object
from tests.unit.ingest.test_tables import VALUES_BY_TYPE, array_of, written

SCHEME = Scheme([MinHash(permutations=6, bands=2, rows=3)])
META = IndexMeta(SCHEME, ("text",))
PLAN = Plan.of_texts(SCHEME, Limits(threshold=0.8))
any_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = st.sampled_from(["one two three", "", "a\\u00e9\\n b", "\u7b2c\u4e8c", '5" x', "esdedup"])
IDS = TEXTS | st.sampled_from(["1", "x" * 513]) | st.integers(-(2**63), 2**63 - 1) | st.none()
FIELDS = st.fixed_dictionaries(
    {"text": TEXTS | TEXTS | TEXTS | st.none() | st.integers(0, 3)},
    optional={
        "id": IDS,
        "n": st.integers(0, 3) | st.floats(),
        "esdedup": st.just({"group": "a"}),
        "esdedup.group": st.just("a"),
    },
)
LINES = st.builds(json.dumps, FIELDS, ensure_ascii=st.booleans())


def check_chunk(chunk: Chunk, id_field: str | None) -> bool:
    """Compare what a chunk becomes with what its records become; whether it has columns."""
    records = [*chunk.records()]
    one_by_one = Chunk(partial(list, records))
    for is_numbered in (False, True):
        read = partial(read_chunk, PLAN, id_field, is_numbered=is_numbered)
        assert described(read(chunk)) == described(read(one_by_one))
    columns = chunk.columns(with_json=True)
    if columns is None:
        return False
    assert repr([*columns.records()]) == repr(records)
    documents, bad = documents_of(records, META, id_field)
    in_columns = document_columns(columns, META, id_field)
    if in_columns is None:
        return False
    assert not bad
    assert in_columns.texts == [document.text for document in documents]
    assert {in_columns.have_own_ids} == {document.has_own_id for document in documents}
    with_tokens = encoded_columns(in_columns, META)
    if with_tokens is None:
        assert "esdedup" in repr(records)
        return False
    assert with_tokens == encoded(documents, META)
    return True


def described(read: ReadChunk) -> str:
    part = read.part
    assert part.texts is not None
    columns = [*part.ids], [*part.texts], part.digests.tolist(), part.values.tolist()
    places = None if part.places is None else [*part.places.names]
    return repr((columns, places, read.bad, read.lines.tolist(), read.files))


def check_file(path: Path, id_field: str | None, sizes: ReadSizes = ReadSizes()) -> list[bool]:  # noqa: B008
    """Compare each chunk of a file; which ones have columns."""
    are_in_columns = []
    try:
        for chunk in chunks_of_file(str(path), sizes=sizes):
            are_in_columns.append(check_chunk(chunk, id_field))
    except EsdedupError:
        pass
    return are_in_columns


@any_folder
@given(
    lines=st.lists(LINES | OBJECTS.map(written_object), min_size=1, max_size=5),
    id_field=st.sampled_from([None, "id", "n", "path"]),
    longest=st.sampled_from([30, 10_000]),
)
@example(lines=['{"text": "\\ud83d"}'], id_field=None, longest=100)
def test_lines_of_json(
    tmp_path: Path, lines: list[str], id_field: str | None, longest: int
) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(lines), "utf-8", "surrogateescape")
    check_file(tmp_path / "a.jsonl", id_field, ReadSizes(documents=3, longest=longest))


@any_folder
@given(
    rows=st.lists(st.lists(TEXTS, min_size=1, max_size=3), min_size=1, max_size=6),
    header=st.sampled_from([["id", "text"], ["text"], ["text", "esdedup", "id"]]),
    broken=st.sampled_from([b"", b"\xff,b\n", b'"open', b"a,b,c\n"]),
)
def test_rows_of_csv(
    tmp_path: Path, rows: list[list[str]], header: list[str], broken: bytes
) -> None:
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    with (tmp_path / "a.csv").open("ab") as out:
        out.write(broken)
    check_file(tmp_path / "a.csv", None, ReadSizes(bytes=20))


@any_folder
@given(
    column_type=st.sampled_from([*VALUES_BY_TYPE]),
    values=st.data(),
    rows=st.lists(TEXTS, min_size=1, max_size=6),
    name=st.sampled_from(["rows.parquet", "rows.arrow"]),
    beside=st.sampled_from(["id", "text", "n", "esdedup"]),
)
def test_rows_of_tables(
    tmp_path: Path,
    column_type: pa.DataType,
    values: st.DataObject,
    rows: list[str],
    name: str,
    beside: str,
) -> None:
    strategy = st.none() | VALUES_BY_TYPE[column_type]
    column = values.draw(st.lists(strategy, min_size=len(rows), max_size=len(rows)))
    table = pa.table({"text": rows, beside: array_of(column, column_type)})
    if beside == "text":
        table = table.drop_columns(["text"]).append_column("text", array_of(column, column_type))
    try:
        written(table, tmp_path / name, 4)
    except pa.ArrowNotImplementedError:
        return  # Parquet lacks some types.
    check_file(tmp_path / name, None, ReadSizes(documents=3))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet"])
@pytest.mark.parametrize("id", ["str", "int", "none"])
def test_usual_records_are_read_by_columns(tmp_path: Path, name: str, id: str) -> None:
    ids = {"str": ["a", "b"], "int": [1, 2], "none": []}[id]
    columns = {"id": ids, "text": ["one, two", "a\nb \u7b2c"], "n": [1, 2]}
    table = pa.table({name: values for name, values in columns.items() if values})
    if name == "a.parquet":
        written(table, tmp_path / name, 10)
    elif name == "a.csv":
        with (tmp_path / name).open("w", encoding="utf-8", newline="") as file:
            rows = [row.values() for row in table.to_pylist()]
            csv.writer(file, lineterminator="\n").writerows([table.column_names, *rows])
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in table.to_pylist()]
        (tmp_path / name).write_text("\n".join(lines), "utf-8")
    assert check_file(tmp_path / name, None) == [True]
