"""An index that Spark's executors read, and the groups that they write into it."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import esdedup
from esdedup.exceptions import StoreError
from esdedup.spark import groups
from esdedup.spark.cluster import read_index, write_groups
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection, ConnectionSettings
from tests.helpers.commands import all_documents, call, esdedup_command, fill, words
from tests.helpers.indices import fill_index, open_index
from tests.helpers.places import Place
from tests.helpers.processes import await_true
from tests.servers.node import Node
from tests.servers.proxy import Answer, Proxy, Received, point_in, product_of

# One process starts Spark.
pytestmark = pytest.mark.xdist_group("spark")

SHARDS = {"number_of_shards": 3, "number_of_replicas": 0}
GROUPED_BUT_ID = ("digest", "group", "original", "similarity")
GROUPED = "id string, digest string, group string, original string, similarity double"
NOTHING: dict[str, Any] = {"group": None, "original": None, "similarity": None}


def made(url: str, name: str, documents: int) -> None:
    """Make an index of documents that are unlike each other."""
    call(url, "PUT", f"/{name}", {"settings": SHARDS})
    fill_index(
        Place(url, name), ({"id": f"d{n}", "text": words(n, 10), "n": n} for n in range(documents))
    )


def ours(url: str, name: str) -> dict[str, dict[str, Any]]:
    """The fields that are written beside the tokens, by id."""
    names = ("group", "original", "similarity")
    found = {id: source["esdedup"] for id, source in all_documents(url, name).items()}
    return {id: {key: tokens.get(key) for key in names} for id, tokens in found.items()}


def wanted(ids: Sequence[str], sizes: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Groups of these sizes, of the first ids, and what is written of each document."""
    marks = dict.fromkeys(ids, NOTHING)
    left = list(ids)
    for size in sizes:
        head, *others = left[:size]
        left = left[size:]
        marks[head] = {**NOTHING, "group": head}
        for other in others:
            marks[other] = {"group": head, "original": head, "similarity": 0.875}
    return marks


def grouped(
    spark: SparkSession, url: str, name: str, marks: dict[str, dict[str, Any]]
) -> DataFrame:
    """The rows that `groups` would return."""
    found = {id: source["esdedup"]["digest"] for id, source in all_documents(url, name).items()}
    rows = [(id, found[id], *marks[id].values()) for id in marks]
    return spark.createDataFrame(rows, GROUPED).repartition(2)


