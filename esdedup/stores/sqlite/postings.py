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
from typing import NamedTuple

import numpy as np

from esdedup.models import grouped
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.tokens import digits_of, encode, number_of, token_length
from esdedup.stores.sqlite.sizes import StoreSizes
from esdedup.text.arrays import I64, U64, offsets_of, ranges, run_starts
from esdedup.text.hashing import xxh3

ENTRIES_A_PAGE = 64
"""Number after which a page ends, with the entries of the last token: each token is in one page."""
_MERGED = 8
"""Runs are merged if the largest has at most 8 times the entries of the others. Each run costs a
search some 0.2 ms, and merging costs a microsecond an entry."""
_MOST_RUNS = 16
"""Number of runs from which they are merged even if more entries follow."""
_ENTRIES_AT_ONCE = 1 << 19
"""Entries that are written as pages together."""
_BYTES_MERGED = 1 << 21
"""Bytes of pages that are merged at once: three a document where one token has many documents."""
_BYTES_AT_ONCE = 1 << 22
"""Bytes of pages that a search reads at once; an entry of 4 bytes takes 32 while it is read."""
_LAST = (1 << 63) - 1
"""The highest token."""
_MOST_DIGITS = 10
"""Digits of a token, of 6 bits each, that fit into a number."""
_HASHED = np.uint64(1 << 62)
"""Added to the hashes of other strings than tokens, such as digests."""

_MASKS = np.array([256**size - 1 for size in range(9)], np.uint64)
"""For each number of bytes, the largest value."""

_HEAD = 9
"""Bytes of a page before its entries: its form, and its first token in 8 bytes.

The form is one byte: 16 times the bytes of a token of an entry, from which the first token is
subtracted, plus the bytes of the number of a document. All numbers are little-endian."""


class Entries(NamedTuple):
    """Tokens, as numbers, and the number of a document that holds each: arrays of one length."""

    tokens: U64
    documents: U64


class _Pages(NamedTuple):
    """Sorted entries of pages, one page after another.

    entries: of all pages.
    starts: position of the first entry of each page, shape (pages,).
    """

    entries: Entries
    starts: I64


