"""Another scheme for an index that is searched and written to meanwhile."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import esdedup
from esdedup.records.documents import tokens_of
from esdedup.stores.waits import Waits
from tests.helpers.commands import all_documents, call, esdedup_command, fill, words
from tests.helpers.indices import attach_index, fill_index
from tests.helpers.places import Place
from tests.helpers.waits import waits
from tests.servers.proxy import Proxy, Received

OLD = esdedup.Scheme()
WAITS = Waits(mapping=0.2, settle=0.0, switch=0.5)
NEW = esdedup.Scheme(shingling=esdedup.Shingling("char", 5), seed=9)


@pytest.fixture(params=["elasticsearch", "opensearch"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
def name(name: str) -> Iterator[str]:
    Path("new.json").write_text(json_of(NEW))
    with waits(WAITS):
        yield name


def json_of(scheme: esdedup.Scheme) -> str:
    return json.dumps(scheme.to_json())


def test_searches_and_writers_work_all_the_time(url: str, name: str) -> None:
    texts = {f"d{n}": words(n // 2) for n in range(1_000)}
    problems: list[str] = []
    added: dict[str, str] = {}
    stop = threading.Event()
    fill_index(Place(url, name), texts)

    def search() -> None:
        with esdedup.open(url, name, waits=WAITS) as index:
            number = 0
            while not stop.is_set():
                number = (number + 2) % 1_000
                found = index.similar(id=f"d{number}").matches
                if [match.id for match in found] != [f"d{number + 1}"]:
                    problems.append(f"d{number}: {found}")
                stop.wait(0.01)

    def write() -> None:
        with esdedup.open(url, name, waits=WAITS) as index:
            number = 0
            while not stop.is_set():
                number += 1
                added[f"new{number}"] = words(10_000 + number)
                index.add([{"id": f"new{number}", "text": added[f"new{number}"]}])
                stop.wait(0.02)

    threads = [threading.Thread(target=search), threading.Thread(target=write)]
    for thread in threads:
        thread.start()
    ran = esdedup_command(url, "switch", "-i", name, "--scheme", "new.json")
    stop.set()
    for thread in threads:
        thread.join()
    assert ran.status == 0, ran.err
    assert problems == []
    with esdedup.open(url, name) as index:
        meta = index.meta
        assert (meta.scheme, meta.field, meta.next) == (NEW, "esdedup_2", None)
        assert index.similar(id="d10").matches[0].id == "d11"
    documents = all_documents(url, name)
    everything = texts | added
    for id, wanted in zip(everything, tokens_of(list(everything.values()), NEW), strict=True):
        assert documents[id]["esdedup_2"] == wanted, id
    esdedup_command(url, "check", "-i", name, status=0)
    assert "already" in esdedup_command(url, "switch", "-i", name, "--scheme", "new.json").err


@pytest.mark.on_every_server
def test_a_switch_that_was_stopped_goes_on(url: str, name: str) -> None:
    fill_index(Place(url, name), ({"id": str(n), "text": words(n)} for n in range(20)))
    # An index that can't be updated stops it before anything changes.
    call(url, "PUT", f"/{name}/_settings", {"index.blocks.write": True})
    ran = esdedup_command(url, "switch", "-i", name, "--scheme", "new.json", status=1)
    assert "blocks.write" in ran.err
    call(url, "PUT", f"/{name}/_settings", {"index.blocks.write": False})
    with esdedup.open(url, name) as index:
        assert (index.scheme, index.meta.next) == (OLD, None)
    with Proxy(url) as proxy:
        proxy.mappings_left = 1
        ran = esdedup_command(proxy.url, "switch", "-i", name, "--scheme", "new.json")
    assert ran.status == 1
    with esdedup.open(url, name) as index:
        assert (index.scheme, index.meta.next is not None) == (OLD, True)
        assert index.similar(id="3", threshold=0.9).candidates == 0
    Path("third.json").write_text(json_of(esdedup.Scheme(seed=77)))
    ran = esdedup_command(url, "switch", "-i", name, "--scheme", "third.json", status=2)
    assert "is changing to scheme" in ran.err
    esdedup_command(url, "switch", "-i", name, "--text-field", "other", status=2)
    ran = esdedup_command(url, "switch", "-i", name, status=0)
    with esdedup.open(url, name) as index:
        assert index.scheme == NEW
        index.add([{"id": "copy", "text": words(3)}])
        assert [match.id for match in index.similar(id="3").matches] == ["copy"]
    esdedup_command(url, "switch", "-i", name, status=2)


def test_a_switch_that_was_stopped_between_two_indices(url: str, name: str) -> None:
    """Between any two of its requests searches work, and the same command goes on."""
    alias, parts = f"{name}-both", [f"{name}-{part}" for part in "abc"]
    for part in parts:
        call(url, "PUT", f"/{part}", {"aliases": {alias: {}}})
        fill(url, part, {f"{part}{n}": {"text": words(n)} for n in range(5)})
    attach_index(url, alias)
    stages = []
    for allowed in range(20):
        with Proxy(url) as proxy:
            proxy.mappings_left = allowed
            ran = esdedup_command(proxy.url, "switch", "-i", alias, "--scheme", "new.json")
        with esdedup.open(url, alias) as index:
            found = index.similar(id=f"{parts[0]}3").matches
            assert [match.id for match in found] == [f"{parts[1]}3", f"{parts[2]}3"]
            stages.append((index.scheme == NEW, index.meta.next is None))
        if ran.status == 0:
            break
    assert ran.status == 0, ran.err
    assert {(False, True), (False, False), (True, True)} == set(stages)
    for part in parts:
        for source in all_documents(url, part).values():
            assert source["esdedup_2"]["scheme"] == NEW.id


def test_an_index_that_a_rollover_makes_meanwhile_changes_too(url: str, name: str) -> None:
    """It comes from the former template, while a step of the switch waits for other clients."""
    template = f"/_component_template/esdedup-{name}"
    call(url, "PUT", f"/{name}-000001", {"aliases": {name: {"is_write_index": True}}})
    fill(url, name, {f"d{n}": {"text": words(n // 2)} for n in range(6)})
    attach_index(url, name)
    esdedup_command(url, "template", "-i", name, "--install", status=0)
    composed = {"priority": 400, "composed_of": [f"esdedup-{name}"]}
    call(url, "PUT", f"/_index_template/{name}", {"index_patterns": [f"{name}-0*"], **composed})
    put = list[bytes]()

    def roll_over(request: Received) -> None:
        if (request.method, request.path) == ("PUT", template):
            if put and request.body != put[-1]:
                call(url, "POST", f"/{name}/_rollover")
            put.append(request.body)

    try:
        with Proxy(url) as proxy:
            proxy.on_request = roll_over
            esdedup_command(proxy.url, "switch", "-i", name, "--scheme", "new.json", status=0)
        described = call(url, "GET", f"/{name}/_mapping")
        metas = {index: each["mappings"]["_meta"]["esdedup"] for index, each in described.items()}
        assert sorted(metas) == [f"{name}-00000{number}" for number in (1, 2, 3)]
        assert all(meta["id"] == NEW.id and "next" not in meta for meta in metas.values())
        call(url, "POST", f"/{name}/_rollover")
        with esdedup.open(url, name) as index:
            index.add([{"id": "new", "text": words(1)}])
            found = index.similar(words(1)).matches
        assert sorted(match.id for match in found) == ["d2", "d3", "new"]
        esdedup_command(url, "check", "-i", name, status=0)
    finally:
        call(url, "DELETE", f"/_index_template/{name}")
        call(url, "DELETE", template)


def test_groups_and_marks_stay_where_they_are(
    request: pytest.FixtureRequest, url: str, name: str
) -> None:
    with esdedup.open(url, name) as index:
        documents = [{"id": f"d{n}", "text": words(n // 2)} for n in range(20)]
        index.add(documents, on_duplicate=esdedup.DuplicatePolicy("mark"))
    call(url, "POST", f"/{name}/_update/d5", {"doc": {"text": words(99)}})
    Path("old.json").write_text(json_of(OLD))
    originals = {"bool": {"must_not": [{"exists": {"field": "esdedup.original"}}]}}
    # As the documentation has it.
    remove = {
        "query": {"exists": {"field": "esdedup.scheme"}},
        "script": {
            "source": "ctx._source.esdedup.keySet().retainAll(params.marks)",
            "params": {"marks": ["group", "original", "similarity", "distance"]},
        },
    }
    for scheme, field in (("new.json", "esdedup_2"), ("old.json", "esdedup_3")):
        esdedup_command(url, "switch", "-i", name, "--scheme", scheme, status=0)
        # The jars of Elasticsearch know no such request.
        if removes := "opensearch" in request.node.name:
            call(url, "POST", f"/{name}/_update_by_query?refresh=true", remove)
        for id, source in all_documents(url, name).items():
            first = "d5" if id == "d5" else f"d{int(id[1:]) // 2 * 2}"
            assert source["esdedup"]["group"] == first
            assert source["esdedup"].get("original") == (None if first == id else first)
            assert source[field]["minhash"]
            assert not (removes and "scheme" in source["esdedup"])
        body = {"size": 30, "collapse": {"field": "esdedup.group"}}
        assert len(call(url, "POST", f"/{name}/_search", body)["hits"]["hits"]) == 11
        assert call(url, "POST", f"/{name}/_count", {"query": originals})["count"] == 11
        with esdedup.open(url, name) as index:
            assert index.group(collapse_ready=True).marks.written == 0
            marked = esdedup.DuplicatePolicy("mark")
            for text, original in ((words(100), None), (words(3), "d6")):
                index.add([{"id": "d7", "text": text}], on_duplicate=marked)
                assert index.get("d7").tokens.get("original") == original


def test_an_index_is_freed_of_all_that_was_added(
    request: pytest.FixtureRequest, url: str, name: str
) -> None:
    documents = {f"d{n}": {"text": words(n // 2)} for n in range(4)}
    fill(url, name, documents)
    attach_index(url, name)
    esdedup_command(url, "group", "-i", name, status=0)
    # As the documentation has it.
    remove = {
        "script": {
            "source": 'if (!ctx._source.keySet().removeAll(params.fields)) ctx.op = "noop"',
            "params": {"fields": ["esdedup"]},
        }
    }
    # The jars of Elasticsearch know no such request.
    if "opensearch" in request.node.name:
        for updated in (4, 0):
            answer = call(url, "POST", f"/{name}/_update_by_query?refresh=true", remove)
            assert (answer["updated"], answer["noops"]) == (updated, 4 - updated)
        assert all_documents(url, name) == documents
    assert name in [line["index"] for line in esdedup_command(url, "list").json]
    call(url, "PUT", f"/{name}/_mapping", {"_meta": {}})
    assert name not in [line["index"] for line in esdedup_command(url, "list").json]


def test_what_others_keep_under_our_names_stays(url: str, name: str) -> None:
    mapping = {"properties": {"esdedup": {"properties": {"reviewer": {"type": "keyword"}}}}}
    call(url, "PUT", f"/{name}", {"mappings": mapping})
    fill(url, name, {"1": {"text": words(1), "esdedup": {"reviewer": "ann"}}})
    refused = esdedup_command(url, "attach", "-i", name, status=1)
    assert "not of esdedup" in refused.err
    attach_index(url, name, "--field", "esdedup_tokens")
    esdedup_command(url, "switch", "-i", name, "--scheme", "new.json", status=0)
    document = all_documents(url, name)["1"]
    assert document["esdedup"] == {"reviewer": "ann"}
    assert document["esdedup_2"]["scheme"] == NEW.id


def test_a_text_field_that_no_document_has(url: str, name: str) -> None:
    fill_index(Place(url, name), [{"id": "1", "text": words(1)}])
    fill(url, name, {"2": {"txet": 5}})
    ran = esdedup_command(url, "switch", "-i", name, "--text-field", "txet", status=1)
    assert "no document" in ran.err
    with esdedup.open(url, name) as index:
        assert index.meta.text_fields == ("text",)
        assert index.similar(words(1)).matches[0].id == "1"
