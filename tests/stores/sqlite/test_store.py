"""What the local store promises beyond the contract: durability, writers that wait, and its lists.

New documents are found before and after they are listed.
"""

import contextlib
import itertools
import random
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import esdedup
from esdedup.models import Change
from esdedup.stores import LocalStore
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.sizes import StoreSizes
from tests.helpers.commands import words
from tests.helpers.indices import open_index
from tests.helpers.places import META, ask, document, query, ranked, with_tokens
from tests.helpers.processes import kill

WRITER = """
import sys
import esdedup
from pathlib import Path
index = esdedup.open(Path(sys.argv[1]))
for batch in range(10_000):
    ids = [f"{sys.argv[2]}-{batch}-{n}" for n in range(200)]
    index.add({"id": id, "text": f"text of {id} and more words"} for id in ids)
    print(batch, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "local.db"


def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    chance = random.Random(4)
    acknowledged: dict[str, int] = {}
    for attempt in range(6):
        command = [sys.executable, "-c", WRITER, str(path), f"w{attempt}"]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        lines = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.6))
        kill(writer)
        acknowledged[f"w{attempt}"] = int((lines + writer.communicate()[0]).split()[-1])
    with esdedup.open(path) as index:
        for name, last in acknowledged.items():
            ids = [f"{name}-{batch}-{n}" for batch in range(last + 1) for n in range(200)]
            assert len(index.store.get(ids)) == len(ids)
        statistics = index.statistics()
        assert statistics.documents == statistics.sketched
        # Whole batches or nothing.
        assert statistics.documents % 200 == 0
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_writer_waits_and_readers_see_whole_commits(path: Path) -> None:
    first, second = LocalStore(path, "x"), LocalStore(path, "x")
    first.create(META)
    first.write([document(f"before-{n}") for n in range(5)])
    writer = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute('DELETE FROM "documents:x"')
    assert first.statistics(META).documents == 5
    threading.Timer(0.7, writer.rollback).start()
    start = time.monotonic()
    second.write([document(f"after-{n}") for n in range(5)])
    assert time.monotonic() - start > 0.5
    assert first.statistics(META).documents == 10
    for store in (first, second):
        store.close()
    writer.close()


def test_what_is_no_database_is_told_so(path: Path, tmp_path: Path) -> None:
    path.write_text("this is a text file, and a long one " * 100)
    with pytest.raises(esdedup.exceptions.StoreError, match="not a SQLite file"):
        esdedup.open(path).create()
    with pytest.raises(esdedup.exceptions.StoreError, match="no folder"):
        esdedup.open(tmp_path / "absent" / "x.db").create()
    with pytest.raises(esdedup.exceptions.IndexNotFound):
        LocalStore(tmp_path / "new.db", "x").write([document("a")])
    assert not (tmp_path / "new.db").exists()


TOKENS = [f"{position}abcde" for position in ".01"]


@pytest.fixture
def store(path: Path) -> Iterator[LocalStore]:
    store = LocalStore(path, "index")
    store.create(META)
    yield store
    store.close()


def found(store: LocalStore) -> dict[str, int]:
    """The tokens that each document shares with a query for all of them."""
    return dict(ranked(ask(store, query(*TOKENS))))


def listed(path: Path) -> int:
    with sqlite3.connect(path) as db:
        query = 'SELECT total(entries) FROM "runs:index" WHERE list = ?'
        return int(db.execute(query, ("minhash",)).fetchone()[0])


def test_while_another_writes_a_search_finds_what_is_not_listed(
    store: LocalStore, path: Path
) -> None:
    store.write([document("a", TOKENS[:2])])
    assert found(store) == {"a": 2}
    store.write([document("b", TOKENS[1:])])
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    assert found(store) == {"a": 2, "b": 2}
    assert store.bucket_sizes("minhash", TOKENS, META) == [1, 2, 1]
    # It waits for seconds elsewhere, and a minute to write.
    assert time.monotonic() - began < 5
    assert listed(path) == 2
    writer.execute("ROLLBACK")
    writer.close()
    assert found(store) == {"a": 2, "b": 2}
    assert listed(path) == 4


def test_what_another_lists_during_a_search_is_met_once(store: LocalStore, path: Path) -> None:
    store.write([document("a", TOKENS)])
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    with store._searching() as tables:
        writer.execute("ROLLBACK")
        beside = LocalStore(path, "index")
        assert found(beside) == {"a": 3}
        assert listed(path) == 3
        assert tables.listing.holders("minhash", TOKENS)[1].tolist() == [1, 1, 1]
    beside.close()
    writer.close()
    assert found(store) == {"a": 3}


def test_a_file_of_another_layout_is_refused(store: LocalStore, path: Path) -> None:
    store.write([document("a", TOKENS)])
    store.close()
    with sqlite3.connect(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version & ~0xFF | 7}")
    for use in (store.meta, lambda: store.create(META), lambda: found(store)):
        with pytest.raises(
            esdedup.exceptions.StoreError, match="layout 7, and this esdedup reads layouts 3 and 4"
        ):
            use()


def test_a_file_that_can_only_be_read_is_searched(store: LocalStore, path: Path) -> None:
    store.write([document("a", TOKENS)])
    with store._database.reading() as db:
        # Such a connection writes nothing, also where the user may do anything.
        db.execute("PRAGMA query_only = ON")
    assert found(store) == {"a": 3}
    assert listed(path) == 0


def test_queries_are_answered_alike_in_small_blocks(store: LocalStore, path: Path) -> None:
    store.write([document(str(number), TOKENS[: number % 4]) for number in range(20)])
    queries = [query(*TOKENS), query("foreign"), query(TOKENS[0], exclude="5"), query(*TOKENS)]
    together = store.candidates(queries, 7)
    assert [len(each.documents) for each in together] == [7, 0, 7, 7]
    in_blocks = LocalStore(path, "index", StoreSizes(counted_entries=1))
    assert in_blocks.candidates(queries, 7) == together
    in_blocks.close()


def test_tokens_in_another_field_are_listed(path: Path) -> None:
    meta = IndexMeta(esdedup.Scheme(), field="esdedup_b")
    store = LocalStore(path, "other")
    store.create(meta)
    (one,) = with_tokens([document("a", text="a text of some words")], meta)
    store.write([one])
    token = one.tokens_in("esdedup_b")["minhash"][0]
    assert store.bucket_sizes("minhash", [token], meta) == [1]
    store.close()


@pytest.mark.parametrize(
    "limits", [{"threshold": 0.5}, {"threshold": None}, {"candidates": 110}], ids=str
)
def test_candidates_of_a_full_bucket_are_compared_as_they_are_now(
    path: Path, limits: dict[str, Any]
) -> None:
    notice = words(1, 60)
    texts = {f"d{n:03}": f"{notice} {words(n, n % 100)}" for n in range(2, 150)}
    query_text = f"{notice} {words(3, 3)}"

    def search() -> esdedup.results.Result:
        return index.similar(query_text, k=8, **limits)

    def check() -> None:
        result = search()
        with esdedup.open(path) as fresh:
            # Every candidate is read.
            fresh.store = LocalStore(path, fresh.store.index, StoreSizes(unverified=len(texts)))
            assert result == fresh.similar(query_text, k=8, **limits)
        assert (result.candidates > 80, len(result)) == (True, 8)
        assert {match.id: match.source["text"] for match in result}.items() <= texts.items()

    with esdedup.open(path) as index, esdedup.open(path) as beside:
        index.add({"id": id, "text": text, "n": 10**400} for id, text in texts.items())
        check()
        for writer in (index, beside):
            first, second, third = (match.id for match in search().matches[:3])
            unlike = index.similar(query_text, k=1_000, threshold=0.3).matches[-1].id
            texts |= {first: f"{notice} {words(0, 30)}", second: words(0, 60), unlike: query_text}
            writer.update([{"id": id, "text": texts[id]} for id in (first, second, unlike)])
            check()
            writer.delete([third])
            del texts[third]
            check()
            writer.add([{"id": f"{first}-new", "text": query_text}])
            texts[f"{first}-new"] = query_text
            check()
        for seed, writer in enumerate((index, beside)):
            writer.store.drop()
            index.create()
            texts = {id: f"{words(seed, 5)} {text}" for id, text in texts.items()}
            index.add({"id": id, "text": text} for id, text in texts.items())
            check()


def test_candidates_of_a_query_in_several_pieces_are_counted_once(path: Path) -> None:
    notice = words(1, 60)
    with open_index(
        path,
        [f"{notice} {words(n, 9)}" for n in range(100)],
        scheme=esdedup.Scheme((esdedup.Signature(2_000),)),
    ) as index:
        assert index.similar(notice, threshold=None, k=3).candidates == 100


def texts_of(store: LocalStore, word: str) -> list[str]:
    return sorted(store.full_text(word, META, 10)[0])


@pytest.mark.parametrize("connections", [1, 2])
def test_words_are_searched_for_in_the_texts_of_now(path: Path, connections: int) -> None:
    store = LocalStore(path, "x")
    store.create(META)
    writer = store if connections == 1 else LocalStore(path, "x")
    writer.write([document("a", text="alpha one"), document("b", text="alpha two")])
    assert texts_of(store, "alpha") == ["a", "b"]

    def is_read_again_after(work: Callable[[], object]) -> bool:
        assert store.has_read_texts()
        work()
        return not store.has_read_texts()

    def change(id: str, fields: dict[str, object] | None) -> None:
        (stored,) = writer.hold([id])
        assert writer.change([Change(stored, fields)]).updated == 1

    assert is_read_again_after(lambda: writer.write([document("a", text="omega one")]))
    assert (texts_of(store, "alpha"), texts_of(store, "omega")) == (["b"], ["a"])
    assert is_read_again_after(lambda: change("b", {"text": "omega two"}))
    assert (texts_of(store, "alpha"), texts_of(store, "omega")) == ([], ["a", "b"])
    assert is_read_again_after(lambda: writer.write([document("c", text="alpha")], create=True))
    assert texts_of(store, "alpha") == ["c"]
    # The number of documents and the last one of them are the same as before.
    change("b", None)
    writer.write([document("d", text="omega")], create=True)
    assert not store.has_read_texts()
    assert texts_of(store, "omega") == ["a", "d"]
    assert is_read_again_after(lambda: change("d", None))
    assert texts_of(store, "omega") == ["a"]
    for opened in {store, writer}:
        opened.close()


def test_texts_are_read_again_only_if_one_may_have_changed(path: Path) -> None:
    store, beside = LocalStore(path, "x"), LocalStore(path, "x").beside("y")
    store.create(META)
    store.write([document("a", text="alpha")])
    assert texts_of(store, "alpha") == ["a"]
    same_file = store.beside("z")
    same_file.create(META)
    same_file.write([document("b", text="alpha")])
    (stored,) = store.hold(["a"])
    store.change([Change(stored, {"esdedup": {"group": "a"}})])
    ask(store, query("a"))
    assert store.has_read_texts()
    # Which index another connection has changed is not known.
    beside.create(META)
    assert not store.has_read_texts()
    assert texts_of(store, "alpha") == ["a"]
    for opened in (store, beside, same_file):
        opened.close()


def test_texts_are_read_again_after_the_file_was_opened_again(path: Path) -> None:
    store = LocalStore(path, "x")
    store.create(META)
    store.write([document("a", text="alpha")])
    same_file = store.beside("x")
    assert texts_of(same_file, "alpha") == ["a"]
    store.close()
    with contextlib.closing(LocalStore(path, "x")) as other:
        other.write([document("a", text="omega")])
    assert texts_of(same_file, "alpha") == []
    same_file.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(
    works=st.lists(
        st.tuples(
            st.sampled_from(["write", "create", "delete", "drop"]),
            st.integers(0, 1),
            st.integers(0, 3),
            st.sampled_from(["alpha", "omega"]),
        ),
        max_size=12,
    )
)
def test_found_words_are_those_of_the_stored_texts(
    tmp_path: Path, works: list[tuple[str, int, int, str]]
) -> None:
    path = tmp_path / f"{uuid.uuid4().hex}.db"
    stores, texts = [LocalStore(path, "x"), LocalStore(path, "x")], dict[str, str]()
    stores[0].create(META)
    for work, number, id_number, word in works:
        store, id = stores[number], f"{id_number}"
        if work == "write":
            store.write([document(id, text=word)])
            texts[id] = word
        elif work == "create":
            store.write([document(id, text=word)], create=True)
            texts.setdefault(id, word)
        elif work == "delete":
            store.change([Change(stored, None) for stored in store.hold([id])])
            texts.pop(id, None)
        else:
            store.drop()
            store.create(META)
            texts.clear()
        for store, word in itertools.product(stores, ("alpha", "omega")):
            assert texts_of(store, word) == sorted(id for id in texts if texts[id] == word)
    for store in stores:
        store.close()
