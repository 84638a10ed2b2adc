"""Buckets that boilerplate makes: found, left out of searches, and said so."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import esdedup
from esdedup.exceptions import StoreError, UsageError
from esdedup.models import Document
from esdedup.search.hot_buckets import hot_buckets
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import MAX_STOPPED, stop_entries, stopped_buckets
from tests.helpers.commands import call, esdedup_command, words
from tests.helpers.indices import fill_index, open_index
from tests.helpers.places import Place, with_tokens

SCHEME = esdedup.Scheme([MinHash(bands=23), esdedup.SimHash()])
DOCUMENTS = 3_000
ENGLISH = words(1, 60)
CHINESE = "".join(chr(0x4E00 + n) for n in np.random.default_rng(2).integers(0, 20_000, 90))


def own_text(seed: int, chinese: bool) -> str:
    if not chinese:
        return words(seed, 24)
    return "".join(chr(0x4E00 + n) for n in np.random.default_rng(seed).integers(0, 20_000, 40))


def texts() -> dict[str, str]:
    """In turn English, Chinese and plain English texts; d0 to d8 come again, with another end."""
    found = {}
    for n in range(DOCUMENTS):
        chinese = n % 3 == 1
        boilerplate = ("" if n % 3 == 2 else CHINESE if chinese else ENGLISH) + " "
        found[f"d{n}"] = boilerplate + own_text(1_000 + n, chinese)
    for n in range(9):
        found[f"again{n}"] = found[f"d{n}"][:-3] + (" and more" if n % 3 != 1 else "完结了")
    return found


TEXTS = texts()


def true_sizes(kind: str) -> Counter[str]:
    documents = [Document(id, {"text": text}) for id, text in TEXTS.items()]
    sketched = with_tokens(documents, IndexMeta(SCHEME))
    return Counter(token for document in sketched for token in document.tokens[kind])


@pytest.fixture
def filled(place: Place) -> Place:
    """A place with an index of all texts."""
    fill_index(place, TEXTS, scheme=SCHEME)
    return place


def test_the_hottest_are_found_with_their_exact_sizes(filled: Place) -> None:
    sizes = true_sizes("minhash")
    large = {f"minhash:{token}": size for token, size in sizes.items() if size > 100}
    assert len(large) > 40
    with open_index(filled) as index:
        found = index.hot_buckets(None, over=100, sketches=("minhash",))
        assert found.sampled == len(TEXTS)
        assert {bucket.token: bucket.documents for bucket in found.buckets} == large
        for bucket in found.buckets:
            assert bucket.share == bucket.documents / len(TEXTS)
            assert bucket.text == TEXTS[bucket.id]
            assert bucket.text.startswith((ENGLISH, CHINESE))
        both = index.hot_buckets(5)
        assert len(both.buckets) == 5
        assert both.buckets == sorted(both.buckets, key=lambda b: (-b.documents, b.sketch, b.token))
        sketches = ("minhash",)
        partly = hot_buckets(index.store, index.meta, None, 100, sketches, most_sampled=1_000)
        assert partly.sampled == 1_000
        assert {b.token for b in partly.buckets} == set(large)
    ran = filled.run("stats", "--hot", "3")
    (stats,) = ran.json
    assert [each["documents"] for each in stats["hot"]] == [b.documents for b in both.buckets[:3]]
    assert stats["hot"][0]["sketch"] == "minhash"
    assert "Found in a sample of" in filled.run("stats", "--hot", "3", "--table").err


def by_one_band(index: esdedup.Index, id: str) -> esdedup.results.Result:
    """The documents similar to one that share any band."""
    limits = esdedup.Limits(threshold=0.8, k=50, least=1, swaps=0)
    return index.similar_many([index.query(id=id)], limits)[0]


@pytest.mark.on_every_server
def test_a_stop_list_makes_queries_cheaper_and_says_so(filled: Place) -> None:
    with open_index(filled) as index:
        before = {n: by_one_band(index, f"d{n}") for n in range(9)}
    for n, result in before.items():
        assert [match.id for match in result.matches] == [f"again{n}"]
        assert (result.asked, result.stopped) == (23, 0)
        assert (result.candidates > 300) == (n % 3 != 2)
    assert "pass --yes to confirm" in filled.run("stop", "--over", "100").err
    assert filled.run("stop").json == []
    shown = {line["token"] for line in filled.run("stop", "--over", "100", "--yes").json}
    large = {f"minhash:{t}" for t, size in true_sizes("minhash").items() if size > 100}
    assert shown == large
    assert {line["token"] for line in filled.run("stop").json} == large
    with open_index(filled) as index:
        assert set(index.meta.stop) == large
        for n in range(9):
            result = by_one_band(index, f"d{n}")
            assert [match.id for match in result.matches] == [f"again{n}"]
            assert result.asked + result.stopped == 23
            assert not result.blind
            assert (result.stopped > 0) == (n % 3 != 2)
            assert (result.candidates < before[n].candidates / 10) == (n % 3 != 2)
        # Documents keep their tokens, and new ones get all of theirs.
        index.add([{"id": "new", "text": TEXTS["d3"]}])
        assert index.similar(id="new", threshold=1.0).matches[0].id == "d3"
        body = index.request_body(TEXTS["d3"])
        assert len(body["query"]["bool"]["should"]) == index.similar(TEXTS["d3"]).asked
    ran = filled.run("similar", "--id", "d3")
    assert "bands of the text were skipped" in ran.err
    assert ran.json[0]["stopped"] > 0
    assert "stop list" in filled.run("query", "--id", "d3").err
    assert "stop list" not in filled.run("similar", "--id", "d2").err
    assert "No bucket" in filled.run("stop", "--over", "100", "--yes").err
    assert len(filled.run("stop").json) == len(large)
    filled.run("stop", "--clear", status=0)
    filled.run("stop", sorted(large)[0].removeprefix("minhash:"), status=0)
    assert len(filled.run("stop").json) == 1
    filled.run("stop", "--clear", status=0)
    with open_index(filled) as index:
        assert index.meta.stop == ()
        assert by_one_band(index, "d0").stopped == 0


def test_a_text_of_which_all_is_stopped(filled: Place) -> None:
    """It says so, wherever it is looked for; so does what compares as it comes in."""
    with open_index(filled) as index:
        index.add([{"id": f"bare{n}", "text": ENGLISH} for n in range(2)])
        (bare,) = with_tokens([Document("x", {"text": ENGLISH})], index.meta)
        index.stop_list.replace(list(bare.tokens["minhash"]))
        result = index.similar(ENGLISH)
        assert (result.matches, result.candidates, result.asked) == ([], 0, 0)
        assert (result.stopped, result.blind, result.truncated) == (23, True, False)
        assert index.request_body(ENGLISH)["query"] == {"match_none": {}}
        empty = index.similar("...")
        assert (empty.stopped, empty.asked, empty.blind) == (0, 0, False)
        policy = esdedup.DuplicatePolicy("skip")
        report = index.add([{"id": "bare2", "text": ENGLISH + " ..."}], on_duplicate=policy)
        assert (report.created, report.duplicates, report.truncated) == (1, 0, 1)
        # Equal texts are found by their digests, which nothing stops.
        report = index.add([{"id": "bare3", "text": ENGLISH}], on_duplicate=policy)
        assert (report.skipped, report.duplicates, report.truncated) == (1, 1, 0)
    ran = filled.run("similar", "--text", ENGLISH)
    assert "Nothing could be looked for" in ran.err
    assert "23 tokens are in the stop list of the index" in filled.run("pairs", "-t", "0.9").err
    # Another index would find no more.
    assert "makes one" not in ran.err
    lines = [{"id": "d2", "text": TEXTS["d2"]}, {"text": ENGLISH}]
    Path("q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran = filled.run("similar", "--batch", "q.jsonl")
    assert "1 of 2 texts: Nothing could be looked for" in ran.err
    assert [answer["stopped"] for answer in ran.json] == [0, 23]


@pytest.mark.parametrize("signature", [0, 128])
def test_the_nearest_expect_no_more_than_is_left(tmp_path: Path, signature: int) -> None:
    more = [esdedup.Signature(signature)] if signature else []
    base, half = own_text(1, False).split(), own_text(3, False).split()
    text = " ".join(base)
    with esdedup.open(
        tmp_path / "x.db", scheme=esdedup.Scheme([MinHash(bands=23), *more])
    ) as index:
        near = [{"id": f"near{n}", "text": " ".join([*base, *half[: n + 1]])} for n in range(4)]
        index.add([*near, {"id": "copy", "text": text}])
        (own,) = with_tokens([Document("x", {"text": text})], index.meta)
        index.stop_list.replace(own.tokens["minhash"][:21])
        result = index.similar(text, threshold=None, k=4)
        # Two bands are too few to be sure of four, so values are looked up too.
        assert (result.stopped, result.asked) == (21, 2 + signature)
        assert (result.recall is not None and result.recall >= 0.999) == bool(signature)
        if signature:
            assert [match.id for match in result.matches] == ["copy", "near0", "near1", "near2"]
        index.stop_list.replace(own.tokens["minhash"])
        blind = index.similar(text, threshold=None, k=4)
        found = len(blind.matches), blind.asked, blind.blind
        assert found == ((4, 128, False) if signature else (0, 0, True))


def test_buckets_of_a_list() -> None:
    stop = stop_entries(["minhash:000011", ".12345", "simhash:2.zz", "000011"], SCHEME)
    assert stop == ("minhash:.12345", "minhash:000011", "simhash:2.zz")
    positions, values = stopped_buckets(stop, SCHEME.sketch("minhash"))
    assert positions.tolist() == [0, 1]
    # The digits are "0" for 1, "1" for 2.
    assert values.tolist()[1] == 64**4 + 64**3 + 64**2 + 2 * 64 + 2
    # Two kinds of tokens of the same form: only the kind tells them apart.
    alike = esdedup.Scheme([esdedup.MinHash(token_bits=18), esdedup.SimHash(64, 4)])
    with pytest.raises(UsageError, match=r"use minhash:\.123 or simhash:\.123"):
        stop_entries([".123"], alike)
    assert stop_entries(["simhash:.123"], alike) == ("simhash:.123",)
    for wrong in ("x", ":.12345", ".1234é", "minhash:", "simhash:.12345"):
        with pytest.raises(UsageError, match="not a token"):
            stop_entries([wrong], SCHEME)
    with pytest.raises(UsageError, match=r"1,001 tokens: use at most 1,000"):
        stop_entries([f".{n:05}" for n in range(MAX_STOPPED + 1)], SCHEME)


@pytest.mark.on_every_server
def test_an_alias_and_a_switch(url: str, name: str) -> None:
    meta = {"team": "news"}
    for part in ("a", "b"):
        body = {"aliases": {name: {"is_write_index": part == "b"}}, "mappings": {"_meta": meta}}
        call(url, "PUT", f"/{name}-{part}", body)
        fill_index(Place(url, f"{name}-{part}"), [{"id": part, "text": ENGLISH}])
    with esdedup.open(url, name) as index:
        (bare,) = with_tokens([Document("x", {"text": ENGLISH})], index.meta)
        (_, *rest) = tokens = list(bare.tokens["minhash"])
        assert index.hot_buckets(1).buckets[0].documents == 2
        index.stop_list.replace(tokens)
        assert index.similar(ENGLISH).blind
        stale = index.store.meta()
        index.stop_list.replace(rest)
        assert index.similar(ENGLISH).asked == 1
        # A list that was made from an earlier description does not overwrite the present one.
        assert stale is not None
        with pytest.raises(StoreError, match="changed by another"):
            index.store.renew(stale, replace(stale, stop=()))
    for part in ("a", "b"):
        mapping = call(url, "GET", f"/{name}-{part}/_mapping")[f"{name}-{part}"]["mappings"]
        assert mapping["_meta"]["team"] == "news"
        assert len(mapping["_meta"]["esdedup"]["stop"]) == 11
    Path("new.json").write_text(json.dumps(esdedup.Scheme(seed=9).to_json()))
    ran = esdedup_command(url, "switch", "-i", name, "--scheme", "new.json", status=0)
    assert "The stop list (11 tokens) was of the old scheme and is empty now" in ran.err
    with esdedup.open(url, name) as index:
        assert (index.scheme.seed, index.meta.stop) == (9, ())
        assert index.similar(ENGLISH).stopped == 0
