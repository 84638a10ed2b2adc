"""esdedup report: its numbers are those of the other commands, and its page is safe to open."""

from __future__ import annotations

import html.parser
import itertools
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.analysis.distribution import (
    distances_in_bins,
    similarities_in_bins,
    size_ranges,
    spread,
)
from esdedup.analysis.report import Wanted, report
from esdedup.groups.groups import Grouping
from esdedup.text.highlight import excerpts, mark_shared
from tests.helpers.commands import Ran, run_command, words
from tests.helpers.places import Place, clusters, local

SCHEME = esdedup.Scheme()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("ESDEDUP_URL", "ESDEDUP_DB", "ESDEDUP_INDEX", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def near_duplicates(groups: int = 20) -> list[dict[str, str]]:
    """Groups of one to six texts, English and Chinese, of which some are copies."""
    rng = random.Random(7)
    texts = []
    for number in range(groups):
        if number % 2:
            base = [chr(rng.randint(0x4E00, 0x9FA0)) for _ in range(90)]
        else:
            base = words(number, 60).split()
        for _ in range(rng.choice([1, 2, 3, 6])):
            copy = list(base)
            for _ in range(rng.randint(0, 3)):
                copy[rng.randrange(len(copy))] = rng.choice(["某", "另"]) if number % 2 else "new"
            texts.append(("" if number % 2 else " ").join(copy))
    rng.shuffle(texts)
    return [{"id": f"d{number}", "text": text} for number, text in enumerate(texts)]


def fill(place: Place, documents: Sequence[dict[str, Any]], **options: Any) -> None:
    with esdedup.open(place.target, place.index, **options) as index:
        index.create()
        index.add(documents)


def command(place: Place, *arguments: str, status: int = 0) -> Ran:
    where = "--db" if isinstance(place.target, Path) else "--url"
    ran = run_command(*arguments, where, str(place.target), "--index", place.index)
    assert ran.status == status, (ran.out, ran.err)
    return ran


def reported(place: Place, *options: str) -> tuple[dict[str, Any], Page, Ran]:
    """The JSON, the page, and all that was said."""
    ran = command(place, "report", "-o", "page.html", *options)
    (line,) = ran.json
    return line, Page(Path("page.html").read_text("utf-8")), ran


class Page(html.parser.HTMLParser):
    """What a browser would make of a page. Raises AssertionError where elements do not match."""

    VOID = ("meta", "rect")

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.marked: list[str] = []
        self.shown = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)
        if dict(attrs).get("class") == "text":
            self.texts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.shown += data
        if "div" in self._open and self.texts:
            self.texts[-1] += data
        if self._open and self._open[-1] == "mark":
            self.marked.append(data)


def assert_safe(page: Page) -> None:
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "a", "base", "form", "bold"}
    named = {name for _, attrs in page.tags for name in attrs}
    assert not named & {"style", "src", "href", "srcset", "action"}
    assert not any(name.startswith("on") for name in named)
    values = [value or "" for tag, attrs in page.tags if tag != "meta" for value in attrs.values()]
    assert not any("//" in value for value in values)
    (policy,) = [attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs]
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    (style,) = page.source.split("<style>")[1:]
    assert "url(" not in style.partition("</style>")[0]
    assert len(page.source.encode()) < 1_000_000


@pytest.mark.on_every_server
def test_numbers_are_those_of_cluster(place: Place) -> None:
    fill(place, near_duplicates())
    for options in (
        ["--method", "components"],
        ["--method", "leader", "--threshold", "0.9", "--keep", "last"],
        ["--sketch", "simhash", "--distance", "7", "--method", "components"],
        ["--exact"],
    ):
        line, page, ran = reported(place, *options)
        (expected,) = command(place, "group", "--dry-run", *options).json
        del expected["address"]
        assert {name: line[name] for name in expected} == expected, options
        assert line["groups"]
        counts = [each["count"] for each in line["bins"]]
        assert sum(counts) + line["equal"] == line["duplicates"]
        assert line["share"] == line["duplicates"] / line["statistics"]["documents"]
        assert line["bytes_saved"] == round(line["statistics"]["bytes"] * line["share"])
        assert f"{line['duplicates']:,}" in page.shown
        assert_safe(page)
        assert not Path(f"{place.index}.report").exists()
        assert "page.html: the report holds texts of" in ran.err


