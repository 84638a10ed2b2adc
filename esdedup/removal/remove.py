"""Delete, mark or move duplicates, with a log from which that can be undone.

A document is changed only if its text, and that of its representative, are still the texts that
were compared. It is logged whole first, and then changed only if no client has changed it since
(`stores.changes`). A document whose representative vanishes meanwhile is restored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from esdedup.exceptions import RecordError, StoreError
from esdedup.groups.groups import Groups
from esdedup.groups.marks import differing, former, merging, require_settled, wanted_marks
from esdedup.models import Change, Counts, Failure, Held
from esdedup.removal.log import Action, Entry, LogWriter, RunHeader
from esdedup.stores.base import Store
from esdedup.stores.changes import CHANGED, Decision, change_held
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import digests_of, read_judgements
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.to_json import same_json

_FIRST_PAGE = 100
_PAGE = 1_000
_CHARACTERS = 20_000_000
"""Number of documents of a page, and about the characters of all pages that are held at once."""

_DELETED = "it is not there any more"

_Restored = tuple[set[str], set[str], list[Failure]]
"""Ids of the documents that were created, of those that were present, and the failures."""


def remove(store: Store, held: Sequence[Held]) -> list[Failure]:
    """Delete documents that have not changed since they were held; return the other failures."""
    version = {one.id: one.version for one in held}

    def decide(some: Sequence[Held]) -> list[Decision]:
        return [
            Change(now, None) if now.version == version[now.id] else _changed(now) for now in some
        ]

    return change_held(store, held, decide, [], _DELETED).failures


def _changed(held: Held) -> Failure:
    return Failure(held.id, CHANGED, conflict=True)


def put_back(store: Store, held: Sequence[Held]) -> _Restored:
    """Create documents as they were held; equal ones are present, and none is overwritten.

    An equal one counts as created if an answer was lost before: it is then this request's own.
    """
    found = {one.id: one for one in store.hold([one.id for one in held])}
    report = store.restore([one for one in held if one.id not in found])
    refused = {each.id: each for each in report.failures}
    found |= {one.id: one for one in store.hold(list(refused))}
    taken = f"{store.where} has another document of this id, which is unchanged"
    created, present, failures = set[str](), set[str](), list[Failure]()
    for one in held:
        there = found.get(one.id)
        if there is not None and same_json(there.document.source, one.document.source):
            lost = one.id in refused and refused[one.id].unsure
            (created if lost else present).add(one.id)
        elif there is not None:
            failures.append(Failure(one.id, taken, conflict=True))
        elif one.id in refused:
            failures.append(refused[one.id])
        else:
            created.add(one.id)
    return created, present, failures


def move(store: Store, destination: Store, entries: Sequence[Entry]) -> list[Failure]:
    """Create documents in another index, then delete them here; return the failures."""
    held = [entry.held for entry in entries]
    created, present, failures = put_back(destination, [replace(one, index=None) for one in held])
    # By the log, the others are to be deleted there when the run is undone.
    known = {entry.id for entry in entries if entry.present}
    reason = f"it came into {destination.where} just now"
    failures += [Failure(id, reason, conflict=True) for id in sorted(present - known)]
    arrived = created | (present & known)
    left = remove(store, [one for one in held if one.id in arrived])
    # A document that changed here stays here, and its old copy must not stay there.
    stayed = {each.id for each in left} & created
    _remove_same(destination, [one for one in held if one.id in stayed])
    return failures + left


def move_back(store: Store, destination: Store | None, entries: Sequence[Entry]) -> _Restored:
    """Restore documents, and delete the unchanged ones that the run moved to `destination`."""
    created, present, failures = put_back(store, [entry.held for entry in entries])
    if destination is not None:
        ours = [entry.held for entry in entries if not entry.present]
        back = created | present
        failures += _remove_same(destination, [one for one in ours if one.id in back])
    return created, present, failures


def _remove_same(store: Store, held: Sequence[Held]) -> list[Failure]:
    """Delete the documents that are unchanged; return a failure for each changed one."""
    wanted = {one.id: one.document.source for one in held}
    found = store.hold(list(wanted))
    same = [one for one in found if same_json(one.document.source, wanted[one.id])]
    changed = {one.id for one in found} - {one.id for one in same}
    changed |= {each.id for each in remove(store, same) if each.reason != _DELETED}
    reason = f"it was restored, and stays in {store.where} too, where it was changed"
    return [Failure(id, reason, conflict=True) for id in wanted if id in changed]


@dataclass(frozen=True)
class DedupReport(Counts):
    """Counts of the documents of a run.

    done: deleted, marked or moved. unchanged: had the marks already. gone: were deleted by other
    clients, or by a run that was killed. failures: skipped, with the reason; a conflict means that
    a document changed since it was compared.
    """

    done: int = 0
    unchanged: int = 0
    gone: int = 0
    failures: list[Failure] = field(default_factory=list)

    @property
    def settled(self) -> int:
        """The sum of all counts."""
        return self.done + self.unchanged + self.gone + len(self.failures)


@dataclass(frozen=True)
class Dedup:
    """Duplicates of an index, and the report of their removal.

    scheme: id of the index's scheme. destination: an index of the same scheme to move them to;
    created if there is none. log: file that `Index.undo` accepts; None if there was nothing to
    change. report: None before `apply`.
    """

    store: Store = field(repr=False)
    meta: IndexMeta = field(repr=False)
    scheme: str
    groups: Groups
    action: Action
    destination: Store | None = field(repr=False)
    log: Path | None
    report: DedupReport | None = None

    def apply(self, on_report: Callable[[DedupReport], None] | None = None) -> Dedup:
        """Delete, mark or move the duplicates, and return this with the report.

        Every document is logged whole before it is changed. A document that was changed since it
        was compared is skipped. on_report: called after each page with its report.

        Raises UsageError if the log exists, SchemeMismatch for a destination of another scheme,
        StoreError if judgements changed since the groups were found, if the log can't be written,
        or if the name means other indices by now, and the errors of the store. The same call again
        resumes, with another log.
        """
        if not self.groups.duplicates or self.log is None:
            return replace(self, log=None, report=DedupReport())
        if self.action != "delete":
            require_settled(self.store, self.meta)
        self._require_judged()
        there = self.destination
        stored = None if there is None else there.meta()
        if there is not None and stored is not None:
            stored.require(self.meta, there.where)
        header = RunHeader(
            self.store.index,
            self.store.address,
            self.scheme,
            self.meta.marks_field,
            self.action,
            None if there is None else there.index,
            self.groups.grouping.to_json(),
            datetime.now(UTC).isoformat(timespec="seconds"),
        )
        with LogWriter(self.log, header) as log:
            if there is not None and stored is None:
                there.create(replace(self.meta, next=None))
            return replace(self, report=self._carry_out(log, on_report))

    def _carry_out(
        self, log: LogWriter, on_report: Callable[[DedupReport], None] | None
    ) -> DedupReport:
        """Log and change all documents, some pages at the same time, and return their counts."""
        heads, rows = self.groups.representative, self.groups.duplicate_rows
        if self.action == "mark":
            rows = np.union1d(rows, heads[rows])
        # Each representative right before its duplicates.
        rows = rows[np.argsort(heads[rows], kind="stable")]
        indices = {None, self.store.index, *self.store.names()}
        total, size, window = DedupReport(), _FIRST_PAGE, self.store.window

        def pages() -> Iterator[list[int]]:
            first = 0
            while some := rows[first : first + size].tolist():
                first += len(some)
                yield some

        work = partial(self._page, log=log, indices=indices)
        # The first page shows how long documents are.
        given = pages()
        first = map(work, itertools.islice(given, 1))
        with closing(window.in_order(work, given)) as others:
            for report, mean in itertools.chain(first, others):
                total += report
                if on_report is not None:
                    on_report(report)
                size = max(1, min(_PAGE, _CHARACTERS // window.most // max(1, mean)))
        for each in (self.store, self.destination):
            if each is not None:
                each.refresh()
        return total

    def _require_judged(self) -> None:
        if read_judgements(self.store, self.meta).acting != self.groups.judgements.acting:
            raise StoreError(
                "judgements changed since these groups were found: find the groups again"
            )

    def _page(
        self, rows: list[int], log: LogWriter, indices: Set[str | None]
    ) -> tuple[DedupReport, int]:
        """Change the documents of some rows; return the counts, and their mean characters."""
        self._require_judged()
        row_of = {self.groups.ids[row]: row for row in rows}
        held = {one.id: one for one in self.store.hold(list(row_of))}
        if new := {one.index for one in held.values()} - indices:
            raise StoreError(
                f"{self.store.where} means {', '.join(map(str, new))} now, and another index when"
                " this run began: find the groups again"
            )
        digest_of = self._digests(held.values())
        originals = self._originals(rows)
        there = [] if self.destination is None else self.destination.hold(list(held))
        sources = {id: one.document.source for id, one in held.items()}
        present = {one.id for one in there if same_json(one.document.source, sources[one.id])}
        entries, lines, failures, done, unchanged = [], [], [], list[str](), 0
        for id, one in held.items():
            planned = self._planned(row_of[id], one, digest_of.get(id), originals)
            if planned is None:
                unchanged += 1
            elif isinstance(planned, Failure):
                failures.append(planned)
            else:
                entry = replace(planned, present=id in present)
                try:
                    lines.append(entry.line())
                    entries.append(entry)
                except RecordError as error:
                    failures.append(Failure(id, f"it can't be logged: {error}"))
        if entries:
            log.append(lines)
            done, left = self._change(entries, row_of)
            failures += left
        if entries or failures:
            log.settle(done, failures)
        failed = {each.id for each in failures}
        changed = sum(id not in failed for id in done)
        left = [each for each in failures if each.reason != _DELETED]
        gone = len(rows) - len(held) + len(failures) - len(left)
        report = DedupReport(changed, unchanged, gone, left)
        texts = (text_at(one.document.source, self.meta.text_fields) for one in held.values())
        characters = sum(len(text or "") for text in texts) + sum(map(len, lines))
        return report, characters // len(rows)

    def _change(
        self, entries: list[Entry], row_of: Mapping[str, int]
    ) -> tuple[list[str], list[Failure]]:
        """Change logged documents; return the ids of those that changed, and the failures."""
        if self.action == "mark":
            failures = self._mark(entries)
        elif self.destination is not None:
            failures = move(self.store, self.destination, entries)
        else:
            failures = remove(self.store, [entry.held for entry in entries])
        stayed = {each.id for each in failures}
        changed = [entry for entry in entries if entry.id not in stayed]
        if self.action == "mark":
            return [entry.id for entry in changed], failures
        # A representative can vanish meanwhile, such as by a run that keeps other documents.
        originals = self._originals([row_of[entry.id] for entry in changed])
        bereft = [entry for entry in changed if entry.original not in originals]
        created: set[str] = set()
        if bereft:
            created, present, left = move_back(self.store, self.destination, bereft)
            reason = "its original is gone, or its text changed since it was compared: restored"
            returned = {id: Failure(id, reason, conflict=True) for id in created | present}
            failures = [*failures, *(returned | {each.id: each for each in left}).values()]
        # One that is present may be another client's copy, in another index behind the name.
        return [each.id for each in changed if each.id not in created], failures

    def _originals(self, rows: Sequence[int]) -> set[str]:
        """Return the ids of the rows' representatives that have the text that was compared."""
        heads = self.groups.representative[rows].tolist()
        if self.groups.outside:
            return {self.groups.ids[head] for head in heads}
        digest_of = {self.groups.ids[head]: self.groups.digest(head) for head in heads}
        held = self.store.hold(list(digest_of), [*self.meta.text_fields])
        found = self._digests(held)
        return {id for id, digest in digest_of.items() if found.get(id) == digest}

    def _digests(self, held: Iterable[Held]) -> dict[str, str]:
        texts, normalisation = self.meta.text_fields, self.meta.scheme.normalisation
        return digests_of((one.document for one in held), texts, normalisation)

    def _planned(
        self, row: int, held: Held, digest: str | None, originals: set[str]
    ) -> Entry | Failure | None:
        """Return its entry; a failure if it can't be changed; None if it needs no change."""
        groups, source, name = self.groups, held.document.source, self.meta.marks_field
        head, compared = int(groups.representative[row]), groups.digest(row)
        original = groups.ids[head]
        reason = None
        if digest != compared:
            reason = "its text changed since it was compared"
            if held.document.tokens_in(self.meta.field).get("digest") == compared:
                reason = "its tokens are not of its present text (esdedup backfill --stale)"
        elif original not in originals:
            reason = f"its original {original!r} is gone, or its text changed since it was compared"
        if reason is not None:
            return Failure(held.id, reason, conflict=True)
        similar = (None, None) if head == row else (original, float(groups.value[row]))
        entry = Entry(held, *similar)
        if self.action != "mark":
            return entry
        marks = differing(source, name, wanted_marks(groups, row))
        return replace(entry, marks=marks, former=former(source, name, marks)) if marks else None

    def _mark(self, entries: list[Entry]) -> list[Failure]:
        entry_of = {entry.id: entry for entry in entries}

        def decision(now: Held) -> Decision:
            source, entry = now.document.source, entry_of[now.id]
            if not differing(source, self.meta.marks_field, entry.marks):
                return "unchanged"
            if now.version != entry.held.version:
                return _changed(now)
            return Change(now, merging(source, self.meta.marks_field, entry.marks))

        held = [entry.held for entry in entries]
        report = change_held(self.store, held, lambda some: [*map(decision, some)], gone=CHANGED)
        return report.failures
