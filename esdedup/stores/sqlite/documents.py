"""Read and write the documents of one index in a local file, by id, by number, or at random."""

from __future__ import annotations

import itertools
import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

from esdedup.models import FIELD, MARKS
from esdedup.sketch.comparisons import JaccardSimilarity
from esdedup.sketch.sketch import known_operands
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.database import KnownTexts
from esdedup.stores.sqlite.listing import Listing
from esdedup.stores.sqlite.rows import NO_MARKS, NumberedRow, Row, RowFormat, quickly_parsed
from esdedup.stores.sqlite.table_names import TableNames
from esdedup.text.arrays import U64
from esdedup.text.characters import is_unicode

_VARIABLES = 500
"""Maximum number of values, or of new rows, in one SQL statement; SQLite takes far more."""

NUMBERS = "(SELECT value FROM json_each(?1))"
"""The values of a JSON array, parameter 1, in SQL."""

_MARKS = ", ".join(f'"{name}"' for name in MARKS)
COLUMNS = f"id, source, tokens, {_MARKS}"
"""In SQL, the columns of `Row`."""


class DocumentTable:
    """The documents of one index, used within a transaction of the caller's.

    format: turns documents into rows, and rows into documents.
    """

    def __init__(
        self,
        db: sqlite3.Connection,
        tables: TableNames,
        meta: IndexMeta,
        listing: Listing,
        texts: KnownTexts,
    ) -> None:
        """texts: the connection's knowledge of them."""
        self.db, self.tables, self.format = db, tables, RowFormat.of(meta)
        self._listing, self._texts = listing, texts
        self._text_fields = meta.text_fields

    def create_tables(self) -> None:
        """Create the tables of the index, without documents."""
        self.db.execute(
            f"CREATE TABLE {self.tables.documents}(number INTEGER PRIMARY KEY,"
            " id TEXT NOT NULL UNIQUE, tokens NOT NULL, source TEXT NOT NULL)"
        )
        self.db.execute(f"CREATE TABLE {self.tables.groups}(number INTEGER PRIMARY KEY, {_MARKS})")
        self.db.execute(f"CREATE TABLE {self.tables.listed}(number INTEGER NOT NULL)")
        self.db.execute(f"INSERT INTO {self.tables.listed} VALUES(0)")
        self.db.execute(
            f"CREATE TABLE {self.tables.runs}(list TEXT NOT NULL, run INTEGER NOT NULL,"
            " entries INTEGER NOT NULL, PRIMARY KEY(list, run))"
        )

    def drop_tables(self) -> None:
        """Delete the tables of the index with all documents."""
        self._texts.forget_all()
        runs = self.db.execute(f"SELECT list, run FROM {self.tables.runs}").fetchall()
        lists = (f"{name}.{run}" for name, run in runs)
        for name in ("documents", "groups", "listed", "runs", *lists):
            self.db.execute(f"DROP TABLE {self.tables.quoted(name)}")

    def stored(self, ids: Sequence[str]) -> dict[str, NumberedRow]:
        """Return the documents that exist, by id."""
        rows = self.by_id(f"{self.tables.documents}.number, {COLUMNS}", ids)
        return {id: NumberedRow(number, Row(id, *values)) for number, id, *values in rows}

    def by_id(self, selected: str, ids: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of documents that exist. selected: columns, in SQL."""
        # An id that is not valid Unicode can't be stored, so that it can't be found either.
        storable = [id for id in ids if is_unicode(id)]
        for first in range(0, len(storable), _VARIABLES):
            batch = storable[first : first + _VARIABLES]
            placeholders = ",".join("?" * len(batch))
            yield from self.db.execute(
                f"SELECT {selected} FROM {self.tables.marked} WHERE id IN ({placeholders})", batch
            ).fetchall()

    def by_number(
        self, numbers: Sequence[int], selected: str = COLUMNS, where: str = "", *values: object
    ) -> dict[int, tuple[Any, ...]]:
        """Return the rows of documents by number. where: parameters from ?2 on are values."""
        rows = self.db.execute(
            f"SELECT {self.tables.documents}.number, {selected} FROM {self.tables.marked}"
            f" WHERE {self.tables.documents}.number IN {NUMBERS} {where}",
            (json.dumps(numbers), *values),
        )
        return {row[0]: row[1:] for row in rows}

    def sample(self, selected: str, meta: IndexMeta, count: int, seed: int) -> list[Row]:
        """Return at most `count` random documents of a scheme. selected: of `columns_for`."""
        # Only numbers, because ordering a whole table at random would read all of it.
        query = f"SELECT number FROM {self.tables.documents} ORDER BY number"
        numbers = [number for (number,) in self.db.execute(query)]
        random.Random(seed).shuffle(numbers)
        sample, scheme = list[Row](), self.value_of(meta.field, "scheme")
        for first in range(0, len(numbers), _VARIABLES):
            batch = numbers[first : first + _VARIABLES]
            rows = self.by_number(batch, selected, f"AND {scheme} = ?2", meta.scheme.id)
            sample += [Row(*rows[number]) for number in batch if number in rows]
            if len(sample) >= count:
                break
        return sample[:count]

    def insert(self, rows: Sequence[Row]) -> list[int]:
        """Write new documents. Return the positions of those whose ids exist."""
        # Deleted documents leave numbers free, which count as listed.
        first = max(self._listing.last_document(), self._listing.listed()) + 1
        values = [
            (number, row.id, row.tokens, row.source) for number, row in enumerate(rows, first)
        ]
        created = 0
        for start in range(0, len(rows), _VARIABLES // 4):
            # A statement for each row would hand Python's lock to and fro with other threads.
            batch = values[start : start + _VARIABLES // 4]
            placeholders = ",".join(["(?, ?, ?, ?)"] * len(batch))
            created += self.db.execute(
                f"INSERT INTO {self.tables.documents} VALUES {placeholders}"
                " ON CONFLICT(id) DO NOTHING",
                [*itertools.chain.from_iterable(batch)],
            ).rowcount
        if created:
            self._texts.forget()
        conflicts: list[int] = []
        if created < len(rows):
            selected = f"{self.tables.documents}.number, id"
            numbers = {id: number for number, id in self.by_id(selected, [row.id for row in rows])}
            conflicts = [
                position for position, row in enumerate(rows) if numbers[row.id] != first + position
            ]
        marked = {position for position, row in enumerate(rows) if row.marks != NO_MARKS}
        marked.difference_update(conflicts)
        self._mark([NumberedRow(first + position, rows[position]) for position in sorted(marked)])
        return conflicts

    def replace(self, pairs: Sequence[tuple[NumberedRow, Row]]) -> None:
        """Write documents in place of stored ones; only what differs is written.

        pairs: the stored document, and the one to write.
        """
        rewritten = [
            (old, NumberedRow(old.number, new))
            for old, new in pairs
            if (old.row.source, old.row.tokens) != (new.source, new.tokens)
        ]
        if rewritten:
            self._texts.forget(old.number for old, _ in rewritten)
        listed, by_source = self._listing.listed(), self._listing.reads_source
        relisted = [
            (old, new)
            for old, new in rewritten
            if old.number <= listed and (by_source or old.row.tokens != new.row.tokens)
        ]
        self._listing.remove([old for old, _ in relisted])
        self.db.executemany(
            f"UPDATE {self.tables.documents} SET source = ?, tokens = ? WHERE number = ?",
            [(row.source, row.tokens, number) for _, (number, row) in rewritten],
        )
        self._listing.add([new for _, new in relisted])
        self._mark(
            [NumberedRow(old.number, new) for old, new in pairs if old.row.marks != new.marks]
        )

    def delete(self, rows: Sequence[NumberedRow]) -> None:
        """Delete documents with their tokens."""
        if rows:
            self._texts.forget(number for number, _ in rows)
        listed = self._listing.listed()
        self._listing.remove([row for row in rows if row.number <= listed])
        numbers = json.dumps([number for number, _ in rows])
        for table in (self.tables.documents, self.tables.groups):
            self.db.execute(f"DELETE FROM {table} WHERE number IN {NUMBERS}", (numbers,))

    def _mark(self, rows: Sequence[NumberedRow]) -> None:
        """Write the marks of documents, and remove those that documents have no longer."""
        table = self.tables.groups
        marked = [(number, *row.marks) for number, row in rows if row.marks != NO_MARKS]
        self.db.executemany(f"INSERT OR REPLACE INTO {table} VALUES(?, ?, ?, ?, ?)", marked)
        unmarked = [(number,) for number, row in rows if row.marks == NO_MARKS]
        self.db.executemany(f"DELETE FROM {table} WHERE number = ?", unmarked)

    def shingle_sets(self, numbers: Sequence[int]) -> dict[int, U64]:
        """Return the sets of the shingles of documents, by number."""
        sets = self._texts.shingle_sets.of(numbers, self._read_shingle_sets)
        return dict(zip(numbers, sets, strict=True))

    def _read_shingle_sets(self, numbers: Sequence[int]) -> list[U64]:
        rows = self.by_number(numbers, "source")
        sources = [rows[number][0] for number in numbers]
        texts = [text_at(source, self._text_fields) or "" for source in quickly_parsed(sources)]
        return known_operands(texts, self.format.scheme, JaccardSimilarity())

    def value_of(self, field: str, name: str) -> str:
        """Return the scheme or a mark below a field of ours, in SQL."""
        if field != FIELD:
            return f"json_extract(json_of(source), '$.{field}.{name}')"
        if name != "scheme":
            return f'"{name}"'
        return (
            f"CASE typeof(tokens) WHEN 'blob' THEN '{self.format.scheme.id}'"
            " ELSE json_extract(tokens, '$.scheme') END"
        )

    def columns_for(self, paths: list[str]) -> str:
        """Return the columns of documents, in SQL, that hold fields."""
        ours = all(path.startswith(f"{FIELD}.") and path.count(".") == 1 for path in paths)
        return COLUMNS.replace("source", "'{}'") if ours else COLUMNS
