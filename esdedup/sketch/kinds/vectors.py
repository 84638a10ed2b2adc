"""Vectors that documents bring, such as embeddings of their texts, compared by their cosine.

Tokens are bands of the signs of random projections (`hyperplanes`), for which the recall at a
cosine is a formula. Candidates are verified by the exact cosine of the stored vectors.
"""

from __future__ import annotations

import base64
import binascii
import functools
import itertools
import json
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import RecordError, UsageError
from esdedup.sketch.hyperplanes import (
    MOST_DIMENSIONS,
    SignFilter,
    bands_needed,
    expected_recall,
    flips_for,
    least_bands,
    meeting,
    probe_bands,
    projections,
    sign_bands,
)
from esdedup.sketch.kinds.base import Block, Probes, Sketch
from esdedup.sketch.limits import ACTING, LOOKING, RECALL, Limits
from esdedup.sketch.measures import COSINE
from esdedup.sketch.vectors import DIGITS, F32, read_vectors, written_vector
from esdedup.text.arrays import F64, U64

VectorEncoding = Literal["list", "base64", "base64-little"]

_BANDS, _ROWS = (32, 48, 64), range(8, 25, 2)
"""The layouts to choose from. With 64 bands at most, a token has one character for its position."""
_DOCUMENTS, _FAR, _UNRELATED = 1e6, 0.3, 0.5
"""The layout is chosen for an index of this size. 64,512 descriptions of Debian's packages, by
static vectors of 256 numbers, have a mean cosine of 0.21, and one pair in a thousand is over 0.73:
most postings of a query are of documents at about 0.3, and most candidates of some over 0.5."""
_TERM, _POSTING, _CANDIDATE = 1.2, 0.005, 41.0
"""Microseconds to look up a term, to count one of its documents, and to verify a candidate."""
_LOST = 1e-6
"""Share of the pairs at the cosine that may be left out because they differ in too many signs."""
_MORE_FLIPS = 3
_MOST_BANDS_OF_PAIRS, _MOST_ROWS = 64, 30
_SHOWN = (0.7, 0.8, 0.9, 0.95, 0.98)
_SHOWN_CHARACTERS = 80
_FORMS: dict[VectorEncoding, str] = {
    "list": "a list of numbers",
    "base64": "float32 in base64, the highest byte first",
    "base64-little": "float32 in base64, the lowest byte first",
}
_DTYPES: dict[VectorEncoding, str] = {"base64": ">f4", "base64-little": "<f4"}
_IMPLAUSIBLE, _USUAL = 1e12, 1e6
"""Bounds of the numbers of vectors. One of 16 random float32 with their bytes reversed is above the
first in 999 of 1,000 vectors. Numbers of models are within 1 / the second and the second."""


