"""Add token fields to the actions of a bulk helper, of programs with their own client."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from esdedup.arguments import check_list
from esdedup.exceptions import UsageError
from esdedup.models import Fields
from esdedup.records.documents import merged_fields, text_given
from esdedup.sketch.scheme import Scheme, require_scheme
from esdedup.sketch.sketch import sketch, token_fields
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta, SketchedFields, TextFields, names_of

if TYPE_CHECKING:
    from esdedup.index import Index

Action = str | bytes | Mapping[str, Any]
_BATCH = 1_000
"""Actions sketched together. With fewer, a document costs more."""

log = logging.getLogger("esdedup")


def enrich(
    actions: Iterable[Action],
    *,
    text_field: TextFields = "text",
    scheme: Scheme | None = None,
    index: Index | None = None,
) -> Iterator[Any]:
    """Yield bulk actions with token fields added, in the same order.

    Pass the result to any bulk helper of the two clients:

        helpers.bulk(client, esdedup.enrich(actions, index=index))

    Documents, and the `doc` and `upsert` of an update, get the fields if they hold the text, or
    null if an update removes it. Everything else passes unchanged, also a `doc` with only some of
    several text fields: a warning counts these, and `esdedup backfill` with `stale` renews their
    tokens.
    The caller's objects are not changed. A thread sketches the next actions while the last ones are
    sent: up to two thousand are read ahead.

    text_field: the field or fields with the text, in place of an index.
    scheme: of the tokens, in place of an index; by default `Scheme()`.
    index: an open index, which supplies the scheme and fields, also while `esdedup switch` changes
        them.

    Raises UsageError for both an index and another scheme.
    """
    check_list("actions", actions)
    require_scheme(scheme)
    if index is not None and scheme is not None and scheme.id != index.meta.full_scheme.id:
        raise UsageError("pass enrich either the index or a scheme: the index has another one")
    fixed = IndexMeta(scheme or Scheme(), names_of(text_field))
    return _enriched(iter(actions), lambda: fixed if index is None else index.meta)


def _enriched(actions: Iterator[Action], current: Callable[[], IndexMeta]) -> Iterator[Any]:
    waiting: Future[list[object]] = Future()
    waiting.set_result([])
    with ThreadPoolExecutor(1) as pool:
        while batch := [*itertools.islice(actions, _BATCH)]:
            coming = pool.submit(_with_tokens, batch, current())
            yield from waiting.result()
            waiting = coming
        yield from waiting.result()


class _Body(NamedTuple):
    """The fields of a document in an action.

    fields: a copy of the caller's, to which tokens are added.
    is_partial: whether they are the `doc` of an update, which is merged into a document.
    """

    fields: Fields
    is_partial: bool


def _with_tokens(actions: Sequence[Action], meta: IndexMeta) -> list[object]:
    """Return the actions of a batch with token fields."""
    copies, bodies = list[object](), list[_Body]()
    for action in actions:
        copy, bodies_of_action = _copied(action)
        copies.append(copy)
        bodies += bodies_of_action
    incomplete: set[int] = set()
    for sketched in meta.sketched_with_next:
        if sketched.in_documents:
            incomplete |= _add_tokens(bodies, sketched)
    warn_of_parts(len(incomplete))
    return copies


def _add_tokens(bodies: Sequence[_Body], sketched: SketchedFields) -> set[int]:
    """Add the tokens of one set of fields; return the rows that hold only a part of the fields."""
    changes = [text_change(body.fields, sketched, body.is_partial) for body in bodies]
    sketches = sketch([text for _, text in changes if text is not None], sketched.scheme)
    next_tokens = iter(token_fields(sketches, sketched.scheme))
    incomplete: set[int] = set()
    for row, (body, (change, _)) in enumerate(zip(bodies, changes, strict=True)):
        if change == "new":
            tokens = next(next_tokens)
            merged = merged_fields(tokens, sketched.scheme)
            body.fields[sketched.field] = merged if body.is_partial else tokens
        elif change == "gone":
            body.fields[sketched.field] = None
        elif change == "part":
            incomplete.add(row)
    return incomplete


def _copied(action: object) -> tuple[object, list[_Body]]:
    """Return a copy of an action, and the documents in it."""
    if isinstance(action, (str, bytes)):
        # The helpers index it as it is.
        with suppress(ValueError):
            action = {"_source": json.loads(action)}
    if not isinstance(action, Mapping):
        return action, []
    body = copy = dict(action)
    kind, source = action.get("_op_type", "index"), action.get("_source")
    # The helpers take "_source" for the body if it is an object, else the action itself.
    if isinstance(source, Mapping):
        body = copy["_source"] = dict(source)
    if kind == "update":
        names = [name for name in ("doc", "upsert") if isinstance(body.get(name), Mapping)]
        for name in names:
            body[name] = dict(body[name])
        return copy, [_Body(body[name], name == "doc") for name in names]
    is_document = kind in ("index", "create") and (body is not copy or source is None)
    return copy, [_Body(body, is_partial=False)] if is_document else []


def text_change(
    fields: Mapping[str, object], meta: SketchedFields, partial: bool
) -> tuple[Literal["new", "gone", "part", "none"], str | None]:
    """Return how a document, or the `doc` of an update, changes the text, and the new text.

    "gone": a `doc` replaces the text by null, or a document without a text holds the tokens that it
    was read with. "part": a `doc` holds only some of several text fields.
    """
    completeness = text_given(fields, meta) if partial else "wholly"
    if completeness == "partly":
        return "part", None
    if (text := text_at(fields, meta.text_fields)) is not None:
        return "new", text
    gone = completeness == "wholly" if partial else fields.get(meta.field) is not None
    return "gone" if gone else "none", None


def warn_of_parts(count: int) -> None:
    if count:
        log.warning(
            "%d updates hold only some of the text fields, so that the documents keep their old"
            " tokens: `esdedup check` counts them, and `esdedup backfill` with `stale` renews them",
            count,
        )
