"""Groups made as documents come in, against the same rule one document at a time by brute force."""

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import esdedup
from esdedup import DuplicatePolicy
from esdedup.ingest import ingest
from esdedup.records.files import BadRecord, Record, chunked
from esdedup.stores.changes import update
from tests.helpers.arrivals import Marks, Texts, by_brute_force, family
from tests.helpers.places import Place

JACCARD = DuplicatePolicy("group", 0.6)
HAMMING = DuplicatePolicy("group", sketch="simhash")


class Killed(BaseException):
    """Stands for the end of a process between two records."""


def corpus(count: int, seed: int = 1) -> Texts:
    """English and Chinese families, equal texts, empty ones, in a mixed order."""
    rng = np.random.default_rng(seed)
    texts = {}
    for number in range(count):
        kind, edits = int(rng.integers(count // 12 + 1)), int(rng.integers(0, 9))
        text = family(kind * 100 + edits, edits, chinese=kind % 2 == 1)
        texts[f"d{number}"] = ["", "...", text.upper()][number % 3] if number % 17 == 0 else text
    return texts


def records(texts: Iterable[tuple[str, str]], dies_at: int | None = None) -> Iterator[Record]:
    for number, (id, text) in enumerate(texts):
        if number == dies_at:
            raise Killed
        yield Record("f", number, {"id": id, "text": text})


def stored(index: esdedup.Index, ids: Iterable[str]) -> Marks:
    names = ("group", "original", "similarity", "distance")
    return {
        document.id: {name: document.tokens[name] for name in names if name in document.tokens}
        for document in index.store.get(list(ids))
    }


def take(
    index: esdedup.Index,
    texts: Iterable[tuple[str, str]],
    policy: DuplicatePolicy,
    dies_at: int | None = None,
) -> ingest.IngestReport:
    letters: list[BadRecord] = []
    index.create()
    report = ingest.ingest(
        index.store,
        lambda: index.meta,
        chunked(records(texts, dies_at)),
        letters.append,
        on_duplicate=policy,
    )
    index.store.refresh()
    assert not letters
    return report


@pytest.mark.on_every_server
@pytest.mark.parametrize("policy", [JACCARD, HAMMING], ids=["jaccard", "hamming"])
def test_groups_are_those_of_the_rule(
    index: esdedup.Index, place: Place, policy: DuplicatePolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = corpus(300)
    expected = by_brute_force(texts, policy)
    assert sum("original" in mark for mark in expected.values()) > 30
    monkeypatch.setattr("esdedup.records.files.BATCH_DOCUMENTS", 70)
    with pytest.raises(Killed):
        take(index, texts.items(), policy, dies_at=190)
    report = take(index, texts.items(), policy)
    assert stored(index, texts) == expected
    assert (report.created, report.unchanged) == (160, 140)
    assert report.duplicates == sum("original" in mark for mark in expected.values())
    # All again changes nothing, also in one batch of another client.
    monkeypatch.setattr("esdedup.records.files.BATCH_DOCUMENTS", 1_000)
    with esdedup.open(place.target, place.index) as another:
        again = take(another, texts.items(), policy)
    assert (again.unchanged, again.exact) == (300, 0)
    assert stored(index, texts) == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    runs=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), max_size=4),
    by_hamming=st.booleans(),
)
def test_neither_batches_nor_kills_change_a_group(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    runs: list[tuple[int, int]],
    by_hamming: bool,
) -> None:
    policy = HAMMING if by_hamming else JACCARD
    texts = corpus(60, seed)
    with esdedup.open(tmp_path / f"{uuid.uuid4().hex}.db") as index:
        for batch, dies_at in [*runs, (25, 60)]:
            monkeypatch.setattr("esdedup.records.files.BATCH_DOCUMENTS", batch)
            if dies_at < 60:
                with pytest.raises(Killed):
                    take(index, texts.items(), policy, dies_at)
            else:
                take(index, texts.items(), policy)
        assert stored(index, texts) == by_brute_force(texts, policy)


def test_a_batch_that_was_written_in_part(tmp_path: Path) -> None:
    """As a cluster can leave it: followers of a batch, and no leader or only some."""
    texts = corpus(120)
    expected = by_brute_force(texts, JACCARD)
    followers = [id for id, mark in expected.items() if "original" in mark]
    leaders = [id for id in texts if id not in followers]
    rng = np.random.default_rng(3)
    for kept in (
        followers[::2],
        followers,
        [*followers, *leaders[::2]],
        [*followers, *leaders[1::3]],
    ):
        with esdedup.open(tmp_path / f"{rng.integers(10**9)}.db") as index:
            take(index, texts.items(), JACCARD)
            index.delete([id for id in texts if id not in kept])
            take(index, texts.items(), JACCARD)
            assert stored(index, texts) == expected


def test_a_giant_group_leaves_room_for_other_leaders(index: esdedup.Index) -> None:
    """Followers share as many tokens with what comes as its leader does, and are many more."""
    policy = DuplicatePolicy("group", 0.5, candidates=5)
    giant = {f"g{n}": family(100 + n, min(n, 3)) for n in range(60)}
    assert take(index, giant.items(), policy).duplicates == 59
    report = take(index, {"late": family(190, 3)}.items(), policy)
    assert (report.duplicates, report.truncated) == (1, 0)
    assert stored(index, ["late"])["late"]["original"] == "g0"


OLD, NEAR, FAR = family(100, 0), family(101, 1), family(500, 0, chinese=True)
LEADERS: dict[str, tuple[dict[str, str], str, dict[str, str], dict[str, str]]] = {
    # It follows what it is like now; those that followed it keep their group, in which equal texts
    # still come. What is only like them finds no leader any more.
    "gets another text": (
        {"a": OLD, "b": OLD, "other": FAR},
        "",
        {"a": FAR, "c": OLD, "d": NEAR, "e": FAR},
        {"a": "other", "b": "a", "c": "a", "d": "d", "e": "other"},
    ),
    "gets the text of its follower": ({"a": OLD, "b": NEAR}, "", {"a": NEAR}, {"a": "a"}),
    "is deleted": (
        {"a": OLD, "b": NEAR},
        "a",
        {"b": NEAR, "c": family(102, 2), "d": NEAR},
        {"b": "a", "c": "c", "d": "a"},
    ),
}


@pytest.mark.parametrize("what", LEADERS)
def test_a_leader(index: esdedup.Index, what: str) -> None:
    before, gone, after, groups = LEADERS[what]
    take(index, before.items(), JACCARD)
    index.delete([*gone])
    take(index, after.items(), JACCARD)
    marks = stored(index, groups)
    assert {id: marks[id]["group"] for id in groups} == groups
    assert all(("original" in marks[id]) == (groups[id] != id) for id in groups)


def test_a_digest_of_a_text_that_others_changed_is_not_believed(
    index: esdedup.Index, place: Place
) -> None:
    take(index, [("a", family(100, 0))], JACCARD)
    changed = {"text": family(300, 0)}
    if isinstance(place.target, Path):
        update(index.store, [esdedup.Document("a", changed)])
    else:
        place.call("POST", "/_update/a", {"doc": changed})
    index.store.refresh()
    report = take(index, [("b", family(100, 0))], DuplicatePolicy("skip"))
    assert (report.created, report.exact) == (1, 0)
