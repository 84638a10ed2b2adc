"""`esdedup decontaminate FILES --against ITEMS`: records that hold items are removed."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esdedup.cleaning.contained import Evidence
from esdedup.cli.surroundings import Surroundings
from tests.helpers.commands import read_lines, run_command, words, write_lines
from tests.helpers.surroundings import killed_at, titles_into

LEAST, SIZE, STRETCH = 8, 3, 2
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


def by_force(
    items: list[str], pages: list[str], share: float, most: int
) -> dict[tuple[str, str], tuple[float, int, int]]:
    """Return the share and the place of each item in each page that holds it."""
    holders = Counter(each for page in pages for each in {*shingles(page)})
    found = {}
    for n, item in enumerate(items):
        own = {at: each for at, each in enumerate(shingles(item)) if holders[each] <= most}
        words, room = covered({*own}), STRETCH * len(split(item))
        if words < LEAST or len({*own.values()}) < 2:
            continue
        for p, page in enumerate(pages):
            there, at = shingles(page), split(page)
            hits = [where for where, each in enumerate(there) if each in own.values()]
            best: tuple[float, int, int] = (0.0, 0, 0)
            for first in hits:
                some = [each for each in hits if first <= each <= first + room - SIZE]
                held = {there[each] for each in some}
                of = covered({where for where, each in own.items() if each in held}) / words
                if len(held) > 1:
                    best = max(best, (of, first - some[-1], -first))
            if best[0] >= share:
                start, last = -best[2], -best[2] - best[1]
                found[f"p{p}", f"i{n}"] = (best[0], at[start][1], at[last + SIZE - 1][2])
    return found


def rest_of(marked: str) -> str:
    """Return what stays of a text whose cut characters are "#"."""
    first, *others = re.split(r"#(?:[#,]|\s+(?=#))*", marked)
    rest = first
    for other in others:
        before, after = re.search(r"\s*\Z", rest), re.match(r"\s*", other)
        assert before
        assert after
        blanks = [before[0], after[0]]
        rest, other = rest.rstrip(), other.lstrip()
        if not rest or (not other and len(others) == 1):
            blanks = [blanks[0] if not rest else blanks[1]]
        kept = [blank for blank in blanks if blank] or [""]
        rest += max(reversed(kept), key=lambda blank: blank.count("\n")) + other
    return rest


TEXT = st.lists(st.sampled_from("abcdefg"), max_size=40).map(" ".join)


@settings(max_examples=35, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abcdefghij"), max_size=16).map(" ".join), max_size=4),
    st.lists(TEXT, max_size=4),
    st.lists(st.tuples(st.integers(0, 3), TEXT, TEXT), max_size=4),
    st.sampled_from([0.3, 0.5, 0.8, 1.0]),
    st.sampled_from([1, 2, 100]),
)
def test_what_holds_an_item_is_as_by_brute_force(
    items: list[str], others: list[str], around: list[tuple[int, str, str]], share: float, most: int
) -> None:
    pages = [f"{left}, {items[n].upper()}\n{right}" for n, left, right in around if n < len(items)]
    pages += others
    evidence = Evidence(few=most, bytes=60, hits=10)
    rows, report = removed_of(items, pages, str(share), evidence=evidence)
    found = {
        (each["id"], each["original_id"]): (each["contained"], each["start"], each["end"])
        for each in rows
    }
    expected = by_force(items, pages, share, most)
    assert found == expected
    assert report["removed"] == len({page for page, _ in expected})
    assert report["contained"]["found"] == len({item for _, item in expected})
    kept = {json.loads(line)["id"] for line in Path("out.jsonl").read_text("utf-8").splitlines()}
    assert kept == {f"p{n}" for n in range(len(pages))} - {page for page, _ in found}
    # Masked, a page that has more than items stays.
    evidence = Evidence(few=most)
    masked, report = removed_of(items, pages, str(share), "--mask", evidence=evidence)
    assert masked == rows
    rests = {f"p{n}": [*page] for n, page in enumerate(pages)}
    for (page, _), (_, start, end) in found.items():
        rests[page][start:end] = ["#"] * (end - start)
    left = {page: rest_of("".join(rest)) for page, rest in rests.items()}
    gone = {page for page, _ in found if not left[page].strip()}
    lines = Path("out.jsonl").read_text("utf-8").splitlines()
    texts = {each["id"]: each["text"] for each in map(json.loads, lines)}
    assert texts == {page: text for page, text in left.items() if page not in gone}
    assert report["removed"] == len(gone)
    masked_pages = {page for page, _ in found} - gone
    assert report["contained"]["masked"] == len(masked_pages)
    assert report["bytes_kept"] == sum(map(len, texts.values()))
    assert report["words_kept"] == sum(len(split(text)) for text in texts.values())
    words_of_masked = sum(len(split(pages[int(page[1:])])) for page in masked_pages)
    words_left = sum(len(split(texts[page])) for page in masked_pages)
    assert report["contained"]["words_masked"] == words_of_masked - words_left


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
