"""Near-duplicates found as documents come in, and what is done with them.

A document is compared with what the store shows to searches, and with the documents that came just
before it, which it may not show yet. Who comes second is the duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from esdedup.buckets import band_pairs
from esdedup.datatypes import tokens_in
from esdedup.exceptions import UsageError
from esdedup.hashing import U64
from esdedup.schema import IndexMeta
from esdedup.search import Limits, Query, check_threshold, require_bands, similar
from esdedup.sketch import Sketches, shingle_sets, sketch
from esdedup.stores.base import Store
from esdedup.verify import jaccard

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


@dataclass(frozen=True)
class Arrival:
    """A document on its way in."""

    id: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """Which earlier document one is like; no original where it is like none.

    group: the id of the first of the documents that are like each other, its own where it is that.
    truncated: there were more candidates than were compared.
    """

    group: str
    original: str | None = None
    similarity: float | None = None
    truncated: bool = False

    def fields(self) -> dict[str, Any]:
        """What "mark" adds to our field."""
        if self.original is None:
            return {"group": self.group}
        return {"group": self.group, "original": self.original, "similarity": self.similarity}


@dataclass(frozen=True)
class _Row:
    """A document that came before, with what is needed to compare with it."""

    id: str
    text: str
    verdict: Verdict
    digest: str
    bands: U64


class Originals:
    """Finds the originals of documents of one run, batch by batch.

    It remembers the documents of the last batches; older ones a refresh has made visible.
    meta: says what the index holds, which may change meanwhile. truncated: documents so far that
    had more candidates than the policy lets them be compared with.

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
        self._recent: list[_Row] = []
        self._older: list[_Row] = []
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
        sketches = sketch([arrival.text for arrival in arrivals], self._meta.scheme)
        stored = self._stored(arrivals)
        before = self._older + self._recent
        classes = _Classes(before, arrivals, sketches, self._meta, self._policy.threshold)
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
                _sketched_anew(rows, meta) for rows in (self._older, self._recent)
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
                if not _follows(verdict, arrival.id):
                    near.append((match.similarity or 0.0, verdict.group, match.id))
            found.append((near, result.truncated))
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
            _Row(id, arrivals[row].text, verdicts[row], sketches.digests[row], bands[row])
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


def _sketched_anew(rows: list[_Row], meta: IndexMeta) -> list[_Row]:
    sketches = sketch([row.text for row in rows], meta.scheme)
    bands = require_bands(sketches.bands)
    return [
        replace(row, digest=digest, bands=row_bands)
        for row, digest, row_bands in zip(rows, sketches.digests, bands, strict=True)
    ]


def _follows(verdict: Verdict, id: str) -> bool:
    """Whether a document is a duplicate of this very one, which then can't be its duplicate."""
    return id in (verdict.group, verdict.original)


class _Classes:
    """Documents by their text: all of equal texts are alike, and compared once.

    Thousands of equal texts would be millions of pairs.
    """

    def __init__(
        self,
        before: Sequence[_Row],
        arrivals: Sequence[Arrival],
        sketches: Sketches,
        meta: IndexMeta,
        threshold: float,
    ) -> None:
        self._rows: dict[str, list[tuple[str, Verdict, int]]] = {}
        self._near: dict[str, list[tuple[str, float]]] = {}
        self._count = 0
        texts = {row.digest: (row.text, row.bands) for row in before}
        fresh = set()
        bands = require_bands(sketches.bands)
        for at in np.flatnonzero(sketches.filled).tolist():
            fresh.add(sketches.digests[at])
            texts.setdefault(sketches.digests[at], (arrivals[at].text, bands[at]))
        if not fresh:
            return
        digests = list(texts)
        for digest in fresh:
            self._near[digest] = [(digest, 1.0)]
        contents = [found[0] for found in texts.values()]
        columns = np.vstack([found[1] for found in texts.values()])
        is_fresh = np.array([digest in fresh for digest in digests])
        for left, right in band_pairs(columns):
            wanted = is_fresh[left] | is_fresh[right]
            for one, other, value in _verified(
                contents, left[wanted], right[wanted], meta, threshold
            ):
                self._near.setdefault(digests[one], []).append((digests[other], value))
                self._near.setdefault(digests[other], []).append((digests[one], value))

    def add(self, digest: str, id: str, verdict: Verdict, last: dict[str, int]) -> None:
        """Adds a document that is written, in place of an earlier one of its id.

        last: for each id the number of its last document, which this keeps.
        """
        self._rows.setdefault(digest, []).append((id, verdict, self._count))
        last[id] = self._count
        self._count += 1

    def near(self, digest: str, id: str, last: dict[str, int]) -> list[tuple[float, str, str]]:
        """The similar documents before: similarity, group, id; one of each text."""
        found = []
        for other, similarity in self._near.get(digest, ()):
            for row_id, verdict, number in self._rows.get(other, ()):
                # A document that came twice is what it was last.
                if last[row_id] == number and row_id != id and not _follows(verdict, id):
                    found.append((similarity, verdict.group, row_id))
                    break
        return found


def _verdict(id: str, near: list[tuple[float, str, str]], truncated: bool) -> Verdict:
    if not near:
        return Verdict(id, truncated=truncated)
    similarity, group, original = max(near, key=lambda each: (each[0], each[2]))
    return Verdict(group, original, similarity, truncated)


def _verified(
    texts: Sequence[str],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    meta: IndexMeta,
    threshold: float,
) -> Iterator[tuple[int, int, float]]:
    if not left.size:
        return
    rows, position = np.unique(np.concatenate([left, right]), return_inverse=True)
    sets = shingle_sets([texts[row] for row in rows.tolist()], meta.scheme)
    similarity = jaccard(sets, position[: left.size], position[left.size :])
    near = similarity >= threshold
    yield from zip(
        left[near].tolist(), right[near].tolist(), similarity[near].tolist(), strict=True
    )
