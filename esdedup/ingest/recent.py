"""Compares documents that come in with those that came just before, in memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.search.buckets import Pairs, band_pairs, segment_pairs
from esdedup.search.limits import Limits, distance_for, require_simhash
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.segments import probe_masks, segment_values
from esdedup.sketch.sketch import normalised_digests, shingle_sets, sketch
from esdedup.text.arrays import U64
from esdedup.text.jaccard import hamming, jaccard_of_rows
from esdedup.text.normalise import Normalisation
from esdedup.text.words import tokenise

Value = float
"""A Jaccard similarity, or a Hamming distance in bits."""


class Likeness:
    """Compares texts by the metric of the limits and the tokens of the scheme.

    Raises UsageError if the scheme lacks the tokens of the metric, or the distance takes too many.
    """

    def __init__(self, scheme: Scheme, limits: Limits) -> None:
        self._by_bands = limits.metric == "jaccard"
        self._threshold = limits.threshold or 0.0
        # The tokens of the other metric are made when a document is written.
        if self._by_bands:
            self._scheme = replace(scheme, simhash=None)
        else:
            self._distance = distance_for(require_simhash(scheme), limits.distance)
            self._scheme = replace(scheme, minhash=None)

    def columns(self, texts: Mapping[str, str]) -> dict[str, U64]:
        """Returns the bands of each text, shape (bands,), or its fingerprint, shape (words,).

        Texts without any shingle are left out.
        """
        sketches = sketch(list(texts.values()), self._scheme)
        found = sketches.bands if self._by_bands else sketches.fingerprints
        assert found is not None
        rows = zip(texts, found, sketches.filled.tolist(), strict=True)
        return {key: column for key, column, is_filled in rows if is_filled}

    def filled(self, texts: Mapping[str, str]) -> set[str]:
        """Returns the keys of the normalised texts that have any shingle."""
        scheme = self._scheme
        counts = tokenise(list(texts.values()), scheme.shingling, scheme.seed).counts
        return {key for key, count in zip(texts, counts.tolist(), strict=True) if count}

    def pairs(
        self, texts: Sequence[str], columns: U64, new: NDArray[np.bool_]
    ) -> Iterator[tuple[int, int, Value]]:
        """Yields pairs of similar rows, of which at least one is new: (left, right, value)."""
        for left, right in self._meeting(columns):
            wanted = new[left] | new[right]
            left, right = left[wanted], right[wanted]
            if not left.size:
                continue
            values, near = self._values(texts, columns, left, right)
            found = (left[near].tolist(), right[near].tolist(), values[near].tolist())
            yield from zip(*found, strict=True)

    def order(self, value: Value) -> Value:
        """Returns a number that is smaller for more similar documents."""
        return -value if self._by_bands else value

    @property
    def equal(self) -> Value:
        """The value of equal texts."""
        return 1.0 if self._by_bands else 0

    def measured(self, value: Value) -> tuple[float | None, int | None]:
        """Returns a value as a similarity and a distance, of which one is None."""
        return (value, None) if self._by_bands else (None, int(value))

    def _meeting(self, columns: U64) -> Iterator[Pairs]:
        if self._by_bands:
            return band_pairs(columns)
        layout = require_simhash(self._scheme)
        radius = layout.radius_for(self._distance)
        masks = [probe_masks(width, radius) for width in layout.widths]
        return segment_pairs(segment_values(columns, layout), masks, radius)

    def _values(
        self, texts: Sequence[str], columns: U64, left: NDArray[np.int64], right: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64] | NDArray[np.int64], NDArray[np.bool_]]:
        if not self._by_bands:
            distance = hamming(columns[left], columns[right])
            return distance, distance <= self._distance
        similarity = jaccard_of_rows(
            left, right, lambda rows: shingle_sets([texts[row] for row in rows], self._scheme)
        )
        return similarity, similarity >= self._threshold


@dataclass(frozen=True)
class Arrival:
    """A document on its way in."""

    id: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The earlier document that a document is like.

    group: id of the group, which is that of its first document. original: id of the earlier
    document, or None. similarity, distance: to the original, by the metric of the policy.
    truncated: there were more candidates than were compared. exact: the texts are equal.
    """

    group: str
    original: str | None = None
    similarity: float | None = None
    distance: int | None = None
    truncated: bool = False
    exact: bool = False

    @staticmethod
    def stored(id: str, ours: Mapping[str, Any]) -> Verdict:
        """Returns the verdict in our field of a document. Without a group, it is its own."""
        return Verdict(
            ours.get("group") or id,
            ours.get("original"),
            ours.get("similarity"),
            ours.get("distance"),
        )

    @property
    def reason(self) -> str:
        """The verdict in words, for messages."""
        if self.distance is not None:
            return f"like {self.original!r}: Hamming distance {self.distance}"
        return f"like {self.original!r}: Jaccard similarity {self.similarity:.3f}"

    def fields(self) -> dict[str, Any]:
        """Returns the marks to add to our field."""
        if self.original is None:
            return {"group": self.group}
        value: dict[str, Any] = (
            {"similarity": self.similarity}
            if self.distance is None
            else {"distance": self.distance}
        )
        return {"group": self.group, "original": self.original, **value}


@dataclass(frozen=True)
class Near:
    """An earlier document that a new one is like. value: its similarity, or its distance."""

    id: str
    verdict: Verdict
    value: Value


