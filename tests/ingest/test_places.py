"""Records without an id: their places are ids, of any spelling, and never double an index."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import admin
from tests.helpers.commands import fill, read_lines, run_command, write_lines
from tests.helpers.indices import fill_index
from tests.helpers.places import Place, clusters

TICKETS = [
    {"ticket": f"T-{n}", "text": f"ticket {n} is about the number {n * n} of things"}
    for n in range(30)
]


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    write_lines(Path("t.jsonl"), TICKETS)


def ids_in(place: Place) -> set[str]:
    """Return the ids of all documents."""
    store = place.open()
    try:
        return {*store.some_ids(1_000)}
    finally:
        store.close()


def filled_by_another(place: Place, *, backfilled: bool) -> None:
    """Fill an index as its owner does, whose ids are those of the tickets."""
    assert isinstance(place.target, str)
    fill(place.target, place.index, {str(each["ticket"]): each for each in TICKETS})
    admin.attach(place.target, place.index)
    if backfilled:
        admin.backfill(place.target, admin.plan_backfill(place.target, place.index))


@clusters
@pytest.mark.on_every_server
@pytest.mark.parametrize("backfilled", [True, False])
def test_an_index_of_another_program_is_not_doubled(place: Place, backfilled: bool) -> None:
    filled_by_another(place, backfilled=backfilled)
    before = ids_in(place)
    command = ["index", "t.jsonl", *place.options, "--json"]
    refused = run_command(*command)
    assert (refused.status, refused.out) == (2, "")
    assert "none of the first 30 records has an id" in refused.err
    assert "--id-field" in refused.err
    assert ids_in(place) == before == {each["ticket"] for each in TICKETS}
    again = run_command(*command, "--id-field", "ticket").json[0]
    assert (again["created"], again["failed"]) == (0, 0)
    assert ids_in(place) == before
    wanted = run_command(*command, "--id-field", "path")
    assert (wanted.status, wanted.json[0]["created"]) == (0, 30)
    assert len(ids_in(place)) == 60


@clusters
@pytest.mark.on_every_server
def test_an_attached_index_that_is_empty_gets_no_places(place: Place) -> None:
    place.call("PUT", "", {"mappings": {"properties": {"text": {"type": "text"}}}})
    run_command("attach", *place.options, "--text-field", "text", status=0)
    command = ["index", "t.jsonl", *place.options, "--json"]
    refused = run_command(*command)
    assert (refused.status, refused.out) == (2, "")
    assert "was attached, so its owner gives the documents their ids" in refused.err
    assert "--id-field" in refused.err
    assert ids_in(place) == set()
    # The owner's first documents, which have no tokens yet.
    assert isinstance(place.target, str)
    fill(place.target, place.index, {str(each["ticket"]): each for each in TICKETS})
    again = run_command(*command)
    assert (again.status, again.out) == (2, "")
    assert run_command(*command, "--id-field", "ticket").json[0]["created"] == 0
    assert len(ids_in(place)) == 30


@clusters
def test_an_attached_index_takes_places_that_are_asked_for(place: Place) -> None:
    place.call("PUT", "", {"mappings": {"properties": {"text": {"type": "text"}}}})
    run_command("attach", *place.options, "--text-field", "text", status=0)
    command = ["index", "t.jsonl", *place.options, "--json"]
    assert run_command(*command, "--id-field", "path").json[0]["created"] == 30
    # These are known by their places; a record more is not.
    again = run_command(*command)
    assert (again.status, again.json[0]["unchanged"]) == (0, 30)
    write_lines(Path("t.jsonl"), [*TICKETS, {"text": "a line more"}])
    more = run_command(*command, "--dead-letter", "bad.jsonl")
    assert (more.status, more.json[0]["unchanged"], more.json[0]["created"]) == (1, 30, 0)
    assert "was attached" in Path("bad.jsonl").read_text()


@clusters
def test_the_mark_of_an_attached_index_stays(place: Place) -> None:
    def stored() -> Any:
        return place.call("GET", "/_mapping")[place.index]["mappings"]["_meta"]["esdedup"]

    place.call("PUT", "", {"mappings": {"properties": {"text": {"type": "text"}}}})
    attach = ("attach", *place.options, "--text-field", "text")
    run_command(*attach, status=0)
    assert stored()["attached"] is True
    run_command(*attach, "--external-versions", status=0)
    assert stored()["attached"] is True
    # An empty index gets another scheme, as `index` gives it one, and a filled one by a switch.
    other = replace(esdedup.Scheme(), seed=7)
    fill_index(place, [{"id": "a", "text": "one two three"}], scheme=other)
    assert stored()["attached"] is True
    admin.switch(str(place.target), place.index, replace(other, seed=8))
    assert (stored()["attached"], stored()["external_versions"]) == (True, True)
    run_command("index", "t.jsonl", *place.options, status=2)


@clusters
def test_an_index_of_esdedup_is_not_marked_by_another_attach(place: Place) -> None:
    write_lines(Path("first.jsonl"), TICKETS[:1])
    run_command("index", "first.jsonl", *place.options, status=0)
    run_command("attach", *place.options, "--external-versions", status=0)
    mapping = place.call("GET", "/_mapping")[place.index]["mappings"]
    assert "attached" not in mapping["_meta"]["esdedup"]
    assert run_command("index", "t.jsonl", *place.options, "--json").json[0]["created"] == 30


@clusters
def test_an_index_that_an_earlier_version_attached_is_known_by_its_ids(place: Place) -> None:
    filled_by_another(place, backfilled=True)
    meta = place.call("GET", "/_mapping")[place.index]["mappings"]["_meta"]
    assert meta["esdedup"].pop("attached") is True
    place.call("PUT", "/_mapping", {"_meta": meta})
    refused = run_command("index", "t.jsonl", *place.options, status=2)
    assert "have ids of their own" in refused.err


def test_places_are_told_and_documents_of_other_ids_are_kept_apart(place: Place) -> None:
    command = ["index", "t.jsonl", *place.options, "--json"]
    first = run_command(*command)
    assert first.json[0]["created"] == 30
    assert "30 records have no id: it is made from the file and the line" in first.err
    assert "no id" not in run_command(*command, "--id-field", "path").err
    # With ids in the same index, only records that are there already are known by their places.
    write_lines(Path("own.jsonl"), [{"id": f"own{n}", "text": f"own text {n}"} for n in range(300)])
    run_command("index", "own.jsonl", *place.options, status=0)
    again = run_command(*command)
    assert (again.status, again.json[0]["unchanged"]) == (0, 30)
    with Path("t.jsonl").open("a") as file:
        file.write('{"text": "a line more"}\n{"id": "x", "text": "a line with an id"}\n')
    more = run_command(*command, "--dead-letter", "bad.jsonl")
    (report,) = more.json
    assert (more.status, report["unchanged"], report["created"]) == (1, 30, 1)
    assert report["read"] == 32
    (letter,) = read_lines("bad.jsonl")
    assert (letter["line"], "it has no id" in letter["reason"]) == (31, True)
    assert run_command(*command, "--id-field", "path").json[0]["created"] == 1


def test_an_empty_id_is_told() -> None:
    write_lines(Path("e.jsonl"), [{"id": "", "text": "one"}, {"id": "b", "text": "two"}])
    assert "1 record has no id: it is made from the file" in run_command("index", "e.jsonl").err


def test_lines_of_text_have_no_other_id() -> None:
    Path("a.txt").write_text("one\ntwo\n")
    assert run_command("index", "a.txt").err == ""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_each_spelling_of_a_path_is_the_same_place(place: Place, workers: str) -> None:
    Path("in").mkdir()
    write_lines(Path("in/a.jsonl"), TICKETS)
    Path("link").symlink_to("in")
    whole = str(Path("in/a.jsonl").resolve())
    spellings = ["./in/a.jsonl", "in/a.jsonl", "in/../in/a.jsonl", whole, "link/a.jsonl", "in"]
    for number, first in enumerate(spellings):
        here = Place(place.target, f"{place.index}{number}")
        run = run_command("index", first, *here.options, "--json", "--workers", workers)
        assert (run.status, run.json[0]["created"]) == (0, 30)
        ids = ids_in(here)
        # A link to another folder may be changed to yet another one. Each spelling comes before
        # and after two others.
        for spelling in [*spellings[number:], *spellings][:3]:
            again = run_command("index", spelling, *here.options, "--json", "--workers", workers)
            assert again.json[0]["unchanged"] == 30, (first, spelling)
        assert ids_in(here) == ids


def test_ids_of_earlier_versions_stay(place: Place) -> None:
    """They are of the path as it was passed, whatever spelling that was."""
    Path("x").mkdir()
    rows: list[Any] = read_lines("t.jsonl")
    for number, passed in enumerate(["t.jsonl", "x/../t.jsonl", str(Path("t.jsonl").resolve())]):
        here = Place(place.target, f"{place.index}{number}")
        earlier = [{"id": f"{passed}:{line}", **row} for line, row in enumerate(rows, 1)]
        fill_index(here, earlier)
        for row in earlier:
            del row["id"]
        run = run_command("index", passed, *here.options, "--json")
        counts = {name: run.json[0][name] for name in ("created", "updated", "failed")}
        assert (run.status, counts["created"], counts["failed"]) == (0, 0, 0)
