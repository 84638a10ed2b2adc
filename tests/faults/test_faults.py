"""Runs that are killed, beside writers, and on clusters that lose nodes: nothing may be lost."""

import contextlib
import json
import random
import subprocess
import threading
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
from tests.helpers.commands import call, esdedup_command, fill, words
from tests.helpers.places import with_tokens
from tests.helpers.processes import await_ended, await_true, children, start_command
from tests.servers.cluster import Cluster, start_cluster
from tests.servers.node import Node
from tests.servers.ports import free_port
from tests.servers.provide import ELASTICSEARCH, OPENSEARCH, Server, refusing

DOCUMENTS = 2_000
META = IndexMeta(esdedup.Scheme())
CLUSTER_DOCUMENTS = 3_000
SHARDS = {"number_of_shards": 6, "number_of_replicas": 1}

Sources = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dead letters go there."""
    monkeypatch.chdir(tmp_path)


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
            process = start_command(*arguments, "--url", url, stdout=out, stderr=err, cwd=tmp_path)
        runs.append(Run(process, tmp_path, url.split(",")[0]))
        return runs[-1]

    yield start_one
    for run in runs:
        run.process.kill()
        run.process.wait()


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


def every_document(url: str, index: str) -> Sources:
    """The sources of all documents at one moment."""
    call(url, "POST", f"/{index}/_refresh")
    answer = call(url, "POST", f"/{index}/_search", {"size": 10_000, "track_total_hits": True})
    assert answer["_shards"]["successful"] == answer["_shards"]["total"]
    found = {hit["_id"]: hit["_source"] for hit in answer["hits"]["hits"]}
    assert len(found) == answer["hits"]["total"]["value"]
    return found


def assert_whole(url: str, index: str, written: Sources) -> None:
    """Each document is there as it was written, with the tokens of its text, and no other."""
    found = every_document(url, index)
    assert found.keys() == written.keys()
    expected = with_tokens([Document(id, source) for id, source in written.items()], META)
    wrong = [(found[one.id], one.source) for one in expected if found[one.id] != one.source]
    assert not wrong, f"{len(wrong)} documents, such as {wrong[0]}"


def adds_up(report: dict[str, Any]) -> bool:
    parts = ("written", "unchanged", "without_text", "gone", "failed")
    return bool(report["read"] == sum(report[part] for part in parts))


class Writer(threading.Thread):
    """Changes documents all the while, and keeps its last version of each."""

    def __init__(self, url: str, index: str, written: Sources) -> None:
        super().__init__(daemon=True)
        self.written = dict(written)
        self.changes = 0
        self._ids = list(written)
        self._url, self._path = url, f"/{index}/_bulk"
        self._chance = random.Random(11)
        self._ended = threading.Event()
        self._error: BaseException | None = None

    def finish(self) -> None:
        self._ended.set()
        self.join()
        if self._error is not None:
            raise self._error

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                ids = set(self._chance.sample(self._ids, 10))
                self._send({id: self._change(id) for id in ids})
                time.sleep(0.1)
        except BaseException as error:
            self._error = error

    def _change(self, id: str) -> list[Any]:
        """The lines of some change, which counts as written."""
        self.changes += 1
        number, text = self.changes, words(10**6 + self.changes, 10)
        kind = self._chance.choice(["text", "text", "n", "n", "index", "delete", "create"])
        if kind == "create":
            id = f"new{number}"
            self._ids.append(id)
        elif id not in self.written:
            kind = "index"
        if kind == "delete":
            del self.written[id]
            return [{"delete": {"_id": id}}]
        if kind in ("text", "n"):
            part = {"text": text} if kind == "text" else {"n": number}
            self.written[id] = {**self.written[id], **part}
            return [{"update": {"_id": id}}, {"doc": part}]
        self.written[id] = {"text": text, "n": number, kind: {"by": "writer"}}
        return [{kind: {"_id": id}}, self.written[id]]

    def _send(self, pending: dict[str, list[Any]]) -> None:
        """Until all are accepted: another writer's change in between is a conflict of ours."""
        while pending:
            lines = [line for change in pending.values() for line in change]
            items = call(self._url, "POST", self._path, lines)["items"]
            statuses = [next(iter(item.values()))["status"] for item in items]
            assert set(statuses) <= {200, 201, 409, 429}, items
            refused = zip(pending.items(), statuses, strict=True)
            pending = {id: change for (id, change), status in refused if status >= 400}


