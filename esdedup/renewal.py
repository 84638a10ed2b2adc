"""Tokens into documents that exist, and out of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from esdedup.documents import OURS, fields_of
from esdedup.fields import value_at
from esdedup.schema import IndexMeta
from esdedup.sketch import digest
from esdedup.stores.client import Cluster
from esdedup.stores.updates import Change, Hit, UpdateReport, update
from esdedup.text import normalise


def paths_to_read(meta: IndexMeta) -> list[str]:
    """The fields that `renew` needs of a document."""
    ours = ("scheme", "digest", "group", "original")
    return [meta.text_field, *(f"{meta.field}.{name}" for name in ours)]


def renew(cluster: Cluster, hits: Sequence[Hit], meta: IndexMeta) -> UpdateReport:
    """Gives documents the tokens of their text, where they have not the right ones.

    hits: with at least the fields of `paths_to_read`. Raises the errors of the store.
    """
    return update(cluster, hits, partial(_renewals, meta=meta), paths_to_read(meta))


def forget(cluster: Cluster, hits: Sequence[Hit], field: str) -> UpdateReport:
    """Takes a whole field of ours out of documents: null stands in its place.

    To leave the key out too would take a script, or the whole document written anew.
    """

    def changes(found: Sequence[Hit]) -> tuple[list[Change], UpdateReport]:
        return [(hit, {field: None}) for hit in found], UpdateReport()

    return update(cluster, hits, changes, [f"{field}.scheme"])


def digests(texts: Sequence[str], meta: IndexMeta) -> list[str]:
    """The digests that documents of these texts have."""
    return [digest(text) for text in normalise(texts, meta.scheme.normalisation)]


def _renewals(hits: Sequence[Hit], meta: IndexMeta) -> tuple[list[Change], UpdateReport]:
    texts = [value_at(hit.get("_source", {}), meta.text_field) for hit in hits]
    sketched = [row for row, text in enumerate(texts) if isinstance(text, str)]
    wanted = digests([texts[row] for row in sketched], meta)
    stale = [
        row
        for row, text_digest in zip(sketched, wanted, strict=True)
        if _stored(hits[row], meta) != (meta.scheme.id, text_digest)
    ]
    # The next scheme of the index, where there is one, has a run of its own.
    alone = IndexMeta(meta.scheme, meta.text_field, meta.field)
    fields = fields_of([texts[row] for row in stale], alone)
    changes = [
        (hits[row], {meta.field: {**_cleared(hits[row], meta), **tokens[meta.field]}})
        for row, tokens in zip(stale, fields, strict=True)
    ]
    bare = [row for row, text in enumerate(texts) if not isinstance(text, str)]
    lost = [row for row in bare if _stored(hits[row], meta) != (None, None)]
    changes += [(hits[row], {meta.field: _cleared(hits[row], meta)}) for row in lost]
    return changes, UpdateReport(
        unchanged=len(sketched) - len(stale), without_text=len(bare) - len(lost)
    )


def _stored(hit: Hit, meta: IndexMeta) -> tuple[Any, Any]:
    source = hit.get("_source", {})
    return value_at(source, f"{meta.field}.scheme"), value_at(source, f"{meta.field}.digest")


def _cleared(hit: Hit, meta: IndexMeta) -> dict[str, Any]:
    """An update merges objects, so that what shall go must be named.

    What was said of another text, that it is like some document, goes too; a group has to be
    there for `collapse`, and the document then is a group of its own.
    """
    if _stored(hit, meta) == (None, None):
        return {}
    source = hit.get("_source", {})
    names = list(OURS)
    if value_at(source, f"{meta.field}.original") is not None:
        names += ["original", "similarity"]
    cleared: dict[str, Any] = dict.fromkeys(names)
    if value_at(source, f"{meta.field}.group") is not None:
        cleared["group"] = hit["_id"]
    return cleared
