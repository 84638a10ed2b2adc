"""Add tokens to existing documents, and remove them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import NoneType
from typing import Any

from esdedup.models import Change, Failure, Held, tokens_in
from esdedup.records.documents import MARKS, OURS, is_ours, tokens_of
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.base import Store
from esdedup.stores.changes import ChangeReport, Decision, change_held
from esdedup.stores.fields import fault_in, text_at
from esdedup.stores.mapping import SketchedFields


def fields_to_read(
    metas: Sequence[SketchedFields], former: SketchedFields | None = None
) -> list[str]:
    """Return the names of the fields that `renew` reads of a document. former: see there."""
    every = [*metas, *([] if former is None else [former])]
    names = [name for meta in every for name in (*meta.text_fields, meta.field, meta.marks_field)]
    return [*dict.fromkeys(names)]


def renew(
    store: Store,
    held: Sequence[Held],
    metas: Sequence[SketchedFields],
    former: SketchedFields | None = None,
    *,
    again: bool = False,
) -> ChangeReport:
    """Update documents whose tokens are not those of their text.

    metas: `IndexMeta.sketched`, or `sketched_with_next`. held: with at least `fields_to_read`; the
    lists of tokens may be missing. former: the tokens that marks were made with, if the documents
    get other ones beside them. Marks of another text are removed. again: write documents with a
    text though they need no change, so that the index computes their tokens. Raises the errors of
    the store.
    """

    def decide(some: Sequence[Held]) -> list[Decision]:
        with store.window.computing:
            found = renewals(some, metas, former)
        if not again:
            return found
        pairs = zip(some, found, strict=True)
        return [Change(one, {}) if each == "unchanged" else each for one, each in pairs]

    return change_held(store, held, decide, fields_to_read(metas, former))


def renewals(
    held: Sequence[Held], metas: Sequence[SketchedFields], former: SketchedFields | None = None
) -> list[Decision]:
    """Return the change that each document needs to have the tokens of its text, as `renew`."""
    marked = [former or metas[0], *[None] * (len(metas) - 1)]
    each = map(partial(_decisions, held), metas, marked)
    return [*map(_joined, zip(*each, strict=True))]


def _joined(decisions: Sequence[Decision]) -> Decision:
    """Return one decision on a document for those on the tokens of each set of fields."""
    if failures := [each for each in decisions if isinstance(each, Failure)]:
        return failures[0]
    changes = [each for each in decisions if isinstance(each, Change)]
    if not changes:
        return "unchanged" if "unchanged" in decisions else decisions[0]
    fields = {name: value for each in changes for name, value in (each.fields or {}).items()}
    return replace(changes[0], fields=fields)


def digests(texts: Sequence[str], meta: SketchedFields) -> list[str]:
    """Return the digests that documents of these texts have."""
    return normalised_digests(texts, meta.scheme.normalisation)[1]


def _decisions(
    held: Sequence[Held], meta: SketchedFields, marked: SketchedFields | None
) -> list[Decision]:
    """Return the changes of one set of fields. marked: the tokens that marks were made with."""
    texts = [text_at(one.document.source, meta.text_fields) for one in held]
    if meta.scheme.by_server:
        return ["without_text" if text is None else "unchanged" for text in texts]
    ours = [one.document.source.get(meta.field) for one in held]
    foreign = {row for row, value in enumerate(ours) if not isinstance(value, (dict, NoneType))}
    found = {row: text for row, text in enumerate(texts) if text is not None and row not in foreign}
    fresh = dict(zip(found, digests([*found.values()], meta), strict=True))
    stale = [row for row in found if _stored(held[row], meta) != (meta.scheme.id, fresh[row])]
    # The next scheme of the index, if there is one, has a run of its own.
    tokens = dict(zip(stale, tokens_of([found[row] for row in stale], meta.scheme), strict=True))
    decisions: list[Decision] = []
    for row, one in enumerate(held):
        if row in foreign:
            reason = f"it has a value in the field {meta.field!r} that is not of esdedup"
            decisions.append(Failure(one.id, reason))
        elif texts[row] is None and (fault := fault_in(one.document.source, meta.text_fields)):
            decisions.append(Failure(one.id, fault))
        elif row not in tokens and row in fresh:
            decisions.append("unchanged")
        elif row not in tokens and _stored(one, meta) == (None, None):
            decisions.append("without_text")
        else:
            marks = {} if marked is None else _outdated(one, marked)
            fields = {**_cleared(one, meta), **tokens.get(row, {})}
            decisions.append(Change(one, meta.fields_of(fields, marks)))
    return decisions


def _stored(held: Held, meta: SketchedFields) -> tuple[Any, Any]:
    ours = held.document.tokens_in(meta.field)
    return ours.get("scheme"), ours.get("digest")


def _outdated(held: Held, meta: SketchedFields) -> dict[str, Any]:
    """Return what takes the place of marks that are of another text than a document has."""
    stored, text = _stored(held, meta)[1], text_at(held.document.source, meta.text_fields)
    if stored is None or (text is not None and stored == digests([text], meta)[0]):
        return {}
    marks, gone = tokens_in(held.document.source, meta.marks_field), dict[str, Any]()
    if marks.get("original") is not None:
        gone |= {name: None for name in MARKS if name != "group"}
    if marks.get("group") is not None:
        # `collapse` needs a group.
        gone["group"] = held.id
    return gone


def _cleared(held: Held, meta: SketchedFields) -> dict[str, Any]:
    """Return nulls for the values to remove, which an update must name: it merges objects."""
    scheme, digest = _stored(held, meta)
    if (scheme, digest) == (None, None):
        return {}
    # Another scheme may have left tokens of any kind, which may not have been read.
    names = meta.scheme.keys if scheme == meta.scheme.id else OURS
    return dict.fromkeys([*filter(is_ours, held.document.tokens_in(meta.field)), *names])
