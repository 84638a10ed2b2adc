"""Test servers have pipelines, and Elasticsearch the modes of an index, as full ones have."""

from typing import Any

import pytest

from tests.helpers.commands import all_documents, call
from tests.helpers.pipelines import (
    REFUSED,
    Processor,
    copy_field,
    drop,
    fail,
    html_strip,
    lowercase,
    pipeline,
    remove,
    rename,
    set_field,
)
from tests.servers.modules import require_index_mode, require_pipelines

TEXT = "<b>Some</b> Text"


@pytest.mark.on_every_server
def test_processors_do_what_they_do_on_full_servers(url: str, name: str) -> None:
    require_pipelines(url)
    steps: dict[str, Processor] = {
        "dropped": drop("ctx.id == 'dropped'"),
        "refused": fail("ctx.id == 'refused'"),
        "renamed": copy_field(url, "other", "_id", "ctx.id == 'renamed'"),
        "moved": set_field("_index", f"{name}-other", "ctx.id == 'moved'"),
        "stripped": html_strip("text", "ctx.id == 'stripped'"),
        "lowered": lowercase("text", "ctx.id == 'lowered'"),
        "elsewhere": rename("text", "body", "ctx.id == 'elsewhere'"),
        "removed": remove("text", "ctx.id == 'removed'"),
        "lacking": drop("ctx.text == null"),
        "plain": set_field("kind", "plain", "ctx.id != 'removed'"),
    }
    with pipeline(url, *steps.values()) as steps_of_all:
        call(url, "PUT", f"/{name}", {"settings": {"index.default_pipeline": steps_of_all}})
        call(url, "PUT", f"/{name}-other")
        body: list[Any] = []
        for id in steps:
            source = {"id": id, "other": "x", "text": TEXT}
            if id == "lacking":
                del source["text"]
            body += [{"index": {"_id": id}}, source]
        answer = call(url, "POST", f"/{name}/_bulk", body)
        # OpenSearch answers in another order where a pipeline drops and refuses documents.
        items = {item["index"]["_id"]: item["index"] for item in answer["items"]}
        stored, moved = all_documents(url, name), all_documents(url, f"{name}-other")
        call(url, "DELETE", f"/{name}")
    assert items.keys() == {"x", *steps} - {"renamed"}
    # All that the server has of a dropped document is one word, beside a status of success.
    for id in ("dropped", "lacking", "removed", "elsewhere"):
        assert items[id]["status"] == 200, items[id]
        assert items[id]["result"] == "noop", items[id]
    assert REFUSED in items["refused"]["error"]["reason"]
    assert items["x"]["result"] == "created"
    assert items["moved"]["_index"] == f"{name}-other"
    assert moved.keys() == {"moved"}
    assert stored.keys() == {"x", "stripped", "lowered", "plain"}
    assert stored["stripped"]["text"].strip() == "Some Text"
    assert stored["lowered"]["text"] == "<b>some</b> text"
    assert stored["plain"] == {"id": "plain", "other": "x", "text": TEXT, "kind": "plain"}


@pytest.mark.parametrize("mode", ["logsdb", "time_series", "lookup"])
def test_elasticsearch_creates_indices_of_each_mode(elasticsearch_url: str, mode: str) -> None:
    require_index_mode(elasticsearch_url, mode)


def test_logsdb_stores_and_returns_documents(elasticsearch_url: str) -> None:
    require_index_mode(elasticsearch_url, "logsdb")
    name = "esdedup-test-logsdb-documents"
    call(elasticsearch_url, "PUT", f"/{name}", {"settings": {"index.mode": "logsdb"}})
    try:
        document = {"@timestamp": "2026-01-01T00:00:00.000Z", "message": "a line of a log"}
        call(elasticsearch_url, "POST", f"/{name}/_doc", document)
        assert [*all_documents(elasticsearch_url, name).values()] == [document]
    finally:
        call(elasticsearch_url, "DELETE", f"/{name}")
