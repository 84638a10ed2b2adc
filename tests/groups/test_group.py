"""Groups of near-duplicates of a whole index, and how they are written into it."""

import itertools
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

import esdedup
from esdedup.arguments import from_settings
from esdedup.compare.resources import DEFAULT_MEMORY
from esdedup.groups.groups import Grouping, Groups, find_groups
from esdedup.groups.marks import mark_groups
from esdedup.models import natural
from esdedup.runs.run import Run, ShareSizes
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.text.jaccard import jaccard
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.indices import fill_index, open_index
from tests.helpers.places import Place
from tests.helpers.reference import groups_of_edges
from tests.helpers.wrapped import wrapped

# Groups on made-up texts


def chain(length: int, step: int, seed: int, count: int = 120) -> list[str]:
    """Texts of which each differs from the one before by a few words more."""
    now = words(seed, count).split()
    made = []
    for number in range(length):
        made.append(" ".join(now))
        for at in range(step):
            now[(number * step + at) % count] = f"x{seed}y{number}z{at}"
    return made


def planted(groups: int, seed: int = 5) -> dict[str, str]:
    """Texts by id: groups of one to six near-duplicates, in any order, in two languages."""
    rng = random.Random(seed)
    texts = []
    for number in range(groups):
        text = words(1000 * seed + number, 60)
        if number % 3 == 0:
            han = "".join(chr(rng.randint(0x4E00, 0x9FA0)) for _ in range(120))
            text = han[:50] + "，" + han[50:] + "。"
        texts.append(text)
        for _ in range(rng.choice([0, 0, 1, 2, 5])):
            edits = rng.randint(0, 2)
            copy = list(text) if "，" in text else text.split(" ")
            for _ in range(edits):
                copy[rng.randrange(len(copy))] = rng.choice(["某", "new", "另"])
            texts.append(("" if "，" in text else " ").join(copy))
    rng.shuffle(texts)
    return {f"d{number}": text for number, text in enumerate(texts)}


def truth(texts: dict[str, str], threshold: float) -> dict[tuple[str, str], float]:
    """All pairs at or over a threshold, whatever tokens they share."""
    ids = list(texts)
    sets = shingle_sets(list(texts.values()), esdedup.Scheme())
    a, b = np.triu_indices(len(ids), 1)
    values = jaccard(sets, a, b)
    return {
        (ids[i], ids[j]): value
        for i, j, value in zip(a.tolist(), b.tolist(), values.tolist(), strict=True)
        if value >= threshold
    }


def partition_of(groups: Groups) -> dict[str, str]:
    return {
        id: groups.ids[row]
        for id, row in zip(groups.ids, groups.representative.tolist(), strict=True)
    }


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """In natural order of their ids."""
    made = planted(150) | {
        f"chain-{seed}-{number}": text
        for seed in range(3)
        for number, text in enumerate(chain(12, 2, seed))
    }
    return {id: made[id] for id in sorted(made, key=natural)}


@pytest.fixture(scope="module")
def pairs(texts: dict[str, str]) -> dict[tuple[str, str], float]:
    return truth(texts, 0.8)


