"""Read records that a program has in memory, and pick rows: of lists, frames, tables, datasets."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from esdedup.arguments import check_list
from esdedup.compare.plan import Plan
from esdedup.compare.source import Beside, Records
from esdedup.exceptions import RecordError, UsageError
from esdedup.models import Document
from esdedup.records.columnar import NO_JSON
from esdedup.records.documents import id_at
from esdedup.records.frame_columns import (
    Column,
    column_of,
    exact_values,
    fault_of_lists,
    given_values,
    has_fixed_length,
    read_values,
    rows_of_table,
    taken,
    unreadable_row,
    with_texts,
)
from esdedup.records.merge import Merge, fields_of
from esdedup.records.record_columns import RowsOfColumns
from esdedup.search.scopes import scope_paths
from esdedup.sketch.kinds.base import ValueField
from esdedup.stores.changes import merged
from esdedup.stores.fields import has_field, only, quoted, text_of, value_at
from esdedup.stores.plain_values import in_memory, is_nan
from esdedup.tabular import ArrowStream, Frame, require_pyarrow
from esdedup.text.arrays import I64

AnyRecords = Iterable[str | Mapping[str, object]] | Frame | ArrowStream
"""Texts, mappings, a frame, a table, or a stream of Arrow's."""
_ATTRIBUTES_IN_MEMORY = "iloc", "lazy", "take", "to_list", "tolist"
"""Attributes of frames and columns, which are in memory; other objects with Arrow's C stream are
read once, batch by batch."""
_ROWS_AT_ONCE = 10_000
_AS_IT_IS = {NoneType, str, int, bool}
"""Types of values that need no look."""
_AS_IT_COMES = NoneType, str, int, bytes, list, tuple, np.ndarray
"""Types of values that are vectors or fingerprints, or say why they are none."""


@dataclass(frozen=True)
class Argument:
    """An argument of a call that has records.

    name: in messages.
    id: the field of the ids; None for positions.
    with_keep_field: the field of the keep rule is read.
    """

    name: str = "records"
    id: str | None = None
    with_keep_field: bool = True

    @property
    def record(self) -> str:
        """A record, in messages."""
        return "record" if self.name == "records" else f"record of {self.name}"

    @property
    def prefix(self) -> str:
        """The beginning of a message about columns."""
        return "" if self.name == "records" else f"{self.name}: "


@dataclass(frozen=True)
class TakenValues:
    """New values of a record, by field.

    values: of all fields that change.
    filled_from: of those that were filled, the row of the record that has the value.
    """

    values: Mapping[str, object]
    filled_from: Mapping[str, int]


