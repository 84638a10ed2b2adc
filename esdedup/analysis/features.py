"""The features that weigh most in the fingerprints of two texts, and in their difference."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from esdedup.sketch.kinds.base import Block, Sketch
from esdedup.sketch.scheme import Scheme
from esdedup.text.arrays import F64, U64
from esdedup.text.normalise import normalise
from esdedup.text.weights import TENTHS
from esdedup.text.words import spell, tokenise

_SHOWN = 5
_BITS = np.arange(64, dtype=np.uint64)


@dataclass(frozen=True)
class WeighedFeature:
    """A weighted feature in two texts.

    words: its words.
    left, right: its weight in each text, times its occurrences if these count.
    """

    words: str
    left: float
    right: float

    def __str__(self) -> str:
        if not self.left or not self.right:
            return f"{self.words} {self.left or self.right:g} {'left' if self.left else 'right'}"
        if self.left == self.right:
            return f"{self.words} {self.left:g}"
        return f"{self.words} {self.left:g} left, {self.right:g} right"


@dataclass(frozen=True)
class WeighedFeatures:
    """The features of two texts that decide their fingerprints.

    shared: those that weigh most in both texts.
    differing: those that contribute most to the bits that differ.
    """

    shared: tuple[WeighedFeature, ...]
    differing: tuple[WeighedFeature, ...]


def weighed_features(texts: Sequence[str], scheme: Scheme, sketch: Sketch) -> WeighedFeatures:
    """Return the features of a pair of texts that decide the fingerprints of a sketch.

    sketch: one with a `feature_size`.
    """
    normalised = normalise(texts, scheme.normalisation)
    shingling, seed = scheme.shingling, scheme.seed
    words = tokenise(normalised, shingling, seed)
    block = Block(normalised, words, scheme.normalisation, shingling, seed, [sketch])
    features = sketch.features(block)
    names: dict[int, str] = {}
    weights: dict[int, list[float]] = {}
    between = "" if shingling.unit == "char" else " "
    for side, spelled in enumerate(spell(normalised, shingling)):
        bounds = slice(*features.hashes.offsets[side : side + 2].tolist())
        weighed = zip(features.hashes[side].tolist(), features.tenths[bounds].tolist(), strict=True)
        for start, (feature, weight) in enumerate(weighed):
            names[feature] = between.join(spelled[start : start + sketch.feature_size])
            sides = weights.setdefault(feature, [0.0, 0.0])
            sides[side] = weight + (sides[side] if features.repeats else 0.0)
    hashes = np.array([*names], np.uint64)
    table = np.array([*weights.values()]).reshape(-1, 2) / TENTHS
    return WeighedFeatures(
        _heaviest([*names.values()], table, table.min(axis=1)),
        _heaviest([*names.values()], table, _contributions(hashes, table, sketch)),
    )


def _contributions(hashes: U64, weights: F64, sketch: Sketch) -> F64:
    """Return how much each feature contributes to the bits that differ: shape (features,).

    weights: in each text, shape (features, 2).
    """
    contributions = np.zeros(hashes.size)
    for word in range(sketch.width):
        signs = 2.0 * ((sketch.feature_hashes(hashes, word)[:, None] >> _BITS) & np.uint64(1)) - 1
        sums = weights.T @ signs
        left, right = sums > 0
        # A feature of the left text pushes towards its bit, and away from that of the right one.
        towards = left.astype(float) - right
        contributions += (weights[:, 0] - weights[:, 1]) * (signs @ towards)
    return contributions


def _heaviest(names: list[str], weights: F64, ranks: F64) -> tuple[WeighedFeature, ...]:
    """Return the features of the highest ranks over 0. weights: as in `_contributions`."""
    rows = np.flatnonzero(ranks > 0).tolist()
    order = sorted(rows, key=lambda row: (-ranks[row], names[row]))
    return tuple(WeighedFeature(names[row], *weights[row].tolist()) for row in order[:_SHOWN])
