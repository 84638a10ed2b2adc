"""Near-duplicates found as documents come in, in every store, against one by one by brute force."""

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import esdedup
from esdedup import DuplicatePolicy
from esdedup.ingest.ingest import IngestReport, IngestSettings, ingest
from esdedup.records.files import BadRecord, ReadSizes, Record, chunks_of_records
from esdedup.stores.changes import update
from tests.helpers.arrivals import Marks, Texts, by_brute_force, family
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place, clusters

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


def duplicates(texts: Texts, policy: DuplicatePolicy) -> set[str]:
    """By brute force: the documents that are no leaders."""
    return {id for id, mark in by_brute_force(texts, policy).items() if "original" in mark}


def stored(index: esdedup.Index, ids: Iterable[str]) -> Marks:
    names = ("group", "original", "similarity", "distance")
    return {
        document.id: {name: document.tokens[name] for name in names if name in document.tokens}
        for document in index.store.get(list(ids))
    }


def add(
    index: esdedup.Index,
    texts: Texts,
    policy: DuplicatePolicy,
    dies_at: int | None = None,
    batch: int = 2_000,
) -> Any:
    """Write texts in batches of some documents, up to the one that the process dies at."""

    def records() -> Iterator[Record]:
        for number, (id, text) in enumerate(texts.items()):
            if number == dies_at:
                raise Killed
            yield Record("texts", number + 1, {"id": id, "text": text})

    def refuse(record: BadRecord) -> None:
        raise AssertionError(record)

    index.create()
    chunks = chunks_of_records(records(), ReadSizes(documents=batch))
    report = index.ingest(chunks, refuse, IngestSettings(on_duplicate=policy))
    index.store.refresh()
    return report


@pytest.mark.on_every_server
@pytest.mark.parametrize("policy", [JACCARD, HAMMING], ids=["jaccard", "hamming"])
def test_groups_are_those_of_the_rule(
    index: esdedup.Index, place: Place, policy: DuplicatePolicy
) -> None:
    texts = corpus(300)
    expected = by_brute_force(texts, policy)
    found = duplicates(texts, policy)
    assert len(found) > 30
    report = add(index, texts, policy, batch=70)
    assert stored(index, texts) == expected
    assert (report.created, report.duplicates) == (300, len(found))
    # All again changes nothing, also in one batch of another client.
    with esdedup.open(place.target, place.index) as another:
        again = add(another, texts, policy, batch=1_000)
    assert (again.unchanged, again.exact) == (300, 0)
    assert stored(index, texts) == expected


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    runs=st.lists(st.tuples(st.integers(1, 60), st.integers(0, 60)), max_size=4),
    policy=st.sampled_from([JACCARD, HAMMING]),
)
def test_neither_batches_nor_kills_change_a_group(
    tmp_path: Path,
    seed: int,
    runs: list[tuple[int, int]],
    policy: DuplicatePolicy,
) -> None:
    texts = corpus(60, seed)
    with esdedup.open(tmp_path / f"{uuid.uuid4().hex}.db") as index:
        for batch, dies_at in [*runs, (25, 60)]:
            if dies_at < 60:
                with pytest.raises(Killed):
                    add(index, texts, policy, dies_at, batch)
            else:
                add(index, texts, policy, batch=batch)
        assert stored(index, texts) == by_brute_force(texts, policy)


@pytest.mark.parametrize("kept", [slice(0, 0), slice(0, None, 2), slice(1, None, 3)])
def test_a_batch_that_was_written_in_part(index: esdedup.Index, kept: slice) -> None:
    """As a cluster can leave it: followers of a batch, and no leader or only some."""
    texts = corpus(120)
    expected = by_brute_force(texts, JACCARD)
    leaders = [id for id, mark in expected.items() if "original" not in mark]
    add(index, texts, JACCARD)
    index.delete([id for id in leaders if id not in leaders[kept]])
    add(index, texts, JACCARD)
    assert stored(index, texts) == expected


