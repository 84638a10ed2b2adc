"""`--output` writes the results of pairs and group to a file as a whole, or not at all."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet
import pytest

import esdedup
from esdedup.cli.result_files import ResultFile
from esdedup.files import Tabular, objects_of
from tests.helpers.commands import read_lines, run_command, write_lines
from tests.helpers.full_disk import largest_file

ENDINGS = ["parquet", "arrow", "jsonl"]
METRICS = [["-t", "0.5"], ["--sketch", "simhash"]]


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_lines(folder / "rows.jsonl", [*rows(24), {"id": "alone", "text": "something else"}])
    return folder


def rows(count: int) -> list[dict[str, str]]:
    """Return documents of which many are similar."""
    return [
        {
            "id": f"第{n}",
            "text": f"the council met on monday and voted for {n // 3 * 7} and {n // 2}",
        }
        for n in range(count)
    ]


def rows_of(path: str) -> list[dict[str, Any]]:
    """Return the rows of a file without nulls."""
    if path.endswith(".jsonl"):
        return read_lines(path)
    table = pa.parquet.read_table(path) if "parquet" in path else pa.ipc.open_file(path).read_all()
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize(
    ("metric", "ending"), [*zip(METRICS, ENDINGS, strict=False)], ids=["jaccard", "hamming"]
)
def test_pairs_are_those_of_standard_output(metric: list[str], ending: str) -> None:
    command = ["pairs", "rows.jsonl", "--json", *metric]
    printed = run_command(*command).json
    assert len(printed) > 7
    ran = run_command(*command, "--output", f"pairs.{ending}")
    where = str(Path(f"pairs.{ending}").resolve())
    assert ran.json == [{"documents": 25, "pairs": len(printed), "output": where}]
    assert rows_of(f"pairs.{ending}") == printed
    assert list(rows_of(f"pairs.{ending}")[0]) == list(printed[0])


@pytest.mark.parametrize(
    ("metric", "ending"),
    [*zip([*METRICS, ["--exact"]], ENDINGS, strict=True)],
    ids=["jaccard", "hamming", "exact"],
)
def test_groups_are_those_that_dedup_prints(metric: list[str], ending: str) -> None:
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


@pytest.mark.parametrize("ending", ENDINGS)
def test_each_format_holds_the_rows_of_each_kind_of_table(ending: str) -> None:
    documents = rows(24)
    simhash: dict[str, Any] = {"id": "id", "sketch": "simhash"}
    tables: list[Tabular] = [
        esdedup.pairs(documents, id="id", threshold=0.5),
        esdedup.pairs(documents, **simhash),
        esdedup.group(documents, id="id", threshold=0.5),
        esdedup.group(documents, **simhash),
        esdedup.group([*documents, {**documents[0], "id": "copy"}], id="id", exact=True),
    ]
    for number, table in enumerate(tables):
        ResultFile(Path(f"{number}.{ending}")).write(table)
        objects = [*objects_of(table)]
        assert rows_of(f"{number}.{ending}") == objects != []
        assert list(rows_of(f"{number}.{ending}")[0]) == list(objects[0])


def test_rows_are_the_same_in_batches_of_any_size() -> None:
    texts = [row["text"] for row in rows(24)]
    for table in (esdedup.pairs(texts, threshold=0.5), esdedup.group(texts, threshold=0.5)):
        batches = [*table.arrow_batches(7)]
        assert len(batches) > 1
        assert {batch.num_rows for batch in batches[:-1]} == {7}
        assert pa.Table.from_batches(batches) == table.to_arrow()


class Numbers(Tabular):
    """More rows than a batch has."""

    columns: ClassVar[dict[str, str]] = {"number": "int64"}

    def table_rows(self) -> Iterator[tuple[int]]:
        return ((number,) for number in range(70_000))


@pytest.mark.parametrize("ending", ENDINGS)
def test_all_batches_of_a_large_table_are_written(ending: str) -> None:
    assert len([*Numbers().arrow_batches()]) == 2
    ResultFile(Path(f"numbers.{ending}")).write(Numbers())
    assert [row["number"] for row in rows_of(f"numbers.{ending}")] == [*range(70_000)]


def test_the_file_is_written_as_a_whole_or_not_at_all() -> None:
    Path("pairs.jsonl").touch()
    Path("pairs.jsonl").chmod(0o640)
    # Their pairs are larger than what a run keeps of them.
    write_lines(Path("rows.jsonl"), rows(150))
    with largest_file(200_000):
        ran = run_command("pairs", "rows.jsonl", "-t", "0.3", "--output", "pairs.jsonl")
    assert ran.status == 1
    assert "pairs.jsonl: File too large" in ran.err
    assert Path("pairs.jsonl").read_text() == ""
    run_command("pairs", "rows.jsonl", "-t", "0.3", "-o", "pairs.jsonl", status=0)
    assert Path("pairs.jsonl").stat().st_size > 200_000
    assert rows_of("pairs.jsonl")
    assert stat.S_IMODE(Path("pairs.jsonl").stat().st_mode) == 0o640
    assert not list(Path().glob("*.tmp"))
