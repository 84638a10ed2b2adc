"""Read and write the tables of one index in a local file: documents by id, at random, or by token.

Groups are in a table of their own, so that `group` writes small rows and no documents.

The first search lists the tokens of new documents, sorted together (`postings`), which takes a
small part of the time of listing each document when it is written.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from esdedup.models import FIELD, MARKS, CandidateQuery, Candidates, tokens_in
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.packed import is_wordless, records
from esdedup.sketch.sketch import KeptSets, known_sets, written_digests
from esdedup.sketch.tokens import flat
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.postings import Postings, numbers_of, numbers_of_values
from esdedup.stores.sqlite.rows import NO_MARKS, Columns, Rows, parsed
from esdedup.text.arrays import I64, U64, Ragged, blocks, offsets_of, ranges
from esdedup.text.characters import is_unicode

LISTED_AT_ONCE = 100_000
"""Number of documents. They take less than a second, for which other writers wait."""

_ENTRIES_AT_ONCE = 1 << 22
"""Of documents with many tokens fewer are listed at once: an entry takes 40 bytes meanwhile."""

_READ_AT_ONCE = 2_000
"""Number of documents whose tokens are unpacked together."""

_FEW = 50
"""Number of candidates that are fetched without being compared first."""

_VARIABLES = 500
"""Maximum number of values, or of new rows, in one SQL statement; SQLite takes far more."""

_GIVEN = "(SELECT value FROM json_each(?1))"
"""The values of a JSON array, parameter 1, in SQL."""

_NONE = np.empty(0, np.int64)
_MANY_PER_ENTRY = 32
"""A counter is read in a fraction of the time in which an entry is sorted."""
_MET_AT_ONCE = 1 << 20
"""Entries counted together: 50 MB of arrays."""

_NUMBER_BITS = 48
"""Bits of a document's number."""

_MARKS = ", ".join(f'"{name}"' for name in MARKS)
COLUMNS = f"id, source, tokens, {_MARKS}"
"""In SQL, the columns of `Columns`."""

Numbered = tuple[int, Columns]
"""A stored document with its number."""

Entries = tuple[U64, U64]
"""Tokens as numbers, and the number of a document that holds each."""


class _Ranked(NamedTuple):
    """The candidates of a query, by their numbers. The other values are those of `Candidates`."""

    numbers: I64
    shared: I64
    missed: int
    similarities: Sequence[float] = ()
    excluded: int = 0
    matching: int = 0


