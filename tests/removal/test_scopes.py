"""Nothing is removed whose fields differ by then from those that made it a duplicate."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup import UsageError
from esdedup.removal.log import Action
from esdedup.results import Dedup
from tests.helpers.commands import call, fill, words
from tests.helpers.indices import attach_index, open_index
from tests.helpers.places import Place
from tests.removal.removing import ACTIONS

REMOVING: list[Action] = ["delete", "move"]


def copies(*groups: str, of_each: int = 3, **fields: Any) -> list[dict[str, Any]]:
    """Return documents of equal texts, such as a0, a1 and a2."""
    return [
        {"id": f"{group}{copy}", "text": words(ord(group)), **fields}
        for group in groups
        for copy in range(of_each)
    ]


def planned(index: esdedup.Index, action: Action, **settings: Any) -> Dedup:
    """Return a plan to remove duplicates, with a log."""
    to = f"{index.location.index}-others" if action == "move" else None
    return index.dedup(action, to=to, log="log.jsonl", **settings)


def reasons_of(plan: Dedup) -> dict[str, str]:
    """Apply a plan; return the reasons of its failures, by id."""
    report = plan.apply().report
    assert report is not None
    assert all(failure.conflict for failure in report.failures)
    return {failure.id: failure.reason for failure in report.failures}


def fields_of(index: esdedup.Index) -> dict[str, dict[str, Any]]:
    """Return the fields of all documents, by id."""
    ids = index.store.some_ids(1_000)
    return {document.id: dict(document.source) for document in index.store.get(ids)}


# Fields


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ACTIONS)
def test_a_document_that_left_its_scope_stays(place: Place, others: Place, action: Action) -> None:
    with open_index(place, copies("a", "b", "c", tenant="x", tags="t")) as index:
        before = fields_of(index)
        plan = planned(index, action, within="tenant")
        # The original of b left it.
        index.update([{"id": "a1", "tenant": "y"}, {"id": "b0", "tenant": ["x", "y"]}])
        index.update([{"id": "c1", "tags": "other"}, {"id": "c2", "tenant": ["x"]}])
        reasons = reasons_of(plan)
        expected = {"a1", "b1", "b2"} | ({"b0"} if action == "mark" else set())
        assert reasons.keys() == expected
        assert reasons["a1"] == "its value of 'tenant' changed since it was compared"
        assert reasons["b1"] == (
            "its original 'b0' is gone, or its text or its value of 'tenant' changed since it was"
            " compared"
        )
        if action != "mark":
            assert fields_of(index).keys() == {"a0", "a1", "b0", "b1", "b2", "c0"}
        # Another run keeps both.
        again = index.dedup("delete", within="tenant").groups
        of_group = [(group.representative, [each.id for each in group.members]) for group in again]
        assert ("b1", ["b2"]) in of_group
        assert "a1" not in {id for _, ids in of_group for id in ids}
        assert index.undo("log.jsonl").failures == []
        assert fields_of(index).keys() == before.keys()
        assert fields_of(index)["a1"]["tenant"] == "y"


@pytest.mark.on_every_server
def test_of_several_fields_all_that_may_have_changed_are_named(place: Place) -> None:
    documents = copies("a", "b", "c", tenant="x", lang="en", date="2026-03-01")
    with open_index(place, documents) as index:
        plan = planned(index, "delete", within=["tenant", "lang", "date:3d"])
        index.update([{"id": "a1", "lang": "zh"}, {"id": "b1", "date": "2026-03-02T00:00:01Z"}])
        index.update([{"id": "c1", "date": "2026-03-01T00:00:00+00:00"}])
        assert reasons_of(plan) == {
            "a1": ("its value of 'tenant' or its value of 'lang' changed since it was compared"),
            "b1": "its value of 'date' changed since it was compared",
        }
        assert fields_of(index).keys() == {"a0", "a1", "b0", "b1", "c0"}


@pytest.mark.on_every_server
def test_a_scope_and_a_label_are_both_looked_at(place: Place) -> None:
    documents = copies("a", "b", "c", tenant="x", price=5)
    with open_index(place, documents) as index:
        plan = planned(index, "delete", within="tenant", conflict="price")
        index.update([{"id": "a1", "tenant": "y"}, {"id": "b1", "price": 6}])
        index.update([{"id": "c0", "tenant": "y", "price": 6}])
        reasons = reasons_of(plan)
        assert reasons["a1"] == "its value of 'tenant' changed since it was compared"
        assert reasons["b1"] == "its value of 'price' changed since it was compared"
        assert "its text or its value of 'tenant' or its value of 'price'" in reasons["c1"]


@pytest.mark.on_every_server
@pytest.mark.parametrize("method", ["leader", "components"])
def test_documents_that_a_chain_or_a_judgement_joins_across_scopes_are_removed(
    place: Place, method: Any
) -> None:
    days = [{"date": f"2026-03-0{day}", "tenant": "x"} for day in (1, 3, 5)]
    documents = [{**document, **fields} for document, fields in zip(copies("a"), days, strict=True)]
    documents += [
        {"id": "b0", "text": words(1), "tenant": "x", "date": "2026-03-01"},
        {"id": "b1", "text": words(2), "tenant": "y", "date": "2026-05-01"},
        {"id": "c0", "text": words(3)},
        {"id": "c1", "text": words(4), "tenant": "z", "date": "2026-05-01"},
    ]
    with open_index(place, documents) as index:
        for left, right in (("b0", "b1"), ("c0", "c1")):
            index.judgements.judge(left, right, "duplicate")
        plan = planned(index, "delete", within=["tenant", "date:2d"], method=method)
        assert reasons_of(plan) == {}
        joined = {"a2"} if method == "leader" else set()
        assert fields_of(index).keys() == {"a0", "b0", "c0"} | joined


@pytest.mark.on_every_server
def test_a_document_that_left_its_scope_during_the_run_is_restored(place: Place) -> None:
    with open_index(place, copies("a", "b", tenant="x")) as index:
        plan = planned(index, "delete", within="tenant")
        remove, moves = index.store.change, [{"id": "a0", "tenant": "y"}]

        def change(changes: Any) -> Any:
            # Just before the deletions, another client moves the original.
            if moves:
                with esdedup.open(place.target, place.index) as other:
                    other.update([moves.pop()])
            return remove(changes)

        index.store.change = change  # type: ignore[method-assign]
        reasons = reasons_of(plan)
        assert reasons.keys() == {"a1", "a2"}
        assert "its value of 'tenant' changed since it was compared: restored" in reasons["a1"]
        assert fields_of(index).keys() == {"a0", "a1", "a2", "b0"}


@given(
    tenants=st.lists(st.sampled_from("xyz"), min_size=4, max_size=4),
    changes=st.dictionaries(st.integers(0, 3), st.sampled_from(["x", "y", "z", None])),
    method=st.sampled_from(["leader", "components"]),
)
def test_no_scope_loses_its_last_copy(
    tenants: list[str], changes: dict[int, str | None], method: Any
) -> None:
    documents = [
        {**document, "tenant": tenant}
        for document, tenant in zip(copies("a", of_each=4), tenants, strict=True)
    ]
    with open_index(":memory:", documents) as index:
        plan = index.dedup("delete", within="tenant", method=method, log=Path("log.jsonl"))
        index.update({"id": f"a{row}", "tenant": tenant} for row, tenant in changes.items())
        present = {fields["tenant"] for fields in fields_of(index).values()}
        plan.apply()
        assert {fields["tenant"] for fields in fields_of(index).values()} == present
    Path("log.jsonl").unlink(missing_ok=True)


# Times


def test_a_server_reads_times_in_formats_of_its_own(url: str, name: str) -> None:
    date = {"type": "date", "format": "dd/MM/yyyy"}
    mappings = {"properties": {"text": {"type": "text"}, "date": date}}
    call(url, "PUT", f"/{name}", {"mappings": mappings})
    documents = copies("a", "b", "c", date="05/01/2026", seen="u")
    fill(url, name, {document.pop("id"): document for document in documents})
    attach_index(url, name, "--text-field", "text")
    with esdedup.open(url, name) as index:
        plan = planned(index, "delete", within="date:3d", collect="seen")
        index.update([{"id": "a1", "date": "06/01/2026"}, {"id": "b0", "date": "01/05/2026"}])
        reasons = reasons_of(plan)
        assert reasons.keys() == {"a1", "b1", "b2"}
        assert reasons["a1"] == "its value of 'date' changed since it was compared"
        assert "its text or its value of 'date'" in reasons["b1"]
        fields = fields_of(index)
        assert fields.keys() == {"a0", "a1", "b0", "b1", "b2", "c0"}
        assert (fields["a0"]["date"], fields["c0"]["date"]) == ("05/01/2026", "05/01/2026")
        assert index.undo("log.jsonl").failures == []


# Values of duplicates


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ["delete", "mark"])
def test_a_document_that_left_its_scope_gives_its_values_to_nobody(
    place: Place, action: Action
) -> None:
    documents = [{**document, "url": document["id"]} for document in copies("a", tenant="x")]
    with open_index(place, documents) as index:
        plan = planned(index, action, within="tenant", collect="url")
        index.update([{"id": "a1", "tenant": "y"}])
        assert reasons_of(plan).keys() == {"a1"}
        assert fields_of(index)["a0"]["url"] == ["a0", "a2"]


@pytest.mark.parametrize(
    ("within", "fields"),
    [
        ("tenant", {"collect": "tenant"}),
        (["tenant", "lang"], {"collect": ["url", "lang"]}),
        ("date:3d", {"collect": "date"}),
        ("seen.date:3d", {"collect": "seen"}),
        ("seen", {"collect": "seen.url"}),
        ("seen", {"fill": "seen.url"}),
    ],
    ids=str,
)
def test_no_original_takes_values_that_would_change_its_scope(
    folder: Path, within: Any, fields: Any
) -> None:
    """It would be in no scope, or in another one, also for a second run."""
    with open_index(folder / "news.db", copies("a")) as index:
        # It is refused before a search, which finds no document that has these fields.
        with pytest.raises(UsageError, match="would change the scope of documents that stay"):
            index.dedup("delete", within=within, apply=True, **fields)
        assert fields_of(index).keys() == {"a0", "a1", "a2"}


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ACTIONS)
def test_a_document_without_a_scope_takes_that_of_its_judged_duplicate(
    place: Place, others: Place, action: Action
) -> None:
    documents: list[dict[str, Any]] = [
        {"id": "a0", "text": words(1)},
        {"id": "a1", "text": words(2), "tenant": "x", "seen": {"date": "2026-03-01", "url": "u"}},
    ]
    with open_index(place, documents) as index:
        before = fields_of(index)
        index.judgements.judge("a0", "a1", "duplicate")
        within = ["tenant", "seen.date:3d"]
        plan = planned(index, action, within=within, fill=["tenant", "seen"])
        assert reasons_of(plan) == {}
        taken = {name: documents[1][name] for name in ("tenant", "seen")}
        assert {name: fields_of(index)["a0"][name] for name in taken} == taken
        assert ("a1" in fields_of(index)) == (action == "mark")
        assert index.undo("log.jsonl").failures == []
        assert fields_of(index) == before


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("setting", ["fill", "collect"])
def test_the_label_that_an_original_takes_is_that_of_its_group(
    place: Place, others: Place, action: Action, setting: str
) -> None:
    documents = copies("a", "b", "c", "d")
    labels = {"a1": 5, "a2": "5", "b2": 7, "c0": 8, "c1": 8.0}
    for document in documents:
        if document["id"] in labels:
            document["label"] = labels[document["id"]]
    with open_index(place, documents) as index:
        before = fields_of(index)
        plan = planned(index, action, conflict="label", **{setting: "label"})
        # A value of another client contradicts the group.
        index.update([{"id": "d0", "label": 1}])
        reasons = reasons_of(plan)
        assert reasons.keys() == {"d1", "d2"} | ({"d0"} if action == "mark" else set())
        assert "its text or its value of 'label' changed" in reasons["d1"]
        after = fields_of(index)
        collected = setting == "collect"
        assert after["a0"]["label"] == ([5, "5"] if collected else 5)
        assert after["b0"]["label"] == ([7] if collected else 7)
        if action != "mark":
            assert after.keys() == {"a0", "b0", "c0", "d0", "d1", "d2"}
        assert index.undo("log.jsonl").failures == []
        before["d0"]["label"] = 1
        assert fields_of(index) == before


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", REMOVING)
def test_an_original_that_got_a_label_of_another_client_keeps_its_duplicates(
    place: Place, others: Place, action: Action
) -> None:
    documents = copies("a")
    documents[1]["label"] = 5
    with open_index(place, documents) as index:
        plan = planned(index, action, conflict="label", fill="label")
        index.update([{"id": "a0", "label": 6}])
        assert reasons_of(plan).keys() == {"a1", "a2"}
        assert fields_of(index).keys() == {"a0", "a1", "a2"}
