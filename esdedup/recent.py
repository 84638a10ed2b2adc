"""Documents that came just before, by their text: what a new one may be a duplicate of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.buckets import band_pairs
from esdedup.hashing import U64
from esdedup.schema import IndexMeta
from esdedup.search import require_bands
from esdedup.sketch import Sketches, shingle_sets, sketch
from esdedup.verify import jaccard_of_rows


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

    @property
    def reason(self) -> str:
        """For messages that say what a document is."""
        return f"like {self.original!r}: Jaccard similarity {self.similarity:.3f}"

    def fields(self) -> dict[str, Any]:
        """What "mark" adds to our field."""
        if self.original is None:
            return {"group": self.group}
        return {"group": self.group, "original": self.original, "similarity": self.similarity}


@dataclass(frozen=True)
class Row:
    """A document that came before, with what is needed to compare with it."""

    id: str
    text: str
    verdict: Verdict
    digest: str
    bands: U64


def digests_and_bands(texts: Sequence[str], meta: IndexMeta) -> Sketches:
    """What documents are compared by; their fingerprints are made when they are written."""
    return sketch(texts, replace(meta.scheme, simhash=None))


def follows(verdict: Verdict, id: str) -> bool:
    """Whether a document is a duplicate of this very one, which then can't be its duplicate."""
    return id in (verdict.group, verdict.original)


def sketched_anew(rows: list[Row], meta: IndexMeta) -> list[Row]:
    """The same documents, for an index that has changed its scheme."""
    sketches = digests_and_bands([row.text for row in rows], meta)
    bands = require_bands(sketches.bands)
    return [
        replace(row, digest=digest, bands=row_bands)
        for row, digest, row_bands in zip(rows, sketches.digests, bands, strict=True)
    ]


class Classes:
    """Documents by their text: all of equal texts are alike, and compared once.

    Thousands of equal texts would be millions of pairs.
    """

    def __init__(
        self,
        before: Sequence[Row],
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
                if last[row_id] == number and row_id != id and not follows(verdict, id):
                    found.append((similarity, verdict.group, row_id))
                    break
        return found


def _verified(
    texts: Sequence[str],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    meta: IndexMeta,
    threshold: float,
) -> Iterator[tuple[int, int, float]]:
    if not left.size:
        return
    similarity = jaccard_of_rows(
        left, right, lambda rows: shingle_sets([texts[row] for row in rows], meta.scheme)
    )
    near = similarity >= threshold
    yield from zip(
        left[near].tolist(), right[near].tolist(), similarity[near].tolist(), strict=True
    )
