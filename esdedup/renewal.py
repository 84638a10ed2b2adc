"""Tokens into documents that exist: partial updates that overwrite no one's change.

Each update names the version that was read; a document that changed meanwhile is read again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esdedup.datatypes import Failure
from esdedup.fields import value_at
from esdedup.ingest import fields_of
from esdedup.schema import IndexMeta
from esdedup.sketch import digest
from esdedup.stores.bulk import Action
from esdedup.stores.client import Cluster, line
from esdedup.text import normalise

_ATTEMPTS = 12

Hit = Mapping[str, Any]


@dataclass(frozen=True)
class RenewalReport:
    """What became of the documents read; read = written + unchanged + without_text + gone + failed.

    written: got tokens, or lost those of a text that is gone. unchanged: had the right ones.
    without_text: have no text and no tokens. gone: deleted meanwhile. conflicts: times that a
    document was read again because it changed. failures: with "index/id" for the id.
    """

    read: int = 0
    written: int = 0
    unchanged: int = 0
    without_text: int = 0
    gone: int = 0
    conflicts: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """The number of failures."""
        return len(self.failures)

    def __add__(self, other: RenewalReport) -> RenewalReport:
        return RenewalReport(
            self.read + other.read,
            self.written + other.written,
            self.unchanged + other.unchanged,
            self.without_text + other.without_text,
            self.gone + other.gone,
            self.conflicts + other.conflicts,
            self.failures + other.failures,
        )


def paths_to_read(meta: IndexMeta) -> list[str]:
    """The fields that `renew` needs of a document."""
    return [
        meta.text_field,
        *(f"{meta.field}.{name}" for name in ("scheme", "digest", "group", "original")),
    ]


def renew(cluster: Cluster, hits: Sequence[Hit], meta: IndexMeta) -> RenewalReport:
    """Gives documents the tokens of their text, where they have not the right ones.

    hits: of a search with `seq_no_primary_term` and at least the fields of `paths_to_read`.
    Raises the errors of the store.
    """
    report = RenewalReport(read=len(hits))
    pending = list(hits)
    for attempt in range(_ATTEMPTS):
        changes, settled = _changes(pending, meta)
        report += settled
        conflicts, written = _write(cluster, changes)
        report += written
        if not conflicts:
            return report
        # A writer that is quicker than this must not be met in step each time.
        time.sleep(random.uniform(0, 0.02 * attempt))
        pending, vanished = _read_again(cluster, conflicts, meta)
        report += RenewalReport(conflicts=len(conflicts), gone=vanished)
        if not pending:
            return report
    reason = f"it changed each of {_ATTEMPTS} times between reading and writing; run this again"
    return report + RenewalReport(failures=[Failure(_name(hit), reason) for hit in pending])


def digests(texts: Sequence[str], meta: IndexMeta) -> list[str]:
    """The digests that documents of these texts have."""
    return [digest(text) for text in normalise(texts, meta.scheme.normalisation)]


def _changes(
    hits: Sequence[Hit], meta: IndexMeta
) -> tuple[list[tuple[Hit, dict[str, Any]]], RenewalReport]:
    """The fields to write, and what needs no writing."""
    texts = [value_at(hit.get("_source", {}), meta.text_field) for hit in hits]
    sketched = [row for row, text in enumerate(texts) if isinstance(text, str)]
    wanted = digests([texts[row] for row in sketched], meta)
    stale = [
        row
        for row, text_digest in zip(sketched, wanted, strict=True)
        if _stored(hits[row], meta) != (meta.scheme.id, text_digest)
    ]
    fields = fields_of([texts[row] for row in stale], _alone(meta))
    changes = [
        (hits[row], {meta.field: {**_cleared(hits[row], meta), **tokens[meta.field]}})
        for row, tokens in zip(stale, fields, strict=True)
    ]
    bare = [row for row, text in enumerate(texts) if not isinstance(text, str)]
    lost = [row for row in bare if _stored(hits[row], meta) != (None, None)]
    changes += [(hits[row], {meta.field: _cleared(hits[row], meta)}) for row in lost]
    return changes, RenewalReport(
        unchanged=len(sketched) - len(stale), without_text=len(bare) - len(lost)
    )


def _alone(meta: IndexMeta) -> IndexMeta:
    return IndexMeta(meta.scheme, meta.text_field, meta.field)


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
    names = ["scheme", "digest", "minhash", "simhash", "fingerprint"]
    if value_at(hit.get("_source", {}), f"{meta.field}.original") is not None:
        names += ["original", "similarity"]
    cleared: dict[str, Any] = dict.fromkeys(names)
    if value_at(hit.get("_source", {}), f"{meta.field}.group") is not None:
        cleared["group"] = hit["_id"]
    return cleared


def _write(
    cluster: Cluster, changes: list[tuple[Hit, dict[str, Any]]]
) -> tuple[list[Hit], RenewalReport]:
    """Sends the updates; the documents that changed meanwhile, and what became of the others."""
    actions = [Action(str(row), b"".join(_lines(*change))) for row, change in enumerate(changes)]
    report = cluster.bulk(actions, cluster.client.shown)
    conflicts: list[Hit] = []
    failures: list[Failure] = []
    gone = 0
    for failure in report.failures:
        hit = changes[int(failure.id)][0]
        if failure.conflict:
            conflicts.append(hit)
        elif "document_missing_exception" in failure.reason:
            gone += 1
        else:
            failures.append(Failure(_name(hit), failure.reason))
    written = report.created + report.updated
    return conflicts, RenewalReport(written=written, gone=gone, failures=failures)


def _lines(hit: Hit, fields: dict[str, Any]) -> Iterator[bytes]:
    target = {
        "_index": hit["_index"],
        "_id": hit["_id"],
        "if_seq_no": hit["_seq_no"],
        "if_primary_term": hit["_primary_term"],
    }
    if "_routing" in hit:
        target["routing"] = hit["_routing"]
    yield line({"update": target})
    yield line({"doc": fields})


def _read_again(cluster: Cluster, hits: list[Hit], meta: IndexMeta) -> tuple[list[Hit], int]:
    """The documents as they are now, seen by searches or not, and how many are gone."""
    wanted = [
        {
            "_index": hit["_index"],
            "_id": hit["_id"],
            "_source": paths_to_read(meta),
            **({"routing": hit["_routing"]} if "_routing" in hit else {}),
        }
        for hit in hits
    ]
    _, answer = cluster.ask("POST", "/_mget", {"docs": wanted})
    found = [found for found in answer["docs"] if found.get("found")]
    return found, len(hits) - len(found)


def _name(hit: Hit) -> str:
    return f"{hit['_index']}/{hit['_id']}"
