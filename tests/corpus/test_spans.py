"""`clean FILES --unit span`: repeated runs of words are cut, beside a dictionary of all of them."""

import itertools
import json
import random
import re
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.cli.surroundings import Surroundings
from esdedup.runs.run import ShareSizes
from esdedup.tabular import require_pyarrow
from esdedup.text.cuts import without_words
from tests.faults.test_dedup_files import contents
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.surroundings import killed_at

_WORD = re.compile(r"[㐀-鿿]|[^\W㐀-鿿]+|\++|=+")
NOTICE = "All rights reserved; no part of this may be copied, stored or sent without our consent."
CHINESE = "版权所有，未经许可不得转载、摘编或以其他方式使用本网站的任何内容。"


@dataclass
class Expected:
    """What a dictionary of all windows finds.

    rest: the words that stay of each document, or None for one that is dropped.
    windows: number of windows that a document that stays has before.
    """

    rest: list[list[str] | None]
    windows: int = 0


def expected(
    texts: list[str], size: int, most: int = 1, drop_over: float = 0.9, earlier: int = 0
) -> Expected:
    """Return the rest of texts, one after another, without windows that one that stays has."""
    split = [[word.casefold() for word in _WORD.findall(text)] for text in texts]
    windows = [
        [tuple(text[start : start + size]) for start in range(len(text) - size + 1)]
        for text in split
    ]
    counts = Counter(itertools.chain(*windows))
    stay = set[tuple[str, ...]]()
    found = Expected([])
    for number, text in enumerate(texts):
        firsts: dict[tuple[str, ...], int] = {}
        of_others, own = set[int](), set[int]()
        for start, window in enumerate(windows[number]):
            if counts[window] > most:
                if window in stay:
                    of_others.update(range(start, start + size))
                else:
                    first = firsts.setdefault(window, start)
                    own.update(range(max(start, first + size), start + size))
                    found.windows += first < start
                found.windows += window in stay
        lost, length = len(of_others), len(split[number])
        if number >= earlier and lost and (lost > drop_over * length or lost == length):
            found.rest.append(None)
            continue
        stay.update(windows[number])
        if number >= earlier:
            is_cut = of_others | own
            is_cut -= torn(text, [match.span() for match in _WORD.finditer(text)], is_cut)
            rest = [word for n, word in enumerate(split[number]) if n not in is_cut]
            found.rest.append(rest)
    return found


def torn(text: str, places: list[tuple[int, int]], is_cut: set[int]) -> set[int]:
    """Return words that stay, as another word of their compound does."""
    compounds, compound = list[set[int]](), set[int]()
    for number, (start, _) in enumerate(places):
        between = text[places[number - 1][1] : start] if number else " "
        if between not in {"", ".", "-", "/"}:
            compounds.append(compound)
            compound = set()
        compound.add(number)
    compounds.append(compound)
    return set().union(*(compound for compound in compounds if compound - is_cut))


def corpus(kind: str, count: int, seed: int = 0) -> list[str]:
    """Return texts with passages of each other, with notices, and with repetitions.

    Those of "versions" are one page over time, of which old words go and new ones come.
    """
    draw = random.Random(seed)
    if kind == "versions":
        page = words(seed, 3 * count + 80).split(" ")
        steps = itertools.accumulate(draw.randrange(4) for _ in range(count))
        return [" ".join(page[step : step + draw.randrange(60, 70)]) for step in steps]
    between = "" if kind == "chinese" else " "
    texts = list[str]()
    for number in range(count):
        if kind == "chinese":
            parts = ["".join(chr(draw.randrange(0x4E00, 0x5200)) for _ in range(60)), CHINESE]
        elif kind == "code":
            names = [f"value_{draw.randrange(9)}" for _ in range(8)]
            parts = [f"for item in {name}:\n    total += item.price\n" for name in names]
        else:
            parts = [words(number, 30) + ".", NOTICE.upper() if number % 3 else NOTICE]
        if number % 5 == 1:
            parts.append(between.join([*"一二三四五六七"] * draw.randrange(1, 9)))
        if texts and draw.random() < 0.5:
            other = draw.choice(texts)
            start = draw.randrange(len(other))
            parts.insert(draw.randrange(3), other[start : start + draw.randrange(200)])
        texts.append(between.join(parts))
    return texts


