"""Attaching to, checking and filling indices of others, through the command line."""

import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import admin
from esdedup.records.documents import tokens_of
from esdedup.stores.connection import Connection
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.waits import Waits
from tests.helpers.commands import (
    all_documents,
    call,
    esdedup_command,
    fill,
    words,
    write_lines,
)
from tests.helpers.indices import attach_index
from tests.helpers.processes import at_once
from tests.servers.proxy import Answer, Proxy

META = IndexMeta(esdedup.Scheme())


def expected(text: str, meta: IndexMeta = META) -> dict[str, Any]:
    (tokens,) = tokens_of([text], meta.scheme)
    return tokens


@pytest.mark.on_every_server
def test_index_reports_the_fields_that_an_existing_index_gets(
    url: str, name: str, folder: Path
) -> None:
    call(url, "PUT", f"/{name}", {"mappings": {"properties": {"text": {"type": "text"}}}})
    fill(url, name, {"before": {"text": words(0)}})
    write_lines(folder / "new.jsonl", [{"id": "new", "text": words(1)}])
    attaching = esdedup_command(url, "index", "new.jsonl", "-i", name, status=0)
    mapping = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]["properties"]
    added = len(mapping["esdedup"]["properties"])
    assert f"its mapping got {added} fields, which GET {name}/_mapping shows" in attaching.err
    assert f"esdedup backfill --index {name}" in attaching.err
    again = esdedup_command(url, "index", "new.jsonl", "-i", name, status=0)
    created = esdedup_command(url, "index", "new.jsonl", "-i", f"{name}-new", status=0)
    for indexed in (again, created):
        assert "fields" not in indexed.err
    reports = [indexed.json[0] for indexed in (attaching, created)]
    assert reports[0].keys() == reports[1].keys()
    assert (reports[0]["created"], again.json[0]["unchanged"]) == (1, 1)


