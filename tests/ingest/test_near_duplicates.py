"""Near-duplicates found as documents come in, in every store, against all pairs by brute force."""

import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import esdedup
from esdedup import DuplicatePolicy
from esdedup.ingest.ingest import ingest
from esdedup.records.files import BadRecord, Record, chunked
from esdedup.sketch.sketch import shingle_sets
from esdedup.text.jaccard import jaccard
from tests.helpers.arrivals import by_brute_force, family
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.places import Place, clusters

SCHEME = esdedup.Scheme()


def corpus(count: int) -> dict[str, str]:
    """Families of five: an original, two that are much like it, and two that are little like it."""
    edits = (0, 1, 1, 9, 12)
    return {f"d{n}": family(n // 5 * 100 + n % 5, edits[n % 5]) for n in range(count)}


def duplicates(texts: dict[str, str]) -> set[str]:
    """By brute force: the documents that are no leaders."""
    marks = by_brute_force(texts, DuplicatePolicy("group"))
    return {id for id, mark in marks.items() if "original" in mark}


def add(index: esdedup.Index, texts: dict[str, str], policy: DuplicatePolicy) -> Any:
    documents = [{"id": id, "text": text} for id, text in texts.items()]
    return index.add(documents, on_duplicate=policy)


def stored(index: esdedup.Index, ids: Any) -> dict[str, Any]:
    return {document.id: document.tokens for document in index.store.get(list(ids))}


@pytest.mark.parametrize("batches", [1, 7])
def test_skipped(index: esdedup.Index, batches: int) -> None:
    texts = corpus(200)
    expected = duplicates(texts)
    assert len(expected) > 50
    items = list(texts.items())
    size = -(-len(items) // batches)
    skipped = 0
    for first in range(0, len(items), size):
        report = add(index, dict(items[first : first + size]), DuplicatePolicy("skip"))
        skipped += report.skipped
        assert report.read == report.created + report.skipped
        assert report.duplicates == report.skipped
    assert skipped == len(expected)
    assert set(stored(index, texts)) == texts.keys() - expected
    # The same again changes nothing.
    again = add(index, texts, DuplicatePolicy("skip"))
    assert (again.unchanged, again.skipped) == (len(texts) - len(expected), len(expected))
    assert set(stored(index, texts)) == texts.keys() - expected


@pytest.mark.on_every_server
def test_marked(index: esdedup.Index) -> None:
    texts = corpus(200)
    report = add(index, texts, DuplicatePolicy("mark"))
    assert report.created == 200
    tokens = stored(index, texts)
    sets = shingle_sets(list(texts.values()), SCHEME)
    ids = list(texts)
    for id, ours in tokens.items():
        if "original" in ours:
            pair = (ids.index(ours["original"]), ids.index(id))
            exact = jaccard(sets, np.array(pair[:1]), np.array(pair[1:]))[0]
            assert ours["similarity"] == exact >= 0.8
            assert pair[0] < pair[1]
            assert ours["group"] == tokens[ours["original"]]["group"]
        else:
            assert ours["group"] == id
    assert sum("original" in ours for ours in tokens.values()) == report.duplicates
    # Whatever is like something before it is marked.
    assert {id for id, ours in tokens.items() if "original" in ours} >= duplicates(texts)
    again = add(index, texts, DuplicatePolicy("mark"))
    assert again.unchanged == 200
    assert {id: ours.get("group") for id, ours in stored(index, texts).items()} == {
        id: ours.get("group") for id, ours in tokens.items()
    }


@clusters
@pytest.mark.parametrize("action", ["skip", "mark", "group"])
def test_a_duplicate_of_what_was_refused_is_not_lost(
    index: esdedup.Index, place: Place, action: Any
) -> None:
    place.call("PUT", "/_mapping", {"properties": {"day": {"type": "date"}}})
    text = words(1)
    given = [
        {"id": "refused", "text": text, "day": "no day"},
        {"id": "copy", "text": text},
        {"id": "second", "text": text},
    ]
    letters: list[BadRecord] = []
    records = (Record("f", n, source) for n, source in enumerate(given, 1))
    policy = DuplicatePolicy(action)
    report = ingest(
        index.store, lambda: index.meta, chunked(records), letters.append, on_duplicate=policy
    )
    assert report.failed == len(letters) == 1
    assert report.read == report.created + report.updated + report.skipped + report.failed
    index.store.refresh()
    found = stored(index, ["refused", "copy", "second"])
    assert found.keys() == ({"copy"} if action == "skip" else {"copy", "second"})
    assert "original" not in found["copy"]
    assert action == "skip" or found["second"]["original"] == "copy"


def test_a_document_is_no_duplicate_of_its_former_self(index: esdedup.Index) -> None:
    add(index, {"a": words(1), "b": words(2)}, DuplicatePolicy("mark"))
    # `a` gets another text, and only then does `c` come with its old one.
    add(index, {"a": words(3), "c": words(1), "d": words(3)}, DuplicatePolicy("mark"))
    tokens = stored(index, "abcd")
    assert "original" not in tokens["c"]
    assert tokens["d"]["original"] == "a"
    # The same in one batch.
    documents = [{"id": id, "text": words(n)} for id, n in (("e", 4), ("e", 5), ("f", 4), ("g", 4))]
    assert index.add(documents, on_duplicate=DuplicatePolicy("skip")).skipped == 1
    assert set(stored(index, "efg")) == {"e", "f"}
    # What the batch replaces is no original of what comes before.
    documents = [{"id": id, "text": words(n)} for id, n in (("h", 6), ("i", 6), ("h", 7))]
    assert index.add(documents, on_duplicate=DuplicatePolicy("skip")).skipped == 0
    add(index, {"j": words(6), "i": words(8)}, DuplicatePolicy("skip"))
    texts = {each.id: each.source["text"] for each in index.store.get(list("hij"))}
    assert texts == {"h": words(7), "i": words(8), "j": words(6)}


def test_no_two_documents_are_each_others_original(index: esdedup.Index) -> None:
    pair = {"a": words(1), "b": words(1)}
    index.add([{"id": id, "text": text} for id, text in pair.items()])
    for order in ("ab", "ba", "ab"):
        add(index, {id: pair[id] for id in order}, DuplicatePolicy("mark"))
        tokens = stored(index, "ab")
        assert len({ours["group"] for ours in tokens.values()}) == 1
        assert sum("original" in ours for ours in tokens.values()) == 1


def test_texts_without_words_are_like_equal_ones(index: esdedup.Index) -> None:
    texts = {"a": "", "b": "", "c": "...", "d": "——", "e": "...", "f": "！！"}
    report = add(index, texts, DuplicatePolicy("skip"))
    assert (report.created, report.duplicates) == (5, 1)
    report = add(index, {"g": "", "h": "——", "i": "!!"}, DuplicatePolicy("skip"))
    assert (report.created, report.duplicates) == (1, 2)
    for options in ({}, {"sketch": "simhash"}, {"threshold": None}):
        found = index.similar(text="！！", **options)
        assert [match.id for match in found.matches] == ["f"]
        assert (found.matches[0].similarity or 1.0, found.matches[0].distance or 0) == (1.0, 0)
        assert index.similar(text="", **options).matches == []


@pytest.mark.parametrize("action", ["skip", "mark", "group"])
def test_a_template_of_thousands(tmp_path: Path, action: Any) -> None:
    """Each is compared with some of the others only, which is reported."""
    texts = {f"d{n}": f"{words(1)} {n} {words(2)}" for n in range(3_000)}
    with esdedup.open(tmp_path / "a.db") as index:
        began = time.process_time()
        report = add(index, texts, DuplicatePolicy(action, candidates=10))
        assert time.process_time() - began < 60
    assert report.duplicates == 2_999
    assert report.truncated == (2_989 if action == "mark" else 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    records=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=16),
    before=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=4),
    action=st.sampled_from(["skip", "mark", "group"]),
)
def test_ids_that_come_again_lose_no_text(
    tmp_path: Path, records: list[tuple[int, int]], before: list[tuple[int, int]], action: Any
) -> None:
    """In one batch, each text stays that no stored document is similar to."""
    texts = [family(kind % 2 * 100 + kind // 2, kind // 2) for kind in range(10)]
    sets = shingle_sets(texts, SCHEME)
    with esdedup.open(tmp_path / f"{uuid.uuid4().hex}.db") as index:
        index.add([{"id": f"d{id}", "text": texts[kind]} for id, kind in before])
        index.add(
            [{"id": f"d{id}", "text": texts[kind]} for id, kind in records], on_duplicate=action
        )
        found = {each.id: each for each in index.store.hold([f"d{n}" for n in range(7)])}
    kinds = {id: texts.index(each.document.source["text"]) for id, each in found.items()}

    def similarity(one: int, other: int) -> float:
        pair = np.array([one]), np.array([other])
        return 1.0 if one == other else float(jaccard(sets, *pair)[0])

    for id, kind in {f"d{id}": kind for id, kind in records}.items():
        if action == "skip":
            assert any(similarity(kind, each) >= 0.8 for each in kinds.values())
        else:
            ours = found[id].document.tokens
            assert kinds[id] == kind
            if "original" in ours:
                assert similarity(kind, kinds[ours["original"]]) == ours["similarity"]


@pytest.mark.parametrize("place", ["elasticsearch"], indirect=True)
def test_the_command(place: Place, target: list[str]) -> None:
    texts = corpus(10)
    write_lines(Path("some.jsonl"), [{"id": id, "text": text} for id, text in texts.items()])
    found = len(duplicates(texts))
    arguments = ("index", "some.jsonl", "--json", *target, "--on-duplicate")
    ran = run_command(*arguments, "skip")
    assert (ran.status, ran.json[0]["skipped"]) == (0, found)
    ran = run_command(*arguments, "fail")
    assert (ran.status, ran.json[0]["failed"]) == (1, found)
    assert "it is like 'd0'" in ran.err
    ran = run_command(*arguments, "mark", "--threshold", "0.3")
    assert ran.json[0]["duplicates"] > found
    place.call("POST", "/_refresh")
    body = {"collapse": {"field": "esdedup.group"}, "size": 20}
    hits = place.call("POST", "/_search", body)["hits"]["hits"]
    groups = [hit["_source"]["esdedup"]["group"] for hit in hits]
    assert len(groups) == len(set(groups)) < 10
    assert run_command(*arguments, "drop").status == 2


def test_an_index_without_the_sketch_is_told_before_anything_is_written(place: Place) -> None:
    with esdedup.open(
        place.target, place.index, scheme=esdedup.Scheme([esdedup.SimHash()])
    ) as index:
        with pytest.raises(esdedup.UsageError, match="no sketch 'minhash': use simhash"):
            add(index, {"": "", "a": "one two three"}, DuplicatePolicy("skip", sketch="minhash"))
        assert index.statistics().documents == 0
        assert add(index, {"a": "one two three"}, DuplicatePolicy("keep")).created == 1