@pytest.mark.on_every_server
def test_marked(index: esdedup.Index) -> None:
    texts = corpus(200)
    policy = DuplicatePolicy("mark", 0.6)
    report = add(index, texts, policy)
    tokens, ids = stored(index, texts), list(texts)
    found = {id for id, ours in tokens.items() if "original" in ours}
    assert all(tokens[id].get("group", id) == id for id in texts.keys() - found)
    for id in found:
        ours, original = tokens[id], tokens[id]["original"]
        is_equal = texts[id] == texts[original]
        assert ours["similarity"] == (is_equal or esdedup.similarity(texts[id], texts[original]))
        assert ours["similarity"] >= 0.6
        assert ids.index(original) < ids.index(id)
        assert ours["group"] == tokens[original]["group"]
    # Whatever is like something before it is marked.
    assert found >= duplicates(texts, policy)
    assert (report.created, report.duplicates) == (200, len(found))
    assert add(index, texts, policy).unchanged == 200
    assert stored(index, texts) == tokens


@clusters
@pytest.mark.parametrize("action", ["skip", "mark", "group"])
def test_a_duplicate_of_what_was_refused_is_not_lost(
    index: esdedup.Index, place: Place, action: Any
) -> None:
    place.call("PUT", "/_mapping", {"properties": {"day": {"type": "date"}}})
    ids = ["refused", "copy", "second"]
    given: list[dict[str, str]] = [{"id": id, "text": words(1)} for id in ids]
    given[0]["day"] = "no day"
    letters: list[BadRecord] = []
    records = (Record("f", n, source) for n, source in enumerate(given, 1))
    policy = DuplicatePolicy(action)
    settings = IngestSettings(on_duplicate=policy)
    report = ingest(
        index.store, lambda: index.meta, chunks_of_records(records), letters.append, settings
    )
    assert report.failed == len(letters) == 1
    assert report.read == report.created + report.updated + report.skipped + report.failed
    index.store.refresh()
    found = stored(index, ids)
    assert found.keys() == ({"copy"} if action == "skip" else {"copy", "second"})
    assert "original" not in found["copy"]
    assert action == "skip" or found["second"]["original"] == "copy"


def test_a_document_is_no_duplicate_of_its_former_self(index: esdedup.Index) -> None:
    mark = DuplicatePolicy("mark")
    add(index, {"a": words(1), "b": words(2)}, mark)
    # `a` gets another text, and only then does `c` come with its old one.
    add(index, {"a": words(3), "c": words(1), "d": words(3)}, mark)
    tokens = stored(index, "cd")
    assert "original" not in tokens["c"]
    assert tokens["d"]["original"] == "a"
    # Documents are not compared with a text that their batch replaces.
    for batch, left in (("e4 e5 f4 g4", "ef"), ("h6 i6 h7", "hi"), ("j6 i8", "ij")):
        documents = [{"id": each[0], "text": words(int(each[1]))} for each in batch.split()]
        index.add(documents, on_duplicate="skip")
        assert stored(index, {each["id"]: "" for each in documents}).keys() == {*left}
    assert index.get("h").source["text"] == words(7)


def test_texts_without_words_are_like_equal_ones(index: esdedup.Index) -> None:
    for batch in ({"a": "", "d": "——", "f": "！！"}, {"g": "", "h": "——", "i": "!!"}):
        report = add(index, batch, DuplicatePolicy("skip"))
    assert (report.created, report.duplicates, report.skipped) == (1, 2, 2)
    for options in ({}, {"sketch": "simhash"}, {"threshold": None}):
        found = index.similar(text="！！", **options)
        assert [match.id for match in found.matches] == ["f"]
        assert (found.matches[0].similarity or 1.0, found.matches[0].distance or 0) == (1.0, 0)
        assert index.similar(text="", **options).matches == []


