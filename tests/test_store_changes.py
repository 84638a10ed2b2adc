"""What every store promises of documents that are held and changed later, and of parts of scans."""

from __future__ import annotations

from typing import Any

import pytest

from esdedup.datatypes import FIELD, Change, Document, Share
from esdedup.fields import value_at
from esdedup.stores import Store
from tests.places import (
    META,
    OpenStore,
    Place,
    ask,
    clusters,
    document,
    ids_of,
    plain,
    query,
    write,
)


def marked(group: str) -> dict[str, Any]:
    return {FIELD: {"group": group}}


def test_what_is_held_is_whole_with_its_tokens(store: Store) -> None:
    write(store, [document("a", ["0x"], n=1), document("b", ["0y"], 说="你好")])
    held = store.hold(["b", "none", "a"])
    assert [each.document.id for each in held] == ["b", "a"]
    assert held[0].document.source == document("b", ["0y"], 说="你好").source


def test_of_what_is_held_only_some_fields_may_be_read(store: Store) -> None:
    write(store, [document("a", ["0x"], n=1, m=2)])
    (held,) = store.hold(["a"], ["n", f"{FIELD}.digest"])
    found = held.document.source
    assert (found["n"], value_at(found, f"{FIELD}.digest"), "m" in found) == (1, "0" * 16, False)
    (held,) = store.hold(["a"], [])
    assert held.document.source == {}


def test_of_what_is_read_only_some_fields_may_be_asked_for(store: Store) -> None:
    write(store, [document("a", ["0x"], n=1, m={"x": 2, "y": 3})])
    (found,) = store.get(["a"], ["n", "m.y"])
    assert [value_at(found.source, path) for path in ("n", "m.y", "m.x")] == [1, 3, None]


def test_a_change_is_merged_and_leaves_the_tokens(store: Store) -> None:
    write(store, [document("a", ["0x"], n=1)])
    report = store.change([Change(held, marked("g")) for held in store.hold(["a"], [])])
    assert (report.updated, report.failures) == (1, [])
    store.refresh()
    (found,) = store.get(["a"])
    assert value_at(found.source, f"{FIELD}.group") == "g"
    assert plain(found) == {"text": "text of a", "n": 1}
    assert ids_of(ask(store, query("0x"))) == ["a"]


def test_what_changed_since_is_left_as_it_is(store: Store) -> None:
    write(store, [document("a", n=1), document("b", n=1), document("c", n=1), document("d", n=1)])
    held = store.hold(["a", "b", "c", "d"])
    store.update([Document("a", {"n": 2}), Document("b", {"n": 2})])
    store.delete(["d"])
    fields = [marked("g"), None, marked("g"), marked("g")]
    report = store.change([Change(one, some) for one, some in zip(held, fields, strict=True)])
    assert report.updated == 1
    assert sorted((each.id, each.conflict) for each in report.failures) == [
        ("a", True),
        ("b", True),
        ("d", True),
    ]
    store.refresh()
    found = {one.id: one.source for one in store.get(["a", "b", "c", "d"])}
    assert {id: source["n"] for id, source in found.items()} == {"a": 2, "b": 2, "c": 1}
    assert [id for id, source in found.items() if "group" in source[FIELD]] == ["c"]


def test_a_document_is_deleted_with_its_tokens(store: Store) -> None:
    write(store, [document("a", ["0x"]), document("b", ["0x"])])
    report = store.change([Change(held, None) for held in store.hold(["a"], [])])
    assert (report.updated, report.failures) == (1, [])
    store.refresh()
    assert store.get(["a"]) == []
    assert ids_of(ask(store, query("0x"))) == ["b"]


def test_shares_of_a_scan_are_all_of_it_and_each_document_once(store: Store) -> None:
    write(store, [document(str(number)) for number in range(200)])
    found = [
        one.id
        for number in (1, 2, 3)
        for batch in store.scan([], META, Share(number, 3))
        for one in batch
    ]
    assert sorted(found) == sorted(map(str, range(200)))


@clusters
@pytest.mark.parametrize("routed", [False, True])
def test_documents_behind_an_alias_or_with_a_routing_are_changed_where_they_lie(
    place: Place, open_store: OpenStore, routed: bool
) -> None:
    store = open_store()
    store.create(META)
    source = document("a", ["0x"], n=1).source
    place.call("PUT", f"/_doc/a{'?routing=elsewhere' if routed else ''}", source)
    store.refresh()
    (held,) = store.hold(["a"])
    assert store.change([Change(held, marked("g"))]).updated == 1
    store.refresh()
    (held,) = store.hold(["a"])
    assert held.document.source[FIELD]["group"] == "g"
    assert store.change([Change(held, None)]).updated == 1
    store.refresh()
    assert store.hold(["a"]) == []
