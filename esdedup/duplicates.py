"""Near-duplicates found as documents come in, and what is done with them.

A document is compared with what the store shows to searches, and with the documents that came just
before it, which it may not show yet. Who comes second is the duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from esdedup.datatypes import Query, tokens_in
from esdedup.exceptions import UsageError
from esdedup.recent import (
    Arrival,
    Classes,
    Row,
    Verdict,
    digests_and_bands,
    follows,
    sketched_anew,
)
from esdedup.schema import IndexMeta
from esdedup.search import Limits, check_threshold, require_bands, similar
from esdedup.sketch import Sketches
from esdedup.stores.base import Store

OnDuplicate = Literal["keep", "mark", "skip", "fail"]

_RECENT_DOCUMENTS = 20_000
_RECENT_CHARACTERS = 100_000_000
"""A generation of recent documents. Bulk helpers run behind by a few thousand at most."""


@dataclass(frozen=True)
class DuplicatePolicy:
    """What to do with a near-duplicate of an earlier document.

    action: "keep" it as any other; "mark" it with the original's id and the similarity; "skip" it;
    or "fail" it, which makes it an error. threshold: least Jaccard similarity. candidates:
    documents of the store to compare with, at most; the report counts where there were more.

    Raises UsageError for values out of range.
    """

    action: OnDuplicate = "keep"
    threshold: float = 0.8
    candidates: int = 100

    def __post_init__(self) -> None:
        if self.action not in ("keep", "mark", "skip", "fail"):
            raise UsageError(f"on duplicate {self.action!r}: use keep, mark, skip or fail")
        check_threshold(self.threshold)


class Originals:
    """Finds the originals of documents of one run, batch by batch.

    It remembers the documents of the last batches; older ones a refresh has made visible.
    meta: says what the index holds, which may change meanwhile. truncated: documents so far that
    had more candidates than the policy lets them be compared with, or were compared with none, as
    all their buckets are in the stop list.

    Raises UsageError where the index has no MinHash tokens.
    """

    def __init__(
        self, store: Store, meta: Callable[[], IndexMeta], policy: DuplicatePolicy
    ) -> None:
        self.truncated = 0
        self._store = store
        self._current = meta
        self._meta = meta()
        self._policy = policy
        self._recent: list[Row] = []
        self._older: list[Row] = []
        if self._meta.scheme.minhash is None:
            raise UsageError(
                f"to {policy.action} near-duplicates as they come in needs MinHash tokens, and the"
                " index has none: keep them, or make an index of a scheme with MinHash"
            )

    def find(self, arrivals: Sequence[Arrival]) -> list[Verdict]:
        """A verdict for each document of a batch, in order."""
        if not arrivals:
            return []
        self._follow(self._current())
        sketches = digests_and_bands([arrival.text for arrival in arrivals], self._meta)
        stored = self._stored(arrivals)
        before = self._older + self._recent
        classes = Classes(before, arrivals, sketches, self._meta, self._policy.threshold)
        last: dict[str, int] = {}
        for row in before:
            classes.add(row.digest, row.id, row.verdict, last)
        verdicts: list[Verdict] = []
        for arrival, digest, (near, truncated) in zip(
            arrivals, sketches.digests, stored, strict=True
        ):
            # What came in this run is in the store as it was before.
            near = [each for each in near if each[2] not in last]
            near += classes.near(digest, arrival.id, last)
            verdict = _verdict(arrival.id, near, truncated)
            verdicts.append(verdict)
            self.truncated += truncated
            if self._is_written(verdict):
                classes.add(digest, arrival.id, verdict, last)
        self._remember(arrivals, verdicts, sketches)
        return verdicts

    def forget(self, ids: Iterable[str]) -> None:
        """Takes back documents that were not written after all."""
        gone = set(ids)
        self._recent = [row for row in self._recent if row.id not in gone]
        self._older = [row for row in self._older if row.id not in gone]

    def _is_written(self, verdict: Verdict) -> bool:
        return verdict.original is None or self._policy.action == "mark"

    def _follow(self, meta: IndexMeta) -> None:
        """Sketches what it remembers anew where the index has changed its scheme."""
        if meta.scheme.id != self._meta.scheme.id:
            self._older, self._recent = (
                sketched_anew(rows, meta) for rows in (self._older, self._recent)
            )
        self._meta = meta

    def _stored(
        self, arrivals: Sequence[Arrival]
    ) -> list[tuple[list[tuple[float, str, str]], bool]]:
        """The similar documents that the store shows: similarity, group, id; and if cut off."""
        limit = self._policy.candidates
        limits = Limits(threshold=self._policy.threshold, matches=limit, candidates=limit)
        queries = [Query(arrival.text, exclude=arrival.id) for arrival in arrivals]
        results = similar(self._store, self._meta, queries, limits)
        found = []
        for arrival, result in zip(arrivals, results, strict=True):
            near = []
            for match in result.matches:
                ours = tokens_in(match.source, self._meta.field)
                verdict = Verdict(ours.get("group") or match.id, ours.get("original"))
                if not follows(verdict, arrival.id):
                    near.append((match.similarity or 0.0, verdict.group, match.id))
            found.append((near, result.truncated or result.blind))
        return found

    def _remember(
        self, arrivals: Sequence[Arrival], verdicts: Sequence[Verdict], sketches: Sketches
    ) -> None:
        bands = require_bands(sketches.bands)
        written = [row for row, verdict in enumerate(verdicts) if self._is_written(verdict)]
        again = {arrivals[row].id for row in written}
        if any(row.id in again for row in (*self._older, *self._recent)):
            self.forget(again)
        latest = {arrivals[row].id: row for row in written}
        self._recent += [
            Row(id, arrivals[row].text, verdicts[row], sketches.digests[row], bands[row])
            for id, row in latest.items()
            if sketches.filled[row]
        ]
        if len(self._recent) >= _RECENT_DOCUMENTS or (
            len(self._recent) >= _RECENT_DOCUMENTS // 4
            and sum(len(row.text) for row in self._recent) >= _RECENT_CHARACTERS
        ):
            # What came before this generation has long been written: now it is visible too.
            self._store.refresh()
            self._older, self._recent = self._recent, []


def _verdict(id: str, near: list[tuple[float, str, str]], truncated: bool) -> Verdict:
    if not near:
        return Verdict(id, truncated=truncated)
    similarity, group, original = max(near, key=lambda each: (each[0], each[2]))
    return Verdict(group, original, similarity, truncated)
