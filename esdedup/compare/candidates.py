"""Candidate pairs of documents, which `verify` compares exactly: those that share enough tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from esdedup.compare.columns import Columns
from esdedup.compare.plan import Plan
from esdedup.compare.resources import Resources
from esdedup.search import buckets
from esdedup.search.buckets import Capped
from esdedup.search.scopes import Scopes
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import NO_TEXT, digest_words
from esdedup.sketch.sketch import sketch as sketch_texts
from esdedup.stores.memory_mapped import mapped
from esdedup.stores.stop_list import stopped_buckets
from esdedup.text.arrays import I64, U32, U64, Mask, Ragged, Unsigned, blocks, run_starts

_TEXTS_AT_ONCE = 2_000
_NOTHING = np.empty(0, np.uint64)
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

    def in_files(self, folder: Path) -> Classes:
        """Return the same classes mapped from temporary files."""
        return self._replace(rows=mapped(folder, [self.rows]), of=mapped(folder, [self.of]))

    @property
    def compared(self) -> I64:
        """The first rows of the classes with tokens, ascending, shape (filled,)."""
        return self.rows[: self.filled]

    @property
    def firsts(self) -> I64:
        """The first row of each row's class, its own without a class: shape (n,)."""
        rows = np.arange(self.of.size)
        return np.where(self.of < 0, rows, self.rows[self.of]) if self.rows.size else rows


def classes_of(
    digests: U64,
    filled: Mask,
    kinds: Mapping[int, int] = MappingProxyType({}),
    scopes: Scopes | None = None,
    most: int = buckets.ROWS_A_PASS,
) -> Classes:
    """Return the classes of n rows.

    digests: of their texts, shape (n, 2). filled: False for texts without words, which are only
    equal to others, shape (n,). kinds: by row, numbers that separate rows of equal text. scopes:
    of the rows; those of a class have the same values and times. With times, texts without words
    are compared with those of other times, so that all classes count as filled. most: number of
    rows to sort at once.
    """
    if scopes is not None and scopes.lengths:
        filled = np.ones(len(digests), np.bool_)
    first, kind = np.empty(len(digests), np.int64), np.zeros(len(digests), np.uint32)
    kind[list(kinds)] = list(kinds.values())
    for rows_of_pass in buckets.passes(digests[:, 0], most):
        keys: list[NDArray[np.integer]] = [*digests[rows_of_pass].T, kind[rows_of_pass]]
        if scopes is not None:
            keys += [scopes.numbers[rows_of_pass], *scopes.instants[:, rows_of_pass]]
        # The sort is stable: the first row of a class stays its first.
        order = np.lexsort(keys)
        fresh = np.logical_or.reduce([run_starts(key[order]) for key in keys])
        rows = rows_of_pass[order]
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
    plan: Plan, columns: Columns, compared: I64, resources: Resources
) -> CandidatePairs:
    """Return the candidates among some rows.

    columns: of all documents. compared: the rows, shape (m,).
    """
    if columns.only_between and not columns.earlier:
        return CandidatePairs([])
    sketch = plan.sketch
    if sketch is None:
        candidates = _of_equal_texts(plan, columns, compared, resources)
    elif sketch.measure.by_values:
        candidates = _near_fingerprints(plan, columns, compared, resources)
    else:
        candidates = _sharing_bands(plan, columns, compared, resources)
    if columns.scopes is not None:
        scopes = columns.scopes.picked(compared)
        candidates = candidates._replace(blocks=_in_one_scope(candidates.blocks, scopes))
    if not columns.earlier:
        return candidates
    first_later = int(np.searchsorted(compared, columns.earlier))
    blocks = _with_later(candidates.blocks, first_later, columns.only_between)
    return candidates._replace(blocks=blocks)


def _with_later(blocks: Iterable[Block], first_later: int, only_between: bool) -> Iterator[Block]:
    """Yield the pairs whose right row is at least `first_later`.

    only_between: of these, the pairs whose left row is an earlier one.
    """
    for rows_done, left, right in blocks:
        is_chosen = right >= first_later
        if only_between:
            is_chosen &= left < first_later
        yield rows_done, left[is_chosen], right[is_chosen]


def _in_one_scope(blocks: Iterable[Block], scopes: Scopes) -> Iterator[Block]:
    """Yield the pairs that are in one scope. scopes: of the rows that are compared."""
    for rows_done, left, right in blocks:
        agree = scopes.agree(left, right)
        yield rows_done, left[agree], right[agree]


