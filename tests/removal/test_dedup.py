"""Duplicates taken out of an index and put back: nothing else goes, and nothing is lost."""

import itertools
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.exceptions import StoreUnavailable
from esdedup.groups.groups import Grouping, find_groups
from esdedup.models import FIELD, Document, Failure, StoredDocument
from esdedup.removal.log import Action, Entry, LogReader, LogWriter, RunHeader
from esdedup.removal.remove import Dedup, DedupReport
from esdedup.removal.undo import UndoReport, undo_removal
from esdedup.stores import Store
from esdedup.stores.changes import delete, update
from esdedup.stores.elastic.store import ClusterStore
from tests.helpers.commands import run_command, words
from tests.helpers.crashes import crash_everywhere
from tests.helpers.full_disk import largest_file
from tests.helpers.fuzz import fuzz
from tests.helpers.indices import open_index
from tests.helpers.places import (
    META,
    OTHER,
    STORES,
    Place,
    clusters,
    local,
    whole,
    write_records,
)
from tests.helpers.processes import at_once, await_true
from tests.helpers.small_pages import SMALL_PAGES
from tests.removal.removing import ACTIONS, dedup
from tests.servers.proxy import Answer, Proxy, Received, product_of


def sources(groups: int) -> list[dict[str, Any]]:
    """Three documents a group, of which the third is only similar, and as many that stay alone."""
    made: list[dict[str, Any]] = []
    for n in range(groups):
        text = (
            words(n)
            if n % 2
            else "".join(chr(0x4E00 + (n * 97 + i * 31) % 9_000) for i in range(40))
        )
        for copy, one in enumerate([text, text, f"{text} 末尾"]):
            made.append({"id": f"g{n}-{copy}", "text": one, "n": n, "more": {"说": [None, 1.5]}})
        made.append({"id": f"s{n}", "text": words(10**6 + n)})
    return made


def answers(place: Place) -> list[Any]:
    """What searches find, in order."""
    with esdedup.open(place.target, place.index) as index:
        found = [index.similar(words(n), threshold=0.3).matches for n in range(1, 9, 2)]
        pairs = list(index.pairs(threshold=0.8))
    return [[[(match.id, match.similarity) for match in some] for some in found], pairs]


Nothing = Callable[[], None]
Apply = Callable[..., DedupReport]


@pytest.fixture
def apply(store: Store, there: Store) -> Apply:
    """Find the groups, do something, and take the duplicates out.

    then, finally_: called after a plan was written to the log, and before what became of it.
    """

    def do(
        action: Action = "delete",
        before: Nothing = lambda: None,
        then: Nothing = lambda: None,
        finally_: Nothing = lambda: None,
        by: Store = store,
    ) -> DedupReport:
        class Log(LogWriter):
            def append(self, lines: Sequence[str]) -> None:
                super().append(lines)
                if "planned" in lines[0]:
                    then()

            def settle(self, ids: Sequence[str], failures: Sequence[Failure]) -> None:
                finally_()
                super().settle(ids, failures)

        groups = find_groups(store, META, Grouping(method="components"))
        before()
        to = there if action == "move" else None
        plan = Dedup(by, META, META.scheme.id, groups, action, to, Path("log.jsonl.zst"))
        report = replace(plan, writer=Log).apply().report
        assert report is not None
        return report

    return do


def undone(store: Store, there: Store, path: str = "log.jsonl.zst") -> UndoReport:
    log = LogReader(Path(path))
    return undo_removal(store, log, there if log.header.to else None)


