"""Weights of words: counted by `esdedup weights`, and the same wherever an index is read."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup import Normalisation, Scheme, Shingling, SimHash, UsageError, Weights
from esdedup.analysis.weighing import Weighing, document_frequencies, weigh
from esdedup.records.documents import tokens_of
from esdedup.sketch.sketch import hashed_words, sketch
from esdedup.text.shingles import shingle
from esdedup.text.weights import weight_table
from tests.helpers.commands import (
    all_documents,
    call,
    esdedup_command,
    fill,
    run_command,
    words,
    write_lines,
)
from tests.helpers.indices import fill_index, open_index
from tests.helpers.places import Place, clusters
from tests.servers.enriching import Enriching

TEXTS = [
    "The mustang is in the garage.",
    "The ferrari is in the garage!",
    "A ferrari, the other day",
    "今天天气很好，我们去公园散步。",
    "今天天气很差，我们去公园散步。",
    "...",
]
DOCUMENTS = [{"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS)]
WEIGHED = Scheme(
    [SimHash(feature_size=1, weights=Weights({"the": 0, "mustang": 9, "天": 0.5, "很": 2.5}, 3))]
)


def test_weights_are_inverse_document_frequencies() -> None:
    found = esdedup.weights(iter(TEXTS), features=1)
    # Five texts have words.
    assert found.of("the") == round(10 * math.log(6 / 4)) / 10
    assert found.of("天") == round(10 * math.log(6 / 3)) / 10
    assert "mustang" not in found.words
    assert found.default == found.of("mustang") == round(10 * math.log(6 / 2)) / 10
    # Other words get the weight of the first one left out.
    cut = esdedup.weights(TEXTS, features=1, most=1)
    assert (dict(cut.words), cut.default) == ({"the": found.of("the")}, found.of("天"))
    pairs = esdedup.weights(TEXTS, least=1)
    assert pairs.of("the garage") == round(10 * math.log(6 / 3)) / 10
    assert pairs.of("a ferrari") == round(10 * math.log(6 / 2)) / 10
    cases: tuple[tuple[Any, dict[str, Any], str], ...] = (
        ([], {}, "0 documents with words are too few"),
        ("text", {}, "texts: give a list, not a single str"),
        ([5], {}, "text: use text, not int"),
        (TEXTS, {"most": 0}, "most 0: use at least 1"),
        (TEXTS, {"words": 5}, "there is no argument 'words'"),
        (TEXTS, {"scheme": Scheme([esdedup.MinHash()])}, "no SimHash"),
    )
    for texts, options, message in cases:
        with pytest.raises(UsageError, match=message):
            esdedup.weights(texts, **options)


ANY_TEXTS = st.lists(
    st.one_of(
        st.text("ab 你好\u0301\u00ad.-5=+é", max_size=30),
        st.text(max_size=30),
        st.just("😀 ===== -5"),
    ),
    min_size=2,
    max_size=6,
)


@given(
    ANY_TEXTS, st.sampled_from([Shingling(), Shingling("char", 3), Shingling(stop_words=("a",))])
)
def test_each_counted_feature_gets_its_weight_in_texts(
    texts: list[str], shingling: Shingling
) -> None:
    texts = ["something else", "another thing entirely", *texts, *texts]
    for size, form in itertools.product((1, 2, 3), ("NFKC", "none")):
        normalisation = Normalisation(form, form == "NFKC")  # type: ignore[arg-type]
        scheme = Scheme([SimHash(feature_size=size)], normalisation, shingling)
        found = weigh(texts, scheme, Weighing(features=size)).weights
        features = shingle(hashed_words(texts, scheme)[1], size)
        table = weight_table(found, normalisation, shingling, scheme.seed, size)
        # How many texts have a feature, by its hash.
        rows = [row.tolist() for row in features]
        counts = Counter(feature for row in rows for feature in {*row})
        documents = sum(map(bool, rows))
        short = {row[0] for row in rows if len(row) == 1}
        for feature in counts.keys() - short:
            expected = round(10 * math.log((1 + documents) / (1 + counts[feature])))
            weight = table.tenths_of(features.hashes[features.hashes == feature][:1])[0]
            # A word that normalises further without its ignored characters is left out.
            assert weight in (expected, found.default_tenths)
            if all(text.isascii() for text in texts):
                assert weight == expected


@given(st.lists(st.lists(st.integers(0, 40), max_size=8), max_size=60), st.integers(2, 30))
def test_bounded_counters_are_as_wrong_as_they_report(rows: list[list[int]], counters: int) -> None:
    texts = [" ".join(f"w{word}" for word in row) for row in rows]
    exact = Counter(f"w{word}" for row in rows for word in {*row})
    found = document_frequencies(texts, Scheme(), 1, counters)
    assert len(found.counts) <= counters
    assert found.documents == sum(map(bool, rows))
    for word, count in exact.items():
        estimate = found.counts.get(word, 0)
        assert (estimate == 0 and count <= found.error) or count <= estimate <= count + found.error
    if len(exact) <= counters:
        assert (found.error, found.counts) == (0, dict(exact))


def test_the_command_weighs_words_of_files_and_of_an_index(place: Place, folder: Path) -> None:
    write_lines(Path("texts.jsonl"), [*DOCUMENTS, {"id": "without"}])
    ran = run_command(
        "weights", "texts.jsonl", "-o", "files.tsv", "--features", "1", "--json", status=0
    )
    assert "1 record without a text: skipped" in ran.err
    # A table may have been changed by hand.
    again = run_command("weights", "texts.jsonl", "-o", "files.tsv", status=2)
    assert "--output files.tsv: the file exists" in again.err
    again = run_command("weights", "texts.jsonl", "-o", "texts.jsonl", status=2)
    assert "the command reads this file: name another" in again.err
    found = Weights.read("files.tsv")
    assert found == esdedup.weights(TEXTS, features=1)
    assert json.loads(ran.out) == {
        "documents": 5,
        "counted_words": 22,
        "weighed_words": len(found.words),
        "default": found.default,
        "digest": found.digest,
        "output": "files.tsv",
    }
    with open_index(place, [*DOCUMENTS], scheme=WEIGHED) as index:
        assert index.weights(features=1) == found
    ran = run_command("weights", *place.options, "--features", "1", "-o", "index.tsv", status=0)
    assert Path("index.tsv").read_bytes() == Path("files.tsv").read_bytes()


def test_a_scheme_file_holds_the_table(folder: Path) -> None:
    Path("weights.tsv").write_text("flying saucer\t5\nthe\tthe\n")
    ran = run_command("scheme", "--weights", "weights.tsv", "-o", "scheme.json", status=2)
    assert "weights.tsv: line 2" in ran.err
    Path("weights.tsv").write_text("the\t0\nmustang\t9\nsaucer\t4.5\n")
    ran = run_command("scheme", "--weights", "weights.tsv", "-o", "weights.tsv", status=2)
    assert "the command reads this file" in ran.err
    ran = run_command("scheme", "--weights", "weights.tsv", "-o", "scheme.json", "--table")
    assert Weights.read("weights.tsv").digest in "".join(ran.out.split())
    scheme = Scheme.from_json(json.loads(Path("scheme.json").read_text()))
    simhash = scheme.sketch("simhash")
    # Features have as many words as the entries of the table.
    assert isinstance(simhash, SimHash)
    assert (simhash.feature_size, simhash.weights) == (1, Weights.read("weights.tsv"))
    Path("weights.tsv").unlink()
    write_lines(Path("texts.jsonl"), DOCUMENTS[:3])
    run_command("index", "texts.jsonl", "--scheme", "scheme.json")
    limits = "--sketch simhash --distance 3"
    for command in (
        f"pairs texts.jsonl --scheme scheme.json {limits}",
        f"clean texts.jsonl --scheme scheme.json {limits} -o kept.jsonl",
        f"group {limits}",
    ):
        ran = run_command(*command.split(), "--json", status=0)
    for options in (("--server",), ("--scheme", "minhash.json")):
        Path("minhash.json").write_text(json.dumps(Scheme([esdedup.MinHash()]).to_json()))
        Path("weights.tsv").write_text("the\t0\n")
        ran = run_command("scheme", "--weights", "weights.tsv", *options, status=2)
        assert "--weights is for SimHash" in ran.err


def fields_of(place: Place, id: str) -> dict[str, Any]:
    """The tokens that a document holds."""
    with esdedup.open(place.target, place.index) as index:
        (held,) = index.store.hold([id])
    tokens: dict[str, Any] = held.document.source["esdedup"]
    return {name: tokens[name] for name in ("scheme", "digest", "simhash")}


@pytest.mark.on_every_server
def test_an_index_holds_the_table(place: Place, folder: Path) -> None:
    fill_index(place, [*DOCUMENTS], scheme=WEIGHED)
    # Whoever opens it later computes the same fingerprints.
    with esdedup.open(place.target, place.index) as index:
        assert index.scheme == WEIGHED
        index.add([{"id": "again", "text": TEXTS[0]}])
        found = index.similar(TEXTS[0], sketch="simhash", distance=0).matches
        assert {match.id for match in found} == {"d0", "again"}
        pair = index.explain("d0", "d1")
        (simhash,) = pair.sketches
        assert simhash.features is not None
        assert [each.words for each in simhash.features.shared] == ["garage", "in", "is"]
        assert (simhash.features.differing[0].words, simhash.distance) == (
            "mustang",
            distance(0, 1),
        )
    assert fields_of(place, "again") == fields_of(place, "d0") == tokens_of(TEXTS[:1], WEIGHED)[0]
    # Worker processes too.
    write_lines(Path("more.jsonl"), [{"id": f"w{n}", "text": words(n)} for n in range(50)])
    run_command("index", "more.jsonl", *place.options, "--workers", "2", status=0)
    assert fields_of(place, "w7") == tokens_of([words(7)], WEIGHED)[0]
    other = Scheme([SimHash(feature_size=1, weights=Weights({"the": 1}))])
    with (
        esdedup.open(place.target, place.index, scheme=other) as index,
        pytest.raises(esdedup.exceptions.SchemeMismatch, match=r"simhash\.table"),
    ):
        index.create()


def distance(left: int, right: int) -> int:
    """The Hamming distance of two texts."""
    one, other = sketch([TEXTS[left], TEXTS[right]], WEIGHED).values["simhash"][:, 0].tolist()
    return (one ^ other).bit_count()  # type: ignore[no-any-return]


def damage(place: Place, tables: dict[str, str]) -> None:
    """Replace the tables that an index holds."""
    if isinstance(place.target, Path):
        with sqlite3.connect(place.target) as db:
            ((text,),) = db.execute("SELECT meta FROM esdedup_indices")
            meta = json.loads(text)
            meta["scheme"]["weights"] = tables
            db.execute("UPDATE esdedup_indices SET meta = ?", (json.dumps(meta),))
        db.close()
        return
    (mapping,) = place.call("GET", "/_mapping").values()
    meta = mapping["mappings"]["_meta"]
    meta["esdedup"]["scheme"]["weights"] = tables
    place.call("PUT", "/_mapping", {"_meta": meta})


@pytest.mark.on_every_server
def test_a_missing_or_changed_table_is_an_error_that_names_it(place: Place) -> None:
    fill_index(place, [*DOCUMENTS], scheme=WEIGHED)
    table, other = WEIGHED.sketch().table, Weights({"the": 1})
    assert table is not None
    for tables, message in (
        ({}, "stored: none"),
        ({other.digest: other.packed}, f"stored: {other.digest}"),
        ({table.digest: other.packed}, f"the stored table has {other.digest}"),
    ):
        damage(place, tables)
        for command in (["similar", "--text", "a text"], ["stats"], ["pairs"]):
            ran = run_command(*command, *place.options)
            assert (ran.status, ran.out) == (2, "")
            assert table.digest in ran.err
            assert message in ran.err
            assert "Traceback" not in ran.err
    damage(place, {table.digest: table.packed})
    run_command("similar", "--text", "a text", *place.options, status=0)


@clusters
def test_a_large_table_fits_a_mapping(place: Place) -> None:
    rows = ((f"{number * 0x9E3779B185EBCA87 % 2**64:x}", number) for number in range(85_000))
    table = Weights({word: number % 255 / 10 for word, number in rows})
    scheme = Scheme([SimHash(feature_size=1, weights=table)])
    assert len(table.packed) > 1_000_000
    fill_index(place, [*DOCUMENTS], scheme=scheme)
    with esdedup.open(place.target, place.index) as index:
        assert index.scheme == scheme


@clusters
@pytest.mark.on_every_server
def test_attach_template_and_switch_copy_the_table(place: Place, folder: Path) -> None:
    url, name = str(place.target), place.index
    Path("weighed.json").write_text(json.dumps(WEIGHED.to_json()))
    fill(url, name, {each["id"]: {"text": each["text"]} for each in DOCUMENTS[:3]})
    for command in (["attach"], ["backfill"], ["switch", "--scheme", "weighed.json"]):
        ran = esdedup_command(url, *command, "-i", name, status=0)
    with esdedup.open(url, name) as index:
        assert index.scheme == WEIGHED
        field = index.meta.field
    documents = all_documents(url, name)
    assert documents["d0"][field] == tokens_of(TEXTS[:1], WEIGHED)[0]
    # A component template for the next indices of the name.
    ran = esdedup_command(
        url,
        "template",
        "-i",
        f"{name}-next",
        "--scheme",
        "weighed.json",
        "--text-field",
        "text",
        status=0,
    )
    table = WEIGHED.sketch().table
    assert table is not None
    assert f'"{table.digest}": "{table.packed}"' in ran.out


def test_the_proxy_computes_the_same_fingerprints(
    elasticsearch_url: str, name: str, tmp_path: Path
) -> None:
    fill_index(Place(elasticsearch_url, name), [*DOCUMENTS], scheme=WEIGHED)
    # It starts after the index was made, as after any restart.
    with Enriching(elasticsearch_url, tmp_path) as proxy:
        call(proxy.url, "PUT", f"/{name}/_doc/again?refresh=true", {"text": TEXTS[0]})
    documents = all_documents(elasticsearch_url, name)
    assert documents["again"]["esdedup"] == documents["d0"]["esdedup"]


def test_tables_and_frames_get_the_same_fingerprints() -> None:
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pylist(DOCUMENTS)
    column = esdedup.arrow.tokens(table, WEIGHED).column("simhash").to_pylist()
    assert column == [each.get("simhash") for each in tokens_of(TEXTS, WEIGHED)]
    kept = esdedup.dedup(TEXTS[:3], scheme=WEIGHED, sketch="simhash", distance=0).kept
    assert list(kept) == TEXTS[:3]
