"""The tables of one index in a local file: documents as rows, by id, at random, or by token."""

from __future__ import annotations

import itertools
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import xxhash

from esdedup.exceptions import RecordError
from esdedup.models import FIELD, TOKEN_KINDS, Candidate, CandidateQuery, Candidates, Document, Held
from esdedup.stores.fields import only
from esdedup.stores.sqlite.postings import DIGEST, Postings
from esdedup.stores.to_json import to_json

_VARIABLES = 500
"""Maximum number of values in one SQL statement; SQLite's own limit is far above."""

ORIGINAL = "json_extract(tokens, '$.original')"
"""The id of the document that a document is marked as a duplicate of, in SQL."""

Columns = tuple[str, str, str | None, str]
"""The columns of a document: id, fields, scheme, tokens."""

TokensOf = dict[str, tuple[int, dict[str, Any]]]
"""The number and the tokens of documents, by their ids."""


class Tables:
    """The tables of one index, used within a transaction of the caller's."""

    def __init__(self, index: str) -> None:
        self._index = index
        self.postings = Postings(self.name)

    def create(self, db: sqlite3.Connection) -> None:
        """Makes the tables."""
        db.execute(
            f"CREATE TABLE {self.name('documents')}(number INTEGER PRIMARY KEY,"
            " id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, scheme TEXT, tokens TEXT)"
        )
        db.execute(f"CREATE INDEX {self.name('digest')} ON {self.name('documents')}({DIGEST})")
        self.postings.create(db)

    def read(
        self, db: sqlite3.Connection, ids: Sequence[str], paths: list[str] | None
    ) -> dict[str, Document]:
        """Documents by id, without their tokens. paths: as in `Store.get`."""
        # To parse tokens that are not asked for would take most of the time.
        ours = paths is None or any(path.split(".")[0] == FIELD for path in paths)
        rows = self._by_id(db, "id, source, tokens" if ours else "id, source, '{}'", ids)
        found = [as_document(*row) for row in rows]
        if paths is not None:
            found = [Document(each.id, only(each.source, paths)) for each in found]
        return {each.id: each for each in found}

    def tokens_of(self, db: sqlite3.Connection, ids: Sequence[str]) -> TokensOf:
        """The numbers and the tokens of the documents that exist."""
        rows = self._by_id(db, "id, number, tokens", ids)
        return {id: (number, json.loads(tokens)) for id, number, tokens in rows}

    def held(self, db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Held]:
        """Whole documents by id, with their versions."""
        found: dict[str, Held] = {}
        for id, source, tokens in self._by_id(db, "id, source, tokens", ids):
            document = Document(id, {**json.loads(source), FIELD: json.loads(tokens)})
            # A document that was changed and changed back counts as unchanged.
            found[id] = Held(document, xxhash.xxh3_128_hexdigest(f"{source}\0{tokens}".encode()))
        return found

    def _by_id(
        self, db: sqlite3.Connection, columns: str, ids: Sequence[str]
    ) -> Iterator[tuple[Any, ...]]:
        """Yields columns of the documents that exist."""
        # An id that is not valid Unicode can't be stored, so that it can't be found either.
        known = [id for id in ids if is_unicode(id)]
        for first in range(0, len(known), _VARIABLES):
            some = known[first : first + _VARIABLES]
            marks = ",".join("?" * len(some))
            yield from db.execute(
                f"SELECT {columns} FROM {self.name('documents')} WHERE id IN ({marks})", some
            )

    def forget(self, db: sqlite3.Connection, stored: TokensOf) -> None:
        """Deletes documents with their tokens."""
        self.postings.replace(db, dict(stored.values()), {})
        db.executemany(
            f"DELETE FROM {self.name('documents')} WHERE number = ?",
            [(number,) for number, _ in stored.values()],
        )

    def sample(
        self, db: sqlite3.Connection, scheme: str, count: int, seed: int
    ) -> list[tuple[str, str, str]]:
        """The id, fields and tokens of at most `count` random documents of a scheme."""
        table = self.name("documents")
        # Drawn by number, because ordering a whole table at random would read all of it.
        drawn = _shuffled(self.postings.last(db), seed)
        found: list[tuple[str, str, str]] = []
        while len(found) < count and (some := list(itertools.islice(drawn, _VARIABLES))):
            rows = db.execute(
                f"SELECT number, id, source, tokens FROM {table}"
                " WHERE scheme = ? AND number IN (SELECT value FROM json_each(?))",
                (scheme, json.dumps(some)),
            )
            by_number = {number: (id, source, tokens) for number, id, source, tokens in rows}
            found += [by_number[number] for number in some if number in by_number]
        return found[:count]

    def replace(self, db: sqlite3.Connection, columns: Sequence[Columns], stored: TokensOf) -> None:
        """Writes documents; one whose id exists is replaced, and its number stays.

        columns: of each document, by `as_columns`, which takes longer than writing them. stored:
        `tokens_of` their ids.
        """
        fresh = (id for id, *_ in columns if id not in stored)
        first = self.postings.next_number(db)
        numbers = {id: number for id, (number, _) in stored.items()}
        numbers |= {id: number for number, id in enumerate(fresh, first)}
        db.executemany(
            f"INSERT OR REPLACE INTO {self.name('documents')} VALUES(?, ?, ?, ?, ?)",
            ((numbers[row[0]], *row) for row in columns),
        )
        # A new document is not listed yet.
        new = {numbers[id]: json.loads(tokens) for id, *_, tokens in columns if id in stored}
        self.postings.replace(db, dict(stored.values()), new)

    def candidates(
        self, db: sqlite3.Connection, queries: Sequence[CandidateQuery], limit: int
    ) -> list[Candidates]:
        """For each query the `limit` documents that share most token groups with it."""
        # A document has one token of each position, and a group is of one position, so that
        # counting tokens counts groups. Only the best are joined, because sorting whole documents
        # would read them all.
        documents = self.name("documents")
        original = f"(SELECT {ORIGINAL} FROM {documents} WHERE number = document)"
        holders = {kind: self.postings.holders(db, kind) for kind in {q.kind for q in queries}}
        answers = []
        for query in queries:
            tokens = [token for group in query.groups for token in group]
            exclude = query.exclude if is_unicode(query.exclude or "") else None
            wanted = f"AND {original} IS NULL" if query.originals else ""
            found = db.execute(
                f"SELECT id, source, tokens, met FROM (SELECT document, count(*) AS met"
                f" FROM ({holders[query.kind]})"
                f" WHERE document IS NOT (SELECT number FROM {documents} WHERE id = ?2)"
                f" GROUP BY document HAVING met >= ?3 {wanted} ORDER BY met DESC, document"
                f" LIMIT ?4) JOIN {documents} ON number = document ORDER BY met DESC, number",
                (json.dumps(tokens), exclude, query.least, limit + 1),
            ).fetchall()
            best = [Candidate(as_document(*row), met) for *row, met in found[:limit]]
            answers.append(Candidates(best, len(found) > limit))
        return answers

    def name(self, name: str) -> str:
        """The quoted name of one of the tables: documents, or one of the postings."""
        # SQLite ignores case in names, and reserves those that begin with sqlite_.
        cased = re.sub("[A-Z^]", lambda found: f"^{found[0].lower()}", self._index)
        quoted = cased.replace('"', '""')
        return f'"{name}:{quoted}"'


