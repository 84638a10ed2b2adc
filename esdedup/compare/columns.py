"""Documents as rows in their order of precedence, of which all is in arrays."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.compare.keep_rule import Unordered, before_others
from esdedup.compare.plan import Plan
from esdedup.runs.shares import Part, Shares, StoredTexts, TextsOf
from esdedup.stores.memory_mapped import mapped, mapped_zeros
from esdedup.text.arrays import I64, U64, Mask, offsets_of
from esdedup.text.strings import Numbers, Strings, natural_order


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
    """

    ids: Sequence[str]
    digests: U64
    filled: Mask
    values: NDArray[Any]
    texts_of: TextsOf
    unordered: Unordered = Unordered()  # noqa: RUF009
    unreadable: int = 0

    @staticmethod
    def of(part: Part, texts: Sequence[str]) -> Columns:
        """Return the documents of one part, in its order. texts: of all of them."""

        def texts_of(rows: I64) -> Callable[[], list[str]]:
            return lambda: [texts[row] for row in rows.tolist()]

        return Columns(part.ids, part.digests, part.filled, part.values.T, texts_of)


def columns_of(shares: Shares, plan: Plan) -> Columns:
    """Return the columns of all shares; of several documents of one id the last one stays.

    Numbered documents all stay. The columns are mapped from temporary files. Raises UsageError if
    the keep rule names a field that no document has.
    """
    folder, stored = shares.run.folder, shares.all()
    keys = Strings.joined([share.strings("keys", "key_offsets") for share in stored])
    ends = offsets_of(np.array([share.arrays("filled")["filled"].size for share in stored]))
    unordered = plan.keep.unordered(keys, shares.ids_of)
    ids: Sequence[str]
    if plan.numbered:
        order = plan.keep.order(np.arange(ends[-1]), keys)
        is_earlier = order < plan.earlier
        order = mapped(folder, [order[is_earlier], order[~is_earlier]])
        ids = Numbers(order)
    else:
        all_ids = Strings.joined([share.ids() for share in stored])
        by_id, first = natural_order(all_ids)
        last = np.append(first[1:], True)[: first.size]
        order = plan.keep.order(by_id[last], keys)
        order = before_others(order, all_ids, plan.first)
        ids = all_ids.picked(order)
    offsets = mapped(folder, (share.arrays("text_offsets")["text_offsets"] for share in stored))
    texts = StoredTexts(shares, order, ends, offsets)
    columns = Columns(ids, *_ordered(shares, order, ends, plan), texts)
    return replace(columns, unordered=unordered)


def _ordered(shares: Shares, order: I64, ends: I64, plan: Plan) -> tuple[U64, Mask, NDArray[Any]]:
    """Return the digests, `filled` and values of rows in an order. ends: of all shares.

    Rows are in several ranges, so that one fits into memory where a file is written at random.
    """
    folder, count = shares.run.folder, order.size
    digests: U64 = mapped_zeros(folder, (count, 2), np.uint64)
    filled = np.empty(count, np.bool_)
    values = mapped_zeros(folder, (plan.width, count), plan.dtype)
    row_of = np.full(ends[-1], -1, np.int64)
    row_of[order] = np.arange(count)
    rows_at_once = max(1, plan.memory // (32 + 2 * values.itemsize * plan.width))
    for low in range(0, count, rows_at_once):
        for share, (start, end) in zip(shares.all(), itertools.pairwise(ends), strict=True):
            rows = row_of[start:end]
            in_range = (rows >= low) & (rows < low + rows_at_once)
            if in_range.any():
                arrays = share.arrays("digests", "filled", "values")
                rows = rows[in_range]
                digests[rows] = arrays["digests"][in_range]
                filled[rows] = arrays["filled"][in_range]
                values[:, rows] = arrays["values"][:, in_range]
    return digests, filled, values
