"""esdedup report: its numbers are those of the other commands, and its page is safe to open."""

import itertools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import esdedup
from tests.analysis.page import Page, assert_safe
from tests.helpers.arrivals import family
from tests.helpers.commands import Ran, words
from tests.helpers.indices import fill_index
from tests.helpers.places import Place, clusters, local


def near_duplicates(groups: int = 20) -> list[dict[str, str]]:
    """Groups of one to six texts, English and Chinese, of which some are copies."""
    rng = random.Random(7)
    texts = [
        family(100 * number + copy, rng.randint(0, 3), chinese=number % 2 > 0)
        for number in range(groups)
        for copy in range(rng.choice([1, 2, 3, 6]))
    ]
    rng.shuffle(texts)
    return [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]


def reported(place: Place, *options: str) -> tuple[dict[str, Any], Page, Ran]:
    """The JSON, the page, and all that was said."""
    ran = place.run("report", "-o", "page.html", *options, status=0)
    (line,) = ran.json
    return line, Page(Path("page.html").read_text("utf-8")), ran


@pytest.mark.on_every_server
def test_numbers_are_those_of_cluster(place: Place) -> None:
    fill_index(place, near_duplicates())
    for options in (
        ["--method", "components"],
        ["--method", "leader", "--threshold", "0.9", "--keep", "last"],
        ["--sketch", "simhash", "--distance", "7", "--method", "components"],
        ["--exact"],
    ):
        line, page, ran = reported(place, *options)
        (expected,) = place.run("group", "--dry-run", *options, status=0).json
        del expected["address"]
        assert {name: line[name] for name in expected} == expected, options
        assert line["groups"]
        counts = [each["count"] for each in line["bins"]]
        assert sum(counts) + line["equal"] == line["duplicates"]
        assert line["share"] == line["duplicates"] / line["statistics"]["documents"]
        assert f"{line['duplicates']:,}" in page.shown
        assert_safe(page)
        assert not Path(f"{place.index}.report").exists()
        assert "page.html: the report holds texts of" in ran.err


@local
def test_python_gives_the_same_numbers_and_page_and_changes_nothing(place: Place) -> None:
    documents = near_duplicates(6)
    fill_index(place, documents)
    line, page, _ = reported(place)
    with esdedup.open(place.target, place.index) as index:
        before = index.store.hold([each["id"] for each in documents]), index.store.meta()
        found = index.report()
        assert (index.store.hold([each["id"] for each in documents]), index.store.meta()) == before
    own = {"index": place.index, **json.loads(json.dumps(found.to_json()))}
    assert own == {**line, "made": found.made}
    assert Page(found.html(place.index)).texts == page.texts != []


@local
def test_counts_of_groups_and_copies(place: Place) -> None:
    documents = near_duplicates(30)
    fill_index(place, documents)
    line, _, _ = reported(place)
    with esdedup.open(place.target, place.index) as index:
        groups = index.groups()
        texts = {each["id"]: each["text"] for each in documents}
    equal = sum(
        texts[each.id] == texts[group.representative] for group in groups for each in group.members
    )
    assert line["equal"] == equal > 0
    values = [each.similarity for group in groups for each in group.members]
    for each in line["bins"]:
        last = each["high"] == 1.0
        inside = [v for v in values if each["low"] <= v and (v < each["high"] or last)]
        assert each["count"] == len(inside) - (equal if last else 0)
    assert sum(each["count"] for each in line["ranges"]) == len(groups) == line["groups"]
    assert line["sizes"] == {str(k): v for k, v in sorted(Counter(groups.sizes.tolist()).items())}
    assert [each["documents"] for each in line["largest"]] == groups.sizes[:10].tolist()


@local
def test_examples_are_from_all_over_the_range_and_marked(place: Place) -> None:
    fill_index(place, near_duplicates(60))
    line, page, _ = reported(place, "--threshold", "0.5")
    values = [each["value"] for each in line["examples"]]
    assert len(values) == 8
    assert values == sorted(values, reverse=True)
    full = [each for each in line["bins"] if each["count"]]
    assert full[0]["low"] <= values[-1] < full[0]["high"]
    assert full[-1]["low"] <= values[0] <= full[-1]["high"]
    assert page.marked
    assert "shared words left out" in page.shown
    again, _, _ = reported(place, "--threshold", "0.5")
    assert again["examples"] == line["examples"]
    assert len({each["representative"]["id"] for each in line["examples"]}) > 1


