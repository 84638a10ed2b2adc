"""Two sets are compared with each other, and not within: the results are those of brute force."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import UsageError
from esdedup.results import SimilarPairs
from tests.helpers.commands import read_lines, run_command, write_lines
from tests.helpers.indices import open_index
from tests.helpers.scoped_documents import corpus, similarities

THRESHOLD = 0.6
NEW = [{**document, "date": "2026-01-01"} for document in corpus(160, seed=3)]
"""A third of the documents has a copy, and some have no words."""
OLD = NEW[:60]
NEW = [*NEW[60:], *({**NEW[row], "id": f"copy {row}"} for row in (60, 61, 3, 4))]
Documents = Sequence[Mapping[str, Any]]


def near(old: Documents, new: Documents) -> set[int]:
    """Return the new documents that are similar to an old one."""
    similar = similarities([*old, *new])
    return {
        right - len(old)
        for (left, right), value in similar.items()
        if left < len(old) <= right and value >= THRESHOLD
    }


@pytest.mark.parametrize("method", ["leader", "components"])
def test_only_what_is_near_the_other_set_is_removed(method: Any) -> None:
    expected = near(OLD, NEW)
    result = esdedup.dedup(NEW, against=OLD, only_between=True, threshold=THRESHOLD, method=method)
    assert {duplicate.row for duplicate in result.duplicates} == expected
    assert 20 < len(expected) < len(NEW) - 20
    assert all(duplicate.in_against for duplicate in result.duplicates)
    within = esdedup.dedup(NEW, against=OLD, threshold=THRESHOLD, method=method)
    assert {duplicate.row for duplicate in within.duplicates} > expected
    higher = esdedup.dedup(NEW, against=OLD, only_between=True, threshold=0.9, method=method)
    assert result.rethreshold(0.9).duplicates == higher.duplicates
    # The same by files.
    write_lines(Path("old.jsonl"), OLD)
    write_lines(Path("new.jsonl"), NEW)
    options = ["-t", str(THRESHOLD), "--method", method, "--against", "old.jsonl"]
    run = run_command(
        "clean", "new.jsonl", *options, "--only-between", "-o", "out", "--json", status=0
    )
    assert run.json[0]["removed"] == run.json[0]["against"] == len(expected)
    texts = [json.loads(line)["id"] for line in Path("out/new.jsonl").read_text().splitlines()]
    assert texts == [NEW[row]["id"] for row in range(len(NEW)) if row not in expected]


def test_of_nothing_to_compare_with_nothing_is_removed() -> None:
    assert not esdedup.dedup(NEW, against=[], only_between=True).duplicates
    Path("old.jsonl").touch()
    write_lines(Path("new.jsonl"), NEW)
    report = esdedup.clean("new.jsonl", None, against="old.jsonl", only_between=True)
    assert report.removed == 0


def test_equal_texts_alone_are_removed_by_their_texts() -> None:
    texts = ["one two three", "one two three", "four five six"]
    result = esdedup.dedup(texts, against=["four five six"], only_between=True, exact=True)
    assert [duplicate.row for duplicate in result.duplicates] == [2]


def test_an_update_adds_what_stays() -> None:
    write_lines(Path("old.jsonl"), OLD)
    write_lines(Path("new.jsonl"), NEW)
    esdedup.clean("old.jsonl", "kept", against="all.sketches", update=True)
    options = ["--against", "all.sketches", "--update", "--only-between", "--json"]
    run_command("clean", "new.jsonl", *options, "-o", "out", status=0)
    report = esdedup.clean("new.jsonl", "again", against="all.sketches", only_between=True)
    assert report.removed == len(NEW) == report.against


def pairs_between(old: Documents, new: Documents) -> set[tuple[int, int]]:
    """Return the pairs of a new document and an old one, as they are to be listed."""
    texts = [document["text"] for document in (*old, *new)]
    similar = {**similarities([*old, *new])}
    listed = set[tuple[int, int]]()
    for left, right in similar:
        if not left < len(old) <= right:
            continue
        is_first_old = texts.index(texts[left]) == left
        is_first_new = texts.index(texts[right], len(old)) == right
        if is_first_old or is_first_new:
            listed.add((right - len(old), left))
    return listed


def of_pairs(pairs: SimilarPairs) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the pairs within the records, and those between these and `against`."""
    listed = [(int(pair.left), int(pair.right), pair.in_against) for pair in pairs]
    within = {(left, right) for left, right, in_against in listed if not in_against}
    between = {(left, right) for left, right, in_against in listed if in_against}
    assert len(within) + len(between) == len(pairs)
    return within, between


