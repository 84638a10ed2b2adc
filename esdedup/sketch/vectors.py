"""Vectors as texts of hex digits, and the cosines of their pairs.

A vector passes through searches and comparisons as the text of its document: 8 lower-case hex
digits for each number, the bytes of a float32 with the lowest byte first. No normalisation changes
such a text, and equal vectors have equal texts.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import F64, I64, Ragged, blocks

F32 = NDArray[np.float32]
DIGITS = 8
"""Hex digits of a number."""
_SHOWN = 8
"""Numbers of a vector that are shown."""
_LITTLE = np.dtype("<f4")
_NUMBERS_AT_ONCE = 1 << 20
"""Numbers of the pairs that are compared at once: 25 MB with those of both sides as float64."""
_DECIMALS = 12
"""Cosines are rounded to so many, so that the order in which a machine adds does not show. A sum of
4,096 products of float64 is exact to 13."""


def written_vector(vector: F32) -> str:
    """Return a vector as text. vector: shape (dimensions,)."""
    # Adding 0 removes the sign of -0.0, so that equal vectors have equal texts.
    return (vector + np.float32(0)).astype(_LITTLE).tobytes().hex()


def read_vectors(texts: Sequence[str], dimensions: int) -> F32:
    """Return the vectors of texts, shape (n, dimensions); zeros for an empty text.

    Raises ValueError for a text of another length, or of other characters.
    """
    digits = DIGITS * dimensions
    if {*map(len, texts)} - {0, digits}:
        raise ValueError(f"a text is not a vector of {dimensions} numbers")
    raw = bytes.fromhex("".join([text or "0" * digits for text in texts]))
    return np.frombuffer(raw, _LITTLE).astype(np.float32).reshape(len(texts), dimensions)


def vectors_of(texts: Sequence[str]) -> F32:
    """Return the vectors of texts of one length, shape (n, dimensions)."""
    return read_vectors(texts, max(map(len, texts), default=0) // DIGITS)


def shown_vector(text: str) -> str:
    """Return the first numbers of a vector, for readers. text: as `written_vector` returns it."""
    dimensions = len(text) // DIGITS
    vector = read_vectors([text], dimensions)[0]
    numbers = [f"{number:.3g}" for number in vector[:_SHOWN].tolist()]
    if dimensions > _SHOWN:
        numbers.append("...")
    return f"[{', '.join(numbers)}]"


def packed_vectors(texts: Sequence[str]) -> Ragged:
    """Return the vectors of texts, two numbers in each word of 64 bits; none of an empty text."""
    rows = []
    for text in texts:
        raw = bytes.fromhex(text)
        rows.append(np.frombuffer(raw + bytes(-len(raw) % 8), np.uint64))
    return Ragged.of_rows(rows)


def cosines(vectors: Ragged, left: I64, right: I64) -> F64:
    """Return the cosine of pairs, shape (pairs,), as float64 computes it.

    vectors: as `packed_vectors` returns them. left, right: rows of these, shape (pairs,). A row
    without numbers, or of another length, is at cosine 0.
    """
    cosine = np.zeros(left.size)
    lengths = vectors.counts
    width = int(lengths.max(initial=0))
    if not width or not left.size:
        return cosine
    matrix = _matrix(vectors, width)
    norms = np.sqrt(_products(matrix, matrix))
    for block in blocks(np.full(left.size, 2 * width), _NUMBERS_AT_ONCE):
        rows_left, rows_right = left[block], right[block]
        products = _products(matrix[rows_left], matrix[rows_right])
        scale = norms[rows_left] * norms[rows_right]
        is_comparable = (lengths[rows_left] == lengths[rows_right]) & (scale > 0.0)
        cosine[block] = np.divide(products, scale, out=np.zeros(scale.size), where=is_comparable)
    return np.clip(np.round(cosine, _DECIMALS), -1.0, 1.0)


def pairs_of_vectors(vectors: F32) -> Iterator[tuple[I64, I64, F64]]:
    """Yield all pairs of vectors: rows, later rows, and their cosines.

    Each block has shape (pairs,) three times. A vector of zeros is at cosine 0 of all.
    vectors: shape (n, dimensions).
    """
    directions = vectors.astype(np.float64)
    lengths = np.linalg.norm(directions, axis=1, keepdims=True)
    np.divide(directions, lengths, out=directions, where=lengths > 0.0)
    count = len(directions)
    step = max(1, _NUMBERS_AT_ONCE // max(1, count))
    for first in range(0, count, step):
        products = directions[first : first + step] @ directions[first:].T
        cosine = np.clip(np.round(products, _DECIMALS), -1.0, 1.0)
        left, right = np.nonzero(np.triu(np.ones(cosine.shape, np.bool_), 1))
        yield left + first, right + first, cosine[left, right]


def _matrix(vectors: Ragged, width: int) -> F32:
    """Return vectors of at most `width` words as rows, shape (n, 2 * width)."""
    if vectors.hashes.size == len(vectors) * width:
        words = vectors.hashes.reshape(len(vectors), width)
    else:
        words = np.zeros((len(vectors), width), np.uint64)
        is_used = np.arange(width) < vectors.counts[:, None]
        words[is_used] = vectors.hashes
    numbers: F32 = np.ascontiguousarray(words).view(_LITTLE)
    return numbers


def _products(left: F32, right: F32) -> F64:
    """Return the scalar product of each row with that of the other array, shape (n,)."""
    sums = np.empty(len(left))
    for block in blocks(np.full(len(left), left.shape[1]), _NUMBERS_AT_ONCE):
        wide_left, wide_right = left[block].astype(np.float64), right[block].astype(np.float64)
        np.einsum("ij,ij->i", wide_left, wide_right, out=sums[block])
    return sums