@dataclass(frozen=True)
class InMemory:
    """Records that are in memory.

    records: a list of them, a column of texts, a frame, a table, or a Dataset of `datasets`.
    """

    records: Any

    @property
    def column_names(self) -> list[Hashable] | None:
        """The names of the columns, which may be of any type; None of a list, or a column."""
        records = self.records
        of_frame = hasattr(records, "iloc") or not hasattr(records, "column_names")
        names = getattr(records, "columns" if of_frame else "column_names", None)
        return None if names is None else [*names]

    def column_named(self, name: str, prefix: str = "") -> Hashable | None:
        """Return the name of a column, which may be of any type; None if there is none.

        prefix: of messages. Raises UsageError if two columns have this name.
        """
        names = [column for column in self.column_names or [] if str(column) == name]
        if len(names) > 1:
            raise UsageError(f"{prefix}two columns have the name {name!r}")
        return names[0] if names else None

    def column(self, name: Hashable) -> Column:
        """Return a column of the frame's library, of a Dataset one of Arrow, as it is stored."""
        records = self.records
        if not hasattr(records, "features"):
            return records[name]
        return records.select_columns([name]).with_format("arrow")[:][name]

    def compared_column(self, name: Hashable) -> Column:
        """Return a column as it is compared: of a Dataset, as its transform changes it."""
        return self.records[name] if self._has_transform else self.column(name)

    @property
    def _has_transform(self) -> bool:
        records = self.records
        return hasattr(records, "features") and records.format["type"] == "custom"

    def picked(self, rows: I64) -> Any:
        """Return some records as a list, a frame or a table, as given."""
        records = self.records
        if isinstance(records, list):
            return [records[row] for row in rows.tolist()]
        if hasattr(records, "iloc"):
            return records.iloc[rows]
        if hasattr(records, "features"):
            return records.select(rows)
        return rows_of_table(records, rows) if hasattr(records, "take") else records[rows.tolist()]

    def with_texts(self, text_field: str, rows: I64, texts: Sequence[str]) -> InMemory:
        """Return the records with other texts of some rows, after `check_mask`.

        Raises RecordError for a record whose field is no text.
        """
        changes = dict(zip(rows.tolist(), texts, strict=True))
        if not changes:
            return self
        names = self.column_names
        if names is None:
            return InMemory(
                [
                    _with_text(record, text_field, row, changes[row]) if row in changes else record
                    for row, record in enumerate(self.records)
                ]
            )
        name = self.column_named(text_field)
        column = self.column(name)
        values = given_values(column)
        for row in changes:
            _check_text(values[row], text_field, row)
        return self._with_column(name, with_texts(column, changes))

    def check_mask(self, text_field: str) -> None:
        """Raise UsageError for texts that can't be changed: nested ones, and those of a transform.

        Cuts are places in the text that is compared.
        """
        if self.column_names is None:
            return
        name = self.column_named(text_field)
        if name is None:
            raise UsageError(
                f"`mask` requires a column of texts, not the nested field {text_field!r}"
            )
        if self._has_transform and (
            read_values(self.compared_column(name)) != read_values(self.column(name))
        ):
            raise UsageError(
                f"`mask` requires texts as they are stored, and the transform of the Dataset"
                f" changes {text_field!r}: pass records.with_format(None), or the result of map()"
            )

    def check_merge(self, merge: Merge) -> None:
        """Raise UsageError for a field whose values can't be merged.

        Records that are texts have no fields, and of some columns no lists can be made.
        """
        names = self.column_names
        for path in merge.paths:
            setting = "collect" if path in merge.collect else "fill"
            if names is not None and self.column_named(path) is None:
                listed = ", ".join(map(str, names))
                raise UsageError(f"`{setting}`: there is no column {path!r}. There are: {listed}")
            is_text = names is None and any(isinstance(record, str) for record in self.records)
            if is_text or (names is None and not isinstance(self.records, list)):
                raise UsageError(f"`{setting}` requires records with fields, not texts")
        for path in merge.collect if names is not None else ():
            if fault := fault_of_lists(self.column(self.column_named(path))):
                raise UsageError(f"`collect`: the column {path!r} has {fault}, which no list holds")

    def values_at(self, path: str) -> list[object]:
        """Return the values of a field as `exact_values`, None for missing ones."""
        if self.column_names is None:
            return [value_at(record, path) for record in self.records]
        return exact_values(self.column(self.column_named(path)))

    def with_values(self, merge: Merge, new_values: Mapping[int, TakenValues]) -> InMemory:
        """Return the records with new values of fields; collected fields become lists.

        new_values: by the row of a record. Raises RecordError for a nested field in what is no
        object.
        """
        if self.column_names is None:
            none = TakenValues({}, {})
            return InMemory(
                [
                    _with_values(record, merge, row, new_values.get(row, none).values)
                    for row, record in enumerate(self.records)
                ]
            )
        records = self
        for path in merge.fill:
            rows = np.arange(len(self.records))
            for row, new in new_values.items():
                rows[row] = new.filled_from.get(path, row)
            name = self.column_named(path)
            column = self.column(name)
            filled = taken(column, rows)
            if hasattr(filled, "iloc"):
                filled = filled.set_axis(column.index)
            records = records._with_column(name, filled)
        for path in merge.collect:
            name, values = self.column_named(path), self.values_at(path)
            column = self.column(name)
            becomes_list = any(map(_is_single, values))
            if becomes_list:
                # NaN is a missing value, of which no list is made.
                values = [None if is_nan(value) else value for value in values]
                values = [[value] if _is_single(value) else value for value in values]
            for row, new in new_values.items():
                values[row] = new.values.get(path, values[row])
            changes_type = becomes_list or has_fixed_length(column)
            column = column_of(column, values, becomes_list=becomes_list)
            records = records._with_column(name, column, changes_type=changes_type)
        return records

    def _with_column(
        self, name: Hashable, column: Column, *, changes_type: bool = False
    ) -> InMemory:
        """Return a frame or a table with another column in place of one.

        changes_type: it is of another type than the former one.
        """
        records = self.records
        if hasattr(records, "iloc"):
            frame = records.copy(deep=False)
            frame[name] = column
            return InMemory(frame)
        if hasattr(records, "features"):
            names = records.column_names
            # Without any column, a Dataset has no rows.
            new_name = f"{max(names, key=len)}_"
            feature = None if changes_type else records.features[name]
            with_both = records.add_column(new_name, column, feature=feature)
            renamed = with_both.remove_columns(name).rename_column(new_name, name)
            return InMemory(renamed.select_columns(names))
        if hasattr(records, "with_columns"):
            return InMemory(records.with_columns(column))
        position = records.schema.get_field_index(name)
        field = records.schema.field(position).with_type(column.type)
        return InMemory(records.set_column(position, field, column))