# There and back


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ACTIONS)
def test_what_is_undone_is_the_same_index(
    place: Place, there: Store, store: Store, action: Action
) -> None:
    write_records(store, sources(12))
    before, found = whole(store), answers(place)
    ran = dedup(place, action, status=0)
    (report,) = ran.json
    verb = {"delete": "deleted", "mark": "marked", "move": "moved"}[action]
    assert (report["groups"], report["duplicates"]) == (12, 24)
    assert report[verb] == (36 if action == "mark" else 24)
    after = whole(store)
    gone = {f"g{n}-{copy}" for n in range(12) for copy in (1, 2)}
    if action == "mark":
        assert after["g3-2"][0][FIELD]["original"] == after["g3-0"][0][FIELD]["group"] == "g3-0"
        assert after["g3-1"][0][FIELD]["similarity"] == 1
    else:
        assert after == {id: one for id, one in before.items() if id not in gone}
    if action == "move":
        moved = {id: one[0] for id, one in whole(there).items()}
        assert moved == {id: before[id][0] for id in gone}
    # The second time, nothing is left to be restored.
    for restored in (report[verb], 0):
        again = place.run("undo", report["log"], "--yes", status=0)
        assert again.json[0]["restored"] == report[verb] - again.json[0]["present"] == restored
        assert (whole(store), answers(place)) == (before, found)
    if action == "move":
        assert whole(there) == {}


def test_marks_of_before_come_back(place: Place, store: Store) -> None:
    write_records(store, sources(3))
    marks = {"group": "old", "original": "old", "similarity": 0.9}
    update(store, [Document(id, {FIELD: marks}) for id in ("g1-0", "g1-1")])
    before = whole(store)
    (report,) = dedup(place, "mark").json
    ours = whole(store)["g1-0"][0][FIELD]
    assert [ours.get(name) for name in ("group", "original", "similarity")] == ["g1-0", None, None]
    again = dedup(place, "mark")
    assert (again.json[0]["marked"], again.json[0]["unchanged"]) == (0, 9)
    # Marks that another client wrote since stay.
    update(store, [Document("g2-1", {FIELD: {"group": "theirs"}, "n": 5})])
    update(store, [Document("g0-1", {"n": 7})])
    ran = place.run("undo", report["log"], "--yes")
    assert (ran.status, [each["id"] for each in ran.json[0]["failures"]]) == (1, ["g2-1"])
    after = whole(store)
    assert after["g0-1"][0] == {**before["g0-1"][0], "n": 7}
    assert after["g2-1"][0][FIELD]["group"] == "theirs"
    rest = before.keys() - {"g0-1", "g2-1"}
    assert {id: after[id] for id in rest} == {id: before[id] for id in rest}


# Changes meanwhile


def touch(store: Store, id: str, source: dict[str, Any]) -> None:
    assert update(store, [Document(id, source)]).updated == 1
    store.refresh()


def take(store: Store, id: str) -> None:
    assert delete(store, [id]) == 1
    store.refresh()


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("moment", ["before", "then"])
def test_a_document_that_changed_survives(
    there: Store, store: Store, apply: Apply, action: Action, moment: str
) -> None:
    write_records(store, sources(2))
    before = whole(store)
    # A client that makes no tokens leaves those of the text of before.
    changed = {"text": "另一段文字 and others"} if moment == "before" else {"n": 99}
    report = apply(action, **{moment: partial(touch, store, "g1-1", changed)})
    assert [(each.id, each.conflict) for each in report.failures] == [("g1-1", True)]
    after = whole(store)
    assert after["g1-1"][0] == {**before["g1-1"][0], **changed}
    if action == "move":
        assert sorted(whole(there)) == ["g0-1", "g0-2", "g1-2"]
    assert undone(store, there).failures == []
    assert whole(store) == {**before, "g1-1": after["g1-1"]}


@pytest.mark.parametrize("action", ["delete", "move"])
@pytest.mark.parametrize("moment", ["before", "then"])
@pytest.mark.parametrize("gone", [True, False])
def test_nothing_goes_whose_original_went(
    there: Store, store: Store, apply: Apply, action: Action, moment: str, gone: bool
) -> None:
    write_records(store, sources(2))
    before = whole(store)
    another = {"text": "一段别的文字"}
    work = partial(take, store, "g1-0") if gone else partial(touch, store, "g1-0", another)
    report = apply(action, **{moment: work})
    assert report.done == 2
    assert sorted(each.id for each in report.failures) == ["g1-1", "g1-2"]
    assert "original" in report.failures[0].reason
    after = whole(store)
    assert {id: after[id] for id in ("g1-1", "g1-2")} == {id: before[id] for id in ("g1-1", "g1-2")}
    if action == "move":
        assert sorted(whole(there)) == ["g0-1", "g0-2"]
    assert undone(store, there).failures == []
    expected = before | {"g1-0": after.get("g1-0")}
    assert whole(store) == {id: one for id, one in expected.items() if one is not None}


