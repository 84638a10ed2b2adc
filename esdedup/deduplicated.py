"""What `esdedup.dedup` returns: records without and with those that duplicate others."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Generic, NamedTuple, TypeVar, overload

import numpy as np

from esdedup.arguments import check_type
from esdedup.cleaning.contained import Spans
from esdedup.cleaning.removals import MaskedTexts
from esdedup.compare.columns import Columns
from esdedup.compare.plan import Plan
from esdedup.compare.resources import Resources
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Groups, groups_among
from esdedup.records.merge import NO_MERGE, Merge
from esdedup.records_in_memory import InMemory, TakenValues
from esdedup.runs.run import Run
from esdedup.sketch.measures import Measure
from esdedup.tabular import TabularList
from esdedup.text.arrays import I64

_BINS = 10
_Table = TypeVar("_Table")


class Duplicate(NamedTuple):
    """A record that duplicates another, or contains it.

    row: its position, from 0.
    original: the position of the other.
    value: exact Jaccard similarity, Hamming distance, by passages the fraction of its words that
    the original holds, or the contained fraction of the original.
    measure: of the value.
    in_against: the original is a record of `against`.
    """

    row: int
    original: int
    value: float
    measure: Measure
    in_against: bool = False

    @property
    def similarity(self) -> float | None:
        """The similarity, or the fraction; None by Hamming distance."""
        return self.measure.similarity(self.value)

    @property
    def distance(self) -> int | None:
        """The Hamming distance; None for another measure."""
        return self.measure.distance(self.value)


class Duplicates(TabularList[Duplicate]):
    """The records that duplicate others, in their order."""

    columns: ClassVar[dict[str, str]] = {
        "row": "int64", "original": "int64", "in_against": "bool", "similarity": "double",
        "distance": "int64",
    }  # fmt: skip

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        for duplicate in self:
            yield (
                duplicate.row,
                duplicate.original,
                duplicate.in_against,
                duplicate.similarity,
                duplicate.distance,
            )


class ContainedItem(NamedTuple):
    """A record of `against` that a record contains.

    row: the position of the record that contains it, from 0.
    item: its position in `against`.
    fraction: of its words that the record has.
    start: the first character in the text of the record.
    end: the end in the text of the record.
    """

    row: int
    item: int
    fraction: float
    start: int
    end: int


class Containments(TabularList[ContainedItem]):
    """The records of `against` that records contain, by record. One may contain several.

    With `mask`, each place of an item that was cut is listed.
    """

    columns: ClassVar[dict[str, str]] = {
        "row": "int64", "item": "int64", "fraction": "double", "start": "int64", "end": "int64",
    }  # fmt: skip

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        return iter(self)


@dataclass(frozen=True, eq=False)
class Positions(Sequence[str]):
    """Positions of records as ids: "0" is a record, and "against:0" one of `against`.

    numbers: of the documents, those of `against` first, shape (n,).
    earlier: the number of records of `against`.
    """

    numbers: I64
    earlier: int

    def __len__(self) -> int:
        return self.numbers.size

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [*map(self._id, self.numbers[row].tolist())]
        return self._id(int(self.numbers[row]))

    def _id(self, number: int) -> str:
        return f"against:{number}" if number < self.earlier else str(number - self.earlier)


@dataclass(frozen=True)
class Compared:
    """How records were compared.

    plan: of the comparison.
    columns: the documents, to group them again; None if they contain others.
    spans: the items that they contain.
    masked: the documents that stay without items, and their texts.
    """

    plan: Plan
    columns: Columns | None = None
    spans: Spans = field(default_factory=lambda: Spans.of([]))
    masked: MaskedTexts = field(default_factory=MaskedTexts)


@dataclass(frozen=True, repr=False)
class Deduplicated(Generic[_Table]):
    """Records without and with those that duplicate others.

    records: as a list, a frame or a table.
    groups: of similar records; their ids are the positions of the records, from "0". Those of
    `against` are "against:0" and so on.
    """

    records: _Table
    groups: Groups
    _positions: Positions = field(repr=False)
    _compared: Compared = field(repr=False)
    _least: float | None = None
    _merge: Merge = NO_MERGE

    @cached_property
    def _duplicate_rows(self) -> I64:
        """The rows of the groups of the removed records, in the order of the records."""
        rows = self.groups.duplicate_rows
        numbers = self._positions.numbers[rows]
        is_removed = numbers >= self._positions.earlier
        is_removed &= ~np.isin(numbers, self._compared.masked.documents)
        rows = rows[is_removed]
        return rows[np.argsort(self._positions.numbers[rows])]

    @cached_property
    def _rows(self) -> I64:
        """The positions of the removed records, ascending."""
        return self._positions.numbers[self._duplicate_rows] - self._positions.earlier

    @property
    def _count(self) -> int:
        """The number of records."""
        return len(self._positions) - self._positions.earlier

    @cached_property
    def kept(self) -> _Table:
        """Return the records that stay, in their order, as a list, a frame or a table, as given.

        With `mask`, their texts are without the items that they contained. With `collect` and
        `fill`, they have values of their duplicates.
        """
        masked = self._compared.masked
        text_field = self._compared.plan.meta.text_fields[0]
        rows_of_masked = masked.documents - self._positions.earlier
        records = InMemory(self.records).with_texts(text_field, rows_of_masked, [*masked.texts])
        if self._merge:
            records = records.with_values(self._merge, self._new_values(records))
        table: _Table = records.picked(np.delete(np.arange(self._count), self._rows))
        return table

    def _new_values(self, records: InMemory) -> dict[int, TakenValues]:
        """Return the new values of records that stay and have duplicates, by position."""
        rows_of_duplicates: dict[int, list[int]] = {}
        for duplicate in self.duplicates:
            if not duplicate.in_against:
                rows_of_duplicates.setdefault(duplicate.original, []).append(duplicate.row)
        columns = {path: records.values_at(path) for path in self._merge.paths}

        def values(row: int) -> dict[str, object]:
            return self._merge.values_in({path: column[row] for path, column in columns.items()})

        new_values = dict[int, TakenValues]()
        for original, rows in rows_of_duplicates.items():
            new = self._merge.new_values(values(original), map(values, rows))
            filled_from = {
                path: next(row for row in rows if path in values(row))
                for path in self._merge.fill
                if path in new
            }
            new_values[original] = TakenValues(new, filled_from)
        return new_values

    @cached_property
    def removed(self) -> _Table:
        """Return the other records, likewise."""
        table: _Table = InMemory(self.records).picked(self._rows)
        return table

    @cached_property
    def duplicates(self) -> Duplicates:
        """Return the removed records with their originals, in the order of the records.

        It is a table too: `polars.DataFrame(result.duplicates)`, or `to_pandas()`. If a record
        contains several items, the original is the one that it contains most of.
        """
        groups, rows, earlier = self.groups, self._duplicate_rows, self._positions.earlier
        originals = self._positions.numbers[groups.representative[rows]]
        in_against = originals < earlier
        positions = np.where(in_against, originals, originals - earlier)
        columns = self._rows, positions, groups.value[rows], in_against
        listed = zip(*(column.tolist() for column in columns), strict=True)
        return Duplicates(
            Duplicate(row, original, value, groups.measure, is_in_against)
            for row, original, value, is_in_against in listed
        )

    @cached_property
    def contained(self) -> Containments:
        """Return the items that records contain, removed ones and masked ones; a table too."""
        spans, earlier = self._compared.spans, self._positions.earlier
        columns = spans.document - earlier, spans.item, spans.fraction, spans.start, spans.end
        listed = zip(*(column.tolist() for column in columns), strict=True)
        return Containments(ContainedItem(*values) for values in listed)

    def rethreshold(self, threshold: float) -> Deduplicated[_Table]:
        """Return the result of a higher threshold, without sketching the texts again.

        Raises UsageError for a lower one: its pairs were not looked for.
        """
        check_type("threshold", threshold, "float")
        grouping, plan, columns = self.groups.grouping, self._compared.plan, self._compared.columns
        if columns is None or grouping.exact or not self.groups.measure.by_threshold:
            raise UsageError("rethreshold requires a threshold of similarity")
        least = self._least or grouping.limits.least_similarity
        if threshold < least:
            compared = f"use at least {least}, at which the records were compared"
            raise UsageError(
                f"threshold {threshold}: {compared}; for a lower one, call dedup again"
            )
        higher = replace(grouping, limits=grouping.limits.at(threshold))
        with Run.temporary() as run:
            groups = groups_among(columns, plan.at(threshold), higher, Resources(run.folder))
        return replace(self, groups=groups, _least=least)

    def __repr__(self) -> str:
        removed, masked = self._rows.size, self._compared.masked.documents.size
        changed = f", {masked:,} masked" if masked else ""
        retained = self._count - removed
        return f"<Deduplicated: {retained:,} kept{changed}, {removed:,} removed of {self._count:,}>"

    def _repr_html_(self) -> str:
        """Return a table and a histogram of the similarities, for a notebook."""
        measure = self.groups.measure
        values = self.groups.value[self._duplicate_rows]
        counts, edges = np.histogram(values, _BINS, measure.bounds(values))
        width = 12 / max(1, counts.max())
        rows = "".join(
            f"<tr><td>{low:.2f} to {high:.2f}</td><td style='text-align:right'>{count:,}</td><td>"
            f"<div style='background:#4878a8;height:0.8em;width:{width * count:.1f}em'></div></td>"
            for count, low, high in zip(counts, edges, edges[1:], strict=False)
        )
        head = f"<tr><th>{measure.column} to the original</th><th>removed</th><th></th></tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{rows}</table>"
