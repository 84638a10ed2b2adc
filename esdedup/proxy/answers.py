"""Several answers to `_bulk` made one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any, Self

from esdedup.proxy.body import Item
from esdedup.proxy.http import Answer, Headers

_IN_MEMORY = 4 << 20
_PIECE = 1 << 16
_KEPT = (b"content-type", b"x-elastic-product")
UNSENT = "not sent, because an earlier part of the same request failed: "
UNKNOWN = "may be written or not: "


class MergedAnswer:
    """Items in order, past some megabytes in a temporary file, and what stands before them."""

    def __init__(self) -> None:
        self._items: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115
        self._fields: dict[str, Any] = {}
        self._headers: Headers = []
        self.parts = 0

    def add(self, answer: Answer) -> None:
        """Takes an answer of the upstream in. Raises ValueError where it can't be read."""
        parsed = json.loads(answer.body)
        items = parsed.pop("items", []) if isinstance(parsed, dict) else None
        if not isinstance(items, list):
            raise ValueError("the upstream's answer to _bulk has no items")
        self._write(items)
        for name, value in parsed.items():
            self._fields[name] = _merged(self._fields.get(name), value)
        if not self.parts:
            self._headers = [pair for pair in answer.headers if pair[0].lower() in _KEPT]
        self.parts += 1

    def refuse(self, items: Iterable[Item], failure: Answer, remark: str) -> None:
        """Reports items as failed by what the upstream answered."""
        error = _cause(failure)
        error["reason"] = f"{remark}{error['reason']}"
        refused = [
            {
                item.operation: {
                    "_index": item.index,
                    "_id": item.id,
                    "status": failure.status,
                    "error": error,
                }
            }
            for item in items
        ]
        self._write(refused)
        self._fields["errors"] = True

    def head(self) -> tuple[int, Headers]:
        """The status and the headers of the answer."""
        length = len(self._opening()) + self._items.tell() + len(b"]}")
        return 200, [
            (b"content-length", str(length).encode()),
            *self._headers,
        ]

    def body(self) -> Iterator[bytes]:
        """The body, in pieces."""
        yield self._opening()
        self._items.seek(0)
        while piece := self._items.read(_PIECE):
            yield piece
        yield b"]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._items.close()

    def _opening(self) -> bytes:
        fields = json.dumps(self._fields, separators=(",", ":"))[1:-1].encode()
        return b"{" + fields + (b"," if fields else b"") + b'"items":['

    def _write(self, items: list[Any]) -> None:
        if items:
            written = json.dumps(items, separators=(",", ":"))[1:-1].encode()
            self._items.write((b"," if self._items.tell() else b"") + written)


def _merged(before: Any, value: Any) -> Any:
    """`errors` is true where any part's is; `took` and `ingest_took` are sums."""
    if isinstance(value, bool):
        return bool(before) or value
    if isinstance(value, int) and isinstance(before, int):
        return before + value
    return value


def _cause(failure: Answer) -> dict[str, str]:
    """The type and the reason of an error as the servers answer it, or as anything else does."""
    try:
        error = json.loads(failure.body)["error"]
        return {"type": str(error["type"]), "reason": str(error["reason"])}
    except (ValueError, KeyError, TypeError):
        text = failure.body[:500].decode("utf-8", "replace").strip()
        return {"type": "upstream_error", "reason": text or f"status {failure.status}"}
