"""Read and write lists of tokens, in sorted pages: which documents hold each token.

A list is a few runs. A run is a table of pages: entries of a token and a document, sorted by token,
in as few bytes as they need. New entries become a run, together with the runs that are not much
larger, so that a search has few runs to look into, and an entry is seldom written again: O'Neil,
Cheng, Gawlick, O'Neil, "The log-structured merge-tree", Acta Informatica 1996.

An entry takes 6 bytes, and took 20 as a row. Larger pages take longer to read. Tokens are numbers
below 2**63.
"""

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from esdedup.models import grouped
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.tokens import digits_of, encode, number_of, token_length
from esdedup.text.arrays import I64, U64, offsets_of, ranges, run_starts
from esdedup.text.hashing import xxh3

ENTRIES_A_PAGE = 64
"""Number after which a page ends, with the entries of the last token: each token is in one page."""
_MERGED = 8
"""Runs are merged if the largest has at most 8 times the entries of the others. Each run costs a
search some 0.2 ms, and merging costs a microsecond an entry."""
_MOST_RUNS = 16
"""Number of runs from which they are merged even if more entries follow."""
_PAGES_AT_ONCE, _ENTRIES_AT_ONCE = 4_096, 1 << 19
_BYTES_MERGED = 1 << 21
"""Bytes of pages that are merged at once: three a document where one token has many documents."""
_BYTES_AT_ONCE = 1 << 22
"""Bytes of pages that a search reads at once; an entry of 4 bytes takes 32 while it is read."""
_LAST = (1 << 63) - 1
"""The highest token."""
_MOST_DIGITS = 10
_OTHERS = np.uint64(1 << 62)
"""Added to the hashes of other strings than tokens, such as digests."""

_MASKS = np.array([256**size - 1 for size in range(9)], np.uint64)
"""For each number of bytes, the largest value."""

_HEAD = 9
"""Bytes of a page before its entries: 16 times the bytes of a token, without the first one, plus
those of a document's number; and the first token. All numbers are little-endian."""


