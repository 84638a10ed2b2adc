"""Queries from files: by a text that is a file, and by the records of files."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from esdedup.exceptions import RecordError, UsageError
from esdedup.models import Fields, Query
from esdedup.records.files import BadRecord, Delimited, Record, check_unicode, read_records
from esdedup.records.text_files import opened
from esdedup.search.scopes import query_scope, scope_paths
from esdedup.sketch.within import Within
from esdedup.stores.fields import parts_of, text_of, value_at

_QUERIES_AT_ONCE = 2_000


@dataclass(frozen=True)
class RecordQuery:
    """The query of a record.

    record: of a file.
    name: its id, which its own matches leave out; without one its file and line.
    query: by its text; None if the record can't be used.
    reason: why it can't be used.
    """

    record: Record | BadRecord
    name: str
    query: Query | None
    reason: str = ""


def text_in_file(file: str, encoding: str | None = None) -> str:
    """Return the text that a file holds; "-" is standard input. Raises UsageError."""
    with opened(file, encoding) as (_, stream):
        text = stream.read()
    try:
        check_unicode(text)
    except RecordError as error:
        raise UsageError(f"{file}: {error}") from error
    return text


def queries_in_files(
    files: Iterable[str],
    text_fields: Sequence[str],
    filters: Sequence[Fields] = (),
    encoding: str | None = None,
    within: Within = Within(),  # noqa: B008
    delimiter: str | None = None,
) -> Iterator[list[RecordQuery]]:
    """Yield the queries of the records of files, many at once.

    filters: queries that a match must meet too. within: the scope of a record and its matches.
    delimiter: of CSV files, by default a comma.
    """
    format = None if delimiter is None else Delimited.named(delimiter)
    columns = [*text_fields, "id", *scope_paths(within)]
    records = itertools.chain.from_iterable(
        read_records(file, format, encoding, columns) for file in files
    )
    while batch := list(itertools.islice(records, _QUERIES_AT_ONCE)):
        yield [_query_of(record, text_fields, filters, within) for record in batch]


def _query_of(
    record: Record | BadRecord,
    text_fields: Sequence[str],
    filters: Sequence[Fields],
    within: Within,
) -> RecordQuery:
    name = f"{record.file}:{record.line}"
    if isinstance(record, BadRecord):
        return RecordQuery(record, name, None, record.reason)
    id = value_at(record.source, "id")
    named = isinstance(id, (str, int)) and not isinstance(id, bool)
    name = str(id) if named else name
    try:
        text = text_of(record.source, text_fields)
        text_parts = parts_of(record.source, text_fields)
        scope = query_scope(within, record.source) if within else None
        exclude = name if named else None
        query = Query(text, exclude, filters, parts=text_parts, scope=scope)
    except RecordError as error:
        return RecordQuery(record, name, None, str(error))
    return RecordQuery(record, name, query)
