"""Documents are duplicates only within a scope: equal values of fields, and times that are near.

The results are those of brute force, in all that finds pairs and groups.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import SimHash, UsageError
from esdedup.sketch.within import Within
from tests.helpers.commands import read_lines, run_command, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place
from tests.helpers.scoped_documents import (
    SCOPES,
    THRESHOLD,
    Documents,
    components,
    corpus,
    in_scope,
    leaders,
    of_groups,
    of_pairs,
    one_type_a_field,
    originals_of,
    similarities,
    stored_originals,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*duplicates of none")

TEXT = "the council of the town agreed that the old bridge will be repaired before the winter"


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
    documents = one_type_a_field(corpus(300))
    with open_index(place, documents) as index:
        groups = index.groups(threshold=THRESHOLD, within=within)
        assert of_groups(groups) == leaders(documents, within)
        pairs = index.pairs(threshold=THRESHOLD, within=within)
        records = esdedup.pairs(documents, id="id", threshold=THRESHOLD, within=within)
        assert of_pairs(pairs) == of_pairs(records)
        ids = [id for group in groups for id in (group.representative, group.members[0].id)]
        again = index.regroup(groups, ids[:2])
        assert of_groups(again) == of_groups(groups)


@pytest.mark.nightly
@pytest.mark.on_every_server
@pytest.mark.parametrize("within", SCOPES, ids=" ".join)
def test_5000_documents_are_those_of_brute_force(place: Place, within: tuple[str, ...]) -> None:
    documents = one_type_a_field(corpus(5_000))
    settings: dict[str, Any] = {"threshold": THRESHOLD, "within": within}
    chained: dict[str, Any] = {**settings, "method": "components"}
    led, joined = leaders(documents, within), components(documents, within)
    assert of_groups(esdedup.group(documents, id="id", **settings)) == led
    assert of_groups(esdedup.group(documents, id="id", **chained)) == joined
    pairs = of_pairs(esdedup.pairs(documents, id="id", **settings))
    similar = similarities(documents)
    assert pairs <= similar.keys()
    assert all(in_scope(documents[left], documents[right], within) for left, right in pairs)
    assert joined.keys() <= {row for pair in pairs for row in pair}
    with open_index(place, documents) as index:
        assert of_groups(index.groups(**settings)) == led
        assert of_groups(index.groups(**chained)) == joined
        assert of_pairs(index.pairs(**settings)) == pairs
    policy = esdedup.DuplicatePolicy("group", THRESHOLD, candidates=1_000)
    with esdedup.open(place.target, f"{place.index}-arrivals") as index:
        for start in range(0, len(documents), 1_000):
            index.add(documents[start : start + 1_000], on_duplicate=policy, within=within)
        assert stored_originals(index) == originals_of(documents, within, "group")
        index.store.drop()


def test_clean_removes_duplicates_of_one_scope_only(folder: Path) -> None:
    documents = corpus(300, seed=2)
    write_lines(folder / "feed.jsonl", documents)
    within = ("source", "date:3d")
    scope = [option for field in within for option in ("--within", field)]
    run_command("clean", "feed.jsonl", "-o", "out", "-t", str(THRESHOLD), *scope, status=0)
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