@pytest.mark.on_every_server
def test_an_index_from_bare_to_searched(url: str, name: str) -> None:
    mapping = {"_meta": {"team": "news"}, "properties": {"body": {"type": "text"}}}
    call(url, "PUT", f"/{name}", {"mappings": mapping})
    texts = {f"d{n}": words(n // 2) for n in range(300)}
    documents: dict[str, dict[str, Any]] = {id: {"body": t, "n": 1} for id, t in texts.items()}
    documents |= {"none": {"n": 2}, "number": {"body": 5}, "empty": {"body": ""}}
    fill(url, name, documents)

    lost = esdedup_command(url, "attach", "-i", name, status=2)
    assert "--text-field" in lost.err
    assert "body" in lost.err
    shown = esdedup_command(url, "attach", "-i", name, "--text-field", "body", "--dry-run")
    path, change = shown.out.split("\n", 1)
    assert path == f"PUT {name}/_mapping"
    mapping = json.loads(change)["properties"]["esdedup"]["properties"]
    assert mapping["minhash"]["type"] == "keyword"
    assert "esdedup" not in call(url, "GET", f"/{name}/_mapping")[name]["mappings"]["properties"]
    unattached = esdedup_command(url, "check", "-i", name, "--table")
    assert (unattached.status, unattached.out) == (1, f"{name}: not attached, 303 documents\n")
    esdedup_command(url, "backfill", "-i", name, status=1)

    attached = esdedup_command(url, "attach", "-i", name, "--text-field", "body", "--json")
    (request,) = attached.json
    assert (request["method"], request["path"]) == ("PUT", f"{name}/_mapping")
    assert request["body"]["properties"]["esdedup"]["properties"] == mapping
    assert f"esdedup backfill --index {name}" in attached.err
    mappings = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]
    assert mappings["_meta"]["team"] == "news"
    assert esdedup_command(url, "attach", "-i", name).out == f"{name}: attached already\n"
    assert esdedup_command(url, "attach", "-i", name, "--json").json == []
    checked = esdedup_command(url, "check", "-i", name)
    (line,) = checked.json
    assert checked.status == 1
    assert (line["documents"], line["with_tokens"]) == (303, 0)
    assert line["without_tokens"]["count"] >= 301
    assert "esdedup backfill" in checked.err

    filled = esdedup_command(url, "backfill", "-i", name, status=0)
    assert filled.json[0]["written"] in (300, 301)
    second = esdedup_command(url, "backfill", "-i", name)
    assert second.json[0]["written"] == 0
    assert second.json[0]["read"] <= 3
    for id, source in all_documents(url, name).items():
        if id in texts:
            assert source == {**documents[id], "esdedup": expected(texts[id])}
        elif id != "empty":
            assert source == documents[id]
    with esdedup.open(url, name) as index:
        assert [match.id for match in index.similar(id="d10").matches] == ["d11"]

    call(url, "POST", f"/{name}/_update/d4?refresh=true", {"doc": {"body": words(999)}})
    call(url, "POST", f"/{name}/_update/d5?refresh=true", {"doc": {"body": None}})
    fill(url, name, {"new": {"body": words(998)}})
    checked = esdedup_command(url, "check", "-i", name)
    (line,) = checked.json
    assert line["stale"] == {"count": 2, "examples": ["d4", "d5"]}
    advice = (
        f"To fill in missing tokens, and renew stale ones: esdedup backfill --index {name} --stale"
    )
    assert [text for text in checked.err.splitlines() if "backfill" in text] == [advice]
    renewed = esdedup_command(url, "backfill", "-i", name, "--stale")
    assert (renewed.status, renewed.json[0]["written"]) == (0, 3)
    call(url, "DELETE", f"/{name}/_doc/new?refresh=true")
    found = all_documents(url, name)
    assert found["d4"]["esdedup"] == expected(words(999))
    assert set(found["d5"]["esdedup"].values()) == {None}
    assert esdedup_command(url, "check", "-i", name).json[0]["stale"]["count"] == 0


@pytest.mark.on_every_server
def test_of_several_that_attach_at_once_one_is_told_that_it_did(url: str, name: str) -> None:
    # Longer than each of them needs here.
    target = Connection((url,), waits=Waits(settle=1.2))
    call(url, "PUT", f"/{name}", {"mappings": {"properties": {"text": {"type": "text"}}}})
    plans = [admin.plan_attach(url, name, esdedup.Scheme(seed=seed)) for seed in (1, 2, 3)]
    outcomes = at_once([partial(admin.attach, target, plan) for plan in plans])
    assert outcomes.count(None) == 1
    with esdedup.open(url, name) as index:
        assert index.scheme.seed == outcomes.index(None) + 1
    assert all("at the same time" in str(error) for error in outcomes if error is not None)


def test_several_workers_do_the_whole(url: str, name: str) -> None:
    settings = {"number_of_shards": 3, "number_of_replicas": 0}
    call(url, "PUT", f"/{name}", {"settings": settings})
    fill(url, name, {f"d{n}": {"text": words(n, 5)} for n in range(900)})
    esdedup_command(url, "attach", "-i", name)
    done = esdedup_command(url, "backfill", "-i", name, "--workers", "2")
    assert done.json[0]["written"] == 900
    esdedup_command(url, "check", "-i", name, status=0)
    esdedup_command(url, "backfill", "-i", name, "--workers", "1025", status=2)


OURS = ("scheme", "digest", "minhash")
CONFLICTS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a keyword of our name": ({"esdedup": {"type": "keyword"}}, {}, "exists already, as keyword"),
    "a text where tokens go": (
        {"esdedup": {"properties": {"minhash": {"type": "text"}}}},
        {},
        "exists already, as text, not keyword",
    ),
    "no room for fields": ({}, {"index.mapping.total_fields.limit": 3}, "total_fields.limit"),
    "read-only": ({}, {"index.blocks.read_only": True}, "blocks.read_only is set"),
    "tokens that were copied without their mapping": (
        {"esdedup": {"properties": {each: {"type": "text"} for each in OURS}}},
        {},
        "copied with their tokens: create the index again, attach it",
    ),
}


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_conflicts_are_explained_and_change_nothing(url: str, name: str, conflict: str) -> None:
    properties, settings, words_of_it = CONFLICTS[conflict]
    body = {"mappings": {"properties": {"text": {"type": "text"}, **properties}}}
    call(url, "PUT", f"/{name}", body)
    before = call(url, "GET", f"/{name}/_mapping")
    if settings:
        call(url, "PUT", f"/{name}/_settings", settings)
    ran = esdedup_command(url, "attach", "-i", name, status=1)
    assert words_of_it in ran.err
    assert call(url, "GET", f"/{name}/_mapping") == before
    if "esdedup" in properties:
        assert "--field" in ran.err or "copied" in conflict
        esdedup_command(url, "attach", "-i", name, "--field", "esdedup_tokens", status=0)
        fill(url, name, {"1": {"text": words(1)}, "2": {"text": words(1)}})
        esdedup_command(url, "backfill", "-i", name, status=0)
        with esdedup.open(url, name) as index:
            assert [match.id for match in index.similar(id="1").matches] == ["2"]
            assert [(pair.left, pair.right) for pair in index.pairs()] == [("1", "2")]
            assert index.statistics().sketched == 2
    if "index.blocks.read_only" in settings:
        call(url, "PUT", f"/{name}/_settings", {"index.blocks.read_only": False})


