"""Add token fields to the actions of a bulk helper, of programs with their own client."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

from esdedup.arguments import check_list
from esdedup.exceptions import UsageError
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
    several text fields: a warning counts these, and `esdedup backfill --stale` renews their tokens.
    The caller's objects are not changed. A thread sketches the next actions while the last ones are
    sent: up to two thousand are read ahead.

    index: an open index, which supplies the scheme and fields, also while `esdedup switch` changes
    them. text_field, scheme: in place of an index, the field or fields with the text, and the
    scheme, by default `Scheme()`. Raises UsageError for both an index and another scheme.
    """
    check_list("actions", actions)
    require_scheme(scheme)
    if index is not None and scheme is not None and scheme.id != index.meta.full_scheme.id:
        raise UsageError("pass enrich either the index or a scheme: the index has another one")
    given = IndexMeta(scheme or Scheme(), names_of(text_field))
    return _enriched(iter(actions), lambda: given if index is None else index.meta)


def _enriched(actions: Iterator[Action], current: Callable[[], IndexMeta]) -> Iterator[Any]:
    waiting: Future[list[Any]] = Future()
    waiting.set_result([])
    with ThreadPoolExecutor(1) as pool:
        while batch := [*itertools.islice(actions, _BATCH)]:
            coming = pool.submit(_with_tokens, batch, current())
            yield from waiting.result()
            waiting = coming
        yield from waiting.result()


def _with_tokens(actions: Sequence[Any], meta: IndexMeta) -> list[Any]:
    """Return the actions of a batch with token fields."""
    copies, documents = [], []
    for action in actions:
        copy, found = _copied(action)
        copies.append(copy)
        documents += found
    parts: set[int] = set()
    for one in meta.sketched_with_next:
        if not one.in_documents:
            continue
        changes = [text_change(each, one, partial) for each, partial in documents]
        sketches = sketch([text for _, text in changes if text is not None], one.scheme)
        tokens = iter(token_fields(sketches, one.scheme))
        for row, ((document, partial), (change, _)) in enumerate(
            zip(documents, changes, strict=True)
        ):
            if change == "new":
                own = next(tokens)
                document[one.field] = merged_fields(own, one.scheme) if partial else own
            elif change == "gone":
                document[one.field] = None
            elif change == "part":
                parts.add(row)
    warn_of_parts(len(parts))
    return copies


def _copied(action: Any) -> tuple[Any, list[tuple[dict[str, Any], bool]]]:
    """Return a copy of an action, and the documents in it, each with True for a `doc`."""
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
        parts = [name for name in ("doc", "upsert") if isinstance(body.get(name), Mapping)]
        for name in parts:
            body[name] = dict(body[name])
        return copy, [(body[name], name == "doc") for name in parts]
    is_document = kind in ("index", "create") and (body is not copy or source is None)
    return copy, [(body, False)] if is_document else []


def text_change(
    fields: Mapping[str, Any], meta: SketchedFields, partial: bool
) -> tuple[Literal["new", "gone", "part", "none"], str | None]:
    """Return how a document, or the `doc` of an update, changes the text, and the new text.

    "gone": a `doc` replaces the text by null, or a document without a text holds the tokens that it
    was read with. "part": a `doc` holds only some of several text fields.
    """
    given = text_given(fields, meta) if partial else "wholly"
    if given == "partly":
        return "part", None
    if (text := text_at(fields, meta.text_fields)) is not None:
        return "new", text
    gone = given == "wholly" if partial else fields.get(meta.field) is not None
    return "gone" if gone else "none", None


def warn_of_parts(count: int) -> None:
    if count:
        log.warning(
            "%d updates hold only some of the text fields, so that the documents keep their old"
            " tokens: esdedup check counts them, and esdedup backfill --stale renews them",
            count,
        )
