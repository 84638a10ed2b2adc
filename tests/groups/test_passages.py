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
from tests.helpers.indices import open_index
from tests.helpers.places import Place

WORDS = 6
"""Words of a passage, by these sketches."""
SCHEME = Scheme([MinHash(), Passages(3, 4)])
ALONE = Scheme([Passages(3, 4)])
RULES = [
    "auto", "first", "last", "longest", "shortest", "most-words", "newest:day", "lowest:day",
]  # fmt: skip
COVER = 0.7
SENTENCES = [[f"s{n}w{word}" for word in range(size)] for n, size in enumerate((5, 6, 9, 14, 20))]


def held(text: str, by: str) -> float:
    """Return the share of the words of a text that are in passages of another one."""
    words, of_other = (re.findall("[a-z0-9]+", each) for each in (text, by))
    if words == of_other:
        return 1.0
    runs = {tuple(of_other[n : n + WORDS]) for n in range(len(of_other) - WORDS + 1)}
    starts = [n for n in range(len(words)) if tuple(words[n : n + WORDS]) in runs]
    inside = {n + offset for n in starts for offset in range(WORDS)}
    return len(inside) / max(1, len(words))


def texts_by(draw: random.Random, count: int) -> list[str]:
    """Return texts that repeat and quote sentences, amid words of their own and blanks."""
    texts: list[str] = []
    for n in range(count):
        pieces: list[str] = []
        for part in range(draw.randrange(4)):
            kind = draw.randrange(6)
            sentence = draw.choice(SENTENCES)
            if kind == 0:
                pieces += [f"o{n}p{part}x{word}" for word in range(draw.randrange(1, 40))]
            elif kind == 1:
                pieces.append(" " * draw.randrange(1, 400) + "-" * draw.randrange(60))
            elif kind == 2:
                pieces += sentence * draw.randrange(2, 9)
            elif kind == 3 and texts:
                quoted = draw.choice(texts).split(" ")
                pieces += quoted[draw.randrange(len(quoted)) :]
            else:
                pieces += sentence
        texts.append(" ".join(pieces))
    return texts


def check(removed: Iterable[tuple[str, str, float]]) -> int:
    """Check the shares of removed texts in their representatives, and count them."""
    count = 0
    for text, representative, share in removed:
        assert held(text, representative) == share >= COVER
        count += 1
    return count


def of_groups(
    groups: esdedup.results.Groups, texts: dict[str, str]
) -> Iterator[tuple[str, str, float]]:
    """Yield the text of each duplicate, that of its representative, and the share."""
    for group in groups:
        for member in group.members:
            assert member.similarity is not None
            yield texts[member.id], texts[group.representative], member.similarity


TEXTS = st.builds(texts_by, st.randoms(use_true_random=False), st.integers(1, 12))


@given(TEXTS, st.sampled_from(RULES), st.sampled_from(["leader", "components"]))
def test_records_that_are_removed_are_held(texts: list[str], keep: str, method: Any) -> None:
    records = [{"text": text, "day": 1 + 7 * n % 5} for n, text in enumerate(texts)]
    options: dict[str, Any] = {"scheme": ALONE, "cover": COVER, "keep": keep, "method": method}
    result = esdedup.dedup(records, **options)
    check(
        (texts[each.row], texts[each.original], each.similarity or 0) for each in result.duplicates
    )
    check(of_groups(result.groups, {str(n): text for n, text in enumerate(texts)}))
    originals = {each.original for each in result.duplicates}
    assert originals.isdisjoint(each.row for each in result.duplicates)
    assert not result.groups.unlike.any()
    assert result.groups.grouping.method == "leader"


@given(TEXTS)
def test_pairs_have_the_shares_of_both(texts: list[str]) -> None:
    result = esdedup.pairs(texts, scheme=ALONE, cover=COVER)
    for pair in result:
        left, right = texts[int(pair.left)], texts[int(pair.right)]
        assert (pair.of_left, pair.of_right) == (held(left, right), held(right, left))
        assert pair.similarity == max(held(left, right), held(right, left)) >= COVER
    shares = [(row["of_left"], row["of_right"]) for row in result.to_arrow().to_pylist()]
    assert shares == [(pair.of_left, pair.of_right) for pair in result]


