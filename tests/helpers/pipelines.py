"""Ingest pipelines that drop, refuse, change, move or rename documents, in one form for all.

A test that uses them calls `require_pipelines(url)` of `tests/servers/modules.py` first.
"""

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from tests.helpers.commands import call
from tests.servers.modules import require_pipelines

Processor = Mapping[str, Mapping[str, Any]]

REFUSED = "refused by the pipeline"
"""The reason of `refuse`."""


def drop(condition: str | None = None) -> Processor:
    """Drop documents. condition: such as `ctx.id == '2'`, the only form that every server knows."""
    return _processor("drop", condition)


def fail(condition: str | None = None) -> Processor:
    """Refuse documents with an error."""
    return _processor("fail", condition, message=REFUSED)


def set_field(field: str, value: Any, condition: str | None = None) -> Processor:
    """Set a field, or the place of a document (`_id`, `_index`)."""
    return _processor("set", condition, field=field, value=value)


def lowercase(field: str, condition: str | None = None) -> Processor:
    return _processor("lowercase", condition, field=field)


def html_strip(field: str, condition: str | None = None) -> Processor:
    return _processor("html_strip", condition, field=field)


def rename(field: str, target: str, condition: str | None = None) -> Processor:
    return _processor("rename", condition, field=field, target_field=target)


def remove(field: str, condition: str | None = None) -> Processor:
    return _processor("remove", condition, field=field)


def copy_field(url: str, field: str, target: str, condition: str | None = None) -> Processor:
    """Copy a field, also into `_id`: each product has its own processor for it."""
    if is_opensearch(url):
        how = {"source_field": field, "target_field": target, "override_target": True}
        return _processor("copy", condition, **how)
    return _processor("set", condition, field=target, copy_from=field)


@contextlib.contextmanager
def pipeline(url: str, *processors: Processor) -> Iterator[str]:
    """Yield the name of a pipeline with these processors, which is deleted afterwards.

    Skips the test, with the reason, on a server that lacks the processors. Delete the index that
    names the pipeline first, or reset its setting: OpenSearch refuses writes without it.
    """
    require_pipelines(url)
    name = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    call(url, "PUT", f"/_ingest/pipeline/{name}", {"processors": list(processors)})
    try:
        yield name
    finally:
        call(url, "DELETE", f"/_ingest/pipeline/{name}")


def use_pipeline(url: str, index: str, name: str | None, kind: str = "default") -> None:
    """Make a pipeline the `default` or the `final` one of an index. None: use none again."""
    settings = {f"index.{kind}_pipeline": name or "_none"}
    call(url, "PUT", f"/{index}/_settings", settings)


def _processor(kind: str, condition: str | None, **settings: Any) -> Processor:
    return {kind: settings if condition is None else {"if": condition, **settings}}


def is_opensearch(url: str) -> bool:
    """Return whether a server is OpenSearch, whose versions are lower."""
    nodes = call(url, "GET", "/_nodes/http")["nodes"].values()
    return any(node.get("version", "").startswith(("1.", "2.", "3.")) for node in nodes)
