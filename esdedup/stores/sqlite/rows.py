"""Documents as rows of a local file, and back.

Tokens that are those of the index's scheme are stored as packed bytes (`sketch.packed`), others as
JSON. Many rows are read in one call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xxhash

from esdedup.exceptions import RecordError
from esdedup.models import FIELD, MARKS, Change, Document
from esdedup.sketch.packed import DIGEST_BYTES, pack_values, records
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import digest_words, written_digests
from esdedup.sketch.tokens import encode
from esdedup.stores.changes import merged
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.fields import only
from esdedup.stores.json_text import REMOVED, merged_text, text_with, text_without
from esdedup.stores.mapping import without_tokens
from esdedup.stores.to_json import to_json
from esdedup.text.characters import is_unicode

NO_MARKS = (None,) * len(MARKS)


class Columns(NamedTuple):
    """A document as columns.

    source: a JSON object. tokens: packed, or a JSON object, without marks. The others are its
    marks, None for missing ones.
    """

    id: str
    source: str
    tokens: bytes | str
    group: Any = None
    original: Any = None
    similarity: Any = None
    distance: Any = None

    @property
    def version(self) -> str:
        """A hash, so that a document that was changed back counts as unchanged."""
        text = f"{self.source}\0{self.tokens!r}\0{self[3:]!r}"
        return xxhash.xxh3_128_hexdigest(text.encode())


class Rows:
    """Turn documents of an index into rows, and rows into documents. scheme: of the index."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme

    def ours(
        self, rows: Sequence[Columns], lists: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the value of FIELD of each document.

        lists: names of the lists of tokens to unpack; None for all.
        """
        packed = [row.tokens for row in rows if isinstance(row.tokens, bytes)]
        fields = iter(self._fields(packed, lists))
        found = []
        for row in rows:
            ours = next(fields) if isinstance(row.tokens, bytes) else json.loads(row.tokens)
            if row[3:] != NO_MARKS:
                marks = zip(MARKS, row[3:], strict=True)
                ours |= {name: value for name, value in marks if value is not None}
            found.append(ours)
        return found

    def _fields(
        self, packed: Sequence[bytes], lists: Collection[str] | None
    ) -> list[dict[str, Any]]:
        values, filled = records(packed, self.scheme)
        digests = written_digests([each[:DIGEST_BYTES] for each in packed])
        fields: list[dict[str, Any]]
        fields = [{"scheme": self.scheme.id, "digest": digest} for digest in digests]
        for row in np.flatnonzero(~filled).tolist():
            fields[row]["wordless"] = digests[row]
        rows = np.flatnonzero(filled).tolist()
        for each in self.scheme.sketches:
            if lists is None or each.key in lists:
                made = encode(values[each.key], each.bits)
                for row, tokens in zip(rows, made, strict=True):
                    fields[row][each.key] = tokens
        return fields

    def chosen(self, rows: Sequence[Columns], paths: list[str] | None = None) -> list[Document]:
        """Return documents with their tokens. paths: dotted names of fields; None for all."""
        lists = None if paths is None else [path.partition(".")[2] for path in paths]
        found = []
        sources = parsed([row.source for row in rows])
        for row, source, ours in zip(rows, sources, self.ours(rows, lists), strict=True):
            source[FIELD] = ours
            found.append(Document(row.id, source if paths is None else only(source, paths)))
        return found

    def documents(
        self, rows: Sequence[tuple[Any, ...]], kept: str = "", *, marked: bool = True
    ) -> list[Document]:
        """Return documents without their lists of tokens, except one.

        rows: the values of `Columns`, or without `marked` only ids and sources.
        """
        sources = parsed([row[1] for row in rows])
        # Most sources have no fields of ours.
        if any(name.startswith(FIELD) for name in set[str]().union(*sources)):
            sources = [without_tokens(each, kept) for each in sources]
        columns = [*map(Columns._make, rows)] if marked else []
        for row, source, ours in zip(columns, sources, self.ours(columns, (kept,)), strict=False):
            # Of packed tokens no other list was unpacked.
            if isinstance(row.tokens, str):
                ours = without_tokens({FIELD: ours}, kept)[FIELD]
            if ours:
                source[FIELD] = ours
        return [Document(row[0], source) for row, source in zip(rows, sources, strict=True)]

    def columns(self, documents: Sequence[Document] | EncodedDocuments) -> list[Columns]:
        """Return the columns of documents. Raises RecordError if one can't be stored."""
        if isinstance(documents, EncodedDocuments):
            scheme, packed = documents.tokens.get(FIELD, (None, []))
            if len(documents.tokens) > 1 or scheme is None or scheme.id != self.scheme.id:
                return self.columns(documents.documents())
            names = MARKS if documents.marks else ()
            marks = ([each.get(name) for each in documents.marks] for name in names)
            return [*map(Columns, documents.ids, documents.sources, packed, *marks)]
        rows = [*map(self._columns, documents)]
        unpacked = [at for at, row in enumerate(rows) if isinstance(row.tokens, str)]
        packed = self._packed([json.loads(rows[at].tokens) for at in unpacked])
        for at, tokens in zip(unpacked, packed, strict=True):
            rows[at] = rows[at]._replace(tokens=tokens or rows[at].tokens)
        return rows

    def _columns(self, document: Document) -> Columns:
        of = f"document {document.id!r}"
        if not is_unicode(document.id):
            raise RecordError(f"{of}: the id is not valid Unicode")
        source = {name: value for name, value in document.source.items() if name != FIELD}
        marks = {name: value for name, value in document.tokens.items() if _is_mark(name, value)}
        to_json(marks, of)
        rest = {name: value for name, value in document.tokens.items() if name not in marks}
        own = to_json(source, of) if document.raw is None else text_without(document.raw, FIELD)
        return Columns(document.id, own, to_json(rest, of), **marks)

    def _packed(self, tokens: Sequence[Mapping[str, Any]]) -> list[bytes | None]:
        """Return the tokens of each document packed, or None if that would change them."""
        filled = [each for each in tokens if "wordless" not in each]
        try:
            values = {
                each.key: each.decode([one[each.key] for one in filled])
                for each in self.scheme.sketches
            }
            rest = iter(pack_values(values, len(filled), self.scheme))
            words = digest_words([each["digest"] for each in tokens])
            packed = [
                digest.tobytes() + (b"" if "wordless" in each else next(rest))
                for digest, each in zip(words, tokens, strict=True)
            ]
            again = zip(packed, self._fields(packed, None), tokens, strict=True)
            return [data if fields == each else None for data, fields, each in again]
        except (KeyError, TypeError, ValueError):
            if len(tokens) == 1:
                return [None]
            return [data for each in tokens for data in self._packed([each])]

    def changed(self, rows: Sequence[Columns], changes: Sequence[Change]) -> list[Columns]:
        """Return the documents after changes. Raises RecordError if one can't be stored."""
        made = [*map(_marked, rows, changes)]
        others = [at for at, row in enumerate(made) if row is None]
        before = self.chosen([rows[at] for at in others])
        pairs = zip(before, others, strict=True)
        fresh = [_changed(document, rows[at], changes[at]) for document, at in pairs]
        columns = iter(self.columns(fresh))
        return [next(columns) if row is None else row for row in made]


def parsed(
    sources: Sequence[str], parse: Callable[[str], list[dict[str, Any]]] = json.loads
) -> list[dict[str, Any]]:
    """Return the objects of JSON. parse: parses an array of them."""
    # One call takes half of the time of a call for each row.
    return parse(f"[{','.join(sources)}]")


def with_raw(document: Document, row: Columns) -> Document:
    """Return a whole document with its JSON: that of its own fields as it came, and ours."""
    of = f"document {document.id!r}"
    ours = to_json(document.source[FIELD], of)
    return replace(document, raw=text_with(row.source, FIELD, ours))


def _changed(document: Document, row: Columns, change: Change) -> Document:
    """Return a document after a change, all other bytes of which are those of its row."""
    fields = change.fields or {}
    if change.whole:
        return Document(document.id, fields, change.raw)
    own = {name: value for name, value in fields.items() if name != FIELD}
    raw = merged_text(row.source, own, f"document {document.id!r}")
    return Document(document.id, merged(document.source, fields), raw)


def _marked(row: Columns, change: Change) -> Columns | None:
    """Return a document after a change of its marks alone, which reads nothing else, or None."""
    ours = change.fields[FIELD] if change.fields and change.fields.keys() == {FIELD} else None
    if change.whole or not isinstance(ours, Mapping) or not all(map(_is_mark, ours, ours.values())):
        return None
    marks: dict[str, Any] = {
        name: None if value is REMOVED else value for name, value in ours.items()
    }
    return row._replace(**marks)


def _is_mark(name: str, value: Any) -> bool:
    """Return whether a value belongs in the table of groups. Null removes a mark."""
    is_none = value is None or value is REMOVED
    return name in MARKS and (is_none or type(value) in (str, int, float))
