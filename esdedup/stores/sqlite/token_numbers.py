"""Tokens as numbers below 2**63, to list them in pages: the position above the value."""

from collections.abc import Sequence

import numpy as np

from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.tokens import decode_tokens
from esdedup.text.arrays import U64
from esdedup.text.hashing import PRIME64_1, avalanche, xxh3

_TWO = np.uint64(2)
_FOREIGN = np.uint64(1 << 62)
"""Added to the numbers of other strings, such as digests."""


def numbers_of(tokens: Sequence[str], sketch: Sketch | None) -> U64:
    """Return the number of each token: shape (n,). sketch: whose tokens they are, if of any."""
    try:
        if sketch is not None:
            positions, values = decode_tokens(tokens, sketch.tokens, sketch.bits)
            return _joined(positions.view(np.uint64), values, sketch)
    except ValueError:
        if len(tokens) > 1:
            return np.concatenate([numbers_of([each], sketch) for each in tokens])
    return xxh3(tokens, 0) >> _TWO | _FOREIGN


def numbers_of_values(values: U64, sketch: Sketch) -> U64:
    """Return the numbers of the tokens of values, shape (n, sketch.tokens)."""
    return _joined(np.arange(sketch.tokens, dtype=np.uint64), values, sketch)


def _joined(positions: U64, values: U64, sketch: Sketch) -> U64:
    if sketch.bits + (sketch.tokens - 1).bit_length() <= 62:
        return positions << np.uint64(sketch.bits) | values
    # Two tokens have the same number by a chance of 2**-62.
    return avalanche(values * PRIME64_1 + positions) >> _TWO