@pytest.mark.parametrize("action", ["skip", "mark", "group"])
def test_a_template_of_a_thousand(tmp_path: Path, action: Any) -> None:
    """Each is compared with some of the others only, which is reported."""
    texts = {f"d{n}": f"{words(1)} {n} {words(2)}" for n in range(1_000)}
    with esdedup.open(tmp_path / "a.db") as index:
        began = time.process_time()
        report = add(index, texts, DuplicatePolicy(action, candidates=10))
        assert time.process_time() - began < 20
    assert report.duplicates == 999
    assert report.truncated == (989 if action == "mark" else 0)


TEXTS_OF_KINDS = [family(kind % 2 * 100 + kind // 2, kind // 2) for kind in range(10)]
"""Texts of two families, each in five versions."""


def of_kinds(kinds: Sequence[tuple[int, int]]) -> list[dict[str, object]]:
    """Return documents by the number of each one's id, and that of its text."""
    return [{"id": f"d{id}", "text": TEXTS_OF_KINDS[kind]} for id, kind in kinds]


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
    with open_index(tmp_path / f"{uuid.uuid4().hex}.db", of_kinds(before)) as index:
        index.add(of_kinds(records), on_duplicate=action)
        found = {each.id: each.document for each in index.store.hold([f"d{n}" for n in range(7)])}
    now = {id: document.source["text"] for id, document in found.items()}
    for id, kind in {f"d{id}": kind for id, kind in records}.items():
        if action == "skip":
            assert any(
                esdedup.similarity(TEXTS_OF_KINDS[kind], each) >= 0.8 for each in now.values()
            )
        else:
            ours = found[id].tokens
            assert now[id] == TEXTS_OF_KINDS[kind]
            if "original" in ours:
                assert esdedup.similarity(now[id], now[ours["original"]]) == ours["similarity"]
                assert found[ours["original"]].tokens.get("original") != id


def add_again_and_again(
    index: esdedup.Index, documents: Sequence[dict[str, object]], policy: DuplicatePolicy, size: int
) -> IngestReport:
    """Write documents, whose ids may come again, in batches of some. Those that fail are left."""
    records = (Record("f", number, source) for number, source in enumerate(documents, 1))
    chunks = chunks_of_records(records, ReadSizes(documents=size))
    index.create()
    report = index.ingest(chunks, lambda record: None, IngestSettings(on_duplicate=policy))
    index.store.refresh()
    return report


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    records=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=16),
    before=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=4),
    size=st.integers(1, 5),
    action=st.sampled_from(["skip", "fail", "mark", "group"]),
)
def test_no_text_is_lost_in_a_later_batch_without_a_count(
    tmp_path: Path,
    records: list[tuple[int, int]],
    before: list[tuple[int, int]],
    size: int,
    action: Any,
) -> None:
    with open_index(tmp_path / f"{uuid.uuid4().hex}.db", of_kinds(before)) as index:
        report = add_again_and_again(index, of_kinds(records), DuplicatePolicy(action), size)
        stored_texts = [
            document.source["text"] for document in index.store.get([f"d{n}" for n in range(7)])
        ]
    lost = [
        kind
        for kind in dict(records).values()
        if all(esdedup.similarity(TEXTS_OF_KINDS[kind], each) < 0.8 for each in stored_texts)
    ]
    assert not lost or report.replaced_originals
    left_out = report.skipped + report.failed
    assert report.replaced_originals <= (report.updated if left_out else 0)


A, B, OTHER = family(100, 0), family(101, 1), family(500, 0)


@pytest.mark.parametrize("action", ["skip", "fail", "mark", "group"])
@pytest.mark.parametrize(
    ("rest", "replaced"),
    [
        ([{"id": "a", "text": OTHER}], 1),
        ([{"id": "a", "text": OTHER}, {"id": "a", "text": words(9)}], 1),
        ([{"id": "a", "text": OTHER}, {"id": "c", "text": OTHER}, {"id": "a", "text": A}], 2),
        # Equal once it is normalised.
        ([{"id": "a", "text": A.upper()}, {"id": "a", "text": A.upper(), "day": 1}], 0),
        ([{"id": "c", "text": OTHER}, {"id": "c", "text": words(9)}], 0),
    ],
)
def test_originals_that_are_replaced_are_counted(
    index: esdedup.Index, rest: list[dict[str, object]], replaced: int, action: Any
) -> None:
    documents: list[dict[str, object]] = [{"id": "a", "text": A}, {"id": "b", "text": B}, *rest]
    report = add_again_and_again(index, documents, DuplicatePolicy(action), 1)
    assert report.replaced_originals == (replaced if action in ("skip", "fail") else 0)


