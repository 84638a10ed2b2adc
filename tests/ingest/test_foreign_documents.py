"""Documents of others with something of their own where our tokens lie, and memory of searches."""

from typing import Any

import pytest

import esdedup
from esdedup.models import FIELD, Document, tokens_in
from tests.helpers.commands import fill, words
from tests.helpers.places import Place, clusters, with_tokens


def foreign(index: esdedup.Index) -> dict[str, dict[str, Any]]:
    """The same text with its tokens in the forms that the servers take and search."""
    (made,) = with_tokens([Document("1", {"text": words(1)})], index.meta)
    ours = dict(made.tokens)
    forms: dict[str, Any] = {
        "plain": ours,
        "array": [{**ours, "group": "first"}],
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
    index.add([{"id": "copy", "text": words(1)}], on_duplicate="mark")
    tokens = index.get("copy").tokens
    assert (tokens["original"], tokens["group"]) == ("array", "first")


def test_what_is_no_object_holds_no_tokens() -> None:
    ours = {"digest": "0"}
    assert tokens_in({"esdedup": [ours]}, "esdedup") == ours
    for other in ("text", None, 7, [], ["text"], [ours, ours], [[ours]]):
        assert tokens_in({"esdedup": other}, "esdedup") == {}
        assert Document("1", {"esdedup": other}).tokens == {}
    assert tokens_in({}, "esdedup") == {}


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
