"""What the local store promises beyond the contract: durability, writers that wait, snapshots."""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import esdedup
from esdedup.models import Document
from esdedup.stores import LocalStore
from esdedup.stores.mapping import IndexMeta
from tests.helpers.documents import with_tokens

META = IndexMeta(esdedup.Scheme())

WRITER = """
import sys
import esdedup
from pathlib import Path
index = esdedup.open(Path(sys.argv[1]))
for batch in range(int(sys.argv[3])):
    ids = [f"{sys.argv[2]}-{batch}-{n}" for n in range(200)]
    index.add({"id": id, "text": f"text of {id} and more words"} for id in ids)
    print(batch, flush=True)
"""


def start_writer(path: Path, name: str, batches: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name, str(batches)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def documents(name: str, count: int) -> list[Document]:
    plain = [Document(f"{name}-{n}", {"text": f"words of {name} {n}"}) for n in range(count)]
    return with_tokens(plain, META)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "local.db"


def test_what_was_acknowledged_survives_a_kill(path: Path) -> None:
    chance = random.Random(4)
    acknowledged: dict[str, int] = {}
    for attempt in range(6):
        writer = start_writer(path, f"w{attempt}", 10_000)
        assert writer.stdout is not None
        acknowledged[f"w{attempt}"] = int(writer.stdout.readline())
        time.sleep(chance.uniform(0, 0.6))
        writer.send_signal(signal.SIGKILL)
        lines = writer.communicate()[0].split()
        acknowledged[f"w{attempt}"] = int(lines[-1]) if lines else acknowledged[f"w{attempt}"]
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
    first.write(documents("before", 5))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute('DELETE FROM "documents:x"')
    assert first.statistics(META).documents == 5
    threading.Timer(0.7, other.rollback).start()
    start = time.monotonic()
    second.write(documents("after", 5))
    assert time.monotonic() - start > 0.5
    assert first.statistics(META).documents == 10
    for store in (first, second):
        store.close()
    other.close()


def test_what_is_no_database_is_told_so(path: Path, tmp_path: Path) -> None:
    path.write_text("this is a text file, and a long one " * 100)
    with pytest.raises(esdedup.StoreError, match="not a SQLite file"):
        esdedup.open(path).create()
    with pytest.raises(esdedup.StoreError, match="no folder"):
        esdedup.open(tmp_path / "absent" / "x.db").create()
    with pytest.raises(esdedup.IndexNotFound):
        LocalStore(tmp_path / "new.db", "x").write(documents("a", 1))
    assert not (tmp_path / "new.db").exists()