@dataclass(frozen=True)
class Row:
    """A document that came before.

    digest: of its text, or "" for a text without any shingle, which equals none. column: its bands
    or its fingerprint, or None if no document is compared with it.
    """

    id: str
    text: str
    verdict: Verdict
    digest: str
    column: U64 | None


def follows(verdict: Verdict, id: str) -> bool:
    """Returns True if the verdict is "a duplicate of `id`", which then can't be its duplicate."""
    return id in (verdict.group, verdict.original)


def sketched_again(rows: list[Row], like: Likeness, normalisation: Normalisation) -> list[Row]:
    """Returns the same documents, sketched for an index that has changed its scheme."""
    texts, digests = normalised_digests([row.text for row in rows], normalisation)
    columns = like.columns(dict(zip(digests, texts, strict=True)))
    return [
        replace(row, digest=one if one in columns else "", column=columns.get(one))
        for row, one in zip(rows, digests, strict=True)
    ]


class Earlier:
    """The documents before, by text. Equal texts are compared once.

    Thousands of equal texts would be millions of pairs. leaders: compare only with documents that
    are like no earlier one.
    """

    def __init__(self, rows: Sequence[Row], *, leaders: bool) -> None:
        self._leaders = leaders
        self._all: dict[str, deque[tuple[Near, int]]] = {}
        self._compared: dict[str, deque[tuple[Near, int]]] = {}
        self._near: dict[str, list[tuple[str, Value]]] = {}
        self._last: dict[str, int] = {}
        self._contents = {
            row.digest: (row.text, row.column)
            for row in rows
            if row.column is not None and self._acts(row.verdict)
        }
        self._columns = {row.digest: row.column for row in rows if row.column is not None}
        for row in rows:
            self.add(row.digest, row.id, row.verdict)

    def __contains__(self, id: str) -> bool:
        return id in self._last

    def add(self, digest: str, id: str, verdict: Verdict) -> None:
        """Adds a document that is written, in place of an earlier one of its id."""
        # Of a document that came twice, the last version counts.
        number = self._last.get(id, 0) + 1
        self._last[id] = number
        near = Near(id, verdict, 0)
        self._all.setdefault(digest, deque()).append((near, number))
        if self._acts(verdict):
            self._compared.setdefault(digest, deque()).append((near, number))

    def column(self, digest: str) -> U64 | None:
        """Returns the column of a text if a document before had the same text."""
        return self._columns.get(digest)

    def compare(
        self,
        texts: Mapping[str, str],
        columns: Mapping[str, U64],
        new: Sequence[str],
        like: Likeness,
    ) -> None:
        """Finds the texts similar to new ones, for `near`.

        texts, columns: by digest, of the documents that may come. new: digests to be asked for.
        """
        if not new:
            return
        contents = {text: (texts[text], column) for text, column in columns.items()}
        contents |= self._contents
        digests, wanted = list(contents), set(new)
        found = like.pairs(
            [text for text, _ in contents.values()],
            np.vstack([column for _, column in contents.values()]),
            np.array([digest in wanted for digest in digests]),
        )
        for left, right, value in found:
            self._near.setdefault(digests[left], []).append((digests[right], value))
            self._near.setdefault(digests[right], []).append((digests[left], value))

    def equal(self, digest: str, id: str, but: Collection[str] = ()) -> Near | None:
        """Returns a document before of the same text, or None. but: ids to leave out."""
        return self._first(self._all.get(digest), id, but)

    def near(self, digest: str, id: str) -> list[Near]:
        """Returns similar documents before, one of each other text."""
        found = []
        for other, value in self._near.get(digest, ()):
            first = self._first(self._compared.get(other), id)
            if first is not None:
                found.append(replace(first, value=value))
        return found

    def _first(
        self, rows: deque[tuple[Near, int]] | None, id: str, but: Collection[str] = ()
    ) -> Near | None:
        # A version that was replaced never counts again.
        while rows and self._last[rows[0][0].id] != rows[0][1]:
            rows.popleft()
        for near, number in rows or ():
            stands = self._last[near.id] == number and near.id not in but
            if stands and near.id != id and not follows(near.verdict, id):
                return near
        return None

    def _acts(self, verdict: Verdict) -> bool:
        return verdict.original is None or not self._leaders


@dataclass(frozen=True)
class Batch:
    """Documents that come in together, and the documents to compare them with.

    digests: of each document's text. counts: of each id. earlier: documents before in this run.
    known: former digest and verdict of each id. These are by digest: contents, the normalised
    texts. equal, documents of the store with the same text. columns, bands or fingerprints.
    empty, texts without any shingle. similar, documents of the store, and whether candidates were
    left out.
    """

    arrivals: Sequence[Arrival]
    digests: list[str]
    contents: Mapping[str, str]
    counts: Counter[str]
    earlier: Earlier
    known: dict[str, tuple[str, Verdict]]
    equal: dict[str, list[Near]]
    columns: dict[str, U64] = field(default_factory=dict)
    empty: set[str] = field(default_factory=set)
    similar: dict[str, tuple[list[Near], bool]] = field(default_factory=dict)

    def former(self, row: int) -> Verdict | None:
        """Returns the former verdict on a document, if it came before with the same text."""
        text, verdict = self.known.get(self.arrivals[row].id, ("", None))
        return verdict if text == self.digests[row] else None
