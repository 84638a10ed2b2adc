"""CSV with another delimiter than a comma, at each door that reads files."""

from pathlib import Path

import pytest

import esdedup
from esdedup.exceptions import UsageError
from esdedup.files import Reading
from tests.helpers.commands import Ran, run_command

TEXT = "the council met on monday; and voted for a new bridge"


@pytest.fixture(params=[";", "|", "\t"], ids=["semicolon", "bar", "tab"])
def delimiter(folder: Path, request: pytest.FixtureRequest) -> str:
    """Write a CSV of two similar texts and another one, with this delimiter; and return it."""
    mark: str = request.param
    rows = [("1", f'"{TEXT}"'), ("2", f'"{TEXT.upper()}"'), ("3", "another, text")]
    lines = [f"id{mark}text", *(f"{id}{mark}{text}" for id, text in rows)]
    Path("news.csv").write_text("\n".join(lines) + "\n")
    return mark


def test_every_door_reads_it(delimiter: str) -> None:
    def run(*command: str) -> Ran:
        return run_command(*command, "--delimiter", delimiter, status=0)

    lines = Path("news.csv").read_text("utf-8").splitlines(keepends=True)
    assert [(pair["left"], pair["right"]) for pair in run("pairs", "news.csv").json] == [("1", "2")]
    run("clean", "news.csv", "-o", "clean.csv")
    retained = "".join([*lines[:2], lines[3]])
    assert Path("clean.csv").read_text("utf-8") == retained
    Path("items.jsonl").write_text('{"id": "i", "text": "another text"}\n')
    # Only CSV files have a delimiter.
    run("decontaminate", "news.csv", "--against", "items.jsonl", "-o", "kept.csv")
    assert run("index", "news.csv", "--db", "news.db").json[0]["created"] == 3
    answers = run("similar", "--db", "news.db", "--batch", "news.csv").json
    assert [[match["id"] for match in answer["matches"]] for answer in answers] == [
        ["2"],
        ["1"],
        [],
    ]
    assert run("weights", "news.csv", "-o", "weights.tsv").json[0]["documents"] == 3
    report = esdedup.clean("news.csv", "again.csv", delimiter=delimiter)
    assert (report.documents, report.removed) == (3, 1)
    assert Path("again.csv").read_text("utf-8") == retained
    written = delimiter.replace("\t", r"\t")
    reading = Reading(text_fields=["text"], delimiter=written)
    assert [*reading.texts(["news.csv"])] == [TEXT, TEXT.upper(), "another, text"]


@pytest.mark.parametrize("mark", ["", ";;", '"', "\n"])
def test_what_is_no_delimiter_is_rejected(folder: Path, mark: str) -> None:
    Path("news.csv").write_text("id;text\n1;a\n")
    with pytest.raises(UsageError, match="use one character, such as ;"):
        esdedup.clean("news.csv", "out.csv", delimiter=mark)
    with pytest.raises(UsageError, match="can't be combined with `format` tsv"):
        esdedup.clean("news.csv", "out.csv", delimiter=";", format="tsv")


def test_a_missing_field_names_the_option(folder: Path) -> None:
    Path("news.csv").write_text("id;text\n1;a\n")
    ran = run_command("pairs", "news.csv", status=2)
    assert "There are: id;text. The files may have another --delimiter than a comma" in ran.err
    ran = run_command("similar", "--db", "x.db", "--text", "a", "--delimiter", ";", status=2)
    assert "--delimiter requires --batch" in ran.err
