"""Many strings in two flat arrays, and ids in natural order.

A list of Python's strings takes about 65 bytes for an id of 8 characters. Here an id takes 16.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from esdedup.text.arrays import I64, Mask, blocks, offsets_of, ranges

_BYTES_AT_ONCE = 1 << 18
_DIGITS = re.compile(rb"[0-9]+")


@dataclass(frozen=True, eq=False)
class Strings(Sequence[str]):
    """Strings in UTF-8: string i is raw[offsets[i]:offsets[i + 1]].

    raw: the bytes of all strings, shape (total,).
    offsets: where each string starts, and the end, shape (n + 1,).
    """

    raw: NDArray[np.uint8]
    offsets: I64

    @staticmethod
    def of(strings: Iterable[str]) -> Strings:
        """Return the strings in arrays."""
        return Strings.of_bytes([string.encode("utf-8", "surrogatepass") for string in strings])

    @staticmethod
    def of_bytes(encoded: Sequence[bytes]) -> Strings:
        """Return strings that are encoded already, or other rows of bytes."""
        counts = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return Strings(np.frombuffer(b"".join(encoded), np.uint8), offsets_of(counts))

    @staticmethod
    def joined(arrays: Sequence[Strings]) -> Strings:
        """Return the strings of arrays, in order. There is at least one array."""
        counts = np.concatenate([array.counts for array in arrays])
        return Strings(np.concatenate([array.raw for array in arrays]), offsets_of(counts))

    @property
    def counts(self) -> I64:
        """The bytes of each string, shape (n,)."""
        return np.diff(self.offsets)

    def picked(self, rows: I64) -> Strings:
        """Return the strings of some rows, in their order."""
        starts, counts = self.offsets[rows], self.counts[rows]
        raws = [
            self.raw[ranges(starts[block], counts[block])]
            for block in blocks(counts, _BYTES_AT_ONCE)
        ]
        return Strings(np.concatenate(raws), offsets_of(counts))

    def row_of(self, string: str) -> int | None:
        """Return the first row of a string; None if it is not there."""
        encoded = string.encode("utf-8", "surrogatepass")
        rows = np.flatnonzero(self.counts == len(encoded))
        # Ids often have a beginning in common, and seldom an end.
        for position, byte in reversed([*enumerate(encoded)]):
            rows = rows[self.raw[self.offsets[rows] + position] == byte]
        return int(rows[0]) if rows.size else None

    def __len__(self) -> int:
        return self.offsets.size - 1

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        index = range(len(self))[row]
        start, end = self.offsets[index : index + 2].tolist()
        return self.raw[start:end].tobytes().decode("utf-8", "surrogatepass")

    def encoded(self) -> Iterator[bytes]:
        """Yield each string in UTF-8."""
        for block in blocks(self.counts, _BYTES_AT_ONCE):
            bounds = self.offsets[block.start : block.stop + 1]
            raw = self.raw[bounds[0] : bounds[-1]].tobytes()
            for start, end in itertools.pairwise((bounds - bounds[0]).tolist()):
                yield raw[start:end]

    def __iter__(self) -> Iterator[str]:
        return (string.decode("utf-8", "surrogatepass") for string in self.encoded())


@dataclass(frozen=True, eq=False)
class Numbers(Sequence[str]):
    """Numbers as ids, in decimal digits.

    values: the numbers, shape (n,).
    """

    values: I64

    def __len__(self) -> int:
        return self.values.size

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [*map(str, self.values[row].tolist())]
        return str(self.values[row])


def natural_order(ids: Strings) -> tuple[I64, Mask]:
    """Return the rows in the order of `models.natural`, and True for the first of each id."""
    return byte_order(map(natural_key, ids.encoded()), len(ids))


def byte_order(keys: Iterable[bytes], count: int) -> tuple[I64, Mask]:
    """Return the rows in order of n keys, equal ones by row, and True for the first of each."""
    # An array of Python's strings takes four times the memory. numpy compares up to a null only.
    decoded = (_without_nulls(key).decode("latin-1") for key in keys)
    texts: Any = np.fromiter(decoded, np.dtypes.StringDType(), count)
    order: I64 = np.argsort(texts, kind="stable")
    texts = texts[order]
    return order, np.append(True, texts[1:] != texts[:-1])[:count]


def natural_key(id: bytes) -> bytes:
    """Return bytes that sort as `models.natural` sorts an id.

    A text ends with a zero byte. After that comes a number, as the number of its digits in 2 bytes
    and the digits; at the end of the id zero bytes replace it, followed by the id itself, which
    distinguishes "a1" from "a01".
    """
    return _DIGITS.sub(_number_key, _without_nulls(id)) + b"\0\0\0" + id


def _without_nulls(raw: bytes) -> bytes:
    """Return other bytes that sort in the same way."""
    return raw.replace(b"\1", b"\1\2").replace(b"\0", b"\1\1")


def _number_key(match: re.Match[bytes]) -> bytes:
    digits = match[0].lstrip(b"0")
    return b"\0" + (len(digits) + 1).to_bytes(2, "big") + digits
