"""Documents that another client damaged: they are named, and the rest of an index is compared."""

import json
from typing import Any

import pytest

import esdedup
from esdedup.models import FIELD
from tests.helpers.commands import call, esdedup_command, fill, words
from tests.helpers.http import HTTP

COMMANDS = (("group",), ("dedup",), ("report",), ("pairs", "--threshold", "0.8"))


def filled(url: str, name: str) -> dict[str, Any]:
    """Fill an index with three pairs of documents, and return the tokens of the first text."""
    esdedup_command(url, "attach", "--index", name, "--text-field", "text", status=0)
    fill(url, name, {f"d{at}": {"text": words(at // 2)} for at in range(6)})
    esdedup_command(url, "backfill", "--index", name, status=0)
    tokens: dict[str, Any] = call(url, "GET", f"/{name}/_source/d0")[FIELD]
    return tokens


@pytest.mark.on_every_server
def test_documents_with_damaged_tokens_end_no_command(url: str, name: str) -> None:
    HTTP.put(f"{url}/{name}").raise_for_status()
    good = filled(url, name)
    loose = good["digest"][:-1] + chr(ord(good["digest"][-1]) + 1)
    digests = {"short": "AAAA", "loose": loose, "number": 7, "list": ["x", "y"], "none": None}
    lists = {"one": ["zz"], "letters": ["é" * len(each) for each in good["minhash"]]}
    damaged = {id: {**good, "digest": digest} for id, digest in digests.items()}
    damaged |= {id: {**good, "minhash": tokens} for id, tokens in lists.items()}
    fill(url, name, {id: {"text": words(0), FIELD: ours} for id, ours in damaged.items()})
    for command in COMMANDS:
        ran = esdedup_command(url, *command, "--index", name, status=0)
        assert "the digest or tokens of 7 documents can't be read" in ran.err
        assert "and 2 more" in ran.err
        assert "with --stale, and index those documents" in ran.err
        assert "'short'" not in ran.out
        assert "not among those that were read" not in ran.err
    assert esdedup_command(url, "backfill", "--stale", "--index", name).json[0]["written"] == 5
    ran = esdedup_command(url, "group", "--index", name)
    assert "the digest or tokens of 2 documents can't be read" in ran.err
    assert "not among those that were read" not in ran.err
    with esdedup.open(url, name) as index:
        groups = index.groups()
        assert (groups.unreadable, index.missed(groups)) == (2, 0)
        index.add([{"id": "new", "text": words(0)}])
        assert index.missed(groups) == 1
    sources = {id: call(url, "GET", f"/{name}/_source/{id}")[FIELD] for id in damaged}
    assert {id for id, ours in sources.items() if ours.get("group") == "d0"} == {*digests}


def test_a_document_that_the_server_cannot_return_is_named(
    elasticsearch_url: str, name: str
) -> None:
    """Elasticsearch accepts a comment before the JSON, and then fails to filter the document."""
    url = elasticsearch_url
    HTTP.put(f"{url}/{name}").raise_for_status()
    good = filled(url, name)
    body = b"/**/" + json.dumps({"text": words(0), FIELD: good}).encode()
    put = f"{url}/{name}/_doc/a%2Fb?refresh=true"
    json_type = {"content-type": "application/json"}
    HTTP.put(put, content=body, headers=json_type).raise_for_status()
    similar = ("similar", "--text", words(0))
    for command in (*COMMANDS, similar, ("backfill", "--stale"), ("similar", "--id", "a/b")):
        ran = esdedup_command(url, *command, "--index", name, status=1)
        assert f"the server can't return 'a/b' of index '{name}'" in ran.err
        assert f"DELETE /{name}/_doc/a%2Fb" in ran.err
    HTTP.delete(put).raise_for_status()
    for command in (*COMMANDS, similar):
        esdedup_command(url, *command, "--index", name, status=0)


@pytest.mark.on_every_server
def test_half_a_surrogate_pair_in_a_text_is_searched(url: str, name: str) -> None:
    HTTP.put(f"{url}/{name}").raise_for_status()
    attach = ("attach", "--server", "--yes", "--text-field", "text", "--index", name)
    esdedup_command(url, *attach, status=0)
    for id in ("a", "b"):
        body = json.dumps({"text": f"{words(0)} \ud83d {words(1)}"})
        put = f"{url}/{name}/_doc/{id}?refresh=true"
        json_type = {"content-type": "application/json"}
        HTTP.put(put, content=body, headers=json_type).raise_for_status()
    ran = esdedup_command(url, "similar", "--id", "a", "--index", name, status=0)
    assert [match["id"] for match in ran.json[0]["matches"]] == ["b"]