def test_nothing_in_the_index_changes(place: Place) -> None:
    fill(place, near_duplicates(6))
    ids = [f"d{number}" for number in range(6)]
    with esdedup.open(place.target, place.index) as index:
        before = index.store.hold(ids)
        meta = index.meta
        reported(place)
        assert index.store.hold(ids) == before
        assert index.store.meta() == meta


@local
def test_python_gives_the_same_numbers_and_page(place: Place) -> None:
    fill(place, near_duplicates(6))
    line, page, _ = reported(place)
    with esdedup.open(place.target, place.index) as index:
        found = index.report()
    own = {"index": place.index, **json.loads(json.dumps(found.to_json()))}
    assert own == {**line, "made": found.made}
    assert Page(found.html(place.index)).texts == page.texts != []


@local
def test_counts_of_groups_and_copies(place: Place) -> None:
    documents = near_duplicates(30)
    fill(place, documents)
    line, _, _ = reported(place)
    with esdedup.open(place.target, place.index) as index:
        groups = index.groups()
        texts = {each["id"]: each["text"] for each in documents}
        copies = equal = 0
        for group in groups:
            members = [texts[group.representative], *(texts[each.id] for each in group.members)]
            copies += len(members) - len(set(members))
            equal += members[1:].count(members[0])
        found = report(index.store, index.meta, Grouping(), Wanted(examples=0, hot=0))
    assert (line["copies"], line["equal"]) == (copies, equal)
    assert copies > equal > 0
    values = [each.similarity for group in groups for each in group.members]
    for each in line["bins"]:
        last = each["high"] == 1.0
        inside = [v for v in values if each["low"] <= v and (v < each["high"] or last)]
        assert each["count"] == len(inside) - (equal if last else 0)
    assert sum(each.count for each in found.ranges) == found.groups == line["groups"]
    assert line["sizes"] == {str(k): v for k, v in sorted(Counter(groups.sizes.tolist()).items())}
    assert [each["documents"] for each in line["largest"]] == groups.sizes[:10].tolist()
    assert (found.examples, found.hot.buckets) == ((), [])


@local
def test_examples_are_from_all_over_the_range_and_marked(place: Place) -> None:
    fill(place, near_duplicates(60))
    line, page, _ = reported(place, "--threshold", "0.5", "--examples", "6")
    values = [each["value"] for each in line["examples"]]
    assert len(values) == 6
    assert values == sorted(values, reverse=True)
    full = [each for each in line["bins"] if each["count"]]
    assert full[0]["low"] <= values[-1] < full[0]["high"]
    assert full[-1]["low"] <= values[0] <= full[-1]["high"]
    assert {"new", "某", "另"} & {*page.marked}
    again, _, _ = reported(place, "--threshold", "0.5", "--examples", "6")
    assert again["examples"] == line["examples"]
    assert len({each["representative"]["id"] for each in line["examples"]}) > 1


@local
def test_an_example_in_english_and_one_in_chinese(place: Place) -> None:
    english = words(1, 200)
    han = "".join(chr(0x4E00 + 7 * number) for number in range(300))
    fill(
        place,
        [
            {"id": "a", "text": english},
            {"id": "b", "text": english.replace(english.split()[100], "changed")},
            {"id": "c", "text": han},
            {"id": "d", "text": han.replace(han[150], "変")},
            {"id": "e", "text": f"{words(2)}, and so on."},
            {"id": "f", "text": f"{words(2)} and so on!"},
        ],
    )
    line, page, _ = reported(place)
    assert {
        (each["representative"]["id"], each["duplicate"]["id"]) for each in line["examples"]
    } == {
        ("a", "b"), ("c", "d"), ("e", "f"),
    }  # fmt: skip
    assert sorted(page.marked[1:]) == sorted([english.split()[100], "changed", han[150], "変"])
    assert page.shown.count("characters left out") == 10
    assert "no word differs" in page.shown
    assert len(page.texts) == 6


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
    fill(place, [*EVIL, *copies])
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
    fill(place, [])
    line, page, ran = reported(place)
    assert (line["documents"], line["groups"], line["pairs"]) == (0, 0, None)
    assert (line["share"], line["bytes_saved"]) == (0, 0)
    assert "no documents with tokens" in page.shown
    assert "holds texts of 0 documents" in ran.err
    fill(place, [{"id": str(number), "text": words(number)} for number in range(20)])
    line, page, _ = reported(place)
    assert (line["documents"], line["groups"], line["examples"]) == (20, 0, [])
    assert sum(each["count"] for each in line["pairs"]["bins"]) == pytest.approx(190)
    assert "No two documents are similar enough to be duplicates" in page.shown
    assert_safe(page)


