"""Files that Spark cleans are those of one machine, byte for byte."""

import gzip
import json
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import esdedup.spark
from benchmarks.lib.planted import planted
from esdedup import UsageError
from esdedup.exceptions import StoreError
from esdedup.records.files import BadRecord
from tests.helpers.commands import run_command, write_lines
from tests.spark.sizes import pairing_sizes

# One process starts Spark.
pytestmark = pytest.mark.xdist_group("spark")

Row = dict[str, Any]
OF_BITS = ["--bits", "phash:64"]


def rows(count: int) -> list[Row]:
    """Documents of which some are similar, some equal, and some have no words or id."""
    texts = [*planted(count)[0], "🎉", "🎉", "", ""]
    made: list[Row] = [{"id": f"d{n}", "text": text, "size": n % 7} for n, text in enumerate(texts)]
    for row in made[::5]:
        del row["id"]
    # The same document in several files.
    return [*made, *made[:40]]


def in_thirds(every: Sequence[Row]) -> list[list[Row]]:
    return [[*every[at::3]] for at in range(3)]


def lines(folder: Path) -> list[str]:
    """Three files of JSON lines, one packed, one without records, and one with bad records."""
    for number, some in enumerate(in_thirds(rows(300))):
        # In natural order the last one is third.
        write_lines(folder / f"{(1, 2, 10)[number]}.jsonl", some)
    file = folder / "2.jsonl"
    file.with_suffix(".jsonl.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()
    (folder / "3.jsonl").write_text("\n")
    write_lines(folder / "4.jsonl", [{"text": "a b c"}, "no JSON \udcff", {"id": "b"}, {"text": 1}])
    return [str(folder)]


def tables(folder: Path) -> list[str]:
    """Three Parquet files of several row groups."""
    for number, some in enumerate(in_thirds(rows(300))):
        pq.write_table(pa.Table.from_pylist(some), folder / f"{number}.parquet", row_group_size=40)
    return [str(folder / "*.parquet")]


def fingerprints(folder: Path) -> list[str]:
    """Three files of fingerprints of 64 bits, of which some are near, equal, missing or wrong."""
    rng = random.Random(3)
    codes = [rng.getrandbits(64) for _ in range(120)]
    for code in codes[:60]:
        far = (sum(1 << bit for bit in rng.sample(range(64), n)) for n in rng.sample(range(11), 3))
        codes += [code ^ each for each in far]
    made: list[Row] = [{"phash": f"{code:016x}", "size": n % 7} for n, code in enumerate(codes)]
    made += [{"size": 1}, {"phash": None}, {"phash": "c3d1"}]
    rng.shuffle(made)
    for number, some in enumerate(in_thirds(made)):
        write_lines(folder / f"{number}.jsonl", some)
    return [str(folder)]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "_removed" not in str(path)
    }


