"""`esdedup decontaminate FILES --against ITEMS`: records that hold items are removed."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from esdedup.cleaning.contained import Evidence
from esdedup.cli.surroundings import Surroundings
from tests.helpers.commands import read_lines, run_command, words, write_lines
from tests.helpers.surroundings import killed_at, titles_into

LEAST, SIZE, STRETCH = 8, 3, 2
Finding = tuple[str, str, float, int, int]
"""The ids of a page and an item, the share of its words, and where it starts and ends."""
NOTICE = "the following is a multiple choice question read it carefully and answer"


def removed_of(
    items: list[str],
    pages: list[str],
    share: str = "0.8",
    *options: str,
    evidence: Evidence | None = None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the list of what is removed, and the report."""
    for file, texts in (("items.jsonl", items), ("pages.jsonl", pages)):
        write_lines(Path(file), [{"id": f"{file[0]}{n}", "text": t} for n, t in enumerate(texts)])
    for file in ("out.jsonl", "removed.jsonl"):
        Path(file).unlink(missing_ok=True)
    command = [
        "decontaminate",
        "pages.jsonl",
        "--against",
        "items.jsonl",
        "-o",
        "out.jsonl",
        "--json",
    ]
    more = ["--share", share, "--removed", "removed.jsonl", *options]
    ran = run_command(*command, *more, surroundings=Surroundings(evidence=evidence), status=0)
    return read_lines("removed.jsonl"), ran.json[0]