@local
def test_hot_buckets_are_shown(place: Place) -> None:
    common = words(0, 200)
    fill(place, [{"id": str(n), "text": f"{common} w{n}"} for n in range(29)])
    line, page, _ = reported(place, "--hot", "3")
    (stats,) = command(place, "stats", "--hot", "3").json
    assert [each["token"] for each in line["hot"]["buckets"]] == [
        each["token"] for each in stats["hot"]
    ]
    assert line["hot"]["buckets"][0]["documents"] == 29
    assert line["hot"]["buckets"][0]["token"] in page.shown
    assert "esdedup stop TOKEN" in page.shown


@local
def test_what_is_missing_is_said(place: Place) -> None:
    chain = words(1, 100).split()
    texts = []
    for number in range(4):
        texts.append(" ".join(chain))
        chain[20 * number : 20 * number + 2] = [f"x{number}", f"y{number}"]
    fill(place, [{"id": f"c{n}", "text": text} for n, text in enumerate(texts)])
    copies = [{"id": f"k{n}", "text": f"{words(9, 90)} {n}"} for n in range(30)]
    fill(place, copies)
    with esdedup.open(place.target, place.index) as index:
        index.store.write([esdedup.Document("bare", {"text": "no tokens"})])
        index.stop([index.hot_buckets(1, sketches=("minhash",)).buckets[0].entry])
    line, page, ran = reported(
        place, "--method", "components", "--threshold", "0.85", "--max-per-bucket", "10"
    )
    assert line["chained"]
    assert line["capped_buckets"]
    assert line["bins"][0] == {
        "name": "less than 0.85", "low": 0.0, "high": 0.85, "count": line["chained"]
    }  # fmt: skip
    chained = "duplicate is" if line["chained"] == 1 else "duplicates are"
    for said in (
        "1 of 35 documents have no tokens",
        "hold more than 10 documents",
        f"{line['chained']} {chained} joined by a chain",
        "1 token is in the index's stop list",
    ):
        assert said in ran.err
        assert said in page.shown
    assert "less than 0.85" in page.shown


@local
def test_examples_whose_text_changed_are_left_out(place: Place) -> None:
    text = words(1, 80)
    fill(place, [{"id": "a", "text": text}, {"id": "b", "text": f"{text} new"}])
    with esdedup.open(place.target, place.index) as index:
        (held,) = index.store.hold(["b"])
        changed = {**held.document.source, "text": f"{text} newer"}
        index.store.write([esdedup.Document("b", changed)])
    line, page, ran = reported(place)
    assert (line["duplicates"], line["examples"], line["examples_left_out"]) == (1, [], 1)
    assert "1 example is left out" in ran.err
    assert "1 example is left out" in page.shown


@local
def test_a_page_that_can_t_be_written_is_said_before_the_work(place: Place, folder: Path) -> None:
    fill(place, near_duplicates(4))
    ran = command(place, "report", "-o", str(folder), status=2)
    assert "Error: --output" in ran.err
    ran = command(place, "report", "-o", str(folder / "no" / "page.html"), status=2)
    assert "there is no folder" in ran.err
    assert not list(folder.glob("*.report*"))
    command(place, "report", "--json")
    assert (folder / f"{place.index}.report.html").exists()


@local
def test_a_run_goes_on_in_its_folder(place: Place, folder: Path) -> None:
    fill(place, near_duplicates(4))
    (folder / "work").mkdir()
    (folder / "work" / "job.json").write_text(json.dumps({"index": "another", "shares": 1}))
    ran = command(place, "report", "--work", "work", status=2)
    assert "work holds unfinished work of another index" in ran.err
    (folder / "work" / "job.json").unlink()
    reported(place, "--work", "work")
    assert not (folder / "work").exists()


@clusters
def test_the_page_shows_no_credentials(place: Place) -> None:
    fill(place, near_duplicates(4))
    _, page, ran = reported(place, "--username", "elastic", "--password", "hidden-password")
    for text in (page.source, ran.out, ran.err):
        assert "hidden-password" not in text
        assert "elastic:" not in text
    assert str(place.target) not in page.source


