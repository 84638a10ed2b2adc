"""Tokens into documents that exist, and out of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from esdedup.ingest.documents import MARKS, OURS, cleared, fields_of
from esdedup.models import Failure
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.documents import (
    Hit,
    PartialUpdate,
    UpdateReport,
    update,
)
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import TOKEN_PATHS, IndexMeta


def fields_to_read(meta: IndexMeta, marks_in: str | None = None) -> dict[str, list[str]]:
    """What `renew` needs of a document's `_source`. marks_in: see there."""
    others = [marks_in] if marks_in is not None else []
    return without_tokens(meta.text_field, meta.field, *others)


def without_tokens(*names: str) -> dict[str, list[str]]:
    """These fields of a document's `_source`, but for the lists of tokens in them."""
    return {"includes": list(names), "excludes": TOKEN_PATHS}


def renew(
    cluster: Cluster, hits: Sequence[Hit], meta: IndexMeta, marks_in: str | None = None
) -> UpdateReport:
    """Gives documents the tokens of their text, where they have not the right ones.

    hits: with at least what `fields_to_read` names. marks_in: the field of the former scheme, whose
    group and mark are taken over where its digest fits. Raises the errors of the store.
    """
    changes = partial(_renewals, meta=meta, marks_in=marks_in)
    return update(cluster, hits, changes, fields_to_read(meta, marks_in))


def forget(cluster: Cluster, hits: Sequence[Hit], field: str) -> UpdateReport:
    """Takes a field of ours out of documents: null stands in its place.

    To leave the key out too would take a script, or the whole document written anew. What others
    keep below it stays.
    """

    def changes(found: Sequence[Hit]) -> tuple[list[PartialUpdate], UpdateReport]:
        return [(hit, {field: _nothing(hit, field)}) for hit in found], UpdateReport()

    return update(cluster, hits, changes, without_tokens(field))


def _nothing(hit: Hit, field: str) -> dict[str, None] | None:
    held = hit.get("_source", {}).get(field)
    if isinstance(held, dict) and held.keys() - {*OURS, *MARKS}:
        return dict.fromkeys((*OURS, *MARKS))
    return None


def digests(texts: Sequence[str], meta: IndexMeta) -> list[str]:
    """The digests that documents of these texts have."""
    return normalised_digests(texts, meta.scheme.normalisation)[1]


def _renewals(
    hits: Sequence[Hit], meta: IndexMeta, marks_in: str | None
) -> tuple[list[PartialUpdate], UpdateReport]:
    foreign = [hit for hit in hits if _is_foreign(hit, meta.field)]
    mine = [hit for hit in hits if not _is_foreign(hit, meta.field)]
    texts = [value_at(hit.get("_source", {}), meta.text_field) for hit in mine]
    sketched = [row for row, text in enumerate(texts) if isinstance(text, str)]
    wanted = digests([texts[row] for row in sketched], meta)
    stale = [
        (row, fresh)
        for row, fresh in zip(sketched, wanted, strict=True)
        if _stored(mine[row], meta.field) != (meta.scheme.id, fresh)
    ]
    # The next scheme of the index, where there is one, has a run of its own.
    alone = IndexMeta(meta.scheme, meta.text_field, meta.field)
    fields = fields_of([texts[row] for row, _ in stale], alone)
    changes = []
    for (row, fresh), tokens in zip(stale, fields, strict=True):
        marks = {} if marks_in is None else _marks(mine[row], marks_in, fresh)
        whole = {**_cleared(mine[row], meta), **marks, **tokens[meta.field]}
        changes.append((mine[row], {meta.field: whole}))
    bare = [row for row, text in enumerate(texts) if not isinstance(text, str)]
    lost = [row for row in bare if _stored(mine[row], meta.field) != (None, None)]
    changes += [(mine[row], {meta.field: _cleared(mine[row], meta)}) for row in lost]
    reason = f"it has a value in the field {meta.field!r} that is not of esdedup"
    return changes, UpdateReport(
        unchanged=len(sketched) - len(stale),
        without_text=len(bare) - len(lost),
        failures=[Failure(f"{hit['_index']}/{hit['_id']}", reason) for hit in foreign],
    )


def _is_foreign(hit: Hit, field: str) -> bool:
    """Whether a document keeps something else under our field's name."""
    held = hit.get("_source", {}).get(field)
    return held is not None and not isinstance(held, dict)


def _stored(hit: Hit, field: str) -> tuple[Any, Any]:
    source = hit.get("_source", {})
    return value_at(source, f"{field}.scheme"), value_at(source, f"{field}.digest")


def _marks(hit: Hit, field: str, fresh: str) -> dict[str, Any]:
    """The group and mark that a document has by its former scheme; fresh: its text's digest."""
    held = hit.get("_source", {}).get(field)
    if not isinstance(held, dict) or held.get("group") is None:
        return {}
    if held.get("digest") != fresh:
        return {"group": hit["_id"]}
    return {name: held[name] for name in MARKS if held.get(name) is not None}


def _cleared(hit: Hit, meta: IndexMeta) -> dict[str, Any]:
    """An update merges objects, so that what shall go must be named.

    What was said of another text, that it is like some document, goes too; a group has to be
    there for `collapse`, and the document then is a group of its own.
    """
    if _stored(hit, meta.field) == (None, None):
        return {}
    source = hit.get("_source", {})
    # Another scheme may have made tokens of any kind.
    same = _stored(hit, meta.field)[0] == meta.scheme.id
    gone: dict[str, Any] = cleared(meta.scheme) if same else dict.fromkeys(OURS)
    if value_at(source, f"{meta.field}.original") is not None:
        gone |= {name: None for name in MARKS if name != "group"}
    if value_at(source, f"{meta.field}.group") is not None:
        gone["group"] = hit["_id"]
    return gone