@clusters
@pytest.mark.parametrize(
    ("page", "several", "gone"),
    [
        (0, False, True),
        (1, False, True),
        (2, False, True),
        (2, False, False),
        (1, True, True),
        (2, True, False),
    ],
)
def test_an_original_that_another_client_changed_is_noticed_before_a_refresh(
    place: Place, others: Place, store: Store, apply: Apply, page: int, several: bool, gone: bool
) -> None:
    # Fields of more than 100 documents of one index, such as the originals of the second page, and
    # of any of several, are read by a search.
    write_records(store, sources(160))
    place.call("PUT", "/_settings", {"index": {"refresh_interval": "-1"}})
    place.call("POST", "/_refresh")
    pages = itertools.count(1)

    def change() -> None:
        if gone:
            place.call("DELETE", "/_doc/g99-0")
        else:
            place.call("PUT", "/_doc/g99-0", {"text": "一段别的文字"})

    def change_at_page() -> None:
        if next(pages) == page:
            change()

    with ExitStack() as opened:
        by = store
        if several:
            others.call("PUT", "")
            alias = f"{place.index}-alias"
            for each in (place, others):
                each.call("PUT", f"/_alias/{alias}")
            by = opened.enter_context(closing(Place(place.target, alias).open()))
        before = change if page == 0 else lambda: None
        report = apply(before=before, then=change_at_page, by=by)
    assert next(pages) == 3
    assert sorted(failure.id for failure in report.failures) == ["g99-1", "g99-2"]
    assert "original" in report.failures[0].reason
    assert {"g99-1", "g99-2"} <= whole(store).keys()


# Kills


def is_usual(store: str, action: Action) -> bool:
    """Return whether a run without --all kills such a removal in a store.

    A store has the same calls as another one, so the local store shows their order.
    """
    return store == "local" or (store == "elasticsearch" and action == "delete")