class Tables:
    """The tables of one index, used within a transaction of the caller's."""

    def __init__(
        self, db: sqlite3.Connection, index: str, meta: IndexMeta, known: KeptSets[int]
    ) -> None:
        """known: sets of the shingles of documents, by number, which searches keep."""
        self.db, self._known = db, known
        # SQLite ignores case in names, and reserves those that begin with sqlite_.
        cased = re.sub("[A-Z^]", lambda found: f"^{found[0].lower()}", index)
        self._index = cased.replace('"', '""')
        self.documents, self.groups = self._name("documents"), self._name("groups")
        self.marked = f"{self.documents} LEFT JOIN {self.groups} USING (number)"
        """The documents with their marks, in SQL."""
        self.rows, self._in_source = Rows(meta.scheme), bool(meta.others) or meta.field != FIELD
        self._text_fields = meta.text_fields
        self._lists: dict[str, tuple[str, str, Sketch | None]] = {}
        """By the name of a list of tokens: its field of ours, its key below, and its sketch."""
        for part in meta.parts:
            for each in (*part.scheme.sketches, None):
                key = "wordless" if each is None else each.key
                self._lists[listed_as(part.field, key)] = part.field, key, each

    def _name(self, name: str) -> str:
        """Return the quoted name of a table: documents, groups, listed, runs, or a list's run."""
        return f'"{name}:{self._index}"'

    def one(self, statement: str, *values: Any) -> Any:
        """Return the first column of the first row."""
        return self.db.execute(statement, values).fetchone()[0]

    def create(self) -> None:
        self.db.execute(
            f"CREATE TABLE {self.documents}(number INTEGER PRIMARY KEY,"
            " id TEXT NOT NULL UNIQUE, tokens NOT NULL, source TEXT NOT NULL)"
        )
        self.db.execute(f"CREATE TABLE {self.groups}(number INTEGER PRIMARY KEY, {_MARKS})")
        self.db.execute(f"CREATE TABLE {self._name('listed')}(number INTEGER NOT NULL)")
        self.db.execute(f"INSERT INTO {self._name('listed')} VALUES(0)")
        self.db.execute(
            f"CREATE TABLE {self._name('runs')}(list TEXT NOT NULL, run INTEGER NOT NULL,"
            " entries INTEGER NOT NULL, PRIMARY KEY(list, run))"
        )

    def drop(self) -> None:
        self._known.clear()
        runs = self.db.execute(f"SELECT list, run FROM {self._name('runs')}").fetchall()
        lists = (f"{name}.{run}" for name, run in runs)
        for name in ("documents", "groups", "listed", "runs", *lists):
            self.db.execute(f"DROP TABLE {self._name(name)}")

    def last(self) -> int:
        """Return the highest number of a document, or 0."""
        return int(self.one(f"SELECT coalesce(max(number), 0) FROM {self.documents}"))

    def next(self, number: int) -> int:
        """Return the lowest number of a document from a number on, or 0 if there is none."""
        lowest = f"SELECT coalesce(min(number), 0) FROM {self.documents} WHERE number >= ?"
        return int(self.one(lowest, number))

    def _listed(self) -> int:
        return int(self.one(f"SELECT number FROM {self._name('listed')}"))

    def waiting(self) -> int:
        """Return the number of documents that are not listed yet, or a little more."""
        return max(0, self.last() - self._listed())

    def stored(self, ids: Sequence[str]) -> dict[str, Numbered]:
        """Return the documents that exist, by id."""
        rows = self.by_id(f"{self.documents}.number, {COLUMNS}", ids)
        return {id: (number, Columns(id, *rest)) for number, id, *rest in rows}

    def by_id(self, selected: str, ids: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of documents that exist. selected: columns, in SQL."""
        # An id that is not valid Unicode can't be stored, so that it can't be found either.
        known = [id for id in ids if is_unicode(id)]
        for first in range(0, len(known), _VARIABLES):
            some = known[first : first + _VARIABLES]
            marks = ",".join("?" * len(some))
            yield from self.db.execute(
                f"SELECT {selected} FROM {self.marked} WHERE id IN ({marks})", some
            ).fetchall()

    def _by_number(
        self, numbers: Sequence[int], selected: str = COLUMNS, where: str = "", *values: Any
    ) -> dict[int, tuple[Any, ...]]:
        """Return the rows of documents by number. where: parameters from ?2 on are values."""
        rows = self.db.execute(
            f"SELECT {self.documents}.number, {selected} FROM {self.marked}"
            f" WHERE {self.documents}.number IN {_GIVEN} {where}",
            (json.dumps(numbers), *values),
        )
        return {row[0]: row[1:] for row in rows}

    def sample(self, selected: str, meta: IndexMeta, count: int, seed: int) -> list[Columns]:
        """Return at most `count` random documents of a scheme. selected: of `columns_for`."""
        # Only numbers, because ordering a whole table at random would read all of it.
        query = f"SELECT number FROM {self.documents} ORDER BY number"
        numbers = [number for (number,) in self.db.execute(query)]
        random.Random(seed).shuffle(numbers)
        found, scheme = list[Columns](), self.value_of(meta.field, "scheme")
        for first in range(0, len(numbers), _VARIABLES):
            some = numbers[first : first + _VARIABLES]
            known = self._by_number(some, selected, f"AND {scheme} = ?2", meta.scheme.id)
            found += [Columns(*known[number]) for number in some if number in known]
            if len(found) >= count:
                break
        return found[:count]

    def insert(self, rows: Sequence[Columns]) -> list[int]:
        """Write new documents. Return the positions of those whose ids are taken."""
        # Deleted documents leave numbers free, which count as listed.
        first = max(self.last(), self._listed()) + 1
        numbered = [(at, row.id, row.tokens, row.source) for at, row in enumerate(rows, first)]
        created = 0
        for start in range(0, len(rows), _VARIABLES // 4):
            # A statement for each row would hand Python's lock to and fro with other threads.
            some = numbered[start : start + _VARIABLES // 4]
            places = ",".join(["(?, ?, ?, ?)"] * len(some))
            created += self.db.execute(
                f"INSERT INTO {self.documents} VALUES {places} ON CONFLICT(id) DO NOTHING",
                [*itertools.chain.from_iterable(some)],
            ).rowcount
        taken: list[int] = []
        if created < len(rows):
            selected = f"{self.documents}.number, id"
            numbers = {id: number for number, id in self.by_id(selected, [row.id for row in rows])}
            taken = [at for at, row in enumerate(rows) if numbers[row.id] != first + at]
        marked = {at for at, row in enumerate(rows) if row[3:] != NO_MARKS}.difference(taken)
        self._mark([(first + at, rows[at]) for at in sorted(marked)])
        return taken

    def replace(self, rows: Sequence[tuple[Numbered, Columns]]) -> None:
        """Write documents in place of stored ones; only what differs is written."""
        written = [(old, (old[0], row)) for old, row in rows if old[1][1:3] != row[1:3]]
        self._known.forget(number for _, (number, _) in written)
        # The source holds the tokens of other fields than the text.
        first, listed = 1 if self._in_source else 2, self._listed()
        changed = [each for each in written if each[0][1][first:3] != each[1][1][first:3]]
        changed = [each for each in changed if each[0][0] <= listed]
        self._unlist([old for old, _ in changed])
        self.db.executemany(
            f"UPDATE {self.documents} SET source = ?, tokens = ? WHERE number = ?",
            [(row.source, row.tokens, number) for _, (number, row) in written],
        )
        self._list([self._entries((number, *row[1:3]) for _, (number, row) in changed)])
        self._mark([(number, row) for (number, old), row in rows if old[3:] != row[3:]])

    def forget(self, rows: Sequence[Numbered]) -> None:
        """Delete documents with their tokens."""
        self._known.forget(number for number, _ in rows)
        listed = self._listed()
        self._unlist([(number, row) for number, row in rows if number <= listed])
        gone = json.dumps([number for number, _ in rows])
        for table in (self.documents, self.groups):
            self.db.execute(f"DELETE FROM {table} WHERE number IN {_GIVEN}", (gone,))

    def _mark(self, rows: Sequence[Numbered]) -> None:
        marked = [(number, *row[3:]) for number, row in rows if row[3:] != NO_MARKS]
        self.db.executemany(f"INSERT OR REPLACE INTO {self.groups} VALUES(?, ?, ?, ?, ?)", marked)
        bare = [(number,) for number, row in rows if row[3:] == NO_MARKS]
        self.db.executemany(f"DELETE FROM {self.groups} WHERE number = ?", bare)

    def _entries(self, rows: Iterable[tuple[int, str, bytes | str]]) -> dict[str, Entries]:
        """Return the entries of documents for each list. rows: their numbers, sources, tokens."""
        packed, others = list[tuple[int, bytes]](), list[tuple[int, str, Mapping[str, Any]]]()
        for number, source, tokens in rows:
            if isinstance(tokens, str):
                others.append((number, FIELD, json.loads(tokens)))
            elif is_wordless(tokens):
                others.append((number, FIELD, {"wordless": written_digests([tokens])[0]}))
            else:
                packed.append((number, tokens))
            if self._in_source:
                fields = json.loads(source)
                others += [(number, field, tokens_in(fields, field)) for field in fields]
        whole, _ = records([tokens for _, tokens in packed], self.rows.scheme)
        numbers = np.fromiter((number for number, _ in packed), np.uint64, len(packed))
        found = {}
        for name, (field, key, sketch) in self._lists.items():
            strings = [
                (number, token)
                for number, its, values in others
                if its == field
                for token in _strings(values.get(key))
            ]
            listed = numbers_of([token for _, token in strings], sketch)
            holders = np.array([number for number, _ in strings], np.uint64)
            if field == FIELD and sketch is not None:
                values, counts = flat(whole[key])
                listed = np.append(listed, numbers_of_values(values, sketch))
                holders = np.append(holders, np.repeat(numbers, counts))
            found[name] = listed, holders
        return found

    def _unlist(self, rows: Sequence[Numbered]) -> None:
        """Remove the tokens of documents from the lists."""
        every = self._entries((number, *row[1:3]) for number, row in rows)
        for name, (tokens, documents) in every.items():
            Postings(self.db, name, self._name).remove(np.unique(tokens), np.unique(documents))

    def _list(self, parts: Sequence[dict[str, Entries]], more: bool = False) -> None:
        """List the tokens of documents. more: others follow."""
        for name in self._lists:
            entries = [part.pop(name) for part in parts]
            Postings(self.db, name, self._name).add(entries, more=more)

    def list_more(self) -> None:
        """List the next documents, at most LISTED_AT_ONCE."""
        # Pages of the documents before, up to the size of the cache, are not needed again.
        self.db.execute("PRAGMA shrink_memory")
        listed = self._listed()
        # Past numbers that deleted documents left free.
        first, end = max(listed, self.next(listed + 1) - 1), self.last()
        last, entries = min(end, first + LISTED_AT_ONCE), 0
        parts = []
        for reached, part in self._read(first, last):
            parts.append(part)
            entries += sum(tokens.size for tokens, _ in part.values())
            if entries >= _ENTRIES_AT_ONCE:
                last = reached
                break
        if parts:
            self._list(parts, last < end)
        self.db.execute(f"UPDATE {self._name('listed')} SET number = max(number, ?)", (last,))

    def _read(self, first: int, last: int) -> Iterator[tuple[int, dict[str, Entries]]]:
        """Yield the entries of the documents after one number, to another; and the last number."""
        source = "source" if self._in_source else "''"
        rows = self.db.execute(
            f"SELECT number, {source}, tokens FROM {self.documents}"
            " WHERE number > ? AND number <= ? ORDER BY number",
            (first, last),
        )
        while some := rows.fetchmany(_READ_AT_ONCE):
            yield some[-1][0], self._entries(some)

    def holders(self, name: str, tokens: Sequence[str]) -> tuple[I64, I64]:
        """Return the documents that hold tokens of a list: positions of tokens, and numbers."""
        nothing = np.empty(0, np.int64), np.empty(0, np.int64)
        positions, holders = zip(nothing, *self._holders(name, tokens), strict=True)
        return np.concatenate(positions), np.concatenate(holders)

    def _holders(self, name: str, tokens: Sequence[str]) -> Iterator[tuple[I64, I64]]:
        """Yield what `holders` returns in parts."""
        *_, sketch = self._lists[name]
        numbers = numbers_of(tokens, sketch)
        order = np.argsort(numbers)
        wanted = numbers[order]
        for positions, documents in Postings(self.db, name, self._name).parts(wanted):
            yield order[positions], documents.astype(np.int64)
        if self.waiting():
            for _, part in self._read(self._listed(), self.last()):
                held, documents = part[name]
                first, end = (np.searchsorted(wanted, held, side) for side in ("left", "right"))
                at = ranges(first, end - first)
                yield order[at], np.repeat(documents, end - first).astype(np.int64)

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        """Return for each query the `limit` documents that share most token groups with it."""
        answers = []
        for (name, kept, marks_in, marked), alike in itertools.groupby(queries, _form):
            some = [*alike]
            every = [*self._verified(some, [*self._best(name, some, marks_in, limit)])]
            # Queries of similar texts find the same documents.
            chosen = {number for found in every for number in found.numbers.tolist()}
            selected = COLUMNS if marked else "id, source"
            stored = self._by_number(sorted(chosen), selected)
            read = self.rows.documents([*stored.values()], kept, marked=marked)
            documents = dict(zip(stored, read, strict=True))
            for numbers, shared, missed, near, excluded, matching in every:
                found, met = [documents[each] for each in numbers.tolist()], shared.tolist()
                answers.append(Candidates(found, met, missed, near, excluded, matching))
        return answers

    def _verified(
        self, queries: Sequence[CandidateQuery], best: Sequence[_Ranked]
    ) -> Iterator[_Ranked]:
        """Yield the best documents of each query, without those that can't be in the answer.

        Few documents are not verified here, because to read them takes less time.
        """
        checks = [
            each.verify if each.field == FIELD and found.numbers.size > _FEW else None
            for each, found in zip(queries, best, strict=True)
        ]
        some = (found.numbers.tolist() for found in itertools.compress(best, checks))
        chosen = sorted(set[int]().union(*some))
        sets = dict(zip(chosen, self._known.of(chosen, self._sets_of), strict=True))
        for verify, found in zip(checks, best, strict=True):
            if verify is None:
                yield found
                continue
            theirs = Ragged.of_rows([sets[number] for number in found.numbers.tolist()])
            similarities, kept, matching = verify(theirs)
            yield _Ranked(
                found.numbers[kept],
                found.shared[kept],
                found.missed,
                similarities[kept].tolist(),
                int(np.count_nonzero(~kept)),
                matching,
            )

    def _sets_of(self, numbers: Sequence[int]) -> list[U64]:
        """Return the sets of the shingles of documents."""
        rows = self._by_number(numbers, "source")
        sources = [rows[number][0] for number in numbers]
        try:
            # It takes a third of the time, and changes large integers, but no text.
            read = parsed(sources, orjson.loads)
        except orjson.JSONDecodeError:
            # It rejects numbers beyond the range of floats.
            read = parsed(sources)
        texts = [text_at(each, self._text_fields) or "" for each in read]
        return known_sets(texts, self.rows.scheme)

    def _best(
        self, name: str, queries: Sequence[CandidateQuery], marks_in: str, limit: int
    ) -> Iterator[_Ranked]:
        """Yield the documents of each query that share most groups."""
        # A document has one token of each position, and a group is of one position, so that
        # counting tokens counts groups.
        tokens = [dict.fromkeys(itertools.chain.from_iterable(each.groups)) for each in queries]
        if len(queries) == 1:
            numbers, met = self._counted(name, [*tokens[0]], queries[0].least)
            of, numbers, met = self._chosen(np.zeros_like(numbers), numbers, met, queries, marks_in)
            missed = int(met[limit - 1]) if numbers.size > limit else 0
            yield _Ranked(numbers[:limit], met[:limit], missed)
            return
        places = {token: at for at, token in enumerate(dict.fromkeys(itertools.chain(*tokens)))}
        at, holders = self.holders(name, [*places])
        holders = holders[np.argsort(at, kind="stable")]
        sizes = np.bincount(at, minlength=len(places))
        starts = offsets_of(sizes)[:-1]
        wanted = [np.array([places[one] for one in each], np.int64) for each in tokens]
        # Queries of one text have the same, maybe large, buckets.
        entries = np.array([sizes[each].sum() for each in wanted], np.int64)
        for block in blocks(entries, _MET_AT_ONCE):
            some, own = queries[block], wanted[block]
            its = np.concatenate([np.empty(0, np.int64), *own])
            owners = np.repeat(np.arange(len(some)), [*map(len, own)])
            found = np.repeat(owners, sizes[its]), holders[ranges(starts[its], sizes[its])]
            of, numbers, met = self._met(*found, some, marks_in)
            bounds = np.searchsorted(of, np.arange(len(some) + 1)).tolist()
            for first, end in itertools.pairwise(bounds):
                best = slice(first, min(first + limit, end))
                missed = int(met[best.stop - 1]) if end > best.stop else 0
                yield _Ranked(numbers[best], met[best], missed)

    def _met(
        self, owners: I64, holders: I64, queries: Sequence[CandidateQuery], marks_in: str
    ) -> tuple[I64, I64, I64]:
        """Return the documents that share enough groups with queries, the best of each first.

        They are arrays of queries, documents' numbers, and shared groups.
        """
        pairs, met = np.unique(owners << _NUMBER_BITS | holders, return_counts=True)
        of, numbers = pairs >> _NUMBER_BITS, pairs & ((1 << _NUMBER_BITS) - 1)
        return self._chosen(of, numbers, met, queries, marks_in)

    def _counted(self, name: str, tokens: Sequence[str], least: int) -> tuple[I64, I64]:
        """Return the documents that hold tokens, ascending, and how many each holds.

        Those of fewer than `least` may be left out. Of many entries, only a counter of each
        document of the index is in memory: sorted they would take 50 bytes each.
        """
        parts, entries, last = list[I64](), 0, self.last()
        counts = None
        for _, holders in self._holders(name, tokens):
            parts.append(holders)
            entries += holders.size
            if counts is None and entries > max(_MET_AT_ONCE, last // _MANY_PER_ENTRY):
                counts = np.zeros(last + 1, np.uint16)
            if counts is not None:
                for part in parts:
                    np.add.at(counts, part, 1)
                parts.clear()
        if counts is None:
            numbers, met = np.unique(np.concatenate([_NONE, *parts]), return_counts=True)
            return numbers, met
        numbers = np.flatnonzero(counts >= max(1, least))
        return numbers, counts[numbers].astype(np.int64)

    def _chosen(
        self, of: I64, numbers: I64, met: I64, queries: Sequence[CandidateQuery], marks_in: str
    ) -> tuple[I64, I64, I64]:
        """Return what `_met` does. of, numbers, met: queries, documents, their shared groups."""
        enough = met >= np.array([each.least for each in queries])[of]
        excluded = [each.exclude for each in queries if each.exclude is not None]
        known = {id: number for number, id in self.by_id(f"{self.documents}.number, id", excluded)}
        enough &= numbers != np.array([known.get(each.exclude, 0) for each in queries])[of]
        originals = np.array([each.originals for each in queries])[of] & enough
        if originals.any():
            marked = self.db.execute(
                f"SELECT number FROM {self.marked} WHERE number IN {_GIVEN}"
                f" AND {self.value_of(marks_in, 'original')} IS NOT NULL",
                (json.dumps(numbers[originals].tolist()),),
            )
            enough &= ~(originals & np.isin(numbers, [number for (number,) in marked]))
        order = np.flatnonzero(enough)
        order = order[np.lexsort((-met[order], of[order]))]
        return of[order], numbers[order], met[order]

    def value_of(self, field: str, name: str) -> str:
        """Return the scheme or a mark below a field of ours, in SQL."""
        if field != FIELD:
            return f"json_extract(source, '$.{field}.{name}')"
        if name != "scheme":
            return f'"{name}"'
        return (
            f"CASE typeof(tokens) WHEN 'blob' THEN '{self.rows.scheme.id}'"
            " ELSE json_extract(tokens, '$.scheme') END"
        )

    def columns_for(self, paths: list[str]) -> str:
        """Return the columns of documents, in SQL, that hold fields."""
        ours = all(path.startswith(f"{FIELD}.") and path.count(".") == 1 for path in paths)
        return COLUMNS.replace("source", "'{}'") if ours else COLUMNS


def listed_as(field: str, key: str) -> str:
    """Return the name of the list of tokens of a key below a field of ours."""
    # Tokens of other fields than the text are part of `Columns.source`, and so are their marks.
    return key if field == FIELD else f"{field}.{key}"


def _form(query: CandidateQuery) -> tuple[str, str, str, bool]:
    """Return the list to look into, the tokens to return, the field of marks, and if to read it."""
    kept, marked = query.key if query.kept else "", query.kept or query.marked
    return listed_as(query.field, query.key), kept, query.marks_in, marked


def _strings(value: Any) -> set[str]:
    """Return the tokens in the value of a field."""
    values = value if isinstance(value, list) else [value]
    return {each for each in values if isinstance(each, str)}
