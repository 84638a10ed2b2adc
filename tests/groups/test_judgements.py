"""Judgements: they are kept, and groups, dedup and ingest policies respect each of them."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.compare.union_find import join, singletons
from esdedup.groups.constraints import Constraints
from esdedup.groups.groups import Groups, Member
from esdedup.ingest.policies import PolicyAction
from esdedup.removal.remove import DedupReport
from esdedup.sketch.measures import HAMMING, JACCARD
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.changes import update
from esdedup.stores.judgements import PREFIX, Judgement
from tests.conftest import delete_index
from tests.helpers.commands import run_command, words
from tests.helpers.places import Place

WAYS: list[dict[str, Any]] = [
    {"method": "leader", "threshold": 0.6},
    {"method": "components", "threshold": 0.6},
    {"method": "leader", "sketch": "simhash", "distance": 15},
    {"method": "components", "sketch": "simhash", "distance": 15},
    {"exact": True},
]


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with esdedup.open(place.target, place.index) as opened:
        yield opened
    if not isinstance(place.target, Path):
        delete_index(place.target, PREFIX + place.index)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[esdedup.Index]:
    with esdedup.open(tmp_path / "a.db") as opened:
        yield opened


def varied(seed: int, number: int) -> str:
    """A text that is much like the others of a seed: one word of 200 differs."""
    found = words(seed, 200).split()
    found[number] = f"x{number}"
    return " ".join(found)


def sets_of(groups: Groups) -> set[frozenset[str]]:
    return {frozenset([g.representative, *(m.id for m in g.members)]) for g in groups}


def group_of(groups: Groups) -> dict[str, int]:
    return dict(zip(groups.ids, groups.representative.tolist(), strict=True))


@pytest.mark.on_every_server
def test_judgements_are_kept_and_taken_back(index: esdedup.Index, place: Place) -> None:
    index.add([{"id": f"d{n}", "text": varied(1, n)} for n in range(4)])
    assert not index.judgements.read()
    made = index.judgements.judge("d2", "d1", "different", 0.9)
    assert (made.left, made.right, made.verdict, made.similarity) == ("d1", "d2", "different", 0.9)
    index.judgements.judge("d1", "d3", "unsure")
    index.judgements.judge("d0", "d3", "duplicate")
    index.judgements.represent("d2")
    index.judgements.represent("d1", ["d2"])
    with esdedup.open(place.target, place.index) as again:
        found = again.judgements.read()
    assert found == index.judgements.read()
    assert [(each.left, each.right, each.verdict) for each in found.pairs] == [
        ("d1", "d2", "different"),
        ("d1", "d3", "unsure"),
        ("d0", "d3", "duplicate"),
    ]
    assert found.representatives == ("d1",)
    assert found.between("d2", "d1") == made
    assert Judgement.from_json(json.loads(json.dumps(made.to_json()))) == made
    # Another verdict takes the place of the first, and the documents are as they were.
    index.judgements.judge("d1", "d2", "duplicate")
    index.judgements.remove("d3", "d0")
    index.judgements.remove("d3", "d1")
    index.judgements.unrepresent("d1")
    left = index.judgements.read()
    assert [(each.left, each.right, each.verdict) for each in left.pairs] == [
        ("d1", "d2", "duplicate")
    ]
    assert left.representatives == ()
    assert index.statistics().documents == 4


def test_what_can_not_be_judged(local: esdedup.Index) -> None:
    local.add([{"id": "a", "text": "one"}, {"id": "b", "text": "two"}])
    with pytest.raises(esdedup.UsageError, match="given twice"):
        local.judgements.judge("a", "a", "different")
    with pytest.raises(esdedup.exceptions.StoreError, match="no document 'c' with a text"):
        local.judgements.judge("a", "c", "different")
    with pytest.raises(esdedup.UsageError, match="verdict 'same': use duplicate, different"):
        local.judgements.judge("a", "b", "same")  # type: ignore[arg-type]
    for similarity in (-0.5, 2.0):
        with pytest.raises(esdedup.UsageError, match="use a number from 0 to 1"):
            local.judgements.judge("a", "b", "different", similarity)
    assert not local.judgements.read()


def test_a_text_that_changed_was_not_judged(local: esdedup.Index) -> None:
    local.add([{"id": f"d{n}", "text": varied(1, n)} for n in range(6)])
    local.judgements.judge("d0", "d3", "different")
    local.judgements.judge("d3", "d4", "different")
    found = local.groups()
    of = group_of(found)
    assert of["d3"] not in (of["d0"], of["d4"])
    assert (found.judged.different, found.judged.stale) == (2, 0)
    local.add([{"id": "d3", "text": varied(1, 30)}])
    found = local.groups()
    assert sets_of(found) == {frozenset(f"d{n}" for n in range(6))}
    assert (found.judged.different, found.judged.stale) == (0, 2)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_equal_texts_can_be_judged_different(local: esdedup.Index, way: dict[str, Any]) -> None:
    local.add([{"id": f"d{n}", "text": words(1), "of": n} for n in range(5)])
    local.judgements.judge("d1", "d3", "different")
    of = group_of(local.groups(**way))
    assert of["d1"] != of["d3"]
    assert of["d0"] == of["d2"] == of["d4"]
    assert of["d0"] in (of["d1"], of["d3"])


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_duplicates_are_in_one_group_however_unlike(
    local: esdedup.Index, way: dict[str, Any]
) -> None:
    local.add(
        [{"id": f"d{n}", "text": words(n)} for n in range(4)]
        + [{"id": "e2", "text": words(2)}, {"id": "w", "text": "?!"}]
    )
    local.judgements.judge("d0", "d2", "duplicate")
    local.judgements.judge("d2", "d3", "duplicate")
    local.judgements.judge("d1", "w", "duplicate")
    found = local.groups(**way)
    assert sets_of(found) == {frozenset(["d0", "d2", "d3", "e2"]), frozenset(["d1", "w"])}
    assert found.judged.duplicates == 3
    unlike = {member.id: member for group in found for member in group.members}
    assert (unlike["d3"].distance or 0) > 15 or (unlike["d3"].similarity or 0.0) < 0.1
    # Texts without words have the least similarity, and the greatest distance.
    by_distance = "sketch" in way
    assert unlike["w"] == Member("w", *((64, HAMMING) if by_distance else (0.0, JACCARD)))


@pytest.mark.parametrize("way", WAYS[:4], ids=str)
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))]
)
def test_any_judgements_are_respected(local: esdedup.Index, way: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = [f"d{n}" for n in range(80)]
    local.add(
        [{"id": id, "text": varied(int(rng.integers(8)), int(rng.integers(12)))} for id in ids]
    )
    before = local.groups(**way)
    pairs = {tuple(sorted(rng.choice(ids, 2, replace=False).tolist())) for _ in range(60)}
    verdicts = {pair: "duplicate" if rng.random() < 0.2 else "different" for pair in pairs}
    for (left, right), verdict in verdicts.items():
        local.judgements.judge(left, right, verdict)  # type: ignore[arg-type]
    found = local.groups(**way)
    of = group_of(found)
    for (left, right), verdict in verdicts.items():
        if verdict == "different":
            assert of[left] != of[right]
    joined = sum(of[a] == of[b] for (a, b), verdict in verdicts.items() if verdict == "duplicate")
    assert joined >= found.judged.duplicates
    total = found.judged.duplicates + found.judged.contradictory
    assert total == sum(verdict == "duplicate" for verdict in verdicts.values())
    # The groups of all documents, formed from the former ones, are the same.
    again = local.regroup(before, ids)
    assert sets_of(again) == sets_of(found)
    for left, right in verdicts:
        local.judgements.remove(left, right)
    assert sets_of(local.groups(**way)) == sets_of(before)
    assert sets_of(local.regroup(again, ids)) == sets_of(before)


def test_a_chosen_document_represents_its_group(local: esdedup.Index, tmp_path: Path) -> None:
    local.add([{"id": f"d{n}", "text": varied(n // 4, n)} for n in range(8)])
    before = local.groups()
    assert {group.representative for group in before} == {"d0", "d4"}
    local.judgements.represent("d2")
    expected = {"d2", "d4"}
    for method in ("leader", "components"):
        found = local.groups(method=method)
        assert {group.representative for group in found} == expected
    assert {group.representative for group in local.regroup(before, ["d1"])} == expected
    done = local.dedup("delete", apply=True, log=tmp_path / "log.zst")
    assert done.report is not None
    assert done.report.done == 6
    assert {document.id for document in local.store.get([f"d{n}" for n in range(8)])} == expected


def test_only_some_groups_are_formed_again(local: esdedup.Index) -> None:
    local.add([{"id": f"d{n}", "text": varied(n // 4, n)} for n in range(12)])
    before = local.groups()
    local.judgements.judge("d0", "d1", "different")
    local.judgements.judge("d4", "d5", "different")
    found = local.regroup(before, ["d1"])
    assert sets_of(found) == {
        frozenset(["d0", "d2", "d3"]),
        frozenset(f"d{n}" for n in range(4, 8)),
        frozenset(f"d{n}" for n in range(8, 12)),
    }
    # A text that changed since is compared as it is.
    local.add([{"id": "d9", "text": "something else"}])
    found = local.regroup(found, ["d8"])
    assert frozenset(["d8", "d10", "d11"]) in sets_of(found)
    local.add([{"id": f"e{n}", "text": words(99)} for n in range(1001)])
    found = local.groups()
    with pytest.raises(esdedup.UsageError, match="at most 1,000"):
        local.regroup(found, ["e5"])
    with pytest.raises(esdedup.UsageError, match="find all groups again"):
        local.regroup(local.groups(split_templates=True), ["d0"])


def test_dedup_refuses_groups_that_judgements_do_not_form_any_more(
    local: esdedup.Index, tmp_path: Path
) -> None:
    unlike = {"id": "u", "text": words(5, 200)}
    local.add([*({"id": f"d{n}", "text": varied(1, n)} for n in range(4)), unlike])
    local.judgements.judge("d0", "u", "duplicate")
    joined = local.groups()
    for change in (
        lambda: local.judgements.remove("d0", "u"),
        lambda: local.judgements.judge("d0", "u", "unsure"),
    ):
        change()
        with pytest.raises(esdedup.exceptions.StoreError, match="judgements changed since"):
            local.dedup("delete", groups=joined, log=tmp_path / "log.zst", apply=True)
    # Formed again, the same groups suit.
    parted = local.regroup(joined, ["u"])
    assert sets_of(parted) == {frozenset(f"d{n}" for n in range(4))}
    local.judgements.represent("d2")
    with pytest.raises(esdedup.exceptions.StoreError, match="judgements changed since"):
        local.dedup("delete", groups=parted, log=tmp_path / "log.zst", apply=True)
    chosen = local.regroup(parted, ["d2"])
    local.dedup("delete", groups=chosen, log=tmp_path / "log.zst", apply=True)
    kept = local.store.get([*(f"d{n}" for n in range(4)), "u"])
    assert {each.id for each in kept} == {"d2", "u"}


@pytest.mark.on_every_server
@pytest.mark.parametrize("place", ["elasticsearch", "opensearch"], indirect=True)
def test_judgements_for_another_name_of_the_index_are_told(
    index: esdedup.Index, place: Place, tmp_path: Path
) -> None:
    index.add([{"id": f"d{n}", "text": varied(1, n)} for n in range(3)])
    assert index.store.names() == []
    alias = f"{place.index}-alias"
    place.call("PUT", f"/_alias/{alias}")
    assert index.store.names() == [alias]
    index.judgements.judge("d0", "d1", "different")
    assert index.groups().judged.elsewhere == ()
    url = str(place.target)
    with esdedup.open(url, alias) as named:
        assert named.store.names() == [place.index]
        assert named.groups().judged.elsewhere == (place.index,)
    options = ("--url", url, "--index", alias, "--json")
    log = ("--log", str(tmp_path / "log.zst"))
    ran = run_command("dedup", *options)
    assert f"those made for {place.index!r}, another name of the index, without effect" in ran.err
    applied = run_command("dedup", *options, "--apply", "--action", "mark", "--yes", *log)
    assert json.loads(applied.out.splitlines()[-1])["judged"]["elsewhere"] == [place.index]


def test_a_judgement_stops_a_run_that_is_under_way(local: esdedup.Index, tmp_path: Path) -> None:
    # The first page has 100 documents.
    local.add([{"id": f"{n:03}", "text": varied(1, n % 200)} for n in range(150)])
    before = {each.id: each.source for each in local.store.get([f"{n:03}" for n in range(150)])}
    plan = local.dedup("delete", log=tmp_path / "log.zst")
    reports: list[int] = []

    def judging(report: DedupReport) -> None:
        reports.append(report.done)
        local.judgements.judge("000", "149", "different")

    with pytest.raises(esdedup.exceptions.StoreError, match="judgements changed since"):
        plan.apply(judging)
    assert reports == [100]
    assert [each.id for each in local.store.get(["000", "001", "149"])] == ["000", "149"]
    local.undo(tmp_path / "log.zst")
    assert {each.id: each.source for each in local.store.get([*before])} == before


def test_leaders_of_split_templates_are_like_their_duplicates(local: esdedup.Index) -> None:
    # Letters of a template, and five of them twice: without their end, and without their beginning.
    base = [f"base{one}{other}" for one in "abcd" for other in "abcdefghijklmnopqrstuvwxy"]

    def letter(name: str, number: int) -> list[str]:
        return [*base[:50], "dear", name, "number", str(number), *base[50:]]

    texts = {f"t{n:02}": letter("abcdefghijklmn"[n], 100_000 + 7_919 * n) for n in range(14)}
    for n in range(5):
        twice = letter("opqrs"[n], 5_000 + n)
        texts |= {f"u{n}a": twice[:90], f"u{n}b": twice[12:]}
    local.add([{"id": id, "text": " ".join(text)} for id, text in texts.items()])
    found = local.groups(method="leader", threshold=0.7, split_templates=True)
    assert sets_of(found) == {frozenset([f"u{n}a", f"u{n}b"]) for n in range(5)}
    found = local.groups(method="leader", threshold=0.75, split_templates=True)
    assert not found.duplicates


BESIDE = esdedup.Scheme(
    [
        esdedup.MinHash(),
        esdedup.Vectors(4, 0.9, name="v", fields=["v"]),
        esdedup.Bits(64, 8, name="h", fields=["h"]),
        esdedup.MinHash(name="title", fields=["title"]),
    ]
)
"""Sketches of other fields beside the text."""
BY_OTHER_FIELDS: list[dict[str, Any]] = [
    {"sketch": "v", "cosine": 0.9},
    {"sketch": "h", "distance": 8},
    {"sketch": "title", "threshold": 0.6},
]

FIELDS = esdedup.Scheme([esdedup.MinHash(), esdedup.MinHash(name="title", fields=["title"])])


def similar_in_other_fields(id: str, number: int) -> dict[str, Any]:
    """A document that is like the others in all fields but its text."""
    title = f"{words(50, 40)} number{number}"
    fingerprint = f"{0xFF00 + number:016x}"
    vector = [1.0, 0.5, 0.25, number / 1000]
    return {"id": id, "text": words(number), "title": title, "h": fingerprint, "v": vector}


UNLIKE = {
    "id": "u",
    "text": words(60),
    "title": words(61),
    "h": "ffff00ff00ff0000",
    "v": [0.0, 0.0, 0.0, 1.0],
}


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[esdedup.Index]:
    """An index of documents that are similar in all fields but their texts, and of another one."""
    with esdedup.open(tmp_path / "a.db", scheme=BESIDE) as opened:
        opened.add([*(similar_in_other_fields(f"a{n}", n) for n in range(4)), UNLIKE])
        yield opened


@pytest.mark.parametrize("way", BY_OTHER_FIELDS, ids=lambda way: way["sketch"])
def test_judgements_hold_for_groups_by_other_fields_than_the_text(
    beside: esdedup.Index, way: dict[str, Any], tmp_path: Path
) -> None:
    before = beside.groups(**way)
    assert sets_of(before) == {frozenset(f"a{n}" for n in range(4))}
    beside.judgements.judge("a0", "a1", "different")
    beside.judgements.judge("a0", "u", "duplicate")
    found = beside.groups(**way)
    of = group_of(found)
    assert of["a0"] == of["u"] != of["a1"]
    assert (found.judged.different, found.judged.duplicates, found.judged.stale) == (1, 1, 0)
    assert sets_of(beside.regroup(before, ["a0", "u"])) == sets_of(found)
    beside.dedup("delete", apply=True, log=tmp_path / "log.zst", **way)
    left = {document.id for document in beside.store.get([*of])}
    assert left == {"a0", "a1"}


@pytest.mark.parametrize("way", BY_OTHER_FIELDS, ids=lambda way: way["sketch"])
def test_a_judgement_ends_with_its_text_whatever_field_is_compared(
    beside: esdedup.Index, way: dict[str, Any]
) -> None:
    beside.judgements.judge("a0", "a1", "different")
    changed_fields = similar_in_other_fields("a1", 7)
    beside.add([{**changed_fields, "text": words(1)}])
    found = beside.groups(**way)
    assert (found.judged.different, found.judged.stale) == (1, 0)
    beside.add([{**changed_fields, "text": words(70)}])
    again = beside.groups(**way)
    assert (again.judged.different, again.judged.stale) == (0, 1)
    of = group_of(again)
    assert of["a0"] == of["a1"]
    assert sets_of(beside.regroup(found, ["a0", "a1"])) == sets_of(again)


@pytest.mark.parametrize("way", BY_OTHER_FIELDS, ids=lambda way: way["sketch"])
def test_documents_of_equal_values_are_judged_different_by_their_texts(
    beside: esdedup.Index, way: dict[str, Any]
) -> None:
    beside.add([{**similar_in_other_fields(f"a{n}", 0), "text": words(n)} for n in range(4)])
    beside.judgements.judge("a1", "a3", "different")
    of = group_of(beside.groups(**way))
    assert of["a1"] != of["a3"]
    # Nobody judged a document of the same text that differs in the field.
    beside.judgements.judge("a1", "u", "duplicate")
    beside.add([{**UNLIKE, "id": "z", "text": words(1)}, {**UNLIKE, "text": words(80)}])
    found = beside.groups(**way)
    assert found.judged.stale == 1
    assert frozenset(["u", "z"]) in sets_of(found)


@pytest.mark.parametrize("way", BY_OTHER_FIELDS, ids=lambda way: way["sketch"])
def test_documents_without_a_text_are_judged_by_another_field(
    beside: esdedup.Index, way: dict[str, Any]
) -> None:
    beside.update([{"id": id, "text": None} for id in ("a0", "a1", "u")])
    beside.judgements.judge("a0", "a1", "different")
    beside.judgements.judge("a0", "u", "duplicate")
    of = group_of(beside.groups(**way))
    assert of["a0"] == of["u"] != of["a1"]
    beside.update([{"id": "a1", "text": words(1)}])
    beside.update([{"id": "u", "v": [0.0, 0.0, 1.0, 1.0]}])
    found = beside.groups(**way)
    assert (found.judged.different, found.judged.duplicates, found.judged.stale) == (0, 0, 2)


def test_the_text_that_another_client_wrote_without_tokens_is_judged(
    beside: esdedup.Index, tmp_path: Path
) -> None:
    beside.judgements.judge("a0", "a2", "different")
    update(beside.store, [esdedup.Document(id, {"text": words(90)}) for id in ("a0", "a1")])
    beside.judgements.judge("a0", "a1", "different")
    found = beside.groups(sketch="title", threshold=0.6)
    assert (found.judged.different, found.judged.stale) == (1, 1)
    beside.dedup("delete", groups=found, apply=True, log=tmp_path / "log.zst")
    left = {document.id for document in beside.store.get([*group_of(found)])}
    assert left == {"a0", "a1", "u"}


@pytest.mark.parametrize("way", BY_OTHER_FIELDS, ids=lambda way: way["sketch"])
@pytest.mark.parametrize("changed", ["a0", "u"])
def test_nothing_is_removed_by_a_judgement_whose_text_changed_since(
    beside: esdedup.Index, way: dict[str, Any], changed: str, tmp_path: Path
) -> None:
    beside.judgements.judge("a0", "u", "duplicate")
    plan = beside.dedup("delete", log=tmp_path / "log.zst", **way)
    beside.update([{"id": changed, "text": words(90)}])
    done = plan.apply().report
    assert done is not None
    assert beside.store.get(["u"])
    assert any("'text' changed" in f.reason or "is gone" in f.reason for f in done.failures)


@pytest.mark.on_every_server
def test_a_verdict_holds_for_groups_by_the_title(place: Place) -> None:
    with esdedup.open(place.target, place.index, scheme=FIELDS) as index:
        index.add([similar_in_other_fields(f"a{n}", n) for n in range(3)])
        index.judgements.judge("a0", "a1", "different")
        of = group_of(index.groups(sketch="title", threshold=0.6))
        assert of["a0"] == of["a2"] != of["a1"]
        index.judgements.drop()


@pytest.mark.on_every_server
def test_judged_ids_of_any_form_are_kept(index: esdedup.Index) -> None:
    ids = ["2024-01-01", "2024-01-02", "abc", "7", "true"]
    # In this order, the index itself takes its ids for texts.
    index.add([{"id": id, "text": words(n)} for n, id in enumerate(sorted(ids, reverse=True))])
    for left, right in itertools.pairwise(ids):
        index.judgements.judge(left, right, "different")
        index.judgements.represent(left)
    assert len(index.judgements.read().pairs) == 4
    assert set(index.judgements.read().representatives) == set(ids[:-1])


def test_what_is_no_judgement_is_named(local: esdedup.Index) -> None:
    local.add([{"id": "a", "text": "one"}, {"id": "b", "text": "two"}])
    whole = local.judgements.judge("a", "b", "different").to_json()
    beside = local.store.beside(PREFIX + local.store.index)
    ((good,),) = beside.scan(["left"], beside.meta())  # type: ignore[arg-type]
    for wrong, said in (
        ({"digests": ["zz", "yy"]}, "'zz' is not a digest"),
        ({"verdict": "same"}, "use duplicate, different"),
        ({"right": "a"}, "'a' is given twice"),
    ):
        update(beside, [esdedup.Document(good.id, wrong)])
        with pytest.raises(esdedup.exceptions.StoreError, match=said) as caught:
            local.groups()
        assert good.id in str(caught.value)
        update(beside, [esdedup.Document(good.id, whole)])
    with pytest.raises(esdedup.UsageError, match="holds judgements"):
        local.dedup("move", to=f"{PREFIX}documents")


@pytest.mark.on_every_server
@pytest.mark.parametrize("action", ["mark", "skip", "group"])
def test_ingest_policies_respect_judgements(index: esdedup.Index, action: PolicyAction) -> None:
    documents = [
        {"id": "a", "text": varied(1, 1)},
        {"id": "b", "text": varied(1, 2)},
        {"id": "c", "text": varied(1, 1)},
    ]
    index.add(documents[:1])
    index.add(documents, on_duplicate="keep")
    index.judgements.judge("a", "b", "different")
    index.judgements.judge("a", "c", "different")
    # All come again, as new documents of an index that has the judgements still.
    for batch in ([documents], [[each] for each in documents]):
        index.delete(["a", "b", "c"])
        for some in batch:
            report = index.add(some, on_duplicate=action)
        stored = {each.id: each.tokens for each in index.store.get(["a", "b", "c"])}
        held = {one.id: one.document.tokens for one in index.store.hold(["a", "b", "c"])}
        assert "b" in stored
        assert held["b"].get("original") != "a"
        assert held["b"].get("group") != "a"
        assert "c" not in held or held["c"].get("original") != "a"
        assert report.failed == 0


@pytest.mark.parametrize("action", ["mark", "group"])
def test_policies_keep_followers_of_one_document_apart(
    local: esdedup.Index, action: PolicyAction
) -> None:
    documents = [{"id": id, "text": varied(1, number)} for number, id in enumerate("abc")]
    local.add(documents)
    local.judgements.judge("b", "c", "different")
    for batches in ([documents], [[each] for each in documents]):
        local.delete(["a", "b", "c"])
        for some in batches:
            local.add(some, on_duplicate=action)
        held = {one.id: one.document.tokens for one in local.store.hold(["a", "b", "c"])}
        assert held["b"]["group"] == "a"
        assert held["c"]["group"] == "c"


def test_marks_against_a_judgement_are_renewed(local: esdedup.Index) -> None:
    documents = [{"id": "a", "text": varied(1, 1)}, {"id": "b", "text": varied(1, 2)}]
    local.add(documents, on_duplicate="mark")
    (held,) = local.store.hold(["b"])
    assert held.document.tokens["original"] == "a"
    local.judgements.judge("a", "b", "different")
    local.add(documents, on_duplicate="mark")
    (held,) = local.store.hold(["b"])
    assert held.document.tokens.get("original") is None
    assert held.document.tokens["group"] == "b"


def test_judgements_hold_after_a_switch_to_another_normalisation(local: esdedup.Index) -> None:
    texts = {"a": varied(1, 1).upper(), "b": varied(1, 2).upper(), "c": varied(1, 3)}
    local.add([{"id": id, "text": text} for id, text in texts.items()])
    former = esdedup.Normalisation("NFC", casefold=False)
    digest_of = dict(zip(texts, normalised_digests(list(texts.values()), former)[1], strict=True))
    for left, right in ("ab", "bc", "ac"):
        digests = digest_of[left], digest_of[right] if right != "c" else digest_of["a"]
        local.judgements.write([Judgement(left, right, "different", digests, former)])
    (kept,) = local.judgements.read().pairs
    assert (kept.left, kept.right, kept.normalisation) == ("a", "b", esdedup.Normalisation())
    of = group_of(local.groups(threshold=0.6))
    assert of["a"] != of["b"]


def test_judgements_of_another_normalisation_hold_for_groups_by_another_field(
    beside: esdedup.Index,
) -> None:
    former = esdedup.Normalisation("NFC", casefold=False)
    left, right = normalised_digests([words(0), words(1)], former)[1]
    beside.judgements.write([Judgement("a0", "a1", "different", (left, right), former)])
    found = beside.groups(sketch="title", threshold=0.6)
    of = group_of(found)
    assert of["a0"] != of["a1"]
    assert found.judged.different == 1
    # All clients read the same judgements while documents are removed.
    assert found.judgements.acting == beside.judgements.read().acting


PAIRS = st.tuples(st.integers(0, 11), st.integers(0, 11))


@given(st.lists(PAIRS, max_size=30), st.lists(PAIRS, max_size=8))
def test_rows_that_can_not_link_are_never_joined(
    edges: list[tuple[int, int]], apart: list[tuple[int, int]]
) -> None:
    apart = [pair for pair in apart if pair[0] != pair[1]]
    cannot = np.array(apart, np.int64).reshape(-1, 2)
    constraints = Constraints(np.empty((0, 2), np.int64), cannot)
    partition, free = singletons(12), singletons(12)
    for some in itertools.batched(edges, 5) if hasattr(itertools, "batched") else [edges]:
        left, right = np.sort(np.array(some, np.int64).reshape(-1, 2), axis=1).T
        constraints.join(partition, left, right, np.arange(left.size, 0.0, -1.0))
        join(free, left, right)
    assert (partition[partition] == partition).all()
    assert (partition <= np.arange(12)).all()
    assert not (partition[cannot[:, 0]] == partition[cannot[:, 1]]).any()
    # Each group is a part of one that is made without constraints, and no two could be joined.
    assert (free[partition] == free).all()
    for left, right in edges:
        one, other = partition[left], partition[right]
        ends = {frozenset(pair) for pair in partition[cannot].tolist()}
        assert one == other or frozenset([int(one), int(other)]) in ends
    if not apart:
        assert (partition == free).all()
