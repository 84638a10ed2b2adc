"""Token fields for bulk actions that another client sends."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, overload

from esdedup.exceptions import DuplicateFound, UsageError
from esdedup.ingest.near_duplicates import DuplicatePolicy, Originals
from esdedup.ingest.recent import Arrival
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import sketch, token_fields
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta

Action = str | bytes | Mapping[str, Any]
_BATCH = 1_000
"""Sketched at once: of fewer, a document costs more, and the sending thread is held up more often
(`benchmarks/own/enrich.py`)."""

log = logging.getLogger("esdedup")

_Path = tuple[str, ...]


class OpenIndex(Protocol):
    """An index that says what its documents get, as `esdedup.open` gives it."""

    store: Store

    @property
    def meta(self) -> IndexMeta:
        """What it says now."""
        ...


@overload
def enrich(
    actions: Iterable[Action],
    *,
    text_field: str = "text",
    scheme: Scheme | None = None,
    index: OpenIndex | None = None,
    on_duplicate: DuplicatePolicy | None = None,
) -> Iterator[Any]: ...
@overload
def enrich(
    actions: AsyncIterable[Action],
    *,
    text_field: str = "text",
    scheme: Scheme | None = None,
    index: OpenIndex | None = None,
    on_duplicate: DuplicatePolicy | None = None,
) -> AsyncIterator[Any]: ...
def enrich(
    actions: Iterable[Action] | AsyncIterable[Action],
    *,
    text_field: str = "text",
    scheme: Scheme | None = None,
    index: OpenIndex | None = None,
    on_duplicate: DuplicatePolicy | None = None,
) -> Iterator[Any] | AsyncIterator[Any]:
    """Bulk actions with the token fields added, in the same order; an async iterator for one.

    Made to stand in any bulk helper of the two clients:

        helpers.bulk(client, esdedup.enrich(actions, index=index))

    Actions have the forms that those helpers take. The document of an index or create action, and
    the `doc` and `upsert` of an update, get the fields where they hold the text; anything else
    (a delete, a script, a document without the text) passes as it is. Nothing of the caller's is
    changed in place. The next actions are sketched while the last ones are sent, so that up to two
    thousand are read ahead.

    index: an open index, which says the scheme and the fields, also while they are changed by
    `esdedup switch`. Or, without it, text_field: the name of the field with the text; scheme: what
    the index was made with, the default one if None.
    on_duplicate: what to do with near-duplicates among index and create actions; needs the index.
    With "skip" they are left out; with "mark" and "group" documents without an `_id` get one.

    Raises UsageError for options that contradict each other; then, with "fail", DuplicateFound.
    """
    enricher = _enricher(text_field, scheme, index, on_duplicate or DuplicatePolicy())
    if isinstance(actions, AsyncIterable):
        return _enrich_async(actions, enricher)
    return _enrich_sync(actions, enricher)


def _enricher(
    text_field: str, scheme: Scheme | None, index: OpenIndex | None, policy: DuplicatePolicy
) -> _Enricher:
    if index is None:
        if policy.action != "keep":
            raise UsageError("to look for near-duplicates, enrich needs the open index (index=)")
        meta = IndexMeta(scheme or Scheme(), text_field)
        return _Enricher(lambda: meta, policy, None)
    if scheme is not None and scheme.id != index.meta.scheme.id:
        raise UsageError("give enrich either the index or a scheme: the index has another one")
    opened = index
    originals = None
    if policy.action != "keep":
        originals = Originals(index.store, lambda: opened.meta, policy)
    return _Enricher(lambda: opened.meta, policy, originals)


def _enrich_sync(actions: Iterable[Action], enricher: _Enricher) -> Iterator[Any]:
    with ThreadPoolExecutor(1) as pool:
        waiting: Future[list[Any]] | None = None
        batch: list[Action] = []
        for action in actions:
            batch.append(action)
            if len(batch) == _BATCH:
                coming = pool.submit(enricher.enriched, batch)
                if waiting is not None:
                    yield from waiting.result()
                waiting, batch = coming, []
        if waiting is not None:
            yield from waiting.result()
        yield from enricher.enriched(batch)


async def _enrich_async(actions: AsyncIterable[Action], enricher: _Enricher) -> AsyncIterator[Any]:
    # Imported only here: every command would be the later for it.
    import asyncio

    waiting: asyncio.Future[list[Any]] | None = None
    batch: list[Action] = []
    async for action in actions:
        batch.append(action)
        if len(batch) == _BATCH:
            if waiting is not None:
                for done in await waiting:
                    yield done
            waiting = asyncio.ensure_future(asyncio.to_thread(enricher.enriched, batch))
            batch = []
    if waiting is not None:
        for done in await waiting:
            yield done
    for done in await asyncio.to_thread(enricher.enriched, batch):
        yield done


@dataclass(frozen=True)
class _Enricher:
    """Adds fields to batches of actions. meta: says what an index holds, at any moment."""

    meta: Callable[[], IndexMeta]
    policy: DuplicatePolicy
    originals: Originals | None

    def enriched(self, batch: list[Action]) -> list[Any]:
        meta = self.meta()
        actions = [_parsed(action) for action in batch]
        places: list[tuple[int, _Path]] = []
        texts: list[str] = []
        for row, action in enumerate(actions):
            for path, document in _documents(action):
                text = value_at(document, meta.text_field)
                if isinstance(text, str):
                    places.append((row, path))
                    texts.append(text)
        if not texts:
            return actions
        partial = [path[-1:] == ("doc",) for _, path in places]
        dropped: set[int] = set()
        marks: list[dict[str, Any]] = [{} for _ in places]
        if self.originals is not None:
            dropped = self._judge(self.originals, actions, places, texts, marks)
        for one in meta.all:
            fields = added_fields(texts, partial, one.scheme)
            for (row, path), tokens, mark in zip(places, fields, marks, strict=True):
                ours = {one.field: {**tokens, **mark}}
                actions[row] = _with_fields(actions[row], path, ours)
        return [action for row, action in enumerate(actions) if row not in dropped]

    def _judge(
        self,
        originals: Originals,
        actions: list[Any],
        places: list[tuple[int, _Path]],
        texts: list[str],
        marks: list[dict[str, Any]],
    ) -> set[int]:
        """The actions to leave out; what marks a document goes into `marks`."""
        whole = [at for at, (_, path) in enumerate(places) if path[-1:] not in _PARTS]
        arrivals = []
        for at in whole:
            row = places[at][0]
            id = actions[row].get("_id")
            if id is None:
                # By this, a later one can be said to be like it.
                id = uuid.uuid4().hex
                if self.policy.writes:
                    actions[row] = {**actions[row], "_id": id}
            arrivals.append(Arrival(str(id), texts[at]))
        dropped = set()
        before = originals.truncated
        verdicts = originals.find(arrivals)
        if originals.truncated and not before:
            log.warning(
                "documents have more candidates than the %d that they are compared with, or only"
                " buckets of the stop list: a duplicate may be missed",
                self.policy.candidates,
            )
        for at, arrival, verdict in zip(whole, arrivals, verdicts, strict=True):
            if self.policy.writes:
                marks[at] = verdict.fields()
            elif verdict.original is not None:
                if self.policy.action == "fail":
                    raise DuplicateFound(f"document {arrival.id!r} is {verdict.reason}")
                dropped.add(places[at][0])
        return dropped


_PARTS = (("doc",), ("upsert",))


def added_fields(
    texts: Sequence[str], partial: Sequence[bool], scheme: Scheme
) -> list[dict[str, Any]]:
    """What goes under our field beside each text; `partial`: which is in the `doc` of an update.

    A partial update merges objects: of an empty text, it must take old tokens away.
    """
    cleared = _cleared(scheme)
    return [
        {**cleared, **tokens} if merged else tokens
        for tokens, merged in zip(token_fields(sketch(texts, scheme), scheme), partial, strict=True)
    ]


def _parsed(action: Action) -> Any:
    """A document given as a JSON string, which the helpers index as it is, parsed."""
    if not isinstance(action, (str, bytes)):
        return action
    try:
        document = json.loads(action)
    except ValueError:
        return action
    return {"_source": document} if isinstance(document, dict) else action


def _documents(action: Any) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """The documents in an action, with the keys under which each lies."""
    # A plain dict is told at once, and nearly every action is one.
    if not isinstance(action, (dict, Mapping)):
        return
    kind, source = action.get("_op_type", "index"), action.get("_source")
    # The helpers take an object "_source" for the body, and the action itself where it has none.
    path: _Path = ("_source",) if isinstance(source, Mapping) else ()
    body = source if isinstance(source, Mapping) else action
    if kind == "update":
        for part in ("doc", "upsert"):
            if isinstance(body.get(part), Mapping):
                yield (*path, part), body[part]
    elif kind in ("index", "create") and (path or source is None):
        yield path, body


def _cleared(scheme: Scheme) -> dict[str, None]:
    return dict.fromkeys([*scheme.kinds, *(["fingerprint"] if scheme.simhash else [])])


def _with_fields(value: Mapping[str, Any], path: _Path, fields: dict[str, Any]) -> dict[str, Any]:
    """A copy with the fields put into the document at the path."""
    if not path:
        return {**value, **fields}
    return {**value, path[0]: _with_fields(value[path[0]], path[1:], fields)}