@pytest.mark.parametrize(
    ("place", "action"),
    [
        pytest.param(name, action, marks=[pytest.mark.nightly] * (not is_usual(name, action)))
        for name in STORES
        for action in ACTIONS
    ],
    indirect=["place"],
)
def test_killed_at_any_call(
    place: Place, there: Store, store: Store, action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in SMALL_PAGES:
        monkeypatch.setattr(*each)
    write_records(store, sources(7))
    before, logs = whole(store), list[Path]()

    def dedup_again() -> None:
        logs.append(Path(f"{len(logs)}.zst"))
        dedup(place, action, "--log", str(logs[-1]), status=0)

    assert crash_everywhere(dedup_again) > 3
    assert whole(store) != before
    for log in filter(Path.exists, reversed(logs)):
        crash_everywhere(lambda log=log: place.run("undo", str(log), "--yes"))  # type: ignore[misc]
        (report,) = place.run("undo", str(log), "--yes").json
        assert report["failures"] == []
        assert report["damage"] is None or "no end: the run was killed" in report["damage"]
    assert whole(store) == before
    if action == "move":
        assert whole(there) == {}


@clusters
@pytest.mark.parametrize("action", ACTIONS)
def test_an_answer_that_was_lost(
    place: Place, there: Store, store: Store, apply: Apply, action: Action
) -> None:
    write_records(store, sources(4))
    before = whole(store)
    assert isinstance(store, ClusterStore)
    with Proxy(str(place.target), store.cluster.product.split()[0].lower()) as proxy:
        far = Place(proxy.url, place.index).open()
        proxy.drop_after = 1
        report = apply(action, by=far)
        assert (report.done, report.failures) == (12 if action == "mark" else 8, [])
        assert proxy.bulk_requests >= 2
        proxy.drop_after = 1
        back = undone(far, there)
        assert (back.restored + back.present, back.failures) == (report.done, [])
        far.close()
    assert whole(store) == before


@clusters
@pytest.mark.parametrize("action", ["delete", "move"])
@pytest.mark.parametrize("is_rejected", [False, True])
def test_a_cluster_that_loses_the_server_that_deletes(
    place: Place, there: Store, store: Store, apply: Apply, action: Action, is_rejected: bool
) -> None:
    """It asks another server, which finds the documents deleted, or it rejects the request."""
    write_records(store, sources(4))
    before = whole(store)
    assert isinstance(store, ClusterStore)

    def reject_first(request: Received, answer: Answer) -> None:
        if request.path.endswith("/_bulk") and proxy.bulk_requests == 1:
            error = {
                "type": "unavailable_shards_exception",
                "reason": "primary shard is not active",
            }
            actions = (line for line in request.body.splitlines() if line)
            items = [
                {verb: {"_id": action["_id"], "status": 503, "error": error}}
                for line in actions
                for verb, action in json.loads(line).items()
            ]
            answer.body = json.dumps({"errors": True, "items": items}).encode()

    with Proxy(str(place.target), store.cluster.product.split()[0].lower()) as proxy:
        far = Place(proxy.url, place.index).open()
        if is_rejected:
            proxy.on_answer = reject_first
        else:
            proxy.repeat_after = 1
        report = apply(action, by=far)
        far.close()
    assert report.failures == []
    assert (report.done, report.gone) == ((8, 0) if is_rejected else (0, 8))
    deleted = before.keys() - whole(store).keys()
    assert len(deleted) == 8
    if action == "move":
        assert whole(there).keys() == deleted
    back = undone(store, there)
    assert (back.restored, back.present, back.failures) == (8, 0, [])
    assert whole(store) == before
    if action == "move":
        assert whole(there) == {}


@clusters
@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_answer_of_a_move_that_was_lost(
    place: Place, others: Place, there: Store, store: Store, at: int
) -> None:
    """The first answer is of the index that documents go to, the second of the one they leave."""
    write_records(store, sources(4))
    before = whole(store)
    assert isinstance(store, ClusterStore)
    with Proxy(str(place.target), store.cluster.product.split()[0].lower()) as proxy:
        far = Place(proxy.url, place.index)
        proxy.drop_after = at
        moved = dedup(far, "move", "--log", "log.zst")
        (report,) = moved.json
        skipped = report["changed_meanwhile"] + report["failed"]
        assert (moved.status, report["moved"], skipped) == (0, 8, 0), moved.err
        assert whole(there).keys() == before.keys() - whole(store).keys()
        assert len(whole(there)) == 8
        proxy.drop_after = at
        undone = far.run("undo", "log.zst", "--yes")
        (report,) = undone.json
        assert (undone.status, report["restored"], report["failures"]) == (0, 8, []), undone.err
    assert whole(store) == before
    assert whole(there) == {}


@clusters
def test_a_copy_that_another_client_moved_there_is_left(
    place: Place, there: Store, store: Store, apply: Apply
) -> None:
    write_records(store, sources(2))
    write_records(there, [])
    before = whole(store)
    copies = [held.document for held in store.hold(["g0-1", "g1-1"])]
    report = apply("move", then=lambda: there.write(copies) and None)
    assert (report.done, {each.id for each in report.failures}) == (2, {"g0-1", "g1-1"})
    undone(store, there)
    assert whole(store) == before
    assert whole(there).keys() == {"g0-1", "g1-1"}


@clusters
def test_an_alias_that_means_another_index_ends_the_run(
    place: Place, others: Place, there: Store, store: Store, apply: Apply
) -> None:
    write_records(store, sources(60))
    write_records(there, sources(60))
    alias = f"{place.index}-alias"

    def point_elsewhere() -> None:
        place.call("DELETE", f"/_alias/{alias}")
        others.call("PUT", f"/_alias/{alias}")

    place.call("PUT", f"/_alias/{alias}")
    with (
        esdedup.open(place.target, alias) as index,
        pytest.raises(esdedup.exceptions.StoreError, match=f"means {others.index} now"),
    ):
        apply("delete", finally_=point_elsewhere, by=index.store)
    assert (len(whole(store)), len(whole(there))) == (140, 240)


# What undo finds


def test_a_successor_gets_what_was_removed(
    place: Place, others: Place, there: Store, store: Store
) -> None:
    write_records(store, sources(3))
    before = whole(store)
    (report,) = dedup(place).json
    write_records(there, [one[0] for id, one in whole(store).items() if not id.startswith("s")])
    refused = others.run("undo", report["log"], "--yes")
    assert (refused.status, f"--into {others.index}" in refused.err) == (2, True), refused.err
    received = list[Received]()
    with ExitStack() as opened:
        far = place
        if isinstance(store, ClusterStore):
            target = str(place.target)
            proxy = opened.enter_context(Proxy(target, product_of(target)))
            proxy.on_request = received.append
            far = Place(proxy.url, place.index)
        # The log is of the address before the proxy.
        ran = far.run("undo", report["log"], "--into", others.index, "--force", "--yes")
    assert (ran.status, ran.json[0]["restored"]) == (0, 6), ran.err
    assert f"of index {place.index!r}" in ran.err
    expected = {id: one[0] for id, one in before.items() if not id.startswith("s")}
    assert {id: one[0] for id, one in whole(there).items()} == expected
    # Whether the index that each document was in still accepts new ones is asked once.
    gone = f"/_resolve/index/{place.index}"
    assert len([request for request in received if request.path == gone]) <= 1


def test_an_id_that_another_client_took_meanwhile_keeps_its_document(
    place: Place, store: Store
) -> None:
    write_records(store, sources(3))
    before = whole(store)
    (report,) = dedup(place).json
    write_records(store, [{"id": "g1-1", "text": "of another client"}])
    ran = place.run("undo", report["log"], "--yes")
    (found,) = ran.json
    assert (ran.status, found["restored"], found["changed_meanwhile"]) == (1, 5, 1)
    assert [each["id"] for each in found["failures"]] == ["g1-1"]
    assert "another document of this id" in ran.err
    after = whole(store)
    assert after["g1-1"][0]["text"] == "of another client"
    assert {**after, "g1-1": before["g1-1"]} == before


def test_what_was_moved_and_changed_there_stays_there_too(
    place: Place, there: Store, store: Store
) -> None:
    write_records(store, sources(2))
    before = whole(store)
    (report,) = dedup(place, "move").json
    # As JSON, 1 and 1.0 differ.
    touch(there, "g1-1", {"n": 1.0})
    ran = place.run("undo", report["log"], "--yes")
    assert (ran.status, [each["id"] for each in ran.json[0]["failures"]]) == (1, ["g1-1"])
    assert whole(store) == before
    assert {id: repr(one[0]["n"]) for id, one in whole(there).items()} == {"g1-1": "1.0"}


def test_what_was_there_before_a_move_stays_when_it_is_undone(
    place: Place, there: Store, store: Store
) -> None:
    write_records(store, sources(2))
    before = whole(store)
    # g0-1 is the same there, g1-1 differs as JSON does: 1 is not 1.0.
    write_records(there, [before["g0-1"][0], {**before["g1-1"][0], "n": 1.0}])
    former = whole(there)
    report = dedup(place, "move").json[0]
    assert (report["moved"], report["changed_meanwhile"]) == (3, 1)
    assert whole(there).keys() == {"g0-1", "g1-1", *before} - whole(store).keys() | {"g1-1"}
    place.run("undo", report["log"], "--yes")
    assert (whole(store), whole(there)) == (before, former)


@pytest.mark.parametrize(
    ("place", "said"),
    [("local", "scheme"), *((name, "names too: ") for name in ("elasticsearch", "opensearch"))],
    indirect=["place"],
)
def test_where_documents_can_be_moved_to(
    place: Place, there: Store, store: Store, said: str
) -> None:
    write_records(store, sources(2))
    if said == "scheme":
        there.create(OTHER)
    else:
        place.call("PUT", f"/_alias/{there.index}")
    ran = dedup(place, "move")
    assert (ran.status, said in ran.err) == (2, True), ran.err
    ran = place.run("dedup", "--apply", "--action", "move", "--to", place.index, "--yes", status=2)
    assert "already: name another" in ran.err
    assert len(whole(store)) == 8
    assert list(Path().glob("*.zst")) == []


@local
def test_the_log_of_a_run_that_failed_has_an_end(store: Store, there: Store, apply: Apply) -> None:
    write_records(store, sources(3))
    before = whole(store)

    def fail() -> None:
        raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable):
        apply("delete", finally_=fail)
    assert whole(store) != before
    report = undone(store, there)
    assert (report.restored, report.failures, report.damage) == (6, [], [])
    assert whole(store) == before