def split(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text, with their places."""
    return [(found[0].lower(), *found.span()) for found in re.finditer(r"[a-z]+", text, re.I)]


def shingles(text: str) -> list[tuple[str, ...]]:
    every = [word for word, *_ in split(text)]
    return [tuple(every[at : at + SIZE]) for at in range(len(every) - SIZE + 1)]


def covered(places: set[int]) -> int:
    """Return the number of words of shingles."""
    return len({place + step for place in places for step in range(SIZE)})


def best_stretch(
    hits: list[int], there: list[tuple[str, ...]], own: dict[int, tuple[str, ...]], room: int
) -> tuple[float, int, int]:
    """Return the share of an item's words, the negative length and the negative first shingle."""
    best = (0.0, 0, 0)
    for first in hits:
        some = [each for each in hits if first <= each <= first + room - SIZE]
        held = {there[each] for each in some}
        of = covered({at for at, each in own.items() if each in held}) / covered({*own})
        if len(held) > 1:
            best = max(best, (of, first - some[-1], -first))
    return best


def by_force(
    items: list[str],
    pages: list[str],
    share: float,
    most: int,
    *,
    counted: list[str] | None = None,
    every: bool = False,
) -> list[Finding]:
    """Return the best place of each item in each page that holds it, in the order of pages.

    counted: the pages that decide what counts; None for these. every: return every place.
    """
    holders = Counter(
        each for page in (pages if counted is None else counted) for each in {*shingles(page)}
    )
    found = list[Finding]()
    for n, item in enumerate(items):
        own = {at: each for at, each in enumerate(shingles(item)) if holders[each] <= most}
        if covered({*own}) < LEAST or len({*own.values()}) < 2:
            continue
        for p, page in enumerate(pages):
            there, at = shingles(page), split(page)
            stretches = [[where for where, each in enumerate(there) if each in own.values()]]
            while stretches:
                hits = stretches.pop()
                best = best_stretch(hits, there, own, STRETCH * len(split(item)))
                if best[0] < share:
                    continue
                first, last = -best[2], -best[2] - best[1]
                found.append((f"p{p}", f"i{n}", best[0], at[first][1], at[last + SIZE - 1][2]))
                if every:
                    stretches.append([each for each in hits if each + SIZE <= first])
                    stretches.append([each for each in hits if each >= last + SIZE])
    return sorted(found)


def findings(rows: list[dict[str, Any]]) -> list[Finding]:
    columns = "id", "original_id", "contained", "start", "end"
    return [(*(row[name] for name in columns),) for row in rows]


def rest_of(marked: str) -> str:
    """Return what stays of a text whose cut characters are "#"."""
    first, *others = re.split(r"#(?:[#,]|\s+(?=#))*", marked)
    rest = first
    for number, other in enumerate(others, 1):
        before, after = re.search(r"\s*\Z", rest), re.match(r"\s*", other)
        assert before
        assert after
        blanks = [before[0], after[0]]
        rest, other = rest.rstrip(), other.lstrip()
        if not rest or (not other and number == len(others)):
            blanks = [blanks[0] if not rest else blanks[1]]
        kept = [blank for blank in blanks if blank] or [""]
        rest += max(reversed(kept), key=lambda blank: blank.count("\n")) + other
    return rest


SHORT = st.lists(st.sampled_from("abcdefghij"), max_size=16).map(" ".join)
LONG = st.lists(st.sampled_from("abcdefghij"), min_size=9, max_size=16).map(" ".join)
TEXT = st.lists(st.sampled_from("abcdefg"), max_size=40).map(" ".join)


@settings(max_examples=35, deadline=None)
@given(
    st.lists(SHORT | LONG, max_size=4),
    st.lists(TEXT, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), TEXT, TEXT, st.integers(1, 3)), max_size=4),
    st.sampled_from([0.3, 0.5, 0.8, 1.0]),
    st.sampled_from([1, 2, 100]),
)
@example(["a a b a a a a a"], [], [(0, "", "a", 2)], 0.3, 1)
def test_what_holds_an_item_is_as_by_brute_force(
    items: list[str],
    others: list[str],
    around: list[tuple[int, str, str, int]],
    share: float,
    most: int,
) -> None:
    pages = [
        f"{left}, {items[n].upper()}\n" * times + right
        for n, left, right, times in around
        if n < len(items)
    ]
    pages += others
    evidence = Evidence(few=most, bytes=60, hits=10)
    rows, report = removed_of(items, pages, str(share), evidence=evidence)
    expected = by_force(items, pages, share, most)
    assert findings(rows) == expected
    assert report["removed"] == len({page for page, *_ in expected})
    assert report["contained"]["found"] == len({item for _, item, *_ in expected})
    kept = {each["id"] for each in read_lines("out.jsonl")}
    assert kept == {f"p{n}" for n in range(len(pages))} - {page for page, *_ in expected}
    # Masked, a page that has more than items stays, without any item.
    evidence = Evidence(few=most, bytes=60)
    rows, report = removed_of(items, pages, str(share), "--mask", evidence=evidence)
    found = findings(rows)
    every = by_force(items, pages, share, most, every=True)
    assert {*found} >= {*every} >= {*expected}
    assert found == sorted(found, key=lambda each: (*each[:2], *each[3:]))
    for page, item, share_of_item, start, end in {*found} - {*every}:
        # A cut within it brought its words together.
        assert share_of_item >= share
        assert any(
            each[0] == page and start < each[3] < each[4] < end
            for each in found
            if each != (page, item, share_of_item, start, end)
        )
    rests = {f"p{n}": [*page] for n, page in enumerate(pages)}
    for page, _, _, start, end in found:
        rests[page][start:end] = ["#"] * (end - start)
    left = {page: rest_of("".join(rest)) for page, rest in rests.items()}
    gone = {page for page, *_ in found if not left[page].strip()}
    texts = {each["id"]: each["text"] for each in read_lines("out.jsonl")}
    assert texts == {page: text for page, text in left.items() if page not in gone}
    assert by_force(items, [*texts.values()], share, most, counted=pages) == []
    assert report["removed"] == len(gone)
    masked_pages = {page for page, *_ in found} - gone
    assert report["contained"]["masked"] == len(masked_pages)
    assert report["bytes_kept"] == sum(map(len, texts.values()))
    assert report["words_kept"] == sum(len(split(text)) for text in texts.values())
    words_of_masked = sum(len(split(pages[int(page[1:])])) for page in masked_pages)
    words_left = sum(len(split(texts[page])) for page in masked_pages)
    assert report["contained"]["words_masked"] == words_of_masked - words_left


PARTS = st.lists(
    st.sampled_from(["a b c d e f", "g h i j k l", "a b c d e f g h i j k l", "m n", "o p q r"]),
    max_size=9,
)
ENDS = st.sampled_from([" ", ". ", "? ", "\n", " (", ") "])


@given(
    st.lists(PARTS.map(" ".join), min_size=1, max_size=3),
    st.lists(st.tuples(PARTS, ENDS), min_size=1, max_size=3),
    st.sampled_from([0.5, 0.8, 1.0]),
    st.sampled_from(["--mask", "--mask-sentences"]),
)
def test_nothing_is_found_in_what_was_masked(
    items: list[str], made: list[tuple[list[str], str]], share: float, mask: str
) -> None:
    removed_of(items, [end.join(parts) for parts, end in made], str(share), mask)
    masked = [each["text"] for each in read_lines("out.jsonl")]
    rows, report = removed_of(items, masked, str(share), mask)
    assert (rows, report["removed"], report["contained"]["masked"]) == ([], 0, 0)
    assert [each["text"] for each in read_lines("out.jsonl")] == masked