def test_a_mapping_without_objects(url: str, name: str) -> None:
    mapping = {"subobjects": False, "properties": {"text": {"type": "text"}}}
    try:
        call(url, "PUT", f"/{name}", {"mappings": mapping})
    except AssertionError as error:
        assert "subobjects" in str(error)  # noqa: PT017
        pytest.skip("this server has no such mappings")
    ran = esdedup_command(url, "attach", "-i", name, status=1)
    assert "subobjects: false" in ran.err


def test_a_closed_index(url: str, name: str) -> None:
    call(url, "PUT", f"/{name}", {"mappings": {"properties": {"text": {"type": "text"}}}})
    call(url, "POST", f"/{name}/_close")
    for command in ("attach", "check"):
        ran = esdedup_command(url, command, "-i", name, status=1)
        assert "is closed: open it" in ran.err + ran.out
    call(url, "POST", f"/{name}/_open")
    esdedup_command(url, "attach", "-i", name)
    call(url, "POST", f"/{name}/_close")
    ran = esdedup_command(url, "backfill", "-i", name, status=1)
    assert "closed" in ran.err
    call(url, "POST", f"/{name}/_open")


ATTACH_SERVER = ("attach", "--server", "--yes", "-i")
TEXT = {"properties": {"text": {"type": "text"}}}


def test_an_index_is_open_again_if_it_takes_no_analyzers(url: str, name: str) -> None:
    # One of our filters gets these flags then.
    refused = {"filter": {"esdedup_3_64_value": {"type": "shingle", "flags": "WRONG"}}}
    call(url, "PUT", f"/{name}", {"settings": {"analysis": refused}, "mappings": TEXT})
    for _ in range(2):
        ran = esdedup_command(url, *ATTACH_SERVER, name, status=1)
        assert "server answered 400" in ran.err
        assert "may be closed" not in ran.err
    assert all_documents(url, name) == {}


class _OpensOnce(Proxy):
    opened = 0

    def answer(self, method: str, path: str, authorization: str | None) -> Answer | None:
        self.opened += path.endswith("/_open")
        refused = Answer(400, [], b"{}") if self.opened > 1 else None
        return refused or super().answer(method, path, authorization)


def test_an_index_that_stays_closed_is_named(opensearch_url: str, name: str) -> None:
    call(opensearch_url, "PUT", f"/{name}", {"mappings": TEXT})
    with _OpensOnce(opensearch_url, "opensearch") as proxy:
        ran = esdedup_command(proxy.url, *ATTACH_SERVER, name)
    assert (ran.status, f"POST /{name}/_open" in ran.err) == (1, True), ran.err
    call(opensearch_url, "POST", f"/{name}/_open")
    esdedup_command(opensearch_url, *ATTACH_SERVER, name, status=0)


