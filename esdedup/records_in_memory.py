"""Read records that a program has in memory, and pick rows: of lists, frames, tables, datasets."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from esdedup.arguments import check_list
from esdedup.compare.plan import Plan
from esdedup.compare.source import Beside, Records
from esdedup.exceptions import RecordError, UsageError
from esdedup.models import Document
from esdedup.records.documents import id_at
from esdedup.records.merge import Merge, fields_of
from esdedup.records.record_columns import RowsOfColumns
from esdedup.search.scopes import scope_paths
from esdedup.stores.changes import merged
from esdedup.stores.fields import has_field, quoted, text_of, value_at
from esdedup.tabular import ArrowStream, Frame, require_pyarrow
from esdedup.text.arrays import I64

AnyRecords = Iterable[str | Mapping[str, object]] | Frame | ArrowStream
"""Texts, mappings, a frame, a table, or a stream of Arrow's."""
_ATTRIBUTES_IN_MEMORY = "iloc", "lazy", "take", "to_list", "tolist"
"""Attributes of frames and columns, which are in memory; other objects with Arrow's C stream are
read once, batch by batch."""
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Argument:
    """An argument of a call that has records.

    name: in messages.
    id: the field of the ids; None for positions.
    with_keep_field: they have the field of the keep rule.
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

    def values(self, name: Hashable) -> list[object]:
        """Return the values of a column, None for missing ones."""
        return _values(self.records[name])

    def picked(self, rows: I64) -> Any:
        """Return some records as a list, a frame or a table, as given."""
        records = self.records
        if isinstance(records, list):
            return [records[row] for row in rows.tolist()]
        if hasattr(records, "iloc"):
            return records.iloc[rows]
        if hasattr(records, "features"):
            return records.select(rows)
        return records.take(rows) if hasattr(records, "take") else records[rows.tolist()]

    def with_texts(self, text_field: str, rows: I64, texts: Sequence[str]) -> InMemory:
        """Return the records with other texts of some rows.

        Raises UsageError for a nested field, and RecordError for a record whose field is no text.
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
        columns = {str(name): name for name in names}
        if text_field not in columns:
            raise UsageError(
                f"`mask` requires a column of texts, not the nested field {text_field!r}"
            )
        name = columns[text_field]
        values = self.values(name)
        for row, text in changes.items():
            _check_text(values[row], text_field, row)
            values[row] = text
        return self._with_column(name, values)

    def check_merge(self, merge: Merge) -> None:
        """Raise UsageError for a field that is no column, and for texts, which have no fields."""
        names = self.column_names
        for path in merge.paths:
            setting = "collect" if path in merge.collect else "fill"
            if names is not None and path not in map(str, names):
                listed = ", ".join(map(str, names))
                raise UsageError(f"`{setting}`: there is no column {path!r}. There are: {listed}")
            is_text = names is None and any(isinstance(record, str) for record in self.records)
            if is_text or (names is None and not isinstance(self.records, list)):
                raise UsageError(f"`{setting}` requires records with fields, not texts")

    def values_at(self, path: str) -> list[object]:
        """Return the values of a field, None for missing ones."""
        names = self.column_names
        if names is None:
            return [value_at(record, path) for record in self.records]
        values = self.values(_column_named(names, path))
        # A frame of pandas has arrays in place of lists.
        return [value.tolist() if hasattr(value, "tolist") else value for value in values]

    def with_values(self, merge: Merge, new_values: Mapping[int, Mapping[str, object]]) -> InMemory:
        """Return the records with new values of fields; collected fields become lists.

        new_values: by the row of a record and by field. Raises RecordError for a nested field in
        what is no object.
        """
        names = self.column_names
        if names is None:
            return InMemory(
                [
                    _with_values(record, merge, row, new_values.get(row, {}))
                    for row, record in enumerate(self.records)
                ]
            )
        records = self
        for path in merge.paths:
            values = self.values_at(path)
            becomes_list = path in merge.collect and any(map(_is_single, values))
            if becomes_list:
                values = [[value] if _is_single(value) else value for value in values]
            for row, values_of_row in new_values.items():
                if path in values_of_row:
                    values[row] = values_of_row[path]
            records = records._with_column(_column_named(names, path), values, becomes_list)
        return records

    def _with_column(
        self, name: Hashable, values: list[object], becomes_list: bool = False
    ) -> InMemory:
        """Return a frame or a table with other values of a column, of the same type.

        becomes_list: the values are lists of this type.
        """
        records = self.records
        if hasattr(records, "iloc"):
            series, frame = records[name], records.copy(deep=False)
            dtype = object if becomes_list else series.dtype
            frame[name] = type(series)(values, index=series.index, dtype=dtype)
            return InMemory(frame)
        if hasattr(records, "features"):
            without_column = records.remove_columns(name)
            feature = None if becomes_list else records.features[name]
            with_values = without_column.add_column(name, values, feature=feature)
            return InMemory(with_values.select_columns(records.column_names))
        if hasattr(records, "with_columns"):
            series = records[name]
            dtype = series.head(0).implode().dtype if becomes_list else series.dtype
            return InMemory(records.with_columns(type(series)(name, values, dtype)))
        position = records.schema.get_field_index(name)
        field = records.schema.field(position)
        if becomes_list:
            field = field.with_type(require_pyarrow().list_(field.type))
        array = require_pyarrow().array(values, field.type)
        return InMemory(records.set_column(position, field, array))


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
    # A frame without rows has columns too.
    for start in range(0, max(1, len(table.records)), _ROWS_AT_ONCE):
        rows = np.arange(start, min(len(table.records), start + _ROWS_AT_ONCE))
        _, sources = _sources(InMemory(table.picked(rows)), [path], Argument())
        values = (value_at(source, path) for source in sources)
        if (value := next((value for value in values if value is not None), None)) is not None:
            return table.records, value
    return table.records, None