@partial(fuzz, most=8_000)
@local
@given(
    at=st.floats(0, 1, exclude_max=True),
    instead=st.one_of(st.integers(0, 255).map(lambda byte: bytes([byte])), st.none()),
    ending=st.sampled_from(["jsonl", "jsonl.zst"]),
)
def test_a_log_with_a_changed_byte_or_a_part_of_one_is_told(
    place: Place, store: Store, at: float, instead: bytes | None, ending: str
) -> None:
    name = Path(f"whole.{ending}")
    if not name.exists():
        if store.statistics(META).documents == 0:
            write_records(store, sources(3))
        dedup(place, "delete", "--log", str(name))
        place.run("undo", str(name), "--yes", status=0)
        assert name.stat().st_mode & 0o777 == 0o600
    written = name.read_bytes()
    first = int(at * len(written))
    rest = b"" if instead is None else instead + written[first + 1 :]
    damaged = Path(f"damaged.{ending}")
    damaged.write_bytes(written[:first] + rest)
    before = whole(store)
    ran = place.run("undo", str(damaged), "--yes")
    assert "Traceback" not in ran.err
    # Some bytes of a compressed page can change, such as its window's size, and not its content.
    if ran.status == 0:
        assert [*LogReader(damaged).pages()] == [*LogReader(name).pages()], ran
    assert whole(store).items() >= before.items()