@pytest.mark.parametrize(("source", "replaced"), [("ap", 0), ("afp", 1)])
def test_an_original_that_moves_to_another_scope_is_counted(
    index: esdedup.Index, source: str, replaced: int
) -> None:
    documents: list[dict[str, object]] = [
        {"id": "a", "text": A, "source": "ap"},
        {"id": "b", "text": B, "source": "ap"},
        {"id": "a", "text": A, "source": source, "day": 1},
    ]
    policy = DuplicatePolicy("skip").limited_to("source")
    report = add_again_and_again(index, documents, policy, 1)
    assert (report.updated, report.replaced_originals) == (1, replaced)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_command_warns_of_originals_that_are_replaced(folder: Path, workers: str) -> None:
    others = [{"id": f"{n}", "text": f"{words(n)} {words(n + 10_000)}"} for n in range(6_000)]
    records = [{"id": "a", "text": A}, {"id": "b", "text": B}, *others, {"id": "a", "text": OTHER}]
    write_lines(folder / "feed.jsonl", records)
    command = ["index", "feed.jsonl", "--json", "--workers", workers]
    skipped = run_command(*command, "--on-duplicate", "skip", status=0)
    (counts,) = skipped.json
    assert (counts["created"], counts["updated"], counts["skipped"]) == (6_001, 1, 1)
    assert counts["replaced_originals"] == 1
    assert (
        "1 document was replaced by a later record of the same id, after near-duplicates of the"
        " former text were left out: the index may lack the texts of these. Give each record an id"
        " of its own, or use --on-duplicate mark, and index the records again"
    ) in skipped.err
    with open_index(folder / "esdedup.db") as index:
        assert not index.similar(text=B).matches
    # The same command again does the same. The advice helps.
    (counts,) = run_command(*command, "--on-duplicate", "skip", status=0).json
    assert counts["replaced_originals"] == 1
    marked = run_command(*command, "--on-duplicate", "mark", status=0)
    assert marked.json[0]["replaced_originals"] == 0
    assert "left out" not in marked.err
    with open_index(folder / "esdedup.db") as index:
        assert index.get("b").source["text"] == B
        index.delete(["b"])
    write_lines(folder / "feed.jsonl", [{**each, "id": f"r{n}"} for n, each in enumerate(records)])
    (counts,) = run_command(*command, "--on-duplicate", "skip", status=0).json
    assert counts["replaced_originals"] == 0
    with open_index(folder / "esdedup.db") as index:
        assert [match.id for match in index.similar(text=B).matches] == ["r0"]


def test_a_giant_group_leaves_room_for_other_leaders(index: esdedup.Index) -> None:
    """Followers share as many tokens with a new document as its leader does, and are many more."""
    policy = DuplicatePolicy("group", 0.5, candidates=5)
    giant = {f"g{n}": family(100 + n, min(n, 3)) for n in range(60)}
    assert add(index, giant, policy).duplicates == 59
    report = add(index, {"late": family(190, 3)}, policy)
    assert (report.duplicates, report.truncated) == (1, 0)
    assert stored(index, ["late"])["late"]["original"] == "g0"