class Postings:
    """One list, used within a transaction of the caller's."""

    def __init__(
        self,
        db: sqlite3.Connection,
        key: str,
        table_of: Callable[[str], str],
        pages_at_once: int = StoreSizes.pages,
    ) -> None:
        """key: the name of the list. table_of: returns the name of a table in SQL."""
        self.db, self._key, self._table_of, self._runs = db, key, table_of, table_of("runs")
        self._pages_at_once = pages_at_once

    def _table(self, run: int) -> str:
        return self._table_of(f"{self._key}.{run}")

    def runs(self) -> list[tuple[int, int]]:
        """Return the runs that have entries: about how many, and the run, the smallest first."""
        query = f"SELECT entries, run FROM {self._runs} WHERE list = ? AND entries ORDER BY entries"
        return self.db.execute(query, (self._key,)).fetchall()

    def _pages(self, run: int, tokens: U64) -> Iterator[list[bytes]]:
        """Yield the pages of a run that may hold tokens, in order, not many at once."""
        # A page holds its own first token, so that a search looks it up only once.
        rows = self.db.execute(
            f"SELECT (SELECT page FROM {self._table(run)} WHERE first <= value"
            " ORDER BY first DESC LIMIT 1) FROM json_each(?)",
            (json.dumps(tokens.tolist()),),
        )
        # Tokens of one page follow each other.
        pages = (page for (page,), _ in itertools.groupby(rows) if page is not None)
        yield from grouped(pages, len, _BYTES_AT_ONCE, self._pages_at_once)

    def find(self, tokens: U64) -> tuple[I64, U64]:
        """Return the entries of tokens, shape (m,), sorted: positions in them, and documents."""
        nothing = np.empty(0, np.int64), np.empty(0, np.uint64)
        positions, documents = zip(nothing, *self.find_in_blocks(tokens), strict=True)
        return np.concatenate(positions), np.concatenate(documents)

    def find_in_blocks(self, tokens: U64) -> Iterator[tuple[I64, U64]]:
        """Yield what `find` returns in blocks, of which the largest is that of one token."""
        for _, run in self.runs():
            for pages in self._pages(run, tokens):
                for (page_tokens, page_documents), _ in _read(pages):
                    firsts = np.searchsorted(page_tokens, tokens, "left")
                    counts = np.searchsorted(page_tokens, tokens, "right") - firsts
                    positions = np.repeat(np.arange(tokens.size), counts)
                    yield positions, page_documents[ranges(firsts, counts)]

    def add(self, blocks: list[Entries], *, more_follow: bool = False) -> None:
        """Add new entries as a run, and empty their list.

        more_follow: further ones are added next, so that runs are merged later.
        """
        tokens, documents = _in_order(blocks)
        if tokens.size:
            run = self._new_run(tokens.size)
            self._write(run, Entries(tokens, documents), _page_starts(tokens))
        runs = self.runs()
        totals = [*itertools.accumulate(entries for entries, _ in runs)]
        # Positions of runs that are not much larger than all smaller ones together.
        mergeable = [
            position
            for position in range(1, len(runs))
            if runs[position][0] <= _MERGED * totals[position - 1]
        ]
        if mergeable and (not more_follow or len(runs) > _MOST_RUNS):
            last = mergeable[-1]
            self._merge([run for _, run in runs[: last + 1]], totals[last])

    def remove(self, tokens: U64, documents: U64) -> None:
        """Remove all entries of documents. tokens: all of theirs, sorted."""
        for _, run in self.runs():
            pages = [*itertools.chain(*self._pages(run, tokens))]
            for (page_tokens, page_documents), starts in _read(pages):
                stays = ~np.isin(page_documents, documents)
                sizes = np.diff(starts, append=page_documents.size)
                sizes_after = np.add.reduceat(stays, starts, dtype=np.int64)
                is_changed = sizes_after < sizes
                self.db.executemany(
                    f"DELETE FROM {self._table(run)} WHERE first = ?",
                    [(first,) for first in page_tokens[starts[is_changed]].tolist()],
                )
                # Only what stays of the changed pages is written again.
                rewritten = stays & np.repeat(is_changed, sizes)
                entries = Entries(page_tokens[rewritten], page_documents[rewritten])
                new_starts = offsets_of(sizes_after[is_changed & (sizes_after > 0)])[:-1]
                self._write(run, entries, new_starts)

    def _new_run(self, entries: int) -> int:
        """Return a run without pages. entries: number to write into it."""
        numbers = {run for _, run in self.runs()}
        run = next(run for run in itertools.count() if run not in numbers)
        self.db.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table(run)}"
            "(first INTEGER PRIMARY KEY, page BLOB NOT NULL)"
        )
        insert = f"INSERT OR REPLACE INTO {self._runs} VALUES(?, ?, ?)"
        self.db.execute(insert, (self._key, run, entries))
        return run

    def _merge(self, runs: Sequence[int], entries: int) -> None:
        """Make one run of several. entries: their number."""
        merged, tables = self._new_run(entries), [*map(self._table, runs)]
        sizes = " UNION ALL ".join(f"SELECT first, length(page) FROM {table}" for table in tables)
        tokens, documents, last = np.empty(0, np.uint64), np.empty(0, np.uint64), 0
        while last < _LAST:
            last, pages = self._last_token_to_merge(sizes), list[bytes]()
            for table in tables:
                rows = self.db.execute(f"SELECT page FROM {table} WHERE first <= ?", (last,))
                pages += [page for (page,) in rows]
                # The file grows less if these are free before the new ones are written.
                self.db.execute(f"DELETE FROM {table} WHERE first <= ?", (last,))
            read = (block.entries for block in _read(pages))
            tokens, documents = _in_order([Entries(tokens, documents), *read])
            # Later pages of other runs may have tokens between those that follow.
            end = int(np.searchsorted(tokens, np.uint64(last), "right"))
            whole_pages = Entries(tokens[:end], documents[:end])
            self._write(merged, whole_pages, _page_starts(whole_pages.tokens))
            tokens, documents = tokens[end:], documents[end:]
        for run in runs:
            clear = f"UPDATE {self._runs} SET entries = 0 WHERE list = ? AND run = ?"
            self.db.execute(clear, (self._key, run))

    def _last_token_to_merge(self, sizes: str) -> int:
        """Return the last token of the pages to merge next. sizes: selects their tokens and bytes.

        All pages that begin with one token are merged together.
        """
        bytes_read, before = 0, -1
        for number, (first, size) in enumerate(self.db.execute(f"{sizes} ORDER BY first")):
            is_much = bytes_read > _BYTES_MERGED or number >= self._pages_at_once
            if is_much and first != before:
                return int(first) - 1
            bytes_read, before = bytes_read + size, first
        return _LAST

    def _write(self, run: int, entries: Entries, starts: I64) -> None:
        """Write sorted entries as pages. starts: where they begin, shape (pages,)."""
        if not starts.size:
            return
        begins_block = run_starts(starts // _ENTRIES_AT_ONCE)
        begins_block[:: self._pages_at_once] = True
        pages_of_blocks = itertools.pairwise([*np.flatnonzero(begins_block).tolist(), starts.size])
        bounds = np.append(starts, entries.tokens.size)
        for first_page, end_page in pages_of_blocks:
            first, end = int(bounds[first_page]), int(bounds[end_page])
            block = Entries(entries.tokens[first:end], entries.documents[first:end])
            pages = _written(block, starts[first_page:end_page] - first)
            self.db.executemany(f"INSERT INTO {self._table(run)} VALUES(?, ?)", pages)


def _in_order(blocks: list[Entries]) -> Entries:
    """Return all entries by token and document. The list is emptied to free memory."""
    tokens, documents = map(np.concatenate, zip(*blocks, strict=True))
    blocks.clear()
    if not tokens.size:
        return Entries(tokens, documents)
    bits = np.uint64(int(documents.max()).bit_length())
    if int(tokens.max()).bit_length() + int(bits) > 64:
        order = np.lexsort((documents, tokens))
        return Entries(tokens[order], documents[order])
    # As one number they are sorted in half the time.
    joined = tokens << bits
    joined |= documents
    del tokens, documents
    joined.sort()
    documents = joined & ((np.uint64(1) << bits) - np.uint64(1))
    joined >>= bits
    return Entries(joined, documents)


def _page_starts(tokens: U64) -> I64:
    """Return where pages of sorted entries begin. A token of many documents has one of its own."""
    begins = np.flatnonzero(run_starts(tokens))
    fills_a_page = np.diff(begins, append=tokens.size) >= ENTRIES_A_PAGE
    return begins[fills_a_page | run_starts(begins // ENTRIES_A_PAGE)]


def _read(pages: Sequence[bytes]) -> Iterator[_Pages]:
    """Yield the entries of pages, those of one form together."""
    for form in sorted({page[0] for page in pages}):
        pages_of_form = [page for page in pages if page[0] == form]
        token_bytes, document_bytes = divmod(form, 16)
        entry_bytes = token_bytes + document_bytes
        if not entry_bytes:
            raise ValueError("a page whose entries take no bytes")
        first_tokens = np.frombuffer(b"".join([page[1:_HEAD] for page in pages_of_form]), "<u8")
        # Each number is read as eight bytes, of which the mask leaves its own. After the last
        # entry, these are within the zeros.
        raw = b"".join([*(page[_HEAD:] for page in pages_of_form), bytes(16)])
        page_bytes = np.fromiter(map(len, pages_of_form), np.int64, len(pages_of_form))
        counts = (page_bytes - _HEAD) // entry_bytes
        starts = offsets_of(counts)
        tokens, documents = (
            np.ndarray((starts[-1],), "<u8", raw, offset, (entry_bytes,)) & _MASKS[width]
            for offset, width in ((0, token_bytes), (token_bytes, document_bytes))
        )
        tokens += np.repeat(first_tokens, counts)
        yield _Pages(Entries(tokens, documents), starts[:-1])


def _written(entries: Entries, starts: I64) -> Iterator[tuple[int, bytes]]:
    """Yield the first token of each page of entries, and the page. starts: where they begin."""
    tokens, documents = entries
    first_tokens, counts = tokens[starts], np.diff(starts, append=tokens.size)
    columns = tokens - np.repeat(first_tokens, counts), documents
    # As many bytes as the largest number of a page needs.
    token_bytes, document_bytes = (
        np.searchsorted(_MASKS, np.maximum.reduceat(column, starts)) for column in columns
    )
    forms = 16 * token_bytes + document_bytes
    # The bytes of each entry, shape (entries, 16): the lowest of the token first, then those of the
    # document.
    raw = np.stack(columns, axis=1).astype("<u8", copy=False).view(np.uint8)
    for form in np.unique(forms).tolist():
        is_of_form = forms == form
        token_width, document_width = divmod(form, 16)
        byte_columns = [*range(token_width), *range(8, 8 + document_width)]
        data = raw[np.repeat(is_of_form, counts)][:, byte_columns].tobytes()
        bounds = (offsets_of(counts[is_of_form]) * len(byte_columns)).tolist()
        for first_token, (start, end) in zip(
            first_tokens[is_of_form].tolist(), itertools.pairwise(bounds), strict=True
        ):
            head = bytes([form]) + first_token.to_bytes(8, "little")
            yield first_token, head + data[start:end]


def numbers_of(tokens: Sequence[str], sketch: Sketch | None) -> U64:
    """Return a number for each token: its digits, or a hash. sketch: None for digests."""
    width = 0 if sketch is None else token_length(sketch.tokens, sketch.bits)
    if 0 < width <= _MOST_DIGITS:
        if {*map(len, tokens)} == {width}:
            digits = digits_of(tokens, width)
            if digits.max() < 64:
                return number_of(digits)
        if len(tokens) > 1:
            return np.concatenate([numbers_of([token], sketch) for token in tokens])
    return xxh3(tokens, 0) >> np.uint64(2) | _HASHED


def numbers_of_values(values: U64, sketch: Sketch) -> U64:
    """Return the numbers of the tokens of values, shape (n, tokens), row after row."""
    if token_length(sketch.tokens, sketch.bits) > _MOST_DIGITS:
        return numbers_of([*itertools.chain.from_iterable(encode(values, sketch.bits))], sketch)
    positions = np.arange(sketch.tokens, dtype=np.uint64)
    return (positions << np.uint64(-(-sketch.bits // 6) * 6) | values).ravel()