def as_columns(document: Document) -> Columns:
    """Returns the columns of a document. Raises RecordError if it can't be stored."""
    if not is_unicode(document.id):
        raise RecordError(f"document {document.id!r}: the id is not valid Unicode")
    source = {name: value for name, value in document.source.items() if name != FIELD}
    return (
        document.id,
        to_json(source, f"document {document.id!r}"),
        document.tokens.get("scheme"),
        json.dumps(document.tokens),
    )


def as_document(id: str, source: str, tokens: str) -> Document:
    """Returns a document as callers get it, without its lists of tokens."""
    kept = {name: value for name, value in json.loads(tokens).items() if name not in TOKEN_KINDS}
    return Document(id, {**json.loads(source), **({FIELD: kept} if kept else {})})


def columns_for(paths: list[str]) -> tuple[str, Callable[[str, str], dict[str, Any]]]:
    """Returns the column of a document's own fields, in SQL, and a function that picks the paths.

    The column is NULL if only fields of ours are asked for, which spares reading the others.
    """
    names = {path: path.removeprefix(f"{FIELD}.") for path in paths}
    if all(path == f"{FIELD}.{name}" and "." not in name for path, name in names.items()):

        def of_tokens(_: str, tokens: str) -> dict[str, Any]:
            found = json.loads(tokens)
            return {path: found[name] for path, name in names.items() if name in found}

        return "NULL", of_tokens
    return "source", lambda source, tokens: only(
        {**json.loads(source), FIELD: json.loads(tokens)}, paths
    )


def merged(old: Any, new: Any) -> Any:
    """Merges a partial document into another, as a cluster does."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def is_unicode(text: str) -> bool:
    """Tells whether a text is free of half surrogate pairs, which neither SQLite nor JSON takes."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def _shuffled(last: int, seed: int) -> Iterator[int]:
    """The numbers 1 to `last` in random order, each once."""
    source = random.Random(seed)
    drawn: set[int] = set()
    while 2 * len(drawn) < last:
        number = source.randrange(last) + 1
        if number not in drawn:
            drawn.add(number)
            yield number
    # If few numbers are left, most draws would be of numbers that came already.
    rest = [number for number in range(1, last + 1) if number not in drawn]
    source.shuffle(rest)
    yield from rest
