"""Documents are duplicates only within a scope: equal values of fields, and times that are near.

The results are those of brute force, in all that finds pairs and groups.
"""

import itertools
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import SimHash, UsageError
from esdedup.results import Groups, SimilarPairs
from esdedup.sketch.within import Within
from tests.helpers.commands import run_command, write_lines
from tests.helpers.places import Place

THRESHOLD = 0.6
DAYS = 3
SCOPES = [("source",), (f"date:{DAYS}d",), ("source", f"date:{DAYS}d"), ("date:3d", "seen:1d")]
TEXT = "the council of the town agreed that the old bridge will be repaired before the winter"
Documents = Sequence[Mapping[str, Any]]


def corpus(number: int, seed: int = 1) -> list[dict[str, Any]]:
    """Documents near some texts, with sources of several types, times, and values that lack."""
    chance = random.Random(seed)
    words = [f"w{word}" for word in range(200)]
    texts = [chance.choices(words, k=20) for _ in range(number // 20)]
    start = datetime(2026, 1, 1)
    documents = []
    for id in range(number):
        text = [*chance.choice(texts)]
        for _ in range(chance.choice([0, 0, 1, 2])):
            text[chance.randrange(20)] = chance.choice(words)
        date = start + timedelta(hours=chance.randrange(24 * 15))
        document = {
            "id": str(id),
            "text": "!!!" if chance.random() < 0.05 else " ".join(text),
            "source": chance.choice(["a", "b", 1, "1", ["b", "a"], ["a", "b"], None]),
            "date": date.isoformat() if chance.random() < 0.95 else "soon",
            "seen": (date + timedelta(hours=chance.randrange(72))).isoformat(),
        }
        documents.append(document)
    return documents


def value_of(source: object) -> object:
    return sorted(source) if isinstance(source, list) else str(source)


def in_scope(left: Mapping[str, Any], right: Mapping[str, Any], within: Sequence[str]) -> bool:
    for scope in within:
        field, _, length = scope.partition(":")
        values = left[field], right[field]
        if None in values or "soon" in values:
            return False
        if not length:
            if value_of(values[0]) != value_of(values[1]):
                return False
            continue
        times = [datetime.fromisoformat(value) for value in values]
        if abs(times[0] - times[1]) > timedelta(days=int(length[:-1])):
            return False
    return True


def similarities(documents: Documents) -> dict[tuple[int, int], float]:
    """The Jaccard similarity of pairs that are similar, whatever their scopes."""
    texts = [document["text"] for document in documents]
    words = [text.split() for text in texts]
    shingles = [{tuple(row[at : at + 3]) for at in range(len(row) - 2)} for row in words]
    similar = {}
    for left, right in itertools.combinations(range(len(documents)), 2):
        union = len(shingles[left] | shingles[right])
        value = len(shingles[left] & shingles[right]) / union if union else 0.0
        if texts[left] == texts[right]:
            value = 1.0
        if value >= THRESHOLD:
            similar[left, right] = value
    return similar


def components(documents: Documents, within: Sequence[str]) -> dict[int, int]:
    """The representative of each duplicate, if chains form groups."""
    first = {row: row for row in range(len(documents))}

    def root(row: int) -> int:
        return row if first[row] == row else root(first[row])

    for left, right in similarities(documents):
        if in_scope(documents[left], documents[right], within):
            earlier, later = sorted((root(left), root(right)))
            first[later] = earlier
    return {row: root(row) for row in first if root(row) != row}


def leaders(documents: Documents, within: Sequence[str]) -> dict[int, int]:
    """The representative of each duplicate, which is similar to it and in its scope."""
    similar = similarities(documents)
    leader: dict[int, int] = {}
    first_of_class: dict[str, int] = {}
    for row, document in enumerate(documents):
        if not in_scope(document, document, within):
            leader[row] = row
            continue
        # Documents of one text, with the same values and times, are one thing.
        values = [value_of(document[scope.partition(":")[0]]) for scope in within]
        first = first_of_class.setdefault(repr([document["text"], *values]), row)
        if first != row:
            leader[row] = leader[first]
            continue
        near = [
            (-similar[other, row], other)
            for other in range(row)
            if leader[other] == other
            and (other, row) in similar
            and in_scope(documents[other], document, within)
        ]
        leader[row] = min(near)[1] if near else row
    return {row: first for row, first in leader.items() if row != first}


def of_groups(groups: Groups) -> dict[int, int]:
    return {
        int(member.id): int(group.representative) for group in groups for member in group.members
    }


def of_pairs(pairs: SimilarPairs) -> set[tuple[int, int]]:
    ids = ((int(pair.left), int(pair.right)) for pair in pairs)
    return {(min(pair), max(pair)) for pair in ids}


@pytest.fixture(scope="module")
def documents() -> Documents:
    return corpus(500)


@pytest.mark.parametrize("within", SCOPES, ids=" ".join)
def test_groups_are_those_of_brute_force(documents: Documents, within: tuple[str, ...]) -> None:
    settings: dict[str, Any] = {"threshold": THRESHOLD, "within": within}
    by_leader = esdedup.group(documents, id="id", **settings)
    assert of_groups(by_leader) == leaders(documents, within)
    chained = esdedup.group(documents, id="id", method="components", **settings)
    assert of_groups(chained) == components(documents, within)
    out_of_scope = sum(not in_scope(document, document, within) for document in documents)
    assert by_leader.unscoped == chained.unscoped == out_of_scope > 0
    warning = by_leader.warnings(by_leader.grouping.limits)[0]
    assert warning.startswith(f"{out_of_scope} documents lack")


@pytest.mark.parametrize("within", SCOPES, ids=" ".join)
def test_pairs_are_those_of_brute_force(documents: Documents, within: tuple[str, ...]) -> None:
    pairs = esdedup.pairs(documents, id="id", threshold=THRESHOLD, within=within)
    similar = {
        (left, right)
        for left, right in similarities(documents)
        if in_scope(documents[left], documents[right], within)
    }
    listed = of_pairs(pairs)
    assert listed <= similar
    # A document of the text, the values and the times of an earlier one is paired with it alone.
    joined = components(documents, within)
    assert {right for _, right in similar} == {right for _, right in listed}
    assert {*joined} <= {row for pair in listed for row in pair}
    for pair in pairs:
        texts = {documents[int(id)]["text"] for id in (pair.left, pair.right)}
        assert pair.equal == (len(texts) == 1)


@pytest.mark.parametrize("within", SCOPES, ids=" ".join)
def test_equal_texts_are_grouped_in_a_scope(documents: Documents, within: tuple[str, ...]) -> None:
    groups = esdedup.group(documents, id="id", exact=True, method="components", within=within)
    first: dict[int, int] = {}
    for row, document in enumerate(documents):
        same = [
            first[other]
            for other in range(row)
            if documents[other]["text"] == document["text"]
            and in_scope(documents[other], document, within)
        ]
        first[row] = min(same, default=row)
        for other in first:
            if first[other] in same:
                first[other] = first[row]
    assert of_groups(groups) == {row: head for row, head in first.items() if row != head}


@pytest.mark.parametrize("within", SCOPES, ids=" ".join)
def test_fingerprints_are_compared_in_a_scope(
    documents: Documents, within: tuple[str, ...]
) -> None:
    scheme = esdedup.Scheme(sketches=[SimHash()])
    every = esdedup.pairs(documents, id="id", scheme=scheme, distance=3)
    pairs = esdedup.pairs(documents, id="id", scheme=scheme, distance=3, within=within)
    similar = of_pairs(every) | {
        pair for pair, value in similarities(documents).items() if value == 1
    }
    allowed = {pair for pair in similar if in_scope(documents[pair[0]], documents[pair[1]], within)}
    listed = of_pairs(pairs)
    assert {right for _, right in allowed} <= {right for _, right in listed}
    assert all(in_scope(documents[left], documents[right], within) for left, right in listed)


def test_a_chain_is_longer_than_its_window() -> None:
    days = ["2026-01-01", "2026-01-03", "2026-01-05"]
    records = [{"id": str(day), "text": TEXT, "date": date} for day, date in enumerate(days)]
    by_leader = esdedup.group(records, id="id", within="date:2d")
    assert of_groups(by_leader) == {1: 0}
    chained = esdedup.group(records, id="id", within="date:2d", method="components")
    assert of_groups(chained) == {1: 0, 2: 0}


def test_dedup_keeps_copies_of_other_scopes() -> None:
    records = [{"text": TEXT, "event": event} for event in ("E1", "E2", "E1", None, None)]
    result = esdedup.dedup(records, within="event")
    assert [record["event"] for record in result.kept] == ["E1", "E2", None, None]
    against = esdedup.dedup(records[:2], against=[{"text": TEXT, "event": "E2"}], within="event")
    assert [record["event"] for record in against.kept] == ["E1"]


@pytest.mark.on_every_server
@pytest.mark.parametrize("within", SCOPES, ids=" ".join)
def test_an_index_has_the_groups_of_its_records(place: Place, within: tuple[str, ...]) -> None:
    # Of one type a field: a cluster maps it by the first value.
    documents = [
        {**document, "source": str(document["source"]), "date": document["date"]}
        for document in corpus(300)
        if document["date"] != "soon"
    ]
    documents = [{**document, "id": str(row)} for row, document in enumerate(documents)]
    with esdedup.open(place.target, place.index) as index:
        index.add(documents)
        groups = index.groups(threshold=THRESHOLD, within=within)
        assert of_groups(groups) == leaders(documents, within)
        pairs = index.pairs(threshold=THRESHOLD, within=within)
        records = esdedup.pairs(documents, id="id", threshold=THRESHOLD, within=within)
        assert of_pairs(pairs) == of_pairs(records)
        ids = [id for group in groups for id in (group.representative, group.members[0].id)]
        again = index.regroup(groups, ids[:2])
        assert of_groups(again) == of_groups(groups)


def test_clean_removes_duplicates_of_one_scope_only(folder: Path) -> None:
    documents = corpus(300, seed=2)
    write_lines(folder / "feed.jsonl", documents)
    within = ("source", "date:3d")
    scope = [option for field in within for option in ("--within", field)]
    ran = run_command("clean", "feed.jsonl", "-o", "out", "-t", str(THRESHOLD), *scope)
    assert ran.status == 0, ran.err
    rows = {row["id"] for row in read_lines(folder / "out" / "feed.jsonl")}
    removed = {str(row) for row in leaders(documents, within)}
    assert rows == {document["id"] for document in documents} - removed
    report = esdedup.clean("feed.jsonl", "again", threshold=THRESHOLD, within=within)
    assert report.removed == len(removed)
    assert report.unscoped == esdedup.CleanReport.open("again").unscoped > 0


def test_pairs_of_files_are_those_of_records(folder: Path) -> None:
    documents = corpus(200, seed=3)
    write_lines(folder / "feed.jsonl", documents)
    ran = run_command("pairs", "feed.jsonl", "-t", str(THRESHOLD), "--within", "date:3d")
    lines = map(json.loads, ran.out.splitlines())
    listed = {tuple(sorted((int(line["left"]), int(line["right"])))) for line in lines}
    records = esdedup.pairs(documents, id="id", threshold=THRESHOLD, within="date:3d")
    assert listed == of_pairs(records)


@pytest.mark.parametrize(
    ("within", "message"),
    [
        ("date:3x", "within 'date:3x': use a number and one of w, d, h, m (minutes), s or ms"),
        ("date:0d", "within 'date:0d': use more than 0"),
        ("", "`within` is empty"),
        ("nothing", "no document has a value of 'nothing'"),
    ],
)
def test_a_scope_that_means_nothing_is_an_error(within: str, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        esdedup.pairs([{"text": TEXT}, {"text": TEXT}], within=within)
    assert message in str(raised.value)


def test_a_scope_is_written_as_it_is_parsed() -> None:
    texts = ["dc:creator", "source", "date:3d", "seen:90m", "at:1w"]
    assert Within.parse(texts).to_json() == texts
    assert Within.parse(Within.parse(["date:36h"]).to_json()) == Within.parse("date:1.5d")


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, path.read_text().splitlines())
