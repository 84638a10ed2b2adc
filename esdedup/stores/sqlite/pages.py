"""Which documents hold a token: the sorted pages of a list of tokens.

A list is a few runs. A run is a table of pages: entries of a token and a document, sorted by token,
in as few bytes as they need. New entries become a run, together with the runs that are not much
larger, so that a search has few runs to look into, and an entry is seldom written again: O'Neil,
Cheng, Gawlick, O'Neil, "The log-structured merge-tree", Acta Informatica 1996.

An entry takes 6 bytes, and took 20 as a row. Pages of 64 to 256 entries are found equally fast.
"""

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from esdedup.text.arrays import I64, U64, offsets_of, ranges, run_starts

ENTRIES_A_PAGE = 64
"""A page ends before the first token that begins after so many entries; a token is in one page."""
_MERGED = 8
"""A run joins new entries if it has at most so many times as many. Each run costs a search some 0.2
ms, and merging costs a microsecond an entry."""
_MOST_RUNS = 8
"""Number of runs from which they are merged even if more entries follow."""
_PAGES_AT_ONCE = 8_192

_SIZES = np.array([256**size for size in range(8)], np.uint64)
"""The least number of each size in bytes, from 1."""

_HEAD = 9
"""Bytes of a page before its entries: 16 times the bytes of a token, without the first one, plus
those of a document's number; and the first token. All numbers are little-endian."""


class Postings:
    """One list, used within a transaction of the caller's. Tokens are numbers below 2**63."""

    def __init__(self, db: sqlite3.Connection, key: str, table_of: Callable[[str], str]) -> None:
        """key: the name of the list. table_of: returns the name of a table in SQL."""
        self.db, self._key, self._table_of, self._runs = db, key, table_of, table_of("runs")

    def _table(self, run: int) -> str:
        return self._table_of(f"{self._key}.{run}")

    def _filled(self) -> list[int]:
        """Return the runs that have entries, the smallest first."""
        runs = f"SELECT run FROM {self._runs} WHERE list = ? AND entries ORDER BY entries"
        return [run for (run,) in self.db.execute(runs, (self._key,))]

    def _pages(self, run: int, tokens: U64) -> list[bytes]:
        """Return the pages of a run that may hold tokens, in order."""
        # A page holds its own first token, so that a search looks it up only once.
        found = self.db.execute(
            f"SELECT (SELECT page FROM {self._table(run)} WHERE first <= value"
            " ORDER BY first DESC LIMIT 1) FROM json_each(?)",
            (json.dumps(tokens.tolist()),),
        ).fetchall()
        return [page for (page,) in dict.fromkeys(found) if page is not None]

    def find(self, tokens: U64) -> tuple[I64, U64]:
        """Return the entries of tokens, shape (m,): positions in them, and documents."""
        found = [(np.empty(0, np.int64), np.empty(0, np.uint64))]
        for run in self._filled() if tokens.size else ():
            for held, documents, _ in _read(self._pages(run, tokens)):
                first, end = (np.searchsorted(held, tokens, side) for side in ("left", "right"))
                counts = end - first
                at = np.repeat(np.arange(tokens.size), counts)
                found.append((at, documents[ranges(first, counts)]))
        positions, holders = zip(*found, strict=True)
        return np.concatenate(positions), np.concatenate(holders)

    def add(self, tokens: U64, documents: U64, more: bool = False) -> None:
        """Add new entries. more: further ones follow, so that runs are merged later."""
        runs = dict(
            self.db.execute(f"SELECT run, entries FROM {self._runs} WHERE list = ?", (self._key,))
        )
        filled = sorted((entries, run) for run, entries in runs.items() if entries)
        merged, total = list[int](), tokens.size
        for entries, run in filled if not more or len(filled) >= _MOST_RUNS else ():
            if entries > _MERGED * total:
                break
            merged.append(run)
            total += entries
        if not total:
            return
        free = min(set(range(len(runs) + 1)) - {run for _, run in filled})
        self.db.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table(free)}"
            "(first INTEGER PRIMARY KEY, page BLOB NOT NULL)"
        )
        total = 0
        tokens, documents = _in_order(tokens, documents)
        for some, of in self._merged(merged, tokens, documents):
            self._write(free, _written(some, of, _page_starts(some)))
            total += some.size
        for run in merged:
            self.db.execute(f"DELETE FROM {self._table(run)}")
        sizes = [(self._key, run, 0) for run in merged]
        self.db.executemany(
            f"INSERT OR REPLACE INTO {self._runs} VALUES(?, ?, ?)",
            [*sizes, (self._key, free, total)],
        )

    def remove(self, tokens: U64, documents: U64) -> None:
        """Remove all entries of documents. tokens: all of theirs."""
        for run in self._filled() if tokens.size else ():
            for held, of, starts in _read(self._pages(run, tokens)):
                kept, sizes = ~np.isin(of, documents), np.diff(starts, append=of.size)
                left = np.add.reduceat(kept, starts, dtype=np.int64)
                changed = left < sizes
                self.db.executemany(
                    f"DELETE FROM {self._table(run)} WHERE first = ?",
                    [(first,) for first in held[starts[changed]].tolist()],
                )
                kept &= np.repeat(changed, sizes)
                pages = offsets_of(left[changed & (left > 0)])[:-1]
                self._write(run, _written(held[kept], of[kept], pages))

    def _merged(
        self, runs: Sequence[int], tokens: U64, documents: U64
    ) -> Iterator[tuple[U64, U64]]:
        """Yield sorted entries with those of runs, in blocks that never part a token."""
        rest, begun = (tokens[:0], documents[:0]), 0
        every = " UNION ALL ".join(f"SELECT * FROM {self._table(run)}" for run in runs)
        rows = self.db.execute(f"{every} ORDER BY first") if runs else None
        while rows is not None and (some := rows.fetchmany(_PAGES_AT_ONCE)):
            # Pages to come begin with this token or a later one.
            last = np.uint64(some[-1][0])
            end = int(np.searchsorted(tokens, last))
            parts = [rest, (tokens[begun:end], documents[begun:end])]
            parts += [(held, of) for held, of, _ in _read([page for _, page in some])]
            held, of = _in_order(*(np.concatenate(each) for each in zip(*parts, strict=True)))
            done = int(np.searchsorted(held, last))
            yield held[:done], of[:done]
            rest, begun = (held[done:], of[done:]), end
        if rest[0].size:
            tokens, documents = _in_order(
                np.concatenate([rest[0], tokens[begun:]]),
                np.concatenate([rest[1], documents[begun:]]),
            )
            begun = 0
        while begun < tokens.size:
            last = tokens[min(begun + _PAGES_AT_ONCE * ENTRIES_A_PAGE, tokens.size) - 1]
            end = int(np.searchsorted(tokens, last, "right"))
            yield tokens[begun:end], documents[begun:end]
            begun = end

    def _write(self, run: int, pages: Iterable[tuple[int, bytes]]) -> None:
        self.db.executemany(f"INSERT INTO {self._table(run)} VALUES(?, ?)", pages)


