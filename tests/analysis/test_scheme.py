"""esdedup scheme, also with a sample of an index."""

import json
import re
from pathlib import Path

import pytest

import esdedup
from esdedup.stores import Store
from tests.helpers.arrivals import family
from tests.helpers.commands import run_command, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place, local, write_texts
from tests.helpers.vectors import clustered


def corpus(documents: int) -> list[str]:
    """English and Chinese texts in families of five, of which none to four words are replaced."""
    return [family(20 * n, n % 5, chinese=n % 10 > 4) for n in range(documents)]


def test_the_command_chooses_a_scheme_that_can_be_used(
    place: Place, store: Store, tmp_path: Path
) -> None:
    texts = corpus(600)
    write_texts(store, texts)
    written = tmp_path / "new.json"
    done = run_command(
        *("scheme", "--sample", "300", "--threshold", "0.7", "--recall", "0.95"),
        *("-o", str(written), *place.options),
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
    # More rows have fewer candidates below the threshold.
    wasted = [choice["expected"]["wasted"] for choice in answer["choices"]]
    assert wasted[-1] < wasted[0]
    scheme = esdedup.Scheme.from_json(json.loads(written.read_text("utf-8")))
    assert scheme.to_json() == answer["scheme"]
    assert scheme.sketches == (esdedup.MinHash(128, 9, 5), esdedup.SimHash())
    with open_index(tmp_path / "other.db", texts, scheme=scheme) as index:
        found = len(index.pairs(threshold=0.7))
        body = index.request_body(texts[0], threshold=0.7)
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


@pytest.mark.parametrize("limits", ["0.3 0.95", "0.05 0.999", "0.02 0.9", "0.5 0.99999", "0.01 1"])
def test_a_scheme_by_the_advice_of_a_warning_ends_it(limits: str) -> None:
    Path("a.jsonl").write_text('{"id": "a", "text": "one two three four"}\n')
    threshold, recall = limits.split()
    query = ["similar", "--text", "one two", "--threshold", threshold]
    query += ["--recall", recall] if recall != "1" else []
    run_command("index", "a.jsonl")
    warned = run_command(*query)
    assert "are found" in warned.err
    advised = r"`esdedup scheme` prints for (--threshold \S+) and (--recall \S+) finds more"
    advice = re.search(advised, warned.err)
    if advice is None:
        assert "No scheme reaches" in warned.err
        return
    made = run_command("scheme", *advice[1].split(), *advice[2].split(), "-o", "scheme.json")
    assert (made.status, made.err) == (0, "")
    run_command("index", "a.jsonl", "--db", "b.db", "--scheme", "scheme.json")
    assert "are found" not in run_command(*query, "--db", "b.db").err


@local
def test_a_sample_of_vectors_chooses_the_bands_that_cost_least(place: Place, folder: Path) -> None:
    vectors = clustered(600, 48, seed=5)
    records = [
        {"id": f"d{row}", "text": f"text {row}", "embedding": vector.tolist()}
        for row, vector in enumerate(vectors)
    ]
    write_lines(folder / "d.jsonl", records)
    sketches = ("--text-field", "text", "--vectors", "embedding:48")
    made = run_command("index", "d.jsonl", *sketches, *place.options)
    assert made.status == 0, made.err
    measure = ("scheme", "--sample", "300", "--sketch", "embedding", "--cosine", "0.9")
    done = run_command(*measure, "-o", "new.json", *place.options)
    assert (done.status, done.err) == (0, "")
    (answer,) = done.json
    assert (answer["cosine"], answer["recall"], answer["documents"]) == (0.9, 0.999, 600)
    assert sum(each["count"] for each in answer["histogram"]) == pytest.approx(599)
    (chosen,) = [choice for choice in answer["choices"] if choice["chosen"]]
    assert chosen["recall_at_threshold"] >= 0.999
    assert chosen["expected"]["recall"] >= 0.999
    rows = [choice["sketch"]["rows"] for choice in answer["choices"]]
    assert rows == sorted({*rows})
    scheme = esdedup.Scheme.from_json(json.loads((folder / "new.json").read_text("utf-8")))
    text, *_, embedding = scheme.sketches
    assert isinstance(embedding, esdedup.Vectors)
    assert (embedding.cosine, embedding.fields) == (0.9, ("embedding",))
    assert isinstance(text, esdedup.MinHash)
    table = run_command(*measure, "--table", *place.options)
    assert f"S-curve of {embedding.bands} bands of {embedding.rows} rows; < is the cosine 0.9" in (
        table.out
    )
    assert "neighbours at or over 0.9" in table.err
    # The new index finds as many pairs as the sample promised.
    again = run_command("index", "d.jsonl", "--scheme", "new.json", "--db", "new.db")
    assert again.status == 0, again.err
    pairs = run_command("pairs", "--db", "new.db", "--sketch", "embedding").json
    expected = chosen["expected"]["similar"] * 600 / 2
    assert len(pairs) == pytest.approx(expected, rel=0.15)


def test_limits_that_a_sample_does_not_have_are_refused(folder: Path) -> None:
    lines = [{"id": str(row), "embedding": [1.0, row, 2.0]} for row in range(4)]
    write_lines(folder / "d.jsonl", lines)
    assert run_command("index", "d.jsonl", "--vectors", "embedding:3").status == 0
    for arguments, message in (
        (("--sample", "4", "--threshold", "0.9"), "--threshold is for texts: use --cosine"),
        (("--cosine", "0.9"), "--cosine requires --vectors, or a --sample of vectors"),
        (("--sketch", "vectors"), "--sketch requires --sample"),
        (("--sample", "4", "--cosine", "0.3", "--recall", "0.9999999"), "no bands and rows reach"),
    ):
        refused = run_command("scheme", *arguments)
        assert refused.status == 2, refused
        assert message in refused.err
