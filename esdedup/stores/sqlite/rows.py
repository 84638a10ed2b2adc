"""Documents as rows of a local file, and back.

Tokens that are those of the index's scheme are stored as packed bytes (`sketch.packed`), others as
JSON. Many rows are read in one call.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import orjson
import xxhash

from esdedup.exceptions import RecordError
from esdedup.models import FIELD, MARKS, Change, Document, Fields
from esdedup.sketch.kinds.base import ValueField
from esdedup.sketch.packed import DIGEST_BYTES, pack_values, records
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import Tokens, digest_words, written_digests
from esdedup.sketch.tokens import encode
from esdedup.stores.changes import merged
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.fields import only
from esdedup.stores.json_text import REMOVED, merged_text, text_with, text_without
from esdedup.stores.mapping import IndexMeta, without_tokens
from esdedup.stores.sqlite.sources import Source, json_of, packed, short_json_of
from esdedup.stores.to_json import to_json
from esdedup.text.characters import is_unicode

Mark = str | int | float | None
"""The value of a mark, as SQLite stores it."""

_MOST = 1 << 63
"""Integers of a table are less."""
NO_MARKS: tuple[Mark, ...] = (None,) * len(MARKS)


class Row(NamedTuple):
    """A document as columns.

    id: of the document.
    source: its own fields, a JSON object, with vectors as float32 where that loses no byte.
    tokens: packed, or a JSON object, without marks.
    group, original, similarity, distance: its marks, None for missing ones.
    """

    id: str
    source: Source
    tokens: bytes | str
    group: Mark = None
    original: Mark = None
    similarity: Mark = None
    distance: Mark = None

    @property
    def json(self) -> str:
        """The JSON of its own fields, byte for byte as it came."""
        return json_of(self.source)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The marks, in the order of `MARKS`."""
        return self[3:]

    @property
    def version(self) -> str:
        """A hash, so that a document that was changed back counts as unchanged."""
        text = f"{self.json}\0{self.tokens!r}\0{self.marks!r}"
        return xxhash.xxh3_128_hexdigest(text.encode())


class NumberedRow(NamedTuple):
    """A stored document with its number."""

    number: int
    row: Row