@dataclass(frozen=True)
class Vectors(Sketch):
    """Vectors in a field of the documents, compared by cosine.

    dimensions: numbers of a vector, 2 to 4,096.
    cosine: minimum cosine of similar documents by default.
    encoding: how the field holds a vector. "list" (numbers), "base64" (float32, the highest byte
        first, as Elasticsearch accepts it), "base64-little" (the lowest byte first, as OpenSearch
        does). Lists are accepted in any case, also as JSON in a text, as columns of CSV have them.
        Numbers are read as float32.
    bands: number of tokens, 0 to choose it for the cosine.
    rows: signs of projections in each band, 0 to choose it for the cosine.
    Raises UsageError for values out of range.
    """

    dimensions: int
    cosine: float = 0.95
    encoding: VectorEncoding = "list"
    bands: int = 0
    rows: int = 0

    kind = "vectors"
    measure = COSINE
    reads_values = True
    leads = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.dimensions <= MOST_DIMENSIONS:
            raise UsageError(f"dimensions {self.dimensions}: use 2 to {MOST_DIMENSIONS:,}")
        Limits(cosine=self.cosine)
        if len(self.fields) > 1:
            raise UsageError(f"sketch {self.name!r}: vectors are in one field")
        if not self.bands or not self.rows:
            bands, rows = _layout(self.cosine)
            object.__setattr__(self, "bands", self.bands or bands)
            object.__setattr__(self, "rows", self.rows or rows)
        if not 1 <= self.bands <= 512 or not 1 <= self.rows <= _MOST_ROWS:
            raise UsageError(
                f"bands {self.bands}, rows {self.rows}: use 1 to 512, and 1 to {_MOST_ROWS}"
            )

    @property
    def tokens(self) -> int:
        return self.bands

    @property
    def bits(self) -> int:
        return self.rows

    @property
    def rows_of_band(self) -> int:
        return self.rows

    @property
    def token_bytes(self) -> float:
        return 9.0 + 2.0 * -(-self.rows // 6)

    def text(self, value: object) -> str:
        """Return a field's value as hex digits. Raises RecordError if it is not such a vector."""
        vector = self._vector(value)
        if vector.size != self.dimensions:
            raise RecordError(
                f"a vector of {vector.size:,} numbers, where the sketch {self.name!r} has"
                f" {self.dimensions:,}"
            )
        if not np.isfinite(vector).all():
            raise RecordError("a vector with a number that is not finite as float32")
        if not vector.any():
            raise RecordError("a vector of zeros, which has no direction")
        return written_vector(vector)

    def _form(self) -> str:
        return f"{self.dimensions:,} numbers: {_FORMS[self.encoding]}"

    def _vector(self, value: object) -> F32:
        """Return the numbers of a field's value. Raises RecordError if it is of another form."""
        if isinstance(value, str):
            return self._written_vector(value)
        if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
            return _listed_vector(value)
        raise self._of_another_form(value)

    def _written_vector(self, text: str) -> F32:
        """Return the numbers of a text: a list, base64, or hex digits as `text` returns them."""
        if len(text) == DIGITS * self.dimensions and re.fullmatch("[0-9a-f]+", text):
            vector: F32 = read_vectors([text], self.dimensions)[0]
            return vector
        if text.lstrip().startswith("["):
            # A column of CSV holds no list but a text.
            try:
                numbers = json.loads(text)
            except (ValueError, RecursionError):
                raise self._of_another_form(text) from None
            return _listed_vector(numbers)
        if self.encoding == "list":
            raise self._of_another_form(text)
        try:
            raw = base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            raise self._of_another_form(text) from None
        if len(raw) % 4:
            raise self._of_another_form(text)
        return self._decoded_vector(raw)

    def _decoded_vector(self, raw: bytes) -> F32:
        """Return the numbers of bytes.

        Raises RecordError if they are beyond any model's in this byte order and usual in the other.
        """
        encodings: tuple[VectorEncoding, VectorEncoding] = ("base64", "base64-little")
        other_encoding = encodings[self.encoding == "base64"]
        vector = np.frombuffer(raw, _DTYPES[self.encoding]).astype(np.float32)
        if _greatest(vector) > _IMPLAUSIBLE:
            greatest = _greatest(np.frombuffer(raw, _DTYPES[other_encoding]))
            if 1.0 / _USUAL < greatest < _USUAL:
                raise RecordError(
                    f"a vector with numbers up to {_greatest(vector):.1g}, which are at most"
                    f" {greatest:.3g} in the other byte order: use the encoding {other_encoding!r}"
                )
        return vector

    def _of_another_form(self, value: object) -> RecordError:
        advice = ""
        if isinstance(value, str) and self.encoding == "list":
            advice = ", in a text as [0.25, -0.5], or in base64 with the encoding 'base64'"
        return RecordError(f"{_shortened(value)} is not a vector of {self._form()}{advice}")

    def _projections(self, block: Block) -> F64:
        """Return the projections of texts, shape (n, bands * rows); zeros for an empty text."""
        try:
            vectors = read_vectors(block.texts, self.dimensions)
        except ValueError:
            message = f"the sketch {self.name!r} compares vectors of {self._form()}"
            raise UsageError(message) from None
        return projections(vectors, self.bands * self.rows, block.seed)

    def values(self, block: Block) -> U64:
        """Return the signs of each band of texts, shape (n, bands)."""
        return sign_bands(self._projections(block), self.bands, self.rows)

    def query(self, block: Block, limits: Limits) -> tuple[U64, Probes]:
        products = self._projections(block)
        probes = probe_bands(products, self.bands, self.rows, self.swaps(limits))
        return probes[:, :, 0], Probes(probes, np.broadcast_to(np.True_, probes.shape))

    def _least_cosine(self, limits: Limits) -> float:
        return self.cosine if limits.cosine is None else limits.cosine

    def swaps(self, limits: Limits) -> int:
        """Return how many signs nearest to 0 a query flips in each band, one at a time."""
        if limits.swaps is not None:
            return limits.swaps
        cosine = self._least_cosine(limits)
        return _cheapest_flips(cosine, limits.wanted_recall, self.bands, self.rows)

    def check(self, limits: Limits) -> None:
        super().check(limits)
        # A threshold has a default, which says nothing of a cosine.
        if limits.threshold not in (LOOKING, ACTING):
            raise UsageError(
                f"threshold {limits.threshold}: the sketch {self.name!r} compares by cosine, so use"
                " a cosine, or another sketch"
            )

    def settled(self, limits: Limits) -> Limits:
        return replace(limits, cosine=self._least_cosine(limits))

    def least(self, limits: Limits, groups: int, similarity: float | None = None) -> int:
        cosine = self._least_cosine(limits) if similarity is None else similarity
        flips = self.swaps(limits)
        required = least_bands(cosine, limits.wanted_recall, groups, self.rows, flips)
        # One band is shared with too many documents that are far from the cosine.
        return max(required, limits.least or 1)

    def recall(
        self, limits: Limits, groups: int, least: int, similarity: float | None = None
    ) -> float | None:
        cosine = self._least_cosine(limits) if similarity is None else similarity
        return expected_recall(cosine, groups, self.rows, least, self.swaps(limits))

    def pair_filter(self, limits: Limits, recall: float | None) -> SignFilter | None:
        lost = _LOST
        if recall is not None and recall > limits.wanted_recall:
            # Pairs that the tokens find beyond the recall may be lost.
            lost = min(lost, recall - limits.wanted_recall)
        return SignFilter.at(self._least_cosine(limits), self.bands, self.rows, lost)

    def query_terms(self, limits: Limits) -> int:
        return self.bands * (1 + self.swaps(limits))

    def query_cost(self, limits: Limits, similarity: F64, documents: F64) -> float:
        flips, least = self.swaps(limits), self.least(limits, self.bands)
        postings = [meeting(value, self.rows, flips) for value in similarity.tolist()]
        candidates = [
            expected_recall(value, self.bands, self.rows, least, flips)
            for value in similarity.tolist()
        ]
        return (
            _TERM * self.query_terms(limits)
            + _POSTING * self.bands * float(np.array(postings) @ documents)
            + _CANDIDATE * float(np.array(candidates) @ documents)
        )

    def layouts(self, limits: Limits) -> list[Self]:
        cosine = self._least_cosine(limits)
        sketches = [
            replace(self, cosine=cosine, bands=bands, rows=rows)
            for rows in _ROWS
            for bands in _BANDS
        ]
        return [
            sketch
            for sketch in sketches
            if (sketch.recall(limits, sketch.bands, 1) or 0.0) >= limits.wanted_recall
        ]

    def for_texts(self, limits: Limits) -> Self:
        """Return bands that reach the recall at the cosine without flips, of the most signs."""
        cosine = self._least_cosine(limits)
        for rows in range(_MOST_ROWS, 0, -1):
            bands = bands_needed(cosine, limits.wanted_recall, rows)
            if bands <= _MOST_BANDS_OF_PAIRS:
                # More of the bands cost little, and pairs far below the cosine share few of them.
                return replace(self, bands=_MOST_BANDS_OF_PAIRS, rows=rows)
        return self

    def describe(self) -> str:
        return (
            f"{self.dimensions} numbers; {self.bands} bands of {self.rows} signs of projections,"
            f" compared by cosine, {self.cosine:g} by default"
        )

    def costs(self, documents: float) -> list[tuple[str, str]]:
        effects = []
        for cosine in _SHOWN:
            limits = Limits(cosine=cosine)
            flips, least = self.swaps(limits), self.least(limits, self.bands)
            recall = self.recall(limits, self.bands, least) or 0.0
            met = expected_recall(_UNRELATED, self.bands, self.rows, least, flips)
            effects.append(
                f"{100 * recall:.1f}% at {cosine} with {self.bands * (1 + flips):,} terms, about"
                f" {documents * met:,.1f} candidates at {documents:,.0f} documents of cosine"
                f" {_UNRELATED}"
            )
        return [("recall of queries", "; ".join(effects))]


def _listed_vector(numbers: Sequence[object] | NDArray[np.generic]) -> F32:
    """Return numbers as float32, infinite if they are beyond it.

    Raises RecordError for any other value than a number.
    """
    # Lists of different lengths make no array.
    with suppress(ValueError):
        array = np.asarray(numbers)
        if array.ndim == 1 and array.dtype.kind in "fiu":
            return _as_float32(array)
    return _as_float32(np.array([*map(_number, itertools.count(1), numbers)]))


def _as_float32(numbers: NDArray[np.generic]) -> F32:
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _number(position: int, value: object) -> float:
    """Return a number of a list, infinite if it is beyond float64. position: from 1."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise RecordError(f"number {position:,} of the vector is {_shortened(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _greatest(vector: NDArray[np.float32]) -> float:
    """Return the greatest absolute number; infinity if one is not finite, 0 if there is none."""
    return float(np.abs(vector).max(initial=0.0)) if np.isfinite(vector).all() else math.inf


def _shortened(value: object) -> str:
    """Return a value as a message shows it."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


@functools.lru_cache(1024)
def _cost(cosine: float, recall: float, bands: int, rows: int, flips: int) -> float:
    """Return the microseconds of a query at a cosine, infinite if it does not reach the recall."""
    if expected_recall(cosine, bands, rows, 1, flips) < recall:
        return math.inf
    least = least_bands(cosine, recall, bands, rows, flips)
    candidates = _DOCUMENTS * expected_recall(_UNRELATED, bands, rows, least, flips)
    terms = bands * (1 + flips)
    postings = _DOCUMENTS * bands * meeting(_FAR, rows, flips)
    return _TERM * terms + _POSTING * postings + _CANDIDATE * candidates


@functools.lru_cache(1024)
def _cheapest_flips(cosine: float, recall: float, bands: int, rows: int) -> int:
    """Return the flips with which a query costs least: all rows if none reaches the recall.

    More flips than reach the recall find more shared bands, of which more can be required.
    """
    reaching = flips_for(cosine, recall, bands, rows)
    choices = range(reaching, min(rows, reaching + _MORE_FLIPS) + 1)
    return min(choices, key=lambda flips: _cost(cosine, recall, bands, rows, flips))


@functools.lru_cache(64)
def _layout(cosine: float) -> tuple[int, int]:
    """Return the bands and rows with which a query at a cosine costs least."""

    def cost(layout: tuple[int, int]) -> float:
        return _cost(cosine, RECALL, *layout, _cheapest_flips(cosine, RECALL, *layout))

    layouts = [(bands, rows) for bands in _BANDS for rows in _ROWS]
    best = min(layouts, key=cost)
    return best if cost(best) < math.inf else (_BANDS[-1], _ROWS[0])
