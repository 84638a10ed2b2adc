"""The values that calls return. Programs name them in annotations, and construct none of them.

ContainedItem: a record of `against` that a record of `esdedup.dedup` contains.
Containments: all of them; a list and a table.
Conflict: similar documents whose labels differ, and none of which is a duplicate.
ConflictReport: their numbers, in a `CleanReport`.
Conflicts: all of them, of `Groups`.
Dedup: the duplicates that `Index.dedup` removes, or would remove.
DedupReport: counts of the documents of that removal.
Deduplicated: the records that `esdedup.dedup` keeps and removes.
Duplicate: a removed record, and the one that it duplicates.
Duplicates: all of these; a list and a table.
Explanation: why two documents are similar or not, from `Index.explain`.
Failure: a document that was not stored as it was sent, and why.
Group: a representative and its duplicates.
GroupReport: what `Index.group` found and wrote.
Groups: all groups, from `Index.groups` and `esdedup.group`.
HotBuckets: the tokens that most documents have, from `Index.hot_buckets`.
IngestReport: counts of the records that `Index.add` read.
Match: a document that is similar to a query.
Member: a duplicate in a group.
Pair: two similar documents.
Report: the duplicates of an index in numbers, with examples, from `Index.report`.
PlannedMerge: a document that stays, and the values that it would take, by `Dedup.merges`.
Result: the matches of one query, from `Index.similar`.
SimilarPairs: all pairs, from `Index.pairs` and `esdedup.pairs`.
SpanReport: the counts of repeated spans, in a `CleanReport`.
Statistics: numbers of documents and bytes, from `Index.statistics`.
Unattached: indices behind a name that lack the fields, so that no result has their documents.
UndoReport: counts of the documents that `Index.undo` restored or could not restore.
"""

from typing import TYPE_CHECKING

from esdedup.lazy import import_name

if TYPE_CHECKING:
    from esdedup.analysis.explain import Explanation
    from esdedup.analysis.report import Report
    from esdedup.cleaning.report import ConflictReport, SpanReport
    from esdedup.compare.pairs import SimilarPairs
    from esdedup.deduplicated import (
        ContainedItem,
        Containments,
        Deduplicated,
        Duplicate,
        Duplicates,
    )
    from esdedup.groups.conflicts import Conflict, Conflicts
    from esdedup.groups.groups import Group, Groups, Member
    from esdedup.groups.marks import GroupReport
    from esdedup.ingest.ingest import IngestReport
    from esdedup.models import Failure, Match, Pair, Result, Statistics, Unattached
    from esdedup.removal.merges import PlannedMerge
    from esdedup.removal.remove import Dedup, DedupReport
    from esdedup.removal.undo import UndoReport
    from esdedup.search.hot_buckets import HotBuckets

__all__ = [
    "Conflict", "ConflictReport", "Conflicts", "ContainedItem", "Containments", "Dedup",
    "DedupReport", "Deduplicated", "Duplicate", "Duplicates", "Explanation", "Failure", "Group",
    "GroupReport", "Groups", "HotBuckets", "IngestReport", "Match", "Member", "Pair",
    "PlannedMerge", "Report", "Result", "SimilarPairs", "SpanReport", "Statistics",
    "Unattached", "UndoReport",
]  # fmt: skip

_MODULES = {
    "analysis.explain": "Explanation",
    "analysis.report": "Report",
    "cleaning.report": "ConflictReport SpanReport",
    "compare.pairs": "SimilarPairs",
    "deduplicated": "ContainedItem Containments Deduplicated Duplicate Duplicates",
    "groups.conflicts": "Conflict Conflicts",
    "groups.groups": "Group Groups Member",
    "groups.marks": "GroupReport",
    "ingest.ingest": "IngestReport",
    "models": "Failure Match Pair Result Statistics Unattached",
    "removal.merges": "PlannedMerge",
    "removal.remove": "Dedup DedupReport",
    "removal.undo": "UndoReport",
    "search.hot_buckets": "HotBuckets",
}


if not TYPE_CHECKING:  # Type checkers would take any name.

    def __getattr__(name: str) -> object:
        return import_name(name, __name__, _MODULES)


def __dir__() -> list[str]:
    return [*__all__]
