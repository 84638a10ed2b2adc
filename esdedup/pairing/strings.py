"""Many strings in two flat arrays, and ids in natural order, sorted in numpy.

A list of Python's strings takes about 65 bytes for an id of 8 characters, and keys to sort them by
take 300 more. Here an id takes 16.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from esdedup.text.arrays import I64, U64, Mask, blocks, offsets_of, ranges, run_starts

_BYTES_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Strings(Sequence[str]):
    """Strings in UTF-8: string i is raw[offsets[i]:offsets[i + 1]].

    raw: shape (total,). offsets: shape (n + 1,).
    """

    raw: NDArray[np.uint8]
    offsets: I64

    @staticmethod
    def of(strings: Iterable[str]) -> Strings:
        """The strings in arrays."""
        return Strings.of_bytes([each.encode("utf-8", "surrogatepass") for each in strings])

    @staticmethod
    def of_bytes(encoded: Sequence[bytes]) -> Strings:
        """Strings that are encoded already, or other rows of bytes."""
        counts = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return Strings(np.frombuffer(b"".join(encoded), np.uint8), offsets_of(counts))

    @staticmethod
    def joined(parts: Sequence[Strings]) -> Strings:
        """The strings of all parts, in order. There is at least one part."""
        counts = np.concatenate([part.counts for part in parts])
        return Strings(np.concatenate([part.raw for part in parts]), offsets_of(counts))

    @property
    def counts(self) -> I64:
        """The bytes of each string, shape (n,)."""
        return np.diff(self.offsets)

    def slice(self, some: slice) -> Strings:
        """The strings of consecutive rows, without a copy. some: of no other step than 1."""
        bounds = self.offsets[some.start : some.stop + 1]
        return Strings(self.raw[bounds[0] : bounds[-1]], bounds - bounds[0])

    def picked(self, rows: I64) -> Strings:
        """The strings of some rows, in their order."""
        starts, counts = self.offsets[rows], self.counts[rows]
        parts = [
            self.raw[ranges(starts[some], counts[some])] for some in blocks(counts, _BYTES_AT_ONCE)
        ]
        return Strings(np.concatenate(parts), offsets_of(counts))

    def row_of(self, wanted: str) -> int | None:
        """The first row of a string; None if it is not there."""
        encoded = wanted.encode("utf-8", "surrogatepass")
        rows = np.flatnonzero(self.counts == len(encoded))
        # Ids often begin alike, and seldom end so.
        for at, byte in reversed([*enumerate(encoded)]):
            rows = rows[self.raw[self.offsets[rows] + at] == byte]
        return int(rows[0]) if rows.size else None

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        at = range(len(self))[row]
        start, end = self.offsets[at : at + 2].tolist()
        return self.raw[start:end].tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        for some in blocks(self.counts, _BYTES_AT_ONCE):
            part = self.slice(some)
            raw = part.raw.tobytes()
            for start, end in itertools.pairwise(part.offsets.tolist()):
                yield raw[start:end].decode("utf-8", "surrogatepass")


def natural_order(ids: Strings) -> tuple[I64, Mask]:
    """The rows in the order of `models.natural`, equal ids by row; True for the first of each id.

    Both have shape (n,).
    """
    keys = [natural_keys(ids.slice(some)) for some in blocks(ids.counts, _BYTES_AT_ONCE)]
    return byte_order(Strings.joined(keys))


def byte_order(strings: Strings) -> tuple[I64, Mask]:
    """The rows in ascending order of their bytes, equal ones by row; True for the first of each.

    Sorts by eight bytes at a time, and by the next eight only rows that are still equal. A string
    must not be the beginning of another that goes on with zero bytes only.
    """
    longest = int(strings.counts.max(initial=0))
    windows = sliding_window_view(np.append(strings.raw, np.zeros(8, np.uint8)), 8)
    order = np.arange(len(strings))
    group = np.zeros(len(strings), np.int64)
    undecided = np.arange(len(strings))
    first = np.ones(len(strings), np.bool_)
    for at in range(0, longest, 8):
        rows, groups = order[undecided], group[undecided]
        words = _words(windows, strings.offsets[rows] + at, strings.offsets[rows + 1])
        by = np.lexsort((words, groups)) if at else np.argsort(words, kind="stable")
        order[undecided] = rows[by]
        fresh = run_starts(words[by]) | run_starts(groups)
        group[undecided] = np.cumsum(fresh)
        first[undecided] = fresh
        undecided = undecided[~(fresh & np.append(fresh[1:], True))]
        if not undecided.size:
            break
    return order, first


def _words(windows: NDArray[np.uint8], starts: I64, ends: I64) -> U64:
    """The eight bytes from each start on as a number, shape (n,); zeros follow the end.

    windows: the eight bytes from each byte on.
    """
    read = windows[np.minimum(starts, ends)].view(">u8")[:, 0].astype(np.uint64)
    beyond = (8 * np.clip(8 - (ends - starts), 0, 8)).astype(np.uint64)
    words: U64 = read >> beyond << beyond
    return words


def natural_keys(ids: Strings) -> Strings:
    """Bytes that sort as `models.natural` sorts the ids.

    A text ends with a zero byte. After that comes a number, as the number of its digits in 2 bytes
    and the digits; at the end of the id zero bytes stand in its place, and the id itself, which
    tells "a1" from "a01".
    """
    raw, at = ids.raw, np.arange(ids.raw.size)
    digit = (raw >= ord("0")) & (raw <= ord("9"))
    begins = digit.copy()
    begins[1:] &= ~digit[:-1]
    starts = ids.offsets[:-1][ids.counts > 0]
    begins[starts] = digit[starts]
    # A zero is one of the first of its number if none but zeros is before it.
    number = np.maximum.accumulate(np.where(begins, at, 0))
    written = ~digit | (np.maximum.accumulate(np.where(raw != ord("0"), at, -1)) >= number)
    digits = np.bincount(number[digit & written], minlength=raw.size)[begins] + 1
    special = raw < 2
    sizes = written.astype(np.int64) + special + 3 * begins
    ends = offsets_of(sizes)
    lengths = np.diff(ends[ids.offsets]) + 3 + ids.counts
    offsets = offsets_of(lengths)
    # What a byte is moved by, because of the ends and ids that were written before it.
    moved = ends[1:] + np.repeat(offsets[:-1] - ends[ids.offsets[:-1]], ids.counts) - 1
    keys = np.zeros(offsets[-1], np.uint8)
    keys[moved[special] - 1] = 1
    keys[moved[written]] = (raw + special)[written]
    length = moved[begins] - written[begins]
    keys[length - 1], keys[length] = digits >> 8, digits & 255
    keys[ranges(offsets[1:] - ids.counts, ids.counts)] = raw
    return Strings(keys, offsets)