def is_stream(records: object) -> bool:
    """Return whether records are read once, batch by batch."""
    is_in_memory = any(hasattr(type(records), name) for name in _ATTRIBUTES_IN_MEMORY)
    has_batches = hasattr(records, "__arrow_c_stream__") and not is_in_memory
    return _is_iterable_dataset(records) or (has_batches and not _is_of_spark(records))


def first_value(records: AnyRecords, path: str) -> tuple[AnyRecords, object]:
    """Return records that can be read again, and the first value of a field; None if there is none.

    records: not a stream. Raises UsageError for a frame without such a column.
    """
    table = _in_memory(records, Argument())
    if table.column_names is None and not isinstance(table.records, list):
        table = InMemory([*table.records])
    field = ValueField(path)
    # A frame without rows has columns too.
    for start in range(0, max(1, len(table.records)), _ROWS_AT_ONCE):
        rows = np.arange(start, min(len(table.records), start + _ROWS_AT_ONCE))
        _, sources = _sources(InMemory(table.picked(rows)), [field], Argument())
        values = (value_at(source, path) for source in sources)
        if (value := next((value for value in values if value is not None), None)) is not None:
            return table.records, value
    return table.records, None


def batches(records: AnyRecords, argument: Argument, plan: Plan) -> Iterator[Records]:
    """Yield the records of a stream, at least one batch. Raises the errors of `read`."""
    start, present = 0, _Present()
    for batch in _batches(records):
        _, parsed, of_batch = _read(batch, argument, plan, start)
        present = present.joined(of_batch)
        yield parsed
        start += len(parsed.texts)
    present.check(argument, plan.meta.text_fields)


def _batches(records: AnyRecords) -> Iterator[AnyRecords]:
    if isinstance(records, Iterable) and _is_iterable_dataset(records):
        rows = iter(records)
        yield []
        while batch := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            yield batch
        return
    reader = require_pyarrow().RecordBatchReader.from_stream(records)
    yield from itertools.chain([reader.schema.empty_table()], reader)


def read(records: AnyRecords, argument: Argument, plan: Plan) -> tuple[InMemory, Records]:
    """Return the records, and their texts, ids and keys.

    Raises UsageError for records that are not in memory, and if no record has the field of the
    text; RecordError for a text of another type.
    """
    table, parsed, present = _read(records, argument, plan)
    present.check(argument, plan.meta.text_fields)
    return table, parsed


def _read(
    records: AnyRecords, argument: Argument, plan: Plan, start: int = 0
) -> tuple[InMemory, Records, _Present]:
    """Return the records, their texts, ids and keys, and the fields that they have.

    start: the position of the first one.
    """
    text_fields = plan.meta.text_fields
    names = [*text_fields]
    if argument.id is not None:
        names.append(argument.id)
    if argument.with_keep_field:
        names.extend(plan.keep.paths([]))
    names.extend(scope_paths(plan.within))
    table = _in_memory(records, argument)
    names.extend(_label_fields(plan, table, argument))
    table, sources = _sources(table, names, argument, start)
    texts = _texts_of_column(sources, text_fields)
    if texts is None:
        texts = [
            _text(source, text_fields, row, argument) for row, source in enumerate(sources, start)
        ]
    # What is only compared with precedes all, whatever it has in the field of the keep rule.
    compared = sources
    if not argument.with_keep_field:
        compared = [only(source, text_fields) for source in sources]
    documents = (Document(str(row), source) for row, source in enumerate(compared, start))
    ids = None
    if argument.id is not None:
        ids = [_id(source, argument.id, row) for row, source in enumerate(sources, start)]
    keys = plan.keep.keys(documents, text_fields)
    present = _Present.of(sources, text_fields, argument.id)
    return table, Records(texts, ids, keys, Beside.of(plan, sources)), present


