"""Records by columns: consecutive ones of a file, all usable, without an object for each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple, overload


class Record(NamedTuple):
    """A record of an input.

    file: its path with forward slashes.
    line: number of the first line, or of an element of a JSON array, from 1.
    source: its fields.
    spare_id: the id if the record has none of its own, None for its place.
    json: the source as JSON in one line that every store accepts, or None.
    """

    file: str
    line: int
    source: Mapping[str, Any]
    spare_id: str | None = None
    json: str | None = None


@dataclass(frozen=True)
class BadRecord:
    """A record that can't be used.

    file: its path with forward slashes.
    line: as of a `Record`.
    raw: the record as read.
    reason: why it can't be used.
    source: its fields, if it can be read but has no form that every store accepts; of a repeated
        key the last value.
    """

    file: str
    line: int
    raw: str
    reason: str
    source: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class RowsOfColumns(Sequence[Mapping[str, object]]):
    """The rows of columns, each of which is an object only while it is read.

    columns: the values by name. There is at least one column.
    """

    columns: Mapping[str, Sequence[object]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @overload
    def __getitem__(self, row: int) -> Mapping[str, object]: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Mapping[str, object]]: ...
    def __getitem__(
        self, row: int | slice
    ) -> Mapping[str, object] | Sequence[Mapping[str, object]]:
        if isinstance(row, slice):
            return RowsOfColumns({name: values[row] for name, values in self.columns.items()})
        return {name: values[row] for name, values in self.columns.items()}

    def __iter__(self) -> Iterator[dict[str, object]]:
        for values in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, values, strict=True))


@dataclass(frozen=True)
class RecordColumns:
    """Consecutive records of a file.

    file: as of a `Record`.
    lines: the line of each, as of a `Record`.
    sources: their fields.
    json: of each, as of a `Record`; empty if it was not requested.
    """

    file: str
    lines: Sequence[int]
    sources: Sequence[Mapping[str, object]]
    json: Sequence[str] = ()

    def names(self) -> set[str]:
        """Return the names of all fields."""
        if isinstance(self.sources, RowsOfColumns):
            return {*self.sources.columns}
        return set[str]().union(*self.sources)

    def values(self, name: str) -> Sequence[object]:
        """Return the value of each record in a field, None if it is missing.

        name: of the field, also if it has dots.
        """
        if isinstance(self.sources, RowsOfColumns):
            return self.sources.columns.get(name) or [None] * len(self.sources)
        return [source.get(name) for source in self.sources]

    def records(self) -> Iterator[Record]:
        """Yield the records."""
        texts: Iterable[str | None] = self.json or repeat(None, len(self.lines))
        for line, source, json in zip(self.lines, self.sources, texts, strict=True):
            yield Record(self.file, line, source, None, json)


class ReadByColumns(ABC):
    """A part of a file, which can be read record by record, or by columns."""

    @abstractmethod
    def __call__(self) -> Iterable[Record | BadRecord]:
        """Return the records."""

    @abstractmethod
    def columns(self, *, with_json: bool) -> RecordColumns | None:
        """Return the same records by columns; None if one of them may be bad."""