@pytest.mark.parametrize("mask", ["--mask", "--mask-sentences"])
@pytest.mark.parametrize("filler", [0, 1, 5, 60])
def test_every_place_of_an_item_is_masked_and_listed(mask: str, filler: int) -> None:
    item = words(1, 20)
    between = f". {words(2, filler)}. " if filler else ", "
    page = f"First page. {between.join([item] * 3)}. The end of page."
    starts = [found.start() for found in re.finditer(item, page)]
    rows, report = removed_of([item, words(3)], [page, words(4)], "0.8", mask)
    places = [(start, start + len(item)) for start in starts]
    assert findings(rows) == [("p0", "i0", 1.0, *place) for place in places]
    # Documents and items are counted once.
    assert (report["removed"], report["kept"], report["contained"]["found"]) == (0, 2, 1)
    assert (report["contained"]["masked"], report["contained"]["words_masked"]) == (1, 60)
    assert len(report["samples"]) == 1
    (text, other) = (each["text"] for each in read_lines("out.jsonl"))
    fillers = f"{words(2, filler)}. " * 2 if filler else ""
    assert (text, other) == (f"First page. {fillers}The end of page.", words(4))
    # Where the record goes as a whole, its best place is listed.
    assert len(removed_of([item, words(3)], [page, words(4)])[0]) == 1


@pytest.mark.parametrize("mask", ["--mask", "--mask-sentences"])
def test_an_item_of_words_that_a_cut_brings_together_is_masked(mask: str) -> None:
    first, last, inner = words(1, 10), words(2, 10), words(3, 50)
    pages = [f"Before. {first}. {inner}. {last}. After.", f"{first}. {words(4, 50)}. {last}."]
    rows, report = removed_of([f"{first} {last}", inner], pages, "0.8", mask)
    whole, middle = pages[0].index(first), pages[0].index(inner)
    end = pages[0].index(". After")
    # Its place encloses the first cut.
    assert findings(rows) == [
        ("p0", "i0", 1.0, whole, end),
        ("p0", "i1", 1.0, middle, middle + len(inner)),
    ]
    assert (report["contained"]["found"], report["contained"]["masked"]) == (2, 1)
    texts = [each["text"] for each in read_lines("out.jsonl")]
    assert texts == ["Before. After.", pages[1]]


def test_what_many_pages_hold_is_no_evidence_and_is_reported() -> None:
    question = words(1, 20)
    items = [f"{NOTICE} {question}", f"{NOTICE} yes", words(2, 20)]
    pages = [f"{words(100 + n)} {NOTICE} {words(1_000 + n)}" for n in range(101)]
    pages += [f"{words(10)} {question} {words(11)}", f"{words(12)} {items[2]}"]
    rows, report = removed_of(items, pages)
    # The question is found without what comes before it, and the instruction alone is nothing.
    assert {(each["id"], each["original_id"]) for each in rows} == {("p101", "i0"), ("p102", "i2")}
    counts = report["contained"]
    common = len(NOTICE.split()) - 2
    assert (counts["common"], counts["ignored"], counts["found"]) == (common, 1, 2)
    # With one page less it is evidence.
    rows, report = removed_of(items, pages[1:])
    assert report["contained"]["common"] == 0
    assert len({each["id"] for each in rows if each["original_id"] == "i1"}) == 100


def test_short_items_are_ignored_and_chinese_ones_found() -> None:
    chinese = "市图书馆今天下午举行读书会，欢迎大家参加。"
    items = ["", "two words", "only seven words are in this one", "a " * 30, chinese]
    pages = [" ".join(items[:4]), f"第一段：{chinese.replace('，', ' ')}第二段。", "别的内容"]
    rows, report = removed_of(items, pages)
    assert [(each["id"], each["original_id"], each["contained"]) for each in rows] == [
        ("p1", "i4", 1.0)
    ]
    assert pages[1][rows[0]["start"] : rows[0]["end"]].startswith("市图")
    assert pages[1][rows[0]["start"] : rows[0]["end"]].endswith("参加")
    assert report["contained"]["ignored"] == 4
    # A page of these common words far apart does not hold the item.
    far = " ".join(f"{words(n)} {chinese[n : n + 3]}" for n in range(0, 18, 3))
    assert removed_of([chinese], [far])[0] == []


def test_workers_tables_and_an_index_give_the_same() -> None:
    items = [words(n, 20) for n in range(5)]
    pages = [f"{words(50 + n)} {items[n % 5]}, {items[(n + 1) % 5]}" for n in range(8)]
    pages += [words(90 + n) for n in range(9)]
    rows, report = removed_of(items, pages)
    assert len(rows) == 16
    assert removed_of(items, pages, "0.8", "--workers", "2") == (rows, report)
    twice = [f"{page} {words(70)} {page}" for page in pages[:8]]
    masked = removed_of(items, twice, "0.8", "--mask")
    assert len(masked[0]) == 32
    assert removed_of(items, twice, "0.8", "--mask", "--workers", "2") == masked
    run_command("index", "items.jsonl", "--db", "items.db", status=0)
    command = [
        "decontaminate",
        "pages.jsonl",
        "-o",
        "out",
        "--share",
        "0.8",
        "--removed",
        "r.jsonl",
    ]
    run_command(*command, "--against", "items.db", status=0)
    found = read_lines("r.jsonl")
    places = [
        sorted((each["id"], each["original_id"], each["start"], each["end"]) for each in some)
        for some in (found, rows)
    ]
    assert places[0] == places[1]
    command[3:] = ["--dry-run", "--share", "1", "--table"]
    shown = run_command(*command[:2], *command[3:], "--against", "items.db")
    assert "contained" in shown.out
    assert "ignored" in shown.out


