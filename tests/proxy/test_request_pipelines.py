"""Requests through the proxy that name an ingest pipeline.

Apart from `test_pipelines`, because a proxy writes few warnings of one form.
"""

import json
from typing import Any

import httpx
import pytest

from esdedup.models import FIELD
from tests.helpers.commands import all_documents
from tests.helpers.http import HTTP
from tests.helpers.pipelines import drop, lowercase, pipeline
from tests.proxy.conftest import NDJSON, Setup, metric

pytestmark = [pytest.mark.xdist_group("proxy"), pytest.mark.on_every_server]

TEXT = "One two three four five six seven"


def counted(setup: Setup, outcome: str) -> float:
    return metric(setup.proxy, f'documents_total{{tokens="{outcome}"}}')


def bulk(url: str, path: str, lines: list[Any]) -> list[dict[str, Any]]:
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    answer = HTTP.post(f"{url}{path}", content=body, headers=NDJSON)
    answer.raise_for_status()
    return [next(iter(item.values())) for item in answer.json()["items"]]


def test_a_pipeline_of_the_request_is_named(setup: Setup, place_of_tokens: str) -> None:
    with pipeline(setup.direct, lowercase("text"), drop("ctx.id == '2'")) as name:
        before = {outcome: counted(setup, outcome) for outcome in ("added", "pipeline")}
        lines: list[Any] = []
        for id in ("1", "2"):
            lines += [{"index": {"_id": id}}, {"id": id, "text": TEXT}]
        items = bulk(setup.proxy.url, f"/{place_of_tokens}/_bulk?pipeline={name}", lines)
        # The client learns from the server what became of each document.
        assert {item["_id"]: item["result"] for item in items} == {"1": "created", "2": "noop"}
        lines = [{"index": {"_id": "3", "pipeline": name}}, {"id": "3", "text": TEXT}]
        lines += [{"index": {"_id": "4"}}, {"id": "4", "text": TEXT}]
        lines += [{"index": {"_id": "5", "pipeline": "_none"}}, {"id": "5", "text": TEXT}]
        bulk(setup.proxy.url, f"/{place_of_tokens}/_bulk", lines)
        document = f"/{place_of_tokens}/_doc/6?pipeline={name}"
        HTTP.put(f"{setup.proxy.url}{document}", json={"id": "6", "text": TEXT}).raise_for_status()
        stored = all_documents(setup.direct, place_of_tokens)
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


def test_a_pipeline_changes_what_an_update_writes_whole(setup: Setup, place_of_tokens: str) -> None:
    """It is counted for each update whose tokens the pipeline can make stale."""
    sources: dict[str, dict[str, Any]] = {
        "upsert": {"doc": {"n": 1}, "upsert": {"text": TEXT}},
        "doc": {"doc": {"text": TEXT}, "doc_as_upsert": True},
        "both": {"doc": {"text": TEXT}, "upsert": {"text": TEXT}},
        "update": {"doc": {"text": TEXT}},
        "no": {"doc": {"text": TEXT}, "doc_as_upsert": False},
    }
    there = [line for id in ("update", "no") for line in ({"index": {"_id": id}}, {"n": 1})]
    bulk(setup.direct, f"/{place_of_tokens}/_bulk", there)
    lines = [line for id in sources for line in ({"update": {"_id": id}}, sources[id])]
    with pipeline(setup.direct, lowercase("text")) as name:
        before = counted(setup, "pipeline")
        written = bulk(setup.proxy.url, f"/{place_of_tokens}/_bulk?pipeline={name}", lines)
        assert [item["status"] // 100 for item in written] == [2] * 5
        stored = all_documents(setup.direct, place_of_tokens)
    changed = {id for id, source in stored.items() if source["text"] == TEXT.lower()}
    assert {"upsert", "both"} <= changed <= {"upsert", "both", "doc"}
    assert counted(setup, "pipeline") - before == 3


def test_an_action_with_an_odd_pipeline_is_passed_on(setup: Setup, place_of_tokens: str) -> None:
    """The server refuses it, and the proxy does not fail."""
    for value in (7, None, ["p"], {"p": 1}, ""):
        line = {"index": {"_id": "1", "pipeline": value}}
        body = b"".join(
            json.dumps(each).encode() + b"\n" for each in (line, {"id": "1", "text": TEXT})
        )
        answers: list[httpx.Response] = [
            HTTP.post(f"{url}/{place_of_tokens}/_bulk", content=body, headers=NDJSON)
            for url in (setup.direct, setup.proxy.url)
        ]
        assert answers[0].status_code == answers[1].status_code, value
