"""Remove duplicates from texts and records in memory: lists, Arrow tables, frames, datasets."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, Unpack, overload

import numpy as np

from esdedup.arguments import accepts, check_list, check_type, from_settings
from esdedup.compare.columns import Columns
from esdedup.compare.pairs import SimilarPairs, pairs_among
from esdedup.compare.plan import Plan
from esdedup.compare.resources import Resources
from esdedup.compare.source import Records, RecordSource, columns_of_records, read_source
from esdedup.exceptions import RecordError, UsageError
from esdedup.groups.groups import Grouping, GroupingSettings, Groups, groups_among
from esdedup.models import Document
from esdedup.records.documents import id_at
from esdedup.runs.run import Run
from esdedup.sketch.limits import Limits, PairSettings
from esdedup.sketch.measures import Measure
from esdedup.sketch.scheme import Scheme
from esdedup.stores.fields import has_field, quoted, text_of, value_at
from esdedup.stores.mapping import TextFields, names_of
from esdedup.tabular import ArrowStream, Frame, require_pyarrow
from esdedup.text.arrays import I64

if TYPE_CHECKING:
    import pyarrow as pa

_BINS = 10
_ATTRIBUTES_IN_MEMORY = "iloc", "lazy", "take", "to_list", "tolist"
"""Attributes of frames and columns, which are in memory; other objects with Arrow's C stream are
read once, batch by batch."""


_Table = TypeVar("_Table")
_Frame = TypeVar("_Frame", bound=Frame)
_Record = TypeVar("_Record", bound=str | Mapping[str, object])
AnyRecords = Iterable[str | Mapping[str, object]] | Frame | ArrowStream
"""Texts, mappings, a frame, a table, or a stream of Arrow's."""


class Duplicate(NamedTuple):
    """A record that duplicates another.

    row: its position, from 0.
    original: the position of the other.
    value: exact Jaccard similarity, Hamming distance, or by passages the fraction of its words that
    the original holds.
    measure: of the value.
    """

    row: int
    original: int
    value: float
    measure: Measure

    @property
    def similarity(self) -> float | None:
        """The similarity, or the share by passages; None by Hamming distance."""
        return self.measure.similarity(self.value)

    @property
    def distance(self) -> int | None:
        """The Hamming distance; None for another measure."""
        return self.measure.distance(self.value)


@dataclass(frozen=True, repr=False)
class Deduplicated(Generic[_Table]):
    """Records without and with those that duplicate others.

    records: as a list, a frame or a table.
    groups: of similar records; their ids are the positions of the records, from "0".
    """

    records: _Table
    groups: Groups
    _columns: Columns = field(repr=False)
    _plan: Plan = field(repr=False)
    _least: float | None = None

    @cached_property
    def _rows(self) -> I64:
        """The positions of the removed records, ascending."""
        duplicates = self.groups.duplicate_rows.tolist()
        return np.sort(np.array([int(self.groups.ids[row]) for row in duplicates], np.int64))

    @cached_property
    def kept(self) -> _Table:
        """Return the records that stay, in their order, as a list, a frame or a table, as given."""
        rows = np.delete(np.arange(len(self.groups.ids)), self._rows)
        table: _Table = _picked(self.records, rows)
        return table

    @cached_property
    def removed(self) -> _Table:
        """Return the other records, likewise."""
        table: _Table = _picked(self.records, self._rows)
        return table

    @cached_property
    def duplicates(self) -> list[Duplicate]:
        """Return the removed records with their originals, in the order of the records."""
        groups, rows = self.groups, self.groups.duplicate_rows
        originals = [int(groups.ids[row]) for row in groups.representative[rows].tolist()]
        return sorted(
            Duplicate(int(member.id), original, member.value, member.measure)
            for member, original in zip(map(groups.member, rows.tolist()), originals, strict=True)
        )

    def rethreshold(self, threshold: float) -> Deduplicated[_Table]:
        """Return the result of a higher threshold, without sketching the texts again.

        Raises UsageError for a lower one: its pairs were not looked for.
        """
        check_type("threshold", threshold, "float")
        grouping = self.groups.grouping
        if grouping.exact or not self.groups.measure.by_threshold:
            raise UsageError("rethreshold requires a threshold of similarity")
        least = self._least or grouping.limits.least_similarity
        if threshold < least:
            compared = f"use at least {least}, at which the records were compared"
            raise UsageError(
                f"threshold {threshold}: {compared}; for a lower one, call dedup again"
            )
        higher = replace(grouping, limits=grouping.limits.at(threshold))
        groups = _groups(self._columns, self._plan.at(threshold), higher)
        return replace(self, groups=groups, _least=least)

    def __repr__(self) -> str:
        removed, records = self.groups.duplicates, len(self.groups.ids)
        return f"<Deduplicated: {records - removed:,} kept, {removed:,} removed of {records:,}>"

    def _repr_html_(self) -> str:
        """Return a table and a histogram of the similarities, for a notebook."""
        measure = self.groups.measure
        values = self.groups.value[self.groups.duplicate_rows]
        counts, edges = np.histogram(values, _BINS, measure.bounds(values))
        width = 12 / max(1, counts.max())
        rows = "".join(
            f"<tr><td>{low:.2f} to {high:.2f}</td><td style='text-align:right'>{count:,}</td><td>"
            f"<div style='background:#4878a8;height:0.8em;width:{width * count:.1f}em'></div></td>"
            for count, low, high in zip(counts, edges, edges[1:], strict=False)
        )
        head = f"<tr><th>{measure.column} to the original</th><th>removed</th><th></th></tr>"
        return f"<p>{html.escape(repr(self))}</p><table>{head}{rows}</table>"