def rest_of(folder: str) -> Iterator[str]:
    """Yield the texts of the files of a folder."""
    for file in sorted(Path(folder).glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            yield json.loads(line)["text"]


def text_at(file: str, line: int) -> str:
    """Return the text of a line of a file."""
    text: str = json.loads(Path(file).read_text("utf-8").splitlines()[line - 1])["text"]
    return text


def listed(output: str) -> list[dict[str, Any]]:
    """Return the list of removed spans."""
    packed = Path(output, "_removed.jsonl.zst").read_bytes()
    raw = zstandard.ZstdDecompressor().stream_reader(packed).read()
    return [json.loads(line) for line in raw.splitlines()]


@pytest.mark.parametrize("kind", ["english", "chinese", "code", "versions"])
@pytest.mark.parametrize(
    ("size", "options"),
    [(10, {}), (3, {"max_repeats": 2}), (25, {"drop_over": 0.3}), (1, {"drop_over": 1.0})],
)
def test_what_a_dictionary_of_all_windows_finds_is_cut(
    kind: str, size: int, options: dict[str, float]
) -> None:
    texts = corpus(kind, 60)
    Path("in").mkdir()
    for shard in range(3):
        lines = [{"n": n, "text": text} for n, text in enumerate(texts)][shard * 20 :][:20]
        write_lines(Path(f"in/{shard}.jsonl"), lines)
    most, drop_over = int(options.get("max_repeats", 1)), options.get("drop_over", 0.9)
    want = expected(texts, size, most, drop_over)
    report = esdedup.clean(
        "in", "out", unit="span", min_words=size, max_repeats=most, drop_over=drop_over
    )
    rest = [[word.casefold() for word in _WORD.findall(text)] for text in rest_of("out")]
    assert rest == [words_left for words_left in want.rest if words_left is not None]
    assert report.removed == want.rest.count(None)
    assert report.spans is not None
    assert (report.spans.spans > 0) == (want.windows > 0)
    assert report.words_kept == sum(map(len, rest))
    # All listed spans are equal to those that they name.
    for span in listed("out"):
        here = slice(span["start"], span["end"])
        there = slice(span["original_start"], span["original_end"])
        of = text_at(span["file"], span["line"])
        original = text_at(span["original_file"], span["original_line"])
        here_words = _WORD.findall(of[here].casefold())
        assert here_words == _WORD.findall(original[there].casefold())
        assert len(here_words) == span["words"]


def test_the_result_depends_on_nothing_but_the_texts() -> None:
    Path("in").mkdir()
    texts = corpus("english", 90)
    for shard in range(3):
        lines = [{"text": text} for text in texts[shard * 30 : shard * 30 + 30]]
        write_lines(Path(f"in/{shard}.jsonl"), lines)
    command = ["clean", "in", "--unit", "span", "--min-words", "8", "--json"]
    whole = run_command(*command, "-o", "whole")
    assert whole.status == 0
    few = Surroundings(sizes=ShareSizes(documents=7))
    assert run_command(*command, "-o", "few", surroundings=few).status == 0
    for options in (["--workers", "2"], ["--max-memory", "193MB"]):
        assert run_command(*command, "-o", options[0], *options).status == 0
    for task in (1, 2):
        assert (
            run_command(*command, "-o", "tasks", "--task", f"{task}/2", "--stage", "sketch").status
            == 0
        )
    assert run_command(*command, "-o", "tasks", "--task", "1/2").status == 0
    last = run_command(*command, "-o", "tasks", "--task", "2/2")
    assert last.json[0] == {**whole.json[0], "output": "tasks"}
    for step in ("Hashing", "Matching", "Cutting", "Writing"):
        killed = killed_at(step)
        assert run_command(*command, "-o", "killed", surroundings=killed).status == 130
    other = run_command(*command, "-o", "killed", "--cut", "lines")
    assert (other.status, "unfinished run with another cut" in other.err) == (2, True)
    assert run_command(*command, "-o", "killed").status == 0
    made = contents(Path("whole"))
    for folder in ("few", "--workers", "--max-memory", "tasks", "killed"):
        ours = contents(Path(folder))
        assert {**ours, "_removed.report.json": b""} == {**made, "_removed.report.json": b""}
    dry = run_command(*command)
    assert dry.json[0] == {**whole.json[0], "output": None}


def test_earlier_texts_keep_what_they_have() -> None:
    texts = corpus("english", 40)
    want = expected(texts, 8, earlier=20)
    write_lines(Path("old.jsonl"), [{"text": text} for text in texts[:20]])
    write_lines(Path("new.jsonl"), [{"text": text} for text in texts[20:]])
    command = ["clean", "--unit", "span", "--min-words", "8", "--json"]
    stay = [words_left for words_left in want.rest if words_left is not None]
    for name, before in (("files", "old.jsonl"), ("index", "a.db"), ("kept", "a.sketches")):
        if name == "index":
            run_command("index", "old.jsonl", "--db", "a.db")
        if name == "kept":
            update = ["-o", "first", "--against", before, "--update", "--drop-over", "1"]
            first = run_command(*command, "old.jsonl", *update, "--max-repeats", "99")
            assert (first.status, "20 documents added" in first.err) == (0, True)
        ended = run_command(*command, "new.jsonl", "-o", name, "--against", before)
        assert ended.status == 0, ended.err
        rest = [[word.casefold() for word in _WORD.findall(text)] for text in rest_of(name)]
        assert rest == stay
    only = run_command(
        *command, "new.jsonl", "-o", "only", "--against", "old.jsonl", "--only-between"
    )
    assert only.json[0]["spans"]["against"] == only.json[0]["spans"]["spans"]
    assert {"original_file": "old.jsonl"}.items() <= listed("only")[0].items()


def test_documents_with_a_run_of_words_of_a_benchmark_are_removed() -> None:
    item = words(1, 20)
    texts = [f"Before. {item} After.", f"{words(2)} {item[:100]}", words(3), words(3)]
    write_lines(Path("quiz.jsonl"), [{"text": item}])
    write_lines(Path("a.jsonl"), [{"text": text} for text in texts])
    run = ["--unit", "span", "--min-words", "13", "--against", "quiz.jsonl", "--only-between"]
    (report,) = run_command("clean", "a.jsonl", "-o", "out", *run, "--drop-over", "0").json
    assert [*rest_of("out")] == texts[1:]
    assert (report["removed"], report["spans"]["against"]) == (1, 1)


@pytest.mark.parametrize(
    ("texts", "rest"),
    [
        # The second and the third are dropped at first: the words of no other stay in the third.
        (["A", "A u", "u"], ["A", "u"]),
        (["A", "A u", "u", "x u y"], ["A", "u", "x y"]),
        (["A", "A u", "u x y z", "u"], ["A", "u x y z"]),
        # What stays of the third, as the second is dropped, is why the fourth is dropped.
        (["A", "A u", "A u v", "u v"], ["A", "u v"]),
        (["A B", "A u", "B u v", "u v w", "v w", "w x"], ["A B", "u v w", "x"]),
        # What two dropped documents have, and no other, is the short rest of both.
        (["A", "A u", "A u"], ["A"]),
        # What a document repeats of itself is nowhere else.
        (["u u u u u u u u u u u u", "u"], ["u"]),
        (["A", "A u u u u u u u"], ["A", "u"]),
    ],
)
def test_what_only_dropped_documents_have_stays_where_it_occurs_next(
    texts: list[str], rest: list[str]
) -> None:
    """A capital is a line of 200 words, and a small letter is one of 10."""
    lines = {
        name: " ".join(f"{name}{n}" for n in range(200 if name.isupper() else 10))
        for name in "ABuvwxyz"
    }
    documents = [{"text": "\n".join(map(lines.__getitem__, text.split()))} for text in texts]
    write_lines(Path("a.jsonl"), documents)
    for cut in ("words", "lines"):
        esdedup.clean("a.jsonl", cut, unit="span", min_words=8, cut=cut)
        assert [text.split() for text in rest_of(cut)] == [
            [word for name in text.split() for word in lines[name].split()] for text in rest
        ]
        dropped = {span["line"] for span in listed(cut) if span["dropped"]}
        assert len(dropped) == len(texts) - len(rest)
        assert not dropped & {span["original_line"] for span in listed(cut)}


class Word(NamedTuple):
    """A word of a text, by their numbers."""

    text: int
    number: int


@dataclass(frozen=True)
class Cleaning:
    """Texts of which passages repeat, and how they are cleaned.

    texts: in their order.
    edges: of the files. The others are compared with the first one.
    settings: of `clean`.
    """

    texts: list[str]
    edges: list[int]
    settings: dict[str, Any]

    def rests(self, folder: Path) -> dict[int, str]:
        """Clean the texts in a folder, and return those that stay, by number."""
        files = [str(folder / name) for name in ("old.jsonl", "x.jsonl", "y.jsonl")]
        for file, (first, last) in zip(files, itertools.pairwise(self.edges), strict=True):
            numbers = range(first, last)
            lines = [{"id": n, "text": self.texts[n], "date": n} for n in numbers]
            write_lines(Path(file), lines)
        output = str(folder / "out")
        esdedup.clean(files[1:], output, unit="span", against=files[0], **self.settings)
        rests = dict(enumerate(self.texts[: self.edges[1]]))
        for out in sorted(folder.glob("out/*.jsonl")):
            records = map(json.loads, out.read_text("utf-8").splitlines())
            rests |= {record["id"]: record["text"] for record in records}
        return rests


@st.composite
def cleanings(draw: st.DrawFn) -> Cleaning:
    """Texts of few passages, so that many are dropped as others have most of their words."""
    passages = [
        [f"{name}{number}" for number in range(draw(st.sampled_from([2, 3, 5, 20])))]
        for name in "abcd"
    ]
    texts = list[str]()
    for _ in range(draw(st.sampled_from([1, 5, 6, 7, 8, 9]))):
        parts = list[str]()
        for passage in draw(st.lists(st.sampled_from(passages), min_size=1, max_size=4)):
            start = draw(st.sampled_from([0, 0, 0, 1, 2]))
            end = draw(st.sampled_from([20, 20, 20, 5, 2]))
            parts.append(" ".join(passage[start:end]))
        texts.append(draw(st.sampled_from([" ", "\n"])).join(parts))
    earlier = draw(st.sampled_from([0, 0, 1, len(texts) // 3]))
    edges = [0, earlier, draw(st.integers(earlier, len(texts))), len(texts)]
    settings = {
        "min_words": draw(st.integers(1, 5)),
        "max_repeats": draw(st.sampled_from([1, 1, 2])),
        "drop_over": draw(st.sampled_from([0.0, 0.3, 0.5, 0.8, 0.9, 1.0])),
        "cut": draw(st.sampled_from(["words", "words", "lines"])),
        "keep": draw(st.sampled_from(["first", "newest:date"])),
        "only_between": draw(st.sampled_from([False, False, False, True])),
    }
    return Cleaning(texts, edges, settings)


@given(cleanings())
def test_what_is_cut_is_in_documents_that_stay(
    tmp_path_factory: pytest.TempPathFactory, cleaning: Cleaning
) -> None:
    folder = tmp_path_factory.mktemp("spans")
    rests, settings = cleaning.rests(folder), cleaning.settings
    split = [text.split() for text in cleaning.texts]
    originals: list[dict[int, Word]] = [{} for _ in split]
    for span in listed(str(folder / "out")):
        number, original = int(span["id"]), int(span["original_id"])
        assert original in rests
        assert span["dropped"] == (number not in rests)
        first = len(cleaning.texts[number][: span["start"]].split())
        there = len(cleaning.texts[original][: span["original_start"]].split())
        for word in range(span["words"]):
            assert split[number][first + word] == split[original][there + word]
            originals[number][first + word] = Word(original, there + word)
    if settings["cut"] != "words":
        return
    for number, removed in enumerate(originals):
        if number in rests:
            # All that is not listed stays.
            stays = [word for n, word in enumerate(split[number]) if n not in removed]
            assert rests[number].split() == stays
        else:
            short = (1 - settings["drop_over"]) * len(split[number])
            assert removed
            assert len(split[number]) - len(removed) <= short
        for origin in removed.values():
            # If the original loses a word too, this is listed as well, and leads to another one.
            seen = set[Word]()
            while origin.number in originals[origin.text]:
                assert origin not in seen
                seen.add(origin)
                origin = originals[origin.text][origin.number]
            assert origin.text in rests
    if settings["keep"] == "first" and not settings["only_between"]:
        names = {"size": "min_words", "most": "max_repeats", "drop_over": "drop_over"}
        options = {name: settings[setting] for name, setting in names.items()}
        want = expected(cleaning.texts, earlier=cleaning.edges[1], **options)
        later = range(cleaning.edges[1], len(split))
        assert [rests[n].split() if n in rests else None for n in later] == want.rest


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["english", "chinese", "code", "versions"])
def test_large_corpora_are_cut_as_a_dictionary_of_all_windows_cuts_them(kind: str) -> None:
    texts = corpus(kind, 5_000, seed=1)
    write_lines(Path("a.jsonl"), [{"text": text} for text in texts])
    want = expected(texts, 12)
    esdedup.clean("a.jsonl", "out", unit="span", min_words=12, max_memory="193MB")
    rest = [[word.casefold() for word in _WORD.findall(text)] for text in rest_of("out")]
    assert rest == [words_left for words_left in want.rest if words_left is not None]


def test_whole_sentences_or_lines_are_cut_if_requested() -> None:
    first = "One two three four. Five six seven eight! Nine ten\neleven twelve."
    second = "Other four. Five six seven eight! Nine ten\neleven twelve. Three four"
    write_lines(Path("a.jsonl"), [{"text": first}, {"text": second}])
    for cut, rest in (
        ("words", "Other Three four"),
        ("sentences", "Other four. Three four"),
        ("lines", second),
    ):
        esdedup.clean("a.jsonl", cut, unit="span", min_words=4, cut=cut)  # type: ignore[arg-type]
        assert [*rest_of(cut)] == [first, rest]


@pytest.mark.parametrize(
    ("first", "second", "rest"),
    [
        ("a x-1 two three 6.12 b", "c x-1 two three 6.13 d", "c 6.13 d"),
        ("a y/1 two three four b", "c x/1 two three four d", "c x/1 d"),
        (
            "小写字母都被转换为大写。如果指定了，则",
            "标题被转换为大写。如果指定了，或",
            "标题被转换为大写。或",
        ),
        ("没有标点的一句话", "没有标点的一句诗", "没有标点的一句诗"),
    ],
)
def test_compounds_and_words_of_scripts_without_blanks_stay_whole(
    first: str, second: str, rest: str
) -> None:
    write_lines(Path("a.jsonl"), [{"text": first}, {"text": second}])
    report = esdedup.clean("a.jsonl", "out", unit="span", min_words=4)
    assert [*rest_of("out")] == [first, rest]
    assert (report.words_removed > 0) == (rest != second)


def test_the_document_that_keeps_a_span_is_that_of_the_rule() -> None:
    write_lines(
        Path("a.jsonl"),
        [{"text": f"Short. {NOTICE}", "date": 1}, {"text": f"{words(1)}. {NOTICE}", "date": 2}],
    )
    esdedup.clean("a.jsonl", "out", unit="span", min_words=9, keep="newest:date", drop_over=1)
    assert [*rest_of("out")] == ["Short.", f"{words(1)}. {NOTICE}"]


def test_all_formats_are_written_as_they_came() -> None:
    pa = require_pyarrow()
    texts = [f"{words(1)}. {NOTICE}", f"{words(2)}. {NOTICE}", words(3)]
    pa.parquet.write_table(pa.table({"text": texts, "n": [1, 2, 3]}), "a.parquet")
    Path("in").mkdir()
    for number, text in enumerate(texts):
        Path(f"in/{number}.txt").write_text(text, "utf-8")
    rest = [texts[0], f"{words(2)}.", texts[2]]
    report = esdedup.clean("a.parquet", "tables", unit="span", min_words=9)
    assert pa.parquet.read_table("tables/a.parquet")["text"].to_pylist() == rest
    assert (report.documents, report.kept, report.removed) == (3, 3, 0)
    assert report.bytes_removed == len(NOTICE) + 1
    esdedup.clean("in", "files", unit="span", min_words=9, format="file")
    assert [Path(f"files/{n}.txt").read_text("utf-8") for n in range(3)] == rest


@pytest.mark.parametrize(
    ("name", "delimiter", "options"),
    [("a.csv", ",", {}), ("a.csv", ";", {"delimiter": ";"}), ("a.tsv", "\t", {})],
)
def test_rows_of_csv_are_rewritten_field_by_field(
    name: str, delimiter: str, options: dict[str, Any]
) -> None:
    notice = NOTICE.replace(" ", f' "it"{delimiter}\r\n', 1)
    quoted = '"{}"'.format(f"{words(2)}. {notice}".replace('"', '""'))
    rows = [
        ["n", '"the text"', "z"],
        ["1", '"{}"'.format(notice.replace('"', '""')), '"a ""b"""'],
        ["2", quoted, " plain, or not".replace(",", "")],
        ["", words(3), '""'],
    ]
    lines = [delimiter.join(row) + "\r\n" for row in rows]
    Path(name).write_bytes("".join([*lines[:3], "\r\n", *lines[3:]]).encode())
    report = esdedup.clean(
        name, "out", unit="span", min_words=9, text_field="the text", drop_over=1, **options
    )
    assert report.spans is not None
    assert (report.spans.spans, report.spans.changed) == (1, 1)
    rest = lines[2].replace(quoted, f'"{words(2)}."')
    expected = "".join([*lines[:2], rest, "\r\n", *lines[3:]])
    assert Path("out", name).read_bytes() == expected.encode()


def test_memory_of_writing_does_not_grow_with_the_texts_that_change() -> None:
    # Long words, which take less time.
    documents = [
        " ".join(f"{'long' * 20}{number}x{word}" for word in range(60)) for number in range(1_200)
    ]
    write_lines(Path("a.jsonl"), [{"text": f"{text}. {NOTICE}"} for text in documents])
    size = Path("a.jsonl").stat().st_size
    before, peaks = list[int](), list[int]()

    def measure(title: str, done: int, _: int) -> None:
        current, peak = tracemalloc.get_traced_memory()
        if title == "Writing":
            peaks.append(peak)
            if not done:
                before.append(current)
        tracemalloc.reset_peak()

    tracemalloc.start()
    try:
        report = esdedup.clean("a.jsonl", "out", unit="span", min_words=9, progress=measure)
    finally:
        tracemalloc.stop()
    assert report.spans is not None
    assert report.spans.changed == 1_199
    assert max(peaks[1:]) - before[0] < size
    assert [*rest_of("out")] == [
        f"{documents[0]}. {NOTICE}",
        *(f"{text}." for text in documents[1:]),
    ]


def test_what_does_not_fit_is_refused() -> None:
    write_lines(Path("a.jsonl"), [{"text": "a"}])
    for options, said in (
        (["--unit", "line", "--cut", "lines"], "--cut requires --unit span"),
        (["--max-repeats", "2"], "--max-repeats requires --unit span"),
        (["--unit", "span", "--exact"], "--exact can't be combined with --unit"),
        (["--unit", "span", "--collect", "n"], "--collect can't be combined with --unit"),
        (["--unit", "span", "--engine", "spark"], "--engine can't be combined with --unit"),
        (["--unit", "span", "--only-between"], "--only-between requires --against"),
        (["--unit", "span", "--max-memory", "1MB"], "--max-memory: 1 documents require"),
        (["--unit", "span", "--drop-over", "2"], "--drop-over"),
    ):
        refused = run_command("clean", "a.jsonl", "-o", "x", *options)
        assert (refused.status, said in refused.err) == (2, True), refused.err
    for settings, said in (
        ({"unit": "span", "exact": True}, "can't be combined with `unit`"),
        ({"cut": "lines"}, "require the `unit` 'span'"),
        ({"unit": "span", "cut": "pages"}, "use 'words', 'sentences' or 'lines'"),
        ({"unit": "span", "max_repeats": 0}, "max_repeats 0: use 1 or more"),
    ):
        with pytest.raises(esdedup.UsageError, match=re.escape(said)):
            esdedup.clean("a.jsonl", "x", **settings)
    assert not Path("x").exists()


_PIECES = st.sampled_from(["ab", "cd\u200b", "d\u0301", "中", "文", " ", "++", ", ", "\n"])
_TOKEN = re.compile("[中文]|[a-d\u200b\u0301]+|[+]+")


@given(st.lists(_PIECES, max_size=30), st.data())
def test_no_words_are_joined_where_others_are_cut(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces)
    places = [match.span() for match in _TOKEN.finditer(text)]
    is_cut = [data.draw(st.booleans()) for _ in places]
    spans = [span for span, cut in zip(places, is_cut, strict=True) if cut]
    stay = [text[slice(*span)] for span, cut in zip(places, is_cut, strict=True) if not cut]
    assert _TOKEN.findall(without_words(text, spans)) == stay
