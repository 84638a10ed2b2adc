"""Ingest pipelines of a cluster drop, refuse, change, move and rename documents.

What they do so is not counted as written. The local store has no pipelines.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Literal

import pytest

from esdedup.models import Cause, Change, Document, Failure, StoredDocument, WriteReport
from esdedup.stores import Store
from esdedup.stores.elastic.answers import DROPPED
from tests.conftest import delete_index
from tests.helpers.commands import all_documents, call
from tests.helpers.pipelines import (
    REFUSED,
    Processor,
    copy_field,
    drop,
    fail,
    html_strip,
    pipeline,
    set_field,
)
from tests.helpers.places import META, OpenStore, Place, clusters, document, plain, write

pytestmark = clusters

Kind = Literal["default", "final"]
HTML = "<b>bold</b> words"


@pytest.fixture(params=["default", "final"])
def kind(request: pytest.FixtureRequest, place: Place, store: Store) -> Iterator[Kind]:
    """An index whose pipeline acts by the field `fate` of a document."""
    url, elsewhere = str(place.target), f"{place.index}-elsewhere"
    call(url, "PUT", f"/{elsewhere}")
    processors: list[Processor] = [
        drop("ctx.fate == 'dropped'"),
        fail("ctx.fate == 'refused'"),
        html_strip("text", "ctx.fate == 'changed'"),
        copy_field(url, "other", "_id", "ctx.fate == 'renamed'"),
    ]
    if request.param == "default":
        # A final pipeline must not move documents.
        processors.append(set_field("_index", elsewhere, "ctx.fate == 'moved'"))
    with ExitStack() as ended:
        name = ended.enter_context(pipeline(url, *processors))
        ended.callback(delete_index, url, place.index)
        use = {f"index.{request.param}_pipeline": name}
        call(url, "PUT", f"/{place.index}/_settings", use)
        yield request.param


def fated(fate: str, id: str | None = None) -> Document:
    return document(id or fate, ["0x"], fate=fate, other="another-id", text=HTML)


def causes(report: WriteReport) -> dict[str, Cause]:
    return {failure.id: failure.cause for failure in report.failures}


FATES = ["plain", "dropped", "refused", "changed", "renamed", "moved", "plain2"]


def expected_causes(kind: Kind) -> dict[str, str]:
    causes = {"dropped": "dropped", "refused": "refused", "renamed": "renamed", "moved": "moved"}
    if kind == "final":
        del causes["moved"]
    return causes


@pytest.mark.parametrize("create", [True, False])
def test_only_documents_stored_as_sent_are_written(
    store: Store, place: Place, kind: Kind, create: bool
) -> None:
    documents = [fated(fate) for fate in FATES]
    report = store.write(documents, create=create)
    expected = expected_causes(kind)
    assert causes(report) == expected
    assert (report.created, report.updated) == (len(FATES) - len(expected), 0)
    reasons = {failure.id: failure.reason for failure in report.failures}
    assert reasons["dropped"] == DROPPED
    assert REFUSED in reasons["refused"]
    assert "changed its id to 'another-id'" in reasons["renamed"]
    stored = all_documents(str(place.target), place.index)
    assert stored.keys() == {*FATES, "another-id"} - expected.keys()
    assert stored["changed"]["text"].strip() == "bold words"
    if kind == "default":
        assert f"moved to index '{place.index}-elsewhere'" in reasons["moved"]
        assert all_documents(str(place.target), f"{place.index}-elsewhere").keys() == {"moved"}
    # The second time, none of the others conflicts with a document that it is not.
    again = store.write(documents, create=create)
    assert {id: cause for id, cause in causes(again).items() if id in expected} == expected
    assert [failure.conflict for failure in again.failures if failure.id in expected] == [
        False
    ] * len(expected)
    settled = {failure.id for failure in again.failures if failure.conflict}
    assert settled == ({*FATES} - expected.keys() if create else set())


def test_a_change_that_a_pipeline_drops_is_none(store: Store, place: Place, kind: Kind) -> None:
    ids = ["dropped", "refused", "renamed", "plain"]
    write(store, [document(id, ["0x"], other="another-id") for id in ids])
    changes = [
        Change(held, fated(held.id).source, whole=True, new=True) for held in store.hold(ids)
    ]
    report = store.change(changes)
    assert report.updated == 1
    assert causes(report)["dropped"] == "dropped"
    assert causes(report)["refused"] == "refused"
    assert [failure.conflict for failure in report.failures] == [False] * 3
    stored = all_documents(str(place.target), place.index)
    assert "fate" in stored["plain"]
    for id in ("dropped", "refused", "renamed"):
        assert "fate" not in stored[id]


def test_what_a_pipeline_drops_is_not_restored(store: Store, place: Place, kind: Kind) -> None:
    """A default pipeline is bypassed, a final one can't be."""
    documents = [fated(fate) for fate in FATES]
    held = [StoredDocument(each, "1/1", place.index) for each in documents]
    report = store.restore(held)
    expected = expected_causes(kind) if kind == "final" else {}
    assert causes(report) == expected
    assert report.created == len(FATES) - len(expected)
    stored = all_documents(str(place.target), place.index)
    assert stored.keys() - {"another-id"} == {*FATES} - expected.keys()
    if kind == "default":
        assert stored["changed"]["text"] == HTML


def test_documents_reach_the_index_behind_an_alias(
    store: Store, place: Place, open_store: OpenStore
) -> None:
    """Also after another index has become the one that is written to."""
    alias, second = f"{place.index}-alias", f"{place.index}-000002"
    place.call("PUT", f"/_alias/{alias}", {"is_write_index": True})
    behind = open_store(alias)
    assert behind.write([document("a", n=1)], create=True).created == 1
    body: dict[str, Any] = {"aliases": {alias: {"is_write_index": True}}}
    write_index = {"index": place.index, "alias": alias, "is_write_index": False}
    call(str(place.target), "POST", "/_aliases", {"actions": [{"add": write_index}]})
    call(str(place.target), "PUT", f"/{second}", body)
    open_store(second).create(META)
    assert behind.write([document("b", n=1)], create=True) == WriteReport(created=1)
    assert behind.write([document("b", n=2)]) == WriteReport(updated=1)
    assert behind.restore([StoredDocument(document("c"), "1/1")]) == WriteReport(created=1)
    assert all_documents(str(place.target), second).keys() == {"b", "c"}
    (held,) = behind.hold(["a"])
    assert held.index == place.index
    assert behind.change([Change(held, {"n": 2})]) == WriteReport(updated=1)
    assert plain(behind.hold(["a"])[0].document)["n"] == 2


def test_an_index_of_the_alias_that_a_pipeline_chooses_is_behind_it(
    store: Store, place: Place, open_store: OpenStore
) -> None:
    url, alias, second = str(place.target), f"{place.index}-alias", f"{place.index}-000002"
    place.call("PUT", f"/_alias/{alias}", {"is_write_index": True})
    call(url, "PUT", f"/{second}", {"aliases": {alias: {}}})
    with pipeline(url, set_field("_index", second, "ctx.fate == 'moved'")) as name:
        place.call("PUT", "/_settings", {"index.default_pipeline": name})
        open_store(second).create(META)
        assert open_store(alias).write([fated("moved")], create=True) == WriteReport(created=1)
        # By its own name, the index is left.
        report = store.write([fated("moved", "2")])
        assert report.failures == [
            Failure(
                "2",
                f"moved to index {second!r} by the ingest pipeline",
                index=second,
                cause="moved",
            )
        ]
        delete_index(url, place.index)
