"""Rows of CSV that are read many at a time are those that the csv module reads."""

import csv
import gzip
import io
import pickle
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from esdedup.exceptions import InputError
from esdedup.records.csv_rows import has_whole_rows, rows_in_text
from esdedup.records.files import BadRecord, ReadSizes, Record, chunks_of_file
from tests.helpers.fuzz import fuzz

PIECES = [*'",;\na \0é\U0001f600\ud800', '""', "\r\n", "\r", "\n\n"]
PIECES += ['"a"', ',"', '",', '"\n', '\n"', "a,b\n", '"x, ""y""\nz",1\n']
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


def read_by_module(text: str, delimiter: str) -> list[tuple[int, list[str]]] | None:
    """Return the rows and their lines, or None if the module refuses the text."""
    reader = csv.reader(io.StringIO(text, newline="\n"), strict=True, delimiter=delimiter)
    rows, line = [], 0
    try:
        for row in reader:
            if row:
                rows.append((line, row))
            line = reader.line_num
    except csv.Error:
        return None
    return rows


@fuzz
@given(text=texts, delimiter=st.sampled_from([",", ";", "\t", "é"]))
@example(text='"",""\n""\n', delimiter=",")
@example(text='a,"b\n\n""",c\n\n"d"\n', delimiter=",")
@example(text='5" pipe,6" pipe\n', delimiter=",")
def test_many_rows_are_as_the_csv_module_reads_them(text: str, delimiter: str) -> None:
    text = text.replace("\r\n", "\n") + "\n"
    by_module = read_by_module(text, delimiter)
    if has_whole_rows(text, delimiter):
        assert [*zip(*rows_in_text(text, delimiter), strict=True)] == by_module
    elif '"' not in text and "\r" not in text:
        pytest.fail("a text without quotes was left to the csv module")


@fuzz
@given(rows=st.lists(st.lists(st.text('ab,"\n é', max_size=4), min_size=1, max_size=3)))
def test_what_the_csv_module_writes_is_read_many_rows_at_a_time(rows: list[list[str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows(rows)
    assert has_whole_rows(out.getvalue() + "\n", ",")


def records_of(path: Path, sizes: ReadSizes) -> tuple[list[Record | BadRecord], str]:
    """Return the records of a file, and the error that ends it."""
    records: list[Record | BadRecord] = []
    try:
        for chunk in chunks_of_file(str(path), sizes=sizes):
            records += pickle.loads(pickle.dumps(chunk)).records()
    except InputError as error:
        return records, str(error)
    return records, ""


@fuzz
@given(
    text=texts,
    name=st.sampled_from(["a.csv", "a.tsv"]),
    size=st.sampled_from([1, 20, 1_000]),
    most=st.sampled_from([1, 3, 2_000]),
    longest=st.sampled_from([3, 1_000]),
)
@example(text='5" pipe,1\n"a\nb",2\n"c",3\n', name="a.csv", size=20, most=3, longest=1_000)
def test_records_do_not_depend_on_parts(
    tmp_path: Path, text: str, name: str, size: int, most: int, longest: int
) -> None:
    """A file of which each chunk is left to the csv module, by a quote, is the reference."""
    delimiter = "\t" if name == "a.tsv" else ","
    body = text.replace(",", delimiter).encode("utf-8", "surrogatepass")
    sizes = ReadSizes(documents=most, bytes=size, longest=longest)
    (tmp_path / name).write_bytes(b"a" + delimiter.encode() + b"b\n" + body)
    records = records_of(tmp_path / name, sizes)
    one_by_one = ReadSizes(documents=1, bytes=1, longest=longest)
    assert repr(records) == repr(records_of(tmp_path / name, one_by_one))
    if longest == 1_000 and (rows := read_by_module_with_ends(body, delimiter)) is not None:
        assert [record.line for record in records[0]] == [line + 2 for line, _ in rows]
        for record, (_, row) in zip(records[0], rows, strict=True):
            if isinstance(record, Record):
                assert [*record.source.values()] == row


def read_by_module_with_ends(body: bytes, delimiter: str) -> list[tuple[int, list[str]]] | None:
    """Return the rows of a file, of whose lines the carriage returns at the end do not count."""
    lines = body.decode("utf-8", "surrogateescape").split("\n")
    return read_by_module("".join(line.rstrip("\r") + "\n" for line in lines), delimiter)


def test_a_file_that_breaks_off_gives_its_rows_first(tmp_path: Path) -> None:
    rows = "".join(f'{row},"text, {row}"\n' for row in range(5_000))
    packed = gzip.compress(f"id,text\n{rows}".encode())
    (tmp_path / "a.csv.gz").write_bytes(packed[: len(packed) // 2])
    records, error = records_of(tmp_path / "a.csv.gz", ReadSizes())
    assert "can't be read to its end" in error
    assert len(records) > 1_000
    assert all(isinstance(record, Record) for record in records)
    assert [record.line for record in records] == [*range(2, len(records) + 2)]