@overload
def dedup(
    records: _Frame,
    text: TextFields = "text",
    *,
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[_Frame]: ...
@overload
def dedup(
    records: Iterable[_Record],
    text: TextFields = "text",
    *,
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[list[_Record]]: ...
@overload
def dedup(
    records: ArrowStream,
    text: TextFields = "text",
    *,
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[pa.Table]: ...
@accepts(Grouping)
def dedup(
    records: AnyRecords,
    text: TextFields = "text",
    *,
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> Deduplicated[Any]:
    """Remove the texts or records that duplicate others, without an index.

    records: texts, mappings, a frame of pandas or Polars, a Dataset of `datasets`, or anything else
    with Arrow's C stream, such as a relation of DuckDB, which becomes a table.
    text: the field or fields of the text. A record without a text duplicates no other.
    scheme: by default one whose bands reach the recall at the threshold.
    grouping: how to group, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.8 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document that represents a group, such as "newest:published"; "first" is in the order
    of the records.
    exact: group only equal texts, after normalisation.
    split_templates: separate documents that fill one template differently.

    Raises UsageError for wrong arguments, and if no record has the field; RecordError for a text
    of another type.
    """
    grouping = from_settings(Grouping, settings, grouping)
    plan = Plan.of_texts(
        scheme, grouping.limits, grouping.keep, names_of(text), exact=grouping.exact
    )
    grouping = grouping.by(plan)
    table, parsed = _parsed(records, None, plan)
    columns = columns_of_records(parsed, plan)
    return Deduplicated(table, _groups(columns, plan, grouping), columns, plan)


@accepts(Limits, "pairs")
def pairs(
    records: AnyRecords,
    text: TextFields = "text",
    *,
    id: str | None = None,
    scheme: Scheme | None = None,
    limits: Limits | None = None,
    **settings: Unpack[PairSettings],
) -> SimilarPairs:
    """Return all pairs of similar texts or records, the most similar first.

    records, text, scheme: as of `dedup`.
    id: the field of the ids, of which the last record of each stays; None for the positions of the
    records, from "0". A record without an id has the id "row:N", of its position.
    limits: how to compare, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.5 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.

    Raises the errors of `dedup`, and RecordError for an id that an index rejects.
    """
    limits = from_settings(Limits, settings, limits, "pairs")
    plan = Plan.of_texts(scheme, limits, text_fields=names_of(text))
    with _read(records, id, plan) as (columns, resources):
        return pairs_among(columns, plan, resources)


@accepts(Grouping)
def group(
    records: AnyRecords,
    text: TextFields = "text",
    *,
    id: str | None = None,
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> Groups:
    """Return the groups of similar texts or records, the largest first.

    records, text, id, scheme: as of `pairs`.
    grouping: how to group, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.8 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document that represents a group, such as "newest:published"; "first" is in the order
    of the records.
    exact: group only equal texts, after normalisation.
    split_templates: separate documents that fill one template differently.
    """
    grouping = from_settings(Grouping, settings, grouping)
    plan = Plan.of_texts(
        scheme, grouping.limits, grouping.keep, names_of(text), exact=grouping.exact
    )
    grouping = grouping.by(plan)
    with _read(records, id, plan) as (columns, resources):
        return groups_among(columns, plan, grouping, resources)


@contextmanager
def _read(records: Any, id: str | None, plan: Plan) -> Iterator[tuple[Columns, Resources]]:
    """Read the texts and tokens of records. Those of a stream are in files until the end."""
    with Run.temporary() as run:
        if _is_stream(records):
            source = RecordSource(plan, _batches(records, id, plan))
            columns = read_source(source, run, is_numbered=id is None)
        else:
            _, parsed = _parsed(records, id, plan)
            columns = columns_of_records(parsed, plan)
        yield columns, Resources(run.folder)


def _batches(records: Any, id: str | None, plan: Plan) -> Iterator[Records]:
    """Yield the records of a stream, at least one batch."""
    reader = require_pyarrow().RecordBatchReader.from_stream(records)
    start = 0
    for batch in itertools.chain([reader.schema.empty_table()], reader):
        _, parsed = _parsed(batch, id, plan, start)
        yield parsed
        start += len(parsed.texts)


def _is_stream(records: Any) -> bool:
    is_in_memory = any(hasattr(type(records), name) for name in _ATTRIBUTES_IN_MEMORY)
    return hasattr(records, "__arrow_c_stream__") and not is_in_memory


def _parsed(records: Any, id: str | None, plan: Plan, start: int = 0) -> tuple[Any, Records]:
    """Return the records as something that `_picked` accepts, and their texts, ids and keys.

    start: the position of the first one.
    """
    text_fields, id_fields = plan.meta.text_fields, [] if id is None else [id]
    names = [*text_fields, *id_fields, *plan.keep.paths([])]
    records, sources = _sources(records, names, text_fields[0])
    rows = [*enumerate(sources, start)]
    texts = [_text(source, text_fields, row) for row, source in rows]
    if sources and not any(has_field(source, name) for source in sources for name in text_fields):
        listed = quoted(text_fields)
        raise UsageError(f"no record has {listed}: name the field of the text by text=")
    documents = (Document(str(row), source) for row, source in rows)
    ids = None if id is None else [_id(source, id, row) for row, source in rows]
    return records, Records(texts, ids, plan.keep.keys(documents, text_fields))


def _sources(
    records: Any, names: Sequence[str], text_field: str
) -> tuple[Any, Sequence[Mapping[str, Any]]]:
    """Return the records as something that `_picked` accepts, and some fields of each."""
    if hasattr(records, "__arrow_c_array__") and not hasattr(records, "__getitem__"):
        records = require_pyarrow().record_batch(records)
    elif _is_stream(records):
        records = require_pyarrow().table(records)
    of_frame = hasattr(records, "iloc") or not hasattr(records, "column_names")
    column_names = getattr(records, "columns" if of_frame else "column_names", None)
    if column_names is None:
        check_list("records", records)
        # A column of texts alone is a list of them.
        records = _values(records)
        sources = (
            {text_field: record} if isinstance(record, str) else record for record in records
        )
        return records, [*sources]
    existing, columns = {str(name): name for name in column_names}, {}
    for name in names:
        column = name if name in existing else name.partition(".")[0]
        if column not in existing:
            raise UsageError(f"there is no column {name!r}. There are: {', '.join(existing)}")
        columns[column] = _values(records[existing[column]])
    rows = zip(*columns.values(), strict=True)
    return records, [dict(zip(columns, row, strict=True)) for row in rows]


def _values(column: Any) -> list[Any]:
    """Return the values of a column, None for missing ones."""
    if hasattr(column, "notna"):
        column = column.astype(object).where(column.notna(), None)
    call = next((n for n in ("to_pylist", "to_list", "tolist") if hasattr(column, n)), "__iter__")
    return [*getattr(column, call)()]


def _picked(records: Any, rows: I64) -> Any:
    """Return some records as a list, a frame or a table, as given."""
    if isinstance(records, list):
        return [records[row] for row in rows.tolist()]
    if hasattr(records, "iloc"):
        return records.iloc[rows]
    if hasattr(records, "features"):
        return records.select(rows)
    return records.take(rows) if hasattr(records, "take") else records[rows.tolist()]


def _text(source: Any, names: Sequence[str], row: int) -> str:
    """Return the text of a record, an empty one if it is missing."""
    if not isinstance(source, Mapping):
        raise RecordError(f"record {row}: use a mapping or text, not {type(source).__name__}")
    if all(value_at(source, name) is None for name in names):
        return ""
    try:
        return text_of(source, names)
    except RecordError as error:
        raise RecordError(f"record {row}: {error}") from error


def _id(source: Mapping[str, object], field: str, row: int) -> str:
    """Return the id of a record, one of its position if it has none."""
    if value_at(source, field) in (None, ""):
        return f"row:{row}"
    try:
        return id_at(source, field)
    except RecordError as error:
        raise RecordError(f"record {row}: {error}") from error


def _groups(columns: Columns, plan: Plan, grouping: Grouping) -> Groups:
    with Run.temporary() as run:
        return groups_among(columns, plan, grouping, Resources(run.folder))