@dataclass(frozen=True)
class _Present:
    """Which fields records have.

    text: one of them has a field of the text.
    id: one of them has the field of the ids.
    names: some fields of the first record; None if there is no record.
    """

    text: bool = False
    id: bool = False
    names: Sequence[str] | None = None

    @staticmethod
    def of(
        sources: Sequence[Mapping[str, object]], text_fields: Sequence[str], id_field: str | None
    ) -> _Present:
        """Look at the fields of records."""
        if not sources:
            return _Present()
        return _Present(
            any(has_field(source, name) for source in sources for name in text_fields),
            id_field is not None and any(has_field(source, id_field) for source in sources),
            [str(name) for name in itertools.islice(sources[0], 10)],
        )

    def joined(self, later: _Present) -> _Present:
        """Return the same of these records and of later ones."""
        names = later.names if self.names is None else self.names
        return _Present(self.text or later.text, self.id or later.id, names)

    def check(self, argument: Argument, text_fields: Sequence[str]) -> None:
        """Raise UsageError if no record has a field of the text, or of the ids."""
        if self.names is None:
            return
        listed = f" There are: {', '.join(self.names)}" if self.names else ""
        if not self.text:
            raise UsageError(
                f"no {argument.record} has {quoted(text_fields)}: name the field of the text by"
                f" text=.{listed}"
            )
        if argument.id is not None and not self.id and argument.name == "records":
            raise UsageError(
                f"no record has {quoted([argument.id])}: name the field of the ids by id=.{listed}"
            )


def _label_fields(plan: Plan, table: InMemory, argument: Argument) -> list[str]:
    """Return the fields of labels to read. Records that are only compared with may lack them."""
    names = table.column_names
    if argument.name == "records" or names is None:
        return [*plan.label_fields]
    existing = {*map(str, names)}
    return [
        field
        for field in plan.label_fields
        if field in existing or field.partition(".")[0] in existing
    ]


def _is_iterable_dataset(records: object) -> bool:
    """Return whether records are an `IterableDataset` of `datasets`."""
    kind = type(records)
    has_columns = hasattr(kind, "features") and hasattr(kind, "column_names")
    return has_columns and hasattr(kind, "__iter__") and not hasattr(kind, "num_rows")


def _is_of_spark(records: object) -> bool:
    return hasattr(type(records), "sparkSession")


def _in_memory(records: AnyRecords, argument: Argument) -> InMemory:
    """Return records that are in memory.

    Raises UsageError for those that are somewhere else, or not computed, and for several splits.
    """
    kind, name = type(records), argument.name
    if _is_of_spark(records):
        raise UsageError(
            f"{name}: call the functions of `esdedup.spark` with a DataFrame of Spark, or pass"
            " the result of `.toPandas()` if it fits into memory"
        )
    if not hasattr(kind, "__arrow_c_stream__"):
        for method in ("collect", "compute"):
            if hasattr(kind, method):
                raise UsageError(
                    f"{name}: the rows of a {kind.__name__} are not in memory: pass the result of"
                    f" `.{method}()`"
                )
    if isinstance(records, Mapping) and hasattr(kind, "column_names"):
        splits = ", ".join(map(repr, records))
        raise UsageError(f"{name}: pass one split of the {kind.__name__}. There are: {splits}")
    if isinstance(records, Iterable) and _is_iterable_dataset(records):
        return InMemory([*records])
    if hasattr(records, "__arrow_c_array__") and not hasattr(records, "__getitem__"):
        return InMemory(require_pyarrow().record_batch(records))
    return InMemory(require_pyarrow().table(records) if is_stream(records) else records)


def _sources(
    table: InMemory, names: Sequence[str], argument: Argument, start: int = 0
) -> tuple[InMemory, Sequence[Mapping[str, object]]]:
    """Return the records with rows that can be picked, and some fields of each.

    names: of the fields, a field of the text first. start: the position of the first record.
    """
    column_names = table.column_names
    if column_names is None:
        check_list(argument.name, table.records)
        # A column of texts alone is a list of them.
        records = given_values(table.records)
        return InMemory(records), [*_mappings(records, names)]
    columns: dict[str, list[object]] = {}
    as_given = set[str]()
    for name in names:
        column, column_name = name, table.column_named(name, argument.prefix)
        if column_name is None:
            column = name.partition(".")[0]
            column_name = table.column_named(column, argument.prefix)
        if column_name is None:
            listed = ", ".join(map(str, column_names))
            raise UsageError(f"{argument.prefix}there is no column {name!r}. There are: {listed}")
        if isinstance(name, ValueField) and column not in columns:
            # A vector as a list takes many times the memory of its array.
            columns[column] = given_values(table.compared_column(column_name))
            as_given.add(column)
        elif column not in columns or column in as_given:
            values = table.compared_column(column_name)
            try:
                columns[column] = read_values(values)
            except NO_JSON as error:
                row = start + unreadable_row(values)
                raise RecordError(
                    f"{argument.record} {row}: the column {column!r} can't be read: {error}"
                ) from error
            as_given.discard(column)
    return table, RowsOfColumns(columns)


