"""Compares documents with those that arrived just before, in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from esdedup.records.documents import MARKS
from esdedup.search.buckets import band_pairs, segment_pairs
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import normalised_digests, shingle_sets, sketch
from esdedup.text.arrays import F64, I64, U64, Mask, renumbered
from esdedup.text.jaccard import hamming, jaccard

Measure = tuple[float | None, int | None]
"""A Jaccard similarity and a Hamming distance in bits, of which one is None."""


class Likeness:
    """Compares texts by a sketch of the scheme.

    Raises UsageError if the scheme lacks it, or for limits that it can't hold. by_sets: by exact
    Jaccard similarity, not by Hamming distance.
    """

    def __init__(self, scheme: Scheme, limits: Limits) -> None:
        # The tokens to store are computed when a document is written.
        self._sketch = limits.for_pairs(scheme).for_texts(limits)
        self._scheme = scheme.only(self._sketch)
        self._limits = limits
        self.by_sets = self._sketch.metric == "jaccard"

    def columns(self, texts: Mapping[str, str]) -> dict[str, U64]:
        """Return the bands of each text, shape (bands,), or its fingerprint, shape (words,).

        Texts without any shingle are left out.
        """
        sketches = sketch(list(texts.values()), self._scheme)
        found = sketches.values[self._sketch.name]
        rows = zip(texts, found, sketches.filled.tolist(), strict=True)
        return {key: column for key, column, is_filled in rows if is_filled}

    def again(self, rows: list[Row]) -> list[Row]:
        """Return the same documents, sketched for an index that has changed its scheme."""
        normalisation = self._scheme.normalisation
        texts, digests = normalised_digests([row.text for row in rows], normalisation)
        columns = self.columns(dict(zip(digests, texts, strict=True)))
        return [
            replace(row, digest=one, column=columns.get(one))
            for row, one in zip(rows, digests, strict=True)
        ]

    def pairs(
        self, texts: Sequence[str], columns: U64, new: Mask
    ) -> Iterator[tuple[int, int, Measure]]:
        """Yield pairs of similar rows, of which at least one is new: (left, right, measure)."""
        distance = 0
        if self.by_sets:
            meeting = band_pairs(columns)
        else:
            distance = self._sketch.distance(self._limits)
            segments = self._sketch.token_values(columns)
            meeting = segment_pairs(segments, self._sketch.masks(self._limits))
        for left, right in meeting:
            wanted = new[left] | new[right]
            left, right = left[wanted], right[wanted]
            if not left.size:
                continue
            values: F64 | I64
            if self.by_sets:
                rows, *pairs = renumbered(left, right)
                sets = shingle_sets([texts[row] for row in rows.tolist()], self._scheme)
                values = jaccard(sets, *pairs)
                near = values >= self._limits.least_similarity
            else:
                values = hamming(columns[left], columns[right])
                near = values <= distance
            found = (left[near].tolist(), right[near].tolist(), values[near].tolist())
            for one, other, value in zip(*found, strict=True):
                yield one, other, (value, None) if self.by_sets else (None, value)


@dataclass(frozen=True)
class Verdict:
    """The earlier document that a document resembles.

    group: id of the group, which is that of its first document. original: id of the earlier
    document, or None. similarity, distance: to the original, by the metric of the policy.
    truncated: more candidates were found than compared. exact: the texts are equal.
    """

    group: str
    original: str | None = None
    similarity: float | None = None
    distance: int | None = None
    truncated: bool = False
    exact: bool = False

    @staticmethod
    def stored(id: str, ours: Mapping[str, Any]) -> Verdict:
        """Return the verdict in our field of a document. Without a group, it is its own."""
        marks: dict[str, Any] = {name: ours.get(name) for name in MARKS}
        return Verdict(**{**marks, "group": marks["group"] or id})

    @property
    def reason(self) -> str:
        """The verdict in words, for messages."""
        if self.distance is not None:
            return f"like {self.original!r}: Hamming distance {self.distance}"
        return f"like {self.original!r}: Jaccard similarity {self.similarity:.3f}"

    def fields(self) -> dict[str, Any]:
        """Return the marks to add to our field."""
        marks = {name: getattr(self, name) for name in MARKS}
        return {name: value for name, value in marks.items() if value is not None}

    def follows(self, id: str) -> bool:
        """Return True if this is "a duplicate of `id`", which then can't be its duplicate."""
        return id in (self.group, self.original)