@pytest.mark.parametrize(
    ("made", "options"),
    [
        # The run below that resumes has the same files and options.
        pytest.param(lines, [], marks=pytest.mark.nightly),
        (lines, ["--keep", "highest:size", "--against", "held"]),
        # Tables are those of the next case, and components are found in test_frames.py.
        pytest.param(
            *(tables, ["--keep", "longest", "--method", "components", "-t", "0.6"]),
            marks=pytest.mark.nightly,
        ),
        (tables, ["--keep", "last", "--exact"]),
        # Passages are compared in test_frames.py, and files are written as of other sketches.
        pytest.param(
            *(lines, ["--passages", "--sketch", "passages", "--cover", "0.6"]),
            marks=pytest.mark.nightly,
        ),
        (fingerprints, [*OF_BITS, "--distance", "8"]),
        # Distances are those of the case before, and components those of texts.
        pytest.param(
            *(fingerprints, [*OF_BITS, "--keep", "last", "--method", "components"]),
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["first", "against", "components", "exact", "passages", "bits", "bits-components"],
)
def test_shards_are_those_of_one_machine(
    spark: SparkSession,
    made: Any,
    options: list[str],
    tmp_path: Path,
) -> None:
    options = [str(tmp_path / each) if each == "held" else each for each in options] + ["--json"]
    for name in ("in", "held"):
        Path(name).mkdir()
    inputs = made(tmp_path / "in")
    texts = planted(300)[0]
    held = [{"text": f"{text} more"} for text in texts[::10]]
    write_lines(Path("held/a.jsonl"), [*held, *held[:3]])
    local = run_command("clean", *inputs, "-o", "local", *options)
    # Against others, leaders are found in two blocks, and several tasks make their pairs.
    sizes = {"meetings_of_task": 100, "meetings": 400, "meetings_of_row": 0}
    with pairing_sizes(spark, **(sizes if "--against" in options else {})):
        there = run_command("clean", *inputs, "-o", "there", *options, "--engine", "spark")
    assert there.status == local.status
    assert contents(Path("there")) == contents(Path("local"))
    assert len(contents(Path("there"))) == len([*(tmp_path / "in").iterdir()])
    no_texts = {"output": "local", "largest": [], "samples": []}
    assert {**there.json[0], "output": "local"} == {**local.json[0], **no_texts}
    assert 30 < local.json[0]["removed"] < 300
    if "--against" in options:
        assert local.json[0]["against"] > 10
    # Read by pyarrow, as the name tells other programs that it is no data.
    (tmp_path / "there/_removed.parquet").rename("removed")
    listed = pq.read_table("removed").to_pylist()
    run_command("clean", *inputs, "-o", "again", *options, "--removed", "removed.parquet")
    assert listed == pq.read_table("removed.parquet").to_pylist()
    if made is not tables:
        once = Path("clean.dead-letter.jsonl").read_text("utf-8").splitlines()
        assert once[:3] == once[3:6] == once[6:]
    assert not [*Path().glob("*.work*")]


def test_a_run_that_fails_resumes(spark: SparkSession, tmp_path: Path) -> None:
    Path("in").mkdir()
    inputs = lines(tmp_path / "in")
    local = esdedup.clean(inputs, "local")
    # A folder where one file is written fails its tasks.
    Path("out/.10.jsonl.tmp").mkdir(parents=True)
    tables = list[dict[str, int]]()
    for _ in range(2):
        with pytest.raises(StoreError, match=r"out/10\.jsonl"):
            esdedup.spark.clean(spark, inputs, "out")
        files = [file for file in Path().glob("out.work-*/tables/**/*") if file.is_file()]
        tables.append({str(file): file.stat().st_mtime_ns for file in files})
    # All tables but the last were there, and none is written again.
    assert any("/shards/" in name for name in tables[0])
    assert tables[0] == tables[1]
    with pytest.raises(UsageError, match="exists: name another"):
        esdedup.spark.clean(spark, inputs[0], Path("out"), threshold=0.7)
    shutil.rmtree("out/.10.jsonl.tmp")
    bad: list[BadRecord] = []
    resumed = esdedup.spark.clean(spark, inputs, "out", dead_letter=bad.append)
    assert resumed == replace(local, largest=(), samples=())
    assert len(bad) == resumed.failed == 3
    assert Path("out/_removed.parquet").is_dir()
    assert contents(Path("out")) == contents(Path("local"))
    assert {path.name for path in Path().iterdir()} == {"in", "local", "out"}


def test_what_spark_can_not_do_is_refused(spark: SparkSession) -> None:
    write_lines(Path("a.jsonl"), [{"text": "a b c d"}])
    for options, reason in (
        (["-o", "b.jsonl"], "b.jsonl: Spark writes a file for each file: name a folder"),
        (["-o", "-"], "name a folder"),
        (["-o", "s3://bucket/out"], "Spark can't use s3://bucket/out: org.apache.hadoop.fs.Unsup"),
        (["-o", "out", "--split-templates"], "does not support split templates"),
        (["-o", "out", "--against", "all.db"], "compares with files only"),
        (["-o", "out", "--workers", "2"], "--workers can't be combined with --engine spark"),
        (["-o", "out", "--text-field", "body"], "name the field of the text (--text-field)"),
    ):
        done = run_command("clean", "a.jsonl", "--engine", "spark", *options, status=2)
        assert reason in done.err
    assert json.loads(Path("a.jsonl").read_text()) == {"text": "a b c d"}
    assert [path.name for path in Path().iterdir()] == ["a.jsonl"]


# One of the files that are cleaned above has no records either.
@pytest.mark.nightly
def test_files_without_records_and_equal_held_ones(spark: SparkSession) -> None:
    write_lines(Path("a.jsonl"), [{"text": "a b c d"}])
    Path("b.jsonl").write_text("\n")
    write_lines(Path("held.jsonl"), [{"text": "a b c d"}] * 2)
    clean = ("clean", "--engine", "spark", "--dry-run", "--json")
    # `exact` needs fewer jobs.
    for options in (["--exact"], ["--against", "held.jsonl"]):
        done = run_command(*clean, "b.jsonl", *options)
        assert [done.json[0][name] for name in ("documents", "against")] == [0, 0]
    done = run_command(*clean, "a.jsonl", "--exact", status=0)
    assert done.json[0]["kept"] == 1
    assert {path.name for path in Path().iterdir()} == {"a.jsonl", "b.jsonl", "held.jsonl"}
