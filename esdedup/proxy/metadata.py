"""Looks up the schemes of indices in the upstream's mappings, with the clients' own credentials."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from esdedup.exceptions import UsageError
from esdedup.models import FIELD
from esdedup.proxy.http import Answer, Failed, Headers
from esdedup.proxy.upstream import Upstream
from esdedup.stores.mapping import IndexMeta, meta_of

_SECONDS = 10.0
"""For which a mapping holds, unless the uuid of its index changes."""
_ENTRIES = 1_000
_NO_IDENTITY = re.compile(
    rb"accept.*|content-.*|cache-control|connection|date|expect|host|if-.*|keep-alive|origin|pragma"
    rb"|priority|range|referer|te|trailer|transfer-encoding|upgrade|user-agent|via"
    rb"|baggage|b3|traceparent|tracestate|x-amzn-trace-id|x-b3-.*|x-correlation-id"
    rb"|x-elastic-client-meta|x-opaque-id|x-request-id"
)
"""Headers that tell nothing of the user. By any other one the user may be known."""
# The uuid is requested because an index without the other fields would be missing in the answer.
_ASKED = (
    b"?filter_path=*.mappings._meta." + FIELD.encode() + b",*.aliases.*.is_write_index"
    b",*.settings.index.uuid"
)
_UUIDS = b"/_settings/index.uuid?filter_path=*.settings.index.uuid"
_TEMPLATE = b"/_index_template/_simulate_index/"
_GENERATION = re.compile(r"\.ds-.*-(\d{6,})$")
"""The end of the name of a data stream's index. A lifecycle puts more before it."""

log = logging.getLogger(__name__)

Key = tuple[bytes, ...]
Uuids = dict[str, str]


class Found(NamedTuple):
    """The meta of an index, and why there is none.

    no_index: the index does not exist, and no template tells its mapping.
    """

    meta: IndexMeta | None
    reason: Literal["", "no_scheme", "no_right", "no_index", "failed"] = ""


class _Entry(NamedTuple):
    found: Found
    uuids: Uuids
    until: float


@dataclass
class _Question:
    """A lookup, and the number of requests that wait for it. Without any, it ends."""

    task: asyncio.Task[Found]
    waiting: int = 0


class Schemes:
    """Looks up metas and keeps them, for each user apart.

    Whether a name still stands for the same indices is asked for each request: an index that was
    deleted and made again may have other fields. Requests that come at the same time share answers.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._entries: dict[Key, _Entry] = {}
        self._running: dict[Key, asyncio.Task[Found]] = {}
        self._next: dict[Key, _Question] = {}
        self._changes = 0
        self._unseen: dict[str, None] = {}

    async def find(self, index: str | None, headers: Headers) -> Found:
        """Return the meta of an index, alias or data stream, or of one that a template will make.

        headers: of the client, whose privileges count. Raises Failed if the upstream does not
        answer, or asks to try again later.
        """
        # Only one index to write to, not several, nor a path of the API.
        if not index or index[0] in "_-" or set(index) & set("*,") or not index.strip("."):
            return Found(None, "no_scheme")
        identity = [pair for pair in headers if not _NO_IDENTITY.fullmatch(pair[0])]
        key = (index.encode(), *(part for pair in sorted(identity) for part in pair))
        if key not in self._next:
            task = asyncio.create_task(self._in_turn(key, index, identity))
            self._next[key] = _Question(task)
        question = self._next[key]
        question.waiting += 1
        try:
            return await asyncio.shield(question.task)
        finally:
            question.waiting -= 1
            if not question.waiting:
                question.task.cancel()
                if self._next.get(key) is question:
                    del self._next[key]

    def forget(self) -> None:
        """Clears the cache, because a mapping may have changed."""
        self._entries.clear()
        self._changes += 1

    async def _in_turn(self, key: Key, index: str, identity: Headers) -> Found:
        """Ask when the question before is answered. Until then, others may wait too."""
        if (before := self._running.get(key)) is not None:
            await asyncio.wait({before})
        task = self._running[key] = self._next.pop(key).task
        try:
            return await self._now(key, index, identity)
        finally:
            if self._running[key] is task:
                del self._running[key]

    async def _now(self, key: Key, index: str, identity: Headers) -> Found:
        path = b"/" + quote(index, safe="").encode()
        entry, changes = self._entries.pop(key, None), self._changes
        if entry is not None and entry.until > time.monotonic():
            answer = await self._ask("GET", path + _UUIDS, identity)
            if answer.status == 200 and _uuids(_read(answer)) == entry.uuids:
                self._keep(key, entry, changes)
                return entry.found
        answer = await self._ask("GET", path + _ASKED, identity)
        if answer.status == 404:
            # Not kept: the next moment it may be there.
            return await self._made_by_template(index, path, identity)
        if answer.status in (401, 403):
            log.warning("no right to read the mapping of %r: its documents pass", index)
            return Found(None, "no_right")
        if answer.status != 200:
            return Found(None, "no_scheme")
        try:
            known = json.loads(answer.body)
            written = _write_index(index, known)
            meta = None if written is None else meta_of(known[written].get("mappings", {}))
        except (UsageError, ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("the mapping of %r can't be read, its documents pass: %s", index, error)
            return Found(None, "failed")
        found = Found(meta, "" if meta else "no_scheme")
        if self._unseen.pop(index, True) is None and meta is not None:
            log.warning(
                "documents that made %r passed without tokens, because no template told its fields,"
                " or the user may not simulate templates: esdedup backfill fills them in",
                index,
            )
        self._keep(key, _Entry(found, _uuids(known), time.monotonic() + _SECONDS), changes)
        return found

    def _keep(self, key: Key, entry: _Entry, changes: int) -> None:
        """Keep an entry, unless something has changed since it was asked for."""
        if changes == self._changes:
            self._entries[key] = entry
            _forget_oldest(self._entries)

    async def _made_by_template(self, index: str, path: bytes, identity: Headers) -> Found:
        """The meta of an index that does not exist. The first document makes it."""
        template = None
        # OpenSearch looks for a template of the expression, not of the date.
        if not index.startswith("<"):
            answer = await self._ask("POST", _TEMPLATE + path[1:], identity)
            template = _read(answer).get("template") if answer.status == 200 else None
        if not isinstance(template, dict):
            # Forbidden, or no template of this kind; one of the older kind may apply.
            self._unseen[index] = None
            _forget_oldest(self._unseen)
            return Found(None, "no_index")
        try:
            meta = meta_of(template.get("mappings") or {})
        except (UsageError, AttributeError) as error:
            log.warning("the template of %r can't be read: %s", index, error)
            return Found(None, "failed")
        return Found(meta, "" if meta else "no_scheme")

    async def _ask(self, method: str, target: bytes, identity: Headers) -> Answer:
        answer = await self._upstream.ask(method, target, identity)
        if answer.status == 429 or answer.status >= 500:
            raise Failed(f"status {answer.status}", answer)
        return answer


def _forget_oldest(entries: dict[Any, Any]) -> None:
    while len(entries) > _ENTRIES:
        del entries[next(iter(entries))]


def _read(answer: Answer) -> dict[str, Any]:
    """The object of an answer, empty if it is none."""
    try:
        found = json.loads(answer.body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _uuids(answer: dict[str, Any]) -> Uuids:
    """The uuids of the indices behind a name."""
    return {
        name: str(found.get("settings", {}).get("index", {}).get("uuid"))
        for name, found in answer.items()
        if isinstance(found, dict)
    }


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
