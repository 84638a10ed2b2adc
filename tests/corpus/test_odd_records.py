"""The table of odd ids and texts in docs/reference/python/index.md: one rule for every reader."""

import csv
import json
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest
import zstandard

import esdedup
from esdedup.compare.file_pairs import FileSets, pairs_in_files
from esdedup.compare.plan import Plan
from esdedup.compare.source import FileSource
from esdedup.records.files import chunks_of_file
from esdedup.runs.run import Run
from tests.helpers.commands import read_lines, run_command
from tests.helpers.indices import open_index
from tests.helpers.packages import imported

TEXTS = [
    "The first train to the airport leaves at a quarter to five.",
    "No ferry leaves the old harbour in winter at all.",
    "Heavy rain fell on the coast, and two roads were closed until noon.",
    "The council met on Monday to discuss the budget for the coming year.",
    "The museum opens its new hall for children on the first of May.",
]
Row = dict[str, Any]
Found = set[tuple[str, str]]
REPEATED: list[Row] = [
    {"id": "r", "text": TEXTS[0]}, {"id": "r", "text": TEXTS[1]}, {"id": "r1", "text": TEXTS[0]},
    {"id": "r2", "text": TEXTS[1]},
]  # fmt: skip
NULLS: list[Row] = [{"id": None, "text": TEXTS[2]}, {"id": "", "text": TEXTS[3]}]
NULLS += [{"id": "n1", "text": TEXTS[2]}, {"id": "n2", "text": TEXTS[3]}]
LONG: list[Row] = [{"id": "é" * 257, "text": TEXTS[4]}, {"id": "l1", "text": TEXTS[4]}]
LONG += [{"id": "k" * 4_000, "text": TEXTS[4]}]
NO_TEXT: list[Row] = [
    {"id": "t", "text": None},
    {"id": "t1", "text": ""},
    {"id": "t2", "text": TEXTS[0]},
]
NUMBERS: list[Row] = [{"id": 7, "text": TEXTS[0]}, {"id": 8, "text": TEXTS[0]}]
LISTS: list[Row] = [{"id": "a", "text": TEXTS[:2]}, {"id": "b", "text": ["\n".join(TEXTS[:2])]}]


def ids_of(pairs: Any) -> Found:
    """Return the pairs, in which a place or a random id is PLACE."""
    place = re.compile(r".*:\d+|[0-9a-f]{32}")
    ids = ([place.sub("PLACE", id) for id in (each.left, each.right)] for each in pairs)
    return {(min(both), max(both)) for both in ids}


def of_add(rows: list[Row]) -> Found:
    with open_index(":memory:", rows) as index:
        return ids_of(index.pairs(threshold=0.8))


def of_index(path: str) -> Found:
    with open_index(":memory:") as index:
        index.ingest(chunks_of_file(path), lambda bad: None)
        return ids_of(index.pairs(threshold=0.8))


def of_pairs(path: str) -> Found:
    limits = esdedup.Limits(threshold=0.8)
    plan = Plan.of_texts(esdedup.Scheme().for_texts(limits), limits)
    with Run.temporary() as work:
        source = FileSource(plan, chunks_of_file(path), lambda _: None)
        return ids_of(pairs_in_files(work, FileSets(source))[0])


def written(kind: str, rows: list[Row]) -> str:
    path = Path(f"odd.{kind}")
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["id", "text"], *(row.values() for row in rows)])
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return str(path)


FRAMES: dict[str, Callable[[list[Row]], Any]] = {
    "list": list,
    "arrow": pa.Table.from_pylist,
    "reader": lambda rows: pa.Table.from_pylist(rows).to_reader(),
    "polars": lambda rows: imported("polars").DataFrame(rows),
    "pandas": pandas.DataFrame,
}
READERS: dict[str, Callable[[list[Row]], Found]] = {"add": of_add}
for kind in ("jsonl", "csv", "parquet"):
    READERS[f"index {kind}"] = lambda rows, kind=kind: of_index(written(kind, rows))  # type: ignore[misc]
    READERS[f"pairs {kind}"] = lambda rows, kind=kind: of_pairs(written(kind, rows))  # type: ignore[misc]
