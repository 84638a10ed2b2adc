"""Token fields for bulk actions that another client sends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from esdedup.datatypes import FIELD
from esdedup.fields import value_at
from esdedup.scheme import Scheme
from esdedup.sketch import sketch, token_fields

Action = str | bytes | Mapping[str, Any]
_BATCH = 1_000
_Path = tuple[str, ...]


@overload
def enrich(
    actions: Iterable[Action], *, text_field: str = "text", scheme: Scheme | None = None
) -> Iterator[Any]: ...
@overload
def enrich(
    actions: AsyncIterable[Action], *, text_field: str = "text", scheme: Scheme | None = None
) -> AsyncIterator[Any]: ...
def enrich(
    actions: Iterable[Action] | AsyncIterable[Action],
    *,
    text_field: str = "text",
    scheme: Scheme | None = None,
) -> Iterator[Any] | AsyncIterator[Any]:
    """Bulk actions with the token fields added, in the same order; an async iterator for one.

    Made to stand in any bulk helper of the two clients:

        helpers.bulk(client, esdedup.enrich(actions))

    Actions have the forms that those helpers take. The document of an index or create action, and
    the `doc` and `upsert` of an update, get the fields where they hold the text; anything else
    (a delete, a script, a document without the text) passes as it is. Nothing of the caller's is
    changed in place. The index must have been made with the same scheme, as
    `esdedup.open(...).create()` does.

    text_field: the name of the field with the text. scheme: the default one, if None.
    """
    chosen = scheme or Scheme()
    if isinstance(actions, AsyncIterable):
        return _enrich_async(actions, text_field, chosen)
    return _enrich_sync(actions, text_field, chosen)


def _enrich_sync(actions: Iterable[Action], text_field: str, scheme: Scheme) -> Iterator[Any]:
    batch: list[Action] = []
    for action in actions:
        batch.append(action)
        if len(batch) == _BATCH:
            yield from _enriched(batch, text_field, scheme)
            batch = []
    yield from _enriched(batch, text_field, scheme)


async def _enrich_async(
    actions: AsyncIterable[Action], text_field: str, scheme: Scheme
) -> AsyncIterator[Any]:
    batch: list[Action] = []
    async for action in actions:
        batch.append(action)
        if len(batch) == _BATCH:
            for done in _enriched(batch, text_field, scheme):
                yield done
            batch = []
    for done in _enriched(batch, text_field, scheme):
        yield done


def _enriched(batch: list[Action], text_field: str, scheme: Scheme) -> list[Any]:
    actions = [_parsed(action) for action in batch]
    places: list[tuple[int, _Path]] = []
    texts: list[str] = []
    for row, action in enumerate(actions):
        for path, document in _documents(action):
            text = value_at(document, text_field)
            if isinstance(text, str):
                places.append((row, path))
                texts.append(text)
    if texts:
        partial = [path[-1:] == ("doc",) for _, path in places]
        fields = added_fields(texts, partial, scheme)
        for (row, path), tokens in zip(places, fields, strict=True):
            actions[row] = _with_fields(actions[row], path, tokens)
    return actions


def added_fields(
    texts: Sequence[str], partial: Sequence[bool], scheme: Scheme
) -> list[dict[str, Any]]:
    """What goes under FIELD beside each text; `partial` says which is in the `doc` of an update.

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
    if not isinstance(action, Mapping):
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
    names = ["minhash"] if scheme.minhash is not None else []
    return dict.fromkeys(names + (["simhash", "fingerprint"] if scheme.simhash else []))


def _with_fields(value: Mapping[str, Any], path: _Path, tokens: dict[str, Any]) -> dict[str, Any]:
    """A copy with the fields put into the document at the path."""
    if not path:
        return {**value, FIELD: tokens}
    return {**value, path[0]: _with_fields(value[path[0]], path[1:], tokens)}
