"""Sessions of Spark Connect, and of Spark 3.5, return what one process does."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import esdedup
from benchmarks.lib.planted import planted
from tests.helpers.commands import write_lines
from tests.spark.program import METHODS, THRESHOLD

# One process starts Spark.
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.nightly]

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["remote", "3.5"])
def test_results_are_those_of_one_process(java: None, tmp_path: Path, kind: str) -> None:
    path, environment = [str(ROOT)], {**os.environ, "PYSPARK_PYTHON": sys.executable}
    if kind == "3.5":
        # The rest of the packages is that of this environment.
        install = [sys.executable, "-m", "pip", "install", "-q", "--target", "older"]
        subprocess.run([*install, "--no-deps", "pyspark==3.5.*", "py4j==0.10.9.7"], check=True)
        path.insert(0, str(tmp_path / "older"))
        # Java 17 is the newest for it: that of the PATH.
        del environment["JAVA_HOME"]
    texts = [*planted(300)[0], "🎉", "🎉", ""]
    rows: list[dict[str, Any]] = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    write_lines(Path("in.jsonl"), rows)
    environment["PYTHONPATH"] = os.pathsep.join(path)
    program = [sys.executable, "-m", "tests.spark.program", "in.jsonl", "out.json", kind]
    subprocess.run(program, check=True, env=environment)
    found = json.loads(Path("out.json").read_text("utf-8"))
    assert (found["version"] < "4") == (kind == "3.5")
    assert not found["left"]
    pairs = esdedup.pairs(rows, id="id", threshold=THRESHOLD)
    assert found["pairs"] == sorted(
        [pair.left, pair.right, pair.similarity, pair.equal] for pair in pairs
    )
    for method in METHODS:
        of_one = esdedup.group(rows, id="id", threshold=THRESHOLD, method=method)
        head, ids = of_one.representative, of_one.ids
        wanted = {ids[row]: ids[head[row]] for row in of_one.duplicate_rows.tolist()}
        assert {row[0]: row[2] for row in found[method] if row[2]} == wanted
    assert len(found["kept"]) == len(rows) - len(wanted)


def test_workers_without_the_package_are_named(java: None, tmp_path: Path) -> None:
    # A Python that has PySpark's packages, but not esdedup.
    bare = tmp_path / "bare"
    (bare / "esdedup").mkdir(parents=True)
    reason = "No module named 'esdedup'"
    module = f'raise ModuleNotFoundError("{reason}", name="esdedup")\n'
    (bare / "esdedup" / "__init__.py").write_text(module)
    python = tmp_path / "python"
    script = f'#!/bin/sh\nPYTHONPATH="{bare}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    python.write_text(script)
    python.chmod(0o755)
    write_lines(Path("in.jsonl"), [{"id": "a", "text": "one text of all"}])
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "esdedup", "clean", "in.jsonl", "-o", "out"]
    command += ["--engine", "spark"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    last = ended.stderr.splitlines()[-1]
    assert "the Python of Spark's workers has no esdedup: set PYSPARK_PYTHON" in last
