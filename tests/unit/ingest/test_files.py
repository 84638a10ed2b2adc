"""Reading files of any bytes: each record is read, or told, or the end of the file is."""

import csv
import gzip
import itertools
import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from esdedup.exceptions import InputError, UsageError
from esdedup.records.files import (
    BadRecord,
    ReadSizes,
    Record,
    TextFormat,
    _RecordLines,
    chunks_of_file,
    read_records,
)
from tests.helpers.fuzz import fuzz

PARTS = [
    b'{"id": "a", "text": "one two"}',
    '{"text": "第二行 \\ud83d"}'.encode(),
    b'a,b\n1,"of two\nlines"\n2,"open',
    b'"x""y",z\t"q"',
    b"[",
    b"]",
    b'[{"n": 1}, 2, null]',
    b",",
    b"NaN",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\x00",
    b"\xe9\x80",
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"9" * 5_000,
]
content = st.lists(st.sampled_from(PARTS) | st.binary(max_size=8), max_size=12).map(b"".join)


def read(file: Path, format: TextFormat, encoding: str | None) -> list[Record | BadRecord] | None:
    """Return the records of a file, read in chunks and one by one; None if it is rejected."""
    one_by_one: list[Record | BadRecord] = []
    refused = False
    try:
        one_by_one.extend(read_records(str(file), format, encoding))
    except (InputError, UsageError):
        refused = True
    in_chunks: list[Record | BadRecord] = []
    try:
        for chunk in chunks_of_file(
            str(file), format, encoding=encoding, sizes=ReadSizes(bytes=20)
        ):
            in_chunks += chunk.records()
    except (InputError, UsageError):
        assert refused
    assert in_chunks == one_by_one
    return None if refused else in_chunks


def plain(record: Record | BadRecord) -> str:
    """The text of a record of a table."""
    if isinstance(record, Record):
        return " ".join(record.source.values())
    if record.reason.startswith("not valid"):
        return record.raw
    row = json.loads(record.raw)
    return " ".join(row if isinstance(row, list) else [*row, *row.values()])


def words(text: str) -> set[str]:
    return set(re.findall("[0-9A-Za-z]+", text))


@fuzz
@given(
    data=content,
    format=st.sampled_from(get_args(TextFormat)),
    encoding=st.sampled_from([None, None, "utf-16", "utf-8", "big5", "utf-7"]),
)
@example(data=b"\xef", format="jsonl", encoding=None)
@example(data=b'\x80[{"n": 1}, 2, null]', format="jsonl", encoding=None)
def test_nothing_is_lost(
    tmp_path: Path, data: bytes, format: TextFormat, encoding: str | None
) -> None:
    file = tmp_path / "some"
    header = {"csv": b"a,b\n", "tsv": b"a\tb\n"}.get(format, b"") if encoding is None else b""
    file.write_bytes(header + data)
    found = read(file, format, encoding)
    if found is None or encoding is not None:
        return
    text = data.decode("utf-8" if header else "utf-8-sig", "surrogateescape")
    lines = [line for line in text.split("\n") if line.strip()]
    if format == "jsonl" and text.lstrip(" \t\r\n").startswith("["):
        assert len(found) == len(json.loads(text))
    elif format in ("jsonl", "text"):
        assert len(found) == len(lines)
    else:
        assert words(text) <= words("\n".join(map(plain, found)))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), min_size=1)


@fuzz
@given(
    lines=st.lists(texts.filter(lambda text: bool(text.strip()))),
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-16-be", "utf-32", "gb18030"]),
)
def test_text_of_other_encodings_is_read_as_it_is(
    tmp_path: Path, lines: list[str], encoding: str
) -> None:
    file = tmp_path / "some.txt"
    file.write_bytes("\n".join(["first", *lines]).encode(encoding))
    found = list(itertools.islice(read_records(str(file), encoding=encoding), 1, None))
    assert [each.source["text"] for each in found if isinstance(each, Record)] == lines


def test_lines_after_a_long_one_keep_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(['{"a": 1}', "x" * 160, '{"a": 2}', "[3]"]))
    sizes = ReadSizes(documents=2, longest=50)
    chunks = [[*chunk.records()] for chunk in chunks_of_file(str(file), sizes=sizes)]
    found = [[(type(record), record.line) for record in chunk] for chunk in chunks]
    assert found == [[(Record, 1), (BadRecord, 2)], [(Record, 3), (BadRecord, 4)]]


