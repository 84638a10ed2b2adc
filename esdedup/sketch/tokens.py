"""Writes hashes as tokens (keywords), and reads them back.

A token is its position (band or segment) and its value, in digits of base 64. The alphabet holds
only characters without a meaning in query languages, in ASCII order, so that tokens sort as their
numbers do. The position keeps the tokens of two bands apart, even if a store sorts and
de-duplicates the values of a field. Rows of any number of tokens have all of them at position 0.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, U64, Ragged, Unsigned, Values, offsets_of

ALPHABET = ".0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
MAX_TOKENS = 64 * 64

_ROWS_AT_ONCE = 512
"""Rows written at once, few enough for their characters to stay in the cache."""

_DIGITS = np.array([ord(character) for character in ALPHABET], np.uint32)
_VALUES = np.full(256, 255, np.uint8)
_VALUES[_DIGITS] = np.arange(64, dtype=np.uint8)


def _form(count: int, bits: int) -> tuple[int, int]:
    """Characters of a token's position, and of its value."""
    return (1 if count <= 64 else 2), -(-bits // 6)


def token_length(count: int, bits: int) -> int:
    """Characters of a token, for `count` tokens per document with values of `bits` bits."""
    return sum(_form(count, bits))


def flat(values: Values) -> tuple[U64, I64]:
    """Return the values as `write_into` takes them, and the number of tokens of each row."""
    if isinstance(values, Ragged):
        return values.hashes[:, None], values.counts
    return values, np.full(len(values), values.shape[1])


def encode(values: Values, bits: int) -> list[list[str]]:
    """Return the tokens of each row of values: n lists of strings."""
    matrix, counts = flat(values)
    width = token_length(matrix.shape[1], bits)
    # numpy's strings are code points of 32 bits.
    text = np.empty((*matrix.shape, width), np.uint32)
    write_into(text, matrix, bits)
    strings: list[str] = text.view(f"U{width}").ravel().tolist()
    return [strings[start:end] for start, end in itertools.pairwise(offsets_of(counts).tolist())]


def json_lists(values: Values, bits: int) -> list[str]:
    """Return the tokens of each row of values as a JSON array of strings."""
    matrix, counts = flat(values)
    size = token_length(matrix.shape[1], bits) + 3
    text = np.empty((*matrix.shape, size), np.uint8)
    text[..., 0], text[..., -2:] = ord('"'), np.frombuffer(b'",', np.uint8)
    write_into(text[..., 1:-2], matrix, bits)
    content, bounds = text.tobytes().decode("ascii"), (offsets_of(counts) * size).tolist()
    return [f"[{content[start : end - 1]}]" for start, end in itertools.pairwise(bounds)]


def write_into(text: Unsigned, values: U64, bits: int) -> None:
    """Write the code points of `encode`: values, shape (n, count), into (n, count, width)."""
    lead, positions = _form(values.shape[1], bits)[0], np.arange(values.shape[1])
    alphabet = _DIGITS.astype(text.dtype)
    for first in range(0, len(values), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        for i in range(lead):
            text[rows, :, i] = alphabet[(positions >> (6 * (lead - 1 - i))) & 63]
        remaining = values[rows].copy()
        for i in reversed(range(lead, text.shape[-1])):
            text[rows, :, i] = alphabet.take((remaining & np.uint64(63)).view(np.int64))
            remaining >>= np.uint64(6)


def decode(tokens: Sequence[Sequence[str]], count: int, bits: int) -> U64:
    """Read the values of rows of tokens that `encode` wrote, in any order: shape (n, count).

    Raises ValueError unless a row has one token of this form for each position.
    """
    if any(len(row) != count for row in tokens):
        raise ValueError(f"a document has not {count} tokens")
    flat = [token for row in tokens for token in row]
    positions, values = decode_tokens(flat, count, bits)
    order = np.argsort(positions.reshape(-1, count), axis=1)
    if (np.take_along_axis(positions.reshape(-1, count), order, 1) != np.arange(count)).any():
        raise ValueError("a document has no token of a position")
    return np.take_along_axis(values.reshape(-1, count), order, 1)


def decode_any(tokens: Sequence[Sequence[str]], bits: int) -> Ragged:
    """Read the values of rows of any number of tokens. Raises ValueError for other tokens."""
    _, values = decode_tokens([token for row in tokens for token in row], 1, bits)
    return Ragged(values, offsets_of(np.fromiter(map(len, tokens), np.int64, len(tokens))))


def decode_tokens(tokens: Sequence[str], count: int, bits: int) -> tuple[I64, U64]:
    """Read the positions and the values of single tokens: shape (n,) each.

    Raises ValueError for a token that is not of this form, naming it.
    """
    lead, width = _form(count, bits)[0], token_length(count, bits)
    lengths = {len(token) for token in tokens}
    if lengths - {width}:
        wrong = next(token for token in tokens if len(token) != width)
        raise ValueError(f"{wrong!r} is not a token of {width} characters")
    digits = digits_of(tokens, width)
    positions, values = number_of(digits[:, :lead]), number_of(digits[:, lead:])
    beyond = (positions >= np.uint64(count)) | (values >> np.uint64(bits) > 0)
    wrong_rows = np.flatnonzero((digits > 63).any(axis=1) | beyond)
    if wrong_rows.size:
        raise ValueError(
            f"{tokens[wrong_rows[0]]!r} is not a token of {count} positions of {bits} bits"
        )
    return positions.astype(np.int64), values


def digits_of(tokens: Sequence[str], width: int) -> NDArray[np.uint8]:
    """Return the digits of tokens of equal width, shape (n, width); 255 for other characters."""
    flat = "".join(tokens).encode("ascii", "replace")
    return _VALUES[np.frombuffer(flat, np.uint8)].reshape(len(tokens), width)


def number_of(digits: NDArray[np.uint8]) -> U64:
    """Return the numbers whose digits these are, shape (n,). digits: shape (n, at most 10)."""
    value = np.zeros(digits.shape[:-1], np.uint64)
    for i in range(digits.shape[-1]):
        value = (value << np.uint64(6)) | digits[..., i]
    return value
