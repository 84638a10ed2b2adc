"""Indices whose owner numbers the versions of documents: the owner's next write always wins."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import admin
from esdedup.models import FIELD
from tests.helpers.commands import call, run_command, words
from tests.helpers.places import Place, clusters

pytestmark = [pytest.mark.on_every_server]


def own_write(place: Place, version: int, *, n: float = 1.5, ids: int = 4, index: str = "") -> None:
    """The owner writes its rows. Raises AssertionError if one is refused."""
    lines = []
    for number in range(ids):
        target = {"_id": f"d{number}", "version": version, "version_type": "external"}
        lines.append(json.dumps({"index": target}))
        lines.append(f'{{"text":"{words(number // 2)}","n":{n},"v":{version},"row":100.10}}')
    request = urllib.request.Request(
        f"{place.target}/{index or place.index}/_bulk?refresh=true",
        ("\n".join(lines) + "\n").encode(),
        {"content-type": "application/x-ndjson"},
    )
    with urllib.request.urlopen(request) as answer:
        items = json.load(answer)["items"]
    assert [item["index"]["status"] < 300 for item in items] == [True] * ids, items


def versions(place: Place) -> dict[str, int]:
    found = place.call("POST", "/_search", {"version": True, "size": 100})["hits"]["hits"]
    return {hit["_id"]: hit["_version"] for hit in found}


def create(place: Place) -> None:
    place.call("PUT", "", {"mappings": {"properties": {"text": {"type": "text"}}}})
    own_write(place, 5)
    run_command("attach", *place.options, "--text-field", "text", "--external-versions", status=0)


def tokens(place: Place, id: str) -> Any:
    return place.call("GET", f"/_source/{id}").get(FIELD)


@clusters
def test_the_owners_next_write_wins_after_each_command(place: Place, folder: Path) -> None:
    create(place)
    url, index = str(place.target), place.index
    assert admin.backfill(url, index).written == 4
    assert versions(place) == {f"d{number}": 5 for number in range(4)}
    own_write(place, 6)
    admin.backfill(url, index)
    with esdedup.open(url, index) as opened:
        assert opened.group().marks.written == 4
        assert set(versions(place).values()) == {6}
        own_write(place, 7)
        admin.backfill(url, index)
        for version, action in enumerate(("mark", "delete", "move"), 7):
            to = f"{index}-moved" if action == "move" else None
            log = folder / f"{action}.jsonl"
            done = opened.dedup(action, to=to, log=log).apply().report  # type: ignore[arg-type]
            assert done is not None
            assert (done.done, done.failures) == (4 if action == "mark" else 2, [])
            undone = opened.undo(log)
            assert (undone.restored, undone.failures) == (done.done, [])
            place.call("POST", "/_refresh")
            assert versions(place) == {f"d{number}": version for number in range(4)}
            own_write(place, version + 1)
            admin.backfill(url, index)
        # Deleted, and written by the owner again.
        opened.dedup("delete", log=folder / "last.jsonl").apply()
        own_write(place, 11)
        undone = opened.undo(folder / "last.jsonl")
        assert undone.restored == 0
        assert len(undone.failures) == 2
        assert set(versions(place).values()) == {11}
        # The library's own updates keep the numbers too.
        assert opened.update([{"id": "d0", "more": 1}]) == 1
        opened.add([{"id": "d1", "text": words(9), "row": 1}])
        assert versions(place) == {f"d{number}": 11 for number in range(4)}
    own_write(place, 12)


@clusters
def test_a_newer_row_is_not_replaced(place: Place) -> None:
    create(place)
    url, index = str(place.target), place.index
    with esdedup.open(url, index) as opened:
        (held,) = opened.store.hold(["d0"])
        own_write(place, 6, n=2.5)
        change = esdedup.models.Change(held, {FIELD: {"group": "x"}})
        (failure,) = opened.store.change([change]).failures
        assert failure.conflict
        assert tokens(place, "d0") is None
        (failure,) = opened.store.change([esdedup.models.Change(held, None)]).failures
        assert failure.conflict
        assert place.call("GET", "/_source/d0")["n"] == 2.5


@clusters
def test_the_setting_stays_with_the_index(place: Place) -> None:
    create(place)
    url, index = str(place.target), place.index
    # Attached again without the option, and while the scheme changes, it is still there.
    admin.attach(url, index)
    meta = place.call("GET", "/_mapping")[index]["mappings"]["_meta"][FIELD]
    assert meta["external_versions"] is True
    run_command("attach", *place.options, "--no-external-versions", status=0)
    meta = place.call("GET", "/_mapping")[index]["mappings"]["_meta"][FIELD]
    assert "external_versions" not in meta
    admin.attach(url, index, external_versions=True)
    with esdedup.open(url, index) as opened:
        assert opened.meta.external_versions


@pytest.mark.parametrize("place", ["opensearch"], indirect=True)
def test_a_data_stream_takes_none(place: Place) -> None:
    body = {"index_patterns": [place.index], "data_stream": {}, "priority": 900}
    call(str(place.target), "PUT", f"/_index_template/{place.index}", body)
    call(str(place.target), "PUT", f"/_data_stream/{place.index}")
    try:
        refused = run_command(
            "attach", *place.options, "--text-field", "text", "--external-versions", status=2
        )
        assert "data stream" in refused.err
    finally:
        call(str(place.target), "DELETE", f"/_data_stream/{place.index}")
        call(str(place.target), "DELETE", f"/_index_template/{place.index}")