def _mappings(records: Sequence[object], names: Sequence[str]) -> Iterator[Any]:
    """Yield records as mappings whose fields of some names have values of JSON.

    names: a field of the text first.
    """
    paths = [name for name in names if not isinstance(name, ValueField)]
    cuts = ((path, cut) for path in paths for cut, character in enumerate(path) if character == ".")
    heads = {*paths, *(path[:cut] for path, cut in cuts)}
    numbers = {name for name in names if isinstance(name, ValueField)}
    for record in records:
        if isinstance(record, str):
            yield {names[0]: record}
        elif isinstance(record, Mapping):
            changed = {
                head: in_memory(value)
                for head in heads
                if type(value := record.get(head)) not in _AS_IT_IS
            }
            for name in numbers:
                value = value_at(record, name)
                # A vector as a list of JSON takes many times the memory of its array.
                if isinstance(value, _AS_IT_COMES):
                    continue
                if isinstance(value, np.generic):
                    changed[name] = value.item()
                if in_memory(value) is None:
                    changed[name] = None
            yield {**record, **changed} if changed else record
        else:
            yield {names[0]: None} if in_memory(record) is None else record


def _texts_of_column(
    sources: Sequence[Mapping[str, object]], text_fields: Sequence[str]
) -> list[str] | None:
    """Return the texts of a column, empty ones if missing; None if they are elsewhere, or not text.

    A field that is written as a text of its own kind of sketch is no column of texts.
    """
    if (
        not isinstance(sources, RowsOfColumns)
        or len(text_fields) != 1
        or type(text_fields[0]) is not str
    ):
        return None
    values = sources.columns.get(text_fields[0])
    if values is None:
        return None
    texts = [value or "" for value in values if value is None or type(value) is str]
    return texts if len(texts) == len(values) else None


def _text(source: object, names: Sequence[str], row: int, argument: Argument) -> str:
    """Return the text of a record, an empty one if it is missing."""
    record = f"{argument.record} {row}"
    if not isinstance(source, Mapping):
        raise RecordError(f"{record}: use a mapping or text, not {type(source).__name__}")
    if all(value_at(source, name) is None for name in names):
        return ""
    try:
        return text_of(source, names)
    except RecordError as error:
        raise RecordError(f"{record}: {error}") from error


def _id(source: Mapping[str, object], field: str, row: int) -> str:
    """Return the id of a record, one of its position if it has none."""
    if value_at(source, field) in (None, ""):
        return f"row:{row}"
    try:
        return id_at(source, field)
    except RecordError as error:
        raise RecordError(f"record {row}: {error}") from error


def _with_text(
    record: str | Mapping[str, object], text_field: str, row: int, text: str
) -> str | Mapping[str, object]:
    """Return a record with another text."""
    if isinstance(record, str):
        return text
    _check_text(record.get(text_field), text_field, row)
    return {**record, text_field: text}


def _with_values(
    record: Mapping[str, object], merge: Merge, row: int, new_values: Mapping[str, object]
) -> Mapping[str, object]:
    """Return a record with new values of its fields, by their names."""
    values = {**merge.as_lists(record), **new_values}
    try:
        return merged(record, fields_of(record, values)) if values else record
    except RecordError as error:
        raise RecordError(f"record {row}: {error}") from error


def _is_single(value: object) -> bool:
    """Return whether a value is neither missing nor a list."""
    return value is not None and not isinstance(value, list)


def _check_text(value: object, text_field: str, row: int) -> None:
    """Raise RecordError for a value that is no text."""
    if not isinstance(value, str):
        raise RecordError(
            f"record {row}: `mask` requires a text in {text_field!r}, not {type(value).__name__}"
        )
