"""Ids that several places have: the indices behind a name, or files.

Where only one place has an id, the id identifies the document. Where several have it, the id of
each of these documents begins with the name of its place: "offers-000001/1".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from esdedup.models import id_with_place, natural
from esdedup.text.arrays import I64, Mask
from esdedup.text.strings import Strings, natural_order

UNIQUE = -1
"""The place of a document whose id no other place has."""


@dataclass(frozen=True, eq=False)
class PlacesOfDocuments:
    """The places of documents.

    names: of the places, in natural order.
    numbers: of the place of each of n documents in `names`, shape (n,).
    """

    names: tuple[str, ...]
    numbers: NDArray[np.int32]

    @staticmethod
    def of(names: Iterable[str]) -> PlacesOfDocuments:
        """Return the places of documents by their names, one of each document."""
        number_of: dict[str, int] = {}
        numbers = [number_of.setdefault(name, len(number_of)) for name in names]
        return _in_natural_order([*number_of], np.array(numbers, np.int32))

    @staticmethod
    def joined(arrays: Sequence[PlacesOfDocuments]) -> PlacesOfDocuments:
        """Return the places of the documents of arrays, one after another."""
        names = [*dict.fromkeys(name for places in arrays for name in places.names)]
        number_of = {name: number for number, name in enumerate(names)}
        numbers = [np.empty(0, np.int32)]
        for places in arrays:
            renumbered = np.array([number_of[name] for name in places.names], np.int32)
            numbers.append(renumbered[places.numbers])
        return _in_natural_order(names, np.concatenate(numbers))

    def picked(self, rows: I64) -> PlacesOfDocuments:
        """Return the places of some documents."""
        return PlacesOfDocuments(self.names, self.numbers[rows])


def _in_natural_order(names: list[str], numbers: NDArray[np.int32]) -> PlacesOfDocuments:
    """Return places by their names in any order."""
    order = sorted(range(len(names)), key=lambda number: natural(names[number]))
    rank = np.empty(len(names), np.int32)
    rank[order] = np.arange(len(names))
    return PlacesOfDocuments(tuple(names[number] for number in order), rank[numbers])


@dataclass(frozen=True, eq=False)
class PlacedIds(Sequence[str]):
    """Ids of documents, which begin with the name of the place if several places have the id.

    plain: the ids without places.
    numbers: of the places in `names`, or `UNIQUE`, shape (n,).
    names: of the places.
    """

    plain: Strings
    numbers: NDArray[np.int32]
    names: tuple[str, ...]

    @property
    def repeated(self) -> int:
        """The number of documents whose id another place has too."""
        return int(np.count_nonzero(self.numbers != UNIQUE))

    def picked(self, rows: I64) -> PlacedIds:
        """Return the ids of some rows, in their order."""
        return PlacedIds(self.plain.picked(rows), self.numbers[rows], self.names)

    def place(self, row: int) -> str | None:
        """Return the place that the id of a row begins with, if it does."""
        number = int(self.numbers[row])
        return None if number == UNIQUE else self.names[number]

    def __len__(self) -> int:
        return len(self.plain)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[index] for index in range(*row.indices(len(self)))]
        return self._id(self.plain[row], int(self.numbers[row]))

    def __iter__(self) -> Iterator[str]:
        for id, number in zip(self.plain, self.numbers.tolist(), strict=True):
            yield self._id(id, number)

    def _id(self, id: str, number: int) -> str:
        return id if number == UNIQUE else id_with_place(self.names[number], id)


def place_in(ids: Sequence[str], row: int) -> str | None:
    """Return the place that the id of a row begins with; None if only one place has the id."""
    return ids.place(row) if isinstance(ids, PlacedIds) else None


def repeated_in(ids: Sequence[str]) -> int:
    """Return the number of documents whose id another place has too."""
    return ids.repeated if isinstance(ids, PlacedIds) else 0


@dataclass(frozen=True, eq=False)
class LastOfEachId:
    """The last document of each id in each place.

    rows: of the documents, in the natural order of ids and then of places.
    ids: of all documents that were read, by row, which name the places of those that repeat.
    """

    rows: I64
    ids: Strings | PlacedIds

    @staticmethod
    def of(
        ids: Strings, places: PlacesOfDocuments | None = None, present: Set[str] | None = None
    ) -> LastOfEachId:
        """Return the rows to compare.

        places: of the documents; None if all are in one. present: the names of the places whose
        documents are compared; None for all.
        """
        if places is not None and present is not None and {*places.names} - present:
            is_present = np.array([name in present for name in places.names], np.bool_)
            rows = np.flatnonzero(is_present[places.numbers])
            return LastOfEachId.of(ids.picked(rows), places.picked(rows))._among(ids, rows)
        by_id, is_first = natural_order(ids)
        if places is None or len(places.names) < 2:
            return LastOfEachId(by_id[_ends_of_runs(is_first)], ids)
        # Both are in the order of ids.
        number_of_id, number_of_place = np.cumsum(is_first) - 1, places.numbers[by_id]
        order = np.lexsort((number_of_place, number_of_id))
        by_id, number_of_place = by_id[order], number_of_place[order]
        # The ids were in order before, so that only places have moved.
        is_other_place = np.append(True, number_of_place[1:] != number_of_place[:-1])
        starts = is_first | is_other_place[: by_id.size]
        places_of_id = np.bincount(number_of_id[starts])
        is_repeated = (places_of_id > 1)[number_of_id]
        rows = by_id[_ends_of_runs(starts)]
        if not is_repeated.any():
            return LastOfEachId(rows, ids)
        numbers = np.full(by_id.size, UNIQUE, np.int32)
        numbers[by_id[is_repeated]] = number_of_place[is_repeated]
        return LastOfEachId(rows, PlacedIds(ids, numbers, places.names))

    def _among(self, ids: Strings, rows: I64) -> LastOfEachId:
        """Return the same of more documents. ids: of these. rows: that were looked at."""
        if not isinstance(self.ids, PlacedIds):
            return LastOfEachId(rows[self.rows], ids)
        numbers = np.full(len(ids), UNIQUE, np.int32)
        numbers[rows] = self.ids.numbers
        return LastOfEachId(rows[self.rows], PlacedIds(ids, numbers, self.ids.names))


def _ends_of_runs(starts: Mask) -> Mask:
    """Return True for the last of each run. starts: True for the first of each run, shape (n,)."""
    return np.append(starts[1:], True)[: starts.size]
