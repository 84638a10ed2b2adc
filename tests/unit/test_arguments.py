"""Arguments of a wrong type: each is named, before anything is done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import Limits, MinHash, Scheme, UsageError

URL = "http://localhost:1"


def some(value: Any) -> Any:
    """A value of any type, also for the type checker."""
    return value


@pytest.fixture
def index() -> Any:
    opened = esdedup.open("a.db")
    opened.add([{"id": "a", "text": "one two three"}])
    return opened


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("text: use text or None, not int", lambda index: index.similar(text=5)),
        ("k: use a whole number, not str", lambda index: index.similar("x", k="5")),
        ("threshold: use a number or None", lambda index: index.similar("x", threshold="0.5")),
        ("filters: give a list", lambda index: index.similar("x", filters={"term": {}})),
        ("max_per_bucket: use a whole", lambda index: index.pairs(max_per_bucket=1.5)),
        ("use Grouping.*, not dict", lambda index: index.groups(grouping={})),
        ("keep: use text, not NoneType", lambda index: index.groups(keep=None)),
        ("exact: use True or False", lambda index: index.group(exact="no")),
        ("work: use text or a path or None", lambda index: index.group(work=5)),
        ("action 'x': use delete, mark or move", lambda index: index.dedup(action="x")),
        ("log: use text or a path", lambda index: index.undo(5)),
        ("ids: give a list", lambda index: index.delete(None)),
        ("tokens: give a list", lambda index: index.stop_list.replace("abc")),
        ("sketches: give a list", lambda index: index.hot_buckets(sketches="minhash")),
        ("count -1: use at least 1", lambda index: index.hot_buckets(-1)),
        ("documents: give a list", lambda index: index.add({"text": "x"})),
        ("documents: give a list", lambda index: index.update("a text")),
        ("'drop': use ", lambda index: index.add([], on_duplicate="drop")),
        ("id_field: use text", lambda index: index.add([{"text": "x"}], id_field=5)),
        ("sample: use a whole number", lambda index: index.store.sample([], index.meta, 1.5, 0)),
        ("text: use text", lambda index: index.similar_many([esdedup.Query(some(5))], Limits())),
    ],
)
def test_of_an_index(index: Any, named: str, call: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError, match=named):
        call(index)


@pytest.mark.parametrize(
    ("named", "call"),
    [
        ("retry_for: use a number", lambda: esdedup.open(URL, retry_for=some("5m"))),
        (
            "password: use text or None",
            lambda: esdedup.open(URL, username="u", password=some(b"p")),
        ),
        ("target: use text or a path", lambda: esdedup.open(some(5))),
        ("index: use text", lambda: esdedup.open("x.db", index=some(5))),
        ("scheme: use an esdedup.Scheme", lambda: esdedup.open("x.db", scheme=some("x"))),
        ("text field ''", lambda: esdedup.open("x.db", text_field="")),
        ("text field 'a': name it once", lambda: esdedup.open("x.db", text_field=["a", "a"])),
        ("text field: give a list", lambda: esdedup.open("x.db", text_field=some(5))),
        ("text field: use text, not int", lambda: esdedup.open("x.db", text_field=["a", some(1)])),
        ("scheme: use an esdedup.Scheme", lambda: esdedup.enrich([], scheme=some("x"))),
        ("actions: give a list", lambda: esdedup.enrich(some({"text": "x"}))),
        ("bands: use a whole number, not bool", lambda: MinHash(bands=True)),
        ("recall: use a number", lambda: Limits(recall=some("0.9"))),
        (r"shingling: use Shingling\(...\), not str", lambda: Scheme(shingling=some("word:2"))),
        ("sketches: use Sketch", lambda: Scheme([some(5)])),
        ("limits: use Limits", lambda: esdedup.Grouping(some(0.8))),
        ("size: use a whole number", lambda: esdedup.Shingling(size=some("x"))),
        ("casefold: use True or False", lambda: esdedup.Normalisation(casefold=some(3))),
    ],
)
def test_of_others(folder: Path, named: str, call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match=named):
        call()
    assert not list(folder.iterdir())
