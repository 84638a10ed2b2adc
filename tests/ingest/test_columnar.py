"""Parquet and Arrow files give the records that JSON lines of the same rows give."""

import datetime
import decimal
import itertools
import json
import re
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from esdedup.exceptions import InputError, UsageError
from esdedup.records.files import (
    BadRecord,
    ReadSizes,
    Record,
    check_file,
    chunks_of_file,
    read_records,
)
from tests.helpers.commands import run_command, write_lines

Write = Callable[[pa.Table, Path], None]


def write_parquet(table: pa.Table, path: Path) -> None:
    pa.parquet.write_table(table, path, row_group_size=7)


def write_file(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table, max_chunksize=5)


def write_stream(table: pa.Table, path: Path) -> None:
    """Write as `datasets.Dataset.save_to_disk` does."""
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table, max_chunksize=5)


WRITERS = [
    (write_parquet, "rows.parquet"),
    (write_file, "rows.arrow"),
    (write_stream, "rows.ipc"),
    (partial(pa.feather.write_feather, compression="zstd"), "rows.feather"),
]
every_kind = pytest.mark.parametrize(("write", "name"), WRITERS)


def sources(path: str, columns: list[str] | None = None) -> list[Any]:
    """The objects of records, and the reasons of bad ones."""
    found = read_records(path, columns=columns)
    return [each.source if isinstance(each, Record) else each.reason for each in found]


def refused(path: str) -> tuple[list[Record | BadRecord], str]:
    """Return the records up to an error, and its message, one line that names the file."""
    found: list[Record | BadRecord] = []
    with pytest.raises((InputError, UsageError), match=rf"^{re.escape(path)}[ :].+$") as caught:
        found.extend(read_records(path))
    assert "\n" not in str(caught.value)
    return found, str(caught.value)


BERLIN = datetime.timezone(datetime.timedelta(hours=2))
NOON = datetime.datetime(2024, 5, 1, 12, 0, 0)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
VALUES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.string(), "第二行\n\U0001f600", "第二行\n\U0001f600"),
    (pa.dictionary(pa.int8(), pa.string()), "x", "x"),
    (pa.null(), None, None),
    (pa.bool_(), True, True),
    (pa.uint64(), 2**64 - 1, 2**64 - 1),
    (pa.float64(), 0.1, 0.1),
    (pa.timestamp("s"), NOON, "2024-05-01T12:00:00"),
    (pa.timestamp("us"), NOON.replace(microsecond=1500), "2024-05-01T12:00:00.001500"),
    (pa.timestamp("ns"), 1, "1970-01-01T00:00:00.000000001"),
    (pa.timestamp("ms", "Europe/Berlin"), NOON.replace(tzinfo=BERLIN), "2024-05-01T10:00:00Z"),
    (pa.date32(), NOON.date(), "2024-05-01"),
    (pa.time64("us"), datetime.time(1, 2, 3, 4), "01:02:03.000004"),
    (pa.time64("ns"), 3_600_000_000_001, "01:00:00.000000001"),
    (pa.list_(pa.time64("ns")), [1, None], ["00:00:00.000000001", None]),
    (pa.struct({"a": pa.time64("ns")}), {"a": 1_000}, {"a": "00:00:00.000001"}),
    (pa.duration("ms"), datetime.timedelta(seconds=2), 2_000),
    (pa.decimal128(10, 2), decimal.Decimal("123456.78"), 123456.78),
    (pa.decimal128(38, 20), decimal.Decimal("0." + "1" * 20), "0." + "1" * 20),
    (pa.decimal128(38, 0), decimal.Decimal(10**30 + 1), 10**30 + 1),
    (pa.binary(), "é".encode(), "é"),
    (pa.binary(2), b"ab", "ab"),
    (pa.uuid(), ID.bytes, str(ID)),
    (pa.list_(pa.int32()), [1, None, 2], [1, None, 2]),
    (pa.list_(pa.timestamp("s"), 2), [NOON, NOON], ["2024-05-01T12:00:00"] * 2),
    (pa.large_list(pa.list_(pa.string())), [["a"], [], None], [["a"], [], None]),
    (pa.map_(pa.string(), pa.date32()), [("a", NOON.date())], {"a": "2024-05-01"}),
    (pa.map_(pa.int32(), pa.bool_()), [(1, True), (2, None)], {"1": True, "2": None}),
    (
        pa.struct({"a": pa.list_(pa.struct({"b": pa.date32()})), "c": pa.int8()}),
        {"a": [{"b": NOON.date()}, None], "c": None},
        {"a": [{"b": "2024-05-01"}, None], "c": None},
    ),
]


