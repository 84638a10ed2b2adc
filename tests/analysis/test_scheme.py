"""esdedup scheme, also with a sample of an index."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import esdedup
from esdedup.models import Document, Query
from esdedup.sketch.limits import Limits
from esdedup.stores import Store
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import run_command
from tests.helpers.documents import with_tokens
from tests.helpers.places import META, OpenStore, Place, write


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
            text = [chr(0x4E00 + at) for at in rng.integers(0, 2_000, 60).tolist()]
        else:
            text = [f"w{at}" for at in rng.integers(0, 3_000, 60).tolist()]
        texts.append(text)
    return [" ".join(text) for text in texts]


def fill(store: Store, texts: list[str], meta: IndexMeta = META) -> None:
    documents = [Document(f"d{at}", {"text": text}) for at, text in enumerate(texts)]
    write(store, with_tokens(documents, meta))


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
        body = index.request_body(Query(texts[0]), Limits(threshold=0.7))
    expected = (chosen["expected"]["similar"] - chosen["expected"]["missed"]) * 600 / 2
    assert found == pytest.approx(expected, rel=0.15)
    # The price is that of a query as it is sent.
    groups = [each["constant_score"]["filter"]["terms"] for each in body["query"]["bool"]["should"]]
    sent = sum(len(each["esdedup.minhash"]) for each in groups)
    assert sent == chosen["terms"] == 9 * (1 + 5 + 15)


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
    options = ("--sample", "100", "--threshold", "0.8", "--recall", "0.95", "--table")
    done = run_command("scheme", *options, *where(place))
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("* 7 x 7" in line for line in lines)
    (at_threshold,) = [line for line in lines if "0.80 to 0.85 <" in line]
    assert "█████" in at_threshold
    assert "neighbours at or over 0.8: few give a poor estimate" in done.err


WRONG: list[tuple[list[str], str]] = [
    (["--threshold", "1"], "threshold 1.0"),
    (["--threshold", "1e-13"], "more than can be permutations"),
    (["--threshold", "0.0001", "--recall", "0.999"], "needs 69075 permutations"),
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


@pytest.mark.parametrize("limits", ["0.3 0.95", "0.05 0.999", "0.02 0.9", "0.5 0.99999", "0.01 1"])
def test_a_scheme_by_the_advice_of_a_warning_ends_it(
    limits: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jsonl").write_text('{"id": "a", "text": "one two three four"}\n')
    threshold, recall = limits.split()
    query = ["similar", "--text", "one two", "--threshold", threshold]
    query += ["--recall", recall] if recall != "1" else []
    run_command("index", "a.jsonl")
    warned = run_command(*query)
    assert "are found" in warned.err
    advice = re.findall(r"esdedup (scheme --threshold \S+ --recall [^\s`]+)`", warned.err)
    if not advice:
        assert "No scheme reaches" in warned.err
        return
    made = run_command(*advice[0].split(), "-o", "scheme.json")
    assert (made.status, made.err) == (0, "")
    run_command("index", "a.jsonl", "--db", "b.db", "--scheme", "scheme.json")
    assert "are found" not in run_command(*query, "--db", "b.db").err
