"""By passages, a removed document is held by the one that stays, at the share that is reported."""

import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import esdedup
from esdedup import MinHash, Passages, Scheme
from tests.helpers.commands import run_command, write_lines
from tests.helpers.places import Place

WORDS = 6
"""Words of a passage, by these sketches."""
SCHEME = Scheme([MinHash(), Passages(3, 4)])
ALONE = Scheme([Passages(3, 4)])
RULES = [
    "auto", "first", "last", "longest", "shortest", "most-words", "newest:day", "lowest:day",
]  # fmt: skip
COVER = 0.7
SENTENCES = [[f"s{at}w{word}" for word in range(size)] for at, size in enumerate((5, 6, 9, 14, 20))]


def held(text: str, by: str) -> float:
    """Return the share of the words of a text that are in passages of another one."""
    words, others = (re.findall("[a-z0-9]+", each) for each in (text, by))
    if words == others:
        return 1.0
    runs = {tuple(others[at : at + WORDS]) for at in range(len(others) - WORDS + 1)}
    starts = [at for at in range(len(words)) if tuple(words[at : at + WORDS]) in runs]
    inside = {at + more for at in starts for more in range(WORDS)}
    return len(inside) / max(1, len(words))


def texts_by(draw: random.Random, count: int) -> list[str]:
    """Return texts that repeat and quote sentences, amid words of their own and blanks."""
    texts: list[str] = []
    for at in range(count):
        parts: list[str] = []
        for part in range(draw.randrange(4)):
            kind = draw.randrange(6)
            sentence = draw.choice(SENTENCES)
            if kind == 0:
                parts += [f"o{at}p{part}x{word}" for word in range(draw.randrange(1, 40))]
            elif kind == 1:
                parts.append(" " * draw.randrange(1, 400) + "-" * draw.randrange(60))
            elif kind == 2:
                parts += sentence * draw.randrange(2, 9)
            elif kind == 3 and texts:
                quoted = draw.choice(texts).split(" ")
                parts += quoted[draw.randrange(len(quoted)) :]
            else:
                parts += sentence
        texts.append(" ".join(parts))
    return texts


def check(removed: Iterable[tuple[str, str, float]]) -> int:
    """Check the shares of removed texts in their representatives, and count them."""
    count = 0
    for text, representative, share in removed:
        assert held(text, representative) == share >= COVER
        count += 1
    return count


def of_groups(groups: esdedup.Groups, texts: dict[str, str]) -> Iterator[tuple[str, str, float]]:
    """Yield the text of each duplicate, that of its representative, and the share."""
    for group in groups:
        for member in group.members:
            assert member.similarity is not None
            yield texts[member.id], texts[group.representative], member.similarity


TEXTS = st.builds(texts_by, st.randoms(use_true_random=False), st.integers(1, 12))


@given(TEXTS, st.sampled_from(RULES), st.sampled_from(["leader", "components"]))
def test_records_that_are_removed_are_held(texts: list[str], keep: str, method: Any) -> None:
    records = [{"text": text, "day": 1 + 7 * at % 5} for at, text in enumerate(texts)]
    how: dict[str, Any] = {"scheme": ALONE, "cover": COVER, "keep": keep, "method": method}
    found = esdedup.dedup(records, **how)
    check(
        (texts[each.row], texts[each.original], each.similarity or 0) for each in found.duplicates
    )
    check(of_groups(found.groups, {str(at): text for at, text in enumerate(texts)}))
    originals = {each.original for each in found.duplicates}
    assert originals.isdisjoint(each.row for each in found.duplicates)
    assert not found.groups.unlike.any()
    assert found.groups.grouping.method == "leader"


@given(TEXTS)
def test_pairs_have_the_shares_of_both(texts: list[str]) -> None:
    found = esdedup.pairs(texts, scheme=ALONE, cover=COVER)
    for pair in found:
        left, right = texts[int(pair.left)], texts[int(pair.right)]
        assert (pair.of_left, pair.of_right) == (held(left, right), held(right, left))
        assert pair.similarity == max(held(left, right), held(right, left)) >= COVER
    shares = [(row["of_left"], row["of_right"]) for row in found.to_arrow().to_pylist()]
    assert shares == [(pair.of_left, pair.of_right) for pair in found]


