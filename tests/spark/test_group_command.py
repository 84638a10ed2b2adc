"""esdedup group --engine spark."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import esdedup
from tests.conftest import delete_index
from tests.helpers.commands import all_documents, esdedup_command, run_command, words
from tests.helpers.processes import start_command

# One process starts Spark.
pytestmark = pytest.mark.xdist_group("spark")


KEYS = [9, "10", [1, 2], 10, None, 9.5, 3]
"""The local rule takes no list for a key, and sorts texts of digits after numbers."""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=["elasticsearch", "opensearch"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def names(url: str) -> Iterator[list[str]]:
    """Two indices of the same documents: three groups, and documents that are alone."""
    made = [f"esdedup-spark-{uuid.uuid4().hex[:12]}" for _ in range(2)]
    texts = [words(n // 5 if n < 15 else n, 40) for n in range(40)]
    for name in made:
        with esdedup.open(url, name) as index:
            index.add(
                {"id": f"d{n}", "text": f"{text} {words(100 + n, n % 3)}", "n": KEYS[n % 7]}
                for n, text in enumerate(texts)
            )
    yield made
    for name in made:
        delete_index(url, name)


@pytest.mark.on_every_server
def test_the_groups_of_one_process(spark: SparkSession, url: str, names: list[str]) -> None:
    local, other = names
    options = ("--keep", "newest:n", "--threshold", "0.7")
    here = esdedup_command(url, "group", "-i", local, *options)
    arguments = ("group", "-i", other, "--engine", "spark", *options)
    planned = esdedup_command(url, *arguments, "--dry-run", "--table")
    assert planned.status == 0, planned.err
    assert "12 duplicates in 3 groups, of 40 documents" in " ".join(planned.out.split())
    assert not any("group" in tokens for tokens in of(url, other).values())
    there = esdedup_command(url, *arguments)
    assert there.status == 0, there.err
    assert there.json == [{**here.json[0], "index": other}]
    assert here.json[0]["written"] == 15
    assert of(url, other) == of(url, local)
    again = esdedup_command(url, *arguments)
    assert (again.json[0]["written"], again.json[0]["unchanged"]) == (0, 40)


def of(url: str, name: str) -> dict[str, dict[str, Any]]:
    return {id: source["esdedup"] for id, source in all_documents(url, name).items()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--master", "local[1]"), "--master requires --engine spark"),
        (("--engine", "spark", "--db", "a.db"), "--engine spark requires a cluster (--url)"),
    ],
)
def test_options_that_contradict_each_other(options: tuple[str, ...], message: str) -> None:
    ran = run_command("group", *options)
    assert ran.status == 2
    assert message in ran.err


def ended(url: str, name: str, *options: str, **environment: str) -> tuple[int, str, str]:
    """Run the command in a process without Spark's settings."""
    ours = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    process = start_command(
        "group", "--url", url, "-i", name, "--engine", "spark", *options,
        env={**ours, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_spark_that_does_not_start(elasticsearch_url: str) -> None:
    url, name = elasticsearch_url, f"esdedup-spark-{uuid.uuid4().hex[:12]}"
    with esdedup.open(url, name) as index:
        index.add([{"id": "1", "text": "one two three"}])
    status, out, err = ended(url, name)
    assert (status, out) == (2, "")
    assert "Error: Spark has no master: pass --master" in err
    status, out, err = ended(url, name, "--master", "local[1]", JAVA_HOME="/nonexistent")
    assert (status, out) == (2, "")
    assert "Error: Spark did not start: it needs Java 17 or later" in err
    assert "Traceback" not in err
    delete_index(url, name)


def test_spark_that_is_not_installed(
    elasticsearch_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"esdedup-spark-{uuid.uuid4().hex[:12]}"
    with esdedup.open(elasticsearch_url, name) as index:
        index.add([{"id": "1", "text": "one two three"}])
    for module in list(sys.modules):
        if module.startswith("esdedup.spark"):
            monkeypatch.delitem(sys.modules, module)
        elif module.split(".")[0] == "pyspark":
            monkeypatch.setitem(sys.modules, module, None)
    ran = esdedup_command(elasticsearch_url, "group", "-i", name, "--engine", "spark")
    assert ran.status == 2
    assert "pip install 'esdedup[spark]'" in ran.err
    delete_index(elasticsearch_url, name)