# The parts


@given(st.floats(0.05, 1.0), st.lists(st.floats(0, 1), max_size=50))
def test_each_similarity_is_in_its_bin(threshold: float, values: list[float]) -> None:
    bins, bin_of = similarities_in_bins(np.array(values), threshold)
    assert (bins[0].high, bins[-1].high) == (threshold, 1.0)
    assert sum(each.count for each in bins) == len(values)
    for value, at in zip(values, bin_of.tolist(), strict=True):
        assert bins[at].low <= value
        assert value < bins[at].high or at == len(bins) - 1
        assert (at == 0) == (value < threshold)


@given(st.integers(0, 60), st.lists(st.integers(0, 64), max_size=50))
def test_each_distance_is_in_its_bin(distance: int, values: list[int]) -> None:
    bins, bin_of = distances_in_bins(np.array(values, np.float64), distance, 64)
    assert len(bins) <= 21
    assert [(a.low, b.high + 1) for a, b in itertools.pairwise(bins[1:])] == [
        (a.low, a.low) for a in bins[1:-1]
    ]
    assert sum(each.count for each in bins) == len(values)
    for value, at in zip(values, bin_of.tolist(), strict=True):
        assert bins[at].low <= value <= bins[at].high
        assert (at == 0) == (value > distance)


@given(st.lists(st.integers(2, 20_000), max_size=40))
def test_each_size_is_in_one_range(sizes: list[int]) -> None:
    ranges = size_ranges(np.array(sizes, np.int64))
    assert sum(each.documents for each in ranges) == sum(sizes)
    for each in ranges:
        inside = [size for size in sizes if each.low <= size <= each.high]
        assert (each.count, each.documents) == (len(inside), sum(inside))
    assert all(a.high + 1 == b.low for a, b in itertools.pairwise(ranges))
    assert len(ranges) <= 20


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=40), st.integers(0, 12))
def test_rows_are_spread_over_bins(rows: list[tuple[int, int]], count: int) -> None:
    bins, groups = (np.array(side, np.int64) for side in zip(*rows, strict=True)) if rows else (
        np.empty(0, np.int64), np.empty(0, np.int64)
    )  # fmt: skip
    chosen = spread(bins, groups, count).tolist()
    assert len(chosen) == len(set(chosen)) == min(count, len(rows))
    if len(chosen) > 1:
        assert {int(bins.min()), int(bins.max())} <= set(bins[chosen].tolist())
    assert len(set(bins[chosen].tolist())) == min(count, len(set(bins.tolist())))


WORD = st.sampled_from(["a", "b", "中", "文", "ﬁ", "é", ", ", " ", "。"])


@given(st.lists(WORD, max_size=200), st.lists(WORD, max_size=200), st.integers(1, 300))
def test_every_character_is_shown_or_counted(left: list[str], right: list[str], most: int) -> None:
    texts = " ".join(left), "".join(right)
    marked = mark_shared(texts, SCHEME.normalisation, SCHEME.shingling, SCHEME.seed)
    for text in marked:
        pieces = excerpts(text, most)
        assert sum(len(piece.text) + piece.left_out for piece in pieces) == len(text.text)
        at = 0
        for piece in pieces:
            assert bool(piece.text) != bool(piece.left_out)
            assert text.text[at : at + len(piece.text)] == piece.text
            at += len(piece.text) + piece.left_out
        assert sum(len(piece.text) for piece in pieces) <= max(most, 400)


def test_what_differs_is_marked_and_far_from_it_left_out() -> None:
    same = " ".join(f"w{number}" for number in range(300))
    one, other = mark_shared(
        (f"{same} old {same[::-1]}", f"{same} NEW {same[::-1]}"),
        SCHEME.normalisation, SCHEME.shingling, SCHEME.seed,
    )  # fmt: skip
    for text, word in ((one, "old"), (other, "NEW")):
        pieces = excerpts(text, 2_000)
        assert [piece.text for piece in pieces if piece.differs] == [word]
        assert [bool(piece.left_out) for piece in pieces] == [
            False,
            True,
            *[False] * 3,
            True,
            False,
        ]
        assert sum(len(piece.text) for piece in pieces) < 300
