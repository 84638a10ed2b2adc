"""Texts of several values and fields in indices that others write to."""

from typing import Any

import pytest

import esdedup
from esdedup import admin
from esdedup.records.documents import tokens_of
from tests.helpers.commands import all_documents, call, esdedup_command, fill, words

OPTIONS = ("--text-field", "title", "--text-field", "n.body")
WHOLE = "\n".join(map(words, range(3)))
PARTS = {"title": words(0), "n": [{"body": words(1)}, {"body": [words(2)]}]}


def digest(text: str) -> str:
    written = tokens_of([text], esdedup.Scheme())[0]["digest"]
    assert isinstance(written, str)
    return written


@pytest.mark.on_every_server
def test_strings_of_arrays_and_fields(url: str, name: str) -> None:
    text = {"type": "text"}
    properties = {"title": text, "n": {"properties": {"body": text}}}
    call(url, "PUT", f"/{name}", {"mappings": {"properties": properties}})
    documents: dict[str, dict[str, Any]] = {
        "array": PARTS,
        "string": {"title": WHOLE},
        "body": {"n": {"body": [words(0), None, f"{words(1)}\n{words(2)}"]}},
        "none": {"title": [], "n": {"other": 1}},
        "number": {"title": 5},
    }
    fill(url, name, documents)
    esdedup_command(url, "attach", "-i", name, *OPTIONS, status=0)
    checked = esdedup_command(url, "check", "-i", name, status=1)
    assert checked.json[0]["text_fields"] == ["title", "n.body"]
    found = checked.json[0]["without_tokens"]
    assert (found["count"], sorted(found["examples"])) == (3, ["array", "body", "string"])
    filled = esdedup_command(url, "backfill", "-i", name).json[0]
    assert (filled["written"], filled["without_text"]) == (3, 1)
    for id, source in all_documents(url, name).items():
        ours = source.pop("esdedup", {"digest": None})
        assert source == documents[id]
        assert ours["digest"] == (digest(WHOLE) if id in ("array", "body", "string") else None)
    esdedup_command(url, "check", "-i", name, status=0)
    (shown,) = esdedup_command(url, "similar", "-i", name, "--id", "array").json
    assert sorted(match["id"] for match in shown["matches"]) == ["body", "string"]
    assert len(esdedup_command(url, "pairs", "-i", name).json) == 2


def test_a_missing_field_is_told(url: str, name: str) -> None:
    call(url, "PUT", f"/{name}", {"mappings": {"properties": {"title": {"type": "text"}}}})
    with pytest.raises(esdedup.UsageError, match=r"'bdoy'.*: title$"):
        admin.attach(url, name, text_field=["title", "bdoy"])
    admin.attach(url, name, text_field="title")
    with pytest.raises(esdedup.UsageError, match="'bdoy'"):
        admin.switch(url, name, text_field=["title", "bdoy"])


@pytest.mark.on_every_server
def test_fields_that_servers_fill_are_refused(url: str, name: str) -> None:
    fields = {
        "n": {"properties": {"body": {"type": "text", "copy_to": "all"}}},
        "title": {"type": "keyword", "copy_to": ["all"], "fields": {"words": {"type": "text"}}},
        "more": {"type": "text", "fields": {"title": {"type": "keyword"}}},
        "all": {"type": "text"},
        "other": {"type": "alias", "path": "n.body"},
    }
    call(url, "PUT", f"/{name}", {"mappings": {"properties": fields}})
    for wrong, right in (("all", "n.body, title"), ("title.words", "title"), ("other", "n.body")):
        with pytest.raises(esdedup.UsageError, match=f"'{wrong}', which servers .* {right}:"):
            admin.attach(url, name, text_field=wrong)
    assert admin.attach(url, name, text_field="title").hindrances == []