@pytest.fixture(scope="module")
def stored(texts: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("clusters") / "a.db"
    fill_index(file, texts)
    return file


@pytest.mark.parametrize("method", ["components", "leader"])
@pytest.mark.parametrize("memory", [DEFAULT_MEMORY, 25_000])
def test_groups_are_those_of_all_pairs(
    stored: Path,
    texts: dict[str, str],
    pairs: dict[tuple[str, str], float],
    method: Any,
    memory: int,
) -> None:
    compared: list[int] = []

    def on_step(name: str, done: int, _: int) -> None:
        compared.extend([done] if name == "Comparing" else [])

    with esdedup.open(stored) as index:
        grouping = Grouping(method=method)
        found = find_groups(index.store, index.meta, grouping, on_step=on_step, memory=memory)
        assert partition_of(index.groups(method=method)) == partition_of(found)
    # With little memory, some 50 pairs are compared at once.
    assert (len(compared) > 3) == (memory < DEFAULT_MEMORY)
    assert partition_of(found) == groups_of_edges(texts, pairs, method)
    assert found.capped.buckets == 0
    for group in found:
        for member in group.members:
            pair = (group.representative, member.id)
            known = pairs.get(pair, pairs.get(pair[::-1]))
            assert member.similarity == (known or pytest.approx(0.5, abs=0.3))
            assert known is not None or method == "components"


@pytest.mark.parametrize("method", ["components", "leader"])
@pytest.mark.parametrize("distance", [None, 3, 7])
def test_groups_by_hamming_distance(
    stored: Path, texts: dict[str, str], method: Any, distance: int | None
) -> None:
    prints = sketch(list(texts.values()), esdedup.Scheme()).values["simhash"]
    numbers = dict(zip(texts, prints[:, 0].tolist(), strict=True))
    near = {
        (a, b): -float((numbers[a] ^ numbers[b]).bit_count())
        for a, b in itertools.combinations(texts, 2)
        if (numbers[a] ^ numbers[b]).bit_count() <= (distance or 3)
    }
    with esdedup.open(stored) as index:
        found = index.groups(sketch="simhash", distance=distance, method=method)
    assert partition_of(found) == groups_of_edges(texts, near, method)
    assert found.grouping.limits.distance == (distance or 3)
    for group in found:
        for member in group.members:
            apart = (numbers[group.representative] ^ numbers[member.id]).bit_count()
            assert (member.distance, member.similarity) == (apart, None)


def test_equal_texts_are_one_row_also_those_without_words(tmp_path: Path) -> None:
    equal = [{"id": f"e{number}", "text": "同样的文字，同样的文字 Same"} for number in range(3_000)]
    empty = [{"id": f"x{number}", "text": text} for number, text in enumerate(["", "", "!", "!"])]
    with open_index(tmp_path / "a.db", [*equal, *empty]) as index:
        every: list[dict[str, Any]] = [
            {}, {"method": "components"}, {"sketch": "simhash"}, {"exact": True}
        ]  # fmt: skip
        for options in every:
            group, wordless = index.groups(**options)
            assert (group.representative, len(group.members)) == ("e0", 2_999)
            assert (wordless.representative, [each.id for each in wordless.members]) == (
                "x2", ["x3"]
            )  # fmt: skip
            assert index.groups(**options).capped.buckets == 0


def test_exact_groups_with_fingerprints_alone(tmp_path: Path) -> None:
    with open_index(
        tmp_path / "a.db",
        [{"id": f"{n}", "text": text} for n, text in enumerate(["同", "同", "", ""])],
        scheme=esdedup.Scheme([esdedup.SimHash()]),
    ) as index:
        (group,) = index.groups(exact=True)
    assert (group.representative, [each.id for each in group.members]) == ("0", ["1"])


def test_a_bucket_that_is_cut_short_is_told_and_still_joined(tmp_path: Path) -> None:
    base = words(3, 200).split()
    texts = [" ".join([*base[:at], f"v{at}", *base[at + 1 :]]) for at in range(150)]
    with open_index(
        tmp_path / "a.db", [{"id": str(at), "text": text} for at, text in enumerate(texts)]
    ) as index:
        (group,) = index.groups(method="components", max_per_bucket=5)
        assert len(group.members) == 149
        cut = index.groups(method="components", max_per_bucket=5).capped
        assert cut.buckets > 0
        assert 5 < cut.largest <= 150
        found = index.pairs(threshold=0.8, max_per_bucket=5)
        assert (found.capped, found.recall) == (cut, None)
        assert 149 <= len(found) < 150 * 149 // 2
        assert len(index.pairs(threshold=0.8)) == 150 * 149 // 2
    ran = run_command("pairs", "--db", str(tmp_path / "a.db"), "--max-per-bucket", "5")
    assert "hold more than 5 documents" in ran.err
    assert ran.status == 0


# Written into an index

ALONE = (None,) * 4
"""The marks of a document without a group."""


def run(place: Place, *arguments: str) -> dict[str, Any]:
    return place.run(*arguments, status=0).json[-1]


def marks(place: Place) -> dict[str, tuple[Any, ...]]:
    names = ("group", "original", "similarity", "distance")
    with open_index(place) as index:
        ids = [one.id for batch in index.store.scan([], index.meta) for one in batch]
        return {
            one.id: tuple((one.source["esdedup"]).get(name) for name in names)
            for one in index.store.get(ids)
        }


def add(place: Place, texts: dict[str, str]) -> None:
    fill_index(place, [{"id": id, "text": text, "n": 1} for id, text in texts.items()])


@pytest.mark.on_every_server
def test_documents_of_groups_get_them_and_others_lose_theirs(
    place: Place, texts: dict[str, str], pairs: dict[tuple[str, str], float]
) -> None:
    add(place, texts)
    assert "written" not in run(place, "group", "--dry-run")
    assert set(marks(place).values()) == {ALONE}
    expected = groups_of_edges(texts, pairs, "leader")
    sizes = Counter(expected.values())
    grouped = sum(size for size in sizes.values() if size > 1)
    alone = len(texts) - grouped
    for written in (grouped, 0):
        answer = run(place, "group")
        assert (answer["written"], answer["unchanged"]) == (written, len(texts) - written)
    for id, (group, original, similarity, distance) in marks(place).items():
        head = expected[id]
        assert group == (head if sizes[head] > 1 else None)
        assert original == (None if head == id else head)
        assert similarity == (None if head == id else pairs.get((head, id), pairs.get((id, head))))
        assert distance is None
    # By another rule and metric, the old marks go.
    run(place, "group", "--sketch", "simhash", "--keep", "longest")
    found = marks(place)
    assert {mark[2] for mark in found.values()} == {None}
    assert all((mark[1] is None) == (mark[3] is None) for mark in found.values())
    assert ALONE in found.values()
    every = run(place, "group", "--collapse-ready")
    assert every["written"] + every["unchanged"] == len(texts)
    assert {id: mark[0] for id, mark in marks(place).items()} == expected
    assert run(place, "group", "--collapse-ready")["written"] == 0
    assert run(place, "group")["written"] == alone
    assert [*marks(place).values()].count(ALONE) == alone
    with open_index(place) as index:
        assert {document.source["n"] for document in index.store.get(list(texts))} == {1}
    assert not list(Path().glob("*.group"))


@pytest.mark.parametrize("place", ["local", "elasticsearch"], indirect=True)
def test_only_documents_whose_marks_differ_are_read_again(place: Place) -> None:
    texts = planted(30)
    add(place, texts)
    read: list[str] = []
    with open_index(place) as unwrapped:

        def holding(ids: Any, *arguments: Any, **options: Any) -> Any:
            read.extend(ids)
            return unwrapped.store.hold(ids, *arguments, **options)

        index = wrapped(unwrapped, hold=holding)
        first = index.group()
        grouped = sum(len(group.members) + 1 for group in first.groups)
        assert (first.marks.written, len(read)) == (grouped, grouped)
        read.clear()
        assert (index.group().marks.unchanged, read) == (len(texts), [])
        # A document that gets a group from an ingest policy, or of another text, is alone.
        index.add([{"id": "new", "text": words(77, 60)}], on_duplicate="mark")
        member = next(iter(first.groups)).members[-1].id
        index.update([{"id": member, "text": words(78, 60)}])
        assert marks(place)["new"][0] == "new"
        read.clear()
        assert index.group().marks.written == 2
        assert {*read} == {"new", member}
        index.close()
    assert marks(place)["new"] == marks(place)[member] == ALONE


def test_a_document_that_changed_meanwhile_is_left_as_it_is(
    place: Place, texts: dict[str, str]
) -> None:
    add(place, texts)
    with open_index(place) as index:
        found = index.groups()
        (first, second, *_) = found
        changed, gone, touched = first.members[0].id, first.members[1].id, second.members[0].id
        index.update([{"id": changed, "text": "entirely another text now"}])
        index.update([{"id": touched, "n": 2}])
        index.delete([gone])
        report = mark_groups(index.store, index.meta, found)
    grouped = sum(len(group.members) + 1 for group in found)
    assert (report.written, report.stale, report.failures) == (grouped - 2, 2, [])
    assert report.read == report.written + report.stale + report.unchanged == len(texts)
    after = marks(place)
    assert after[changed][0] in (None, changed)
    assert gone not in after
    assert after[touched][0] == second.representative


# Killed and resumed


@pytest.mark.parametrize(
    ("method", "recall", "read"),
    [("components", 0.9, "tokens"), ("leader", None, "tokens"), ("leader", 0.9999999, "texts")],
)
def test_a_run_that_was_killed_goes_on_to_the_same_groups(
    texts: dict[str, str],
    method: Any,
    recall: float | None,
    read: str,
    tmp_path: Path,
) -> None:
    place = Place(tmp_path / "a.db", "documents")
    add(place, texts)
    work, kills = tmp_path / "work", 0

    steps: list[str] = []

    class Killed(Exception):
        pass

    def on_step(name: str, done: int, total: int) -> None:
        # In the second share that a run reads, and once in the comparison.
        steps.append(name)
        if steps.count(name) == 4 and "compared" not in steps:
            steps[:] = ["compared"] if name == "Comparing" else []
            raise Killed

    grouping = from_settings(Grouping, {"method": method, "recall": recall})
    with open_index(place) as index:
        plain = index.groups(grouping=grouping)
        assert plain.basis.read == read
        while True:
            try:
                with Run.at(work, ShareSizes(documents=40)) as run:
                    found = find_groups(
                        index.store, index.meta, grouping, run, on_step, memory=50_000
                    )
                break
            except Killed:
                kills += 1
                assert (work / "job.json").exists()
    assert kills > 3
    assert partition_of(found) == partition_of(plain)
    assert np.array_equal(found.value, plain.value, equal_nan=True)


@pytest.mark.parametrize("sketch", ["minhash", "simhash"])
def test_pairs_list_equal_texts_once(sketch: str, tmp_path: Path) -> None:
    kinds = [
        words(1, 60),
        words(1, 60) + " more",
        "全然不同的一篇文章，讲的是另一件事情。",
        "——",
        "",
    ]
    made = [{"id": f"{number:02}", "text": kinds[number % 5]} for number in range(50)]
    with open_index(tmp_path / "a.db", made) as index:
        distance = 16 if sketch == "simhash" else None
        found = index.pairs(sketch=sketch, distance=distance, max_per_bucket=3)
        pairs = {(pair.left, pair.right): pair for pair in found}
    star = {
        (f"{kind:02}", f"{number:02}") for kind in range(4) for number in range(5 + kind, 50, 5)
    }
    assert pairs.keys() == {*star, ("00", "01")}
    assert len(found) == len(pairs)
    assert found.copies == 36
    for pair in pairs.values():
        same = int(pair.left) % 5 == int(pair.right) % 5
        assert pair.equal == same
        assert pair.similarity is None or (pair.similarity == 1.0) == same
        assert pair.distance is None or (pair.distance == 0) == same
    assert not found.capped.buckets


def test_texts_of_equal_xxh3_are_two_texts(tmp_path: Path) -> None:
    texts = ["kcegmjjkmapenehh", "ccbcajoddgfmklgm"]
    assert len({xxhash.xxh3_64_hexdigest(text.encode()) for text in texts}) == 1
    write_lines(tmp_path / "a.jsonl", [{"id": text, "text": text} for text in texts])
    target = ("--db", str(tmp_path / "a.db"))
    done = run_command("index", str(tmp_path / "a.jsonl"), "--on-duplicate", "skip", *target)
    assert done.json[0]["created"] == 2
    assert run_command("pairs", *target).out == ""
    assert run_command("pairs", str(tmp_path / "a.jsonl")).out == ""
    assert run_command("explain", *texts, *target).json[0]["duplicates"] is False
    assert run_command("group", "--exact", "--dry-run", *target).json[-1]["groups"] == 0
    run_command("dedup", "--apply", "--yes", *target)
    assert len(run_command("similar", "--text", texts[0], *target).json[0]["matches"]) == 1
    with esdedup.open(tmp_path / "a.db") as index:
        assert index.statistics().documents == 2
