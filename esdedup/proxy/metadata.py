"""Looks up the schemes of indices in the upstream's mappings, and keeps them for some seconds."""

from __future__ import annotations

import json
import logging
import re
import time
from typing import Any
from urllib.parse import quote

from esdedup.exceptions import UsageError
from esdedup.models import FIELD
from esdedup.proxy.http import Failed, Headers
from esdedup.proxy.upstream import Upstream
from esdedup.stores.mapping import IndexMeta, meta_of

_SECONDS = 10.0
_ENTRIES = 1_000
_IDENTITY = (b"authorization", b"es-security-runas-user")
# The uuid is requested because an index without the other fields would be missing in the answer.
_ASKED = (
    b"?filter_path=*.mappings._meta." + FIELD.encode() + b",*.aliases.*.is_write_index"
    b",*.settings.index.uuid"
)
_GENERATION = re.compile(r"^\.ds-.*-(\d{6,})$")

log = logging.getLogger(__name__)


class Schemes:
    """The metas of indices, read with the clients' own credentials and cached."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._entries: dict[tuple[bytes, ...], tuple[IndexMeta | None, float]] = {}

    async def meta(self, index: str | None, headers: Headers) -> IndexMeta | None:
        """The meta of an index, alias or data stream; None if its documents get no tokens.

        headers: of the client, whose privileges count. Raises Failed if the upstream does not
        answer, or asks to try again later.
        """
        # Only one index to write to, not several, nor a path of the API.
        if not index or index[0] in "_-" or set(index) & set("*,") or not index.strip("."):
            return None
        identity = [pair for pair in headers if pair[0] in _IDENTITY]
        key = (index.encode(), *(value for _, value in identity))
        meta, until = self._entries.pop(key, (None, 0.0))
        if until < time.monotonic():
            meta, until = await self._ask(index, identity), time.monotonic() + _SECONDS
        self._entries[key] = meta, until
        while len(self._entries) > _ENTRIES:
            del self._entries[next(iter(self._entries))]
        return meta

    def forget(self) -> None:
        """Clears the cache, because a mapping may have changed."""
        self._entries.clear()

    async def _ask(self, index: str, identity: Headers) -> IndexMeta | None:
        target = b"/" + quote(index, safe="").encode() + _ASKED
        answer = await self._upstream.ask("GET", target, identity)
        if answer.status == 429 or answer.status >= 500:
            raise Failed(f"status {answer.status}", answer)
        if answer.status != 200:
            if answer.status == 403:
                log.warning("no right to read the mapping of %r: its documents pass", index)
            return None
        try:
            found = json.loads(answer.body)
            written = _write_index(index, found)
            return None if written is None else meta_of(found[written].get("mappings", {}))
        except (UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("the mapping of %r can't be read, its documents pass: %s", index, error)
            return None


def _write_index(name: str, answer: dict[str, Any]) -> str | None:
    """The index that takes the documents sent to a name. answer: to a request of `_ASKED`."""
    if len(answer) <= 1:
        return next(iter(answer), None)
    numbers = {index: int(found[1]) for index in answer if (found := _GENERATION.search(index))}
    if len(numbers) == len(answer):
        # A data stream writes to its last index.
        return max(numbers, key=numbers.__getitem__)
    chosen = [
        index
        for index, found in answer.items()
        if str(found.get("aliases", {}).get(name, {}).get("is_write_index", "")).lower() == "true"
    ]
    return chosen[0] if len(chosen) == 1 else None