# The command line


@local
def test_without_apply_nothing_changes(place: Place, store: Store) -> None:
    write_records(store, sources(3))
    before = whole(store)
    ran = place.run("dedup", status=0)
    near = {"id": "g0-2", "similarity": pytest.approx(0.95, abs=0.03)}
    same = {"id": "g0-1", "similarity": 1.0}
    assert ran.json[0] == {"keep": "g0-0", "duplicates": [same, near]}
    assert "6 duplicates in 3 groups of 12 documents" in ran.err
    assert "Nothing was changed" in ran.err
    exact = place.run("dedup", "--exact", "--keep", "last").json
    assert [(each["keep"], len(each["duplicates"])) for each in exact] == [
        (f"g{n}-1", 1) for n in (2, 1, 0)
    ]
    assert "g1-0" in place.run("dedup", "--table").out
    assert whole(store) == before
    assert list(Path().glob("*.zst")) == []


@local
def test_documents_that_a_chain_joins_are_told(place: Place, store: Store) -> None:
    chain = [words(1, 60).split()]
    for step in range(4):
        chain.append([*chain[-1][6:], *words(100 + step, 6).split()])
    write_records(store, [{"id": str(at), "text": " ".join(text)} for at, text in enumerate(chain)])
    ran = place.run("dedup", "--threshold", "0.7", "--method", "components")
    assert [len(group["duplicates"]) for group in ran.json] == [4]
    assert "3 of them are joined by a chain" in ran.err


@local
def test_a_document_that_only_a_judgement_joins_is_counted(place: Place, store: Store) -> None:
    write_records(store, [{"id": str(at), "text": words(at)} for at in range(3)])
    with esdedup.open(place.target, place.index) as index:
        index.judgements.judge("0", "1", "duplicate")
    ran = place.run("dedup")
    assert [group["keep"] for group in ran.json] == ["0"]
    assert "1 of them is joined by judgements" in ran.err


