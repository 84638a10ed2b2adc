"""Documents as rows of a local file, and back.

Tokens that are those of the index's scheme are stored as packed bytes (`sketch.packed`), others as
JSON. Many rows are read in one call.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xxhash

from esdedup.exceptions import RecordError
from esdedup.models import FIELD, MARKS, Document
from esdedup.sketch.packed import DIGEST_BYTES, layout, records
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import digest_words, written_digests
from esdedup.sketch.tokens import decode, encode
from esdedup.stores.changes import merged
from esdedup.stores.encoded import Encoded, documents_of
from esdedup.stores.fields import only
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
    def marks(self) -> dict[str, Any]:
        """The marks that are there."""
        every = zip(MARKS, self[3:], strict=True)
        return {name: value for name, value in every if value is not None}

    @property
    def version(self) -> str:
        """A hash, so that a document that was changed back counts as unchanged."""
        text = f"{self.source}\0{self.tokens!r}\0{self[3:]!r}"
        return xxhash.xxh3_128_hexdigest(text.encode())


class Rows:
    """Reads and makes the rows of an index of a scheme."""

    def __init__(self, scheme: Scheme) -> None:
        self.scheme = scheme

    def ours(
        self, rows: Sequence[Columns], lists: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return the value of FIELD of each document.

        lists: names of the lists of tokens to unpack; None for all.
        """
        packed = iter(
            self._fields([each for _, _, each, *_ in rows if isinstance(each, bytes)], lists)
        )
        found = []
        for row in rows:
            ours = next(packed) if isinstance(row.tokens, bytes) else json.loads(row.tokens)
            found.append(ours if row[3:] == NO_MARKS else ours | row.marks)
        return found

    def _fields(
        self, packed: Sequence[bytes], lists: Collection[str] | None
    ) -> Iterator[dict[str, Any]]:
        values, filled = records(packed, self.scheme)
        digests = written_digests([each[:DIGEST_BYTES] for each in packed])
        chosen = [each for each in self.scheme.sketches if lists is None or each.key in lists]
        made = (encode(values[each.key].astype(np.uint64), each.bits) for each in chosen)
        tokens = zip(*made, strict=True)
        for digest, has_tokens in zip(digests, filled.tolist(), strict=True):
            fields = {"scheme": self.scheme.id, "digest": digest}
            if not has_tokens:
                fields["wordless"] = digest
            elif chosen:
                fields |= zip((each.key for each in chosen), next(tokens), strict=True)
            yield fields

    def chosen(self, rows: Sequence[Columns], paths: list[str] | None = None) -> list[Document]:
        """Return documents with their tokens. paths: dotted names of fields; None for all."""
        lists = None if paths is None else [path.partition(".")[2] for path in paths]
        found = []
        for row, ours in zip(rows, self.ours(rows, lists), strict=True):
            fields = {**json.loads(row.source), FIELD: ours}
            found.append(Document(row.id, fields if paths is None else only(fields, paths)))
        return found

    def documents(self, rows: Sequence[Columns], kept: str = "") -> list[Document]:
        """Return documents without their lists of tokens, except one."""
        found = []
        for row, ours in zip(rows, self.ours(rows, (kept,)), strict=True):
            fields = without_tokens(json.loads(row.source), kept)
            # Of packed tokens no other list was unpacked.
            if isinstance(row.tokens, str):
                ours = without_tokens({FIELD: ours}, kept)[FIELD]
            if ours:
                fields[FIELD] = ours
            found.append(Document(row.id, fields))
        return found

    def columns(self, document: Document | Encoded) -> Columns:
        """Return the columns of a document. Raises RecordError if it can't be stored."""
        if isinstance(document, Encoded):
            packed = document.ours.get(FIELD)
            if packed is None or len(document.ours) > 1 or packed.scheme.id != self.scheme.id:
                return self.columns(documents_of([document])[0])
            values = map(document.marks.get, MARKS) if document.marks else ()
            return Columns(document.id, document.source, packed.data, *values)
        of = f"document {document.id!r}"
        if not is_unicode(document.id):
            raise RecordError(f"{of}: the id is not valid Unicode")
        source = {name: value for name, value in document.source.items() if name != FIELD}
        marks = {name: value for name, value in document.tokens.items() if _is_mark(name, value)}
        to_json(marks, of)
        rest = {name: value for name, value in document.tokens.items() if name not in marks}
        tokens = self._packed(rest) or to_json(rest, of)
        return Columns(document.id, to_json(source, of), tokens, **marks)

    def _packed(self, tokens: Mapping[str, Any]) -> bytes | None:
        """Return tokens packed, or None if that would change them."""
        try:
            made = np.zeros(1, layout(self.scheme))
            for each in self.scheme.sketches if "wordless" not in tokens else ():
                made[each.key] = decode([tokens[each.key]], each.tokens, each.bits)
            data = digest_words([tokens["digest"]]).tobytes()
            if "wordless" not in tokens:
                data += made.tobytes()[DIGEST_BYTES:]
            return data if next(self._fields([data], None)) == tokens else None
        except (KeyError, TypeError, ValueError):
            return None

    def changed(self, row: Columns, fields: Mapping[str, Any]) -> Columns:
        """Return a document with merged fields. Raises RecordError if it can't be stored."""
        ours = fields[FIELD] if fields.keys() == {FIELD} else None
        if isinstance(ours, Mapping) and all(map(_is_mark, ours, ours.values())):
            # No other value has to be read.
            return row._replace(**ours)
        (document,) = self.chosen([row])
        return self.columns(Document(row.id, merged(document.source, fields)))


def _is_mark(name: str, value: Any) -> bool:
    """Return whether a value belongs in the table of groups. Null removes a mark."""
    return name in MARKS and (value is None or type(value) in (str, int, float))
