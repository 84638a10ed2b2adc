"""Indices of esdedup for benchmarks, whose documents have an id and one value, such as a code."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import esdedup
from esdedup import Scheme
from esdedup.sketch.kinds.base import Sketch

SETTINGS = {"number_of_shards": 1, "number_of_replicas": 0, "refresh_interval": -1}


def value_index(
    target: str | Path, name: str, sketch: Sketch, field: str, values: Iterable[str]
) -> esdedup.Index:
    """Return an index of values, the ids of which are their rows.

    target: the address of a server, whose field is neither searched nor sorted by, or a new file.
    """
    if isinstance(target, str):
        plain = {"type": "keyword", "index": False, "doc_values": False}
        mapping = {"properties": {"id": plain, field: plain}}
        call(target, "PUT", f"/{name}", {"settings": SETTINGS, "mappings": mapping})
    index = esdedup.open(target, name, scheme=Scheme([sketch]), text_field=field)
    index.add({"id": str(row), field: value} for row, value in enumerate(values))
    return index


def stored_bytes(target: str | Path, name: str) -> int:
    """Return the bytes of a local file, or of an index of a server in one segment."""
    if isinstance(target, str):
        return merged(target, name)
    # The files beside it, such as the write-ahead log, belong to it.
    return sum(file.stat().st_size for file in target.parent.glob(f"{target.name}*"))


def merged(url: str, name: str) -> int:
    """Merge an index of a server into one segment, and return its bytes."""
    call(url, "POST", f"/{name}/_forcemerge?max_num_segments=1&flush=true")
    call(url, "POST", f"/{name}/_refresh")
    stats = call(url, "GET", f"/{name}/_stats/store")
    return int(stats["_all"]["primaries"]["store"]["size_in_bytes"])


def call(url: str, method: str, path: str, body: Any = None) -> Any:
    """Send a request; a list is sent as lines."""
    lines = body if isinstance(body, list) else [body]
    data = None if body is None else "".join(json.dumps(line) + "\n" for line in lines).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=1800) as answer:
        return json.loads(answer.read())
