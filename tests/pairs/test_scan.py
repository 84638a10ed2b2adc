"""Work folders: runs resume from them, and only our own files are read, written and removed."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.compare.keep_rule import KeepRule
from esdedup.groups.groups import Grouping, find_groups
from esdedup.runs.run import Run
from esdedup.stores.location import IndexLocation
from tests.helpers.commands import run_command, words
from tests.helpers.fuzz import fuzz
from tests.helpers.indices import fill_index

FILES = ["job.json", "share-0001.npz", "shares.json", "texts-0001"]
GROUP = ("group", "--db", "a.db", "--work", "work")


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    fill_index("a.db", [{"id": f"d{n}", "text": words(n // 2, 12)} for n in range(12)])
    return folder


def stopped(path: Path) -> Path:
    """The folder of a run that was stopped, with all of its files."""
    with esdedup.open("a.db") as index, Run.at(path) as work:
        find_groups(index.store, index.meta, Grouping(), work=work)
    return path


def test_a_run_leaves_files_that_only_the_owner_reads(folder: Path) -> None:
    before = os.umask(0)
    work = stopped(folder / "work")
    os.umask(before)
    assert sorted(path.name for path in work.iterdir()) == sorted([*FILES, "lock"])
    assert {path.stat().st_mode & 0o777 for path in work.iterdir()} == {0o600}
    assert work.stat().st_mode & 0o777 == 0o700
    run_command(*GROUP, status=0)
    assert not work.exists()


def test_what_a_kill_leaves_of_a_finished_run_is_not_read(folder: Path) -> None:
    work = stopped(folder / "work")
    (work / "job.json").rename(work / "job.json.tmp")
    with esdedup.open("a.db") as index:
        ids = [each.id for group in index.groups() for each in group.members]
        index.add([{"id": id, "text": words(100 + n)} for n, id in enumerate(ids)])
        expected = index.group(work=work).groups
        assert (expected.duplicates, work.exists()) == (0, False)


@pytest.mark.parametrize("method", ["leader", "components"])
def test_a_resumed_run_reads_the_documents_that_came_meanwhile(folder: Path, method: Any) -> None:
    """One came and one went, so that their number is the same."""

    grouping = Grouping(method=method, keep=KeepRule.parse("longest"))
    with esdedup.open("a.db") as index:
        with Run.at(folder / "work") as work:
            find_groups(index.store, index.meta, grouping, work=work)
        index.add([{"id": "new", "text": f"{words(0, 12)} and"}])
        index.delete(["d11"])
        found = index.group(work="work", grouping=grouping)
    assert (found.marks.stale, found.missed) == (1, 0)
    head = next(group for group in found.groups if len(group.members) == 2)
    assert (head.representative, [each.id for each in head.members]) == ("new", ["d0", "d1"])
    assert not Path("work").exists()


@pytest.mark.parametrize("begun", [True, False])
def test_links_and_files_of_others_stay(folder: Path, begun: bool) -> None:
    work, mine = folder / "work", folder / "mine"
    mine.write_text("mine")
    for name in ("lock", "texts-0001", "values.tmp", "notes.tmp", "mine.txt"):
        if begun:
            stopped(work)
            (work / name).unlink(missing_ok=True)
        else:
            work.mkdir()
        link = name not in ("notes.tmp", "mine.txt")
        if link:
            (work / name).symlink_to(mine)
        else:
            (work / name).write_text("mine")
        ran = run_command(*GROUP, status=2)
        assert f"work folder work: it holds {name}, which esdedup did not write" in ran.err
        assert (work / name).read_text() == mine.read_text() == "mine"
        assert (work / name).is_symlink() == link
        shutil.rmtree(work)
    work.symlink_to(folder / "elsewhere")
    (folder / "elsewhere").mkdir()
    ran = run_command(*GROUP, status=2)
    assert "it is a symbolic link" in ran.err
    assert list((folder / "elsewhere").iterdir()) == []


def test_runs_do_not_meet_in_a_folder(folder: Path) -> None:
    work = folder / "work"
    with Run.at(work):
        ran = run_command(*GROUP)
    assert (ran.status, "another run is using" in ran.err) == (1, True), ran
    stopped(work)
    shutil.copy("a.db", "b.db")
    for options, said in (
        (["-t", "0.9"], "belongs to an unfinished run with another threshold (0.8, not 0.9)"),
        (["--recall", "0.9999999"], "another reading (tokens, 12 bands"),
        (["--db", "b.db"], "another index"),
    ):
        ran = run_command(*GROUP, *options, status=2)
        assert said in ran.err
    for job in ("[1]", "{", "", '{"index": 1}', '{"shares": "x"}'):
        (work / "job.json").write_text(job)
        ran = run_command(*GROUP, status=2)
        assert "remove the folder" in ran.err


def test_each_file_and_cluster_has_a_folder_of_its_own() -> None:
    cluster = esdedup.Connection
    places: list[tuple[Any, str]] = [
        (Path("a.db"), "a.db.%2E.%2Fnews.group"),
        (Path("sub/a.db"), "sub/a.db.%2E.%2Fnews.group"),
        (cluster(("http://a:9200",)), "%2E.%2Fnews@a-9200.group"),
        (
            cluster(("https://b:9200/es", "https://a:9200")),
            "%2E.%2Fnews@a-9200,b-9200-es.group",
        ),
    ]
    for target, expected in places:
        assert IndexLocation(target, "../news").work_folder("group") == Path(expected)


@pytest.mark.parametrize("index", ["../x", "a/b", "..", "新闻", "x" * 240, "a\nb"])
def test_names_of_files_do_not_lead_elsewhere(folder: Path, index: str) -> None:
    (folder / "deep").mkdir()
    os.chdir("deep")
    Path("x.jsonl").write_text(
        'not JSON\n{"id": "a", "text": "one two"}\n{"id": "b", "text": "one two"}\n'
    )
    target = ["--index", index, "--db", "../a.db"]
    run_command("index", "x.jsonl", *target, status=1)
    run_command("report", *target, status=0)
    run_command("group", *target, status=0)
    run_command("dedup", *target, "--apply", "--action", "delete", "--yes", status=0)
    assert len(list(Path().glob("[!.]*"))) == 4
    assert sorted(path.name for path in folder.iterdir()) == ["a.db", "deep"]
    if index == "新闻":
        assert Path("新闻.dead-letter.jsonl").exists()


def test_a_folder_that_goes_away_is_an_error(folder: Path) -> None:
    work = folder / "work"
    with esdedup.open("a.db") as index, Run.at(work) as opened:
        shutil.rmtree(work)
        with pytest.raises(esdedup.exceptions.StoreError, match=r"work folder .*No such file"):
            find_groups(index.store, index.meta, Grouping(), work=opened)


@partial(fuzz, most=2_500)
@given(data=st.data())
def test_a_damaged_folder_is_an_error(folder: Path, data: st.DataObject) -> None:
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
    ran = run_command(*GROUP, "--dry-run")
    assert ran.status in (0, 1, 2), ran
    assert "Traceback" not in ran.err
    if ran.status == 0:
        assert ran.json[0]["groups"] == 6
