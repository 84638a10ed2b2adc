"""Read and write the tables of one index in a local file: documents by id, at random, or by token.

Groups are in a table of their own, so that `group` writes small rows and no documents.

A table for each field of tokens lists the documents that hold a token. The first search lists the
new documents, many sorted together, which is several times as fast as listing each when it is
written (`benchmarks/local_store.py` at commit 4d72008); a run that only needs all pairs needs none.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import xxhash

from esdedup.exceptions import RecordError
from esdedup.models import (
    FIELD,
    MARKS,
    Candidate,
    CandidateQuery,
    Candidates,
    Document,
    Encoded,
    Held,
    tokens_in,
)
from esdedup.sketch.scheme import is_token_field
from esdedup.stores.fields import only
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.to_json import to_json
from esdedup.text.characters import is_unicode

LISTED_AT_ONCE = 100_000
"""Number of documents. They take some seconds, for which other writers wait."""

_VARIABLES = 500
"""Maximum number of values in one SQL statement; SQLite's own limit is far above."""

_SPARSE = 100
"""Numbers per document from which a sample is drawn from used numbers only."""

_OTHERS = f"{FIELD}_"
"""The names of fields for the tokens of other fields than the text begin so."""

_FIRST = '{"scheme":"'
NO_MARKS = (None,) * len(MARKS)
_MARKS = ", ".join(f'"{name}"' for name in MARKS)


TokensByNumber = Mapping[int, Mapping[str, Sequence[str]]]


class Columns(NamedTuple):
    """A document as columns. source, tokens: JSON objects, the latter without marks.

    The others are its marks, None for those that it lacks.
    """

    id: str
    source: str
    tokens: str
    group: Any = None
    original: Any = None
    similarity: Any = None
    distance: Any = None

    @property
    def marks(self) -> dict[str, Any]:
        """The marks that the document has."""
        return {
            name: value for name, value in zip(MARKS, self[3:], strict=True) if value is not None
        }

    @property
    def ours(self) -> dict[str, Any]:
        """The value of FIELD."""
        return {**json.loads(self.tokens), **self.marks}

    def lists(self, keys: Sequence[str]) -> dict[str, Sequence[str]]:
        """The tokens of the document by the names of the lists that hold them (`listed_as`)."""
        found = json.loads(self.tokens)
        if any("." in key for key in keys):
            source = json.loads(self.source)
            found |= {
                f"{field}.{name}": value
                for field in {key.partition(".")[0] for key in keys if "." in key}
                for name, value in tokens_in(source, field).items()
            }
        return {key: _texts(found.get(key)) for key in keys}

    @property
    def whole(self) -> Document:
        """The document with its tokens."""
        return Document(self.id, {**json.loads(self.source), FIELD: self.ours})

    def document(self, with_key: str = "") -> Document:
        """The document without its lists of tokens, except one."""
        kept = _without_tokens(self.ours, with_key)
        source = {
            name: _without_tokens(value, with_key) if name.startswith(_OTHERS) else value
            for name, value in json.loads(self.source).items()
        }
        return Document(self.id, {**source, **({FIELD: kept} if kept else {})})

    @property
    def version(self) -> str:
        """A hash, so that a document that was changed back counts as unchanged."""
        text = f"{self.source}\0{self.tokens}\0{self[3:]!r}"
        return xxhash.xxh3_128_hexdigest(text.encode())

    def changed(self, fields: Mapping[str, Any]) -> Columns:
        """The document with fields merged into it. Raises RecordError if it can't be stored."""
        ours = fields.get(FIELD)
        if (
            len(fields) == 1
            and isinstance(ours, Mapping)
            and all(map(_is_mark, ours, ours.values()))
        ):
            # No other value has to be read.
            return self._replace(**ours)
        return columns_of(Document(self.id, merged(self.whole.source, fields)))


def _without_tokens(ours: Any, but: str) -> Any:
    """Return the values below a field of ours without the lists of tokens, except one."""
    if not isinstance(ours, Mapping):
        return ours
    return {name: value for name, value in ours.items() if name == but or not is_token_field(name)}


Numbered = tuple[int, Columns]
"""A stored document with its number."""