@local
def test_the_log_of_another_index_is_refused(
    place: Place, others: Place, there: Store, store: Store, tmp_path: Path
) -> None:
    write_records(store, sources(2))
    dedup(place, "delete", "--log", "log.jsonl")
    write_records(there, sources(1))
    ran = others.run("undo", "log.jsonl", "--yes")
    assert (ran.status, f"--index {place.index}" in ran.err) == (2, True), ran.err
    elsewhere = Place(tmp_path / "elsewhere.db", place.index)
    with open_index(elsewhere) as index:
        ran = elsewhere.run("undo", "log.jsonl", "--yes", status=2)
        assert "if that is right, undo it with --force set" in ran.err
        assert whole(index.store) == {}
        ran = elsewhere.run("undo", "log.jsonl", "--yes", "--force")
        assert (ran.status, len(whole(index.store))) == (0, 4)
    header = json.loads(Path("log.jsonl").read_text().splitlines()[0])
    assert header["scheme"] == META.scheme.id
    assert header["grouping"]["threshold"] == 0.8


@local
@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_person_is_asked(place: Place, store: Store, answer: str) -> None:
    write_records(store, sources(2))
    before = whole(store)
    deleting = ["dedup", *place.options, "--apply", "--action", "delete"]
    ran = run_command(*deleting, input=f"{answer}\n", terminal=True)
    assert "Delete these, in index" in ran.err
    assert "g1-0" in ran.out + ran.err
    logs = [str(path) for path in Path().glob("*.zst")]
    assert (ran.status, len(whole(store)), len(logs)) == ((0, 4, 1) if answer == "y" else (1, 8, 0))
    for log in logs:
        ran = run_command("undo", log, *place.options, input="y\n", terminal=True, status=0)
        assert "Restore them, in index" in ran.err
        assert whole(store) == before


