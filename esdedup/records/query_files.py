"""Queries from files: by a text that is a file, and by the records of files."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from esdedup.exceptions import RecordError, UsageError
from esdedup.models import Fields, Query
from esdedup.records.files import BadRecord, Delimited, Record, check_unicode, read_records
from esdedup.records.text_files import opened
from esdedup.search.scopes import query_scope, scope_paths
from esdedup.sketch.within import Within
from esdedup.stores.base import Store
from esdedup.stores.fields import parts_of, text_at, text_of, value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.normalise import normalise

_QUERIES_AT_ONCE = 2_000


@dataclass(frozen=True)
class RecordQuery:
    """The query of a record.

    record: of a file.
    name: its id; without one its file and line.
    query: by its text; None if the record can't be used.
    reason: why it can't be used.
    id: its own one, if it can be used.
    """

    record: Record | BadRecord
    name: str
    query: Query | None
    reason: str = ""
    id: str | None = None

    @property
    def leaves_out_itself(self) -> bool:
        """Whether a document of the index is taken for the record, and is no match of it."""
        return self.query is not None and self.query.exclude is not None


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
        query = Query(text, filters=filters, parts=text_parts, scope=scope)
    except RecordError as error:
        return RecordQuery(record, name, None, str(error))
    return RecordQuery(record, name, query, id=name if named else None)


def leaving_out_themselves(
    records: Sequence[RecordQuery], store: Store, meta: IndexMeta
) -> list[RecordQuery]:
    """Return the queries of records without the documents that have their ids and texts.

    A document of the same id and another text may belong to another set, so it stays. Of several
    indices with an id, the text of the newest decides. meta: of the sketch that is compared by.
    """
    ids = dict.fromkeys(record.id for record in records if record.id is not None)
    stored = store.get([*ids], [*meta.text_fields]) if ids else []
    texts: dict[str | None, str] = {
        document.id: text
        for document in stored
        if (text := text_at(document.source, meta.text_fields)) is not None
    }
    queries = {
        row: record.query
        for row, record in enumerate(records)
        if record.query is not None and record.id in texts
    }
    normalisation = meta.scheme.normalisation
    queried = normalise([query.text for query in queries.values()], normalisation)
    of_same_ids = normalise([texts[records[row].id] for row in queries], normalisation)
    itself = {
        row for row, left, right in zip(queries, queried, of_same_ids, strict=True) if left == right
    }
    return [
        replace(record, query=replace(queries[row], exclude=record.id)) if row in itself else record
        for row, record in enumerate(records)
    ]