@dataclass(frozen=True)
class _Joining:
    """Makes buckets of rows that share a token and, if there are scopes, may be in one.

    scopes: the numbers of the rows, shape (rows, times_a_row) as of `Scopes.joining`; or None.
    rows_at_once: number of rows to sort at once.
    folder: where buckets are mapped from.
    """

    scopes: U64 | None
    rows_at_once: int
    folder: Path

    @staticmethod
    def of(columns: Columns, compared: I64, resources: Resources) -> _Joining:
        """Return what joins the rows that are compared, which are numbered from 0 here."""
        scopes = columns.scopes
        numbers = None if scopes is None else scopes.picked(compared).joining()
        return _Joining(numbers, max(1, resources.memory // _BYTES_A_ROW), resources.folder)

    def column(
        self, tokens: Unsigned, stopped: U64 = _NOTHING, rows: U32 | None = None
    ) -> buckets.Column:
        """Return the buckets of tokens, shape (n,).

        stopped: tokens without a bucket. rows: of the tokens, ascending, shape (n,); None if token
        i is of row i.
        """
        if self.scopes is not None:
            rows = np.arange(tokens.size, dtype=np.uint32) if rows is None else rows
            if stopped.size:
                is_kept = ~np.isin(tokens, stopped)
                tokens, rows, stopped = tokens[is_kept], rows[is_kept], _NOTHING
            # A document has a token for each number of its scope, one after the other.
            scopes = self.scopes[rows].astype(tokens.dtype)
            tokens = (tokens[:, None] ^ scopes).ravel()
            rows = np.repeat(rows, scopes.shape[1])
        column = buckets.bucket_column(tokens, stopped, self.rows_at_once, self.folder)
        if rows is None:
            return column
        return buckets.Column(mapped(self.folder, [rows[column.rows]]), column.first)


def _of_equal_texts(
    plan: Plan, columns: Columns, compared: I64, resources: Resources
) -> CandidatePairs:
    """Return the pairs of rows of equal text, which differ in their times."""
    if not columns.has_windows:
        return CandidatePairs([])
    cap, pairs_at_once = plan.limits.max_per_bucket, max(1, resources.memory // _BYTES_A_PAIR)
    joining = _Joining.of(columns, compared, resources)
    bucket_columns = [joining.column(columns.digests[compared, 0])]
    capped = buckets.capped(bucket_columns, cap)

    def blocks_of_texts() -> Iterator[Block]:
        for rows in buckets.blocks_of_rows(bucket_columns, compared.size, cap, pairs_at_once):
            yield rows.stop, *buckets.earlier_pairs(bucket_columns, rows, cap)

    return CandidatePairs(blocks_of_texts(), capped, None if capped.buckets else 1.0)


def _sharing_bands(
    plan: Plan, columns: Columns, compared: I64, resources: Resources
) -> CandidatePairs:
    """Return the pairs of rows that share enough bands, or tokens if their number varies."""
    sketch, values = plan.sketch, columns.values
    assert sketch is not None
    positions, stopped = stopped_buckets(plan.meta.stop, sketch)
    limits = replace(plan.limits, swaps=0)
    joining = _Joining.of(columns, compared, resources)
    if sketch.varies:
        tokens = _tokens_of(columns, compared, plan.scheme)
        row_of_token = np.repeat(np.arange(compared.size, dtype=np.uint32), tokens.counts)
        bucket_columns = [joining.column(tokens.hashes, stopped, row_of_token)]
    else:
        filled, rows_of_bands = compared, None
        if columns.has_windows:
            # Texts without words are compared, but have no bands.
            rows_of_bands = np.flatnonzero(columns.filled[compared]).astype(np.uint32)
            filled = compared[rows_of_bands]
        # Bands are mapped from a file too: one at a time is in memory.
        bucket_columns = [
            joining.column(band[filled], stopped[positions == position], rows_of_bands)
            for position, band in enumerate(values)
        ]
    bucket_columns += _wordless_columns(columns, compared, joining)
    capped = buckets.capped(bucket_columns, limits.max_per_bucket)
    least = sketch.least(limits, len(values))
    recall = sketch.recall(limits, len(values), least)
    pair_filter = sketch.pair_filter(limits, recall)
    if stopped.size or capped.buckets:
        recall = None
    elif recall is None:
        recall = 1.0
    elif pair_filter is not None:
        recall -= pair_filter.lost

    def blocks_of_bands() -> Iterator[Block]:
        cap, pairs_at_once = limits.max_per_bucket, max(1, resources.memory // _BYTES_A_PAIR)
        for rows in buckets.blocks_of_rows(bucket_columns, compared.size, cap, pairs_at_once):
            left, right = buckets.earlier_pairs(bucket_columns, rows, cap)
            if pair_filter is not None:
                is_candidate = pair_filter.keeps(values, compared[left], compared[right])
                left, right = _candidates_of(columns, compared, is_candidate, left, right)
            if least > 1:
                shared = buckets.shared_bands(values, compared[left], compared[right])
                left, right = _candidates_of(columns, compared, shared >= least, left, right)
            yield rows.stop, left, right

    return CandidatePairs(blocks_of_bands(), capped, recall)


def _candidates_of(
    columns: Columns, compared: I64, is_candidate: Mask, left: I64, right: I64
) -> tuple[I64, I64]:
    """Return the pairs that are candidates, or of equal texts without tokens."""
    if columns.has_windows:
        is_candidate = is_candidate | ~columns.filled[compared[left]]
    return left[is_candidate], right[is_candidate]


def _wordless_columns(columns: Columns, compared: I64, joining: _Joining) -> list[buckets.Column]:
    """Return the buckets of equal texts without words, if these are compared."""
    wordless = np.flatnonzero(~columns.filled[compared]).astype(np.uint32)
    if not wordless.size:
        return []
    return [joining.column(columns.digests[compared[wordless], 0], rows=wordless)]


def _tokens_of(columns: Columns, rows: I64, scheme: Scheme) -> Ragged:
    """Return the tokens of rows whose number varies, from their texts. scheme: of one sketch."""
    (sketch,) = scheme.sketches
    starts = range(0, max(1, rows.size), _TEXTS_AT_ONCE)
    pages = (columns.texts_of(rows[start : start + _TEXTS_AT_ONCE])() for start in starts)
    return Ragged.joined(
        [sketch.token_values(sketch_texts(texts, scheme).values[sketch.name]) for texts in pages]
    )


def _near_fingerprints(
    plan: Plan, columns: Columns, compared: I64, resources: Resources
) -> CandidatePairs:
    """Return the pairs of rows within the Hamming distance."""
    sketch, cap = plan.sketch, plan.limits.max_per_bucket
    assert sketch is not None
    prints = prints_of(columns.values, compared)
    segments, masks = sketch.token_values(prints), sketch.masks(plan.limits)
    stop = stopped_buckets(plan.meta.stop, sketch)
    positions, stopped = stop
    joining = _Joining.of(columns, compared, resources)
    bucket_columns = [
        joining.column(segment, stopped[positions == position])
        for position, segment in enumerate(segments.T)
    ]
    filled, wordless = columns.filled[compared], _wordless_columns(columns, compared, joining)
    bucket_columns += wordless
    scoped, times_a_row = _scoped_segments(segments, joining.scopes, sketch.bits)
    capped = buckets.capped(bucket_columns, cap)
    recall = None if stopped.size or capped.buckets else 1.0

    def near_pairs() -> Iterator[I64]:
        """Yield pairs as numbers, whose high bits are the right row."""
        for left, right in buckets.segment_pairs(scoped, masks, cap, stop, bits=sketch.bits):
            left, right = left // times_a_row, right // times_a_row
            is_near = plan.comparison.nearness(prints, left, right)[-1] >= plan.least
            # Texts without words are compared with windows, and have no fingerprint.
            is_near &= filled[left] & filled[right]
            yield right[is_near] << 32 | left[is_near]
        if wordless:
            left, right = buckets.earlier_pairs(wordless, range(compared.size), cap)
            yield right << 32 | left

    def blocks_of_segments() -> Iterator[Block]:
        pairs = np.concatenate([np.empty(0, np.int64), *near_pairs()])
        pairs.sort()
        pairs = pairs[run_starts(pairs)]
        pairs_of_row = np.bincount(pairs >> 32, minlength=len(prints))
        for rows in blocks(pairs_of_row, buckets.PAIRS_A_BLOCK):
            bounds = np.searchsorted(pairs, [rows.start << 32, rows.stop << 32])
            pairs_of_block = pairs[slice(*bounds)]
            if pairs_of_block.size:
                yield rows.stop, pairs_of_block & 0xFFFFFFFF, pairs_of_block >> 32

    return CandidatePairs(blocks_of_segments(), capped, recall)


def _scoped_segments(segments: U64, scopes: U64 | None, bits: int) -> tuple[U64, int]:
    """Return segments with the numbers of scopes in their high bits, and their rows per document.

    scopes: as of `_Joining`. bits: of a segment, to which masks apply.
    """
    if scopes is None:
        return segments, 1
    distinct, numbers = np.unique(scopes, return_inverse=True)
    if bits + distinct.size.bit_length() > 64:
        # Segments of nearly 64 bits have few equal ones in other scopes.
        return segments, 1
    high = numbers.reshape(scopes.shape).astype(np.uint64) << np.uint64(bits)
    rows, times_a_row = scopes.shape
    scoped = segments[:, None, :] | high[:, :, None]
    return scoped.reshape(rows * times_a_row, segments.shape[1]), times_a_row


def prints_of(values: Unsigned, rows: I64) -> U64:
    """Return the fingerprints of some rows, shape (m, words). values: shape (words, n)."""
    return np.ascontiguousarray(values.T)[rows].astype(np.uint64, copy=False)
