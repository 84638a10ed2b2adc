"""Runs that are killed, beside writers, and on clusters that lose nodes: nothing may be lost."""

import contextlib
import itertools
import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.exceptions import StoreUnavailable
from esdedup.models import Document
from esdedup.stores import Cluster as Opened
from esdedup.stores.connection import connection_to
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import all_documents, call, esdedup_command, fill, words, write_lines
from tests.helpers.places import with_tokens
from tests.helpers.processes import SMALL_PAGES, await_true, kill, start_command
from tests.servers.cluster import Cluster
from tests.servers.node import Node
from tests.servers.ports import free_port
from tests.servers.proxy import Proxy

META = IndexMeta(esdedup.Scheme())
CLUSTER_DOCUMENTS = 3_000
SHARDS = {"number_of_shards": 6, "number_of_replicas": 1}

Sources = dict[str, dict[str, Any]]


def texts(count: int) -> Sources:
    return {f"d{n}": {"text": words(n, 10), "n": 0} for n in range(count)}


@dataclass
class Run:
    """A command in a process of its own, given `url` among other addresses."""

    process: subprocess.Popen[str]
    folder: Path
    url: str

    def end(self) -> tuple[int, dict[str, Any]]:
        """The exit status, and the report or nothing."""
        status = self.process.wait(timeout=300)
        lines = (self.folder / "out").read_text().splitlines()
        return status, json.loads(lines[-1]) if lines else {}

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()


