"""Finds candidate pairs in a list of edges: pairs of ids that another program found.

Edges take the place of the bands (`candidate_pairs.BandCandidates`). An edge is held as the hashes
of its two ids, in 16 bytes. Ids that share a hash do no harm: a hash stands for all documents that
have it, and each candidate pair is verified by its texts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import RecordError, UsageError
from esdedup.pairing.candidates import Classes
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import bad_record, id_at
from esdedup.records.files import BadRecord, Record
from esdedup.search import buckets
from esdedup.text.arrays import I64, U64, blocks, offsets_of, ranges, run_starts
from esdedup.text.hashing import xxh3

EDGE_FIELDS = ("left", "right")
_AT_ONCE = 1 << 17


@dataclass(frozen=True, eq=False)
class Edges:
    """Pairs of ids. The two ids of an edge may stand either way round, and an edge may repeat.

    parts: XXH3-64 hashes of the ids, in the given order, shape (n, 2) each.
    """

    parts: Sequence[U64]

    @staticmethod
    def of(pairs: Iterable[tuple[str | int, str | int]]) -> Edges:
        """Read pairs of ids. Raises UsageError if an item is not two texts or whole numbers."""
        check_list("edges", pairs)
        return Edges(_hashed(itertools.starmap(_checked, enumerate(pairs, 1))))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    @property
    def digest(self) -> str:
        """A digest that tells this list from others: 32 hexadecimal digits."""
        found = xxhash.xxh3_128()
        for part in self.parts:
            found.update(part.data)
        return found.hexdigest()


def edges_in(
    records: Iterable[Record | BadRecord],
    dead_letter: DeadLetter,
    fields: Sequence[str] = EDGE_FIELDS,
) -> Edges:
    """Read the two ids of each record. Records without two ids go to `dead_letter`.

    fields: the dotted names of the fields of the two ids.
    """
    return Edges(_hashed(_pairs_in(records, dead_letter, fields)))


def _checked(number: int, pair: Any) -> tuple[str, str]:
    """Return the two ids of edge `number`."""
    if (
        not isinstance(pair, Sequence | np.ndarray)
        or isinstance(pair, str | bytes)
        or len(pair) != 2
    ):
        raise UsageError(f"edge {number}: give two ids, not a {type(pair).__name__}")
    left, right = pair
    if type(left) is not str or type(right) is not str:
        check_type(f"edge {number}, left", left, "str | int")
        check_type(f"edge {number}, right", right, "str | int")
    return str(left), str(right)


def _pairs_in(
    records: Iterable[Record | BadRecord], dead_letter: DeadLetter, fields: Sequence[str]
) -> Iterator[tuple[str, str]]:
    one, other = fields
    for record in records:
        if isinstance(record, BadRecord):
            dead_letter(record)
            continue
        # Nearly all are like this; it takes a quarter of the time.
        left, right = record.source.get(one), record.source.get(other)
        if left and right and type(left) is str and type(right) is str:
            yield left, right
            continue
        try:
            yield id_at(record.source, one), id_at(record.source, other)
        except RecordError as error:
            dead_letter(bad_record(record, str(error)))


def _hashed(pairs: Iterator[tuple[str, str]]) -> list[U64]:
    """The hashes of pairs of ids, in parts, shape (n, 2) each."""
    parts = []
    while some := list(itertools.islice(pairs, _AT_ONCE)):
        parts.append(xxh3(itertools.chain.from_iterable(some), 0).reshape(-1, 2))
    return parts


@dataclass(frozen=True)
class EdgeCounts:
    """Counts the edges of a list.

    given: all of them. loops: from a document to itself. unknown: with an id that no document with
    tokens has. distinct: between two documents, each counted once.
    below: pairs of different texts, of these, that were compared and are below the threshold. A
    pair is not compared if it can't change the groups.
    """

    given: int
    loops: int
    unknown: int
    distinct: int
    below: int


class EdgeCandidates:
    """Pairs of texts that edges connect.

    ids: of n documents, in their order of precedence. classes: of their texts. Pairs are of
    positions among the compared classes.
    counts: of the edges; below are only those of texts without words, which are like no other.
    capped, recall: as of `BandCandidates`. No bucket is cut, and the recall is not known.

    Raises UsageError if no edge connects two documents.
    """

    capped = buckets.Capped()
    recall = None

    def __init__(self, edges: Edges, ids: Iterable[str], classes: Classes) -> None:
        hashes = xxh3(ids, 0)
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        loops = unknown = 0
        found = [np.empty(0, np.int64)]
        for part in edges.parts:
            pair, left, right = _rows_of(part, order, ordered)
            known = part[pair[run_starts(pair)]]
            unknown += len(part) - len(known)
            loops += int(np.count_nonzero(known[:, 0] == known[:, 1]))
            # Two ids may share a hash, so that only rows tell a loop from an edge.
            apart = left != right
            found.append(_keys(left[apart], right[apart]))
        distinct = _distinct(np.concatenate(found))
        if not distinct.size:
            # Else an index would lose all groups, because a file is empty or a field is wrong.
            raise UsageError(
                f"none of the {len(edges):,} edges has two ids of documents with tokens: are these"
                " the ids of the index?"
            )
        below, found = 0, [np.empty(0, np.int64)]
        # In parts, as the rows of all edges take much more memory than their keys.
        for start in range(0, distinct.size, _AT_ONCE):
            some = distinct[start : start + _AT_ONCE]
            left, right = classes.of[_left(some)], classes.of[_right(some)]
            wordless = (np.minimum(left, right) < 0) | (np.maximum(left, right) >= classes.filled)
            unequal = (left != right) | (left < 0)
            below += int(np.count_nonzero(wordless & unequal))
            compared = ~wordless & unequal
            found.append(_keys(left[compared], right[compared]))
        self.counts = EdgeCounts(len(edges), loops, unknown, distinct.size, below)
        self._pairs = _distinct(np.concatenate(found))
        self._rows = classes.filled

    def counted(self, below: int) -> EdgeCounts:
        """The counts, with the pairs that were compared and found below the threshold."""
        return replace(self.counts, below=self.counts.below + below)

    def blocks(self, done: int = 0) -> Iterator[tuple[int, I64, I64]]:
        """Blocks of (rows done after it, left, right), by right, then left, after `done` rows."""
        if not self._pairs.size:
            return
        counts = np.bincount(_right(self._pairs), minlength=self._rows)
        ends = offsets_of(counts)
        for rows in blocks(counts, buckets.PAIRS_A_BLOCK):
            if rows.stop > done:
                pairs = self._pairs[ends[rows.start] : ends[rows.stop]]
                yield rows.stop, _left(pairs), _right(pairs)


def _rows_of(part: U64, order: I64, ordered: U64) -> tuple[I64, I64, I64]:
    """The rows of each edge of a part: its position there, and its left and right rows.

    An edge comes once for each two documents that have its hashes; not at all if there are none.
    order: the rows by their hashes. ordered: these hashes, shape (n,).
    """
    first = np.searchsorted(ordered, part)
    many = np.searchsorted(ordered, part, "right") - first
    pairs = many[:, 0] * many[:, 1]
    pair = np.repeat(np.arange(len(part)), pairs)
    within, inner = ranges(0, pairs), many[pair, 1]
    left, right = first[pair, 0] + within // inner, first[pair, 1] + within % inner
    return pair, order[left], order[right]


def _keys(one: I64, other: I64) -> I64:
    """One number for each pair of rows, whichever way round: ascending by right, then left."""
    keys: I64 = np.maximum(one, other) << 32 | np.minimum(one, other)
    return keys


def _left(keys: I64) -> I64:
    return keys & 0xFFFFFFFF


def _right(keys: I64) -> I64:
    return keys >> 32


def _distinct(keys: I64) -> I64:
    """The keys, ascending, each once. Sorts in place."""
    keys.sort()
    return keys[run_starts(keys)]