@settings(max_examples=10)
@given(TEXTS, TEXTS, st.sampled_from(RULES), st.sampled_from(["leader", "components"]))
def test_records_of_files_that_are_removed_are_held(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    known: list[str],
    keep: str,
    method: str,
) -> None:
    folder = tmp_path_factory.mktemp("files")
    files = {"a.jsonl": texts, "known.jsonl": known}
    for name, contents in files.items():
        rows = [{"text": text, "day": 1 + n % 3} for n, text in enumerate(contents)]
        write_lines(folder / name, rows)
    (folder / "scheme.json").write_text(json.dumps(ALONE.to_json()))
    options = ["--scheme", f"{folder}/scheme.json", "--cover", str(COVER), "--keep", keep]
    options += ["--method", method, "--against", f"{folder}/known.jsonl"]
    run = run_command("clean", f"{folder}/a.jsonl", "-o", f"{folder}/out", *options, status=0)
    listed = f"{folder}/out/_removed.jsonl.zst"
    with zstandard.open(listed, "rt") as file:
        removed = [json.loads(line) for line in file]
    count = check(
        (
            files["a.jsonl"][each["line"] - 1],
            files[Path(each["original_file"]).name][each["original_line"] - 1],
            each["similarity"],
        )
        for each in removed
    )
    assert count == run.json[0]["removed"]


@pytest.mark.on_every_server
@pytest.mark.parametrize("keep", ["auto", "first", "newest:day"])
def test_documents_that_are_removed_are_held(place: Place, keep: str) -> None:
    texts = {f"d{n:03}": text for n, text in enumerate(texts_by(random.Random(keep), 150))}
    days = dict(zip(texts, random.Random(keep).sample(range(1000), len(texts)), strict=True))
    options: Any = {"sketch": "passages", "cover": COVER, "keep": keep}
    with open_index(
        place,
        ({"id": id, "text": text, "day": days[id]} for id, text in texts.items()),
        scheme=SCHEME,
    ) as index:
        groups = index.groups(**options)
        assert check(of_groups(groups, texts)) > 20
        heads = {member.id: group.representative for group in groups for member in group.members}
        if keep == "newest:day":
            assert all(days[head] > days[id] for id, head in heads.items())
        chained = index.groups(method="components", **options)
        assert [*chained] == [*groups]
        index.group(**options)
        for id, head in heads.items():
            marks = index.store.get([id])[0].tokens
            assert (marks["original"], marks["similarity"]) == (head, held(texts[id], texts[head]))
        plan = index.dedup("delete", apply=True, log="log.jsonl", **options)
        assert plan.report is not None
        assert plan.report.done == len(heads)
        left = {document.id for batch in index.store.scan([], index.meta) for document in batch}
        assert left == texts.keys() - heads.keys()


ARTICLE = " ".join(f"own{n}" for n in range(100))
QUOTED = " ".join(f"common{n}" for n in range(20))
REPEATED = " ".join(f"spam{n}" for n in range(13))


@pytest.mark.parametrize(
    ("texts", "stays"),
    [
        # A quotation beside blanks, beside a ruler, and a page that repeats one sentence.
        ([" " * 1500 + QUOTED, f"{QUOTED} {ARTICLE}"], [1]),
        (["-" * 2000 + QUOTED, f"{QUOTED} {ARTICLE}"], [1]),
        ([f"{REPEATED} " * 60, f"{REPEATED} {ARTICLE}"], [1]),
        # A text, and the same with a half of it repeated: each holds the other.
        ([ARTICLE, f"{ARTICLE} {ARTICLE[:400]}"], [1]),
    ],
)
def test_by_default_the_one_with_the_most_words_stays(texts: list[str], stays: list[int]) -> None:
    result = esdedup.dedup(texts, scheme=Scheme([Passages()]))
    assert result.kept == [texts[n] for n in stays]
    assert result.groups.grouping.to_json()["keep"] == "most-words"


def test_a_rule_that_was_chosen_stays() -> None:
    texts = [QUOTED, f"{QUOTED} {ARTICLE}"]
    result = esdedup.dedup(texts, scheme=Scheme([Passages()]), keep="first")
    assert (result.kept, result.groups.grouping.to_json()["keep"]) == (texts, "first")
    assert esdedup.dedup(texts, keep="auto").groups.grouping.to_json()["keep"] == "first"


@pytest.mark.parametrize("rule", ["most-words", "longest"])
def test_the_most_words_count_by_any_measure(rule: str) -> None:
    common = " ".join(f"word{n}" for n in range(40))
    documents = [
        {"id": "a", "text": f"{common} {'.' * 900}"},
        {"id": "b", "text": f"{common} and"},
        {"id": "c", "text": common},
    ]
    with open_index("x.db", documents) as index:
        groups = index.groups(threshold=0.9, keep=rule)
        assert groups.basis.read == "tokens"
    head = {"most-words": "b", "longest": "a"}[rule]
    assert [group.representative for group in groups] == [head]
    assert [group.representative for group in esdedup.group(documents, id="id", keep=rule)] == [
        head
    ]