EVIL = [
    {"id": "<script>alert(1)</script>", "text": f"<script>alert(2)</script> {words(1)}"},
    {"id": "x\x1b[2J", "text": f"<bold> \x1b[2J \x9b &amp; {{{{ 7 * 7 }}}} {words(2)}"},
    {"id": "rtl", "text": f"שלום עולם \u202eevil {words(3)} 😀👩‍👩‍👧‍👦"},
    {"id": "long", "text": f"{'A' * 100_000} {words(4, 3_000)}"},
    {"id": "https://example.org/" + "i" * 400, "text": f"http://example.org/ {words(5, 9_000)}"},
]


def test_whatever_texts_hold_the_page_is_safe_and_small(place: Place) -> None:
    copies = [
        {"id": f"{each['id']}{number}", "text": each["text"] + " more" * number}
        for number, each in itertools.product((1, 2), EVIL)
    ]
    fill_index(place, [*EVIL, *copies])
    line, page, _ = reported(place)
    assert line["groups"] == len(EVIL)
    assert len(line["examples"]) == 8
    assert_safe(page)
    assert len(page.source) < 100_000
    assert "<script>alert(2)</script>" in page.shown
    assert "{{ 7 * 7 }}" in page.shown
    assert not {*page.source} & {"\x1b", "\x9b", "\x00"}
    assert str(place.target) not in page.source


@local
def test_an_empty_index_and_one_without_duplicates(place: Place) -> None:
    fill_index(place, [])
    line, page, _ = reported(place)
    assert (line["documents"], line["groups"]) == (0, 0)
    assert line["share"] == 0
    assert "no documents with tokens" in page.shown
    fill_index(place, [{"id": str(number), "text": words(number)} for number in range(20)])
    line, page, _ = reported(place)
    assert (line["documents"], line["groups"], line["examples"]) == (20, 0, [])
    assert "No two documents are similar enough to be duplicates" in page.shown
    assert_safe(page)


@local
def test_what_is_missing_is_said(place: Place) -> None:
    chain = words(1, 100).split()
    texts = [f"{words(9, 90)} {n}" for n in range(30)]
    for number in range(4):
        texts.append(" ".join(chain))
        chain[20 * number : 20 * number + 2] = [f"x{number}", f"y{number}"]
    fill_index(place, [{"id": f"{n:02}", "text": text} for n, text in enumerate(texts)])
    with esdedup.open(place.target, place.index) as index:
        index.store.write([esdedup.Document("bare", {"text": "no tokens"})])
        index.stop_list.replace([index.hot_buckets(1, sketches=("minhash",)).buckets[0].token])
    line, page, ran = reported(
        place, "--method", "components", "--threshold", "0.85", "--max-per-bucket", "10"
    )
    assert line["capped_buckets"]
    assert line["bins"][0]["name"] == "less than 0.85"
    assert line["bins"][0]["count"] == line["chained"] > 0
    chained = "duplicate is" if line["chained"] == 1 else "duplicates are"
    for said in (
        "1 of 35 documents have no tokens",
        "hold more than 10 documents",
        f"{line['chained']} {chained} joined by a chain",
        "1 token is in the stop list of the index",
    ):
        assert said in ran.err
        assert said in page.shown
    assert "less than 0.85" in page.shown


@local
def test_examples_whose_text_changed_are_left_out(place: Place) -> None:
    text = words(1, 80)
    fill_index(place, [{"id": "a", "text": text}, {"id": "b", "text": f"{text} new"}])
    with esdedup.open(place.target, place.index) as index:
        (held,) = index.store.hold(["b"])
        changed = {**held.document.source, "text": f"{text} newer"}
        index.store.write([esdedup.Document("b", changed)])
    line, _, ran = reported(place)
    assert (line["duplicates"], line["examples"], line["examples_left_out"]) == (1, [], 1)
    assert "1 example is left out" in ran.err


@local
def test_a_page_that_can_t_be_written_is_said_before_the_work(place: Place, folder: Path) -> None:
    fill_index(place, near_duplicates(4))
    for path, error in ((folder, "Error: --output"), (folder / "no" / "x", "there is no folder")):
        assert error in place.run("report", "-o", str(path), status=2).err
    assert not list(folder.glob("*.report*"))
    place.run("report", "--json", status=0)
    assert (folder / f"{place.index}.report.html").exists()


@clusters
def test_the_page_shows_no_credentials(place: Place) -> None:
    fill_index(place, near_duplicates(4))
    _, page, ran = reported(place, "--username", "elastic", "--password", "hidden-password")
    for text in (page.source, ran.out, ran.err):
        assert "hidden-password" not in text
        assert "elastic:" not in text
    assert str(place.target) not in page.source
