"""The file of the local store: whose it is, who may read it, and what is said if it is damaged."""

import functools
import hashlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.fuzz import fuzz
from tests.helpers.indices import fill_index, open_index
from tests.helpers.places import Place
from tests.helpers.processes import at_once


@pytest.fixture
def ours(folder: Path) -> Path:
    """A file of ours that holds documents, their marks and their listed tokens, and is closed."""
    path = folder / "ours.db"
    with open_index(
        Place(path, "news"), [{"id": f"d{n}", "text": words(n // 2, 30)} for n in range(60)]
    ) as index:
        index.group()
        index.similar(words(1, 30))
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Of another program


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("tables", [0, 1])
def test_a_file_of_another_program_is_left_as_it_is(
    folder: Path, journal: str, tables: int
) -> None:
    path = folder / "other.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA journal_mode = {journal}")
    db.execute("PRAGMA user_version = 1")
    for number in range(tables):
        db.execute(f"CREATE TABLE esdedup_indices{number or ''}(name TEXT PRIMARY KEY, meta TEXT)")
    db.close()
    write_lines(folder / "more.jsonl", [{"id": "a", "text": "one two three"}])
    before = digest(path), names(folder)
    for command in ("index more.jsonl", "pairs", "similar --id a"):
        ran = run_command(*command.split(), "--db", str(path), status=1)
        assert f"{path}: it is a SQLite file of another program" in ran.err
        assert (digest(path), names(folder)) == before


def test_an_empty_file_becomes_ours(folder: Path) -> None:
    path = folder / "empty.db"
    path.touch(mode=0o640)
    assert "does not exist" in run_command("stats", "--db", str(path)).err
    assert path.stat().st_size == 0
    fill_index(path, [{"id": "a", "text": "one two three"}])
    assert path.stat().st_mode & 0o777 == 0o640


# Who may read it


def test_files_that_hold_documents_are_the_owners_only(folder: Path) -> None:
    write_lines(folder / "articles.jsonl", ["not JSON", {"id": "a", "text": "one two three"}])
    write_lines(folder / "equal.jsonl", [{"id": str(n), "text": "one two three"} for n in range(9)])
    for path in folder.iterdir():
        path.chmod(0o644)
    before = os.umask(0)
    try:
        run_command("index", "articles.jsonl", "equal.jsonl", status=1)
        index = esdedup.open("esdedup.db")
        index.add([{"id": "b", "text": "four five six"}])
        assert {"esdedup.db-wal", "esdedup.db-shm"} < set(names(folder))
        run_command("report", status=0)
        run_command("dedup", "--apply", "--action", "delete", "--yes", status=0)
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
        index.close()
    finally:
        os.umask(before)
    assert len(modes) == 8
    open_to_all = {name for name, mode in modes.items() if mode != 0o600}
    assert open_to_all == {"articles.jsonl", "equal.jsonl"}


# Damaged


@functools.partial(fuzz, most=3_000)
@given(
    data=st.data(),
    count=st.integers(1, 40),
    command=st.sampled_from(
        [
            "stats --hot 2",
            "pairs",
            "similar --id d4",
            f"similar --text {words(3, 1)} --sketch simhash",
            "explain d0 d1",
            "index more.jsonl --on-duplicate mark",
            "group",
            "dedup",
        ]
    ),
)
def test_a_damaged_file_is_told(
    ours: Path, folder: Path, data: st.DataObject, count: int, command: str
) -> None:
    damaged = folder / "damaged.db"
    raw = bytearray(ours.read_bytes())
    for _ in range(count):
        # Whole pages are damaged too, as by a bad block.
        first = data.draw(st.integers(0, len(raw) - 1))
        length = data.draw(st.sampled_from([1, 4, 512]))
        with_bytes = data.draw(st.binary(min_size=1, max_size=4))
        part = (with_bytes * length)[: min(length, len(raw) - first)]
        raw[first : first + len(part)] = part
    if data.draw(st.integers(0, 4)) == 0:
        del raw[data.draw(st.integers(0, len(raw))) :]
    write_lines(folder / "more.jsonl", [{"id": "d3", "text": words(3, 30)}])
    for ending in ("-wal", "-shm"):
        Path(f"{damaged}{ending}").unlink(missing_ok=True)
    shutil.rmtree(folder / "damaged.db.news.group", ignore_errors=True)
    damaged.write_bytes(raw)
    ran = run_command(*command.split(), "--index", "news", "--db", str(damaged))
    assert ran.status in (0, 1, 2), ran
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("change", "commands"),
    [
        ("UPDATE \"documents:news\" SET tokens = '5'", ["similar --id d4"]),
        ("UPDATE \"documents:news\" SET source = x'ff'", ["explain d4 d5", "index d4.jsonl"]),
        ('DELETE FROM "listed:news"', ["similar --id d4", "stats --hot 1"]),
        ("UPDATE esdedup_indices SET meta = NULL", ["stats"]),
    ],
)
def test_rows_that_we_did_not_write_are_told(ours: Path, change: str, commands: list[str]) -> None:
    db = sqlite3.connect(ours)
    db.execute(change)
    db.commit()
    db.close()
    write_lines(Path("d4.jsonl"), [{"id": "d4", "text": "one two three"}])
    for command in commands:
        ran = run_command(*command.split(), "--index", "news", "--db", str(ours), status=1)
        assert f"{ours}: it is damaged" in ran.err
        assert ".recover" in ran.err


# Several threads


def test_threads_share_a_store(folder: Path) -> None:
    with open_index(folder / "shared.db") as index:

        def work(name: int) -> None:
            for n in range(5):
                index.add([{"id": f"{name}-{n}", "text": words(name * 100 + n)}])
                assert len(index.similar(words(name * 100 + n)).matches) == 1

        assert at_once([functools.partial(work, name) for name in range(4)]) == [None] * 4
        assert index.statistics().documents == 20


@pytest.mark.parametrize("ending", ["", "-wal"])
@pytest.mark.parametrize("loss", ["move", "remove", "replace"])
def test_a_file_that_went_takes_no_more_writes(tmp_path: Path, ending: str, loss: str) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    gone = Path(f"{path}{ending}")
    fill_index(copy, ["someone else's"])
    with open_index(path, ["a first text", "a second text"]) as index:
        if loss == "replace":
            copy.rename(gone)
        elif loss == "move":
            gone.rename(tmp_path / "moved")
        else:
            gone.unlink()
        for act in (lambda: index.add(["a third text"]), lambda: index.similar("a third text")):
            with pytest.raises(
                esdedup.exceptions.StoreError, match="moved, removed or replaced while it was open"
            ):
                act()
        if loss == "move":
            (tmp_path / "moved").rename(gone)
            index.add(["a third text"])
    if loss == "move":
        with esdedup.open(path) as index:
            assert index.statistics().documents == 3


def test_a_copy_beside_the_log_of_another_file_is_told(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    fill_index(copy, ["the text of the copy"])
    with open_index(path, [f"text number {n} of {n * 7}" for n in range(300)]) as index:
        # As a kill leaves them.
        contents = {file: file.read_bytes() for file in (path, Path(f"{path}-wal"))}
    for file, content in contents.items():
        file.write_bytes(content)
    with esdedup.open(path) as index:
        assert index.statistics().documents == 300
    for file, content in contents.items():
        file.write_bytes(content)
    shutil.copy(copy, path)
    with (
        esdedup.open(path) as index,
        pytest.raises(esdedup.exceptions.StoreError, match=r"a.db-wal: .* away"),
    ):
        index.statistics()
    Path(f"{path}-wal").rename(tmp_path / "away")
    with esdedup.open(path) as index:
        assert index.statistics().documents == 1