class Postings:
    """One list, used within a transaction of the caller's."""

    def __init__(self, db: sqlite3.Connection, key: str, table_of: Callable[[str], str]) -> None:
        """key: the name of the list. table_of: returns the name of a table in SQL."""
        self.db, self._key, self._table_of, self._runs = db, key, table_of, table_of("runs")

    def _table(self, run: int) -> str:
        return self._table_of(f"{self._key}.{run}")

    def _filled(self) -> list[tuple[int, int]]:
        """Return the runs that have entries: about how many, and the run, the smallest first."""
        runs = f"SELECT entries, run FROM {self._runs} WHERE list = ? AND entries ORDER BY entries"
        return self.db.execute(runs, (self._key,)).fetchall()

    def _pages(self, run: int, tokens: U64) -> Iterator[list[bytes]]:
        """Yield the pages of a run that may hold tokens, in order, not many at once."""
        # A page holds its own first token, so that a search looks it up only once.
        found = self.db.execute(
            f"SELECT (SELECT page FROM {self._table(run)} WHERE first <= value"
            " ORDER BY first DESC LIMIT 1) FROM json_each(?)",
            (json.dumps(tokens.tolist()),),
        )
        pages = (page for (page,), _ in itertools.groupby(found) if page is not None)
        yield from grouped(pages, len, _BYTES_AT_ONCE, _PAGES_AT_ONCE)

    def find(self, tokens: U64) -> tuple[I64, U64]:
        """Return the entries of tokens, shape (m,), sorted: positions in them, and documents."""
        found = [(np.empty(0, np.int64), np.empty(0, np.uint64)), *self.parts(tokens)]
        positions, holders = zip(*found, strict=True)
        return np.concatenate(positions), np.concatenate(holders)

    def parts(self, tokens: U64) -> Iterator[tuple[I64, U64]]:
        """Yield the entries of `find` in parts, of which the largest is that of one token."""
        for _, run in self._filled():
            for pages in self._pages(run, tokens):
                for held, documents, _ in _read(pages):
                    first, end = (np.searchsorted(held, tokens, side) for side in ("left", "right"))
                    at = np.repeat(np.arange(tokens.size), end - first)
                    yield at, documents[ranges(first, end - first)]

    def add(self, parts: list[tuple[U64, U64]], *, more: bool = False) -> None:
        """Add new entries as a run. more: further ones follow, so that runs are merged later."""
        tokens, documents = _in_order(parts)
        if tokens.size:
            self._write(self._emptied(tokens.size), tokens, documents, _page_starts(tokens))
        runs = self._filled()
        totals = [*itertools.accumulate(entries for entries, _ in runs)]
        merged = [at for at in range(1, len(runs)) if runs[at][0] <= _MERGED * totals[at - 1]]
        if merged and (not more or len(runs) > _MOST_RUNS):
            self._merge([run for _, run in runs[: merged[-1] + 1]], totals[merged[-1]])

    def remove(self, tokens: U64, documents: U64) -> None:
        """Remove all entries of documents. tokens: all of theirs, sorted."""
        for _, run in self._filled():
            for held, of, starts in _read([*itertools.chain(*self._pages(run, tokens))]):
                kept, sizes = ~np.isin(of, documents), np.diff(starts, append=of.size)
                left = np.add.reduceat(kept, starts, dtype=np.int64)
                changed = left < sizes
                self.db.executemany(
                    f"DELETE FROM {self._table(run)} WHERE first = ?",
                    [(first,) for first in held[starts[changed]].tolist()],
                )
                kept &= np.repeat(changed, sizes)
                pages = offsets_of(left[changed & (left > 0)])[:-1]
                self._write(run, held[kept], of[kept], pages)

    def _emptied(self, entries: int) -> int:
        """Return a run without pages. entries: number to write into it."""
        taken = {run for _, run in self._filled()}
        run = next(run for run in itertools.count() if run not in taken)
        self.db.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table(run)}"
            "(first INTEGER PRIMARY KEY, page BLOB NOT NULL)"
        )
        new = f"INSERT OR REPLACE INTO {self._runs} VALUES(?, ?, ?)"
        self.db.execute(new, (self._key, run, entries))
        return run

    def _merge(self, runs: Sequence[int], entries: int) -> None:
        """Make one run of several."""
        merged, tables = self._emptied(entries), [*map(self._table, runs)]
        sizes = " UNION ALL ".join(f"SELECT first, length(page) FROM {table}" for table in tables)
        tokens, documents, last = np.empty(0, np.uint64), np.empty(0, np.uint64), 0
        while last < _LAST:
            last, pages = self._end_of_pages(sizes), list[bytes]()
            for table in tables:
                some = self.db.execute(f"SELECT page FROM {table} WHERE first <= ?", (last,))
                pages += [page for (page,) in some]
                # The file grows less if these are free before the new ones are written.
                self.db.execute(f"DELETE FROM {table} WHERE first <= ?", (last,))
            tokens, documents = _in_order(
                [(tokens, documents), *(each[:2] for each in _read(pages))]
            )
            done = int(np.searchsorted(tokens, np.uint64(last), "right"))
            self._write(merged, tokens[:done], documents[:done], _page_starts(tokens[:done]))
            tokens, documents = tokens[done:], documents[done:]
        for run in runs:
            empty = f"UPDATE {self._runs} SET entries = 0 WHERE list = ? AND run = ?"
            self.db.execute(empty, (self._key, run))

    def _end_of_pages(self, sizes: str) -> int:
        """Return the last token of the pages to merge next. sizes: selects their tokens and bytes.

        All pages that begin with one token are merged together.
        """
        bytes_read, before = 0, -1
        for number, (first, size) in enumerate(self.db.execute(f"{sizes} ORDER BY first")):
            is_much = bytes_read > _BYTES_MERGED or number >= _PAGES_AT_ONCE
            if is_much and first != before:
                return int(first) - 1
            bytes_read, before = bytes_read + size, first
        return _LAST

    def _write(self, run: int, tokens: U64, documents: U64, starts: I64) -> None:
        """Write entries as pages. starts: where they begin."""
        if not starts.size:
            return
        begins = run_starts(starts // _ENTRIES_AT_ONCE)
        begins[::_PAGES_AT_ONCE] = True
        blocks = [*np.flatnonzero(begins).tolist(), starts.size]
        ends = np.append(starts, tokens.size)
        for block in itertools.starmap(slice, itertools.pairwise(blocks)):
            first, end = int(ends[block.start]), int(ends[block.stop])
            some = starts[block] - first
            pages = _written(tokens[first:end], documents[first:end], some)
            self.db.executemany(f"INSERT INTO {self._table(run)} VALUES(?, ?)", pages)


def _in_order(parts: list[tuple[U64, U64]]) -> tuple[U64, U64]:
    """Return all entries by token and document. The list is emptied to free memory."""
    tokens, documents = map(np.concatenate, zip(*parts, strict=True))
    parts.clear()
    if not tokens.size:
        return tokens, documents
    bits = np.uint64(int(documents.max()).bit_length())
    if int(tokens.max()).bit_length() + int(bits) > 64:
        order = np.lexsort((documents, tokens))
        return tokens[order], documents[order]
    # As one number they are sorted in half the time.
    both = tokens << bits
    both |= documents
    del tokens, documents
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
    """Yield the sorted entries of pages of the same widths, and where each page begins."""
    for form in sorted({page[0] for page in pages}):
        some = [page for page in pages if page[0] == form]
        firsts = np.frombuffer(b"".join([page[1:_HEAD] for page in some]), "<u8")
        raw = b"".join([*(page[_HEAD:] for page in some), bytes(16)])
        of_token, of_document = divmod(form, 16)
        if not (size := of_token + of_document):
            raise ValueError("a page whose entries take no bytes")
        counts = (np.fromiter(map(len, some), np.int64, len(some)) - _HEAD) // size
        starts = offsets_of(counts)
        # Overlapping words of eight bytes.
        tokens, documents = (
            np.ndarray((starts[-1],), "<u8", raw, offset, (size,)) & _MASKS[width]
            for offset, width in ((0, of_token), (of_token, of_document))
        )
        tokens += np.repeat(firsts, counts)
        yield tokens, documents, starts[:-1]


def _written(tokens: U64, documents: U64, starts: I64) -> Iterator[tuple[int, bytes]]:
    """Yield the first tokens and the pages of entries. starts: where they begin."""
    firsts, counts = tokens[starts], np.diff(starts, append=tokens.size)
    columns = tokens - np.repeat(firsts, counts), documents
    sizes = (np.searchsorted(_MASKS, np.maximum.reduceat(each, starts)) for each in columns)
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


def numbers_of(tokens: Sequence[str], sketch: Sketch | None) -> U64:
    """Return a number for each token: its digits, or a hash. sketch: None for digests."""
    width = 0 if sketch is None else token_length(sketch.tokens, sketch.bits)
    if 0 < width <= _MOST_DIGITS:
        if {*map(len, tokens)} == {width}:
            digits = digits_of(tokens, width)
            if digits.max() < 64:
                return number_of(digits)
        if len(tokens) > 1:
            return np.concatenate([numbers_of([each], sketch) for each in tokens])
    return xxh3(tokens, 0) >> np.uint64(2) | _OTHERS


def numbers_of_values(values: U64, sketch: Sketch) -> U64:
    """Return the numbers of the tokens of values, shape (n, tokens), row after row."""
    if token_length(sketch.tokens, sketch.bits) > _MOST_DIGITS:
        return numbers_of([*itertools.chain.from_iterable(encode(values, sketch.bits))], sketch)
    positions = np.arange(sketch.tokens, dtype=np.uint64)
    return (positions << np.uint64(-(-sketch.bits // 6) * 6) | values).ravel()