def test_pairs_of_two_sets_are_those_of_brute_force() -> None:
    expected = pairs_between(OLD, NEW)
    assert len(expected) > 100
    pairs = esdedup.pairs(NEW, against=OLD, only_between=True, threshold=THRESHOLD)
    assert of_pairs(pairs) == (set(), expected)
    for pair in pairs:
        assert pair.equal == (NEW[int(pair.left)]["text"] == OLD[int(pair.right)]["text"])
    both = esdedup.pairs(NEW, against=OLD, threshold=THRESHOLD)
    alone = esdedup.pairs(NEW, threshold=THRESHOLD)
    assert of_pairs(both) == (of_pairs(alone)[0], expected)
    assert both.copies == alone.copies
    assert of_pairs(esdedup.pairs(NEW, against=[], threshold=THRESHOLD)) == of_pairs(alone)
    assert not len(esdedup.pairs(NEW, against=[], only_between=True, threshold=THRESHOLD))
    assert not len(esdedup.pairs([], against=OLD, threshold=THRESHOLD))


@pytest.mark.parametrize(
    "settings",
    [
        {"scheme": esdedup.Scheme([esdedup.SimHash()]), "distance": 12},
        {"scheme": esdedup.Scheme([esdedup.Passages()]), "cover": 0.5, "words": 8},
        {"threshold": THRESHOLD, "within": "date:3d"},
    ],
    ids=["simhash", "passages", "window"],
)
@pytest.mark.filterwarnings("ignore:.* lack a time in 'date'")
def test_by_any_measure_they_are_the_pairs_of_one_set_that_are_of_both(settings: Any) -> None:
    # Each text once: of equal ones, one set lists only the first.
    documents = [*{document["text"]: document for document in corpus(400, seed=4)}.values()]
    joined = [{**document, "id": f"{row}"} for row, document in enumerate(documents)]
    first = len(joined) // 3
    between = esdedup.pairs(
        joined[first:], against=joined[:first], id="id", only_between=True, **settings
    )
    listed = {
        (pair.right, pair.left): (pair.value, pair.of_right, pair.of_left) for pair in between
    }
    assert len(listed) > 5
    assert listed == {
        (pair.left, pair.right): (pair.value, pair.of_left, pair.of_right)
        for pair in esdedup.pairs(joined, id="id", **settings)
        if int(pair.left) < first <= int(pair.right)
    }


def row_in(file: str, id: str) -> int:
    """Return the row of a document by its id, which names the file if both files have it."""
    return int(id.removeprefix(f"{file}/"))