def batches(records: AnyRecords, argument: Argument, plan: Plan) -> Iterator[Records]:
    """Yield the records of a stream, at least one batch."""
    start = 0
    for batch in _batches(records):
        _, parsed = read(batch, argument, plan, start)
        yield parsed
        start += len(parsed.texts)


def _batches(records: AnyRecords) -> Iterator[AnyRecords]:
    if isinstance(records, Iterable) and _is_iterable_dataset(records):
        rows = iter(records)
        yield []
        while batch := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            yield batch
        return
    reader = require_pyarrow().RecordBatchReader.from_stream(records)
    yield from itertools.chain([reader.schema.empty_table()], reader)


def read(
    records: AnyRecords, argument: Argument, plan: Plan, start: int = 0
) -> tuple[InMemory, Records]:
    """Return the records, and their texts, ids and keys.

    start: the position of the first one. Raises UsageError for records that are not in memory, and
    if no record has the field of the text; RecordError for a text of another type.
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
    table, sources = _sources(table, names, argument)
    texts = _texts_of_column(sources, text_fields)
    if texts is None:
        texts = [
            _text(source, text_fields, row, argument) for row, source in enumerate(sources, start)
        ]
    if sources and not any(has_field(source, name) for source in sources for name in text_fields):
        listed, present = quoted(text_fields), _fields_present(sources)
        raise UsageError(
            f"no {argument.record} has {listed}: name the field of the text by text=.{present}"
        )
    documents = (Document(str(row), source) for row, source in enumerate(sources, start))
    ids = None
    if argument.id is not None:
        is_named = any(has_field(source, argument.id) for source in sources)
        if sources and not (start or is_named) and argument.name == "records":
            present = _fields_present(sources)
            raise UsageError(
                f"no record has {quoted([argument.id])}: name the field of the ids by id=.{present}"
            )
        ids = [_id(source, argument.id, row) for row, source in enumerate(sources, start)]
    keys = plan.keep.keys(documents, text_fields)
    return table, Records(texts, ids, keys, Beside.of(plan, sources))


def _fields_present(sources: Sequence[Mapping[str, object]]) -> str:
    """Return a sentence that names fields of the first record."""
    names = [str(name) for name in itertools.islice(sources[0], 10)]
    return f" There are: {', '.join(names)}" if names else ""


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
    table: InMemory, names: Sequence[str], argument: Argument
) -> tuple[InMemory, Sequence[Mapping[str, object]]]:
    """Return the records with rows that can be picked, and some fields of each.

    names: of the fields, a field of the text first.
    """
    column_names = table.column_names
    if column_names is None:
        check_list(argument.name, table.records)
        # A column of texts alone is a list of them.
        records = _values(table.records)
        sources = ({names[0]: record} if isinstance(record, str) else record for record in records)
        return InMemory(records), [*sources]
    existing = {str(name): name for name in column_names}
    columns: dict[str, list[object]] = {}
    for name in names:
        column = name if name in existing else name.partition(".")[0]
        if column not in existing:
            listed = ", ".join(existing)
            raise UsageError(f"{argument.prefix}there is no column {name!r}. There are: {listed}")
        columns[column] = table.values(existing[column])
    return table, RowsOfColumns(columns)


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


def _values(column: Any) -> list[Any]:
    """Return the values of a column, None for missing ones."""
    if hasattr(column, "notna"):
        column = column.astype(object).where(column.notna(), None)
    call = next((n for n in ("to_pylist", "to_list", "tolist") if hasattr(column, n)), "__iter__")
    return [*getattr(column, call)()]


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


def _column_named(names: Sequence[Hashable], name: str) -> Hashable:
    """Return the name of a column, which may be of any type."""
    return next(column for column in names if str(column) == name)


def _check_text(value: object, text_field: str, row: int) -> None:
    """Raise RecordError for a value that is no text."""
    if not isinstance(value, str):
        raise RecordError(
            f"record {row}: `mask` requires a text in {text_field!r}, not {type(value).__name__}"
        )
