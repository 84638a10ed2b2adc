"""Partial updates of documents that exist, which overwrite no one's change.

Each update names the version that was read; a document that changed meanwhile is read again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esdedup.models import Failure
from esdedup.stores.elastic.bulk import Action
from esdedup.stores.elastic.client import Cluster, line

_ATTEMPTS = 12

Hit = Mapping[str, Any]
"""A hit of a search with `seq_no_primary_term`, or an item of a multi-get."""

Change = tuple[Hit, dict[str, Any]]
"""A document, and the fields to be merged into it."""


@dataclass(frozen=True)
class UpdateReport:
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

    @property
    def settled(self) -> int:
        """Documents that need not be read again."""
        return self.written + self.unchanged + self.gone

    def __add__(self, other: UpdateReport) -> UpdateReport:
        return UpdateReport(
            self.read + other.read,
            self.written + other.written,
            self.unchanged + other.unchanged,
            self.without_text + other.without_text,
            self.gone + other.gone,
            self.conflicts + other.conflicts,
            self.failures + other.failures,
        )


Changes = Callable[[Sequence[Hit]], tuple[list[Change], UpdateReport]]
"""What to change in documents, and what became of those that need no change."""


def update(
    cluster: Cluster, hits: Sequence[Hit], changes: Changes, fields: Mapping[str, Any]
) -> UpdateReport:
    """Changes documents as they are at the moment of writing.

    hits: with at least what `fields` names of their `_source`, which is read again where a document
    changed.
    Raises the errors of the store.
    """
    report = UpdateReport(read=len(hits))
    pending = list(hits)
    for attempt in range(_ATTEMPTS):
        wanted, settled = changes(pending)
        conflicts, written = _write(cluster, wanted)
        report += settled + written
        if not conflicts:
            return report
        # A writer that is quicker than this must not be met in step each time.
        time.sleep(random.uniform(0, 0.02 * attempt))
        pending, vanished = _read_again(cluster, conflicts, fields)
        report += UpdateReport(conflicts=len(conflicts), gone=vanished)
        if not pending:
            return report
    reason = f"it changed each of {_ATTEMPTS} times between reading and writing; run this again"
    return report + UpdateReport(failures=[Failure(_name(hit), reason) for hit in pending])


def _write(cluster: Cluster, changes: list[Change]) -> tuple[list[Hit], UpdateReport]:
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
    return conflicts, UpdateReport(written=written, gone=gone, failures=failures)


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


def _read_again(
    cluster: Cluster, hits: list[Hit], fields: Mapping[str, Any]
) -> tuple[list[Hit], int]:
    """The documents as they are now, seen by searches or not, and how many are gone."""
    wanted = [
        {
            "_index": hit["_index"],
            "_id": hit["_id"],
            "_source": fields,
            **({"routing": hit["_routing"]} if "_routing" in hit else {}),
        }
        for hit in hits
    ]
    found = cluster.get_many({"docs": wanted})
    return found, len(hits) - len(found)


def _name(hit: Hit) -> str:
    return f"{hit['_index']}/{hit['_id']}"