Start = Callable[..., Run]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start commands, which end with the test."""
    runs: list[Run] = []

    def start_one(url: str, *arguments: str) -> Run:
        with (tmp_path / "out").open("wb") as out, (tmp_path / "err").open("wb") as err:
            process = start_command(
                *arguments, "--url", url, script=SMALL_PAGES, stdout=out, stderr=err, cwd=tmp_path
            )
        runs.append(Run(process, tmp_path, url.split(",")[0]))
        return runs[-1]

    yield start_one
    for run in runs:
        kill(run.process)


def await_tokens(run: Run, index: str, wanted: float) -> None:
    """Wait until a command that still runs has written this many documents with tokens."""

    def written() -> bool:
        assert run.process.poll() is None, run.err
        return count(run.url, index) >= wanted

    # To count, the server must refresh, which is work.
    await_true(f"{wanted} documents with tokens", written, every=0.3)


def count(url: str, index: str) -> int:
    """The number of documents with tokens."""
    call(url, "POST", f"/{index}/_refresh")
    body = {"query": {"exists": {"field": "esdedup.scheme"}}}
    return int(call(url, "POST", f"/{index}/_count", body)["count"])


def assert_whole(url: str, index: str, written: Sources) -> None:
    """Each document is there as it was written, with the tokens of its text, and no other."""
    found = all_documents(url, index)
    assert found.keys() == written.keys()
    expected = with_tokens([Document(id, source) for id, source in written.items()], META)
    wrong = [(found[one.id], one.source) for one in expected if found[one.id] != one.source]
    assert not wrong, f"{len(wrong)} documents, such as {wrong[0]}"


def adds_up(report: dict[str, Any]) -> bool:
    parts = ("written", "unchanged", "without_text", "gone", "failed")
    return bool(report["read"] == sum(report[part] for part in parts))


def master(cluster: Cluster) -> Node:
    url = cluster.nodes[0].url
    ((name,),) = [list(row.values()) for row in call(url, "GET", "/_cat/master?format=json&h=node")]
    return next(node for node in cluster.nodes if node.name == name)


def reader(cluster: Cluster) -> Node:
    """The node that holds most of an open point in time."""
    stats = call(cluster.nodes[0].url, "GET", "/_nodes/stats/indices/search")["nodes"].values()
    contexts = {each["name"]: each["indices"]["search"]["open_contexts"] for each in stats}
    chosen = max(cluster.nodes, key=lambda node: contexts[node.name])
    assert contexts[chosen.name] > 0
    return chosen


def lose(cluster: Cluster, node: Node) -> str:
    """Kill a node; the address of another."""
    node.kill()
    return next(other.url for other in cluster.nodes if other is not node)


@pytest.mark.nightly
def test_a_cluster_that_loses_a_node(cluster: Cluster, start: Start, tmp_path: Path) -> None:
    urls, documents = ",".join(cluster.urls), texts(CLUSTER_DOCUMENTS)
    first = cluster.urls[0]
    for name in ("made", "bare"):
        call(first, "PUT", f"/{name}", {"settings": SHARDS})
        esdedup_command(first, "attach", "-i", name, "--text-field", "text", status=0)
    single = {**SHARDS, "number_of_replicas": 0}
    call(first, "PUT", "/single", {"settings": single})
    fill(first, "bare", documents)
    call(first, "GET", "/_cluster/health?wait_for_status=green&timeout=60s")

    source = tmp_path / "documents.jsonl"
    lines = [json.dumps({"id": id, **fields}) for id, fields in documents.items()]
    source.write_text("\n".join(lines))
    run = start(urls, "index", str(source), "-i", "made", "--requests", "16")
    await_true("documents", lambda: count(first, "made") > 0)
    assert run.process.poll() is None
    other = lose(cluster, master(cluster))
    status, report = run.end()
    assert status == 0, run.err
    assert report["read"] == report["created"] + report["unchanged"] == CLUSTER_DOCUMENTS
    assert_whole(other, "made", {id: {"id": id, **part} for id, part in documents.items()})

    for node in cluster.nodes:
        if not node.running:
            node.launch()
            node.await_ready(nodes=3)
    call(first, "GET", "/_cluster/health?wait_for_status=green&timeout=60s")
    # So slow that the node is lost in the midst of it.
    run = start(urls, "backfill", "-i", "bare", "--workers", "2", "--max-rate", "500")
    await_tokens(run, "bare", 300)
    assert run.process.poll() is None
    other = lose(cluster, reader(cluster))
    status, report = run.end()
    assert status == 0, run.err
    assert adds_up(report)
    assert report["read"] >= CLUSTER_DOCUMENTS
    assert_whole(other, "bare", documents)
    # A part of an index must never be taken for the whole.
    store = Opened(connection_to(urls, retry_for=0.5))
    with pytest.raises(StoreUnavailable), store.point_in_time("/single"):
        pass
    store.close()


@pytest.mark.parametrize("requests", [pytest.param("1", marks=pytest.mark.nightly), "16"])
@pytest.mark.parametrize(
    "fault",
    [
        # That a killed run is completed by the same command is tested with the command too.
        pytest.param("kill", marks=pytest.mark.nightly),
        "restart",
        "late",
        "storm",
    ],
)
def test_of_each_id_the_last_record_stays(
    killable: Node, start: Start, tmp_path: Path, fault: str, requests: str
) -> None:
    """A tenth of the batches have an id in common with another one nearby."""
    made = [(n - 200 * (n % 500 == 499), words(n, 10)) for n in range(4_000)]
    records = [{"id": f"d{id}", "text": text, "n": n} for n, (id, text) in enumerate(made)]
    write_lines(tmp_path / "records.jsonl", records)
    node, counted = killable, itertools.count(1)
    command = ["index", str(tmp_path / "records.jsonl"), "-i", "made", "--requests", requests]

    def before_bulk() -> None:
        number = next(counted)
        if fault == "late" and number % 8 == 0:
            # About when the request is sent again.
            time.sleep(1.35)
        elif fault == "storm" and number % 8 == 0:
            proxy.fail_next(3, 429)
        elif number == 20 and fault == "kill":
            run.process.kill()
        elif number == 20 and fault == "restart":
            node.kill()
            node.launch()

    with Proxy(node.url, node.product) as proxy:
        proxy.before_bulk = before_bulk
        run = start(proxy.url, *command, "--timeout", "1" if fault == "late" else "60")
        if fault == "kill":
            assert run.process.wait() == -9
            run = start(proxy.url, *command)
        status, report = run.end()
    assert (status, report["read"], report["failed"]) == (0, 4_000, 0), run.err
    assert sum(report[part] for part in ("created", "updated", "unchanged")) == 4_000
    assert_whole(node.url, "made", {str(each["id"]): each for each in records})


@pytest.mark.parametrize("server", ["elasticsearch", "opensearch"])
def test_addresses_that_do_not_answer(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{server}_url")
    urls = ",".join([f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}", url])
    # The order is the client's, by chance.
    for _ in range(5):
        store = Opened(connection_to(urls))
        with contextlib.closing(store):
            assert store.ask("GET", "/_cluster/health")[0] == 200
