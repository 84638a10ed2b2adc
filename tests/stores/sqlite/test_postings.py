"""The lists of a local file: new documents are found before and after they are listed."""

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import esdedup
from esdedup.stores import LocalStore
from tests.helpers.places import META, ask, document, query, ranked

TOKENS = [f"{position}abcde" for position in ".01"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "local.db"


@pytest.fixture
def store(path: Path) -> Iterator[LocalStore]:
    made = LocalStore(path, "index")
    made.create(META)
    yield made
    made.close()


def found(store: LocalStore) -> dict[str, int]:
    """The tokens that each document shares with a query for all of them."""
    return dict(ranked(ask(store, query(*TOKENS))))


def listed(path: Path) -> int:
    with sqlite3.connect(path) as db:
        return int(db.execute('SELECT count(*) FROM "minhash:index"').fetchone()[0])


def test_while_another_writes_a_search_finds_what_is_not_listed(
    store: LocalStore, path: Path
) -> None:
    store.write([document("a", TOKENS[:2])])
    assert found(store) == {"a": 2}
    store.write([document("b", TOKENS[1:])])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert found(store) == {"a": 2, "b": 2}
    assert store.bucket_sizes("minhash", TOKENS, META) == [1, 2, 1]
    # It waits for seconds elsewhere, and a minute to write.
    assert time.monotonic() - began < 5
    assert listed(path) == 2
    other.execute("ROLLBACK")
    other.close()
    assert found(store) == {"a": 2, "b": 2}
    assert listed(path) == 4


def test_what_another_lists_during_a_search_is_met_once(store: LocalStore, path: Path) -> None:
    store.write([document("a", TOKENS)])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with store._searching() as tables:
        query = tables.holders("minhash", tables.waiting())
        other.execute("ROLLBACK")
        beside = LocalStore(path, "index")
        assert found(beside) == {"a": 3}
        assert listed(path) == 3
        assert len(tables.db.execute(query, (json.dumps(TOKENS),)).fetchall()) == 3
    beside.close()
    other.close()
    assert found(store) == {"a": 3}


def test_a_file_of_another_layout_is_refused(store: LocalStore, path: Path) -> None:
    store.write([document("a", TOKENS)])
    store.close()
    with sqlite3.connect(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version & ~0xFF | 7}")
    for use in (store.meta, lambda: store.create(META), lambda: found(store)):
        with pytest.raises(esdedup.StoreError, match="layout 7, and this esdedup needs layout 2"):
            use()


def test_a_file_that_can_only_be_read_is_searched(store: LocalStore, path: Path) -> None:
    store.write([document("a", TOKENS)])
    with store._database.reading() as db:
        # Such a connection writes nothing, also where the user may do anything.
        db.execute("PRAGMA query_only = ON")
    assert found(store) == {"a": 3}
    assert listed(path) == 0
