"""esdedup scheme --sample, and weights counted from an index, on every store."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import esdedup
from esdedup.analysis.distribution import bars, similarity_histogram
from esdedup.analysis.sampling import sample_neighbours, texts_of_index
from esdedup.analysis.tuning import expectation
from esdedup.models import Document, Query
from esdedup.search.similar import similar
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores import Store
from esdedup.stores.changes import delete, update
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import run_command
from tests.helpers.documents import with_tokens
from tests.helpers.places import META, OpenStore, Place, write

HAN = [chr(point) for point in range(0x4E00, 0x4E00 + 2_000)]


def where(place: Place) -> list[str]:
    name = "--db" if isinstance(place.target, Path) else "--url"
    return [name, str(place.target), "--index", place.index]


def corpus(documents: int = 600, seed: int = 5) -> list[str]:
    """English and Chinese texts; of every five, three are copies of the one before, edited."""
    rng = np.random.default_rng(seed)
    texts: list[list[str]] = []
    for number in range(documents):
        if number % 5 in (1, 2, 3):
            text = list(texts[-1])
            for at in rng.integers(0, len(text), rng.integers(0, 6)).tolist():
                text[at] = f"x{number}"
        elif number % 2:
            text = [HAN[at] for at in rng.integers(0, len(HAN), 60).tolist()]
        else:
            text = [f"w{at}" for at in rng.integers(0, 3_000, 60).tolist()]
        texts.append(text)
    return [" ".join(text) for text in texts]


def fill(store: Store, texts: list[str], meta: IndexMeta = META) -> None:
    documents = [Document(f"d{at}", {"text": text}) for at, text in enumerate(texts)]
    write(store, with_tokens(documents, meta))


def truth(texts: list[str], threshold: float) -> float:
    """Neighbours of a document at or over a threshold, by comparing all with all."""
    sets = [set(row.tolist()) for row in shingle_sets(texts, META.scheme)]
    found = 0
    for at, one in enumerate(sets):
        found += sum(len(one & two) >= threshold * len(one | two) for two in sets[:at])
    return 2 * found / len(texts)


# Samples


@pytest.mark.on_every_server
def test_a_sample_of_all_is_exact(store: Store) -> None:
    texts = corpus(200)
    fill(store, texts)
    found = sample_neighbours(store, META, 1_000)
    assert (found.sampled, found.without_text, found.truncated) == (200, 0, 0)
    minhash = META.scheme.banded
    for threshold in (0.3, 0.5, 0.8, 1.0):
        got = expectation(found.neighbours, threshold, minhash).similar
        assert got == pytest.approx(truth(texts, threshold))


def test_a_sample_tells_of_the_whole(store: Store) -> None:
    texts = corpus(600)
    fill(store, texts)
    asked: list[int] = []
    found = sample_neighbours(store, META, 150, seed=2, on_query=asked.append)
    minhash = META.scheme.banded
    assert asked == sorted(asked)
    assert asked[-1] == found.sampled == 150
    assert found.neighbours.documents == 600
    assert found.neighbours.expected.sum() == pytest.approx(599)
    # A pair of the sample is one of sixteen: by them alone the error would be several times this.
    got = expectation(found.neighbours, 0.5, minhash).similar
    assert got == pytest.approx(truth(texts, 0.5), rel=0.12)
    queries = [Query(text, f"d{at}") for at, text in enumerate(texts)]
    results = similar(store, META, queries, Limits(k=1_000))
    candidates = sum(result.candidates for result in results) / 600
    assert expectation(found.neighbours, 0.5, minhash).candidates == pytest.approx(
        candidates, rel=0.15
    )


def test_documents_without_a_text_and_too_many_candidates_are_told(store: Store) -> None:
    fill(store, ["the same words in each of them"] * 50 + ["", "!"])
    update(store, [Document("d7", {"text": None}), Document("d8", {"text": None})])
    store.refresh()
    found = sample_neighbours(store, META, 30, seed=1, candidates=10)
    assert found.sampled + found.without_text == 30
    assert found.truncated > 20
    assert sum(len(some) for some in texts_of_index(store, META)) == 50
    assert sum(len(some) for some in texts_of_index(store, META, 52)) == 50
    with pytest.raises(esdedup.UsageError, match="give two or more"):
        sample_neighbours(store, META, 1)
    delete(store, [f"d{at}" for at in range(52)])
    store.refresh()
    with pytest.raises(esdedup.UsageError, match="a sample of 0 texts has no pairs"):
        sample_neighbours(store, META, 10)


def test_an_index_without_bands_tells_nothing(open_store: OpenStore) -> None:
    store = open_store()
    meta = IndexMeta(esdedup.Scheme([esdedup.SimHash()]))
    store.create(meta)
    with pytest.raises(esdedup.UsageError, match="no sketch with bands"):
        sample_neighbours(store, meta, 10)


# The command


def test_the_command_chooses_a_scheme_that_can_be_used(
    place: Place, store: Store, tmp_path: Path
) -> None:
    texts = corpus(600)
    fill(store, texts)
    written = tmp_path / "new.json"
    done = run_command(
        *("scheme", "--sample", "300", "--threshold", "0.7", "--recall", "0.95"),
        *("-o", str(written), *where(place)),
    )
    assert (done.status, done.err) == (0, "")
    (answer,) = done.json
    assert answer["documents"] == 600
    assert answer["sample"]["sampled"] == 300
    assert answer["sample"]["neighbours_at_threshold"] > 200
    assert sum(each["count"] for each in answer["histogram"]) == pytest.approx(599)
    (chosen,) = [choice for choice in answer["choices"] if choice["chosen"]]
    assert (chosen["sketch"]["bands"], chosen["sketch"]["rows"]) == (9, 5)
    assert chosen["expected"]["recall"] > chosen["recall_at_threshold"] > 0.95
    # Each number of rows more has fewer candidates in vain.
    wasted = [choice["expected"]["wasted"] for choice in answer["choices"]]
    assert wasted == sorted(wasted, reverse=True)
    scheme = esdedup.Scheme.from_json(json.loads(written.read_text("utf-8")))
    assert scheme.to_json() == answer["scheme"]
    assert scheme.sketches == (esdedup.MinHash(128, 9, 5), esdedup.SimHash())
    with esdedup.open(tmp_path / "other.db", scheme=scheme) as index:
        index.add({"id": str(at), "text": text} for at, text in enumerate(texts))
        found = len(list(index.pairs(threshold=0.7).every()))
    expected = (chosen["expected"]["similar"] - chosen["expected"]["missed"]) * 600 / 2
    assert found == pytest.approx(expected, rel=0.15)


def test_a_scheme_file_keeps_all_but_its_bands(tmp_path: Path) -> None:
    file = tmp_path / "scheme.json"
    made = run_command("scheme", "--shingle", "char:5", "--seed", "9")
    file.write_text(made.out.replace('"token_bits": 30', '"token_bits": 36'))
    before = json.loads(file.read_text())
    options = ("--threshold", "0.9", "--recall", "0.95")
    (after,) = run_command("scheme", "--scheme", str(file), *options).json
    changed = {**before["sketches"][0], "bands": 5, "rows": 12}
    assert changed["token_bits"] == 36
    before["sketches"][0] = changed
    assert after == before


def test_a_scheme_keeps_its_permutations_and_single_values(
    place: Place, open_store: OpenStore
) -> None:
    meta = IndexMeta(
        esdedup.Scheme([esdedup.MinHash(256, 23, 3), esdedup.Signature(64), esdedup.SimHash()])
    )
    store = open_store()
    store.create(meta)
    fill(store, corpus(20), meta)
    (answer,) = run_command("scheme", "--sample", "20", *where(place)).json
    made = answer["scheme"]["sketches"]
    assert (made[0]["permutations"], made[1]["bands"]) == (256, 64)
    (chosen,) = [choice for choice in answer["choices"] if choice["chosen"]]
    bands = chosen["sketch"]["bands"]
    assert 64 < bands * chosen["sketch"]["rows"] <= 256
    assert chosen["tokens"] == bands + 64 + 4
    assert chosen["bytes"] > 15 * bands + 64 * 10


def test_a_table_fits_into_a_terminal(place: Place, store: Store) -> None:
    fill(store, corpus(100))
    options = ("--threshold", "0.8", "--recall", "0.95", "--table")
    done = run_command("scheme", "--sample", "100", *options, *where(place))
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("* 7 x 7" in line for line in lines)
    (at_threshold,) = [line for line in lines if "0.80 to 0.85 <" in line]
    assert "█████" in at_threshold
    assert "neighbours at or over 0.8: few give a poor estimate" in done.err


WRONG: list[tuple[list[str], str]] = [
    (["--threshold", "1"], "threshold 1.0"),
    (["--recall", "2"], "recall 2.0"),
    (["--rows", "50"], "rows 50"),
    (["--threshold", "1e-13"], "more than can be permutations"),
    (["--documents", "inf"], "--documents"),
    (["--sample", "5", "--scheme", "x.json"], "leave out --scheme"),
    (["--scheme", "absent.json"], "scheme file absent.json"),
    (["--output", "absent/x.json"], "--output absent/x.json"),
]


@pytest.mark.parametrize(("options", "reason"), WRONG, ids=str)
def test_wrong_usage(
    options: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run_command("scheme", *options)
    assert (done.status, done.out) == (2, "")
    assert reason in done.err
    assert "Traceback" not in done.err
    assert list(tmp_path.iterdir()) == []


# Charts


def test_bars_are_in_percent_of_the_largest() -> None:
    bins = similarity_histogram(np.array([0.0, 1.0, 4.0, 100.0]))
    assert [(each.name, length) for each, length in bars(bins)] == [
        ("0.75 to 1.00", 100.0), ("0.50 to 0.75", 4.0), ("0.25 to 0.50", 1.0), ("0.00 to 0.25", 0.0)
    ]  # fmt: skip
    # Three powers of ten: one pair has a third of the length.
    assert [length for _, length in bars(bins, log_scale=True)] == [100.0, 53.4, 33.33, 0.0]
    shares = similarity_histogram(np.array([0.25, 0.5]))
    assert [length for _, length in bars(shares)] == [50.0, 25.0]


def test_a_logarithmic_scale() -> None:
    def lengths(*counts: float) -> list[float]:
        bins = similarity_histogram(np.array(counts))
        return [length for _, length in bars(bins, log_scale=True)][::-1]

    # At most six powers of ten, and at least two.
    assert lengths(0.0, 0.1, 1.0, 1e9, 1e-9) == [0.0, 0.0, 0.0, 100.0, 0.0]
    assert lengths(1e6, 10.0, 1.0) == [100.0, 16.67, 0.0]
    assert lengths(0.1, 0.01, 0.0) == [100.0, 50.0, 0.0]
    assert lengths(0.0) == [0.0]
    assert bars([], log_scale=True) == []


def test_plain_characters_where_there_are_no_others(
    place: Place, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, corpus(20))
    shown = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", shown)
    command = ["esdedup", "scheme", "--sample", "20", "--threshold", "0.8", "--table"]
    monkeypatch.setattr(sys, "argv", [*command, *where(place)])
    esdedup.cli.main()
    shown.seek(0)
    text = shown.read()
    assert "0.80 to 0.85 <" in text
    assert "#####" in text


# Weights counted in files

BOILERPLATE = "本公司保留对此文件的最终解释权未经书面许可任何单位和个人不得转载复制或者用于商业用途"
TOPICS = [
    "地铁车站", "台风登陆", "天文台", "邮票展览", "羽毛球", "电影导演", "水库大坝", "小提琴",
    "考古学家", "咖啡豆", "灯塔", "蝴蝶标本", "机器人", "葡萄酒", "高速公路", "图书馆",
    "望远镜", "豆腐", "马拉松", "潜水艇", "雪崩", "陶瓷", "直升机", "沙漠", "股票", "芭蕾舞",
]  # fmt: skip
