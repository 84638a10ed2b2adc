"""Arrays for tests of the core."""

import itertools

import numpy as np

from esdedup.text.arrays import Ragged, offsets_of


def ragged(rows: list[list[int]]) -> Ragged:
    """The rows as the core has them."""
    hashes = np.array([*itertools.chain.from_iterable(rows)], np.uint64)
    return Ragged(hashes, offsets_of(np.array([len(row) for row in rows], np.int64)))
