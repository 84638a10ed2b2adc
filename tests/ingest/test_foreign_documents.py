"""Documents of others with something of their own where our tokens lie, and memory of searches."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import DuplicatePolicy
from esdedup.models import FIELD, CandidateQuery, Candidates, Document, tokens_in
from esdedup.stores import LocalStore
from esdedup.stores.elastic.store import ClusterStore
from tests.helpers.commands import fill, words
from tests.helpers.documents import with_tokens
from tests.helpers.places import Place, clusters


def foreign(index: esdedup.Index) -> dict[str, dict[str, Any]]:
    """The same text with its tokens in the forms that the servers take and search."""
    (made,) = with_tokens([Document("1", {"text": words(1)})], index.meta)
    ours = dict(made.tokens)
    forms: dict[str, Any] = {
        "plain": ours,
        "array": [ours],
        "two": [ours, {"digest": "0"}],
        "few": {**ours, "simhash": ours["simhash"][:2]},
        "twice": {**ours, "simhash": [*ours["simhash"], ours["simhash"][0]]},
        "one": {**ours, "simhash": ours["simhash"][0]},
        "mixed": {**ours, "simhash": [*ours["simhash"][:3], 7]},
    }
    return {id: {"text": words(1), FIELD: form} for id, form in forms.items()}


@clusters
def test_tokens_in_other_forms(place: Place, index: esdedup.Index) -> None:
    documents = foreign(index)
    fill(str(place.target), place.index, documents)
    result = index.similar(words(1), sketch="simhash")
    assert [(match.id, match.distance) for match in result.matches] == [("array", 0), ("plain", 0)]
    assert result.candidates == len(documents)
    assert {match.id for match in index.similar(words(1)).matches} == documents.keys()
    report = index.add([{"id": "copy", "text": words(1)}], on_duplicate=DuplicatePolicy("skip"))
    assert report.skipped == 1


@clusters
def test_the_group_is_read_in_an_array(place: Place, index: esdedup.Index) -> None:
    source = foreign(index)["plain"]
    grouped = {"text": source["text"], FIELD: [{**source[FIELD], "group": "first"}]}
    fill(str(place.target), place.index, {"second": grouped})
    index.add([{"id": "third", "text": words(1)}], on_duplicate=DuplicatePolicy("mark"))
    tokens = index.get("third").tokens
    assert (tokens["original"], tokens["group"]) == ("second", "first")


def test_what_is_no_object_holds_no_tokens() -> None:
    ours = {"digest": "0"}
    assert tokens_in({"esdedup": [ours]}, "esdedup") == ours
    for other in ("text", None, 7, [], ["text"], [ours, ours], [[ours]]):
        assert tokens_in({"esdedup": other}, "esdedup") == {}
        assert Document("1", {"esdedup": other}).tokens == {}
    assert tokens_in({}, "esdedup") == {}


class Watched(LocalStore):
    """Notes how many queries come at once, and whether the last candidates are still held."""

    def __init__(self, path: Path, index: str) -> None:
        super().__init__(path, index)
        self.asked: list[int] = []
        self.held = 0
        self._last: list[weakref.ref[Candidates]] = []

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        self.held += sum(ref() is not None for ref in self._last)
        found = super().candidates(queries, limit)
        self.asked.append(len(queries))
        self._last = [weakref.ref(each) for each in found]
        return found


@pytest.mark.parametrize("sketch", ["minhash", "simhash"])
def test_candidates_are_verified_before_the_next_are_fetched(tmp_path: Path, sketch: str) -> None:
    store = Watched(tmp_path / "documents.db", "documents")
    with esdedup.Index(store) as index:
        texts = {f"d{n}": words(n // 2) for n in range(260)}
        texts["d7"] = ""
        index.add([{"id": id, "text": text} for id, text in texts.items()])
        queries = [esdedup.Query(text, exclude=id) for id, text in texts.items()]
        limits = esdedup.Limits(sketch, k=5, candidates=10)
        results = index.similar_many(queries, limits)
        assert store.asked == [50, 50, 50, 50, 50, 9]
        assert store.held == 0
        twins = {f"d{n}": f"d{n ^ 1}" for n in range(260) if n not in (6, 7)}
        for id, result in zip(texts, results, strict=True):
            assert [match.id for match in result.matches] == ([twins[id]] if id in twins else [])
        truncated = index.similar_many(queries[:120], esdedup.Limits(sketch, candidates=1))
        assert not any(result.truncated for result in truncated)


@clusters
def test_a_search_of_many_takes_as_few_requests_as_before(
    index: esdedup.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add([{"id": f"d{n}", "text": words(n)} for n in range(130)])
    assert isinstance(index.store, ClusterStore)
    client = index.store.cluster
    request, asked = client.request, []

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments[1].rpartition("/")[2])
        return request(*arguments, **options)

    monkeypatch.setattr(client, "request", counted)
    limits = esdedup.Limits(k=5, candidates=10)
    results = index.similar_many([esdedup.Query(words(n)) for n in range(130)], limits)
    assert [result.matches[0].id for result in results] == [f"d{n}" for n in range(130)]
    assert [each for each in asked if each != "_mapping"] == ["_msearch"] * 3


@pytest.mark.on_every_server
def test_dotted_keys_are_not_ours(place: Place, index: esdedup.Index) -> None:
    same = {"esdedup.digest": "xzreGzgth1KKGyNLuajIig", "esdedup.group": ["a", "b"]}
    documents = [{"id": id, "text": words(n), "n": n, **same} for n, id in enumerate("abc")]
    index.add(documents)
    index.update([{"id": "a", "n": 7, **same}])
    assert index.group(keep="newest:n").groups.duplicates == 0
    assert {match.id for match in index.similar(words(1)).matches} == {"b"}
    assert [each.source["n"] for each in index.store.get(list("abc"))] == [7, 1, 2]
    assert not any(same.keys() & each.source.keys() for each in index.store.get(list("abc")))
    # A client without esdedup may write them: they are not read.
    index.store.write([Document("d", {"text": words(9), "esdedup.digest": "bad"})])
    assert index.group().groups.duplicates == 0