@dataclass(frozen=True)
class Original:
    """An earlier document that a new one resembles or equals. digest: of its text."""

    id: str
    digest: str
    verdict: Verdict
    measure: Measure = (None, None)


@dataclass(frozen=True)
class Row:
    """A document that arrived before.

    digest: of its text. column: its bands or its fingerprint, None for a text without words.
    """

    id: str
    text: str
    verdict: Verdict
    digest: str
    column: U64 | None


class Earlier:
    """The earlier documents, by text. leaders: compare with documents without an original only.

    Equal texts are compared once: thousands of them would be millions of pairs.
    """

    def __init__(self, rows: Sequence[Row], *, leaders: bool) -> None:
        self._leaders = leaders
        self._rows = [row for row in rows if row.column is not None]
        # Ids and verdicts by digest, in the order of arrival; of all documents, and of those to
        # compare with.
        self._all: dict[str, dict[str, Verdict]] = defaultdict(dict)
        self._compared: dict[str, dict[str, Verdict]] = defaultdict(dict)
        self._digests: dict[str, str] = {}
        self._near: dict[str, list[tuple[str, Measure]]] = defaultdict(list)
        self.columns = {row.digest: row.column for row in self._rows}
        for row in rows:
            self.add(row.digest, row.id, row.verdict)

    def __contains__(self, id: str) -> bool:
        return id in self._digests

    def add(self, digest: str, id: str, verdict: Verdict) -> None:
        """Add a document that is written, in place of an earlier one of its id."""
        former = self._digests.get(id, digest)
        self._digests[id] = digest
        for documents, counts in ((self._all, True), (self._compared, self._acts(verdict))):
            documents[former].pop(id, None)
            if counts:
                documents[digest][id] = verdict

    def compare(
        self,
        texts: Mapping[str, str],
        columns: Mapping[str, U64],
        new: Collection[str],
        like: Likeness,
    ) -> None:
        """Find the texts similar to new ones, for `near`.

        texts, columns: by digest, of the documents that may arrive. new: digests of new texts.
        """
        if not new:
            return
        contents = {digest: (texts[digest], column) for digest, column in columns.items()}
        for row in self._rows:
            if row.column is not None and self._acts(row.verdict):
                contents[row.digest] = row.text, row.column
        digests = list(contents)
        found = like.pairs(
            [text for text, _ in contents.values()],
            np.vstack([column for _, column in contents.values()]),
            np.array([digest in new for digest in digests]),
        )
        for left, right, measure in found:
            self._near[digests[left]].append((digests[right], measure))
            self._near[digests[right]].append((digests[left], measure))

    def equal(self, digest: str, may: Callable[[Original], bool]) -> Original | None:
        """Return the first earlier document of the same text that `may` accepts, or None."""
        return _first(self._all, digest, may)

    def near(self, digest: str, may: Callable[[Original], bool]) -> list[Original]:
        """Return the first earlier document of each similar text that `may` accepts."""
        firsts = [
            _first(self._compared, other, may, measure)
            for other, measure in self._near.get(digest, ())
        ]
        return [first for first in firsts if first is not None]

    def _acts(self, verdict: Verdict) -> bool:
        return verdict.original is None or not self._leaders


def _first(
    documents: Mapping[str, Mapping[str, Verdict]],
    digest: str,
    may: Callable[[Original], bool],
    measure: Measure = (None, None),
) -> Original | None:
    """Return the first document of a text that `may` accepts, or None."""
    for id, verdict in documents.get(digest, {}).items():
        if may(near := Original(id, digest, verdict, measure)):
            return near
    return None