@settings(max_examples=10)
@given(TEXTS, TEXTS, st.sampled_from(RULES), st.sampled_from(["leader", "components"]))
def test_records_of_files_that_are_removed_are_held(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    others: list[str],
    keep: str,
    method: str,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    of = {"a.jsonl": texts, "known.jsonl": others}
    for name, own in of.items():
        rows = [
            {"id": f"{name}{at}", "text": text, "day": 1 + at % 3} for at, text in enumerate(own)
        ]
        write_lines(folder / name, rows)
    (folder / "scheme.json").write_text(json.dumps(ALONE.to_json()))
    how = ["--scheme", f"{folder}/scheme.json", "--cover", str(COVER), "--keep", keep]
    how += ["--method", method, "--against", f"{folder}/known.jsonl"]
    done = run_command("dedup", f"{folder}/a.jsonl", "-o", f"{folder}/out", *how)
    assert done.status == 0, done.err
    listed = f"{folder}/out/_removed.jsonl.zst"
    with zstandard.open(listed, "rt") as file:
        removed = [json.loads(line) for line in file]
    count = check(
        (
            of["a.jsonl"][each["line"] - 1],
            of[Path(each["original_file"]).name][each["original_line"] - 1],
            each["similarity"],
        )
        for each in removed
    )
    assert count == done.json[0]["removed"]


@pytest.mark.on_every_server
@pytest.mark.parametrize("keep", ["auto", "first", "newest:day"])
def test_documents_that_are_removed_are_held(place: Place, keep: str) -> None:
    texts = {f"d{at:03}": text for at, text in enumerate(texts_by(random.Random(keep), 150))}
    days = dict(zip(texts, random.Random(keep).sample(range(1000), len(texts)), strict=True))
    how: Any = {"sketch": "passages", "cover": COVER, "keep": keep}
    with esdedup.open(place.target, place.index, scheme=SCHEME) as index:
        index.add({"id": id, "text": text, "day": days[id]} for id, text in texts.items())
        groups = index.groups(**how)
        assert check(of_groups(groups, texts)) > 20
        heads = {member.id: group.representative for group in groups for member in group.members}
        if keep == "newest:day":
            assert all(days[head] > days[id] for id, head in heads.items())
        chained = index.groups(method="components", **how)
        assert [*chained] == [*groups]
        index.group(**how)
        for id, head in heads.items():
            marks = index.store.get([id])[0].tokens
            assert (marks["original"], marks["similarity"]) == (head, held(texts[id], texts[head]))
        plan = index.dedup("delete", apply=True, log="log.jsonl", **how)
        assert plan.report is not None
        assert plan.report.done == len(heads)
        left = {document.id for batch in index.store.scan([], index.meta) for document in batch}
        assert left == texts.keys() - heads.keys()


ARTICLE = " ".join(f"own{at}" for at in range(100))
QUOTED = " ".join(f"common{at}" for at in range(20))
REPEATED = " ".join(f"spam{at}" for at in range(13))


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        # A quotation beside blanks, beside a ruler, and a page that repeats one sentence.
        ([" " * 1500 + QUOTED, f"{QUOTED} {ARTICLE}"], [1]),
        (["-" * 2000 + QUOTED, f"{QUOTED} {ARTICLE}"], [1]),
        ([f"{REPEATED} " * 60, f"{REPEATED} {ARTICLE}"], [1]),
        # A text, and the same with a half of it repeated: each holds the other.
        ([ARTICLE, f"{ARTICLE} {ARTICLE[:400]}"], [1]),
    ],
)
def test_by_default_the_one_with_the_most_words_stays(texts: list[str], kept: list[int]) -> None:
    found = esdedup.dedup(texts, scheme=Scheme([Passages()]))
    assert found.kept == [texts[at] for at in kept]
    assert found.groups.grouping.to_json()["keep"] == "most-words"


def test_a_rule_that_was_chosen_stays() -> None:
    texts = [QUOTED, f"{QUOTED} {ARTICLE}"]
    found = esdedup.dedup(texts, scheme=Scheme([Passages()]), keep="first")
    assert (found.kept, found.groups.grouping.to_json()["keep"]) == (texts, "first")
    assert esdedup.dedup(texts, keep="auto").groups.grouping.to_json()["keep"] == "first"


@pytest.mark.parametrize("rule", ["most-words", "longest"])
def test_the_most_words_count_by_any_measure(rule: str) -> None:
    same = " ".join(f"word{at}" for at in range(40))
    documents = [
        {"id": "a", "text": f"{same} {'.' * 900}"},
        {"id": "b", "text": f"{same} and"},
        {"id": "c", "text": same},
    ]
    with esdedup.open("x.db") as index:
        index.add(documents)
        groups = index.groups(threshold=0.9, keep=rule)
        assert groups.basis.read == "tokens"
    head = {"most-words": "b", "longest": "a"}[rule]
    assert [group.representative for group in groups] == [head]
    assert [group.representative for group in esdedup.group(documents, id="id", keep=rule)] == [
        head
    ]
