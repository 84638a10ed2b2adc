"""`--output` writes the results of pairs and group to a file as a whole, or not at all."""

import json
import stat
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import esdedup.cli.result_files
import esdedup.tabular
from esdedup.cli.output import json_line
from tests.helpers.commands import run_command, write_lines

ENDINGS = ["parquet", "arrow", "jsonl"]
METRICS = [["-t", "0.5"], ["--sketch", "simhash"]]


@pytest.fixture(autouse=True)
def folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(esdedup.tabular, "_ROWS_AT_ONCE", 7)
    rows = [
        {
            "id": f"第{n}",
            "text": f"the council met on monday and voted for {n // 3 * 7} and {n // 2}",
        }
        for n in range(24)
    ]
    write_lines(folder / "rows.jsonl", [*rows, {"id": "alone", "text": "something else"}])
    return folder


def rows_of(path: str) -> list[dict[str, Any]]:
    """Return the rows of a file without nulls."""
    if path.endswith(".jsonl"):
        return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    table = pa.parquet.read_table(path) if "parquet" in path else pa.ipc.open_file(path).read_all()
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize("metric", METRICS, ids=["jaccard", "hamming"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_pairs_are_those_of_standard_output(ending: str, metric: list[str]) -> None:
    command = ["pairs", "rows.jsonl", "--json", *metric]
    printed = run_command(*command).json
    assert len(printed) > 7
    ran = run_command(*command, "--output", f"pairs.{ending}")
    where = str(Path(f"pairs.{ending}").resolve())
    assert ran.json == [{"documents": 25, "pairs": len(printed), "output": where}]
    assert rows_of(f"pairs.{ending}") == printed
    assert list(rows_of(f"pairs.{ending}")[0]) == list(printed[0])


@pytest.mark.parametrize("metric", [*METRICS, ["--exact"]], ids=["jaccard", "hamming", "exact"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_groups_are_those_that_dedup_prints(ending: str, metric: list[str]) -> None:
    run_command("index", "rows.jsonl")
    name = f"groups.{ending}"
    for command in (["group"], ["group", "--dry-run"]):
        Path(name).unlink(missing_ok=True)
        ran = run_command(*command, *metric, "--output", name, "--json")
        assert (ran.status, ran.json[0]["output"]) == (0, str(Path(name).resolve())), ran.err
        wanted = [
            {"group": group["keep"], **member}
            for group in run_command("dedup", *metric).json
            for member in ({"id": group["keep"]}, *group["duplicates"])
        ]
        assert rows_of(name) == wanted != []


def test_the_file_is_written_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("pairs.jsonl").touch()
    Path("pairs.jsonl").chmod(0o640)
    lines = 0

    def fail(row: dict[str, Any]) -> str:
        nonlocal lines
        lines += 1
        if lines == 2:
            raise OSError(28, "No space left on device")
        return json_line(row)

    with monkeypatch.context() as patch:
        patch.setattr(esdedup.cli.result_files, "json_line", fail)
        ran = run_command("pairs", "rows.jsonl", "--output", "pairs.jsonl")
    assert ran.status == 1
    assert "No space left on device" in ran.err
    assert Path("pairs.jsonl").read_text() == ""
    assert run_command("pairs", "rows.jsonl", "-o", "pairs.jsonl").status == 0
    assert rows_of("pairs.jsonl")
    assert stat.S_IMODE(Path("pairs.jsonl").stat().st_mode) == 0o640
    assert not list(Path().glob("*.tmp"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pairs.csv", "end the name in .parquet, .arrow, .jsonl, .jsonl.gz or .jsonl.zst"),
        ("rows.jsonl", "the command reads this file"),
        ("folder.parquet", "Is a directory"),
        ("gone/pairs.parquet", "there is no folder gone"),
        ("", "--output is empty"),
    ],
)
def test_a_file_that_can_not_be_written_is_told_first(name: str, said: str) -> None:
    Path("folder.parquet").mkdir()
    before = Path("rows.jsonl").read_bytes()
    ran = run_command("pairs", "rows.jsonl", "--output", name)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err
    assert Path("rows.jsonl").read_bytes() == before
