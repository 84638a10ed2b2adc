"""Bulk writes into real servers that refuse: too large, wrong type, closed, blocked."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

import esdedup
from esdedup.ingest.ingest import ingest
from esdedup.records.files import BadRecord, Record, chunks_of_records
from esdedup.stores import BulkPolicy
from esdedup.stores.concurrency import Window
from esdedup.stores.elastic.answers import Action, AnswerReader
from esdedup.stores.elastic.bulk import write_actions
from esdedup.stores.elastic.retry import Retries
from tests.helpers.commands import call
from tests.helpers.indices import open_index
from tests.helpers.places import Place
from tests.servers.node import Node

NAME = "bulk"


@pytest.fixture
def index(killable: Node) -> Iterator[esdedup.Index]:
    """An index on a node that takes requests of at most 10 MB."""
    policy = BulkPolicy(bytes=30_000_000)
    with open_index(Place(killable.url, NAME), policy=policy, retry_for=0.1) as made:
        yield made


def test_what_a_server_refuses(killable: Node, index: esdedup.Index) -> None:
    # Two requests' worth for the server, one for the policy: halved until it fits.
    large = [{"id": str(n), "text": f"{n} one{'word' * 60_000}"} for n in range(60)]
    too_large = {"id": "giant", "text": "word" * 2_800_000}
    wrong = {"id": "wrong", "text": "fits", "day": "no day"}
    call(killable.url, "PUT", f"/{NAME}/_mapping", {"properties": {"day": {"type": "date"}}})
    letters: list[BadRecord] = []
    given = [*large, too_large, wrong]
    records = (Record("file", line, source) for line, source in enumerate(given, 1))
    report = ingest(index.store, lambda: index.meta, chunks_of_records(records), letters.append)
    assert (report.read, report.created, report.failed) == (62, 60, 2)
    reasons = {json.loads(letter.raw)["id"]: letter.reason for letter in letters}
    assert "larger than the server accepts" in reasons["giant"]
    assert "day" in reasons["wrong"]
    index.store.refresh()
    assert index.statistics().documents == 60

    call(killable.url, "POST", f"/{NAME}/_close")
    for work in (
        lambda: index.add([{"id": "1", "text": "x"}]),
        lambda: list(index.pairs()),
        lambda: index.similar("x"),
        index.statistics,
    ):
        with pytest.raises(esdedup.exceptions.StoreError, match="closed"):
            work()
    call(killable.url, "POST", f"/{NAME}/_open")
    call(killable.url, "DELETE", f"/{NAME}")
    with pytest.raises(esdedup.exceptions.IndexNotFound):
        index.similar("x")


def test_chunks_by_count_and_bytes() -> None:
    sent: list[list[bytes]] = []

    def send(body: bytes) -> dict[str, Any]:
        lines = body.splitlines(keepends=True)
        sent.append(lines)
        return {"items": [{"index": {"status": 201, "result": "created"}} for _ in lines]}

    actions = [
        Action(str(n), str(n), "t", b"x" * size + b"\n")
        for n, size in enumerate([5, 5, 5, 90, 5, 5])
    ]
    policy = BulkPolicy(actions=3, bytes=40)
    reader = AnswerReader("here", lambda name, index: False)
    report = write_actions(actions, send, policy, Retries(0), reader, Window())
    assert report.created == 6
    assert [[len(line) - 1 for line in lines] for lines in sent] == [[5, 5, 5], [90], [5, 5]]