OLD, NEAR, FAR = family(100, 0), family(101, 1), family(500, 0, chinese=True)
LEADERS: dict[str, tuple[Texts, str, Texts, dict[str, str]]] = {
    # It follows a leader of its new text. Its former followers keep their group, and equal texts
    # join it. Texts that are only similar to them find no leader any more.
    "gets another text": (
        {"a": OLD, "b": OLD, "other": FAR},
        "",
        {"a": FAR, "c": OLD, "d": NEAR, "e": FAR},
        {"a": "other", "b": "a", "c": "a", "d": "d", "e": "other"},
    ),
    "gets the text of its follower": ({"a": OLD, "b": NEAR}, "", {"a": NEAR}, {"a": "a"}),
    # Its copy that comes again keeps its mark, and no other document follows a hidden one.
    "is deleted": (
        {"a": OLD, "b": NEAR},
        "a",
        {"b": NEAR, "c": family(102, 2), "d": NEAR},
        {"b": "a", "c": "c", "d": "c"},
    ),
}


@pytest.mark.parametrize("what", LEADERS)
def test_a_leader(index: esdedup.Index, what: str) -> None:
    before, gone, after, groups = LEADERS[what]
    add(index, before, JACCARD)
    index.delete([*gone])
    add(index, after, JACCARD)
    marks = stored(index, groups)
    assert {id: marks[id]["group"] for id in groups} == groups
    assert all(("original" in marks[id]) == (groups[id] != id) for id in groups)


def test_a_digest_of_a_text_that_others_changed_is_not_believed(
    index: esdedup.Index, place: Place
) -> None:
    add(index, {"a": family(100, 0)}, JACCARD)
    changed = {"text": family(300, 0)}
    if isinstance(place.target, Path):
        update(index.store, [esdedup.Document("a", changed)])
    else:
        place.call("POST", "/_update/a", {"doc": changed})
    index.store.refresh()
    report = add(index, {"b": family(100, 0)}, DuplicatePolicy("skip"))
    assert (report.created, report.exact) == (1, 0)


@pytest.mark.parametrize(("action", "stays"), [("skip", 2), ("fail", 2), ("mark", 1)])
def test_a_record_that_is_left_out_replaces_none(folder: Path, action: str, stays: int) -> None:
    texts = [("1", words(1)), ("2", words(2)), ("2", words(1))]
    write_lines(folder / "a.jsonl", [{"id": id, "text": text} for id, text in texts])
    ran = run_command("index", "a.jsonl", "--on-duplicate", action)
    unless = ", unless it was left out as a near-duplicate" if action != "mark" else ""
    replaced = f"1 record has the id of an earlier record, and replaced it{unless}: first '2'"
    assert replaced in ran.err
    with open_index(folder / "esdedup.db") as index:
        assert index.get("2").source["text"] == words(stays)


def test_a_sketch_of_another_field_is_refused_before_there_is_an_index(folder: Path) -> None:
    write_lines(folder / "a.jsonl", [{"id": 1, "text": words(1), "h": "0123456789abcdef"}])
    command = ["index", "a.jsonl", "--bits", "h:64", "--text-field", "text"]
    options = ["--on-duplicate", "skip", "--sketch", "h"]
    expected = "sketch 'h' is not of the text: --on-duplicate compares by minhash or simhash only"
    ran = run_command(*command, *options, status=2)
    assert expected in ran.err
    assert not (folder / "esdedup.db").exists()
    run_command(*command, status=0)
    assert expected in run_command(*command, *options, status=2).err
    policy = DuplicatePolicy("skip", sketch="h")
    with esdedup.open("esdedup.db") as index, pytest.raises(esdedup.UsageError, match="is not of"):
        index.add([{"text": words(1), "h": "0123456789abcdef"}], on_duplicate=policy)


def test_an_index_without_the_sketch_is_told_before_anything_is_written(place: Place) -> None:
    with esdedup.open(
        place.target, place.index, scheme=esdedup.Scheme([esdedup.SimHash()])
    ) as index:
        with pytest.raises(esdedup.UsageError, match="no sketch 'minhash': use simhash"):
            add(index, {"": "", "a": "one two three"}, DuplicatePolicy("skip", sketch="minhash"))
        assert index.statistics().documents == 0
