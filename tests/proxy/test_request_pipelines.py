"""Requests through the proxy that name an ingest pipeline."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import esdedup
from esdedup.models import FIELD
from tests.conftest import delete_index
from tests.helpers.commands import all_documents
from tests.helpers.http import HTTP
from tests.helpers.pipelines import drop, lowercase, pipeline
from tests.proxy.conftest import NDJSON, Setup

pytestmark = [pytest.mark.xdist_group("proxy"), pytest.mark.on_every_server]

TEXT = "One two three four five six seven"


@pytest.fixture
def index(setup: Setup) -> Iterator[str]:
    name = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    with esdedup.open(setup.direct, name) as opened:
        opened.create()
    yield name
    delete_index(setup.direct, name)


def counted(setup: Setup, outcome: str) -> float:
    page = HTTP.get(f"{setup.proxy.url}/-/metrics").text
    name = f'esdedup_proxy_documents_total{{tokens="{outcome}"}} '
    (line,) = (line for line in page.splitlines() if line.startswith(name))
    return float(line.removeprefix(name))


def bulk(url: str, path: str, lines: list[Any]) -> list[dict[str, Any]]:
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    answer = HTTP.post(f"{url}{path}", content=body, headers=NDJSON)
    answer.raise_for_status()
    return [next(iter(item.values())) for item in answer.json()["items"]]


def test_a_pipeline_of_the_request_is_named(setup: Setup, index: str) -> None:
    with pipeline(setup.direct, lowercase("text"), drop("ctx.id == '2'")) as name:
        before = {outcome: counted(setup, outcome) for outcome in ("added", "pipeline")}
        lines: list[Any] = []
        for id in ("1", "2"):
            lines += [{"index": {"_id": id}}, {"id": id, "text": TEXT}]
        items = bulk(setup.proxy.url, f"/{index}/_bulk?pipeline={name}", lines)
        # The client learns from the server what became of each document.
        assert {item["_id"]: item["result"] for item in items} == {"1": "created", "2": "noop"}
        lines = [{"index": {"_id": "3", "pipeline": name}}, {"id": "3", "text": TEXT}]
        lines += [{"index": {"_id": "4"}}, {"id": "4", "text": TEXT}]
        lines += [{"index": {"_id": "5", "pipeline": "_none"}}, {"id": "5", "text": TEXT}]
        bulk(setup.proxy.url, f"/{index}/_bulk", lines)
        document = f"/{index}/_doc/6?pipeline={name}"
        HTTP.put(f"{setup.proxy.url}{document}", json={"id": "6", "text": TEXT}).raise_for_status()
        stored = all_documents(setup.direct, index)
    assert {id for id, source in stored.items() if source["text"] == TEXT.lower()} == {
        "1",
        "3",
        "6",
    }
    assert all(FIELD in source for source in stored.values())
    counts = {outcome: counted(setup, outcome) - before[outcome] for outcome in before}
    assert counts == {"pipeline": 4, "added": 2}
    warning = f"documents pass the ingest pipeline '{name}' (the parameter pipeline)"
    assert setup.proxy.log.count(warning) == 1


def test_an_action_with_an_odd_pipeline_is_passed_on(setup: Setup, index: str) -> None:
    """The server refuses it, and the proxy does not fail."""
    for value in (7, None, ["p"], {"p": 1}, ""):
        line = {"index": {"_id": "1", "pipeline": value}}
        body = b"".join(
            json.dumps(each).encode() + b"\n" for each in (line, {"id": "1", "text": TEXT})
        )
        answers: list[httpx.Response] = [
            HTTP.post(f"{url}/{index}/_bulk", content=body, headers=NDJSON)
            for url in (setup.direct, setup.proxy.url)
        ]
        assert answers[0].status_code == answers[1].status_code, value