def test_killed_runs_beside_a_writer(killable_elasticsearch: Node, start: Start) -> None:
    url, name = killable_elasticsearch.url, "killed"
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    call(url, "PUT", f"/{name}", {"settings": settings})
    before = texts(DOCUMENTS)
    fill(url, name, before)
    assert esdedup_command(url, "attach", "-i", name).status == 0
    arguments = ("backfill", "-i", name, "--workers", "2")
    writer = Writer(url, name, before)
    writer.start()
    for part in (0.001, 0.2):
        wanted = count(url, name) + part * DOCUMENTS
        # So slow that it is killed in the midst of it.
        run = start(url, *arguments, "--max-rate", str(DOCUMENTS // 20))
        await_tokens(run, name, wanted)
        workers = children(run.process)
        assert run.process.poll() is None
        run.process.kill()
        run.process.wait()
        assert len(workers) >= 2
        await_ended(workers)
    assert count(url, name) < DOCUMENTS * 0.95

    changes = writer.changes
    last = start(url, *arguments)
    status, report = last.end()
    # The status depends on whether the writer wrote documents after the last pass.
    assert status == ("run this again" in last.err), last.err
    assert adds_up(report)
    assert writer.is_alive()
    assert writer.changes > changes
    writer.finish()
    for more in ((), ("--stale",)):
        ran = esdedup_command(url, "backfill", "-i", name, *more)
        assert ran.status == 0, ran.err
        assert adds_up(ran.json[0])
        assert esdedup_command(url, "backfill", "-i", name, *more).json[0]["written"] == 0
    assert_whole(url, name, writer.written)


@pytest.fixture(params=[ELASTICSEARCH, OPENSEARCH], ids=str)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Three nodes."""
    server: Server = request.param
    with refusing():
        made = start_cluster(server.product, server.version, tmp_path / "cluster")
    yield made
    for node in made.nodes:
        node.kill()


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
        assert esdedup_command(first, "attach", "-i", name, "--text-field", "text").status == 0
    single = {**SHARDS, "number_of_replicas": 0}
    call(first, "PUT", "/single", {"settings": single})
    fill(first, "bare", documents)
    call(first, "GET", "/_cluster/health?wait_for_status=green&timeout=60s")

    source = tmp_path / "documents.jsonl"
    lines = [json.dumps({"id": id, **fields}) for id, fields in documents.items()]
    source.write_text("\n".join(lines))
    run = start(urls, "index", str(source), "-i", "made")
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
    assert "the point in time that was read is lost" in run.err
    assert adds_up(report)
    assert report["read"] >= CLUSTER_DOCUMENTS
    assert_whole(other, "bare", documents)
    # A part of an index must never be taken for the whole.
    store = Opened(connection_to(urls, retry_for=0.5))
    with pytest.raises(StoreUnavailable), store.point_in_time("/single"):
        pass
    store.close()


@pytest.fixture
def bare(killable_elasticsearch: Node) -> Sources:
    """The documents of the index "only" of the node, which have no tokens yet."""
    url, documents = killable_elasticsearch.url, texts(400)
    settings = {"number_of_shards": 2, "number_of_replicas": 0}
    call(url, "PUT", "/only", {"settings": settings})
    fill(url, "only", documents)
    assert esdedup_command(url, "attach", "-i", "only").status == 0
    return documents


SLOWLY = ("backfill", "-i", "only", "--workers", "2", "--max-rate", "100")


def test_the_only_node_is_restarted(
    killable_elasticsearch: Node, bare: Sources, start: Start
) -> None:
    node = killable_elasticsearch
    run = start(node.url, *SLOWLY)
    await_tokens(run, "only", 20)
    node.kill()
    node.restart()
    status, report = run.end()
    assert status == 0, run.err
    assert adds_up(report)
    assert_whole(node.url, "only", bare)


@pytest.mark.parametrize("server", ["elasticsearch", "opensearch"])
def test_addresses_that_do_not_answer(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{server}_url")
    urls = ",".join([f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}", url])
    # The order is the client's, by chance.
    for _ in range(5):
        store = Opened(connection_to(urls))
        with contextlib.closing(store):
            assert store.ask("GET", "/_cluster/health")[0] == 200
