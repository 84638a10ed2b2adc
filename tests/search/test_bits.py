"""Fingerprints in a field of documents, beside texts and alone, in all stores and commands."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import esdedup
from esdedup import Bits, MinHash, Passages, Scheme
from esdedup.proxy.splice import SentSource, Splicer
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import (
    call,
    esdedup_command,
    fill,
    read_lines,
    run_command,
    words,
    write_lines,
)
from tests.helpers.indices import attach_index, open_index
from tests.helpers.places import Place, clusters

BESIDE = Scheme([MinHash(), Bits(64, 8, name="phash", fields=["image.phash"])])


def prints(size: int = 64) -> dict[str, int]:
    """Return 40 random fingerprints, and some at each distance up to 12 of one of them."""
    rng = np.random.default_rng(size)
    found = {f"r{at:02}": int.from_bytes(rng.bytes(size // 8)) for at in range(40)}
    for distance in range(13):
        flips = sum(1 << int(bit) for bit in rng.choice(size, distance, replace=False))
        found[f"near{distance:02}"] = found["r07"] ^ flips
    return found


def apart(found: dict[str, int], most: int) -> dict[tuple[str, str], int]:
    """Return the distance of each pair within `most`."""
    pairs = itertools.combinations(sorted(found), 2)
    distances = {(a, b): (found[a] ^ found[b]).bit_count() for a, b in pairs}
    return {ids: distance for ids, distance in distances.items() if distance <= most}


def distances_of(pairs: esdedup.results.SimilarPairs) -> dict[tuple[str, str], int | None]:
    return {(each.left, each.right): each.distance for each in pairs}


def near(result: esdedup.results.Result) -> dict[str, int | None]:
    return {match.id: match.distance for match in result.matches}


@pytest.mark.on_every_server
@pytest.mark.parametrize(("size", "distance"), [(64, 8), (256, 12)])
def test_all_within_the_distance_are_found(place: Place, size: int, distance: int) -> None:
    found = prints(size)
    scheme = Scheme([Bits(size, distance)])
    with open_index(
        place,
        ({"id": id, "print": f"{each:0{size // 4}x}"} for id, each in found.items()),
        scheme=scheme,
        text_field="print",
    ) as index:
        for most in (0, 3, distance, 12):
            asked = index.similar(f"{found['r07']:0{size // 4}X}", distance=most, k=100)
            exact = {id: (each ^ found["r07"]).bit_count() for id, each in found.items()}
            assert near(asked) == {id: each for id, each in exact.items() if each <= most}
            # The documents of equal fingerprints are listed with the first of them only.
            pairs = distances_of(index.pairs(distance=most))
            assert pairs == {
                ids: value for ids, value in apart(found, most).items()
                if value == 0 or "r07" not in ids
            }  # fmt: skip
        assert near(index.similar(id="r07")).keys() == near(index.similar(id="near00")).keys() ^ {
            "r07", "near00",
        }  # fmt: skip
        with pytest.raises(esdedup.UsageError, match="is not a fingerprint"):
            index.similar("c3d1")


@pytest.fixture
def beside(place: Place) -> Iterator[esdedup.Index]:
    with esdedup.open(place.target, place.index, scheme=BESIDE, text_field="body") as opened:
        yield opened


def documents() -> list[dict[str, Any]]:
    """Return documents with a text and the fingerprint of an image; one has no image."""
    every = [
        {"id": id, "body": words(at // 2), "image": {"phash": f"{each:016x}"}}
        for at, (id, each) in enumerate(prints().items())
    ]
    return [*every, {"id": "bare", "body": words(1_000)}]


@pytest.mark.on_every_server
def test_texts_and_fingerprints_of_one_index(beside: esdedup.Index, tmp_path: Path) -> None:
    beside.add(documents())
    found = prints()
    assert len(beside.pairs()) == 26
    assert near(beside.similar(id="r07", sketch="phash", k=100)) == {
        f"near{distance:02}": distance for distance in range(9)
    }
    groups = beside.group(sketch="phash", distance=4).groups
    (group,) = groups.groups if hasattr(groups, "groups") else groups
    assert {each.id for each in group.members} < {f"near{each:02}" for each in range(13)} | {"r07"}
    explained = beside.explain("r07", "near03", sketch="phash")
    assert [name for name, *_ in explained.facts()] == [
        "phash: distance", "phash: equal tokens", "exact duplicates",
    ]  # fmt: skip
    assert (explained.sketches[0].distance, explained.sketches[0].always) == (3, 2)
    beside.update([{"id": "bare", "image": {"phash": f"{found['r07']:016x}"}}])
    assert near(beside.similar(id="bare", sketch="phash", distance=0)) == {"r07": 0, "near00": 0}
    beside.update([{"id": "near00", "image": None}])
    assert near(beside.similar(id="bare", sketch="phash", distance=0)) == {"r07": 0}
    with pytest.raises(
        esdedup.exceptions.RecordError, match=r"the field 'image\.phash': 'zz' is not"
    ):
        beside.add([{"id": "x", "body": "a text", "image": {"phash": "zz"}}])
    log = tmp_path / "log.jsonl.zst"
    done = beside.dedup("delete", sketch="phash", distance=0, apply=True, log=log).report
    assert done is not None
    assert done.done == 1
    beside.undo(log)
    assert near(beside.similar(id="bare", sketch="phash", distance=0)) == {"r07": 0}


def test_wrong_values_go_to_the_dead_letter(folder: Path) -> None:
    records: list[Any] = [{"id": id, "phash": f"{each:016x}"} for id, each in prints().items()]
    records[3]["phash"] = "c3d1"
    records[4]["phash"] = None
    records[5]["phash"] = 2**63
    records[6]["phash"] = "w9GltJeObS8="
    del records[8]["phash"]
    write_lines(folder / "images.jsonl", records)
    options = ["images.jsonl", "--bits", "phash:64", "--distance", "8"]
    made = run_command("index", *options, "--db", "x.db", "--index", "images")
    assert (made.status, made.json[0]["created"], made.json[0]["failed"]) == (1, 48, 5)
    first = "images.jsonl:4: the field 'phash': 'c3d1' is not a fingerprint of 64 bits in 16 hex"
    assert first in made.err
    letters = read_lines(folder / "images.dead-letter.jsonl")
    assert [letter["line"] for letter in letters] == [4, 5, 6, 7, 9]
    at = ["--db", "x.db", "--index", "images"]
    asked = f"{prints()['r07']:016x}"
    found = run_command("similar", *at, "--bits", asked, "-k", "100").json[0]["matches"]
    assert {each["id"]: each["distance"] for each in found} == {
        "r07": 0, **{f"near{distance:02}": distance for distance in range(9)},
    }  # fmt: skip
    of_index, of_files = run_command("pairs", *at), run_command("pairs", *options)
    assert of_files.status == 1
    assert {each["right"] for each in of_index.json} == {each["right"] for each in of_files.json}
    run_command("clean", *options, "--output", "out", status=1)
    kept = {
        json.loads(each)["id"]
        for each in (folder / "out/images.jsonl").read_text("utf-8").splitlines()
    }
    assert kept & {f"near{each:02}" for each in range(9)} == set()
    assert {"r07", "r30", "near12"} <= kept
    for wrong, message in (
        (["similar", *at, "--bits", "c3d1"], "'c3d1' is not a fingerprint of 64 bits"),
        (["similar", *at, "--bits", asked, "-t", "0.8"], "which compares by Hamming distance"),
        (["index", "images.jsonl", "--bits", "phash"], "name the field and the number of bits"),
        (["index", "images.jsonl", "--bits", "phash:63:bytes"], "a multiple of 8"),
    ):
        ran = run_command(*wrong, status=2)
        assert message in ran.err


@clusters
def test_fingerprints_are_added_to_an_index_in_use(place: Place, folder: Path) -> None:
    url, name = str(place.target), place.index
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    signed = {
        id: {"title": id, "phash": each - 2**64 if each >= 2**63 else each}
        for id, each in prints().items()
    }
    fill(url, name, {**signed, "none": {"title": "none"}, "list": {"phash": [1, 2]}})
    at = ("--index", name)
    esdedup_command(url, "attach", *at, "--bits", "phash:64:int", "--distance", "8", status=0)
    filled = esdedup_command(url, "backfill", *at)
    assert (filled.status, filled.json[0]["written"], filled.json[0]["failed"]) == (1, 53, 1)
    assert "list:0: the field 'phash': [1, 2] is not a fingerprint of 64 bits" in filled.err
    call(url, "DELETE", f"/{name}/_doc/list?refresh=true")
    found = esdedup_command(url, "similar", *at, "--bits", str(prints()["r07"]), "-k", "100")
    assert {each["id"]: each["distance"] for each in found.json[0]["matches"]} == {
        "r07": 0, **{f"near{distance:02}": distance for distance in range(9)},
    }  # fmt: skip
    esdedup_command(url, "check", *at, status=0)
    # Another client changes a document, and a bulk helper adds one with its tokens.
    call(url, "POST", f"/{name}/_update/near01?refresh=true", {"doc": {"phash": 5}})
    assert esdedup_command(url, "check", *at).json[0]["stale"]["count"] == 1
    assert esdedup_command(url, "backfill", *at, "--stale").json[0]["written"] == 1
    with esdedup.open(url, name) as index:
        (action,) = esdedup.enrich([{"_source": {"phash": 6}}], index=index)
        assert len(action["_source"]["esdedup"]["bits_phash"]) == 3
        (action,) = esdedup.enrich([{"_source": {"phash": "6"}}], index=index)
        assert "esdedup" not in action["_source"]
        assert near(index.similar("5", distance=0)) == {"near01": 0}


@pytest.mark.on_every_server
@clusters
def test_texts_passages_and_fingerprints_by_one_attach(place: Place, folder: Path) -> None:
    url, name, passage = str(place.target), place.index, words(1, 20)
    call(url, "PUT", f"/{name}", {"settings": {"number_of_replicas": 0}})
    sources = {
        "a": {"body": f"{words(2, 60)} {passage}", "image": {"phash": "c3d1a5b4978e6d2f"}},
        "quotes": {"body": f"{passage} {words(3, 60)}", "image": {"phash": "0" * 16}},
        "same": {"body": f"{words(2, 60)} {words(4, 2)}", "image": {"phash": "f" * 16}},
        "resized": {"body": words(5, 30), "image": {"phash": "c3d1a5b4978e6d2e"}},
    }
    fill(url, name, sources)
    at = ("--index", name)
    options = ("--text-field", "body", "--passages", "--bits", "image.phash:64")
    assert attach_index(url, name, *options) == 4
    esdedup_command(url, "check", *at, status=0)
    found = {
        sketch: [
            match["id"]
            for match in esdedup_command(
                url, "similar", *at, "--id", "a", "--sketch", sketch
            ).json[0]["matches"]
        ]
        for sketch in ("minhash", "passages", "phash")
    }  # fmt: skip
    assert found == {
        "minhash": ["same"], "passages": ["same", "quotes"], "phash": ["resized"],
    }  # fmt: skip


def test_the_proxy_adds_tokens_of_fingerprints_and_passages() -> None:
    kinds = [MinHash(), Passages(), Bits(64, 8, "int", name="phash", fields=["phash"])]
    meta = IndexMeta(Scheme(kinds), ("body",))
    text = words(1, 30)
    bodies = [
        {"body": text, "phash": prints()["r07"]},
        {"body": text, "phash": "not a number"},
        {"phash": 7},
    ]
    sources = [SentSource(json.dumps(each).encode()) for each in bodies]
    done, outcomes = Splicer(1 << 20).with_tokens(sources, {None: meta})
    whole, of_text, of_image = map(json.loads, done)
    assert [len(whole["esdedup_phash"]["bits_phash"]), len(of_image["esdedup_phash"])] == [3, 3]
    assert whole["esdedup"]["passages"] == of_text["esdedup"]["passages"]
    assert "esdedup_phash" not in of_text
    assert outcomes == ["added"] * 3