@pytest.mark.parametrize(
    "line",
    [
        "5",
        "[1]",
        '"done"',
        "null",
        "{}",
        '{"done": 5}',
        '{"end": 5}',
        '{"planned": 5}',
        '{"planned": {"id": "x"}}',
        '{"planned": {"id": 5, "version": "v", "index": null, "routing": null, "original": null,'
        ' "value": 1}}',
        "[" * 100_000,
    ],
    ids=lambda line: line[:60],
)
def test_a_log_with_a_line_of_another_form_is_damaged_there(line: str, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    header = RunHeader("a", "b", "c", "d", "delete", None, {}, "e")
    with LogWriter(log, header) as writer:
        for number in range(2):
            writer.append([Entry(StoredDocument(Document(f"{number}", {}), "v"), "o", 1.0).line()])
            writer.settle([f"{number}"], [])
    # Logs of version 1 are read too.
    lines = log.read_text().replace('"version": 2', '"version": 1').splitlines()
    log.write_text("\n".join([*lines[:3], line, *lines[3:], ""]))
    reader = LogReader(log)
    assert [each.id for page in reader.pages() for each in page] == ["0"]
    assert reader.damage is not None
    assert "damaged after line 3: " in reader.damage
    # Python's own words tell nobody anything.
    assert not re.search("int|indices|iterable|recursion|'", reader.damage.split("line 3")[1])
    log.write_text(lines[0].replace('"began"', '"begun"') + "\n")
    with pytest.raises(esdedup.exceptions.StoreError, match="first line is damaged"):
        LogReader(log)


@pytest.mark.parametrize("full", [True, False])
def test_threads_write_one_log(full: bool, tmp_path: Path) -> None:
    """Until the disk is full, or Ctrl-C."""
    path, logged = tmp_path / "log.jsonl.zst", set[str]()
    writer = LogWriter(path, RunHeader("a", "b", "c", "d", "delete", None, {}, "e"))

    def write(first: int) -> None:
        for id in map(str, range(first, 3_000, 3)):
            writer.append([Entry(StoredDocument(Document(id, {}), "v"), "o", 1.0).line()])
            logged.add(id)
            writer.settle([id], [])

    def end() -> None:
        await_true("pages", lambda: len(logged) > 30, every=0)
        writer.__exit__(KeyboardInterrupt)

    writes = [partial(write, first) for first in range(3)]
    if full:
        with largest_file(20_000):
            refusals, none = at_once(writes), None
        writer.__exit__(StoreUnavailable)
    else:
        *refusals, none = at_once([*writes, end])
    why = "File too large" if full else "the run has ended"
    assert [why in str(each) for each in refusals] == [True] * 3
    assert len(logged) > 30
    reader = LogReader(path)
    assert {each.id for page in reader.pages() for each in page} >= logged
    # On a full disk, the last page is left out, and the end fits.
    assert (none, reader.damage) == (None, None)


@pytest.mark.parametrize("action", ["delete", "mark"])
def test_undo_counts_what_was_done(
    place: Place, store: Store, action: Action, tmp_path: Path
) -> None:
    """A run that is killed may have planned documents that it did not change."""
    write_records(store, sources(3))
    done, empty, killed = (tmp_path / f"{name}.zst" for name in ("done", "empty", "killed"))
    dedup(place, action, "--log", str(done))
    whole_log = LogReader(done)
    entries = [entry for page in whole_log.pages() for entry in page]
    before = whole(store)
    place.run("undo", str(done), "--yes", status=0)
    # An error ended the first run before a document was changed. The second was killed.
    for path, reason in ((empty, esdedup.exceptions.StoreError), (killed, GeneratorExit)):
        writer = LogWriter(path, whole_log.header)
        writer.append([entry.line() for entry in entries])
        writer.__exit__(reason)
    unknown = place.run("undo", str(killed), "--yes")
    assert (unknown.status, unknown.json[0]["restored"]) == (1, 0), unknown.err
    assert "it has no end" in unknown.err
    nothing = place.run("undo", str(empty), "--yes")
    assert (nothing.status, nothing.json[0]["restored"]) == (0, 0), nothing.err
    assert f"0 documents {'deleted' if action == 'delete' else 'marked'} at" in nothing.err
    assert "Nothing to restore: the run changed no document" in nothing.err
    # It ran full later, after one of them was.
    now = {one.id: one for one in store.hold([entry.id for entry in entries])}
    first = entries[0]
    if action == "delete":
        delete(store, [first.id])
    else:
        update(store, [Document(first.id, {FIELD: dict(first.marks)})])
    store.refresh()
    assert len(now) == len(entries)
    some = place.run("undo", str(killed), "--yes")
    assert (some.status, some.json[0]["restored"]) == (1, 1), some.err
    assert f"1 document {'deleted' if action == 'delete' else 'marked'} at" in some.err
    assert before.keys() <= whole(store).keys()


@pytest.mark.parametrize("ending", ["jsonl", "zst"])
def test_a_log_on_a_full_disk_has_an_end(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log.{ending}"
    entry = Entry(StoredDocument(Document("1", {"text": "some words"}), "1/1"), "2", 1.0)
    other = Entry(StoredDocument(Document("3", {"text": "some words"}), "1/1"), "2", 1.0)
    log = LogWriter(path, RunHeader("a", "b", "c", "d", "delete", None, {}, "e"))
    log.append([entry.line()])
    log.settle(["1"], [])
    # A part of the line fits.
    with (
        largest_file(path.stat().st_size + 40),
        pytest.raises(esdedup.exceptions.StoreError, match=r"File too large.*unchanged"),
    ):
        log.append([other.line()])
    log.__exit__(esdedup.exceptions.StoreError)
    reader = LogReader(path)
    assert [[entry.id for entry in page] for page in reader.pages()] == [["1"]]
    assert (reader.damage, reader.unsettled) == (None, [])


def test_nothing_follows_a_line_that_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the thread that writes; others would go on."""
    path = tmp_path / "log.jsonl"
    entry = Entry(StoredDocument(Document("1", {"text": "some words"}), "1/1"), "2", 1.0)

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    log = LogWriter(path, RunHeader("a", "b", "c", "d", "delete", None, {}, "e"))
    with monkeypatch.context() as patched:
        # No signal can be sent for certain between the end of a write and that of its sync.
        patched.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.append([entry.line()])
    written = path.read_bytes()
    with pytest.raises(esdedup.exceptions.StoreError, match="its last line is not whole"):
        log.append([entry.line()])
    log.__exit__(KeyboardInterrupt)
    assert path.read_bytes() == written


def test_a_log_whose_first_line_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "log.zst"
    with largest_file(40), pytest.raises(esdedup.exceptions.StoreError, match="File too large"):
        LogWriter(path, RunHeader("a", "b", "c", "d", "delete", None, {}, "e"))
    assert not path.exists()
