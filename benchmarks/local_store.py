"""Which SQLite table holds the tokens of the local store: a plain table or FTS5.

    python benchmarks/local_store.py [--documents 500000] [--tokens 27]

Six candidates get the same documents in durable batches of 10,000 (WAL, synchronous=FULL), and
answer the same 300 queries for the documents that share most tokens:

    plain text      tokens(token TEXT, document INTEGER), primary key of both, WITHOUT ROWID
    plain integer   the same with the token as a 48-bit integer
    plain buffered  plain text whose inserts are sorted by token within each batch
    plain later     plain text, filled by one sorted insert of many documents' tokens, kept beside
    fts5            contentless, detail=none; a MATCH a token, their documents counted
    fts5 unranked   the same table; one MATCH of all tokens, which does not say how many met

One JSON line for each candidate and size.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ALPHABET = np.frombuffer(
    b".0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz", np.uint8
)
# FTS5's tokenizers fold the case of letters, and take the points for separators.
UNFOLDED = str.maketrans({c: chr(0x100 + ord(c)) for c in "._ABCDEFGHIJKLMNOPQRSTUVWXYZ"})
BATCH = 10_000
LISTED_AT_ONCE = 100_000
RANKED = (
    "SELECT document, count(*) AS met FROM tokens WHERE token IN ({}) GROUP BY document"
    " ORDER BY met DESC, document LIMIT 100"
)


def values(documents: int, tokens: int) -> np.ndarray:
    """36-bit token values, shape (documents, tokens); a tenth share half with another document."""
    rng = np.random.default_rng(7)
    made = rng.integers(0, 1 << 36, (documents, tokens), dtype=np.int64)
    copies = rng.choice(documents, documents // 10, replace=False)
    shared = rng.random((copies.size, tokens)) < 0.5
    made[copies] = np.where(shared, made[rng.integers(0, documents, copies.size)], made[copies])
    return made


def as_text(rows: np.ndarray) -> list[list[Any]]:
    text = np.empty((*rows.shape, 7), np.uint8)
    text[..., 0] = ALPHABET[: rows.shape[1]]
    for digit in range(6):
        text[..., digit + 1] = ALPHABET[(rows >> (30 - 6 * digit)) & 63]
    strings: list[list[Any]] = text.view("S7")[..., 0].astype(str).tolist()
    return strings


def as_integers(rows: np.ndarray) -> list[list[Any]]:
    numbers: list[list[Any]] = (rows | (np.arange(rows.shape[1]) << 36)).tolist()
    return numbers


class Plain:
    column, convert, ordered = "TEXT", staticmethod(as_text), False

    def create(self, db: sqlite3.Connection) -> None:
        db.execute(
            f"CREATE TABLE tokens(token {self.column} NOT NULL, document INTEGER NOT NULL,"
            " PRIMARY KEY(token, document)) WITHOUT ROWID"
        )

    def add(self, db: sqlite3.Connection, first: int, rows: np.ndarray) -> None:
        pairs = [(token, first + i) for i, row in enumerate(self.convert(rows)) for token in row]
        if self.ordered:
            pairs.sort()
        db.executemany("INSERT INTO tokens VALUES(?, ?)", pairs)

    def list_new(self, db: sqlite3.Connection) -> None:
        """What is left to do before a search."""

    def query(self, db: sqlite3.Connection, row: np.ndarray) -> list[Any]:
        tokens = self.convert(row[None])[0]
        return db.execute(RANKED.format(",".join("?" * len(tokens))), tokens).fetchall()


class PlainBuffered(Plain):
    ordered = True


class PlainInteger(Plain):
    column, convert, ordered = "INTEGER", staticmethod(as_integers), True


class PlainLater(Plain):
    """As the local store does it; `list_new` is what a first search does."""

    def __init__(self) -> None:
        self.listed = 0

    def create(self, db: sqlite3.Connection) -> None:
        super().create(db)
        db.execute("CREATE TABLE held(document INTEGER PRIMARY KEY, tokens TEXT)")

    def add(self, db: sqlite3.Connection, first: int, rows: np.ndarray) -> None:
        lists = enumerate(map(json.dumps, self.convert(rows)), first)
        db.executemany("INSERT INTO held VALUES(?, ?)", lists)

    def list_new(self, db: sqlite3.Connection) -> None:
        (last,) = db.execute("SELECT coalesce(max(document), -1) FROM held").fetchone()
        for first in range(self.listed, last + 1, LISTED_AT_ONCE):
            db.execute("BEGIN IMMEDIATE")
            db.execute(
                "INSERT INTO tokens SELECT value, document FROM held, json_each(tokens)"
                " WHERE document >= ? AND document < ? ORDER BY 1, 2",
                (first, first + LISTED_AT_ONCE),
            )
            db.execute("COMMIT")
        self.listed = last + 1


class Fts5(Plain):
    def create(self, db: sqlite3.Connection) -> None:
        db.execute(
            "CREATE VIRTUAL TABLE tokens USING fts5(t, content='', detail=none, columnsize=0,"
            " tokenize='ascii')"
        )

    def add(self, db: sqlite3.Connection, first: int, rows: np.ndarray) -> None:
        db.executemany(
            "INSERT INTO tokens(rowid, t) VALUES(?, ?)",
            (
                (first + i, " ".join(row).translate(UNFOLDED))
                for i, row in enumerate(self.convert(rows))
            ),
        )

    def query(self, db: sqlite3.Connection, row: np.ndarray) -> list[Any]:
        tokens = [token.translate(UNFOLDED) for token in self.convert(row[None])[0]]
        every = " UNION ALL ".join(["SELECT rowid AS document FROM tokens(?)"] * len(tokens))
        return db.execute(
            f"SELECT document, count(*) AS met FROM ({every}) GROUP BY document"
            " ORDER BY met DESC, document LIMIT 100",
            tokens,
        ).fetchall()


class Fts5Unranked(Fts5):
    def query(self, db: sqlite3.Connection, row: np.ndarray) -> list[Any]:
        match = " OR ".join(token.translate(UNFOLDED) for token in self.convert(row[None])[0])
        return db.execute("SELECT rowid FROM tokens(?) LIMIT 100", (match,)).fetchall()


CANDIDATES = {
    "plain text": Plain(),
    "plain buffered": PlainBuffered(),
    "plain integer": PlainInteger(),
    "plain later": PlainLater(),
    "fts5": Fts5(),
    "fts5 unranked": Fts5Unranked(),
}


def measure(name: str, made: np.ndarray, folder: Path) -> Iterator[dict[str, object]]:
    engine, path = CANDIDATES[name], folder / f"{name}.db"
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("page_size=8192", "journal_mode=WAL", "synchronous=FULL", "cache_size=-262144"):
        db.execute(f"PRAGMA {pragma}")
    db.execute("CREATE TABLE documents(number INTEGER PRIMARY KEY, id TEXT UNIQUE, source TEXT)")
    engine.create(db)
    spent, body = 0.0, "x" * 300
    reports = sorted({len(made), *(10**e for e in range(4, 9) if 10**e < len(made))})
    since, clock = 0, 0.0
    for first in range(0, len(made), BATCH):
        rows = made[first : first + BATCH]
        start = time.perf_counter()
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT INTO documents VALUES(?, ?, ?)",
            ((first + i, f"document-{first + i}", body) for i in range(len(rows))),
        )
        engine.add(db, first, rows)
        db.execute("COMMIT")
        spent += time.perf_counter() - start
        done = first + len(rows)
        if done >= reports[0]:
            start = time.perf_counter()
            engine.list_new(db)
            listing = time.perf_counter() - start
            spent += listing
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            yield {
                "store": name,
                "documents": done,
                "documents_a_second": round((done - since) / (spent - clock)),
                "of_that_listing": round(listing / (spent - clock), 2),
                "query_ms": round(query_time(engine, db, made[:done]), 3),
                "bytes_a_document": round(path.stat().st_size / done),
            }
            since, clock = done, spent
            reports.pop(0)


def query_time(engine: Plain, db: sqlite3.Connection, made: np.ndarray) -> float:
    """Median milliseconds of a query."""
    chosen = np.random.default_rng(3).integers(0, len(made), 300)
    times = []
    for row in made[chosen]:
        start = time.perf_counter()
        assert engine.query(db, row)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=500_000)
    parser.add_argument("--tokens", type=int, default=27)
    parser.add_argument("--only", choices=CANDIDATES, action="append")
    options = parser.parse_args()
    made = values(options.documents, options.tokens)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only or CANDIDATES:
            for line in measure(name, made, Path(folder)):
                print(json.dumps(line | {"sqlite": sqlite3.sqlite_version}), flush=True)


if __name__ == "__main__":
    main()