@pytest.mark.on_every_server
def test_documents_are_read_once(
    spark: SparkSession, url: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call(url, "PUT", f"/{name}", {"settings": SHARDS})
    odd = {"day": 0, "m": [1, 2], "tag": "a", "o": {"p": "q"}}
    with open_index(
        Place(url, name), ({"id": f"d{n}", "text": words(n, 10)} for n in range(60))
    ) as index:
        index.add([{"id": "odd", "text": "some words of it", **odd}])
        scanned = index.store.scan(["text"], index.meta)
        expected = {each.id: each.source for page in scanned for each in page}
    # Another client writes half a pair of surrogates below the tokens.
    half = {"doc": {"text": "one \ud83d two"}}
    call(url, "POST", f"/{name}/_update/d8?refresh=true", half)
    expected["d8"] = {"text": "one \ufffd two"}
    # A server without security accepts any credentials.
    secret: ConnectionSettings = {"username": "someone", "password": "s3cret-word"}
    fields = ["day", "m", "tag", "o.p", "none"]
    df = read_index(spark, url, name, fields=fields, slices=3, **secret)
    call(url, "PUT", f"/{name}/_doc/later?refresh=true", {"text": "a later document"})
    call(url, "DELETE", f"/{name}/_doc/d7?refresh=true")
    assert df.rdd.getNumPartitions() == 3
    rows = {row["id"]: row for row in df.collect()}
    assert df.count() == len(rows)
    assert {id: {"text": row["text"]} for id, row in rows.items()} == expected
    assert rows["odd"].asDict() == {
        "id": "odd", "text": "some words of it", "day": "0", "m": "[1, 2]", "tag": "a",
        "o.p": "q", "none": None,
    }  # fmt: skip
    df.explain(extended=True)
    assert "s3cret-word" not in capsys.readouterr().out


def test_an_index_is_grouped_by_its_scheme(spark: SparkSession, url: str, name: str) -> None:
    scheme = esdedup.Scheme(shingling=esdedup.Shingling("char", 4))
    with open_index(
        Place(url, name),
        (
            {"id": str(n), "title": words(n % 40, 4), "body": f"{words(n % 40, 12)} {n}", "n": n}
            for n in range(100)
        ),
        scheme=scheme,
        text_field=["title", "body"],
    ) as index:
        local = index.groups(threshold=0.7, keep="last:n")
        df = read_index(spark, url, name, fields=["n"])
        found = groups(df.withColumn("n", df["n"].cast("int")), threshold=0.7, keep="last:n")
        assert write_groups(found.table, url, name).written == 100
        report = index.group(threshold=0.7, keep="last:n")
        index.judgements.judge("0", "40", "different")
        with pytest.raises(esdedup.UsageError, match="has judgements"):
            write_groups(found.table, url, name)
    assert (local.duplicates, report.marks.written, report.marks.unchanged) == (60, 0, 100)
    assert found.report.basis == local.basis


@pytest.mark.on_every_server
def test_documents_of_one_id_in_two_indices_are_two(
    spark: SparkSession, url: str, name: str
) -> None:
    first, second = f"{name}-000001", f"{name}-000002"
    mappings = {"properties": {"text": {"type": "text"}}}
    for index_name, is_written in ((first, False), (second, True)):
        aliases = {name: {"is_write_index": is_written}}
        body = {"settings": SHARDS, "mappings": mappings, "aliases": aliases}
        call(url, "PUT", f"/{index_name}", body)
    esdedup_command(url, "attach", "-i", name, "--text-field", "text", status=0)
    fill(url, first, {"1": {"text": words(1), "o": {"p": 1}}, "2": {"text": words(2)}})
    fill(url, second, {"1": {"text": words(1).upper(), "o": {"p": 2}}, "3": {"text": words(2)}})
    esdedup_command(url, "backfill", "-i", name, status=0)
    df = read_index(spark, url, name, fields=["o.p"], slices=3)
    rows = {row["id"]: row["o.p"] for row in df.collect()}
    assert rows == {f"{first}/1": "1", f"{second}/1": "2", "2": None, "3": None}
    digest = all_documents(url, first)["1"]["esdedup"]["digest"]
    group, ids = f"{first}/1", (f"{first}/1", f"{second}/1")
    marks = [(ids[0], digest, group, None, None), (ids[1], digest, group, group, 1.0)]
    table = spark.createDataFrame(marks, GROUPED)
    assert write_groups(table, url, name).written == 2
    assert ours(url, first)["1"] == {**NOTHING, "group": group}
    assert ours(url, second)["1"] == {"group": group, "original": group, "similarity": 1.0}


def test_a_point_in_time_that_is_gone(spark: SparkSession, url: str, name: str) -> None:
    made(url, name, 3)
    closed = list[str]()

    def close(request: Received, answer: Answer) -> None:
        if (point := point_in(request, answer)) is not None:
            is_elasticsearch = request.path.endswith("/_pit")
            path, body = "/_search/point_in_time", {"pit_id": [point]}
            call(url, "DELETE", *(("/_pit", {"id": point}) if is_elasticsearch else (path, body)))
            closed.append(point)

    with Proxy(url, product_of(url)) as proxy:
        proxy.on_answer = close
        read = read_index(spark, proxy.url, name)
        gone = read.selectExpr("id", *(f"cast(null as string) `{each}`" for each in GROUPED_BUT_ID))
        with pytest.raises(StoreError, match=r" is lost.*\. Read the index again"):
            write_groups(gone, url, name)
    assert closed


def test_groups_are_written(spark: SparkSession, url: str, name: str) -> None:
    made(url, name, 60)
    ids = [f"d{n}" for n in range(60)]
    marks = wanted(ids, [20, 3, 2])
    df = grouped(spark, url, name, marks).cache()
    with esdedup.open(url, name) as index:
        # d1 and d25 have other texts by now, d2 and d50 are deleted.
        index.add({"id": id, "text": f"another text of {id}"} for id in ("d1", "d25"))
        index.delete(["d2", "d50"])
    expected = ChangeReport(read=60, written=23, unchanged=33, stale=4)
    assert write_groups(df, url, name) == expected
    left = {id: marks[id] for id in ids if id not in ("d2", "d50")}
    assert ours(url, name) == {**left, "d1": NOTHING}
    again = ChangeReport(read=60, written=0, unchanged=56, stale=4)
    assert write_groups(df, url, name) == again

    smaller = wanted([*left], [2])
    df = grouped(spark, url, name, smaller)
    assert write_groups(df, url, name).written == 23
    assert ours(url, name) == smaller
    assert write_groups(df, url, name, collapse_ready=True).written == 56
    alone = {id: {**NOTHING, "group": id} for id in left}
    assert ours(url, name) == {**alone, "d1": smaller["d1"]}


def test_indices_without_the_fields_are_left_out_with_a_warning(
    spark: SparkSession, url: str, name: str
) -> None:
    made(url, f"{name}-1", 3)
    call(url, "PUT", f"/{name}-2")
    for index in (f"{name}-1", f"{name}-2"):
        call(url, "PUT", f"/{index}/_alias/{name}")
    with pytest.warns(UserWarning, match=f"index '{name}-2' has no esdedup fields"):
        df = read_index(spark, url, name, slices=1)
    assert df.count() == 3


def test_arguments_are_checked(spark: SparkSession, url: str) -> None:
    df = spark.createDataFrame([("a",)], "id string")
    with pytest.raises(esdedup.UsageError, match="no column 'digest'"):
        write_groups(df, url, "none")
    with pytest.raises(esdedup.exceptions.IndexNotFound):
        read_index(spark, url, "none")
    with pytest.raises(esdedup.UsageError, match="the column 'text' is there already"):
        read_index(spark, url, "none", fields=["text"])


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Python gets rows as they come, and not 10,000 or 64 KiB of them at once."""
    settings = {"arrow.maxRecordsPerBatch": 40, "pandas.udf.buffer.size": 256}
    for name, value in settings.items():
        spark.conf.set(f"spark.sql.execution.{name}", value)
    yield
    for name in settings:
        spark.conf.unset(f"spark.sql.execution.{name}")


def stopping(
    url: str, name: str, then: Callable[[], None], guard: Path, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Pass on three batches; when one is written, act once, in an executor."""
    waiting = iter(batches)
    yield from islice(waiting, 3)

    def written() -> bool:
        call(url, "POST", f"/{name}/_refresh")
        body = {"query": {"exists": {"field": "esdedup.group"}}}
        return bool(call(url, "POST", f"/{name}/_count", body)["count"])

    if not guard.exists():
        await_true("groups are written", written, 30, every=0.1)
        guard.touch()
        then()
    yield from waiting


def kill_worker() -> None:
    """Kill the Python process of this task."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor() -> None:
    """Kill the executor whose Python worker this is: the parent of its parent."""
    ps = ["ps", "-o", "ppid=", "-p", str(os.getppid())]
    os.kill(int(subprocess.run(ps, stdout=subprocess.PIPE, check=True).stdout), signal.SIGKILL)


# With --all only, executors are processes of their own.
@pytest.mark.parametrize(
    "kill", [kill_worker, pytest.param(kill_executor, marks=pytest.mark.nightly)]
)
def test_a_process_of_spark_is_killed_while_groups_are_written(
    spark: SparkSession,
    url: str,
    name: str,
    tmp_path: Path,
    small_batches: None,
    kill: Callable[[], None],
) -> None:
    write_300(
        spark, Connection((url,)), name, partial(stopping, url, name, kill, tmp_path / "acts")
    )


# That writes of groups survive a server that starts again is shown by tests of `group` too.
@pytest.mark.nightly
def test_the_server_is_killed_while_groups_are_written(
    spark: SparkSession, killable_elasticsearch: Node, tmp_path: Path, small_batches: None
) -> None:
    node, name = killable_elasticsearch, "grouped"
    guard, restarted = tmp_path / "guard", tmp_path / "restarted"
    wait = partial(await_true, "the server is restarted", restarted.exists)
    # A node that starts again beside other tests may take minutes.
    patient = Connection((node.url,), retry_for=1_200)
    with ThreadPoolExecutor() as pool:
        stop = partial(stopping, node.url, name, wait, guard)
        writing = pool.submit(write_300, spark, patient, name, stop)
        await_true("some groups are written", lambda: guard.exists() or writing.done())
        node.kill()
        node.restart()
        restarted.touch()
        writing.result()


def write_300(
    spark: SparkSession,
    connection: Connection,
    name: str,
    stop: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
) -> None:
    """Write the groups of 300 documents, stopping once. All are written then."""
    (url,) = connection.urls
    made(url, name, 300)
    marks = wanted([f"d{n}" for n in range(300)], [100, 150, 2])
    df = grouped(spark, url, name, marks)
    report = write_groups(df.mapInArrow(stop, GROUPED), connection, name)
    assert report.read == report.written + report.unchanged == 300
    assert 0 < report.written <= 252
    assert ours(url, name) == marks
    assert write_groups(df, connection, name) == ChangeReport(read=300, unchanged=300)