for name, frame in FRAMES.items():
    READERS[name] = lambda rows, frame=frame: ids_of(  # type: ignore[misc]
        esdedup.pairs(frame(rows), id="id", threshold=0.8)
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", READERS)
def test_odd_records_of_each_reader(name: str) -> None:
    read = READERS[name]
    assert read(REPEATED) == {("r", "r2")}
    assert read(NULLS) == {("PLACE", "n1"), ("PLACE", "n2")}
    assert read(NUMBERS) == {("7", "8")}
    if "csv" not in name:
        assert read(LISTS) == {("a", "b")}
    if " " in name:
        assert read(LONG) == read(NO_TEXT) == set()
        return
    with pytest.raises(esdedup.exceptions.RecordError, match="the id is longer than 512 bytes"):
        read(LONG)
    if name == "add":
        with pytest.raises(esdedup.exceptions.RecordError, match="'text' is missing"):
            read(NO_TEXT)
    else:
        assert read(NO_TEXT) == set()


@pytest.mark.xdist_group("spark")
@pytest.mark.nightly
def test_odd_records_on_spark(java: None) -> None:
    imported("pyspark")
    from pyspark.sql import SparkSession

    from esdedup.spark import pairs

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    try:
        for rows, wanted, left_out, repeated in (
            (REPEATED, None, 0, 1),
            (NULLS + LONG + NO_TEXT, set(), 5, 0),
            (NUMBERS, {("7", "8")}, 0, 0),
            (LISTS, {("a", "b")}, 0, 0),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                similar = pairs(spark.createDataFrame(pa.Table.from_pylist(rows)), threshold=0.8)
            found, report = ids_of(similar.table.collect()), similar.report
            assert found == wanted or found in ({("r", "r1")}, {("r", "r2")})
            assert (report.left_out, report.repeated) == (left_out, repeated)
    finally:
        spark.stop()


ODD_LINES = [
    '{"id": 1.0, "text": %s}',
    '{"id": true, "text": %s}',
    '{"id": null, "text": %s}',
    '{"id": {"a": [1, 1]}, "text": %s}',
    '{"id": %s, "text": %%s}' % ("9" * 400),
    '{"id": %s, "text": %%s}' % ("9" * 5_000),
    '{"id": "%s", "text": %%s}' % ("k" * 600),
    '{"id": "a", "id": "b", "text": %s}',
    '{"text": "the first of two values", "text": %s}',
    '{"n": NaN, "text": %s}',
    '{"n": {"x": -Infinity, "x": 1}, "text":  %s }',
]


@pytest.mark.parametrize("kind", ["jsonl", "json"])
@pytest.mark.parametrize("more", [[], ["--workers", "2"], ["--unit", "line"]])
def test_cleaning_files_needs_no_ids(kind: str, more: list[str]) -> None:
    if kind == "json" and more[:1] == ["--unit"]:
        return  # Texts of an array can't be changed.
    texts = [f"{TEXTS[n % 5]} It is number {n} of {n * n} others" for n in range(len(ODD_LINES))]
    lines = [line % json.dumps(text) for line, text in zip(ODD_LINES, texts, strict=True)]
    if kind == "json":
        # Python reads no array with an integer of so many digits.
        lines = [line for line in lines if "9" * 5_000 not in line]
    between = ",\n" if kind == "json" else "\n"
    stays = between.join(lines)
    whole = [f"[{stays}{between}{stays}]", f"[{stays}]"]
    if kind == "jsonl":
        whole = [f"{stays}\n{stays}\n", f"{stays}\n"]
    Path(f"a.{kind}").write_text(whole[0], "utf-8")
    done = run_command("clean", f"a.{kind}", "-o", "out", "--json", *more)
    assert (done.status, done.json[0]["failed"]) == (0, 0), done.err
    assert done.json[0]["removed"] == len(lines)
    assert Path(f"out/a.{kind}").read_text("utf-8") == whole[1]
    if not more:
        packed = Path("out/_removed.jsonl.zst").read_bytes()
        listed = zstandard.ZstdDecompressor().decompressobj().decompress(packed).splitlines()
        ids = [json.loads(line)["original_id"] for line in listed]
        assert ids[:2] == ["1.0", f"a.{kind}:2"]


def test_commands_that_need_ids_reject_odd_ones() -> None:
    lines = [line % json.dumps(TEXTS[0]) for line in ODD_LINES]
    Path("a.jsonl").write_text("\n".join(lines), "utf-8")
    for command in ("index", "pairs"):
        run_command(command, "a.jsonl", "--dead-letter", f"{command}.jsonl", status=1)
        letters = read_lines(f"{command}.jsonl")
        # Null ids are places, and the digits of a whole number are an id.
        assert [each["line"] for each in letters] == [1, 2, 4, 6, 7, 8, 9, 10, 11]
        assert [each["record"] for each in letters][5:] == lines[7:]


def test_masking_changes_the_text_that_was_compared() -> None:
    item = " ".join(f"item{n}" for n in range(20))
    Path("a.jsonl").write_text(
        f'{{"text": "not this", "text": "Before. {item} After it.", "n": NaN}}\n', "utf-8"
    )
    run = ["decontaminate", "a.jsonl", "-o", "out", "--against", "items.jsonl"]
    Path("items.jsonl").write_text(json.dumps({"text": item}) + "\n", "utf-8")
    run_command(*run, "--mask", "--json", status=0)
    assert Path("out/a.jsonl").read_text("utf-8") == (
        '{"text": "not this", "text": "Before. After it.", "n": NaN}\n'
    )
