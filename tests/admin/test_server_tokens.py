"""Tokens that the index computes, of documents that other programs write and change."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import esdedup
from esdedup import Limits, Query
from tests.helpers.commands import call, esdedup_command, fill, words
from tests.helpers.http import HTTP

TEMPLATE = ("--server", "--text-field", "message", "--install")


@pytest.fixture
def templates(url: str, name: str) -> Iterator[dict[str, Any]]:
    """Install the component template, and yield the index template that composes it."""
    esdedup_command(url, "template", "--index", name, *TEMPLATE, status=0)
    inside = {"settings": {"number_of_replicas": 0}, "aliases": {name: {}}}
    patterns = {"index_patterns": [f"{name}-2*"], "composed_of": [f"esdedup-{name}"]}
    yield {**patterns, "priority": 400, "template": inside}
    for kind, made in (("_index_template", f"{name}*"), ("_component_template", f"esdedup-{name}")):
        HTTP.delete(f"{url}/{kind}/{made}")


@pytest.mark.on_every_server
def test_a_template_that_maps_the_text_itself_is_found(
    url: str, name: str, templates: dict[str, Any]
) -> None:
    """A mapping in an index template replaces that of its component templates, multi-fields too."""
    mapped = {"mappings": {"properties": {"message": {"type": "text", "norms": False}}}}
    own = {**templates, "template": {**templates["template"], **mapped}}
    call(url, "PUT", f"/_index_template/{name}", own)
    fill(url, f"{name}-2", {f"d{at}": {"message": words(at // 2)} for at in range(6)})
    similar = ("similar", "--index", name, "--text", words(1))
    ran = esdedup_command(url, *similar)
    assert (ran.status, ran.out) == (1, "")
    assert f"index '{name}-2' computes no tokens of 'message'" in ran.err
    assert f"esdedup attach -i {name}" in ran.err
    for command in ("check", "group"):
        esdedup_command(url, command, "--index", name, status=1)
    advised = esdedup_command(url, "template", "--index", f"{name}-2")
    assert "that template can't map the text field" in advised.err
    # The next index is right, and both are once the first one is attached.
    call(url, "PUT", f"/_index_template/{name}", templates)
    assert "can't map" not in esdedup_command(url, "template", "--index", f"{name}-2").err
    fill(url, f"{name}-21", {"e0": {"message": words(1)}})
    esdedup_command(url, "attach", "--index", name, "--yes", status=0)
    message = call(url, "GET", f"/{name}-2/_mapping")[f"{name}-2"]["mappings"]["properties"]
    assert message["message"]["norms"] is False
    assert esdedup_command(url, "check", "--index", name).json[0]["without_tokens"]["count"] == 6
    esdedup_command(url, "backfill", "--index", name, status=0)
    (found,) = esdedup_command(url, *similar).json
    assert sorted(match["id"] for match in found["matches"]) == ["d2", "d3", "e0"]


def test_a_template_that_makes_an_object_of_the_text_nested_is_named(
    elasticsearch_url: str, name: str
) -> None:
    """OpenSearch refuses such a template."""
    url = elasticsearch_url
    command = ("--server", "--text-field", "note.body", "--install")
    esdedup_command(url, "template", "--index", name, *command, status=0)
    inside = {"mappings": {"properties": {"note": {"type": "nested"}}}}
    patterns = {"index_patterns": [f"{name}-2*"], "composed_of": [f"esdedup-{name}"]}
    call(url, "PUT", f"/_index_template/{name}", {**patterns, "priority": 400, "template": inside})
    try:
        fill(url, f"{name}-2", {"d": {"note": {"body": words(1)}}})
        checked = esdedup_command(url, "check", "--index", f"{name}-2", status=1)
        (obstacle,) = checked.json[0]["obstacles"]
        assert obstacle["name"] == "text not indexed"
        assert "'note', of type nested" in obstacle["reason"]
    finally:
        HTTP.delete(f"{url}/_index_template/{name}")
        HTTP.delete(f"{url}/_component_template/esdedup-{name}")


@pytest.mark.on_every_server
def test_a_document_changed_hundreds_of_times_is_found_by_its_last_text(
    url: str, name: str, templates: dict[str, Any]
) -> None:
    templates["template"]["settings"]["refresh_interval"] = "100ms"
    call(url, "PUT", f"/_index_template/{name}", templates)
    index, changes, done = f"{name}-2", 300, threading.Event()
    texts = [words(number, 30) for number in range(changes)]

    def write(letter: str) -> int:
        """Write and delete documents until the other document has changed, then count requests."""
        ids = [f"{letter}{number}" for number in range(30)]
        lines: list[Any] = [{"delete": {"_id": id}} for id in ids[:5]]
        for number, id in enumerate(ids):
            lines += [{"index": {"_id": id}}, {"message": words(ord(letter) * 1_000 + number, 30)}]
        sent = 0
        while not (done.is_set() and sent):
            call(url, "POST", f"/{index}/_bulk", lines)
            sent += 1
        return sent

    changed: list[Any] = []
    for at, text in enumerate(texts):
        partial = [{"update": {"_id": "x"}}, {"doc": {"message": text}}]
        changed += partial if at % 3 else [{"index": {"_id": "x"}}, {"message": text}]
    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, letter) for letter in "ab"]
        try:
            for first in range(0, len(changed), 20):
                answer = call(url, "POST", f"/{index}/_bulk", changed[first : first + 20])
                assert not answer["errors"], answer
        finally:
            done.set()
        assert min(writer.result() for writer in writers) > 1
    assert call(url, "GET", f"/{index}/_doc/x")["_version"] == changes
    call(url, "POST", f"/{index}/_refresh")
    # Matches are verified by the text, but a former token would make it a candidate.
    only_it = {"ids": {"values": ["x"]}}
    queries = [Query(text, filters=[only_it]) for text in texts[:-1]]
    with esdedup.open(url, name) as opened:
        former = opened.similar_many(queries, Limits(threshold=0.5))
        (last,) = opened.similar(texts[-1], threshold=0.5)
    assert {(len(result.matches), result.candidates) for result in former} == {(0, 0)}
    assert (last.id, last.matched) == ("x", 64)
