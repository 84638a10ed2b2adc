"""Obstacles that settings and mappings show, and settings beside which commands simply work."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

import esdedup
from esdedup import admin
from esdedup.admin.obstacles import KINDS, hindrances
from esdedup.exceptions import StoreError
from esdedup.stores.elastic.indices import IndexState
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import all_documents, call, esdedup_command, fill, words, write_lines
from tests.helpers.pipelines import html_strip, pipeline, use_pipeline
from tests.helpers.processes import start_command
from tests.servers.modules import require_index_mode
from tests.servers.proxy import Answer, Proxy

TEXT = {"text": {"type": "text"}}
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "existing-index.md"


def make(url: str, name: str, settings: dict[str, Any], **mapping: Any) -> None:
    """Create an index with a field `text`."""
    body = {"settings": settings, "mappings": {"properties": TEXT, **mapping}}
    call(url, "PUT", f"/{name}", body)


def write_unseen(url: str, name: str, texts: list[str], first: int = 0) -> None:
    """Write documents that no search sees yet."""
    lines: list[Any] = []
    for at, text in enumerate(texts, first):
        lines += [{"index": {"_id": f"d{at}"}}, {"text": text}]
    assert not call(url, "POST", f"/{name}/_bulk", lines)["errors"]


def obstacles_of(url: str, name: str) -> dict[str, str]:
    """Return what `check` names, by the names of the kinds, and what these stop."""
    (line,) = esdedup_command(url, "check", "-i", name).json
    return {obstacle["name"]: obstacle["stops"] for obstacle in line["obstacles"]}


def settings_of(url: str, name: str) -> Any:
    found = call(url, "GET", f"/{name}/_settings")[name]["settings"]["index"]
    return {key: value for key, value in found.items() if key != "verified_before_close"}


def is_closed(url: str, name: str) -> bool:
    (index,) = call(url, "GET", f"/_resolve/index/{name}")["indices"]
    return "closed" in index["attributes"]


def test_each_kind_is_on_the_page() -> None:
    rows = [row for row in PAGE.read_text("utf-8").splitlines() if row.startswith("| ")]
    names = [row.split("|")[1].strip() for row in rows]
    assert [kind.name for kind in KINDS if kind.name not in names] == []


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "ingest pipeline": ({"index.final_pipeline": "esdedup-test-none"}, "let the index compute"),
    "slow refresh": ({"index.refresh_interval": "30s"}, "index.refresh_interval is 30s"),
    "small pages": ({"index.max_result_window": 50}, "index.max_result_window is 50"),
}


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.on_every_server
def test_a_setting_is_named_by_attach_check_and_template(url: str, name: str, kind: str) -> None:
    settings, advice = SETTINGS[kind]
    make(url, name, settings)
    assert obstacles_of(url, name) == {kind: "nothing"}
    for command in (("check",), ("attach", "--dry-run"), ("attach",)):
        ran = esdedup_command(url, *command, "-i", name)
        assert ran.status == int(command == ("check",)), ran.err
        assert advice in ran.err + ran.out
    assert esdedup_command(url, "check", "-i", name).status == 0
    template = {"index_patterns": [f"{name}-*"], "priority": 400}
    call(url, "PUT", f"/_index_template/{name}", {**template, "template": {"settings": settings}})
    try:
        ran = esdedup_command(url, "template", "-i", f"{name}-2", "--text-field", "text")
        assert (ran.status, advice in ran.err) == (0, True), ran.err
    finally:
        call(url, "DELETE", f"/_index_template/{name}")


@pytest.mark.on_every_server
def test_a_strict_mapping_is_named_and_index_says_once_which_fields_it_lacks(
    url: str, name: str
) -> None:
    make(url, name, {}, dynamic="strict")
    records = [{"id": f"d{n}", "text": words(n), "page": n} for n in range(3)]
    write_lines(Path("new.jsonl"), records)
    attached = esdedup_command(url, "attach", "-i", name)
    request = f'PUT {name}/_mapping {{"properties": {{"id": {{"type": "keyword"}}'
    assert (attached.status, request in attached.err) == (0, True), attached.err
    assert obstacles_of(url, name) == {"strict mapping": "nothing"}
    described = esdedup_command(url, "doctor", "-i", name)
    assert (described.status, "obstacles: strict mapping\n" in described.out) == (0, True)
    assert "rights: unknown" in described.out
    refused = esdedup_command(url, "index", "new.jsonl", "-i", name)
    assert (refused.status, refused.err.count("strict")) == (1, 1), refused.err
    assert "none of the first 3 records was written" in refused.err
    assert "has no fields 'id', 'page'" in refused.err
    assert not Path(f"{name}.dead-letter.jsonl").exists()
    with esdedup.open(url, name) as index, pytest.raises(StoreError, match="'page'"):
        index.add(records)
    call(url, "PUT", f"/{name}/_mapping", {"properties": {"id": {"type": "keyword"}}})
    # One record of several has a field too many, and is rejected alone.
    write_lines(Path("new.jsonl"), [{"id": "e", "text": words(5)}, *records[:1]])
    partly = esdedup_command(url, "index", "new.jsonl", "-i", name)
    counts = partly.json[0]
    assert (partly.status, counts["created"], counts["failed"]) == (1, 1, 1), partly.err
    assert obstacles_of(url, name) == {}


@pytest.mark.on_every_server
def test_fields_that_a_strict_object_lacks_are_named_once(url: str, name: str) -> None:
    place = {"properties": {"town": {"type": "keyword"}}}
    strict = {"dynamic": "strict", "properties": {"place": place, "size": {"type": "long"}}}
    make(url, name, {}, properties=TEXT | {"id": {"type": "keyword"}, "meta": strict})
    meta = {"size": 1, "colour": {"name": "red"}, "place": [{"town": "Vik"}, {"street": "Quay"}]}
    records = [{"id": f"d{n}", "text": words(n), "open": n, "meta": meta} for n in range(3)]
    write_lines(Path("new.jsonl"), records)
    refused = esdedup_command(url, "index", "new.jsonl", "-i", name)
    assert (refused.status, refused.err.count("strict")) == (1, 1), refused.err
    assert "has no fields 'meta.colour', 'meta.place.street'" in refused.err
    request = refused.err.partition(f"PUT {name}/_mapping ")[2].partition("), or write")[0]
    missing = json.loads(request.replace('"..."', '"keyword"'))
    # The colour is an object here, which the request leaves to the user to describe.
    missing["properties"]["meta"]["properties"]["colour"] = {"type": "object", "dynamic": True}
    call(url, "PUT", f"/{name}/_mapping", missing)
    assert esdedup_command(url, "index", "new.jsonl", "-i", name, status=0).json[0]["created"] == 3


def test_a_field_that_no_template_of_a_strict_mapping_allows_is_named_once(
    opensearch_url: str, name: str
) -> None:
    labels = {"match": "label_*", "mapping": {"type": "keyword"}}
    templates = {"dynamic": "strict_allow_templates", "dynamic_templates": [{"labels": labels}]}
    make(opensearch_url, name, {}, **templates)
    write_lines(Path("new.jsonl"), [{"id": "a", "label_of": "b", "text": words(1)}])
    refused = esdedup_command(opensearch_url, "index", "new.jsonl", "-i", name, status=1)
    assert "has no field 'id'. Add it" in refused.err
    assert not Path(f"{name}.dead-letter.jsonl").exists()
    call(opensearch_url, "PUT", f"/{name}/_mapping", {"properties": {"id": {"type": "keyword"}}})
    indexed = esdedup_command(opensearch_url, "index", "new.jsonl", "-i", name, status=0)
    assert indexed.json[0]["created"] == 1


@pytest.mark.on_every_server
def test_a_pipeline_that_changes_texts_is_named_and_the_server_copes(url: str, name: str) -> None:
    texts = [f"<p>{words(at // 2, 20)}</p> {words(at // 2, 5)}" for at in range(4)]
    write_lines(Path("new.jsonl"), [{"id": f"d{n}", "text": t} for n, t in enumerate(texts)])
    with pipeline(url, html_strip("text")) as changing:
        make(url, name, {"index.default_pipeline": changing})
        make(url, f"{name}-server", {"index.default_pipeline": changing})
        assert esdedup_command(url, "attach", "-i", name).status == 0
        attached = esdedup_command(url, "attach", "--server", "--yes", "-i", f"{name}-server")
        assert (attached.status, "ingest pipeline" in attached.err) == (0, False), attached.err
        for index, stale in ((name, 4), (f"{name}-server", 0)):
            indexed = esdedup_command(url, "index", "new.jsonl", "-i", index)
            assert indexed.status == 0, indexed.err
            assert (f"ingest pipeline '{changing}'" in indexed.err) == bool(stale)
            (line,) = esdedup_command(url, "check", "-i", index).json
            assert line["stale"]["count"] == stale
        assert esdedup_command(url, "similar", "-i", f"{name}-server", "--id", "d0").json[0][
            "matches"
        ]
        for index in (name, f"{name}-server"):
            use_pipeline(url, index, None)


@pytest.mark.on_every_server
def test_all_documents_are_read_though_refresh_is_off(url: str, name: str) -> None:
    make(url, name, {"refresh_interval": "-1"})
    texts = [words(at // 2) for at in range(6)]
    write_unseen(url, name, texts)
    attached = esdedup_command(url, "attach", "-i", name)
    assert attached.status == 0, attached.err
    assert esdedup_command(url, "check", "-i", name).json[0]["documents"] == 6
    filled = esdedup_command(url, "backfill", "-i", name)
    assert (filled.status, filled.json[0]["written"]) == (0, 6), filled.err
    fresh = esdedup.enrich([{"id": f"e{at}", "text": words(at // 2, 20)} for at in range(4)])
    lines: list[Any] = []
    for source in fresh:
        lines += [{"index": {"_id": source["id"]}}, source]

    def write_again() -> None:
        assert not call(url, "POST", f"/{name}/_bulk", lines)["errors"]

    def forget() -> None:
        for at in range(4):
            call(url, "DELETE", f"/{name}/_doc/e{at}?refresh=true")

    write_again()
    assert len(esdedup_command(url, "pairs", "-i", name).json) == 5
    stats = esdedup_command(url, "stats", "-i", name).json[0]
    assert (stats["documents"], stats["sketched"]) == (10, 10)
    forget()
    write_again()
    report = esdedup_command(url, "report", "-i", name, "-o", "report.html")
    assert report.json[0]["statistics"]["documents"] == 10
    forget()
    write_again()
    assert len(esdedup_command(url, "dedup", "-i", name).json) == 5
    forget()
    write_again()
    group = esdedup_command(url, "group", "-i", name)
    assert (group.json[0]["documents"], "missed" in group.err) == (10, False), group.err


@pytest.mark.on_every_server
def test_an_index_that_returns_few_hits_at_once(url: str, name: str) -> None:
    make(url, name, {"max_result_window": 3})
    fill(url, name, {f"d{at}": {"text": words(at // 2)} for at in range(20)})
    assert esdedup_command(url, "attach", "-i", name).status == 0
    assert esdedup_command(url, "check", "-i", name).json[0]["without_tokens"]["count"] == 20
    filled = esdedup_command(url, "backfill", "-i", name)
    assert (filled.status, filled.json[0]["written"]) == (0, 20), filled.err
    assert esdedup_command(url, "check", "-i", name).status == 0
    assert len(esdedup_command(url, "pairs", "-i", name).json) == 10
    grouped = esdedup_command(url, "group", "-i", name).json[0]
    assert (grouped["documents"], grouped["groups"]) == (20, 10)
    (found,) = esdedup_command(url, "similar", "-i", name, "--id", "d4").json
    assert [match["id"] for match in found["matches"]] == ["d5"]
    removed = esdedup_command(
        url, "dedup", "-i", name, "--apply", "--action", "delete", "--yes", "--log", "log.zst"
    )
    assert removed.json[-1]["deleted"] == 10, removed.err
    undone = esdedup_command(url, "undo", "log.zst", "-i", name, "--yes")
    assert (undone.status, undone.json[0]["restored"]) == (0, 10), undone.err
    assert len(all_documents_in_pages(url, name)) == 20


def all_documents_in_pages(url: str, name: str) -> set[str]:
    """Return the ids of the documents of an index that returns few at once."""
    call(url, "PUT", f"/{name}/_settings", {"index.max_result_window": 10_000})
    return set(all_documents(url, name))


UNREADABLE: dict[str, dict[str, Any]] = {
    "_source is disabled": {"_source": {"enabled": False}},
    "_source leaves out the field 'text'": {"_source": {"excludes": ["te*"]}},
    "_source leaves out the field 'text' ": {"_source": {"includes": ["other"]}},
}


@pytest.mark.parametrize("reason", UNREADABLE)
@pytest.mark.on_every_server
def test_no_analyzer_is_added_where_no_text_can_be_read(url: str, name: str, reason: str) -> None:
    make(url, name, {}, **UNREADABLE[reason])
    before = settings_of(url, name), call(url, "GET", f"/{name}/_mapping")
    ran = esdedup_command(url, "attach", "--server", "--yes", "-i", name)
    assert (ran.status, reason.strip() in ran.err) == (1, True), ran.err
    assert (settings_of(url, name), call(url, "GET", f"/{name}/_mapping")) == before
    assert not is_closed(url, name)


def test_a_field_left_out_beside_the_text_is_no_obstacle_to_an_analyzer(
    url: str, name: str
) -> None:
    make(url, name, {}, _source={"excludes": ["secret"]})
    assert esdedup_command(url, "attach", "--server", "--yes", "-i", name).status == 0


class _KillsAt(Proxy):
    """Kills a process before a request that changes the state of the index passes.

    at: the number of this request, from 1. Never, if it is 0.
    """

    def __init__(self, upstream: str, at: int) -> None:
        super().__init__(upstream, "opensearch")
        self.at, self.passed = at, 0
        self.process: Popen[str] | None = None
        self.ready = threading.Event()

    def answer(self, method: str, path: str, authorization: str | None) -> Answer | None:
        self.passed += path.endswith(("/_close", "/_open", "/_settings", "/_mapping")) and (
            method != "GET"
        )
        if self.at and self.passed == self.at:
            self.at = 0
            self.ready.wait()
            assert self.process is not None
            self.process.kill()
            return Answer(503, [], b"{}")
        return super().answer(method, path, authorization)


@pytest.mark.parametrize("at", range(1, 9))
def test_attach_goes_on_wherever_it_was_killed(opensearch_url: str, name: str, at: int) -> None:
    url = opensearch_url
    make(url, name, {})
    fill(url, name, {"1": {"text": words(1)}})
    with _KillsAt(url, at) as proxy:
        arguments = ("attach", "--server", "--yes", "-i", name, "--url", proxy.url)
        proxy.process = start_command(*arguments, stdout=PIPE, stderr=PIPE)
        proxy.ready.set()
        _, err = proxy.process.communicate(timeout=120)
        assert proxy.process.returncode == -9, err
    if is_closed(url, name):
        checked = esdedup_command(url, "check", "-i", name)
        assert "by an attach that was interrupted" in checked.out
    again = esdedup_command(url, "attach", "--server", "--yes", "-i", name)
    assert again.status == 0, again.err
    assert not is_closed(url, name)
    meta = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]["_meta"]
    assert list(meta) == ["esdedup"]
    assert esdedup_command(url, "backfill", "-i", name).json[0]["written"] == 1
    assert esdedup_command(url, "check", "-i", name).status == 0


@pytest.mark.parametrize("since", [None, 7_200.0])
@pytest.mark.on_every_server
def test_an_index_that_another_client_closed_stays_closed(
    url: str, name: str, since: float | None
) -> None:
    """since: seconds since an attach that was interrupted noted that it closes the index."""
    make(url, name, {})
    if since is not None:
        note = {"esdedup_closed": time.time() - since}
        call(url, "PUT", f"/{name}/_mapping", {"_meta": note})
    call(url, "POST", f"/{name}/_close")
    for _ in range(2):
        ran = esdedup_command(url, "attach", "--server", "--yes", "-i", name)
        assert (ran.status, f"POST /{name}/_open" in ran.err) == (1, True), ran.err
        assert is_closed(url, name)
    call(url, "POST", f"/{name}/_open")
    assert esdedup_command(url, "attach", "--server", "--yes", "-i", name).status == 0
    meta = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]["_meta"]
    assert list(meta) == ["esdedup"]


UNMAPPED: dict[str, tuple[dict[str, Any], str]] = {
    "dynamic is false": ({"dynamic": False}, "message"),
    "an object that is not enabled": (
        {"properties": {**TEXT, "payload": {"type": "object", "enabled": False}}},
        "payload.message",
    ),
}


@pytest.mark.parametrize("case", UNMAPPED)
@pytest.mark.on_every_server
def test_a_text_that_is_in_documents_only(url: str, name: str, case: str) -> None:
    mapping, field = UNMAPPED[case]
    make(url, name, {}, **mapping)
    texts = [words(at // 2) for at in range(4)]
    outer, _, inner = field.rpartition(".")
    sources = [{outer: {inner: text}} if outer else {inner: text} for text in texts]
    if outer:
        refused = esdedup_command(url, "attach", "-i", name, "--text-field", field)
        assert (refused.status, "the mapping has no field" in refused.err) == (2, True)
    fill(url, name, {f"d{at}": source for at, source in enumerate(sources)})
    wrong = esdedup_command(url, "attach", "-i", name, "--text-field", "massage")
    assert (wrong.status, "the mapping has no field 'massage'" in wrong.err) == (2, True)
    attached = esdedup_command(url, "attach", "-i", name, "--text-field", field)
    assert attached.status == 0, attached.err
    assert esdedup_command(url, "check", "-i", name).json[0]["without_tokens"]["count"] == 4
    assert esdedup_command(url, "backfill", "-i", name).json[0]["written"] == 4
    assert len(esdedup_command(url, "pairs", "-i", name).json) == 2
    assert esdedup_command(url, "check", "-i", name).status == 0


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"type": "object", "enabled": False}, "which is not enabled"),
        ({"type": "nested", "properties": {"body": {"type": "text"}}}, "of type nested"),
    ],
)
def test_no_analyzer_for_a_text_that_can_not_be_indexed(
    url: str, name: str, payload: dict[str, Any], reason: str
) -> None:
    make(url, name, {}, properties={**TEXT, "payload": payload})
    fill(url, name, {"1": {"payload": {"body": words(1)}}})
    before = settings_of(url, name)
    command = ("attach", "--server", "--yes", "-i", name, "--text-field", "payload.body")
    ran = esdedup_command(url, *command)
    assert (ran.status, reason in ran.err) == (1, True), ran.err
    assert settings_of(url, name) == before


def test_tokens_that_an_index_computes_within_nested_objects_are_not_searched() -> None:
    """Also if a template put them there; those in documents are."""
    nested = {"type": "nested", "properties": {"body": {"type": "text"}}}
    state = IndexState("logs", {"properties": {**TEXT, "notes": nested}}, {})
    by_server = esdedup.Scheme([esdedup.Server()])
    for fields in (("notes.body",), ("text", "notes.body")):
        (obstacle,) = hindrances(state, IndexMeta(by_server, fields))
        assert (obstacle.name, obstacle.stops) == ("text not indexed", "attach")
        assert hindrances(state, IndexMeta(esdedup.Scheme(), fields)) == []


@pytest.fixture
def stream(opensearch_url: str, name: str) -> Iterator[str]:
    yield name
    call(opensearch_url, "DELETE", f"/_index_template/{name}*")
    call(opensearch_url, "DELETE", f"/_component_template/esdedup-{name}*")


DERIVED = {"index.derived_source.enabled": True}
STORED = {"text": {"type": "text", "store": True}}


def test_derived_source(opensearch_url: str, name: str, stream: str) -> None:
    url = opensearch_url
    call(url, "PUT", f"/{name}", {"settings": DERIVED, "mappings": {"properties": STORED}})
    fill(url, name, {f"d{at}": {"text": words(at // 2)} for at in range(6)})
    shown = esdedup_command(url, "attach", "-i", name, "--dry-run")
    assert "doc_values" not in shown.out
    _works_with_doc_values(url, name)
    # The next index, by its template, and one that `index` creates.
    derived = {"settings": DERIVED, "mappings": {"properties": STORED}}
    template = {"index_patterns": [f"{name}-n*"], "priority": 400, "template": derived}
    call(url, "PUT", f"/_index_template/{name}", template)
    write_lines(Path("new.jsonl"), [{"id": f"d{at}", "text": words(at // 2)} for at in range(6)])
    indexed = esdedup_command(url, "index", "new.jsonl", "-i", f"{name}-new")
    assert (indexed.status, indexed.json[0]["created"]) == (0, 6), indexed.err
    assert len(esdedup_command(url, "pairs", "-i", f"{name}-new").json) == 3
    ran = esdedup_command(
        url, "template", "-i", f"{name}-next", "--text-field", "text", "--install"
    )
    assert ran.status == 0, ran.err
    template |= {"composed_of": [f"esdedup-{name}-next"]}
    call(url, "PUT", f"/_index_template/{name}", template)
    fill(url, f"{name}-next", {"1": {"text": words(1)}})
    assert esdedup_command(url, "backfill", "-i", f"{name}-next").json[0]["written"] == 1


def _works_with_doc_values(url: str, name: str) -> None:
    """Attach an index of six documents, two of each text, that rebuilds `_source`; use it."""
    ran = esdedup_command(url, "attach", "-i", name)
    assert (ran.status, "rebuilt from doc values" in ran.err) == (0, True), ran.err
    assert esdedup_command(url, "backfill", "-i", name).json[0]["written"] == 6
    assert esdedup_command(url, "check", "-i", name).status == 0
    assert len(esdedup_command(url, "pairs", "-i", name).json) == 3
    assert esdedup_command(url, "group", "-i", name).json[0]["written"] == 6
    assert esdedup_command(url, "group", "-i", name).json[0]["written"] == 0
    (found,) = esdedup_command(url, "similar", "-i", name, "--id", "d2").json
    assert [match["id"] for match in found["matches"]] == ["d3"]
    # The description is put again into a mapping that has doc values.
    assert esdedup_command(url, "stop", "-i", name, "--over", "1", "--yes").status == 0
    removed = esdedup_command(
        url, "dedup", "-i", name, "--apply", "--action", "delete", "--yes", "--log", "log.zst"
    )
    assert removed.status == 0, removed.err


def test_columnar_mode(elasticsearch_url: str, url: str, name: str) -> None:
    if url != elasticsearch_url:
        pytest.skip("only Elasticsearch 9 has this mode")
    require_index_mode(url, "columnar")
    make(url, name, {"index.mode": "columnar"})
    before = call(url, "GET", f"/{name}/_mapping"), settings_of(url, name)
    for command in (("attach",), ("attach", "--server", "--yes")):
        ran = esdedup_command(url, *command, "-i", name)
        assert (ran.status, "columnar mode" in ran.err) == (1, True), ran.err
    assert (call(url, "GET", f"/{name}/_mapping"), settings_of(url, name)) == before
    write_lines(Path("new.jsonl"), [{"id": "1", "text": words(1)}])
    indexed = esdedup_command(url, "index", "new.jsonl", "-i", name)
    assert (indexed.status, "columnar mode" in indexed.err) == (1, True), indexed.err


def test_no_sequence_numbers(elasticsearch_url: str, url: str, name: str) -> None:
    if url != elasticsearch_url:
        pytest.skip("only Elasticsearch 9 has this setting")
    make(url, name, {"index.disable_sequence_numbers": True})
    fill(url, name, {"d0": {"text": words(0)}})
    attached = esdedup_command(url, "attach", "-i", name)
    assert (attached.status, "esdedup backfill" in attached.err) == (0, False), attached.err
    filled = esdedup_command(url, "backfill", "-i", name)
    assert (filled.status, "no sequence numbers" in filled.err) == (1, True), filled.err
    write_lines(Path("new.jsonl"), [{"id": f"d{at}", "text": words(at // 2)} for at in range(4)])
    for command in ("keep", "keep", "mark"):
        indexed = esdedup_command(url, "index", "new.jsonl", "-i", name, "--on-duplicate", command)
        assert indexed.status == 0, indexed.err
    assert len(esdedup_command(url, "pairs", "-i", name).json) == 2


def test_append_only(opensearch_url: str, name: str) -> None:
    url = opensearch_url
    make(url, name, {"index.append_only.enabled": True})
    lines: list[Any] = []
    for at in range(4):
        lines += [{"index": {}}, {"text": words(at // 2)}]
    assert not call(url, "POST", f"/{name}/_bulk?refresh=true", lines)["errors"]
    assert obstacles_of(url, name) == {"append-only": "index"}
    attached = esdedup_command(url, "attach", "-i", name)
    assert (attached.status, "append-only" in attached.err) == (0, True)
    assert "esdedup backfill" not in attached.err
    filled = esdedup_command(url, "backfill", "-i", name)
    assert (filled.status, "append-only" in filled.err) == (1, True)
    _does_not_index(url, name, "append-only")


def _does_not_index(url: str, name: str, reason: str) -> None:
    write_lines(Path("new.jsonl"), [{"id": "1", "text": words(1)}])
    indexed = esdedup_command(url, "index", "new.jsonl", "-i", name)
    assert (indexed.status, reason in indexed.err) == (1, True), indexed.err
    assert indexed.out == ""
    for command in ("group", "dedup"):
        ran = esdedup_command(url, command, "-i", name)
        assert (ran.status, reason in ran.err) == (1, True), ran.err
        assert "run `esdedup backfill" not in ran.err


def test_time_series(elasticsearch_url: str, url: str, name: str) -> None:
    if url != elasticsearch_url:
        pytest.skip("only Elasticsearch 9 is asked")
    require_index_mode(url, "time_series")
    dimension = {"host": {"type": "keyword", "time_series_dimension": True}}
    settings = {"index.mode": "time_series", "index.routing_path": ["host"]}
    settings |= {"index.time_series.start_time": "2026-01-01T00:00:00Z"}
    settings |= {"index.time_series.end_time": "2027-01-01T00:00:00Z"}
    call(
        url,
        "PUT",
        f"/{name}",
        {"settings": settings, "mappings": {"properties": {**TEXT, **dimension}}},
    )
    lines: list[Any] = []
    for at in range(4):
        stamp = f"2026-02-01T00:00:0{at}Z"
        lines += [{"create": {}}, {"@timestamp": stamp, "host": "a", "text": words(at // 2)}]
    assert not call(url, "POST", f"/{name}/_bulk?refresh=true", lines)["errors"]
    assert obstacles_of(url, name)["time series"] == "index"
    attached = esdedup_command(url, "attach", "-i", name)
    assert (attached.status, "time_series mode" in attached.err) == (0, True), attached.err
    assert "esdedup backfill" not in attached.err
    filled = esdedup_command(url, "backfill", "-i", name)
    assert (filled.status, "time_series mode" in filled.err) == (1, True)
    _does_not_index(url, name, "time_series mode")


def test_a_closed_index_behind_an_alias_is_named(url: str, name: str) -> None:
    alias = f"{name}-all"
    for part in (f"{name}-1", f"{name}-2"):
        call(url, "PUT", f"/{part}", {"mappings": {"properties": TEXT}, "aliases": {alias: {}}})
        fill(url, part, {f"{part}-{at}": {"text": words(1)} for at in range(2)})
    assert esdedup_command(url, "attach", "-i", alias).status == 0
    assert esdedup_command(url, "backfill", "-i", alias).status == 0
    call(url, "POST", f"/{name}-1/_close")
    for command in ("pairs", "dedup", "group", "stats", "check", "backfill"):
        ran = esdedup_command(url, command, "-i", alias)
        assert (ran.status, f"POST /{name}-1/_open" in ran.err + ran.out) == (1, True), ran.err


def test_from_python(url: str, name: str) -> None:
    make(url, name, {"refresh_interval": "-1"})
    write_unseen(url, name, [words(1)])
    (checked,) = admin.check(url, name).indices
    assert (checked.meta, checked.documents, checked.sketched) == (None, 1, None)
    assert [obstacle.name for obstacle in checked.obstacles] == ["slow refresh"]
    (change,) = admin.plan_attach(url, name).changes
    assert json.dumps(change.mapping).count("doc_values") > 1
