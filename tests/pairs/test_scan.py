"""Work folders: only our own files are read, written and removed, and runs do not meet in one."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.groups.groups import Grouping, find_groups
from esdedup.pairing import scan as work_folder
from esdedup.pairing.scan import WorkFolder
from esdedup.stores.place import Place
from tests.helpers.commands import run_command, words
from tests.helpers.fuzz import fuzz

FILES = ["job.json", "share-0001.npz", "state.npz", "texts-0001", "values"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(work_folder, "_SECONDS_BETWEEN", 0.0)
    fill(tmp_path / "a.db")
    return tmp_path


def fill(path: Path) -> None:
    with esdedup.open(path) as index:
        index.add([{"id": f"d{n}", "text": words(n // 2, 12)} for n in range(12)])


def stopped(path: Path) -> Path:
    """The folder of a run that was stopped, with all of its files."""
    with esdedup.open("a.db") as index, WorkFolder.at(path) as work:
        find_groups(index.store, index.meta, Grouping(), work=work)
        work.keep(work.checkpoint(6), 0)
    return path


def test_a_run_leaves_files_that_only_the_owner_reads(folder: Path) -> None:
    before = os.umask(0)
    work = stopped(folder / "work")
    os.umask(before)
    assert sorted(path.name for path in work.iterdir()) == sorted([*FILES, "lock"])
    assert {path.stat().st_mode & 0o777 for path in work.iterdir()} == {0o600}
    assert work.stat().st_mode & 0o777 == 0o700
    assert run_command("group", "--db", "a.db", "--work", "work").status == 0
    assert not work.exists()


def test_what_a_kill_leaves_of_a_finished_run_is_not_read(folder: Path) -> None:
    work = stopped(folder / "work")
    (work / "job.json").unlink()
    with esdedup.open("a.db") as index:
        ids = [each.id for group in index.groups() for each in group.members]
        index.add([{"id": id, "text": words(100 + n)} for n, id in enumerate(ids)])
        expected = index.group(work=work).groups
        assert (expected.duplicates, work.exists()) == (0, False)


@pytest.mark.parametrize("name", [*FILES, "lock", "values.tmp", "notes.tmp", "mine.txt"])
@pytest.mark.parametrize("begun", [True, False])
def test_links_and_files_of_others_stay(folder: Path, name: str, begun: bool) -> None:
    work, mine = folder / "work", folder / "mine"
    if begun:
        stopped(work)
        (work / name).unlink(missing_ok=True)
    else:
        work.mkdir()
    mine.write_text("mine")
    link = name not in ("notes.tmp", "mine.txt")
    if link:
        (work / name).symlink_to(mine)
    else:
        (work / name).write_text("mine")
    for command in ("report", "group"):
        ran = run_command(command, "--db", "a.db", "--work", "work")
        assert ran.status == 2, ran
        assert f"work folder work: it holds {name}, which esdedup did not write" in ran.err
        assert (work / name).read_text() == mine.read_text() == "mine"
        assert (work / name).is_symlink() == link


@pytest.mark.parametrize("name", FILES)
def test_a_link_that_comes_later_is_not_followed(folder: Path, name: str) -> None:
    """Not even one that comes after the folder was looked at."""
    mine = folder / "mine"
    mine.write_text("mine")
    with esdedup.open("a.db") as index, WorkFolder.at(folder / "work") as work:
        for ending in ("", ".tmp"):
            (work.path / f"{name}{ending}").symlink_to(mine)
        with suppress(esdedup.EsdedupError):
            find_groups(index.store, index.meta, Grouping(), work=work)
        work.remove()
    assert mine.read_text() == "mine"


def test_a_link_to_a_folder_is_refused(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "work").symlink_to(folder / "elsewhere")
    ran = run_command("group", "--db", "a.db", "--work", "work")
    assert (ran.status, "it is a symbolic link" in ran.err) == (2, True), ran
    assert list((folder / "elsewhere").iterdir()) == []


def test_runs_on_two_files_do_not_meet(folder: Path) -> None:
    (folder / "sub").mkdir()
    shutil.copy("a.db", "sub/a.db")
    shutil.copy("a.db", "b.db")
    paths = [Path("a.db"), Path("b.db"), Path("sub/a.db")]
    defaults = {Place(path, "documents").work_folder("group") for path in paths}
    assert defaults == {
        Path("a.db.documents.group"), Path("b.db.documents.group"), Path("sub/a.db.documents.group")
    }  # fmt: skip
    for path in paths:
        stopped(path.with_name(f"{path.name}.documents.group"))
    # As of a run on a.db in this folder: one in sub has another file of that name.
    os.chdir("sub")
    ran = run_command("group", "--db", "a.db", "--work", "../a.db.documents.group")
    os.chdir("..")
    assert (ran.status, "unfinished work of another address" in ran.err) == (2, True), ran
    for name in ("a.db", "sub/a.db"):
        assert run_command("report", "--db", name).status == 0
    assert [path.name for path in folder.rglob("*.report")] == []


def test_clusters_have_folders_of_their_own() -> None:
    urls = [("http://a:9200",), ("https://b:9200/es", "https://a:9200"), ("http://a:9201",)]
    places = [Place(esdedup.Connection(each), "../news") for each in urls]
    assert [place.work_folder("group") for place in places] == [
        Path("%2E.%2Fnews@a-9200.group"),
        Path("%2E.%2Fnews@a-9200,b-9200-es.group"),
        Path("%2E.%2Fnews@a-9201.group"),
    ]


@pytest.mark.parametrize("index", ["../x", "a/b", "..", "新闻", "x" * 240, "a\nb"])
def test_names_of_files_do_not_lead_elsewhere(folder: Path, index: str) -> None:
    (folder / "deep").mkdir()
    os.chdir("deep")
    Path("x.jsonl").write_text(
        'not JSON\n{"id": "a", "text": "one two"}\n{"id": "b", "text": "one two"}\n'
    )
    target = ["--index", index, "--db", "../a.db"]
    assert run_command("index", "x.jsonl", *target).status == 1
    assert run_command("report", *target).status == 0
    assert run_command("group", *target).status == 0
    assert run_command("dedup", *target, "--apply", "--action", "delete", "--yes").status == 0
    assert len(list(Path().glob("[!.]*"))) == 4
    assert sorted(path.name for path in folder.iterdir()) == ["a.db", "deep"]
    if index == "新闻":
        assert Path("新闻.dead-letter.jsonl").exists()


# Damaged files


@fuzz
@given(data=st.data())
def test_a_damaged_folder_is_told(folder: Path, data: st.DataObject) -> None:
    whole, work = folder / "whole", folder / "work"
    if not whole.exists():
        stopped(whole)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(whole, work)
    file = work / data.draw(st.sampled_from([*FILES, "lock"]))
    raw = bytearray(file.read_bytes())
    for at, value in data.draw(
        st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=9)
    ):
        if raw:
            raw[min(len(raw) - 1, int(at * len(raw)))] = value
    del raw[len(raw) - int(data.draw(st.sampled_from([0, 0, 0.1, 0.5, 1])) * len(raw)) :]
    file.write_bytes(raw)
    with esdedup.open("a.db") as index:
        expected = [(each.representative, len(each.members)) for each in index.groups()]
    ran = run_command("dedup", "--db", "a.db")
    ran = run_command("group", "--dry-run", "--db", "a.db", "--work", "work")
    assert ran.status in (0, 1, 2), ran
    assert "Traceback" not in ran.err
    if ran.status == 0:
        assert ran.json[0]["groups"] == len(expected)
