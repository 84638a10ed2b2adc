"""One contract for all stores, and the same results from all."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import esdedup
from esdedup.datatypes import FIELD, Document, RecallQuery
from esdedup.ingest import with_tokens
from esdedup.schema import IndexMeta
from esdedup.sketch import shingle_sets, sketch
from esdedup.stores import Store
from esdedup.verify import hamming, jaccard
from tests.conftest import delete_index

META = IndexMeta(esdedup.Scheme())
STORES = ["local", "elasticsearch", "elasticsearch8", "opensearch"]
Open = Callable[..., esdedup.Index]

clusters = pytest.mark.parametrize("target", STORES[1:], indirect=True)


@pytest.fixture(params=STORES)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """The address of a store, or the file of the local one."""
    if request.param == "local":
        return tmp_path / "documents.db"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def name() -> str:
    return f"esdedup-test-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def open_index(target: str | Path, name: str) -> Iterator[Open]:
    opened: list[esdedup.Index] = []

    def open_one(**options: Any) -> esdedup.Index:
        opened.append(esdedup.open(target, name, **options))
        return opened[-1]

    yield open_one
    for index in opened:
        index.close()
    if isinstance(target, str):
        delete_index(target, name)


@pytest.fixture
def index(open_index: Open) -> esdedup.Index:
    made = open_index()
    made.create()
    return made


@pytest.fixture
def store(index: esdedup.Index) -> Store:
    return index.store


def documents(texts: list[str], first: int = 0) -> list[Document]:
    plain = [Document(f"d{number}", {"text": text}) for number, text in enumerate(texts, first)]
    return with_tokens(plain, META)


def words(seed: int, count: int = 40) -> str:
    rng = np.random.default_rng(seed)
    return " ".join(f"w{number}" for number in rng.integers(0, 10**9, count).tolist())


def recalled(store: Store, query: Document, limit: int = 10) -> list[tuple[str, int]]:
    groups = [[token] for token in query.tokens["minhash"]]
    (found,) = store.recall([RecallQuery("minhash", groups)], limit)
    return [(candidate.document.id, candidate.matched) for candidate in found.found]


def test_nothing_is_there_before_it_is_made(open_index: Open) -> None:
    index = open_index()
    assert index.store.meta() is None
    for work in (lambda: list(index.pairs()), lambda: index.similar("x"), index.statistics):
        with pytest.raises(esdedup.IndexNotFound, match="esdedup-test"):
            work()


def test_another_scheme_or_field_is_refused_by_name(open_index: Open) -> None:
    open_index().create()
    open_index().create()
    other = esdedup.Scheme(shingling=esdedup.Shingling("char", 5))
    with pytest.raises(esdedup.SchemeMismatch, match=r"shingling\.size 3, not 5"):
        open_index(scheme=other).create()
    with pytest.raises(esdedup.SchemeMismatch, match="'text', not 'body'"):
        open_index(text_field="body").create()
    assert open_index().scheme == esdedup.Scheme()


def test_what_is_written_is_read_as_it_was(store: Store) -> None:
    source = {
        "text": "你好 world again",
        "nested": {"a": [1, None], "b": [{"c": "ü"}]},
        "dotted.name": "x",
        "big": 2**53,
        "empty": "",
        "flag": False,
    }
    ids = ["plain", "with space/and slash", "编号-1", "x" * 512, "a\"b'c"]
    made = with_tokens([Document(id, source) for id in ids], META)
    report = store.write(made)
    assert (report.created, report.updated, report.failures) == (5, 0, [])
    store.refresh()
    found = store.get([*ids, "absent"])
    assert [document.id for document in found] == ids
    for document in found:
        assert {k: v for k, v in document.source.items() if k != FIELD} == source
        assert set(document.tokens) == {"scheme", "digest", "fingerprint"}
    scanned = store.scan([f"{FIELD}.minhash"], META.scheme.id)
    assert sorted(document.id for batch in scanned for document in batch) == sorted(ids)


def test_recall_ranks_by_tokens_and_tells_truncation(store: Store) -> None:
    base = words(1)
    half = " ".join([*base.split()[:32], *words(2).split()[:8]])
    made = documents([base, half, words(3), words(4)])
    store.write(made)
    store.refresh()
    found = recalled(store, made[0])
    assert found[0] == ("d0", 23)
    assert [id for id, _ in found] == ["d0", "d1"]
    assert 0 < found[1][1] < 23
    groups = [[token] for token in made[0].tokens["minhash"]]
    queries = [RecallQuery("minhash", groups)] * 120
    assert [answer.truncated for answer in store.recall(queries, 2)] == [False] * 120
    assert [answer.truncated for answer in store.recall(queries, 1)] == [True] * 120
    (without,) = store.recall([RecallQuery("minhash", groups, exclude="d0")], 5)
    assert [candidate.document.id for candidate in without.found] == ["d1"]
    assert set(without.found[0].document.tokens) == {"scheme", "digest", "fingerprint"}
    grouped = RecallQuery("minhash", [[*group, f"{group[0][0]}absent"] for group in groups[:3]])
    (ranked,) = store.recall([grouped], 5)
    assert ranked.found[0].matched == 3


def test_an_update_takes_the_old_tokens_away(store: Store) -> None:
    old, new = documents([words(1)])[0], documents([words(2)])[0]
    store.write([old])
    report = store.write([new, new])
    assert (report.created, report.updated) == (0, 2)
    store.refresh()
    assert recalled(store, old) == []
    assert recalled(store, new) == [("d0", 23)]
    assert store.statistics(META.scheme.id).documents == 1


def test_creating_does_not_overwrite(store: Store) -> None:
    old, new = documents([words(1)])[0], documents([words(2)])[0]
    store.write([old])
    report = store.write([new, *documents([words(3)], first=1)], create=True)
    assert report.created == 1
    assert [(failure.id, failure.conflict) for failure in report.failures] == [("d0", True)]
    assert store.get(["d0"])[0].source["text"] == words(1)


def test_deleting(store: Store) -> None:
    made = documents([words(1), words(2)])
    store.write(made)
    assert store.delete(["d0", "absent"]) == 1
    store.refresh()
    assert recalled(store, made[0]) == []
    assert [document.id for document in store.get(["d0", "d1"])] == ["d1"]


def test_a_scan_gives_each_document_once(store: Store) -> None:
    store.write(documents([words(number, 3) for number in range(4_500)]))
    store.refresh()
    ids = [document.id for batch in store.scan([], META.scheme.id) for document in batch]
    assert len(ids) == 4_500
    assert len(set(ids)) == 4_500
    numbers = store.statistics(META.scheme.id)
    assert (numbers.documents, numbers.sketched, numbers.other) == (4_500, 4_500, 0)
    assert numbers.bytes > 0


@clusters
def test_an_index_of_others_keeps_what_it_has(target: str, name: str, open_index: Open) -> None:
    mapping = {"_meta": {"team": "news"}, "properties": {"day": {"type": "date"}}}
    call(target, "PUT", f"/{name}", {"mappings": mapping})
    call(target, "PUT", f"/{name}/_doc/1?refresh=true", {"day": "2026-11-21", "text": "x"})
    open_index().create()
    stored = call(target, "GET", f"/{name}/_mapping")[name]["mappings"]
    assert stored["_meta"]["team"] == "news"
    assert stored["properties"]["day"] == {"type": "date"}
    assert stored["properties"][FIELD]["dynamic"] == "false"
    with pytest.raises(esdedup.RecordError, match="document 1"):
        open_index().add([{"id": "2", "text": "y", "day": "no day"}])
    assert open_index().statistics().documents == 1
    raw = call(target, "GET", f"/{name}/_doc/1")["_source"]
    assert raw == {"day": "2026-11-21", "text": "x"}


@clusters
def test_tokens_are_in_the_source(target: str, name: str, store: Store) -> None:
    made = documents([words(1)])
    store.write(made)
    assert call(target, "GET", f"/{name}/_doc/d0")["_source"] == dict(made[0].source)


def test_pairs_and_similar_are_exact_and_alike_in_all_stores(index: esdedup.Index) -> None:
    texts = corpus()
    index.add({"id": f"t{row:03}", "text": text} for row, text in enumerate(texts))
    expected = brute_force(texts)
    got = {(pair.left, pair.right): pair.similarity for pair in index.pairs(threshold=0.7)}
    assert got == {ids: value for ids, value in expected.items() if value >= 0.7}
    order = [(-(pair.similarity or 0), pair.left, pair.right) for pair in index.pairs()]
    assert order == sorted(order)
    for distance in (3, 7):
        near = {
            (pair.left, pair.right): pair.distance
            for pair in index.pairs(metric="hamming", distance=distance)
        }
        assert near == brute_force_hamming(texts, distance)
        result = index.similar(id="t010", metric="hamming", distance=distance, k=1000)
        assert {match.id: match.distance for match in result.matches} == {
            a if b == "t010" else b: value for (a, b), value in near.items() if "t010" in (a, b)
        }
    result = index.similar(id="t010", threshold=0.7)
    assert {match.id: match.similarity for match in result.matches} == {
        a if b == "t010" else b: value
        for (a, b), value in expected.items()
        if "t010" in (a, b) and value >= 0.7
    }
    assert not result.truncated
    assert index.similar(id="t010", candidates=1).truncated
    assert index.similar("").matches == []
    assert index.similar("...!").matches == []


def corpus() -> list[str]:
    """300 texts; every tenth is followed by three edited copies of it, at 3 to 30 words' edits."""
    rng = np.random.default_rng(11)
    texts: list[str] = []
    for number in range(300):
        if number % 10 in (1, 2, 3):
            edited = texts[number - number % 10].split()
            for at in rng.integers(0, len(edited), 2 * (number % 10) ** 2 - 1).tolist():
                edited[at] = f"edit{rng.integers(10**6)}"
            texts.append(" ".join(edited))
        else:
            texts.append(words(number, 120))
    return [*texts, "", "!"]


def brute_force(texts: list[str]) -> dict[tuple[str, str], float]:
    left, right = np.triu_indices(len(texts), 1)
    similarity = jaccard(shingle_sets(texts, META.scheme), left, right)
    return {
        (f"t{a:03}", f"t{b:03}"): value
        for a, b, value in zip(left.tolist(), right.tolist(), similarity.tolist(), strict=True)
    }


def brute_force_hamming(texts: list[str], distance: int) -> dict[tuple[str, str], int]:
    made = sketch(texts, META.scheme)
    assert made.fingerprints is not None
    left, right = np.triu_indices(len(texts), 1)
    apart = hamming(made.fingerprints[left], made.fingerprints[right])
    real = made.filled[left] & made.filled[right] & (apart <= distance)
    return {
        (f"t{a:03}", f"t{b:03}"): value
        for a, b, value in zip(
            left[real].tolist(), right[real].tolist(), apart[real].tolist(), strict=True
        )
    }


def call(url: str, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        url + path, data, {"content-type": "application/json"}, method=method
    )
    with urllib.request.urlopen(request) as answer:
        return json.loads(answer.read() or b"{}")
