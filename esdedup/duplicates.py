"""Near-duplicates found as documents come in, and what is done with them.

A document is compared with what the store shows to searches, and with the documents that came just
before it, which it may not show yet. Who comes second is the duplicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
    group: str
    digest: str
    bands: U64


class Originals:
    """Finds the originals of documents of one run, batch by batch.

    It remembers the documents of the last batches; older ones a refresh has made visible.

    Raises UsageError for an index without MinHash tokens.
    """

    def __init__(self, store: Store, meta: IndexMeta, policy: DuplicatePolicy) -> None:
        if meta.scheme.minhash is None:
            raise UsageError(
                f"to {policy.action} near-duplicates as they come in needs MinHash tokens, and the"
                " index has none: keep them, or make an index of a scheme with MinHash"
            )
        self._store = store
        self._meta = meta
        self._policy = policy
        self._recent: list[_Row] = []
        self._older: list[_Row] = []

    def find(self, arrivals: Sequence[Arrival]) -> list[Verdict]:
        """A verdict for each document of a batch, in order."""
        if not arrivals:
            return []
        texts = [arrival.text for arrival in arrivals]
        sketches = sketch(texts, self._meta.scheme)
        require_bands(sketches.bands)
        stored, truncated = self._stored(arrivals)
        pairs = self._recent_pairs(arrivals, sketches)
        before = self._older + self._recent
        known = len(before)
        ids = [row.id for row in before] + [arrival.id for arrival in arrivals]
        groups = [row.group for row in before]
        last = {id: row for row, id in enumerate(ids[:known])}
        kept = [True] * known
        verdicts: list[Verdict] = []
        for at, arrival in enumerate(arrivals):
            near = [(value, group, id) for id, value, group in stored[at] if id not in last]
            near += [
                (value, groups[row], ids[row])
                for row, value in pairs.get(at, ())
                # A document that came twice is what it was last.
                if kept[row] and last[ids[row]] == row and ids[row] != arrival.id
            ]
            verdicts.append(_verdict(arrival.id, near, truncated[at]))
            groups.append(verdicts[-1].group)
            written = verdicts[-1].original is None or self._policy.action == "mark"
            kept.append(written)
            if written:
                last[arrival.id] = known + at
        self._remember(arrivals, verdicts, sketches)
        return verdicts

    def forget(self, ids: Iterable[str]) -> None:
        """Takes back documents that were not written after all."""
        gone = set(ids)
        self._recent = [row for row in self._recent if row.id not in gone]
        self._older = [row for row in self._older if row.id not in gone]

    def _stored(
        self, arrivals: Sequence[Arrival]
    ) -> tuple[list[list[tuple[str, float, str]]], list[bool]]:
        """The similar documents that the store shows: id, similarity, group."""
        limit = self._policy.candidates
        limits = Limits(threshold=self._policy.threshold, matches=limit, candidates=limit)
        queries = [Query(arrival.text, exclude=arrival.id) for arrival in arrivals]
        results = similar(self._store, self._meta, queries, limits)
        found = []
        for arrival, result in zip(arrivals, results, strict=True):
            near = []
            for match in result.matches:
                ours = tokens_in(match.source, self._meta.field)
                group = ours.get("group") or match.id
                # What is a duplicate of this very document is not its original.
                if group != arrival.id and ours.get("original") != arrival.id:
                    near.append((match.id, match.similarity or 0.0, group))
            found.append(near)
        return found, [result.truncated for result in results]

    def _recent_pairs(
        self, arrivals: Sequence[Arrival], sketches: Sketches
    ) -> dict[int, list[tuple[int, float]]]:
        """For each of the batch the similar rows before it, known ones and those of the batch."""
        before = self._older + self._recent
        known = len(before)
        texts = [row.text for row in before] + [arrival.text for arrival in arrivals]
        digests = [row.digest for row in before] + sketches.digests
        filled = [True] * known + sketches.filled.tolist()
        # Thousands of equal texts would be millions of pairs; the first of them stands for all.
        first: dict[str, int] = {}
        for row, digest in enumerate(digests):
            if filled[row]:
                first.setdefault(digest, row)
        rows = np.fromiter(first.values(), np.int64, len(first))
        bands = require_bands(sketches.bands)
        columns = (
            np.concatenate([np.stack([row.bands for row in before]), bands]) if known else bands
        )
        found: dict[int, list[tuple[int, float]]] = {}
        for left, right in band_pairs(columns[rows]):
            late = rows[right] >= known
            a, b = rows[left[late]], rows[right[late]]
            for one, other, value in _verified(texts, a, b, self._meta, self._policy.threshold):
                found.setdefault(other - known, []).append((one, value))
        for at, digest in enumerate(sketches.digests):
            if filled[known + at] and first[digest] != known + at:
                twin = first[digest]
                found[at] = [(twin, 1.0), *found.get(twin - known, ())]
        return found

    def _remember(
        self, arrivals: Sequence[Arrival], verdicts: Sequence[Verdict], sketches: Sketches
    ) -> None:
        bands = require_bands(sketches.bands)
        written = [
            verdict.original is None or self._policy.action == "mark" for verdict in verdicts
        ]
        again = {arrival.id for arrival, kept in zip(arrivals, written, strict=True) if kept}
        if any(row.id in again for row in (*self._older, *self._recent)):
            self.forget(again)
        for row, (arrival, verdict) in enumerate(zip(arrivals, verdicts, strict=True)):
            if written[row] and sketches.filled[row]:
                digest = sketches.digests[row]
                known = _Row(arrival.id, arrival.text, verdict.group, digest, bands[row])
                self._recent.append(known)
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