@pytest.mark.parametrize(("type", "value", "expected"), VALUES, ids=[str(v[0]) for v in VALUES])
@every_kind
def test_a_value_becomes_what_json_has(
    write: Write, name: str, type: pa.DataType, value: Any, expected: Any
) -> None:
    # pyarrow 25.0.1 can't read a null one from Parquet, which it wrote.
    null = value if pa.types.is_fixed_size_list(type) else None
    array = pa.array([value, null, value], type)
    write(pa.table({"x": array, "n": [1, 2, 3]}), Path(name))
    found = list(read_records(name))
    second = None if null is None else expected
    sources = [{"x": expected, "n": 1}, {"x": second, "n": 2}, {"x": expected, "n": 3}]
    assert [each.source for each in found if isinstance(each, Record)] == sources
    assert [json.loads(each.json or "") for each in found if isinstance(each, Record)] == sources


BAD: list[tuple[Any, str]] = [
    (pa.array([[0.5, float("inf")]]), "the number NaN or Infinity has no place in JSON"),
    (pa.array([[b"\xff"]]), "the column 'x' holds bytes that are not text in UTF-8"),
    (
        pa.array([b"\0\0\x80\x3f"], pa.binary(4)),
        "the column 'x' holds bytes that are not text in UTF-8: write a vector as a list of"
        " numbers, and other bytes in base64",
    ),
    (
        pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xe9")),
        "the column 'x' holds bytes that are not text in UTF-8",
    ),
    (pa.array([2**62], pa.timestamp("s")), "the column 'x' holds a time that is out of range"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
def test_a_row_that_json_lacks_is_refused_alone(bad: Any, reason: str) -> None:
    good = pa.nulls(5, bad.type)
    table = pa.table({"id": list(range(11)), "x": pa.chunked_array([good, bad, good])})
    write_stream(table, Path("rows.arrow"))
    *before, found = list(read_records("rows.arrow"))[:6]
    assert [each.line for each in before if isinstance(each, Record)] == [1, 2, 3, 4, 5]
    assert isinstance(found, BadRecord)
    assert (found.line, found.reason) == (6, reason)
    assert json.loads(found.raw)["id"] == 5
    assert len(sources("rows.arrow")) == 11
    # Other columns are not looked at.
    assert sources("rows.arrow", ["id"]) == [{"id": number} for number in range(11)]


@every_kind
def test_only_the_columns_that_are_asked_for_are_read(write: Write, name: str) -> None:
    table: dict[str, list[Any]] = {
        "id": ["a"],
        "s": [{"text": "deep", "more": {"text": "deeper"}}],
        "d.t": ["dotted"],
        "bad": [b"\xff"],
    }
    write(pa.table(table), Path(name))
    check_file(name, columns=["id", "s.more.text", "d.t", "bad"])
    with pytest.raises(UsageError, match=r"no column 'gone'\. There are: id, s, d.t, bad"):
        check_file(name, columns=["id", "gone"])
    assert sources(name, ["s.text", "d.t", "id", "gone", "s.gone"]) == [
        {"s": table["s"][0], "d.t": "dotted", "id": "a"}
    ]
    assert sources(name, ["gone"]) == [{}]


@every_kind
def test_pieces_are_small_and_complete(write: Write, name: str) -> None:
    texts = ["short", "long " * 100] * 20
    coded = pa.array(texts).dictionary_encode()
    write(pa.table({"text": coded, "id": range(40)}), Path(name))
    read: list[int] = []
    small = ReadSizes(documents=6, bytes=1_200)
    chunks = list(chunks_of_file(name, on_bytes=read.append, sizes=small))
    sizes = [len(list(chunk.records())) for chunk in chunks]
    assert max(sizes) <= 6
    assert len(sizes) >= 10
    assert 0 < sum(read) <= Path(name).stat().st_size
    records = [record for chunk in chunks for record in chunk.records()]
    assert [record.line for record in records] == list(range(1, 41))
    assert records == list(read_records(name))


LONG = "word " * 100_000
BOMBS: dict[str, Callable[[], pa.Array]] = {
    "coded": lambda: pa.array([LONG]).dictionary_encode().take(pa.array([0] * 2_000)),
    "nested": lambda: pa.ListArray.from_arrays(range(2_001), BOMBS["coded"]()),
    "lists": lambda: pa.ListViewArray.from_arrays([0] * 2_000, [1] * 2_000, pa.array([LONG])),
}


@pytest.mark.parametrize(
    ("write", "name", "bomb"),
    [
        *((pa.feather.write_feather, "rows.arrow", bomb) for bomb in BOMBS),
        *((pa.parquet.write_table, "rows.parquet", bomb) for bomb in ("coded", "nested")),
    ],
)
def test_many_rows_that_refer_to_one_long_text(write: Write, name: str, bomb: str) -> None:
    write(pa.table({"text": BOMBS[bomb]()}), Path(name))
    assert Path(name).stat().st_size < 3 * len(LONG)
    before, peak, lines = pa.total_allocated_bytes(), 0, []
    for chunk in itertools.islice(chunks_of_file(name), 25):
        for record in chunk.records():
            assert isinstance(record, Record)
            assert LONG in (record.source["text"], *record.source["text"][:1])
            lines.append(record.line)
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert lines == list(range(1, len(lines) + 1))
    assert len(lines) >= 25
    assert peak < 100 * len(LONG)


@every_kind
def test_a_cut_file_is_told(write: Write, name: str) -> None:
    table = pa.table({"id": [f"d{row}" for row in range(40)], "text": ["one two"] * 40})
    write(table, Path(name))
    whole = Path(name).read_bytes()
    for size in range(0, len(whole) - 8, max(1, len(whole) // 50)):
        Path(name).write_bytes(whole[:size])
        refused(name)


def test_a_stream_must_end_once() -> None:
    write_stream(pa.table({"text": ["one two"] * 40}), Path("rows.arrow"))
    whole = Path("rows.arrow").read_bytes()
    for data, reason in ((whole[:-8], "the mark of the end is missing"), (whole * 2, "more after")):
        Path("rows.arrow").write_bytes(data)
        found, said = refused("rows.arrow")
        assert len(found) == 40
        assert reason in said


@pytest.mark.parametrize("data", [b"", b"PAR1", b"ARROW1\0\0", b'{"id": 1}\n' * 20, b"FEA1" * 9])
@pytest.mark.parametrize("name", ["x.parquet", "x.arrow"])
def test_other_files_are_refused(data: bytes, name: str) -> None:
    Path(name).write_bytes(data)
    assert refused(name)[0] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("pairs - --format parquet", "standard input can't be Parquet or Arrow"),
        ("pairs rows.parquet --encoding latin-1", "--encoding requires text files"),
        ("pairs rows.parquet.gz", "unpack it first"),
        ("pairs rows.parquet --text-field body", "There are: id, text, bytes"),
        ("index rows.parquet --column lable", "There are: id, text, bytes"),
        ("index rows.jsonl --column text", "--column"),
    ],
)
def test_what_does_not_go_with_tables(arguments: str, said: str) -> None:
    write_parquet(
        pa.table({"id": [1], "text": ["a b c"], "bytes": [b"\xff"]}), Path("rows.parquet")
    )
    Path("rows.parquet.gz").write_bytes(b"")
    write_lines(Path("rows.jsonl"), [{"text": "a b c"}])
    ran = run_command(*arguments.split())
    assert ran.status == 2
    assert said in " ".join(ran.err.split())


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    write_parquet(pa.table({"text": ["a b c"]}), Path("rows.parquet"))
    write_lines(Path("rows.jsonl"), [{"text": "a b c"}])
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.setitem(sys.modules, name, None)
    for arguments in (["rows.parquet"], ["rows.jsonl", "--output", "pairs.parquet"]):
        assert "pip install 'esdedup[parquet]'" in run_command("pairs", *arguments).err
    assert run_command("pairs", "rows.jsonl", "--output", "pairs.jsonl").status == 0
