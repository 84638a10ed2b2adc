"""`esdedup.clean` and `esdedup.decontaminate`: the files that the commands write."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.records.files import BadRecord
from tests.corpus.test_dedup_files import shards
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.indices import open_index


def contents(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder, also those of folders in it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_files_are_those_of_the_command() -> None:
    shards()
    run_command("clean", "in", "-o", "whole", "-t", "0.7", "--keep", "longest", status=0)
    steps = list[tuple[str, int, int]]()
    report = esdedup.clean(
        Path("in"),
        Path("out"),
        threshold=0.7,
        keep="longest",
        progress=lambda *step: steps.append(step),
    )
    assert contents(Path("out")) == contents(Path("whole"))
    assert (report.documents, report.kept + report.removed) == (180, 180)
    assert steps[-1] == ("Writing", 180, 180)
    assert steps[0][0] == "Sketching"
    assert esdedup.CleanReport.open("out") == report
    assert esdedup.clean("in", None, threshold=0.7, keep="longest") == report
    with pytest.raises(esdedup.UsageError, match="out exists"):
        esdedup.clean("in", "out")
    with pytest.raises(esdedup.UsageError, match="there is no such file"):
        esdedup.CleanReport.open("in")


def test_new_files_are_compared_with_old_ones() -> None:
    write_lines(Path("old.jsonl"), [{"text": words(n)} for n in range(9)])
    write_lines(Path("new.jsonl"), [{"text": words(n)} for n in range(5, 20)])
    with open_index("old.db", ({"text": words(n)} for n in range(9))) as index:
        compared: list[str | esdedup.Index] = ["old.jsonl", "old.db", index]
        for number, against in enumerate(compared):
            report = esdedup.clean("new.jsonl", f"out{number}", against=against)
            assert (report.kept, report.against) == (11, 4)
    for name, kept in (("old.jsonl", 9), ("new.jsonl", 11)):
        report = esdedup.clean(name, f"kept-{name}", against="all.sketches", update=True)
        assert report.kept == kept


def test_items_are_found_in_files() -> None:
    item = words(1, 20)
    write_lines(Path("items.jsonl"), [{"text": item}])
    write_lines(Path("in.jsonl"), [{"text": f"{words(2)} {item} {words(3)}"}, {"text": words(4)}])
    report = esdedup.decontaminate(["in.jsonl"], "items.jsonl", "out.jsonl")
    assert (report.kept, report.removed) == (1, 1)
    assert esdedup.CleanReport.open("out.jsonl") == report
    masked = esdedup.decontaminate("in.jsonl", "items.jsonl", "masked", mask=True)
    assert masked.contained is not None
    assert (masked.kept, masked.contained["masked"]) == (2, 1)
    assert item not in Path("masked/in.jsonl").read_text("utf-8")
    for share in (0.0, 1.5):
        with pytest.raises(esdedup.UsageError, match="share"):
            esdedup.decontaminate("in.jsonl", "items.jsonl", "x", share=share)


def test_units_are_counted_in_the_report() -> None:
    write_lines(Path("in.jsonl"), [{"text": "same line\nfirst"}, {"text": "same line\nsecond"}])
    report = esdedup.clean("in.jsonl", "out", unit="line")
    assert report.units is not None
    assert (report.kept, report.units.removed, report.units.changed) == (2, 1, 1)
    assert esdedup.CleanReport.open("out") == report
    with pytest.raises(esdedup.UsageError, match="can't be combined with `unit`"):
        esdedup.clean("in.jsonl", "x", unit="line", exact=True)
    with pytest.raises(esdedup.UsageError, match="can't be combined with `unit`"):
        esdedup.clean("in.jsonl", "x", unit="line", against="in.jsonl")


def test_a_call_that_is_killed_resumes() -> None:
    shards()
    whole = esdedup.clean("in", "whole")

    def kill(step: str, _done: int, _total: int) -> None:
        if step == "Writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        esdedup.clean("in", "out", progress=kill)
    with pytest.raises(esdedup.UsageError, match="unfinished run with another threshold"):
        esdedup.clean("in", "out", threshold=0.9)
    assert esdedup.clean("in", "out") == whole
    assert contents(Path("out")) == contents(Path("whole"))
    assert not Path("out.work").exists()


def test_records_that_can_not_be_read_are_handed_over() -> None:
    write_lines(Path("a.jsonl"), [{"text": "some words"}, "no JSON", {"id": "b"}])
    bad = list[BadRecord]()
    report = esdedup.clean("a.jsonl", "out", dead_letter=bad.append)
    assert [record.line for record in bad] == [2, 3]
    assert (report.failed, report.kept) == (2, 1)


@pytest.mark.parametrize("function", [esdedup.clean, esdedup.decontaminate])
def test_help_explains_each_parameter(function: Any) -> None:
    parameters = inspect.signature(function).parameters
    explained = re.findall(r"^    (\w+): ", function.__doc__, re.M)
    assert explained == [*parameters]