def test_texts_are_masked_in_every_format() -> None:
    items = [words(n, 20) for n in range(3)]
    texts = [f"Menu 1.  {items[0].upper()}? {items[1]} End", words(9, 30), items[2]]
    rest = ["Menu 1. End", texts[1]]
    write_lines(Path("items.jsonl"), [{"text": text} for text in items])
    Path("in").mkdir()
    write_lines(Path("in/a.jsonl"), [{"n": 1.50, "text": text, "more": [1]} for text in texts])
    Path("in/b.txt").write_bytes("\r\n".join(texts).encode())
    pyarrow.parquet.write_table(pyarrow.table({"text": texts, "n": [1, 2, 3]}), "in/c.parquet")
    how = ["--against", "items.jsonl", "--share", "0.8", "--mask", "--json"]
    for kind in ("a.jsonl", "b.txt", "c.parquet"):
        done = run_command("decontaminate", f"in/{kind}", "-o", f"out-{kind[0]}/", *how).json[0]
        assert (done["kept"], done["removed"], done["contained"]["masked"]) == (2, 1, 1)
    lines = Path("in/a.jsonl").read_text("utf-8").splitlines(keepends=True)
    expected = lines[0].replace(json.dumps(texts[0]), json.dumps(rest[0])) + lines[1]
    assert Path("out-a/a.jsonl").read_text("utf-8") == expected
    assert Path("out-b/b.txt").read_bytes() == f"{rest[0]}\r\n{rest[1]}\r\n".encode()
    table = pyarrow.parquet.read_table("out-c/c.parquet")
    assert table.to_pydict() == {"text": rest, "n": [1, 2]}
    # The text of a list can't be changed.
    write_lines(Path("list.jsonl"), [{"text": [texts[0]]}])
    pyarrow.parquet.write_table(pyarrow.table({"text": [[texts[0]]]}), "list.parquet")
    for file, status, said in (
        ("list.jsonl", 1, "line 1: it has no string 'text'"),
        ("list.parquet", 2, "--mask can't change texts in structs and lists, as 'text' is"),
    ):
        refused = run_command("decontaminate", file, "-o", f"{file}.out/", *how, status=status)
        assert said in refused.err


@pytest.mark.parametrize("step", ["Hashing", "Writing"])
@pytest.mark.parametrize("mask", [[], ["--mask"]])
def test_a_run_that_is_killed_resumes(step: str, mask: list[str]) -> None:
    items = [words(n, 20) for n in range(9)]
    write_lines(Path("items.jsonl"), [{"text": text} for text in items])
    Path("in").mkdir()
    for shard in range(3):
        texts = [f"{words(50 + n)} {items[n]}" if n < 9 else words(n) for n in range(shard, 60, 3)]
        write_lines(Path(f"in/{shard}.jsonl"), [{"text": text} for text in texts])
    command = ["decontaminate", "in", "--against", "items.jsonl", "--json", *mask, "--share"]
    titles = set[str]()
    whole = run_command(*command, "0.8", "-o", "whole", surroundings=titles_into(titles)).json[0]
    assert {whole["removed"], whole["contained"].get("masked", 0)} == {9, 0}
    assert titles > {"Sketching", "Hashing", "Writing"}
    # When items are searched for, or after the first of the files is written.
    killed = killed_at(step, call=1 if step == "Writing" else 0)
    run_command(*command, "0.8", "-o", "out", surroundings=killed, status=130)
    if step == "Writing":
        other = run_command(*command, "0.5", "-o", "out", status=2)
        assert "unfinished run with another share" in other.err
    # What was read is not read again.
    titles.clear()
    again = run_command(*command, "0.8", "-o", "out", surroundings=titles_into(titles))
    assert again.json[0] == {**whole, "output": "out"}
    assert "Writing" in titles
    assert "Sketching" not in titles
    for file in ("0.jsonl", "1.jsonl", "2.jsonl", "_removed.jsonl.zst"):
        assert Path("out", file).read_bytes() == Path("whole", file).read_bytes()
    assert not Path("out.work").exists()