class RowFormat:
    """Turn documents of an index into rows, and rows into documents.

    scheme: of the index.
    vector_fields: names of fields whose vectors are packed.
    """

    def __init__(self, scheme: Scheme, vector_fields: Collection[str]) -> None:
        self.scheme, self.vector_fields = scheme, vector_fields

    @staticmethod
    def of(meta: IndexMeta) -> RowFormat:
        """Return the format of an index."""
        names = (name for fields in meta.sketched_with_next for name in fields.text_fields)
        return RowFormat(meta.scheme, frozenset(map(str, filter(_is_of_vectors, names))))

    def our_fields(self, rows: Sequence[Row], lists: Collection[str] | None = None) -> list[Fields]:
        """Return the value of FIELD of each document.

        lists: names of the lists of tokens to unpack; None for all.
        """
        packed_tokens = [row.tokens for row in rows if isinstance(row.tokens, bytes)]
        unpacked = iter(self._unpacked(packed_tokens, lists))
        fields = []
        for row in rows:
            tokens = next(unpacked) if isinstance(row.tokens, bytes) else json.loads(row.tokens)
            if row.marks != NO_MARKS:
                marks = zip(MARKS, row.marks, strict=True)
                tokens |= {name: value for name, value in marks if value is not None}
            fields.append(tokens)
        return fields

    def _unpacked(self, packed: Sequence[bytes], lists: Collection[str] | None) -> list[Tokens]:
        """Return packed tokens as they are in documents. lists: as in `our_fields`."""
        values, filled = records(packed, self.scheme)
        digests = written_digests([tokens[:DIGEST_BYTES] for tokens in packed])
        fields: list[Tokens] = [{"scheme": self.scheme.id, "digest": digest} for digest in digests]
        for position in np.flatnonzero(~filled).tolist():
            fields[position]["wordless"] = digests[position]
        positions = np.flatnonzero(filled).tolist()
        for sketch in self.scheme.sketches:
            if lists is None or sketch.key in lists:
                token_lists = encode(values[sketch.key], sketch.bits)
                for position, tokens in zip(positions, token_lists, strict=True):
                    fields[position][sketch.key] = tokens
        return fields

    def with_tokens(self, rows: Sequence[Row], paths: list[str] | None = None) -> list[Document]:
        """Return documents with their tokens. paths: dotted names of fields; None for all."""
        lists = None if paths is None else [path.partition(".")[2] for path in paths]
        documents = []
        only_vectors = bool(paths) and all(map(_is_of_vectors, paths or ()))
        sources = (quickly_parsed if only_vectors else parsed)([row.source for row in rows])
        for row, source, ours in zip(rows, sources, self.our_fields(rows, lists), strict=True):
            source[FIELD] = ours
            documents.append(Document(row.id, source if paths is None else only(source, paths)))
        return documents

    def documents(
        self,
        rows: Sequence[tuple[Any, ...]],
        token_list: str = "",
        *,
        marked: bool = True,
    ) -> list[Document]:
        """Return documents without their lists of tokens, except one.

        rows: the values of `Row`, or without `marked` only ids and sources. token_list: the name of
        the list that is returned.
        """
        sources = parsed([row[1] for row in rows])
        # Most sources have no fields of ours.
        if any(name.startswith(FIELD) for name in set[str]().union(*sources)):
            sources = [without_tokens(source, token_list) for source in sources]
        full_rows = [*map(Row._make, rows)] if marked else []
        fields = self.our_fields(full_rows, (token_list,))
        for row, source, ours in zip(full_rows, sources, fields, strict=False):
            # Of packed tokens no other list was unpacked.
            if isinstance(row.tokens, str):
                ours = without_tokens({FIELD: ours}, token_list)[FIELD]
            if ours:
                source[FIELD] = ours
        return [Document(row[0], source) for row, source in zip(rows, sources, strict=True)]

    def rows(self, documents: Sequence[Document] | EncodedDocuments) -> list[Row]:
        """Return documents as rows. Raises RecordError if one can't be stored."""
        if isinstance(documents, EncodedDocuments):
            scheme, packed_tokens = documents.tokens.get(FIELD, (None, []))
            if len(documents.tokens) > 1 or scheme is None or scheme.id != self.scheme.id:
                return self.rows(documents.documents())
            names = MARKS if documents.marks else ()
            columns = ([marks.get(name) for marks in documents.marks] for name in names)
            sources = map(self._source, documents.sources)
            return [*map(Row, documents.ids, sources, packed_tokens, *columns)]
        rows = [*map(self._row, documents)]
        unpacked = [position for position, row in enumerate(rows) if isinstance(row.tokens, str)]
        packed_tokens = self._packed([json.loads(rows[position].tokens) for position in unpacked])
        for position, tokens in zip(unpacked, packed_tokens, strict=True):
            rows[position] = rows[position]._replace(tokens=tokens or rows[position].tokens)
        return rows

    def _row(self, document: Document) -> Row:
        """Return a document as a row, with its tokens in JSON."""
        name = f"document {document.id!r}"
        if not is_unicode(document.id):
            raise RecordError(f"{name}: the id is not valid Unicode")
        marks = {key: value for key, value in document.tokens.items() if _is_mark(key, value)}
        to_json(marks, name)
        tokens = {key: value for key, value in document.tokens.items() if key not in marks}
        if document.raw is None:
            own_fields = {key: value for key, value in document.source.items() if key != FIELD}
            source = to_json(own_fields, name)
        else:
            source = text_without(document.raw, FIELD)
        return Row(document.id, self._source(source), to_json(tokens, name), **marks)

    def _source(self, text: str) -> Source:
        return packed(text, self.vector_fields) if self.vector_fields else text

    def _packed(self, documents: Sequence[Fields]) -> list[bytes | None]:
        """Return the tokens of each document packed, or None if that would change them."""
        filled = [fields for fields in documents if "wordless" not in fields]
        try:
            values = {
                sketch.key: sketch.decode([fields[sketch.key] for fields in filled])
                for sketch in self.scheme.sketches
            }
            packed_values = iter(pack_values(values, len(filled), self.scheme))
            words = digest_words([fields["digest"] for fields in documents])
            packed_tokens = [
                digest.tobytes() + (b"" if "wordless" in fields else next(packed_values))
                for digest, fields in zip(words, documents, strict=True)
            ]
            unpacked = self._unpacked(packed_tokens, None)
            return [
                tokens if fields_again == fields else None
                for tokens, fields_again, fields in zip(
                    packed_tokens, unpacked, documents, strict=True
                )
            ]
        except (KeyError, TypeError, ValueError):
            if len(documents) == 1:
                return [None]
            return [tokens for fields in documents for tokens in self._packed([fields])]

    def changed(self, rows: Sequence[Row], changes: Sequence[Change]) -> list[Row]:
        """Return the documents after changes. Raises RecordError if one can't be stored."""
        marked = [*map(_marked, rows, changes)]
        positions = [position for position, row in enumerate(marked) if row is None]
        documents = self.with_tokens([rows[position] for position in positions])
        changed_documents = [
            _changed(document, rows[position], changes[position])
            for document, position in zip(documents, positions, strict=True)
        ]
        changed_rows = iter(self.rows(changed_documents))
        return [next(changed_rows) if row is None else row for row in marked]


