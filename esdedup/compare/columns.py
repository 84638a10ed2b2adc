"""Documents as rows in their order of precedence, of which all is in arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.compare.keep_rule import Unordered, before_others
from esdedup.compare.labels import require_labels
from esdedup.compare.plan import Plan
from esdedup.compare.resources import DEFAULT_MEMORY
from esdedup.runs.places import LastOfEachId
from esdedup.runs.shares import Part, Shares, StoredTexts, TextsOf
from esdedup.search.scopes import Scopes
from esdedup.sketch.measures import COSINE
from esdedup.sketch.sketch import NO_TEXT, digest_words
from esdedup.stores.memory_mapped import mapped, mapped_zeros
from esdedup.text.arrays import I64, U64, Mask, offsets_of
from esdedup.text.strings import Numbers, Strings


@dataclass(frozen=True)
class Columns:
    """Documents as rows, in their order of precedence.

    ids: of n documents.
    digests: of their texts, shape (n, 2).
    filled: True for a document with tokens, shape (n,).
    values: as of a part, but one value of all documents after another: shape (width, n).
    texts_of: returns the texts of rows.
    unordered: documents that the keep rule can't compare.
    unreadable: number of documents that were left out, as their digest or tokens can't be read.
    earlier: number of the first rows, which are not compared with each other.
    only_between: the other rows are compared with the first ones only.
    scopes: of the documents; None if all are in one. scope_words: what these were made of, as
        `scope_words` returns it, shape (n, words).
    labels: of the documents, as `labels_of` returns them; None if the plan has no fields of these.
    judged: digests of the texts that judgements are of, zeros without one, shape (n, 2); None if
        these are the compared ones.
    """

    ids: Sequence[str]
    digests: U64
    filled: Mask
    values: NDArray[Any]
    texts_of: TextsOf
    unordered: Unordered = Unordered()  # noqa: RUF009
    unreadable: int = 0
    earlier: int = 0
    scopes: Scopes | None = None
    scope_words: U64 | None = None
    only_between: bool = False
    labels: Strings | None = None
    judged: U64 | None = None

    @staticmethod
    def of(part: Part, texts: Sequence[str], plan: Plan) -> Columns:
        """Return the documents of one part, in its order. texts: of all of them."""

        def texts_of(rows: I64) -> Callable[[], list[str]]:
            return lambda: [texts[row] for row in rows.tolist()]

        scopes = None if part.scopes is None else Scopes.of(plan.within, part.scopes)
        return Columns(
            part.ids,
            part.digests,
            part.filled,
            part.values.T,
            texts_of,
            scopes=scopes,
            scope_words=part.scopes,
        )

    @property
    def has_windows(self) -> bool:
        """Whether documents of equal text can be too far from each other in time."""
        return self.scopes is not None and bool(self.scopes.lengths)

    @property
    def unscoped(self) -> int:
        """The number of documents without a scope."""
        return 0 if self.scopes is None else self.scopes.missing

    def blank(self, plan: Plan) -> int:
        """Return the number of documents with a blank fingerprint, which is not compared."""
        sketch = plan.sketch or plan.meta.scheme.sketches[0]
        # No vector is blank: a text that is empty is a vector that is missing.
        if not sketch.reads_values or sketch.measure == COSINE:
            return 0
        return int(np.count_nonzero((self.digests == digest_words([NO_TEXT])).all(axis=1)))


def _last_of_two_sets(ids: Strings, earlier: int) -> I64:
    """Return the row of the last document of each id of two sets, in the natural order of ids.

    earlier: number of the first documents, which are one of the sets.
    """
    sets = np.split(np.arange(len(ids)), [earlier])
    return np.concatenate([rows[LastOfEachId.of(ids.picked(rows)).rows] for rows in sets])


def columns_of_part(
    part: Part,
    texts: Sequence[str],
    plan: Plan,
    *,
    is_numbered: bool = False,
    earlier: int = 0,
) -> Columns:
    """Return the documents of one part by precedence; of several of one id the last one stays.

    texts: of all of them. is_numbered: their ids are their numbers, from 0, and all of them stay.
    earlier: as of `columns_by_number`; ids are those of two sets. Raises UsageError as
    `columns_by_id` does.
    """

    def ids_of(rows: I64) -> Sequence[str]:
        return Numbers(rows) if is_numbered else part.ids.picked(rows)

    def texts_of(rows: I64) -> Callable[[], list[str]]:
        return lambda: [texts[row] for row in order[rows].tolist()]

    # Only those of the second set have a field of the keep rule.
    unordered = plan.keep.unordered(
        part.keys, lambda rows: ids_of(rows - earlier if is_numbered else rows)
    )
    every_row = np.arange(part.filled.size)
    rows = every_row if is_numbered else _last_of_two_sets(part.ids, earlier)
    order = plan.keep.order(rows, part.keys)
    is_earlier = order < earlier
    order = np.concatenate([order[is_earlier], order[~is_earlier]])
    scope_words = None if part.scopes is None else part.scopes[order]
    return Columns(
        ids_of(order),
        part.digests[order],
        part.filled[order],
        part.values[order].T,
        texts_of,
        unordered,
        earlier=int(np.count_nonzero(is_earlier)),
        scopes=None if scope_words is None else Scopes.of_all(plan.within, scope_words),
        scope_words=scope_words,
        labels=None if part.labels is None else _ordered(plan, [part.labels], order),
    )


def _ordered(plan: Plan, labels: Sequence[Strings], order: I64) -> Strings:
    """Return labels in an order. Raises UsageError if no document has one."""
    return require_labels(plan.label_fields, Strings.joined(labels)).picked(order)


def columns_by_id(
    shares: Shares,
    plan: Plan,
    first: Sequence[str] = (),
    memory: int = DEFAULT_MEMORY,
    *,
    present: Set[str] | None = None,
    earlier: int = 0,
) -> Columns:
    """Return the documents of all shares; of several of one id in one place the last one stays.

    first: ids that precede all others. present: the places whose documents are compared; None for
    all. earlier: number of the first documents, which are another set, in other places. memory: as
    in `Resources`. The columns are mapped from temporary files. Raises UsageError if the keep rule
    names a field that no document has, or times of two kinds.
    """
    ids = Strings.joined([share.ids() for share in shares.all()])
    keys = _keys(shares)
    unordered = plan.keep.unordered(keys, shares.ids_of)
    last = LastOfEachId.of(ids, shares.places(), present)
    order = plan.keep.order(last.rows, keys)
    order = before_others(order, last.ids, first)
    is_earlier = order < earlier
    if earlier:
        order = np.concatenate([order[is_earlier], order[~is_earlier]])
    columns = _in_order(shares, plan, order, last.ids.picked(order), _ends(shares), memory)
    return replace(columns, unordered=unordered, earlier=int(np.count_nonzero(is_earlier)))


def columns_by_number(
    shares: Shares, plan: Plan, earlier: int = 0, memory: int = DEFAULT_MEMORY
) -> Columns:
    """Return all documents of all shares, whose ids are their numbers, from 0.

    earlier: number of the first documents that precede all others, and are not compared with each
    other. memory, and what is raised: as of `columns_by_id`.
    """
    keys = _keys(shares)
    unordered = plan.keep.unordered(keys, shares.ids_of)
    ends = _ends(shares)
    order = plan.keep.order(np.arange(ends[-1]), keys)
    is_earlier = order < earlier
    order = mapped(shares.run.folder, [order[is_earlier], order[~is_earlier]])
    columns = _in_order(shares, plan, order, Numbers(order), ends, memory)
    return replace(columns, unordered=unordered, earlier=earlier)


def texts_by_number(shares: Shares) -> StoredTexts:
    """Return the texts of all documents of all shares by their numbers, from 0."""
    ends = _ends(shares)
    return StoredTexts(shares, np.arange(ends[-1]), ends, _text_offsets(shares))


def _text_offsets(shares: Shares) -> I64:
    """Return where the texts of documents start and end, as of `StoredTexts`."""
    offsets = (share.arrays("text_offsets")["text_offsets"] for share in shares.all())
    return mapped(shares.run.folder, offsets)


def _keys(shares: Shares) -> Strings:
    """Return the keys of the keep rule of all documents."""
    return Strings.joined([share.strings("keys", "key_offsets") for share in shares.all()])


def _ends(shares: Shares) -> I64:
    """Return the number of documents before each share, and of all: shape (shares + 1,)."""
    sizes = [share.arrays("filled")["filled"].size for share in shares.all()]
    return offsets_of(np.array(sizes, np.int64))


def _in_order(
    shares: Shares, plan: Plan, order: I64, ids: Sequence[str], ends: I64, memory: int
) -> Columns:
    """Return the columns of documents in an order. ends: of all shares.

    Rows are in several ranges, so that one fits into memory where a file is written at random.
    Raises UsageError if the plan has a scope, and no document is in one.
    """
    folder, stored, count = shares.run.folder, shares.all(), order.size
    digests: U64 = mapped_zeros(folder, (count, 2), np.uint64)
    filled = np.empty(count, np.bool_)
    values = mapped_zeros(folder, (plan.width, count), plan.dtype)
    row_of = np.full(ends[-1], -1, np.int64)
    row_of[order] = np.arange(count)
    rows_at_once = max(1, memory // (32 + 2 * values.itemsize * plan.width))
    for low in range(0, count, rows_at_once):
        for share, (start, end) in zip(stored, itertools.pairwise(ends), strict=True):
            rows = row_of[start:end]
            in_range = (rows >= low) & (rows < low + rows_at_once)
            if in_range.any():
                arrays = share.arrays("digests", "filled", "values")
                rows = rows[in_range]
                digests[rows] = arrays["digests"][in_range]
                filled[rows] = arrays["filled"][in_range]
                values[:, rows] = arrays["values"][:, in_range]
    scopes = scope_words = None
    if plan.within:
        words = np.concatenate([share.scopes() for share in stored])
        scope_words = mapped(folder, [words[order]])
        scopes = Scopes.of_all(plan.within, scope_words)
    labels = None
    if plan.label_fields:
        labels = _ordered(plan, [share.labels() for share in stored], order)
    judged = None
    if plan.judged:
        judged = mapped(folder, [np.concatenate([share.judged() for share in stored])[order]])
    texts_of = StoredTexts(shares, order, ends, _text_offsets(shares))
    return Columns(
        ids,
        digests,
        filled,
        values,
        texts_of,
        scopes=scopes,
        scope_words=scope_words,
        labels=labels,
        judged=judged,
    )