def _in_order(tokens: U64, documents: U64) -> tuple[U64, U64]:
    """Return entries by token and document."""
    if not tokens.size:
        return tokens, documents
    bits = np.uint64(int(documents.max()).bit_length())
    if int(tokens.max()).bit_length() + int(bits) > 64:
        order = np.lexsort((documents, tokens))
        return tokens[order], documents[order]
    # As one number they are sorted in half the time.
    both = tokens << bits
    both |= documents
    both.sort()
    documents = both & ((np.uint64(1) << bits) - np.uint64(1))
    both >>= bits
    return both, documents


def _page_starts(tokens: U64) -> I64:
    """Return where pages of sorted entries begin. A token of many documents has one of its own."""
    begins = np.flatnonzero(run_starts(tokens))
    many = np.diff(begins, append=tokens.size) >= ENTRIES_A_PAGE
    return begins[many | run_starts(begins // ENTRIES_A_PAGE)]


def _read(pages: Sequence[bytes]) -> Iterator[tuple[U64, U64, I64]]:
    """Yield the entries of pages of the same widths, and where each page begins."""
    for widths in sorted({page[0] for page in pages}):
        some = [page for page in pages if page[0] == widths]
        firsts = np.frombuffer(b"".join([page[1:_HEAD] for page in some]), "<u8")
        data = [page[_HEAD:] for page in some]
        of_token, of_document = divmod(widths, 16)
        size = of_token + of_document
        counts = np.fromiter(map(len, data), np.int64, len(data)) // size
        starts, raw = offsets_of(counts), b"".join([*data, bytes(16)])
        # Overlapping words of eight bytes.
        words = (
            np.ndarray((starts[-1],), "<u8", raw, offset, (size,)) & np.uint64(256**width - 1)
            for offset, width in ((0, of_token), (of_token, of_document))
        )
        tokens = next(words)
        tokens += np.repeat(firsts, counts)
        yield tokens, next(words), starts[:-1]


def _written(tokens: U64, documents: U64, starts: I64) -> Iterator[tuple[int, bytes]]:
    """Yield the first tokens and the pages of entries. starts: where they begin."""
    if not starts.size:
        return
    firsts, counts = tokens[starts], np.diff(starts, append=tokens.size)
    columns = tokens - np.repeat(firsts, counts), documents
    sizes = (
        np.searchsorted(_SIZES, np.maximum.reduceat(each, starts), "right") for each in columns
    )
    widths = 16 * next(sizes) + next(sizes)
    raw = np.stack(columns, axis=1).astype("<u8", copy=False).view(np.uint8)
    for form in np.unique(widths).tolist():
        pages = np.flatnonzero(widths == form)
        of_token, of_document = divmod(form, 16)
        kept = [*range(of_token), *range(8, 8 + of_document)]
        data = raw[np.repeat(widths == form, counts)][:, kept].tobytes()
        bounds = (offsets_of(counts[pages]) * len(kept)).tolist()
        heads = (bytes([form]) + first.to_bytes(8, "little") for first in firsts[pages].tolist())
        for first, head, (start, end) in zip(
            firsts[pages].tolist(), heads, itertools.pairwise(bounds), strict=True
        ):
            yield first, head + data[start:end]
