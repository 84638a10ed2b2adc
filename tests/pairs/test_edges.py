"""Groups by edges: pairs of ids that another program found."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.groups.groups import Grouping, Groups, Method, find_groups
from esdedup.pairing import edges as module
from esdedup.pairing import scan as work_folder
from esdedup.pairing.edges import EdgeCounts, Edges
from esdedup.pairing.scan import WorkFolder
from esdedup.search import buckets
from esdedup.sketch.limits import Limits
from esdedup.text.hashing import xxh3
from tests.helpers import reference
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.places import local
from tools.docs import ROOT

ARTICLES = str(ROOT / "examples" / "articles.jsonl")
METHODS = pytest.mark.parametrize("method", ["leader", "components"])
WORDS = [words(seed, 12).split() for seed in range(3)]


def text_of(kind: int, changed: int) -> str:
    """Texts of one kind are near each other by the words that were changed, from the end on."""
    return " ".join([*WORDS[kind][: 12 - changed], *(f"x{kind}y{n}" for n in range(changed))])


def representatives(groups: Groups) -> dict[str, str]:
    rows = zip(groups.ids, groups.representative.tolist(), strict=True)
    return {id: groups.ids[row] for id, row in rows}


def similarity(texts: dict[str, str], pair: tuple[str, str]) -> float:
    one, other = (
        set(reference.shingles(reference.words(reference.normalise(texts[id])), 3, 0))
        for id in pair
    )
    return reference.jaccard(one, other)


ids = st.integers(0, 11).map("d{}".format)
texts_by_id = st.lists(
    st.builds(text_of, st.integers(0, 2), st.integers(0, 4)), min_size=12, max_size=12
).map(lambda texts: {f"d{number}": text for number, text in enumerate(texts)})


@METHODS
@given(
    texts=texts_by_id,
    pairs=st.lists(st.tuples(ids, ids), max_size=40),
    threshold=st.sampled_from([0.4, 0.6, 1.0]),
    block=st.sampled_from([1, 3, 1 << 22]),
    weak=st.booleans(),
)
def test_groups_are_those_of_the_similar_edges(
    texts: dict[str, str],
    pairs: list[tuple[str, str]],
    threshold: float,
    block: int,
    weak: bool,
    method: Method,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    every = [*pairs, *(pair[::-1] for pair in pairs[::3]), ("d0", "other"), ("d1", "d1")]
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(buckets, "PAIRS_A_BLOCK", block))
        stack.enter_context(mock.patch.object(module, "_AT_ONCE", 7))
        if weak:
            # Hashes that ids share add candidates, and take none away.
            weakened = lambda ids, seed: xxh3(ids, seed) % np.uint64(5)  # noqa: E731
            stack.enter_context(mock.patch.object(module, "xxh3", weakened))
        index = stack.enter_context(esdedup.open(tmp_path_factory.mktemp("edges") / "a.db"))
        index.add([{"id": id, "text": text} for id, text in texts.items()])
        if not any(one != other for one, other in pairs):
            pairs.append(("d2", "d3"))
            every.append(("d2", "d3"))
        found = index.groups(edges=iter(every), threshold=threshold, method=method)
    similar = {pair for pair in pairs if similarity(texts, pair) >= threshold}
    expected = reference.groups_of_edges(texts, similar, method)
    if not weak:
        assert representatives(found) == expected
        assert found.edges is not None
        assert (found.edges.given, found.edges.unknown) == (len(every), 1)
        assert found.edges.loops == 1 + sum(one == other for one, other in every[:-2])
        assert found.edges.distinct == len(
            {frozenset(pair) for pair in pairs if len(set(pair)) > 1}
        )
    elif method == "components":
        heads = representatives(found)
        assert all(heads[one] == heads[other] for one, other in similar)
    for group in found:
        for member in group.members:
            exact = similarity(texts, (group.representative, member.id))
            assert member.similarity == pytest.approx(exact)
            assert method == "components" or exact >= threshold
    assert (found.recall, found.basis.read, found.basis.bands) == (None, "edges", None)


@pytest.mark.on_every_server
def test_edges_of_pairs_make_the_groups_that_are_made_without_edges(
    target: list[str], tmp_path: Path
) -> None:
    assert run_command("index", ARTICLES, *target).status == 0
    lines = run_command("pairs", *target, "--threshold", "0.5", "--json").out.splitlines()
    random.Random(1).shuffle(lines)
    (tmp_path / "edges.jsonl").write_text("".join(f"{line}\n" for line in lines))
    for method in ("leader", "components"):
        options = [*target, "--threshold", "0.6", "--method", method, "--work", f"{tmp_path}/work"]
        given = run_command("group", *options, "--edges", f"{tmp_path}/edges.jsonl")
        assert given.status == 0, given.err
        assert given.json[0]["edges"]["distinct"] == len(lines)
        assert (given.json[0]["expected_recall"], given.json[0]["read"]) == (None, "edges")
        assert "How many similar pairs are missing is not known" in given.err
        plain = run_command("group", *options)
        same = ("documents", "groups", "duplicates", "sizes")
        assert [plain.json[0][name] for name in same] == [given.json[0][name] for name in same]
        assert plain.json[0]["duplicates"] > 0
        # Also the similarities that were written are those.
        assert plain.json[0]["written"] == 0
        assert 0.99 < plain.json[0]["expected_recall"] < 1
        assert "edges" not in plain.json[0]


def test_edges_come_from_the_tables_that_pairs_writes(tmp_path: Path) -> None:
    place = ["--db", str(tmp_path / "index.db")]
    assert run_command("index", ARTICLES, *place).status == 0
    files = [str(tmp_path / name) for name in ("edges.jsonl", "edges.parquet")]
    found = []
    for file in files:
        assert run_command("pairs", *place, "--threshold", "0.5", "--output", file).status == 0
        found.append(run_command("group", *place, "--dry-run", "--edges", file).json[0])
    assert found[0]["edges"]["distinct"] > 10
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "lines",
    ["", '{"left": 1.0, "right": 2.0}\n', "left,right\na,b\n"],
    ids=["empty", "floats", "csv"],
)
def test_files_without_an_edge_take_no_group_away(tmp_path: Path, lines: str) -> None:
    place = ["--db", str(tmp_path / "index.db")]
    assert run_command("index", ARTICLES, *place).status == 0
    written = run_command("group", *place).json[0]["written"]
    (tmp_path / "edges.jsonl").write_text(lines)
    ran = run_command("group", *place, "--edges", str(tmp_path / "edges.jsonl"))
    assert (ran.status, ran.out) == (2, "")
    assert "hold no pair of ids: nothing was changed" in ran.err
    again = run_command("group", *place).json[0]
    assert (again["written"], again["unchanged"]) == (0, again["documents"])
    assert written > 0


def test_edges_that_are_refused_leave_no_work(tmp_path: Path) -> None:
    place = ["--db", str(tmp_path / "index.db")]
    assert run_command("index", ARTICLES, *place).status == 0
    write_lines(tmp_path / "wrong.jsonl", [{"left": "EN-08", "right": "EN-09"}])
    write_lines(tmp_path / "right.jsonl", [{"left": "en-08", "right": "en-09"}])
    assert run_command("group", *place, "--edges", str(tmp_path / "wrong.jsonl")).status == 2
    ran = run_command("group", *place, "--edges", str(tmp_path / "right.jsonl"))
    assert (ran.status, ran.json[0]["edges"]["distinct"]) == (0, 1)


def test_the_file_of_edges_is_not_written_over(tmp_path: Path) -> None:
    file = str(tmp_path / "edges.jsonl")
    write_lines(Path(file), [{"left": "a", "right": "b"}])
    ran = run_command("group", "--db", f"{tmp_path}/a.db", "--edges", file, "--output", file)
    assert (ran.status, "the command reads this file" in ran.err) == (2, True)
    assert json.loads(Path(file).read_text()) == {"left": "a", "right": "b"}


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with esdedup.open(tmp_path / "a.db") as index:
        texts = {
            "a": text_of(0, 0), "a2": text_of(0, 0), "b": text_of(0, 1), "c": text_of(0, 4),
            "z": text_of(1, 0), "7": text_of(1, 1), "empty": "", "marks": "!", "marks2": "!",
        }  # fmt: skip
        index.add([{"id": id, "text": text} for id, text in texts.items()])
        yield index


def test_edges_are_counted(index: esdedup.Index) -> None:
    pairs = [
        ("a", "b"), ("b", "a"), ("a2", "b"), ("a", "a2"), ("c", "a"), ("a", "a"), ("x", "x"),
        ("a", "x"), ("x", "y"), ("marks", "marks2"), ("marks", "a"), ("empty", "b"),
    ]  # fmt: skip
    found = index.groups(edges=pairs)
    # Below are c with a, and two texts without words.
    assert found.edges == EdgeCounts(given=12, loops=1, unknown=3, distinct=7, below=3)
    assert found.duplicates == 3
    # Numbers are ids too, and equal texts need no edge.
    found = index.groups(edges=[(7, "z")])
    assert {group.representative for group in found} == {"7", "a", "marks"}
    read = Edges.of(pairs)
    assert len(read) == 12
    report = index.group(edges=read, threshold=0.9, collapse_ready=True)
    assert (report.groups.duplicates, report.marks.written) == (2, 9)
    assert index.group(edges=read, threshold=0.5, method="components").groups.duplicates > 2


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ("ab", "edges: give a list"),
        (["ab"], "edge 1: give two ids, not a str"),
        ([("a", "b"), ("a",)], "edge 2: give two ids"),
        ([{"left": "a", "right": "b"}], "edge 1: give two ids"),
        ([("a", 1.5)], "edge 1, right: use text or a whole number, not float"),
        ([(None, "a")], "edge 1, left: use text or a whole number, not NoneType"),
        ([("x", "a"), ("b", "b")], "none of the 2 edges has two ids of documents with tokens"),
        ([("b", "b")], "none of the 1 edges"),
        ([], "none of the 0 edges"),
    ],
)
def test_edges_that_are_none(edges: Any, said: str, index: esdedup.Index) -> None:
    index.group()
    with pytest.raises(esdedup.UsageError, match=said):
        index.group(edges=edges)
    assert index.group().marks.written == 0


@local
def test_records_without_two_ids_are_left_out_and_the_rest_goes_on(
    target: list[str], tmp_path: Path
) -> None:
    write_lines(tmp_path / "a.jsonl", [{"id": n, "text": text_of(n % 2, 0)} for n in range(6)])
    near = [{"id": f"near{n}", "text": text_of(n, 1)} for n in range(2)]
    write_lines(tmp_path / "b.jsonl", near)
    run_command("index", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), *target)
    write_lines(
        tmp_path / "edges.jsonl",
        [
            {"left": 0, "right": "near0", "similarity": 0.1},
            {"left": 0}, {"left": 0, "right": 0.5}, {"left": "", "right": "0"}, "{broken",
        ],
    )  # fmt: skip
    with gzip.open(tmp_path / "more.csv.gz", "wt") as file:
        file.write("right,left,value\n1,near1,x\n1\n")
    with contextlib.chdir(tmp_path):
        ran = run_command(
            "group",
            *target,
            "--edges",
            "edges.jsonl",
            "--edges",
            "more.csv.gz",
            "--dead-letter",
            "bad",
        )
    assert ran.status == 1
    assert "5 records without two ids: see bad" in ran.err
    answer = ran.json[0]
    assert (answer["groups"], answer["duplicates"], answer["written"]) == (2, 6, 8)
    assert answer["edges"] == {
        "given": 2, "loops": 0, "unknown": 0, "distinct": 2, "below": 0, "failed": 5
    }  # fmt: skip
    bad = [json.loads(line) for line in (tmp_path / "bad").read_text().splitlines()]
    assert [(each["file"], each["line"]) for each in bad] == [
        ("edges.jsonl", 2), ("edges.jsonl", 3), ("edges.jsonl", 4), ("edges.jsonl", 5),
        ("more.csv.gz", 3),
    ]  # fmt: skip
    assert bad[0]["reason"] == "the id field 'right' is missing"
    # Of standard input, with other names; and names that no record has.
    table = "one\tother\n0\tnear0\n"
    given = ["group", *target, "--edges", "-", "--format", "tsv"]
    ran = run_command(*given, "--edge-fields", "one,other", input=table)
    assert (ran.status, ran.json[0]["edges"]["distinct"]) == (0, 1)
    ran = run_command(*given, input=table)
    assert ran.status == 2
    assert "name the fields of the two ids by --edge-fields. There are: one, other" in ran.err


@METHODS
def test_a_run_that_was_killed_goes_on_with_the_same_edges_only(
    method: Method, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "PAIRS_A_BLOCK", 3)
    monkeypatch.setattr(work_folder, "_SECONDS_BETWEEN", 0.0)
    texts = {f"d{n}": text_of(n % 3, n % 5) for n in range(40)}
    pairs = [(f"d{a}", f"d{b}") for a in range(40) for b in range(a) if (a * b) % 3]
    grouping, edges = Grouping(Limits(threshold=0.5), method), Edges.of(pairs)
    work, steps, kills = tmp_path / "work", 0, 0

    class Killed(Exception):
        pass

    def on_step(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps % 3 == 0:
            raise Killed

    with esdedup.open(tmp_path / "a.db") as index:
        index.add([{"id": id, "text": text} for id, text in texts.items()])
        plain = find_groups(index.store, index.meta, grouping, edges=edges)
        while True:
            try:
                with WorkFolder.at(work) as folder:
                    store = index.store, index.meta
                    found = find_groups(*store, grouping, edges=edges, work=folder, on_step=on_step)
                break
            except Killed:
                kills += 1
                for other in (None, pairs[1:]):
                    with pytest.raises(esdedup.UsageError, match="unfinished work of another"):
                        index.groups(edges=other, work=work, threshold=0.5, method=method)
    assert kills > 2
    assert representatives(found) == representatives(plain)
    assert np.array_equal(found.value, plain.value, equal_nan=True)
    assert found.edges == plain.edges


@local
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--exact"], "--exact can't be combined with edges"),
        (["--sketch", "simhash"], "--sketch can't be combined with edges"),
        (["--recall", "0.9"], "--recall can't be combined with edges"),
        (["--max-per-bucket", "9"], "--max-per-bucket can't be combined with edges"),
        (["--edge-fields", "left"], "--edge-fields left: name two, as left,right"),
        (["--edges", "edges.jsonl"], "name the same file only once"),
        (["--edges", "none.csv"], "there is no such file"),
    ],
)
def test_options_that_do_not_go_with_edges(
    options: list[str], said: str, target: list[str], tmp_path: Path
) -> None:
    (tmp_path / "edges.jsonl").touch()
    with contextlib.chdir(tmp_path):
        ran = run_command("group", *target, "--edges", "edges.jsonl", *options)
        alone = run_command("group", *target, "--format", "csv")
    assert (ran.status, alone.status) == (2, 2)
    assert said in ran.err
    assert "--edge-fields and --format require --edges" in alone.err
