"""Lists of tokens in runs of pages, compared with a set of entries."""

import sqlite3

import numpy as np
import pytest

from esdedup.stores.sqlite.postings import Entries, Postings, _read


def new_list(pages_at_once: int = 4_096) -> Postings:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute('CREATE TABLE "runs"(list TEXT, run INT, entries INT, PRIMARY KEY(list, run))')
    return Postings(db, "minhash", '"{}"'.format, pages_at_once)


def test_merged_runs_leave_few_free_pages() -> None:
    chance, postings = np.random.default_rng(4), new_list()
    for step in range(9):
        tokens = chance.integers(0, 1 << 34, 50_000, np.uint64)
        documents = np.arange(tokens.size, dtype=np.uint64) + np.uint64(step * tokens.size)
        postings.add([Entries(tokens, documents)], more_follow=step < 8)
    assert len(postings.runs()) == 1
    free, pages = (
        postings.db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("freelist_count", "page_count")
    )
    assert free < pages / 4


def test_runs_hold_the_entries_of_a_set() -> None:
    chance, postings = np.random.default_rng(4), new_list(pages_at_once=7)
    entries = np.empty((0, 2), np.uint64)
    for step in range(60):
        # One token of all documents, few of many, and others of any width.
        count, widest = (2_000, 1_000) if step % 20 == 9 else (30, 2 ** (step % 62 + 1))
        tokens = chance.integers(0, widest, (count, 4), np.uint64)
        tokens[:, 0] = 5
        documents = np.arange(count, dtype=np.uint64)[:, None] + np.uint64(step * 5_000 + 1)
        new = np.stack(np.broadcast_arrays(tokens, documents), axis=-1).reshape(-1, 2)
        new = np.unique(new, axis=0)
        postings.add([Entries(*chance.permutation(new).T)], more_follow=step % 3 == 0)
        entries = np.concatenate([entries, new])
        gone = chance.choice(np.unique(entries[:, 1]), 20, replace=False)
        lost = np.isin(entries[:, 1], gone)
        postings.remove(np.unique(entries[lost, 0]), gone)
        entries = entries[~lost]
        tokens_to_find = np.unique(
            np.append(entries[::7, 0], chance.integers(0, 2_000, 50, np.uint64))
        )
        positions, documents = postings.find(tokens_to_find)
        expected = entries[np.isin(entries[:, 0], tokens_to_find)]
        assert sorted(zip(tokens_to_find[positions], documents, strict=True)) == sorted(
            map(tuple, expected)
        )
    assert len(postings.runs()) < 18


def test_a_page_whose_entries_take_no_bytes_is_damaged() -> None:
    with pytest.raises(ValueError, match="no bytes"):
        list(_read([bytes(20)]))