def parsed(sources: Sequence[Source]) -> list[Fields]:
    """Return the objects of documents."""
    # One call takes half of the time of a call for each row.
    objects: list[Fields] = json.loads(f"[{','.join(map(json_of, sources))}]")
    return objects


def quickly_parsed(sources: Sequence[Source]) -> list[Fields]:
    """Return the objects of documents in a third of the time, with large integers as floats.

    That changes no text, and no vector, whose numbers are read as float32.
    """
    try:
        objects: list[Fields] = orjson.loads(f"[{','.join(map(short_json_of, sources))}]")
    except orjson.JSONDecodeError:
        # It rejects numbers beyond the range of floats.
        return parsed(sources)
    return objects


def _is_of_vectors(path: str) -> bool:
    """Return whether a path names a field of vectors. Fingerprints may be large integers."""
    return isinstance(path, ValueField) and not path.sketch.measure.by_values


def with_raw(document: Document, row: Row) -> Document:
    """Return a whole document with its JSON: that of its own fields as it came, and ours."""
    ours = to_json(document.source[FIELD], f"document {document.id!r}")
    return replace(document, raw=text_with(row.json, FIELD, ours))


def _changed(document: Document, row: Row, change: Change) -> Document:
    """Return a document after a change, all other bytes of which are those of its row."""
    fields = change.fields or {}
    if change.whole:
        return Document(document.id, fields, change.raw)
    own_fields = {name: value for name, value in fields.items() if name != FIELD}
    raw = merged_text(row.json, own_fields, f"document {document.id!r}")
    return Document(document.id, merged(document.source, fields), raw)


def _marked(row: Row, change: Change) -> Row | None:
    """Return a document after a change of its marks alone, which reads nothing else, or None."""
    ours = change.fields[FIELD] if change.fields and change.fields.keys() == {FIELD} else None
    if change.whole or not isinstance(ours, Mapping) or not all(map(_is_mark, ours, ours.values())):
        return None
    marks: Fields = {name: None if value is REMOVED else value for name, value in ours.items()}
    return row._replace(**marks)


def _is_mark(name: str, value: object) -> bool:
    """Return whether a value belongs in the table of groups. Null removes a mark."""
    is_none = value is None or value is REMOVED
    is_large = type(value) is int and not -_MOST <= value < _MOST
    return name in MARKS and (is_none or type(value) in (str, int, float)) and not is_large