class Tables:
    """The tables of one index, used within a transaction of the caller's."""

    def __init__(self, db: sqlite3.Connection, index: str) -> None:
        self.db = db
        # SQLite ignores case in names, and reserves those that begin with sqlite_.
        cased = re.sub("[A-Z^]", lambda found: f"^{found[0].lower()}", index)
        self._index = cased.replace('"', '""')
        self.documents = self._name("documents")
        self.groups = self._name("groups")
        self._keys: list[str] | None = None

    def _name(self, name: str) -> str:
        """The quoted name of a table: documents, groups, listed, or a field of tokens."""
        return f'"{name}:{self._index}"'

    @property
    def marked(self) -> str:
        """The documents with their marks, in SQL."""
        return f"{self.documents} LEFT JOIN {self.groups} USING (number)"

    @property
    def keys(self) -> list[str]:
        """The names of the lists of tokens (`listed_as`)."""
        if self._keys is None:
            end = f":{self._index}".replace('""', '"')
            found = self.db.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, ?) = ?",
                (-len(end), end),
            )
            names = sorted(name[: -len(end)] for (name,) in found)
            self._keys = [
                name
                for name in names
                if ":" not in name
                and ((key := name.split(".")[-1]) == "wordless" or is_token_field(key))
            ]
        return self._keys

    def create(self, meta: IndexMeta) -> None:
        """Make the tables."""
        self.db.execute(
            f"CREATE TABLE {self.documents}(number INTEGER PRIMARY KEY,"
            " id TEXT NOT NULL UNIQUE, source TEXT NOT NULL, scheme TEXT, tokens TEXT NOT NULL)"
        )
        self.db.execute(f"CREATE TABLE {self.groups}(number INTEGER PRIMARY KEY, {_MARKS})")
        keys = [(part.field, key) for part in meta.parts for key in (*part.scheme.keys, "wordless")]
        for name in itertools.starmap(listed_as, keys):
            self.db.execute(
                f"CREATE TABLE {self._name(name)}(token TEXT NOT NULL,"
                " document INTEGER NOT NULL, PRIMARY KEY(token, document)) WITHOUT ROWID"
            )
        self.db.execute(f"CREATE TABLE {self._name('listed')}(number INTEGER NOT NULL)")
        self.db.execute(f"INSERT INTO {self._name('listed')} VALUES(0)")

    def drop(self) -> None:
        """Delete the tables."""
        for name in ("documents", "groups", *self.keys, "listed"):
            self.db.execute(f"DROP TABLE {self._name(name)}")

    def last(self) -> int:
        """Return the highest number of a document, or 0."""
        last = f"SELECT coalesce(max(number), 0) FROM {self.documents}"
        return int(self.db.execute(last).fetchone()[0])

    def next(self, number: int) -> int:
        """Return the lowest number of a document from a number on, or 0 if there is none."""
        lowest = f"SELECT coalesce(min(number), 0) FROM {self.documents} WHERE number >= ?"
        return int(self.db.execute(lowest, (number,)).fetchone()[0])

    def _listed(self) -> int:
        """Return the number up to which documents are listed."""
        return int(self.db.execute(f"SELECT number FROM {self._name('listed')}").fetchone()[0])

    def waiting(self) -> int:
        """Return the number of documents that are not listed yet, or a little more."""
        waiting = f"(SELECT max(number) FROM {self.documents}) - number"
        found = self.db.execute(f"SELECT max(0, {waiting}) FROM {self._name('listed')}")
        return int(found.fetchone()[0] or 0)

    def stored(self, ids: Sequence[str]) -> dict[str, Numbered]:
        """Return the documents that exist, by id."""
        rows = self._by_id(f"{self.documents}.number, {_columns('source', 'tokens')}", ids)
        return {id: (number, Columns(id, *rest)) for number, id, *rest in rows}

    def read(self, ids: Sequence[str], paths: list[str] | None) -> dict[str, Document]:
        """Return documents by id, without their tokens. paths: as in `Store.get`."""
        # Parsing tokens takes most of the time.
        ours = paths is None or any(path.split(".")[0] == FIELD for path in paths)
        columns = _columns("source", "tokens" if ours else "'{}'")
        found = [Columns(*row).document() for row in self._by_id(columns, ids)]
        if paths is not None:
            found = [Document(each.id, only(each.source, paths)) for each in found]
        return {each.id: each for each in found}

    def held(self, ids: Sequence[str], paths: list[str] | None = None) -> dict[str, Held]:
        """Return documents by id, with their versions. paths: as in `Store.hold`."""
        chosen = (lambda row: row.whole.source) if paths is None else columns_for(paths)[1]
        return {
            id: Held(Document(id, chosen(row)), row.version)
            for id, (_, row) in self.stored(ids).items()
        }

    def _by_id(self, columns: str, ids: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        # An id that is not valid Unicode can't be stored, so that it can't be found either.
        known = [id for id in ids if is_unicode(id)]
        for first in range(0, len(known), _VARIABLES):
            some = known[first : first + _VARIABLES]
            marks = ",".join("?" * len(some))
            yield from self.db.execute(
                f"SELECT {columns} FROM {self.marked} WHERE id IN ({marks})", some
            ).fetchall()

    def sample(self, columns: str, meta: IndexMeta, count: int, seed: int) -> list[Columns]:
        """Return at most `count` random documents of a scheme. columns: of `columns_for`."""
        scheme = value_of(meta.field, "scheme")
        # Drawn by number, because ordering a whole table at random would read all of it.
        last = self.last()
        drawn = _shuffled(range(1, last + 1), seed)
        (documents,) = self.db.execute(f"SELECT count(*) FROM {self.documents}").fetchone()
        if last > _SPARSE * documents:
            numbers = self.db.execute(f"SELECT number FROM {self.documents} ORDER BY number")
            drawn = _shuffled([number for (number,) in numbers], seed)
        found: list[Columns] = []
        while len(found) < count and (some := list(itertools.islice(drawn, _VARIABLES))):
            rows = self.db.execute(
                f"SELECT number, {columns} FROM {self.marked}"
                f" WHERE {scheme} = ? AND number IN (SELECT value FROM json_each(?))",
                (meta.scheme.id, json.dumps(some)),
            )
            by_number = {number: Columns(*row) for number, *row in rows}
            found += [by_number[number] for number in some if number in by_number]
        return found[:count]

    def insert(self, rows: Sequence[Columns]) -> list[int]:
        """Write new documents. Return the positions of those whose ids are taken."""
        # Deleted documents leave numbers free, which count as listed.
        first = max(self.last(), self._listed()) + 1
        done = self.db.executemany(
            f"INSERT INTO {self.documents} VALUES(?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING",
            [
                (number, row[0], row[1], _scheme_in(row[2]), row[2])
                for number, row in enumerate(rows, first)
            ],
        )
        taken: list[int] = []
        if done.rowcount < len(rows):
            columns = f"{self.documents}.number, id"
            numbers = {id: number for number, id in self._by_id(columns, [row.id for row in rows])}
            taken = [at for at, row in enumerate(rows) if numbers[row.id] != first + at]
        marked = {at for at, row in enumerate(rows) if row[3:] != NO_MARKS}.difference(taken)
        self._mark([(first + at, rows[at]) for at in sorted(marked)])
        return taken

    def replace(self, rows: Sequence[tuple[Numbered, Columns]]) -> None:
        """Write documents in place of stored ones, which keep their numbers.

        Only what differs is written.
        """
        written = [(number, row) for (number, old), row in rows if old[1:3] != row[1:3]]
        self.db.executemany(
            f"UPDATE {self.documents} SET source = ?, scheme = ?, tokens = ? WHERE number = ?",
            [(row.source, _scheme_in(row.tokens), row.tokens, number) for number, row in written],
        )
        # The source holds the tokens of other fields than the text.
        first = 1 if any("." in key for key in self.keys) else 2
        listed = [(old, row) for old, row in rows if old[1][first:3] != row[first:3]]
        new = {number: row.lists(self.keys) for (number, _), row in listed}
        self._list([old for old, _ in listed], new)
        self._mark([(number, row) for (number, old), row in rows if old[3:] != row[3:]])

    def forget(self, rows: Sequence[Numbered]) -> None:
        """Delete documents with their tokens."""
        self._list(rows, {})
        for table in (self.documents, self.groups):
            gone = [(number,) for number, _ in rows]
            self.db.executemany(f"DELETE FROM {table} WHERE number = ?", gone)

    def _mark(self, rows: Sequence[Numbered]) -> None:
        """Write the marks of documents."""
        marked = [(number, *row[3:]) for number, row in rows if row[3:] != NO_MARKS]
        self.db.executemany(f"INSERT OR REPLACE INTO {self.groups} VALUES(?, ?, ?, ?, ?)", marked)
        bare = [(number,) for number, row in rows if row[3:] == NO_MARKS]
        self.db.executemany(f"DELETE FROM {self.groups} WHERE number = ?", bare)

    def _list(self, old: Sequence[Numbered], new: TokensByNumber) -> None:
        """Replace the tokens of listed documents in the lists."""
        listed = self._listed()
        former = {number: row.lists(self.keys) for number, row in old if number <= listed}
        for key in self.keys:
            before, after = _rows(key, former, listed), _rows(key, new, listed)
            table, gone, added = self._name(key), sorted(before - after), sorted(after - before)
            self.db.executemany(f"DELETE FROM {table} WHERE token = ? AND document = ?", gone)
            self.db.executemany(f"INSERT OR IGNORE INTO {table} VALUES(?, ?)", added)

    def list_more(self) -> None:
        """List the next documents, at most LISTED_AT_ONCE."""
        listed = self._listed()
        # Past numbers that deleted documents left free.
        first = max(listed, self.next(listed + 1) - 1)
        last = min(self.last(), first + LISTED_AT_ONCE)
        for key in self.keys:
            # In the order of the tree, which takes them in faster.
            self.db.execute(
                f"INSERT OR IGNORE INTO {self._name(key)} SELECT each.value, number"
                f" FROM {self.documents}, {_tokens_of(key)} AS each"
                " WHERE number > ? AND number <= ? ORDER BY 1, 2",
                (first, last),
            )
        self.db.execute(f"UPDATE {self._name('listed')} SET number = max(number, ?)", (last,))

    def holders(self, key: str, waiting: int) -> str:
        """Return an SQL query for the documents that hold any token of a JSON array, parameter 1.

        It yields a document once for each token; the array has no token twice. waiting: the number
        of documents that are not listed yet.
        """
        # By IN, SQLite would sort the tokens first.
        found = f"SELECT document FROM json_each(?1) CROSS JOIN {self._name(key)} ON token = value"
        if not waiting:
            return found
        return (
            f"{found} UNION ALL SELECT number FROM {self.documents}, {_tokens_of(key)} AS each"
            f" WHERE number > {self._listed()}"
            " AND each.value IN (SELECT value FROM json_each(?1))"
        )

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        """Return for each query the `limit` documents that share most token groups with it."""
        # A document has one token of each position, and a group is of one position, so that
        # counting tokens counts groups. Only the best are joined, because sorting whole documents
        # would read them all.
        keys, waiting = {listed_as(query.field, query.key) for query in queries}, self.waiting()
        holders = {key: self.holders(key, waiting) for key in keys}
        answers = []
        for query in queries:
            mark = value_of(query.field, "original")
            original = f"(SELECT {mark} FROM {self.marked} WHERE number = document)"
            tokens = [*dict.fromkeys(itertools.chain.from_iterable(query.groups))]
            exclude = query.exclude if is_unicode(query.exclude or "") else None
            wanted = f"AND {original} IS NULL" if query.originals else ""
            found = self.db.execute(
                f"SELECT met, {_columns('source', 'tokens')} FROM"
                f" (SELECT document AS number, count(*) AS met FROM "
                f" ({holders[listed_as(query.field, query.key)]})"
                f" WHERE document IS NOT (SELECT number FROM {self.documents} WHERE id = ?2)"
                f" GROUP BY document HAVING met >= ?3 {wanted} ORDER BY met DESC, document"
                f" LIMIT ?4) JOIN {self.documents} USING (number)"
                f" LEFT JOIN {self.groups} USING (number) ORDER BY met DESC, number",
                (json.dumps(tokens), exclude, query.least, limit + 1),
            ).fetchall()
            kept = query.key if query.kept else ""
            best = [Candidate(Columns(*row).document(kept), met) for met, *row in found[:limit]]
            answers.append(Candidates(best, len(found) > limit))
        return answers


def _rows(key: str, tokens: TokensByNumber, listed: int) -> set[tuple[str, int]]:
    return {
        (token, number)
        for number, each in tokens.items()
        if number <= listed
        for token in each[key]
    }


def listed_as(field: str, key: str) -> str:
    """Return the name of the list of tokens of a key below a field of ours.

    Tokens of other fields than the text are part of `Columns.source`, and so are their marks.
    """
    return key if field == FIELD else f"{field}.{key}"


def _tokens_of(name: str) -> str:
    """Return the rows of a document's tokens for a list, in SQL."""
    return f"json_each({'source' if '.' in name else 'tokens'}, '$.{name}')"


def value_of(field: str, name: str) -> str:
    """Return the scheme or a mark below a field of ours, in SQL."""
    return f'"{name}"' if field == FIELD else f"json_extract(source, '$.{field}.{name}')"


def _texts(value: Any) -> Sequence[str]:
    """Return a text or a list of texts as a list."""
    return [value] if isinstance(value, str) else value or ()


def _is_mark(name: str, value: Any) -> bool:
    """Return whether a value belongs in the table of groups. Null removes a mark."""
    return name in MARKS and (value is None or type(value) in (str, int, float))


def _scheme_in(tokens: str) -> Any:
    """Return the scheme of tokens, given as JSON."""
    if tokens.startswith(_FIRST):
        # All that we write from texts begins so.
        return tokens[len(_FIRST) : tokens.index('"', len(_FIRST))]
    return json.loads(tokens).get("scheme")


def columns_of(document: Document | Encoded) -> Columns:
    """Return the columns of a document. Raises RecordError if it can't be stored."""
    of = f"document {document.id!r}"
    if isinstance(document, Encoded):
        tokens = document.ours.get(FIELD)
        if tokens is None or len(document.ours) > 1:
            return columns_of(document.document)
        values = map(document.marks.get, MARKS) if document.marks else ()
        return Columns(document.id, document.source, tokens, *values)
    if not is_unicode(document.id):
        raise RecordError(f"{of}: the id is not valid Unicode")
    source = {name: value for name, value in document.source.items() if name != FIELD}
    ours = document.tokens
    marks = {name: value for name, value in ours.items() if _is_mark(name, value)}
    to_json(marks, of)
    rest = {name: value for name, value in ours.items() if name not in marks}
    return Columns(document.id, to_json(source, of), to_json(rest, of), **marks)


def _columns(source: str, tokens: str) -> str:
    """The columns of `Columns` in SQL."""
    return f"id, {source}, {tokens}, {_MARKS}"


def columns_for(paths: list[str]) -> tuple[str, Callable[[Columns], dict[str, Any]]]:
    """Return the columns of documents, in SQL, and a function that picks the paths.

    The document's own fields are NULL, and not read, if only fields of ours are requested.
    """
    names = {path: path.removeprefix(f"{FIELD}.") for path in paths}
    if all(path == f"{FIELD}.{name}" and "." not in name for path, name in names.items()):

        def of_tokens(row: Columns) -> dict[str, Any]:
            found = row.ours
            kept = {name: found[name] for name in names.values() if name in found}
            return {FIELD: kept} if kept else {}

        return _columns("NULL", "tokens"), of_tokens
    return _columns("source", "tokens"), lambda row: only(row.whole.source, paths)


def merged(old: Any, new: Any) -> Any:
    """Merge a partial document into another, as a cluster does."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}


def _shuffled(numbers: Sequence[int], seed: int) -> Iterator[int]:
    """Yield numbers in random order, each once."""
    source = random.Random(seed)
    drawn: set[int] = set()
    while 2 * len(drawn) < len(numbers):
        number = numbers[source.randrange(len(numbers))]
        if number not in drawn:
            drawn.add(number)
            yield number
    # When few numbers are left, most draws would repeat.
    rest = [number for number in numbers if number not in drawn]
    source.shuffle(rest)
    yield from rest
