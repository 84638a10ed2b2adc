"""Files in S3 that Spark cleans, by the command as a user runs it, are those of one machine."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from moto.server import ThreadedMotoServer

from benchmarks.lib.planted import planted
from tests.helpers.commands import run_command
from tests.helpers.processes import await_ended, await_true, children

# One process starts Spark.
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
JARS = Path(pyspark.__path__[0], "jars")
UNFETCHED = re.compile(r"UNRESOLVED DEPENDENCIES|FAILED DOWNLOADS")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server of S3 with a bucket, which the environment names."""
    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("SPARK_LOCAL_IP", host)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    found = fsspec.filesystem("s3", skip_instance_cache=True, use_listings_cache=False)
    found.mkdir("bucket")
    yield found
    # All servers of a process share their buckets.
    found.rm("bucket", recursive=True)
    server.stop()


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the command by `spark-submit`, with the S3 client of its version of Hadoop."""
    (client,) = JARS.glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    command = [str(Path(pyspark.__path__[0], "bin/spark-submit")), "--master", "local[2]"]
    command += ["--packages", f"org.apache.hadoop:hadoop-aws:{version}"]
    command += ["--conf", f"spark.jars.ivy={folder / 'jars'}", "--conf", "spark.ui.enabled=false"]
    command += [str(ROOT / "esdedup/__main__.py"), "clean", "--engine", "spark", *arguments]
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, text=True, **pipes)


def finished(started: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a command has written. Skip the test if packages can't be fetched."""
    out, err = started.communicate()
    if started.returncode and UNFETCHED.search(err):
        pytest.skip(
            "hadoop-aws can't be fetched: " + next(filter(UNFETCHED.search, err.split("\n")))
        )
    return out, err


def test_shards_in_s3_are_those_of_one_machine(java: None, s3: Any, tmp_path: Path) -> None:
    texts = planted(300)[0]
    rows = [{"id": f"d{n}", "text": text} for n, text in enumerate([*texts, *texts[:40]])]
    Path("in").mkdir()
    for number in range(3):
        file = f"in/{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows[number::3]), file, row_group_size=40)
        s3.put_file(file, f"bucket/{file}")
    local = run_command("clean", "in/*.parquet", "-o", "local", "--removed", "r.parquet", "--json")
    assert local.json[0]["removed"] > 40

    command = "s3a://bucket/in/*.parquet", "-o", "s3a://bucket/out", "--json"
    killed = start(tmp_path, *command)
    written = "bucket/out.work-*/tables/documents/_SUCCESS"
    await_true("documents are numbered", lambda: killed.poll() is not None or s3.glob(written))
    tasks = children(killed)
    killed.kill()
    finished(killed)
    await_ended(tasks)
    assert not s3.exists("bucket/out")
    assert s3.glob(written)
    again = start(tmp_path, *command)
    out, err = finished(again)
    assert again.returncode == 0, out + err[-2000:]
    # spark-submit writes both streams of the command to its standard output.
    report = json.loads(out.splitlines()[-1])
    for name in ("documents", "kept", "removed", "groups"):
        assert report[name] == local.json[0][name]
    for path in Path("local").glob("*.parquet"):
        assert s3.cat(f"bucket/out/{path.name}") == path.read_bytes()
    (listed,) = s3.glob("bucket/out/_removed.parquet/*.parquet")
    with s3.open(listed) as file:
        removed = json.dumps(pq.read_table(file).to_pylist()).replace("s3a://bucket/", "")
    assert json.loads(removed) == pq.read_table("r.parquet").to_pylist()
    assert {name.split("/")[1] for name in s3.find("bucket")} == {"in", "out"}