def test_a_strict_index(url: str, name: str) -> None:
    mapping = {"dynamic": "strict", "properties": {"text": {"type": "text"}}}
    call(url, "PUT", f"/{name}", {"mappings": mapping})
    fill(url, name, {"1": {"text": words(1)}})
    ran = esdedup_command(url, "attach", "-i", name, "--text-field", "body", "--dry-run", status=2)
    assert "dynamic being strict" in ran.err
    assert attach_index(url, name) == 1
    esdedup_command(url, "check", "-i", name, status=0)


def test_no_index(url: str) -> None:
    for command in ("attach", "backfill", "check"):
        ran = esdedup_command(url, command, "-i", "nope", status=1)
        assert "'nope'" in ran.err
    esdedup_command(url, "attach", "-i", "a*", status=2)


def test_indices_that_take_no_updates_are_left_out(url: str, name: str) -> None:
    alias = f"{name}-all"
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "none": {"mappings": {"_source": {"enabled": False}}},
        "part": {"mappings": {"_source": {"excludes": ["secret"]}}},
        "blocked": {},
    }
    for kind, body in kinds.items():
        call(url, "PUT", f"/{name}-{kind}", {**body, "aliases": {alias: {}}})
        fill(url, f"{name}-{kind}", {kind: {"text": words(1), "secret": "s"}})
    news = esdedup_command(url, "attach", "-i", alias)
    assert (news.out, "got the field 'esdedup'" in news.err) == ("", True)
    call(url, "PUT", f"/{name}-blocked/_settings", {"index.blocks.write": True})
    ran = esdedup_command(url, "backfill", "-i", alias, status=1)
    assert (ran.json[0]["written"], ran.json[0]["left_out"]) == (1, 3)
    for reason in ("_source is disabled", "_source has excludes", "blocks.write is set"):
        assert reason in ran.err
    found = call(url, "POST", f"/{name}-part/_search")["hits"]["hits"]
    assert found[0]["_source"] == {"text": words(1)}


