"""Add tokens to existing documents, and remove them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import NoneType

from esdedup.models import Change, Failure, StoredDocument, tokens_in
from esdedup.records.documents import MARKS, OURS, is_ours, tokens_of
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.base import Store
from esdedup.stores.changes import ChangeReport, Decision, change_documents
from esdedup.stores.fields import fault_in, text_at
from esdedup.stores.mapping import SketchedFields


def fields_to_read(
    sketched_fields: Sequence[SketchedFields], former: SketchedFields | None = None
) -> list[str]:
    """Return the names of the fields that `renew` reads of a document. former: see there."""
    all_fields = [*sketched_fields, *([] if former is None else [former])]
    names = [
        name
        for sketched in all_fields
        for name in (*sketched.text_fields, sketched.field, sketched.marks_field)
    ]
    return [*dict.fromkeys(names)]


def renew(
    store: Store,
    documents: Sequence[StoredDocument],
    sketched_fields: Sequence[SketchedFields],
    former: SketchedFields | None = None,
    *,
    again: bool = False,
) -> ChangeReport:
    """Update documents whose tokens are not those of their text.

    Marks of another text are removed.

    documents: with at least `fields_to_read`; the lists of tokens may be missing.
    sketched_fields: `IndexMeta.sketched`, or `sketched_with_next`.
    former: the tokens that marks were made with, if the documents get other ones beside them.
    again: write documents with a text though they need no change, so that the index computes their
        tokens.

    Raises the errors of the store.
    """

    def decide(documents: Sequence[StoredDocument]) -> list[Decision]:
        with store.window.computing:
            decisions = renewals(documents, sketched_fields, former)
        if not again:
            return decisions
        return [
            Change(stored, {}) if decision == "unchanged" else decision
            for stored, decision in zip(documents, decisions, strict=True)
        ]

    return change_documents(store, documents, decide, fields_to_read(sketched_fields, former))


def renewals(
    documents: Sequence[StoredDocument],
    sketched_fields: Sequence[SketchedFields],
    former: SketchedFields | None = None,
) -> list[Decision]:
    """Return the change that each document needs to have the tokens of its text, as `renew`."""
    # Marks were made with the tokens of the first fields.
    marked = [former or sketched_fields[0], *[None] * (len(sketched_fields) - 1)]
    decisions_by_fields = map(partial(_decisions, documents), sketched_fields, marked)
    return [*map(_joined, zip(*decisions_by_fields, strict=True))]


def _joined(decisions: Sequence[Decision]) -> Decision:
    """Return one decision on a document for those on the tokens of each set of fields."""
    if failures := [decision for decision in decisions if isinstance(decision, Failure)]:
        return failures[0]
    changes = [decision for decision in decisions if isinstance(decision, Change)]
    if not changes:
        return "unchanged" if "unchanged" in decisions else decisions[0]
    fields = {name: value for change in changes for name, value in (change.fields or {}).items()}
    return replace(changes[0], fields=fields)


def digests(texts: Sequence[str], sketched: SketchedFields) -> list[str]:
    """Return the digests that documents of these texts have."""
    return normalised_digests(texts, sketched.scheme.normalisation)[1]


def _decisions(
    documents: Sequence[StoredDocument], sketched: SketchedFields, marked: SketchedFields | None
) -> list[Decision]:
    """Return the changes of one set of fields. marked: the tokens that marks were made with."""
    texts = [text_at(document.source, sketched.text_fields) for document in documents]
    if sketched.scheme.by_server:
        return ["without_text" if text is None else "unchanged" for text in texts]
    values = [document.source.get(sketched.field) for document in documents]
    foreign = {row for row, value in enumerate(values) if not isinstance(value, (dict, NoneType))}
    text_of = {
        row: text for row, text in enumerate(texts) if text is not None and row not in foreign
    }
    digest_of = dict(zip(text_of, digests([*text_of.values()], sketched), strict=True))
    stale = [
        row
        for row in text_of
        if _scheme_and_digest(documents[row], sketched) != (sketched.scheme.id, digest_of[row])
    ]
    # The next scheme of the index, if there is one, has a run of its own.
    tokens = tokens_of([text_of[row] for row in stale], sketched.scheme)
    tokens_of_row = dict(zip(stale, tokens, strict=True))
    decisions: list[Decision] = []
    for row, stored in enumerate(documents):
        if row in foreign:
            reason = f"it has a value in the field {sketched.field!r} that is not of esdedup"
            decisions.append(Failure(stored.id, reason))
        elif texts[row] is None and (fault := fault_in(stored.source, sketched.text_fields)):
            decisions.append(Failure(stored.id, fault))
        elif row not in tokens_of_row and row in digest_of:
            decisions.append("unchanged")
        elif row not in tokens_of_row and _scheme_and_digest(stored, sketched) == (None, None):
            decisions.append("without_text")
        else:
            marks = {} if marked is None else _outdated(stored, marked)
            fields = {**_cleared(stored, sketched), **tokens_of_row.get(row, {})}
            decisions.append(Change(stored, sketched.fields_of(fields, marks)))
    return decisions


def _scheme_and_digest(stored: StoredDocument, sketched: SketchedFields) -> tuple[object, object]:
    tokens = stored.tokens_in(sketched.field)
    return tokens.get("scheme"), tokens.get("digest")


def _outdated(stored: StoredDocument, sketched: SketchedFields) -> dict[str, object]:
    """Return what takes the place of marks that are of another text than a document has."""
    _, digest = _scheme_and_digest(stored, sketched)
    text = text_at(stored.source, sketched.text_fields)
    if digest is None or (text is not None and digest == digests([text], sketched)[0]):
        return {}
    marks, changes = tokens_in(stored.source, sketched.marks_field), dict[str, object]()
    if marks.get("original") is not None:
        changes |= {name: None for name in MARKS if name != "group"}
    if marks.get("group") is not None:
        # `collapse` needs a group.
        changes["group"] = stored.id
    return changes


def _cleared(stored: StoredDocument, sketched: SketchedFields) -> dict[str, None]:
    """Return nulls for the values to remove, which an update must name: it merges objects."""
    scheme, digest = _scheme_and_digest(stored, sketched)
    if (scheme, digest) == (None, None):
        return {}
    # Another scheme may have left tokens of any kind, which may not have been read.
    names = sketched.scheme.keys if scheme == sketched.scheme.id else OURS
    return dict.fromkeys([*filter(is_ours, stored.tokens_in(sketched.field)), *names])
