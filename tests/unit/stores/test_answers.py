"""What became of each action of a bulk request, by the server's answer."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.exceptions import StoreError
from esdedup.models import Failure
from esdedup.stores.elastic.answers import DROPPED, Action, AnswerReader, Settled

INDICES = {"alias": {"alias-1", "alias-2"}, "stream": {".ds-stream-1"}}


def action(id: str, index: str = "t") -> Action:
    return Action(id, id, index, b"")


def item(id: str, verb: str = "index", index: str = "t", **result: Any) -> dict[str, Any]:
    stored = {"result": "created", "status": 201} | result
    return {verb: {"_id": id, "_index": index, **stored}}


def refused(id: str, reason: str, status: int = 400, index: str = "t") -> dict[str, Any]:
    error = {"type": "document_parsing_exception", "reason": reason}
    return {"index": {"_id": id, "_index": index, "status": status, "error": error}}


NOOP: dict[str, Any] = {"result": "noop", "status": 200}
UPDATED: dict[str, Any] = {"result": "updated", "status": 200}


def settled(actions: list[Action], *items: dict[str, Any]) -> Settled:
    reader = AnswerReader("here", lambda name, index: index in INDICES.get(name, ()))
    return reader.settled(actions, items)


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (action("1"), item("1")),
        (action("1"), item("1", **UPDATED)),
        (action("1"), item("1", "create")),
        (action("1"), item("1", "update", **UPDATED)),
        # Nothing to change is no document that was dropped.
        (action("1"), item("1", "update", **NOOP)),
        (action("1"), item("1", "delete", result="deleted", status=200)),
        (action("1", "alias"), item("1", index="alias-2")),
        (action("1", "stream"), item("1", "create", index=".ds-stream-1")),
    ],
    ids=str,
)
def test_a_document_is_written_under_its_id_in_an_index_behind_the_name(
    sent: Action, answer: dict[str, Any]
) -> None:
    outcome = settled([sent], answer)
    assert (outcome.report.created + outcome.report.updated, outcome.report.failures) == (1, [])
    assert outcome.rejected == []


@pytest.mark.parametrize(
    ("sent", "answer", "cause", "reason"),
    [
        (action("1"), item("1", **NOOP), "dropped", DROPPED),
        (action("1"), item("1", "create", **NOOP), "dropped", DROPPED),
        # Moved by one pipeline, and dropped by the next.
        (action("1"), item("1", index="other", **NOOP), "dropped", DROPPED),
        (action("1"), item("1", index="other"), "moved", "moved to index 'other' by"),
        (action("1", "alias"), item("1", index="other"), "moved", "moved to index 'other' by"),
        (action("1"), item("9", index="other"), "moved", "moved to index 'other' as '9' by"),
        (action("1"), item("9"), "renamed", "changed its id to '9'"),
        # The second time, they are there.
        (action("1"), refused("9", "exists", 409), "renamed", "'9', which is taken"),
        (action("1"), refused("1", "exists", 409, "other"), "moved", "where its id is taken"),
        (action("1"), refused("1", "no date"), "refused", "no date"),
        (action("1"), item("1", result="new kind"), "refused", "'new kind', which is unknown"),
    ],
    ids=str,
)
def test_anything_else_is_no_written_document(
    sent: Action, answer: dict[str, Any], cause: str, reason: str
) -> None:
    outcome = settled([sent], answer)
    (failure,) = outcome.report.failures
    assert (outcome.report.created, outcome.report.updated, outcome.rejected) == (0, 0, [])
    assert (failure.id, failure.cause, failure.conflict) == ("1", cause, False)
    assert reason in failure.reason


def test_a_conflict_with_the_own_id_is_one() -> None:
    outcome = settled([action("1", "alias")], refused("1", "exists", 409, "alias-1"))
    assert outcome.report.failures == [
        Failure("1", "document_parsing_exception: exists", True, "alias-1")
    ]


def test_an_answer_of_other_actions_is_an_error() -> None:
    with pytest.raises(StoreError, match="answered 1 of 2 actions"):
        settled([action("1"), action("2")], item("1"))


FATES = ["created", "updated", "dropped", "refused", "busy", "renamed", "moved", "conflict"]


@given(st.lists(st.sampled_from(FATES), min_size=1, max_size=12), st.randoms())
def test_items_in_places_of_each_other_go_to_their_actions(fates: list[str], random: Any) -> None:
    """As OpenSearch answers: dropped and refused documents change places, written ones do not."""
    actions = [action(f"{fate}-{row}") for row, fate in enumerate(fates)]
    answers = {
        "created": lambda id: item(id),
        "updated": lambda id: item(id, **UPDATED),
        "dropped": lambda id: item(id, **NOOP),
        "refused": lambda id: refused(id, f"of {id}"),
        "busy": lambda id: refused(id, "too many", 429),
        "renamed": lambda id: item("x"),
        "moved": lambda id: item(id, index="other"),
        "conflict": lambda id: refused(id, "exists", 409),
    }
    items = [answers[fate](sent.id) for fate, sent in zip(fates, actions, strict=True)]
    loose = [row for row, fate in enumerate(fates) if fate in ("dropped", "refused")]
    shuffled = loose.copy()
    random.shuffle(shuffled)
    for row, answer in zip(loose, [items[row] for row in shuffled], strict=True):
        items[row] = answer
    outcome = settled(actions, *items)
    assert outcome.report.created == fates.count("created")
    assert outcome.report.updated == fates.count("updated")
    assert [sent.id for sent, _ in outcome.rejected] == [
        sent.id for fate, sent in zip(fates, actions, strict=True) if fate == "busy"
    ]
    for failure in outcome.report.failures:
        fate = failure.id.partition("-")[0]
        assert failure.cause == ("refused" if fate == "conflict" else fate)
        assert failure.conflict == (fate == "conflict")
        assert fate != "refused" or failure.reason.endswith(f"of {failure.id}")


@given(st.data())
def test_what_is_written_is_never_more_than_what_the_server_wrote(data: st.DataObject) -> None:
    """Whatever ids pipelines make: a document counts as written only if it is, under its id."""
    ids = ["a", "b", "c", "d"]
    actions = [action(id) for id in ids]
    items = []
    for id in ids:
        new = data.draw(st.sampled_from([id, id, *ids]))
        kind = data.draw(st.sampled_from(["created", "noop", "refused"]))
        items.append(
            refused(new, "no") if kind == "refused" else item(new, result=kind, status=200)
        )
    loose = [row for row, answer in enumerate(items) if answer["index"].get("result") != "created"]
    for row, answer in zip(
        loose, data.draw(st.permutations([items[row] for row in loose])), strict=True
    ):
        items[row] = answer
    outcome = settled(actions, *items)
    stored = [
        id
        for id, answer in zip(ids, items, strict=True)
        if answer["index"].get("result") == "created" and answer["index"]["_id"] == id
    ]
    failed = {failure.id for failure in outcome.report.failures}
    assert [id for id in ids if id not in failed] == stored
    assert outcome.report.created == len(stored)