def test_a_synthetic_source(elasticsearch_url: str) -> None:
    url, name = elasticsearch_url, f"esdedup-attach-{uuid.uuid4().hex[:10]}"
    settings = {"index.mapping.source.mode": "synthetic"}
    call(url, "PUT", f"/{name}", {"settings": settings})
    fill(url, name, {f"d{n}": {"text": words(n // 2), "tags": ["b", "a"]} for n in range(10)})
    assert "synthetic" in esdedup_command(url, "attach", "-i", name).err
    assert esdedup_command(url, "backfill", "-i", name).json[0]["written"] == 10
    esdedup_command(url, "check", "-i", name, status=0)
    with esdedup.open(url, name) as index:
        assert len(list(index.pairs())) == 5
        assert [match.id for match in index.similar(id="d2").matches] == ["d3"]
    call(url, "DELETE", f"/{name}")


def test_a_data_stream(opensearch_url: str, tmp_path: Path) -> None:
    url, name = opensearch_url, f"esdedup-stream-{uuid.uuid4().hex[:10]}"
    template = {"index_patterns": [f"{name}*"], "data_stream": {}, "priority": 400}
    call(url, "PUT", f"/_index_template/{name}", template)
    call(url, "PUT", f"/_data_stream/{name}")
    stamp = {"@timestamp": "2026-11-21"}
    fill(url, name, {f"d{n}": {"text": words(n), **stamp} for n in range(10)}, "create")
    call(url, "POST", f"/{name}/_rollover")
    fill(url, name, {f"e{n}": {"text": words(n), **stamp} for n in range(10)}, "create")
    ran = esdedup_command(url, "attach", "-i", name, status=0)
    # The component template is installed, so that one step remains.
    assert f"add 'esdedup-{name}' to composed_of of the index template '{name}'" in ran.err
    assert "esdedup template" not in ran.err
    assert f"Documents that are there already: esdedup backfill --index {name}" in ran.err
    assert call(url, "GET", f"/_index_template/{name}")["index_templates"][0]["index_template"][
        "index_patterns"
    ] == [f"{name}*"]
    assert esdedup_command(url, "backfill", "-i", name).json[0]["written"] == 20
    checked = esdedup_command(url, "check", "-i", name, status=1)
    assert "composed_of" in checked.err
    assert "esdedup template" not in checked.err
    call(url, "PUT", f"/_index_template/{name}", {**template, "composed_of": [f"esdedup-{name}"]})
    esdedup_command(url, "check", "-i", name, status=0)
    again = esdedup_command(url, "attach", "-i", name)
    assert (again.status, again.err) == (0, "")
    # Ours of another scheme.
    ours = call(url, "GET", f"/_component_template/esdedup-{name}")["component_templates"][0]
    other = json.loads(json.dumps(ours["component_template"]).replace('"seed": 1', '"seed": 2'))
    call(url, "PUT", f"/_component_template/esdedup-{name}", other)
    checked = esdedup_command(url, "check", "-i", name, status=1)
    assert f"`esdedup template -i {name}` with --install" in checked.err
    assert "composed_of" not in checked.err
    installed = esdedup_command(url, "template", "-i", name, "--install")
    assert (installed.status, "composed_of" in installed.err) == (0, False)
    esdedup_command(url, "check", "-i", name, status=0)
    call(url, "POST", f"/{name}/_rollover")
    source = tmp_path / "more.jsonl"
    lines = [{"id": "f3", "text": words(3), **stamp}, {"id": "f5", "text": words(5), **stamp}]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    indexed = esdedup_command(url, "index", str(source), "-i", name)
    assert indexed.json[0]["created"] == 2, indexed.err
    again = esdedup_command(url, "index", str(source), "-i", name)
    assert (again.status, again.json[0]["unchanged"]) == (0, 2)
    assert len(call(url, "GET", f"/{name}/_mapping")) == 3
    found = esdedup_command(url, "similar", "-i", name, "--id", "d3").json[0]
    assert sorted(match["id"] for match in found["matches"]) == ["e3", "f3"]
    with esdedup.open(url, name) as index:
        assert index.add([{**lines[1], "text": "changed"}]).updated == 1
        assert index.delete(["e3", "none"]) == 1
        assert [match.id for match in index.similar(id="d3").matches] == ["f3"]
    call(url, "DELETE", f"/_data_stream/{name}")
    call(url, "DELETE", f"/_index_template/{name}")
    call(url, "DELETE", f"/_component_template/esdedup-{name}")


def test_a_data_stream_gets_tokens_of_the_server(opensearch_url: str, name: str) -> None:
    url, stream = opensearch_url, f"{name}-stream"
    template = {"index_patterns": [stream], "data_stream": {}, "priority": 400}
    call(url, "PUT", f"/_index_template/{stream}", {**template, "template": {"mappings": TEXT}})
    call(url, "PUT", f"/_data_stream/{stream}")
    call(url, "POST", f"/{stream}/_rollover")
    settings = call(url, "GET", f"/{stream}/_settings")
    ran = esdedup_command(url, *ATTACH_SERVER, stream, status=1)
    assert "roll over, and try again" in ran.err
    assert call(url, "GET", f"/{stream}/_settings") == settings
    esdedup_command(url, "template", "--server", "-i", stream, "--install", status=0)
    template["composed_of"] = [f"esdedup-{stream}"]
    call(url, "PUT", f"/_index_template/{stream}", template)
    call(url, "POST", f"/{stream}/_rollover")
    ran = esdedup_command(url, *ATTACH_SERVER, stream, status=0)
    fill(url, stream, {"1": {"text": words(1), "@timestamp": "2026-11-21"}}, "create")
    esdedup_command(url, "check", "-i", stream, status=0)
    (found,) = esdedup_command(url, "similar", "--text", words(1), "-i", stream).json
    assert [match["id"] for match in found["matches"]] == ["1"]
    call(url, "DELETE", f"/_data_stream/{stream}")
    call(url, "DELETE", f"/_index_template/{stream}")
    call(url, "DELETE", f"/_component_template/esdedup-{stream}")


@pytest.mark.on_every_server
def test_a_template_before_the_first_index(url: str, name: str) -> None:
    Path("scheme.json").write_text(json.dumps(esdedup.Scheme(seed=7).to_json()))
    command = ("template", "-i", name, "--scheme", "scheme.json", "--install")
    ran = esdedup_command(url, *command, status=1)
    assert "--text-field" in ran.err
    ran = esdedup_command(url, *command, "--text-field", "title", "--text-field", "body", status=0)
    assert ran.out.startswith(f"PUT _component_template/esdedup-{name}\n")
    assert f"add 'esdedup-{name}' to composed_of" in ran.err
    assert "with --install" not in ran.err
    body = {"index_patterns": [f"{name}-*"], "priority": 400, "composed_of": [f"esdedup-{name}"]}
    call(url, "PUT", f"/_index_template/{name}", body)
    again = esdedup_command(url, *command, "--text-field", "title", "--text-field", "body")
    assert "composed_of" not in again.err
    fill(url, f"{name}-1", {"1": {"title": "x", "body": words(1)}})
    checked = esdedup_command(url, "check", "-i", f"{name}-1")
    assert checked.json[0]["text_fields"] == ["title", "body"]
    assert checked.json[0]["scheme_id"] == esdedup.Scheme(seed=7).id
    call(url, "DELETE", f"/_index_template/{name}")
    call(url, "DELETE", f"/_component_template/esdedup-{name}")


def test_texts_below_a_nested_object_and_texts_that_are_none(url: str, name: str) -> None:
    nested = {"type": "nested", "properties": {"body": {"type": "text"}}}
    call(url, "PUT", f"/{name}", {"mappings": {"properties": {"n": nested}}})
    fill(url, name, {"1": {"n": {"body": words(1)}}})
    esdedup_command(url, "attach", "-i", name, "--text-field", "n.body")
    call(url, "PUT", f"/{name}-2", {"mappings": {"properties": {"text": {"type": "keyword"}}}})
    texts: dict[str, dict[str, Any]] = {"1": {"text": words(1, 4)}, "2": {"text": [1, None]}}
    texts |= {"3": {"n": 1}, "4": {"n": 1}}
    fill(url, f"{name}-2", texts)
    esdedup_command(url, "attach", "-i", f"{name}-2")
    for index, without_text in ((name, 0), (f"{name}-2", 3)):
        (found,) = admin.check(url, index, page_size=2).indices
        assert found.bare == admin.Tally(1, ("1",))
        report = esdedup_command(url, "backfill", "-i", index).json[0]
        assert (report["written"], report["without_text"]) == (1, without_text)
        assert admin.check(url, index, page_size=2).good


def test_documents_that_keep_something_else_in_our_field(url: str, name: str) -> None:
    call(url, "PUT", f"/{name}", {"mappings": {"dynamic": False}})
    documents: dict[str, dict[str, Any]] = {f"d{n}": {"text": words(n)} for n in range(5)}
    documents["own"] = {"text": words(9), "esdedup": "mine"}
    fill(url, name, documents)
    esdedup_command(url, "attach", "-i", name, "--text-field", "text")
    ran = esdedup_command(url, "backfill", "-i", name)
    assert (ran.status, ran.json[0]["written"], ran.json[0]["failed"]) == (1, 5, 1)
    assert ran.json[0]["read"] == 6
    assert "is not of esdedup" in ran.err
    assert all_documents(url, name)["own"] == documents["own"]
    assert len(Path(f"{name}.dead-letter.jsonl").read_text().splitlines()) == 1
    with esdedup.open(url, name) as index:
        assert len(index.similar(id="d1", sketch="simhash", distance=7).matches) <= 5
        assert list(index.pairs()) == []
