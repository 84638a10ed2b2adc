"""Documents of an index that stay take values from their duplicates, and undo restores them."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import UsageError
from esdedup.groups.groups import Grouping, find_groups
from esdedup.models import Document
from esdedup.records.merge import Merge
from esdedup.removal.log import Action, LogReader, LogWriter
from esdedup.removal.remove import Dedup
from esdedup.removal.undo import undo_removal
from esdedup.stores import Store
from esdedup.stores.changes import delete, update
from tests.helpers.commands import Ran, run_command, words
from tests.helpers.crashes import crash_everywhere
from tests.helpers.indices import open_index
from tests.helpers.places import (
    META,
    STORES,
    Place,
    clusters,
    local,
    whole,
    write_records,
)
from tests.helpers.wrapped import wrapped
from tests.removal.removing import ACTIONS, dedup
from tests.servers.proxy import Proxy, product_of

MERGED_BY: list[Action] = ["delete", "mark"]
MERGE = Merge(("url", "meta.tags"), ("author",))
OPTIONS = ["--collect", "url", "--collect", "meta.tags", "--fill", "author"]
NEW_VALUES = {"url": ["a", "b", 7], "meta": {"tags": ["x", "y"], "n": 1}, "author": "Ann"}


def sources(groups: int = 1) -> list[dict[str, Any]]:
    """Three copies a group, with different fields, and as many documents that stay alone."""
    documents = list[dict[str, Any]]()
    for group in range(groups):
        text = words(group)
        documents += [
            {"id": f"g{group}-0", "text": text, "url": "a", "meta": {"n": 1, "tags": []}},
            {"id": f"g{group}-1", "text": text, "url": ["b", "a"], "author": "Ann"},
            {"id": f"g{group}-2", "text": text, "url": 7, "author": "B", "meta": {"tags": "x"}},
            {"id": f"g{group}-3", "text": text, "meta": {"tags": ["y", "x"]}},
            {"id": f"s{group}", "text": words(10**6 + group), "url": "z"},
        ]
    return documents


def raw(store: Store) -> dict[str, str | None]:
    """Return the JSON of all documents, by id."""
    return {document.id: document.raw for document in store.hold([*whole(store)])}


def merge(place: Place, action: Action = "delete", *more: str, status: int | None = None) -> Ran:
    """Remove duplicates, of which the documents that stay take values."""
    return dedup(place, action, *OPTIONS, *more, status=status)


def taken(store: Store, id: str) -> dict[str, Any]:
    """Return the values of the fields that a document takes."""
    (document,) = store.get([id])
    return {name: value for name, value in document.source.items() if name in NEW_VALUES}


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_undone_is_the_same_index(
    place: Place, there: Store, store: Store, action: Action
) -> None:
    write_records(store, sources(3))
    before, before_raw = whole(store), raw(store)
    ran = merge(place, action, status=0)
    (report,) = ran.json
    assert (report["duplicates"], report["merged"], report["failed"]) == (9, 3, 0)
    for group in range(3):
        assert taken(store, f"g{group}-0") == NEW_VALUES
    assert taken(store, "s0") == {"url": "z"}
    ids = before if action == "mark" else {id for id in before if id.endswith("-0") or id[0] == "s"}
    assert whole(store).keys() == set(ids)
    # What has all values needs no change.
    assert merge(place, action).json[0]["merged"] == 0
    log = report["log"]
    for restored in (12 + 3 * (action == "mark"), 0):
        undone = run_command("undo", log, "--yes", *place.options, status=0)
        assert undone.json[0]["restored"] == restored
        assert whole(store) == before
    assert raw(store) == before_raw


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", MERGED_BY)
def test_numbers_keep_their_digits(
    place: Place, store: Store, folder: Path, action: Action
) -> None:
    """Numbers that a document takes, and that it gets back."""
    lines = [
        f'{{"id":"1","text":"{words(1)}","url":2.50}}',
        f'{{"id":"2","text":"{words(1)}","url":[2.5,3,1.10],"author":100.10}}',
        f'{{"id":"3","text":"{words(1)}","author":7.70,"meta":{{"tags":[{{"n":0.10}}]}}}}',
    ]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    place.run("index", "a.jsonl", status=0)
    before = raw(store)
    report = merge(place, action, status=0).json[0]
    assert (report["merged"], report["failed"]) == (1, 0)
    changed = raw(store)["1"] or ""
    for taken_value in (
        '"url":[2.50,3,1.10]', '"author":100.10', '"meta":{"tags":[{"n":0.10}]}',
    ):  # fmt: skip
        assert taken_value in changed
    run_command("undo", report["log"], "--yes", *place.options, status=0)
    assert raw(store) == before


@local
def test_integers_of_many_digits_are_no_texts(place: Place, store: Store, folder: Path) -> None:
    number = "9" * 500
    lines = [
        f'{{"id":"1","text":"{words(1)}","url":-{number}}}',
        f'{{"id":"2","text":"{words(1)}","url":[-{number},3],"author":{number}}}',
    ]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n")
    place.run("index", "a.jsonl", status=0)
    before = raw(store)
    report = merge(place, "delete", status=0).json[0]
    changed = raw(store)["1"] or ""
    assert f'"url":[-{number},3]' in changed
    assert f'"author":{number}' in changed
    run_command("undo", report["log"], "--yes", *place.options, status=0)
    assert raw(store) == before


def test_the_plan_shows_new_values(place: Place, store: Store) -> None:
    write_records(store, sources())
    before = whole(store)
    ran = run_command("dedup", *OPTIONS, *place.options)
    (group,) = ran.json
    new_values = {"url": ["a", "b", 7], "meta.tags": ["x", "y"], "author": "Ann"}
    assert (group["keep"], group["merged"]) == ("g0-0", new_values)
    summary = "1 document takes values of duplicates: 2 of url, 2 of meta.tags, 1 of author"
    assert summary in ran.err
    shown = run_command("dedup", "--table", *OPTIONS, *place.options).out
    assert '["a", "b", 7]' in shown
    assert whole(store) == before
    with esdedup.open(place.target, place.index) as index:
        plan = index.dedup("delete", collect=["url", "meta.tags"], fill="author")
        (planned,) = plan.merges()
        assert planned.new_values == new_values
        for field in ("text", "esdedup", "esdedup.group"):
            with pytest.raises(UsageError, match="documents are compared by"):
                index.dedup("delete", collect=field)
        assert [*index.dedup("delete").merges()] == []


@local
def test_no_field_that_a_sketch_reads_takes_values(place: Place) -> None:
    """No search by the sketch would find the document by its new text."""
    sketches = (esdedup.MinHash(), esdedup.MinHash(name="title", fields=("head.title",)))
    documents: list[dict[str, Any]] = [
        {"id": "1", "text": words(1)},
        {"id": "2", "text": words(1), "head": {"title": words(2), "url": "a"}},
    ]
    with open_index(place, documents, scheme=esdedup.Scheme(sketches=sketches)) as index:
        for sketch in ("minhash", "title"):
            for field in ("text", "head", "head.title", "head.title.x", "esdedup_title"):
                with pytest.raises(UsageError, match="documents are compared by"):
                    index.dedup("delete", sketch=sketch, collect=field)
                with pytest.raises(UsageError, match="documents are compared by"):
                    index.dedup("delete", sketch=sketch, fill=field)
        (planned,) = index.dedup("delete", fill="head.url").merges()
        assert planned.new_values == {"head.url": "a"}


Nothing = Callable[[], None]


def applied(
    store: Store, then: Nothing, after: Nothing = lambda: None, by: Store | None = None
) -> Dedup:
    """Remove the duplicates. then: called when a merge is logged. after: once it is done."""
    moments = [then, after]

    class Log(LogWriter):
        def append(self, lines: Sequence[str]) -> None:
            super().append(lines)
            if "merged" in lines[0] and '"planned"' in lines[0] and len(moments) == 2:
                moments.pop(0)()

        def settle(self, *result: Any) -> None:
            super().settle(*result)
            if len(moments) == 1:
                moments.pop(0)()

    groups = find_groups(store, META, Grouping())
    plan = Dedup(
        by or store,
        META,
        META.scheme.id,
        groups,
        "delete",
        None,
        Path("log.jsonl.zst"),
        merge=MERGE,
    )
    return replace(plan, writer=Log).apply()


def touch(store: Store, id: str, fields: dict[str, Any]) -> None:
    assert update(store, [Document(id, fields)]).updated == 1
    store.refresh()


def undone(store: Store) -> list[str]:
    """Undo a run; return the ids of failures."""
    report = undo_removal(store, LogReader(Path("log.jsonl.zst")))
    return [failure.id for failure in report.failures]


def test_values_of_another_client_are_merged_and_restored(store: Store) -> None:
    write_records(store, sources(2))
    theirs = {"url": "theirs", "author": "C", "n": 5}
    report = applied(store, partial(touch, store, "g0-0", theirs)).report
    assert report is not None
    assert (report.merged, report.done, report.failures) == (2, 6, [])
    (document,) = store.get(["g0-0"])
    expected = {"url": ["theirs", "b", "a", 7], "author": "C", "n": 5}
    assert {name: document.source[name] for name in expected} == expected
    assert undone(store) == []
    assert store.get(["g0-0"])[0].source["url"] == "theirs"
    assert store.get(["g0-0"])[0].source["author"] == "C"
    assert len(whole(store)) == 10


def test_a_document_that_another_client_keeps_changing_keeps_its_duplicates(store: Store) -> None:
    write_records(store, sources())
    changes = itertools.count()

    class Log(LogWriter):
        def append(self, lines: Sequence[str]) -> None:
            super().append(lines)
            if '"merged"' in lines[0] and '"planned"' in lines[0]:
                touch(store, "g0-0", {"n": next(changes)})

    groups = find_groups(store, META, Grouping())
    path = Path("log.jsonl.zst")
    plan = Dedup(store, META, META.scheme.id, groups, "delete", None, path, merge=MERGE)
    report = replace(plan, writer=Log).apply().report
    assert report is not None
    assert (report.merged, report.done) == (0, 0)
    assert {failure.id for failure in report.failures} == {"g0-0", "g0-1", "g0-2", "g0-3"}
    assert all(failure.conflict for failure in report.failures)
    document = store.get(["g0-0"])[0].source
    assert (document["url"], document["n"]) == ("a", next(changes) - 1)
    assert undone(store) == []
    assert len(whole(store)) == 5


def test_what_another_client_changed_since_stays_and_is_reported(store: Store) -> None:
    write_records(store, sources(2))
    before = whole(store)
    applied(store, lambda: None)
    touch(store, "g0-0", {"url": "theirs"})
    touch(store, "g1-0", {"n": 5})
    assert undone(store) == ["g0-0"]
    after = whole(store)
    assert after["g0-0"][0]["url"] == "theirs"
    assert after["g1-0"][0] == {**before["g1-0"][0], "n": 5}
    assert after.keys() == before.keys()


def test_a_duplicate_with_a_later_value_is_not_removed(store: Store) -> None:
    write_records(store, sources())
    report = applied(store, lambda: None, partial(touch, store, "g0-2", {"url": "later"})).report
    assert report is not None
    assert [(failure.id, failure.conflict) for failure in report.failures] == [("g0-2", True)]
    assert "could not take its value of 'url'" in report.failures[0].reason
    assert {"g0-0", "g0-2"} == {id for id in whole(store) if id.startswith("g")}
    Path("log.jsonl.zst").rename("first.jsonl.zst")
    again = applied(store, lambda: None).report
    assert again is not None
    assert (again.merged, again.done) == (1, 1)
    assert store.get(["g0-0"])[0].source["url"] == ["a", "b", 7, "later"]


@pytest.mark.parametrize("gone", [True, False])
def test_nothing_is_taken_by_a_document_that_is_no_original_any_more(
    store: Store, gone: bool
) -> None:
    write_records(store, sources())

    def work() -> None:
        if gone:
            assert delete(store, ["g0-0"]) == 1
        else:
            touch(store, "g0-0", {"text": "another text"})

    report = applied(store, work).report
    assert report is not None
    assert (report.merged, report.done) == (0, 0)
    assert {failure.id for failure in report.failures} >= {"g0-1", "g0-2", "g0-3"}
    assert {"g0-1", "g0-2", "g0-3"} <= whole(store).keys()
    assert undone(store) == []


@local
def test_a_document_without_room_for_values_keeps_its_duplicates(store: Store) -> None:
    documents = sources()
    documents[0]["meta"] = "none"
    write_records(store, documents)
    before = whole(store)
    report = applied(store, lambda: None).report
    assert report is not None
    assert "its field 'meta' is no object" in report.failures[0].reason
    assert {failure.id for failure in report.failures} == {"g0-0", "g0-1", "g0-2", "g0-3"}
    assert whole(store) == before


@local
def test_many_duplicates_are_read_in_parts(store: Store) -> None:
    text = words(1)
    write_records(store, [{"id": str(n), "text": text, "url": n % 70} for n in range(2_300)])
    report = applied(store, lambda: None).report
    assert report is not None
    assert (report.merged, report.done) == (1, 2_299)
    assert store.get(["0"])[0].source["url"] == [*range(70)]
    assert undone(store) == []
    assert len(whole(store)) == 2_300


def test_of_long_documents_fewer_are_read_whole_at_the_same_time() -> None:
    """The first 100 show how long they are."""
    documents = [
        {"id": f"{group}-{copy}", "text": words(group), "url": copy, "more": "x" * more}
        for group in range(200)
        for copy, more in enumerate((225_000 if group < 100 else 1, 1))
    ]
    read_whole = list[int]()
    with open_index("long.db", documents) as index:
        hold = index.store.hold

        def counting(ids: Sequence[str], paths: Any = None, **settings: Any) -> Any:
            if paths is None and ids[0].endswith("-0"):
                read_whole.append(len(ids))
            return hold(ids, paths, **settings)

        with wrapped(index, hold=counting) as counted:
            report = counted.dedup("delete", collect="url", apply=True).report
    assert report is not None
    assert (report.merged, report.done) == (200, 200)
    assert read_whole == [100, 88, 12]


# As of removals that merge nothing, marks are killed in the local store.
@pytest.mark.parametrize(
    ("place", "action"),
    [
        ("local", "delete"),
        ("local", "mark"),
        # A cluster has the same calls as the local store.
        *(
            pytest.param(name, action, marks=pytest.mark.nightly)
            for name, action in product(STORES[1:], MERGED_BY)
        ),
    ],
    indirect=["place"],
)
def test_killed_at_any_call(place: Place, store: Store, action: Action) -> None:
    write_records(store, sources(2))
    before, logs = whole(store), list[Path]()

    def dedup_again() -> None:
        logs.append(Path(f"{len(logs)}.zst"))
        merge(place, action, "--log", str(logs[-1]), status=0)

    assert crash_everywhere(dedup_again) > 3
    assert taken(store, "g1-0") == NEW_VALUES
    for log in filter(Path.exists, reversed(logs)):
        crash_everywhere(lambda log=log: run_command("undo", str(log), "--yes", *place.options))  # type: ignore[misc]
        (report,) = run_command("undo", str(log), "--yes", *place.options).json
        assert report["failures"] == []
    assert whole(store) == before


@clusters
def test_an_answer_that_was_lost(place: Place, store: Store) -> None:
    write_records(store, sources(2))
    before = whole(store)
    with Proxy(str(place.target), product_of(str(place.target))) as proxy:
        far = Place(proxy.url, place.index).open()
        proxy.drop_after = 1
        report = applied(store, lambda: None, by=far).report
        assert report is not None
        assert (report.merged, report.done, report.failures) == (2, 6, [])
        far.close()
    assert undone(store) == []
    assert whole(store) == before


def test_logs_without_merges_are_those_of_before(place: Place, store: Store) -> None:
    write_records(store, sources())
    options = ["--apply", "--action", "delete", "--yes", *place.options]
    run_command("dedup", *options, "--log", "plain.jsonl", status=0)
    header = json.loads(Path("plain.jsonl").read_text("utf-8").splitlines()[0])
    assert (header["version"], "merge" in header) == (3, False)
    run_command("undo", "plain.jsonl", "--yes", *place.options, status=0)
    merge(place, "delete", "--log", "merged.jsonl", status=0)
    header = json.loads(Path("merged.jsonl").read_text("utf-8").splitlines()[0])
    fields = {"collect": ["url", "meta.tags"], "fill": ["author"]}
    assert (header["version"], header["merge"]) == (4, fields)
