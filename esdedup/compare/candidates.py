"""Candidate pairs of documents, which `verify` compares exactly: those that share enough tokens."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from esdedup.compare.columns import Columns
from esdedup.compare.plan import Plan
from esdedup.search import buckets
from esdedup.search.buckets import Capped
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, digest_words
from esdedup.sketch.sketch import sketch as sketched
from esdedup.stores.memory_mapped import mapped
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import I64, U64, Mask, Ragged, Unsigned, blocks, run_starts
from esdedup.text.jaccard import hamming

_TEXTS_AT_ONCE = 2_000
_BYTES_A_ROW, _BYTES_A_PAIR = 128, 512
"""Bytes of memory for each: a quarter of it sorts rows, and a twentieth holds pairs."""
Block = tuple[int, I64, I64]
"""Rows done after the block, and its pairs of rows, left < right, by right and then left."""


class Classes(NamedTuple):
    """Classes of rows of equal text, of which only the first row is compared.

    rows: the first row of each class, shape (classes,), ascending among the first `filled`.
    of: the class of each row, shape (n,), or -1 for a text without any character.
    filled: number of classes, the first ones, whose rows have tokens.
    """

    rows: I64
    of: I64
    filled: int

    def in_files(self, folder: Path) -> "Classes":
        """Return the same classes mapped from temporary files."""
        return self._replace(rows=mapped(folder, [self.rows]), of=mapped(folder, [self.of]))

    @property
    def compared(self) -> I64:
        """The first rows of the classes with tokens, ascending, shape (filled,)."""
        return self.rows[: self.filled]

    @property
    def firsts(self) -> I64:
        """The first row of each row's class, its own without a class: shape (n,)."""
        own = np.arange(self.of.size)
        return np.where(self.of < 0, own, self.rows[self.of]) if self.rows.size else own


def classes_of(
    digests: U64,
    filled: Mask,
    kinds: Mapping[int, int] = MappingProxyType({}),
    most: int = buckets.ROWS_A_PASS,
) -> Classes:
    """Return the classes of n rows.

    digests: of their texts, shape (n, 2). filled: False for texts without words, which are only
    equal to others, shape (n,). kinds: by row, numbers that separate rows of equal text. most:
    number of rows to sort at once.
    """
    first, kind = np.empty(len(digests), np.int64), np.zeros(len(digests), np.uint32)
    kind[list(kinds)] = list(kinds.values())
    for some in buckets.passes(digests[:, 0], most):
        keys = [*digests[some].T, kind[some]]
        # The sort is stable: the first row of a class stays its first.
        order = np.lexsort(keys)
        fresh = np.logical_or.reduce([run_starts(key[order]) for key in keys])
        rows = some[order]
        first[rows] = rows[fresh][np.cumsum(fresh) - 1]
    first[(digests == digest_words([NO_TEXT])).all(axis=1)] = -1
    rows = np.flatnonzero(first == np.arange(first.size))
    rows = np.concatenate([rows[filled[rows]], rows[~filled[rows]]])
    number = np.full(first.size + 1, -1, np.int64)
    number[rows] = np.arange(rows.size)
    return Classes(rows, number[first], int(np.count_nonzero(filled[rows])))


class CandidatePairs(NamedTuple):
    """Pairs of positions among the rows that are compared.

    blocks: the pairs, each once, iterable once. capped: buckets of which not all pairs are
    candidates. recall: expected share of the pairs within the limits that are candidates; None if
    buckets are stopped or capped, since how many pairs share only these depends on the texts.
    """

    blocks: Iterable[Block]
    capped: Capped = Capped()
    recall: float | None = 1.0


def candidates_of(
    plan: Plan, columns: Columns, compared: I64, limits: Limits, folder: Path
) -> CandidatePairs:
    """Return the candidates among some rows.

    columns: of all documents. compared: the rows, shape (m,). folder: for buckets, which are mapped
    from files.
    """
    sketch, values = plan.sketch, columns.values
    assert sketch is not None
    stop = stopped_buckets(plan.compared.stop, sketch)
    if sketch.measure.by_values:
        return _near_fingerprints(sketch, prints_of(values, compared), limits, stop)
    at, stopped = stop
    limits = replace(limits, swaps=0)
    most = max(1, plan.memory // _BYTES_A_ROW)
    # Bands are mapped from a file too: one at a time is in memory.
    found = [
        buckets.bucket_column(band[compared], stopped[at == position], most, folder)
        for position, band in enumerate(values)
    ]
    if sketch.varies:
        tokens = _tokens_of(columns, compared, plan.compared.scheme)
        column = buckets.bucket_column(tokens.hashes, stopped, most, folder)
        owners = np.repeat(np.arange(compared.size, dtype=np.uint32), tokens.counts)
        found = [buckets.Column(owners[column.rows], column.first)]
    capped = buckets.capped(found, limits.max_per_bucket)
    least = sketch.least(limits, len(values))
    recall = sketch.recall(limits, len(values), least)
    if stopped.size or capped.buckets:
        recall = None
    elif recall is None:
        recall = 1.0

    def blocks_of_bands() -> Iterator[Block]:
        pairs = max(1, plan.memory // _BYTES_A_PAIR)
        for rows in buckets.blocks_of_rows(found, compared.size, limits.max_per_bucket, pairs):
            left, right = buckets.earlier_pairs(found, rows, limits.max_per_bucket)
            if least > 1:
                enough = buckets.shared_bands(values, compared[left], compared[right]) >= least
                left, right = left[enough], right[enough]
            yield rows.stop, left, right

    return CandidatePairs(blocks_of_bands(), capped, recall)


def _tokens_of(columns: Columns, rows: I64, scheme: Scheme) -> Ragged:
    """Return the tokens of rows whose number varies, from their texts. scheme: of one sketch."""
    (own,) = scheme.sketches
    starts = range(0, max(1, rows.size), _TEXTS_AT_ONCE)
    texts = (columns.texts_of(rows[at : at + _TEXTS_AT_ONCE])() for at in starts)
    return Ragged.joined(
        [own.token_values(sketched(some, scheme).values[own.name]) for some in texts]
    )


def _near_fingerprints(
    sketch: Sketch, prints: U64, limits: Limits, stop: tuple[I64, U64]
) -> CandidatePairs:
    segments, cap = sketch.token_values(prints), limits.max_per_bucket
    at, stopped = stop
    columns = [
        buckets.bucket_column(segment, stopped[at == position])
        for position, segment in enumerate(segments.T)
    ]
    capped = buckets.capped(columns, cap)
    recall = None if stopped.size or capped.buckets else 1.0

    def blocks_of_segments() -> Iterator[Block]:
        found = [np.empty(0, np.int64)]
        for left, right in buckets.segment_pairs(segments, sketch.masks(limits), cap, stop):
            near = hamming(prints[left], prints[right]) <= sketch.max_distance(limits)
            found.append(right[near] << 32 | left[near])
        pairs = np.concatenate(found)
        pairs.sort()
        pairs = pairs[run_starts(pairs)]
        for rows in blocks(np.bincount(pairs >> 32, minlength=len(prints)), buckets.PAIRS_A_BLOCK):
            some = pairs[slice(*np.searchsorted(pairs, [rows.start << 32, rows.stop << 32]))]
            if some.size:
                yield rows.stop, some & 0xFFFFFFFF, some >> 32

    return CandidatePairs(blocks_of_segments(), capped, recall)


def prints_of(values: Unsigned, rows: I64) -> U64:
    """Return the fingerprints of some rows, shape (m, words). values: shape (words, n)."""
    return np.ascontiguousarray(values.T)[rows].astype(np.uint64, copy=False)
