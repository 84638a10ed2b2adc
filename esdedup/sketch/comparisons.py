"""Comparisons: how near documents are to each other, computed for many pairs at once.

What a comparison reads of a document is its operand: the set of its shingles, all of its words, its
vector, or the fingerprint that is stored of it. A comparison of texts computes the operands from
these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from esdedup.sketch.vectors import cosines, packed_vectors, shown_vector
from esdedup.text.arrays import F64, I64, U64, Ragged
from esdedup.text.jaccard import hamming, jaccard, jaccard_with
from esdedup.text.passages import covers

if TYPE_CHECKING:
    from esdedup.sketch.hashed_texts import HashedTexts

Operands = TypeVar("Operands", bound=Ragged | U64)


class Comparison(ABC, Generic[Operands]):
    """How near documents are to each other.

    A nearness is greater for nearer documents: a similarity, or a negative distance. It has two
    sides if it is directed: how much of the left document the right one holds, and how much of the
    right document the left one holds. The last side is always that of the right document.
    """

    sides: ClassVar[int] = 1
    """2 if the comparison is directed."""

    @abstractmethod
    def nearness(self, operands: Operands, left: I64, right: I64) -> F64:
        """Return the nearness of pairs, shape (sides, pairs).

        operands: of n documents.
        left: the rows of the left documents in `operands`, shape (pairs,).
        right: the rows of the right documents, shape (pairs,).
        """

    @abstractmethod
    def nearness_to(self, operand: U64, operands: Operands) -> F64:
        """Return the nearness of one document, on the left, and each of n: shape (sides, n).

        operand: of the one document.
        operands: of the n documents.
        """

    def shown(self, text: str) -> str:
        """Return what is compared of a document as people read it. text: of the document."""
        return text


AnyComparison = Comparison[Any]
"""A comparison of texts or of values."""


class TextComparison(Comparison[Ragged]):
    """A comparison of operands that are computed from texts."""

    @abstractmethod
    def operands(self, texts: HashedTexts) -> Ragged:
        """Return the operand of each text."""

    def nearness_to(self, operand: U64, operands: Ragged) -> F64:
        left = np.zeros(len(operands), np.int64)
        right = np.arange(1, len(operands) + 1)
        return self.nearness(Ragged.joined([Ragged.of_rows([operand]), operands]), left, right)


class ShingleComparison(TextComparison):
    """A comparison of sets of shingles. A store may keep these sets, and verify candidates."""

    def operands(self, texts: HashedTexts) -> Ragged:
        return texts.sets


class ValueComparison(Comparison[U64]):
    """A comparison of stored values, for which no texts are read. Operands: shape (n, width)."""


@dataclass(frozen=True)
class JaccardSimilarity(ShingleComparison):
    """The shingles that two documents share, divided by those that either has."""

    def nearness(self, operands: Ragged, left: I64, right: I64) -> F64:
        return jaccard(operands, left, right)[None]

    def nearness_to(self, operand: U64, operands: Ragged) -> F64:
        return jaccard_with(operand, operands)[None]


@dataclass(frozen=True)
class HammingDistance(ValueComparison):
    """The number of bits in which two fingerprints differ, negative."""

    def nearness(self, operands: U64, left: I64, right: I64) -> F64:
        return _negative(hamming(operands[left], operands[right]))

    def nearness_to(self, operand: U64, operands: U64) -> F64:
        return _negative(hamming(operands, operand[None, :]))


@dataclass(frozen=True)
class SharedPassages(TextComparison):
    """The fraction of the words of each document that are in passages of the other one.

    passage: minimum number of words of a passage.
    """

    passage: int = 1

    sides = 2

    def operands(self, texts: HashedTexts) -> Ragged:
        return texts.words

    def nearness(self, operands: Ragged, left: I64, right: I64) -> F64:
        shared_words = covers(operands, left, operands, right, self.passage)
        words = np.stack([operands.counts[left], operands.counts[right]])
        fractions: F64 = shared_words / np.maximum(words, 1)
        return fractions


@dataclass(frozen=True)
class CosineSimilarity(TextComparison):
    """The cosine of the angle between two vectors, which texts hold (`sketch.vectors`)."""

    def operands(self, texts: HashedTexts) -> Ragged:
        return packed_vectors(texts.texts)

    def shown(self, text: str) -> str:
        return shown_vector(text) if text else ""

    def nearness(self, operands: Ragged, left: I64, right: I64) -> F64:
        return cosines(operands, left, right)[None]


def _negative(distances: I64) -> F64:
    """Return the nearness of distances, shape (1, pairs)."""
    nearness: F64 = np.negative(distances, dtype=np.float64)
    return nearness[None]
