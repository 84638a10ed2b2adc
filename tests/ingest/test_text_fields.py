"""Texts of several values and several fields, wherever a text is taken from a document."""

import json
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup.models import FIELD
from esdedup.proxy.splice import SentSource, Splicer
from esdedup.records.documents import tokens_of
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import run_command, words, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place, local, plain

FIELDS = ("title", "body")
OPTIONS = ("--text-field", "title", "--text-field", "body")
META = IndexMeta(esdedup.Scheme(), FIELDS)
TITLE, FIRST, SECOND = words(1, 10), words(2, 20), words(3, 20)
WHOLE = f"{TITLE}\n{FIRST}\n{SECOND}"
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "a", "title": TITLE, "body": [FIRST, SECOND]},
    {"id": "b", "title": [TITLE, None], "body": [[FIRST], 5, SECOND]},
    {"id": "c", "body": WHOLE},
    {"id": "d", "title": TITLE},
]
BAD: list[dict[str, Any]] = [{"id": "e", "body": []}, {"id": "f", "title": [5], "body": None}]


@pytest.fixture(autouse=True)
def _documents(folder: Path) -> None:
    write_lines(folder / "documents.jsonl", [*DOCUMENTS, *BAD])


def tokens(text: str) -> dict[str, Any]:
    return tokens_of([text], META.scheme)[0]


def run(command: str, *arguments: str, status: int = 0) -> list[Any]:
    return run_command(command, *arguments, "--json", status=status).json


def test_a_local_index() -> None:
    (report,) = run("index", "documents.jsonl", *OPTIONS, "--workers", "2", status=1)
    assert (report["created"], report["failed"]) == (4, 2)
    with esdedup.open(text_field=FIELDS) as index:
        assert [plain(index.get(each["id"])) for each in DOCUMENTS] == DOCUMENTS
    assert run("stats")[0]["text_fields"] == ["title", "body"]
    for pairs in (run("pairs"), run("pairs", "documents.jsonl", *OPTIONS, status=1)):
        assert [(each["left"], each["right"]) for each in pairs] == [("a", "b"), ("a", "c")]
        assert {each["similarity"] for each in pairs} == {1.0}
    (found,) = run("similar", "--id", "a")
    assert [match["id"] for match in found["matches"]] == ["b", "c"]
    assert run("explain", "a", "b")[0]["similarity"] == 1.0
    write_lines(Path("queries.jsonl"), DOCUMENTS[:1])
    assert run("similar", "--batch", "queries.jsonl")[0]["matches"] == found["matches"]
    (done,) = run("dedup", "--keep", "longest", "--action", "delete", "--apply", "--yes")
    assert done["deleted"] == 2
    with pytest.raises(esdedup.exceptions.SchemeMismatch, match="the fields 'title', 'body', not"):
        esdedup.open(text_field=("body", "title")).create()


def test_updates_of_some_of_the_fields(place: Place) -> None:
    with open_index(place, DOCUMENTS, text_field=FIELDS) as index:
        assert index.update([{"id": "d", "body": [FIRST, SECOND]}, {"id": "a", "n": 1}]) == 2
        assert plain(index.get("d")) == {**DOCUMENTS[0], "id": "d"}
        found = index.store.hold(["a", "d"])
        assert [one.document.tokens["digest"] for one in found] == [tokens(WHOLE)["digest"]] * 2
        assert [match.id for match in index.similar(id="d").matches] == ["a", "b", "c"]
        index.update([{"id": "a", "title": None, "body": None}, {"id": "b", "body": None}])
        assert [match.id for match in index.similar(TITLE).matches] == ["b"]
        assert {match.id for match in index.similar(WHOLE, threshold=0.9).matches} == {"c", "d"}


def test_enrich_and_the_proxy(caplog: pytest.LogCaptureFixture) -> None:
    part = {"_op_type": "update", "_id": "a", "doc": {"title": TITLE}}
    whole = {**part, "doc": {"title": None, "body": WHOLE}}
    given = [{"_source": document} for document in DOCUMENTS[:3]]
    made = list(esdedup.enrich([*given, part, whole], text_field=FIELDS))
    assert [each["_source"][FIELD] for each in made[:3]] == [tokens(WHOLE)] * 3
    assert made[3] == part
    assert made[4]["doc"][FIELD] == {**tokens(WHOLE), "wordless": None}
    assert "1 updates hold only some of the text fields" in caplog.text
    caplog.clear()
    sources = [SentSource(json.dumps(each).encode()) for each in DOCUMENTS[:3]]
    sources += [
        SentSource(json.dumps({"doc": each["doc"]}).encode(), None, True) for each in (part, whole)
    ]
    done, _ = Splicer(1 << 20).with_tokens(sources, {None: META})
    assert [json.loads(each)[FIELD] for each in done[:3]] == [tokens(WHOLE)] * 3
    assert done[3] == sources[3].body
    assert json.loads(done[4])["doc"][FIELD] == {**tokens(WHOLE), "wordless": None}
    assert "1 updates hold only some of the text fields" in caplog.text


@local
def test_a_change_of_the_text_fields_takes_the_text_of_each(place: Place) -> None:
    """While an index changes its fields, its writers give each document the tokens of both."""
    following = IndexMeta(esdedup.Scheme(), ("body",), "esdedup_2")
    meta = IndexMeta(esdedup.Scheme(), ("title",), next=following)
    document = {"title": TITLE, "body": FIRST}
    expected = {**document, FIELD: tokens(TITLE), "esdedup_2": tokens(FIRST)}
    sources = [SentSource(json.dumps(document).encode())]
    (proxied,), _ = Splicer(1 << 20).with_tokens(sources, {None: meta})
    assert json.loads(proxied) == expected
    store = place.open()
    store.create(meta)
    with esdedup.open(place.target, place.index) as index:
        (enriched,) = esdedup.enrich([{"_source": document}], index=index)
        assert enriched["_source"] == expected
        index.add([{"id": "1", **document}, {"id": "2", "title": SECOND}])
        first, second = index.store.hold(["1", "2"])
        assert first.document.source == {"id": "1", **expected}
        assert "esdedup_2" not in second.document.source
        index.update([{"id": "1", "body": SECOND}])
        (first,) = index.store.hold(["1"])
        assert first.document.source["esdedup_2"]["digest"] == tokens(SECOND)["digest"]
        assert first.document.source[FIELD] == tokens(TITLE)