def written_object(pairs: list[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}"


CHARACTERS = ["a", "{", "é", "\u2028", '\\"', "\\\\", "\\n", "\\u0022", "\\u00e9", "\\ud83d"]
CHARACTERS += ["\\ud83d\\ude00", "\\/", "\\x", "\t", "\udc80", '"', "0" * 20, "NaN"]
STRINGS = st.lists(st.sampled_from(CHARACTERS), max_size=3).map(lambda each: f'"{"".join(each)}"')
DIGITS = ["0", "9" * 18, "9" * 19, "18446744073709551615", "18446744073709551616", "9" * 400]
NUMBERS = st.sampled_from(
    [sign + each for sign in ("", "-") for each in (*DIGITS, "01", "1.0", "1e16", "1e-5", "1e400")]
)
VALUES = st.recursive(
    STRINGS | NUMBERS | st.sampled_from(["null", "true", "NaN", "-Infinity", "[" * 300, ""]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
        | st.lists(st.tuples(STRINGS, inner), max_size=3).map(written_object)
        | st.tuples(st.integers(1, 600), inner).map(lambda of: "[" * of[0] + of[1] + "]" * of[0])
    ),
)

OBJECTS = st.lists(st.tuples(st.sampled_from(['"a"', '"b"', '"\\u0061"']), VALUES), max_size=3)


@fuzz
@given(
    lines=st.lists(OBJECTS.map(written_object) | VALUES | st.sampled_from(["", " {} ", "\ufeff{}"]))
)
def test_lines_parsed_together_are_as_parsed_alone(lines: list[str]) -> None:
    read = _RecordLines("f", "jsonl", range(1, len(lines) + 1), lines)
    alone = read(together=False)
    assert repr([*read()]) == repr([*alone])


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.csv", "a.tsv", "a.jsonl.gz"])
@pytest.mark.parametrize("blank", ["\n", "\r\n", " \t\n"])
def test_empty_lines_cost_no_more_than_reading(tmp_path: Path, name: str, blank: str) -> None:
    """They took 7 microseconds each, of which a small compressed file may have a billion."""
    is_table, many = name.endswith(("csv", "tsv")), 100_000
    if is_table and blank == " \t\n":
        return  # A row with one field of spaces.
    record = {"a.txt": "first", "a.csv": "1,first", "a.tsv": "1\tfirst"}
    line = record.get(name, '{"text": "first"}') + "\n"
    header = {"a.csv": "id,text\n", "a.tsv": "id\ttext\n"}.get(name, "")
    content = (header + blank * many + line + blank * many + line).encode()
    file = tmp_path / name
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    def seconds(of: Callable[[], int]) -> float:
        began = time.process_time()
        of()
        return time.process_time() - began

    def read_lines() -> int:
        opener = gzip.open if name.endswith(".gz") else open
        with opener(file, "rt", encoding="utf-8", newline="\n") as stream:
            return sum(1 for _ in stream)

    lines = [record.line for record in read_records(str(file))]
    first = is_table + many + 1
    assert lines == [first, first + many + 1]
    least = min(seconds(read_lines) for _ in range(3))
    assert min(seconds(lambda: len([*read_records(str(file))])) for _ in range(3)) < 8 * least + 0.1


def test_a_record_that_stores_refuse_can_be_read(tmp_path: Path) -> None:
    lines = ['{"a": 1, "a": 2}', '{"a": NaN}', '{"a": ' + "9" * 5_000 + "}", '{"a": [}']
    for name, text in {"a.jsonl": "\n".join(lines), "a.json": f"[{','.join(lines[:2])}]"}.items():
        (tmp_path / name).write_text(text)
        found = [*read_records(str(tmp_path / name))]
        bad = [record for record in found if isinstance(record, BadRecord)]
        assert [record.line for record in bad] == [*range(1, len(found) + 1)]
        assert [record.raw for record in bad] == lines[: len(found)]
        assert bad[0].source == {"a": 2}
        assert [record.source is None for record in bad[1:]] == [False, False, True][: len(bad) - 1]


@pytest.mark.parametrize("bad", ['2\t"a" b\n', '2\t"a b\n3\tc\n', '2\t"a\nb"c"\td\n'])
def test_quotes_of_a_tsv_that_do_not_match_are_an_error(tmp_path: Path, bad: str) -> None:
    file = tmp_path / "a.tsv"
    file.write_text('id\ttext\n1\t"a ""b""\nc\td"\n' + bad)
    records = read_records(str(file))
    with pytest.raises(InputError, match=r"a.tsv, line 4: not valid TSV: .*convert the file"):
        assert [record.line for record in records] == [2]


@fuzz
@given(rows=st.lists(st.lists(st.text('a"\t\n é', max_size=4), min_size=2, max_size=2)))
def test_a_tsv_is_read_as_the_csv_module_writes_it(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    file = tmp_path_factory.mktemp("tsv") / "a.tsv"
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, delimiter="\t").writerows([["id", "text"], *rows])
    found = [[*record.source.values()] for record in read_records(str(file)) if record.source]
    assert found == rows


def test_elements_of_an_array_keep_their_digits_and_are_one_line_each(tmp_path: Path) -> None:
    elements = [
        '{"text": "a \\" b",\n "price": 100.10}',
        '{ "text": "\\u00e9", "n": 1E2 }',
        "7.50",
        "{}",
    ]
    path = tmp_path / "a.json"
    path.write_text("[ " + " ,\n".join(elements) + "]\n")
    *records, _ = read_records(str(path))
    texts = [record.raw if isinstance(record, BadRecord) else record.json for record in records]
    assert texts == ['{"text":"a \\" b","price":100.10}', *elements[1:3]]
    for fault in ("[{}", "[{},", "[{} {}]", "[{}]]", "[", "[,]"):
        path.write_text(fault)
        with pytest.raises(InputError, match=r"a\.json: the array is"):
            [*read_records(str(path))]


finite = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | finite | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=9,
)


@given(st.lists(st.dictionaries(st.text(), values, min_size=1)), st.sampled_from([0, 2, "\t"]))
def test_elements_of_an_indented_array_are_compact(
    elements: list[dict[str, object]], indent: int | str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        path.write_text(json.dumps(elements, ensure_ascii=False, indent=indent), "utf-8")
        records = [*read_records(str(path))]
    compact = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in elements]
    assert [isinstance(record, Record) and record.json for record in records] == compact
    assert [record.source for record in records] == elements
