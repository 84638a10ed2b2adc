"""Pairs of documents of two sets, from pairs of their classes of equal text.

The rows of `against` come first. A document is paired with the first one of each similar text of
the other set, so that each document with a similar one is in a pair, and the pairs do not grow with
the product of equal texts. Within a set, documents of equal text are one thing: each is paired with
the first of them, and only that one is paired with other texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from esdedup.compare.candidates import Block, Classes
from esdedup.text.arrays import I64, Mask, offsets_of, ranges


class RowPairs(NamedTuple):
    """Pairs of rows, and of what they come from.

    left: rows, shape (m,); of two sets those that are not of `against`.
    right: rows, shape (m,).
    origin: positions of the pairs of classes, shape (m,).
    """

    left: I64
    right: I64
    origin: I64


@dataclass(frozen=True)
class _Members:
    """The rows of a set, class after class.

    rows: ascending in each class.
    first: the position of the first row of each class, and of the end, shape (classes + 1,).
    """

    rows: I64
    first: I64

    @staticmethod
    def of(rows: I64, class_of: I64, classes: int) -> _Members:
        """Return rows, of which those without a class are left out. class_of: of all rows."""
        rows = rows[class_of[rows] >= 0]
        in_order = rows[np.argsort(class_of[rows], kind="stable")]
        return _Members(in_order, offsets_of(np.bincount(class_of[rows], minlength=classes)))

    @property
    def counts(self) -> I64:
        """The number of rows of each class."""
        return np.diff(self.first)

    @property
    def exist(self) -> Mask:
        """Mark the classes that have rows."""
        have_rows: Mask = self.counts > 0
        return have_rows

    def first_rows(self, classes: I64) -> I64:
        """Return the first row of each of some classes, which have rows."""
        return self.rows[self.first[classes]]


@dataclass(frozen=True)
class TwoSets:
    """The documents of a comparison, of which the first rows are those of `against`.

    classes: of equal texts.
    earlier: number of the first rows; 0 for one set.
    only_between: pairs of two sets are wanted, and none within one.
    """

    classes: Classes
    earlier: int
    only_between: bool

    @property
    def are_one(self) -> bool:
        """Whether there is one set, within which documents are compared."""
        return not self.earlier and not self.only_between

    @cached_property
    def _against(self) -> _Members:
        return self._members(np.arange(self.earlier))

    @cached_property
    def _later(self) -> _Members:
        return self._members(np.arange(self.earlier, self.classes.of.size))

    def _members(self, rows: I64) -> _Members:
        return _Members.of(rows, self.classes.of, self.classes.rows.size)

    def wanted(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the pairs of classes that have a pair of documents that is wanted."""
        in_against, in_later = self._against.exist, self._later.exist
        for rows_done, left, right in blocks:
            is_wanted = in_against[left] & in_later[right] | in_later[left] & in_against[right]
            if not self.only_between:
                is_wanted |= in_later[left] & in_later[right]
            yield rows_done, left[is_wanted], right[is_wanted]

    def within(self, left: I64, right: I64) -> RowPairs:
        """Return the first documents of pairs of similar classes, if both are in the later set."""
        origin = np.arange(0)
        if not self.only_between:
            origin = np.flatnonzero(self._later.exist[left] & self._later.exist[right])
        first_rows = self._later.first_rows
        return RowPairs(first_rows(left[origin]), first_rows(right[origin]), origin)

    def between(self, left: I64, right: I64) -> RowPairs:
        """Return the pairs of later documents in left classes, and of `against` in right ones."""
        origin = np.flatnonzero(self._later.exist[left] & self._against.exist[right])
        left, right = left[origin], right[origin]
        later, against = self._later, self._against
        # All later documents with the first one of `against`, and the first one with the rest.
        count_of_later, count_of_rest = later.counts[left], against.counts[right] - 1
        return RowPairs(
            np.concatenate(
                [
                    later.rows[ranges(later.first[left], count_of_later)],
                    np.repeat(later.first_rows(left), count_of_rest),
                ]
            ),
            np.concatenate(
                [
                    np.repeat(against.first_rows(right), count_of_later),
                    against.rows[ranges(against.first[right] + 1, count_of_rest)],
                ]
            ),
            np.concatenate([np.repeat(origin, count_of_later), np.repeat(origin, count_of_rest)]),
        )

    def copies(self) -> tuple[I64, I64]:
        """Return the pairs of equal texts: the first document, and another one."""
        every_class = np.arange(self.classes.rows.size)
        first, later = self._later.first[:-1], self._later.rows
        is_copy = np.ones(later.size, np.bool_)
        is_copy[first[self._later.exist]] = False
        if self.only_between:
            is_copy[:] = False
        copies = later[is_copy]
        of_two_sets = self.between(every_class, every_class)
        return (
            np.concatenate([self._later.first_rows(self.classes.of[copies]), of_two_sets.left]),
            np.concatenate([copies, of_two_sets.right]),
        )

    def positions(self, rows: I64) -> I64:
        """Return the positions of rows if those of `against` come last, as in the result."""
        later = self.classes.of.size - self.earlier
        return np.where(rows >= self.earlier, rows - self.earlier, rows + later)

    @property
    def order(self) -> I64:
        """The rows in the order of their positions."""
        rows = np.arange(self.classes.of.size)
        return np.concatenate([rows[self.earlier :], rows[: self.earlier]])

    def first_positions(self, classes: Classes) -> I64:
        """Return for each position the one of the first document of its text.

        classes: of equal texts, whatever their scopes.
        """
        if not self.earlier:
            return classes.firsts
        class_of = classes.of[self.order]
        positions = np.arange(class_of.size)
        has_class = class_of >= 0
        first = np.empty(classes.rows.size, np.int64)
        # The first position of a class is written last.
        first[class_of[has_class][::-1]] = positions[has_class][::-1]
        return np.where(has_class, first[class_of] if first.size else positions, positions)
