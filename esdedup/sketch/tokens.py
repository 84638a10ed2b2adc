"""Writes hashes as tokens (keywords), and reads them back.

A token is its position (band or segment) and its value, in digits of base 64. The alphabet holds
only characters without a meaning in query languages, in ASCII order, so that tokens sort as their
numbers do. The position keeps the tokens of two bands apart, even if a store sorts and
de-duplicates the values of a field.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, U64

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
    """Characters of a token, for `count` tokens a document with values of `bits` bits."""
    return sum(_form(count, bits))


def encode(values: U64, bits: int) -> list[list[str]]:
    """Write the tokens of each row of values, shape (n, count): n lists of `count` strings."""
    width = token_length(values.shape[1], bits)
    # numpy's strings are code points of 32 bits.
    text = np.empty((*values.shape, width), np.uint32)
    write_into(text, values, bits)
    strings: list[list[str]] = text.view(f"U{width}")[..., 0].tolist()
    return strings


def json_lists(values: U64, bits: int) -> list[str]:
    """Return the tokens of each row of values, shape (n, count), as a JSON array of strings."""
    n, count = values.shape
    text = np.empty((n, count, token_length(count, bits) + 3), np.uint8)
    text[..., 0], text[..., -2:] = ord('"'), np.frombuffer(b'",', np.uint8)
    write_into(text[..., 1:-2], values, bits)
    whole, width = text.tobytes().decode("ascii"), text[0].size if n else 1
    return [f"[{whole[at : at + width - 1]}]" for at in range(0, len(whole), width)]


def write_into(text: NDArray[Any], values: U64, bits: int) -> None:
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
