"""What a server can do that not every server can: ingest pipelines, and modes of an index.

Servers from jars have both: `tools/servers/elasticsearch/IngestProcessors.java` stands in for the
module that Elasticsearch does not publish. A server at an address of the environment may lack them.
"""

import functools
import uuid

from tests.helpers.http import HTTP
from tests.servers.provide import refuse

PROCESSORS = frozenset(
    ("drop", "fail", "set", "remove", "rename", "lowercase", "html_strip"),
)
"""Processors that tests use on every server."""


def require_pipelines(url: str) -> None:
    """Skip the test if the server lacks processors; fail it where servers are required."""
    missing = PROCESSORS - _processors(url)
    if missing:
        refuse(f"{url} has no ingest processors {', '.join(sorted(missing))}")


def require_index_mode(url: str, mode: str) -> None:
    """Skip the test if the server can't create an index of this mode, such as `logsdb`.

    Fails the test where servers are required. Only Elasticsearch has modes.
    """
    reason = _refusal(url, mode)
    if reason is not None:
        refuse(f"{url} creates no index of the mode {mode}: {reason}")


@functools.cache
def _processors(url: str) -> frozenset[str]:
    answer = HTTP.get(f"{url}/_nodes/ingest", timeout=30).json()
    return frozenset(
        processor["type"]
        for node in answer["nodes"].values()
        for processor in node["ingest"]["processors"]
    )


@functools.cache
def _refusal(url: str, mode: str) -> str | None:
    """Return why the server refuses an index of this mode, or None."""
    index = f"{url}/esdedup-test-mode-{uuid.uuid4().hex[:12]}"
    settings: dict[str, object] = {"index.mode": mode, "number_of_replicas": 0}
    properties: dict[str, object] = {}
    if mode == "time_series":
        settings["routing_path"] = ["dimension"]
        properties["dimension"] = {"type": "keyword", "time_series_dimension": True}
    body = {"settings": settings, "mappings": {"properties": properties}}
    created = HTTP.put(index, json=body, timeout=60)
    try:
        # A codec without its library is only noticed when a segment is written.
        if created.status_code == 200 and mode != "time_series":
            document = {"@timestamp": "2026-01-01T00:00:00Z", "text": "a text"}
            created = HTTP.post(f"{index}/_doc?refresh=true&timeout=5s", json=document, timeout=60)
    finally:
        HTTP.delete(index, timeout=60)
    return None if created.status_code < 300 else created.text[:300]
