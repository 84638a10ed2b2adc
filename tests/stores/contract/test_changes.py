"""What every store promises of documents that are held and changed later, and of parts of scans."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import esdedup
from esdedup.models import FIELD, Change, Document, Share, StoredDocument
from esdedup.stores import Store
from esdedup.stores.changes import ChangeReport, Decision, change_documents, delete, update
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.fields import value_at
from tests.helpers.commands import call
from tests.helpers.places import (
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


def test_what_is_held_is_whole_or_has_the_fields_asked_for(store: Store) -> None:
    write(store, [document("a", ["0x"], n=1, m={"x": 2, "y": 3}), document("b", ["0y"], 说="你好")])
    held = store.hold(["b", "none", "a"])
    assert [each.document.id for each in held] == ["b", "a"]
    assert held[0].document.source == document("b", ["0y"], 说="你好").source
    (part,) = store.hold(["a"], ["n", "m.y", f"{FIELD}.digest"])
    (read,) = store.get(["a"], ["n", "m.y"])
    for found in (part.document, read):
        values = [value_at(found.source, path) for path in ("n", "m.y", "m.x", "text")]
        assert values == [1, 3, None, None]
    assert value_at(part.document.source, f"{FIELD}.digest") == "0" * 16
    assert store.hold(["a"], [])[0].document.source == {}


def test_a_change_leaves_the_tokens(store: Store) -> None:
    write(store, [document("a", ["0x"], n=1), document("b", ["0x"])])
    report = store.change([Change(held, marked("g")) for held in store.hold(["a"], [])])
    assert (report.updated, report.failures) == (1, [])
    store.refresh()
    (found,) = store.get(["a"])
    assert value_at(found.source, f"{FIELD}.group") == "g"
    assert plain(found) == {"text": "text of a", "n": 1}
    assert ids_of(ask(store, query("0x"))) == ["a", "b"]


def test_what_changed_since_is_left_as_it_is(store: Store) -> None:
    write(store, [document("a", n=1), document("b", n=1), document("c", n=1), document("d", n=1)])
    held = store.hold(["a", "b", "c", "d"])
    update(store, [Document("a", {"n": 2}), Document("b", {"n": 2})])
    delete(store, ["d"])
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


def test_what_was_deleted_is_put_back_whole_and_overwrites_nothing(store: Store) -> None:
    documents = [document("a", ["0x"], n=1), document("b", ["0x"], 说="你好", none=None)]
    write(store, documents)
    held = store.hold(["a", "b"])
    for taken, left in ([], ["a", "b"]), (["a"], ["b"]):
        assert store.change([Change(one, None) for one in store.hold(["a", "b"])]).updated == 2
        # What is written now no search may see yet.
        store.write([document(id, ["0y"], n=2) for id in taken])
        report = store.restore(held)
        assert report.created == len(left)
        assert [(each.id, each.conflict) for each in report.failures] == [
            (id, True) for id in taken
        ]
        store.refresh()
        assert ids_of(ask(store, query("0x"))) == left
        found = [one.document for one in store.hold(left)]
        assert found == [one for one in documents if one.id in left]
    again = store.restore(held)
    assert again.created == 0
    assert sorted(each.id for each in again.failures if each.conflict) == ["a", "b"]


def test_documents_stay_in_their_share_while_others_come_and_go(store: Store) -> None:
    def share(number: int) -> list[str]:
        return [one.id for some in store.scan([], META, Share(number, 3)) for one in some]

    write(store, [document(f"{number:04}") for number in range(4_000)])
    first = share(1)
    write(store, [document(f"new{number}") for number in range(1_500)])
    delete(store, [f"{number:04}" for number in range(300)])
    store.refresh()
    found = [*first, *share(2), *share(3)]
    old = [id for id in found if not id.startswith("new") and int(id) >= 300]
    assert sorted(old) == [f"{number:04}" for number in range(300, 4_000)]
    assert all(share(number) for number in (1, 2, 3))


def numbered(held: Sequence[StoredDocument]) -> list[Decision]:
    """Count `n` up to 3."""
    return [
        Change(one, {"n": number + 1}) if (number := one.document.source["n"]) < 3 else "unchanged"
        for one in held
    ]


def test_what_changed_is_read_and_decided_again(store: Store) -> None:
    write(store, [document(id, n=1) for id in "abc"] + [document("d", n=3)])
    held = store.hold(list("abcd"), ["n"])
    # Others write: another value of the same field, another field, and a deletion.
    update(store, [Document("a", {"n": 2, "m": 5})])
    delete(store, ["b"])
    report = change_documents(store, held, numbered, ["n"])
    assert report == ChangeReport(read=4, written=2, unchanged=1, gone=1, conflicts=2)
    store.refresh()
    found = {one.id: plain(one) for one in store.get(list("abcd"))}
    assert {id: source["n"] for id, source in found.items()} == {"a": 3, "c": 2, "d": 3}
    assert found["a"]["m"] == 5
    report = change_documents(store, held[1:2], numbered, ["n"], gone="it went")
    assert [(each.id, each.reason, each.conflict) for each in report.failures] == [
        ("b", "it went", True)
    ]


def test_a_change_that_another_client_made_counts_as_unchanged_or_gone(store: Store) -> None:
    write(store, [document(id, n=2) for id in "ab"])
    held = store.hold(["a", "b"], ["n"])
    store.change([Change(held[0], {"n": 3}), Change(held[1], None)])
    report = change_documents(store, held, numbered, ["n"])
    assert report == ChangeReport(read=2, unchanged=1, gone=1, conflicts=2)


def test_a_document_that_others_keep_changing_is_left_to_them(store: Store) -> None:
    write(store, [document("a", n=1)])
    others = iter(range(10))

    def decide(held: Sequence[StoredDocument]) -> list[Decision]:
        update(store, [Document("a", {"m": next(others)})])
        return [Change(one, {"n": 2}) for one in held]

    report = change_documents(store, store.hold(["a"]), decide, attempts=3)
    assert (report.written, report.conflicts) == (0, 3)
    assert ["changed each of 3 times" in each.reason for each in report.failures] == [True]
    assert [plain(one)["n"] for one in store.get(["a"])] == [1]


@clusters
def test_documents_are_put_back_into_their_index_with_their_routing(
    place: Place, open_store: OpenStore
) -> None:
    alias, second = f"{place.index}-alias", Place(place.target, f"{place.index}-second")
    for each in (place, second):
        each.call("PUT", "", {"settings": {"number_of_shards": 5}, "aliases": {alias: {}}})
        open_store(each.index).create(META)
    store = open_store(alias)
    routed = {str(n): f"way{n}" for n in range(6)}
    for id, routing in routed.items():
        where = place if int(id) % 2 else second
        where.call("PUT", f"/_doc/{id}?routing={routing}", document(id, ["0x"]).source)
    held = store.hold(list(routed))
    assert {one.document.id: one.routing for one in held} == routed
    assert store.change([Change(one, None) for one in held]).updated == 6
    # Another shard of its index: a create alone would not notice.
    second.call("PUT", "/_doc/0?routing=elsewhere", document("0", ["0y"]).source)
    report = store.restore(held)
    assert (report.created, [each.id for each in report.failures]) == (5, ["0"])
    store.refresh()
    found = {one.document.id: one for one in store.hold(list(routed))}
    assert found["0"].routing == "elsewhere"
    for one in held[1:]:
        assert replace(found[one.document.id], version=one.version) == one


# The servers from jars have no data streams in Elasticsearch.
@pytest.mark.parametrize("place", ["opensearch"], indirect=True)
def test_what_lay_in_a_data_stream_is_put_back_through_its_name(
    request: pytest.FixtureRequest, place: Place, open_store: OpenStore
) -> None:
    url, name = str(place.target), f"{place.index}-stream"
    body = {"index_patterns": [f"{name}*"], "priority": 900, "data_stream": {}}
    call(url, "PUT", f"/_index_template/{name}", body)
    request.addfinalizer(lambda: call(url, "DELETE", f"/_index_template/{name}"))
    call(url, "PUT", f"/_data_stream/{name}")
    request.addfinalizer(lambda: call(url, "DELETE", f"/_data_stream/{name}"))
    store = open_store(name)
    store.create(META)
    stamp = {"@timestamp": "2026-01-01T00:00:00Z"}
    given = [document(id, ["0x"], **stamp) for id in ("a", "b")]
    assert store.write(given, create=True).created == 2
    store.refresh()
    held = store.hold(["a", "b"])
    assert store.change([Change(one, None) for one in held[:1]]).updated == 1
    call(url, "POST", f"/{name}/_rollover")
    report = store.restore(held)
    # The other one is in an index that takes no creates any more, by whatever name.
    assert (report.created, [each.id for each in report.failures]) == (1, ["b"])
    assert store.restore(held).created == 0
    assert [one.document for one in store.hold(["a", "b"])] == [one.document for one in held]


@clusters
def test_documents_whose_index_keeps_a_part_of_them_are_not_held_whole(
    place: Place, open_store: OpenStore
) -> None:
    place.call("PUT", "", {"mappings": {"_source": {"excludes": ["secret"]}}})
    store = open_store()
    store.create(META)
    write(store, [document("a", ["0x"], secret=1)])
    with pytest.raises(
        esdedup.exceptions.StoreError, match=r"_source has excludes.* can't be read whole"
    ):
        store.hold(["a"])
    assert [one.document.id for one in store.hold(["a"], ["text"])] == ["a"]


@clusters
def test_vectors_that_a_server_hides_are_held_and_put_back(
    place: Place, open_store: OpenStore
) -> None:
    store = open_store()
    assert isinstance(store, ClusterStore)
    elastic = store.cluster.product.startswith("Elasticsearch")
    vector = {"type": "dense_vector", "dims": 2} if elastic else {"type": "float"}
    place.call("PUT", "", {"mappings": {"properties": {"of": {"properties": {"v": vector}}}}})
    store.create(META)
    store.write([document("a", ["0x"], of={"v": [0.5, 0.25], "n": 1})])
    (held,) = store.hold(["a"])
    assert held.document.source["of"]["v"] == pytest.approx([0.5, 0.25])
    assert store.change([Change(held, None)]).updated == 1
    assert store.restore([held]).created == 1
    store.refresh()
    (again,) = store.hold(["a"])
    assert again.document.source["of"]["v"] == pytest.approx([0.5, 0.25])


@clusters
def test_what_is_put_back_goes_through_no_pipeline_again(
    place: Place, open_store: OpenStore
) -> None:
    store = open_store()
    store.create(META)
    write(store, [document("a")])
    held = store.hold(["a"])
    # One that there is not fails every document that would go through it.
    place.call("PUT", "/_settings", {"index.default_pipeline": "none-of-this-name"})
    assert [each.id for each in store.write([document("b")]).failures] == ["b"]
    store.change([Change(held[0], None)])
    assert store.restore(held).created == 1
    (again,) = store.hold(["a"])
    assert store.change([Change(again, document("a", n=2).source, whole=True)]).updated == 1
