"""Tokens as numbers below 2**63, to list them in pages."""

import itertools
from collections.abc import Sequence

import numpy as np

from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.tokens import digits_of, encode, number_of, token_length
from esdedup.text.arrays import U64
from esdedup.text.hashing import xxh3

_MOST_DIGITS = 10
_OTHERS = np.uint64(1 << 62)
"""Added to the hashes of other strings, such as digests."""


def numbers_of(tokens: Sequence[str], sketch: Sketch | None) -> U64:
    """Return a number for each token: its digits, or a hash. sketch: None for digests."""
    width = 0 if sketch is None else token_length(sketch.tokens, sketch.bits)
    if 0 < width <= _MOST_DIGITS:
        if {*map(len, tokens)} == {width}:
            digits = digits_of(tokens, width)
            if digits.max() < 64:
                return number_of(digits)
        if len(tokens) > 1:
            return np.concatenate([numbers_of([each], sketch) for each in tokens])
    return xxh3(tokens, 0) >> np.uint64(2) | _OTHERS


def numbers_of_values(values: U64, sketch: Sketch) -> U64:
    """Return the numbers of the tokens of values, shape (n, tokens), row after row."""
    if token_length(sketch.tokens, sketch.bits) > _MOST_DIGITS:
        return numbers_of([*itertools.chain.from_iterable(encode(values, sketch.bits))], sketch)
    positions = np.arange(sketch.tokens, dtype=np.uint64)
    return (positions << np.uint64(-(-sketch.bits // 6) * 6) | values).ravel()