def test_pairs_of_files_have_the_ids_of_both_sets(folder: Path) -> None:
    # Ids repeat in both, and in one: the last of each set stays.
    new = [{"id": str(row), "text": document["text"]} for row, document in enumerate(NEW)]
    old = [{"id": str(row), "text": document["text"]} for row, document in enumerate(OLD)]
    write_lines(Path("new.jsonl"), [{"id": "0", "text": "replaced"}, *new])
    write_lines(Path("old.jsonl"), [{"id": "1", "text": "replaced"}, *old])
    options = ["pairs", "new.jsonl", "--against", "old.jsonl", "-t", str(THRESHOLD)]
    run = run_command(*options, "--only-between", "--json", status=0)
    assert "2 records have the id of an earlier record, and replaced it: first '1'" in run.err
    listed = {
        (row_in("new.jsonl", line["left"]), row_in("old.jsonl", line["right"])) for line in run.json
    }
    assert listed == pairs_between(OLD, NEW)
    assert all(line["in_against"] for line in run.json)
    table = run_command(*options, "--only-between", "--table", "-k", "1").out
    assert NEW[row_in("new.jsonl", run.json[0]["left"])]["text"][:20] in table
    assert OLD[row_in("old.jsonl", run.json[0]["right"])]["text"][:20] in table
    both = run_command(*options, "-o", "pairs.jsonl", "--json")
    lines = read_lines("pairs.jsonl")
    assert both.json[0]["pairs"] == len(lines)
    assert {
        (row_in("new.jsonl", line["left"]), row_in("old.jsonl", line["right"]))
        for line in lines
        if line["in_against"]
    } == listed
    alone = run_command("pairs", "new.jsonl", "-t", str(THRESHOLD), "--json").json
    assert [
        (row_in("new.jsonl", line["left"]), row_in("new.jsonl", line["right"]))
        for line in lines
        if not line["in_against"]
    ] == [(int(line["left"]), int(line["right"])) for line in alone]


def test_fields_are_shown_beside_pairs(folder: Path) -> None:
    text = "some words that two records have"
    records: list[dict[str, object]] = [
        {"id": "1", "text": text, "label": "pos", "by": {"name": "A"}},
        {"id": "2", "text": text, "label": ["neg", 1]},
    ]
    write_lines(Path("in.jsonl"), records)
    fields = ["--source", "label", "--source", "by.name"]
    sources = [{"label": "pos", "by.name": "A"}, {"label": ["neg", 1], "by.name": None}]
    run = run_command("pairs", "in.jsonl", *fields, "--json")
    assert [run.json[0]["left_source"], run.json[0]["right_source"]] == sources
    table = run_command("pairs", "in.jsonl", *fields, "--table").out
    for cell in ("label", "by.name", "│ pos ", "│ A "):
        assert cell in table
    (pair,) = esdedup.pairs(records, id="id", source=["label", "by.name"])
    assert [pair.left_source, pair.right_source] == sources
    with open_index("in.db", records) as index:
        (pair,) = index.pairs(source=["label", "by.name"])
        assert [pair.left_source, pair.right_source] == sources
    of_index = run_command("pairs", "--db", "in.db", *fields, "--json")
    assert of_index.json[0]["right_source"] == sources[1]
    pairs = esdedup.pairs(records, source="label")
    assert next(pairs.table_rows())[-2:] == ('{"label": "pos"}', '{"label": ["neg", 1]}')
    assert pairs.to_arrow().column_names[-3:] == ["in_against", "left_source", "right_source"]
    assert "left_source" not in esdedup.pairs(records).columns
    missing = run_command("pairs", "in.jsonl", "--source", "lable", status=2)
    assert "no document has a value of the field 'lable'" in missing.err


def test_pairs_of_two_sets_require_the_other_set() -> None:
    with pytest.raises(UsageError, match="`only_between` requires `against`"):
        esdedup.pairs(NEW, only_between=True)


def test_it_requires_what_to_compare_with() -> None:
    write_lines(Path("new.jsonl"), NEW)
    with pytest.raises(UsageError, match="`only_between` requires `against`"):
        esdedup.dedup(NEW, only_between=True)
    with pytest.raises(UsageError, match="`only_between` requires `against`"):
        esdedup.clean("new.jsonl", None, only_between=True)
    with pytest.raises(UsageError, match="can't be combined with `contained`"):
        esdedup.dedup(NEW, against=OLD, only_between=True, contained=0.8)
    with pytest.raises(UsageError, match="can't be combined with `unit`"):
        esdedup.clean("new.jsonl", None, unit="line", only_between=True)
