"""Indexing documents that the index has already: nothing is written that need not be."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

import esdedup
from esdedup.models import Change, Document
from esdedup.stores import ClusterStore, Store
from esdedup.stores.elastic import indices
from tests.helpers.commands import call, esdedup_command, fill, run_command, write_lines
from tests.helpers.places import OpenStore, local, plain
from tests.helpers.surroundings import killed_at
from tests.helpers.wrapped import wrapped

SENTENCE = "the council met on monday and voted for a new bridge over the river near town"
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "a", "text": SENTENCE, "n": 1, "tags": ["x", "y"]},
    {"id": "b", "text": SENTENCE + " today", "n": 1.5},
    {"id": "c", "text": "rain is expected in the hills tonight", "n": None},
    {"id": "d", "text": "一个完全不同的文本，没有任何相似之处", "of": {"deep": [{"er": "值"}]}},
]


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


def held(store: Store) -> dict[str, tuple[str, dict[str, Any]]]:
    """The versions of all documents, and what they have below our field but for tokens."""
    found = store.hold([str(each["id"]) for each in DOCUMENTS])
    names = ("scheme", "digest", "group", "original", "similarity")
    return {
        one.id: (one.version, {n: v for n, v in one.document.tokens.items() if n in names})
        for one in found
    }


@pytest.mark.on_every_server
def test_equal_documents_are_not_written_and_keep_their_groups(
    target: list[str], store: Store
) -> None:
    write_lines(Path("some.jsonl"), DOCUMENTS)
    command = ["index", "some.jsonl", "--json", *target]
    assert run_command(*command).json[0]["created"] == 4
    run_command("group", "--collapse-ready", *target, status=0)
    before = held(store)
    assert before["b"][1]["original"] == "a"
    assert all("group" in ours for _, ours in before.values())
    (report,) = run_command(*command).json
    assert (report["unchanged"], report["updated"], report["created"]) == (4, 0, 0)
    assert held(store) == before
    # The same text with other fields keeps its group, another text does not.
    a, b, c, d = DOCUMENTS
    changed = [{**a, "n": 1.0}, {"id": "b", "text": b["text"]}, {**c, "text": "sunshine"}, d]
    write_lines(Path("some.jsonl"), changed)
    (report,) = run_command(*command).json
    assert (report["unchanged"], report["updated"]) == (1, 3)
    after = held(store)
    assert [after[id][1] for id in "abd"] == [before[id][1] for id in "abd"]
    assert after["c"][1].keys() == {"scheme", "digest"}
    assert after["d"][0] == before["d"][0]


@pytest.mark.on_every_server
def test_other_digits_of_equal_numbers_are_another_document(
    target: list[str], store: Store, index: esdedup.Index
) -> None:
    path = Path("prices.jsonl")
    command = ["index", str(path), "--json", *target]
    for price in ("100.1", "100.10", "1001e-1"):
        path.write_text(f'{{"id": "a", "text": "{SENTENCE}", "prices": [{{"net": {price}}}]}}\n')
        (report,) = run_command(*command).json
        assert report["unchanged"] == 0
        run_command("group", "--collapse-ready", *target, status=0)
        (report,) = run_command(*command).json
        assert (report["unchanged"], report["updated"]) == (1, 0)
        (stored,) = store.hold(["a"])
        assert f'{{"net": {price}}}' in (stored.document.raw or "")
    # A value of Python has no digits of its own.
    added = index.add([{"id": "a", "text": SENTENCE, "prices": [{"net": 100.1}]}])
    assert (added.unchanged, added.updated) == (1, 0)


@pytest.mark.parametrize("place", ["local", "elasticsearch"], indirect=True)
def test_tokens_that_are_missing_or_old_are_written(index: esdedup.Index, store: Store) -> None:
    index.add(DOCUMENTS)
    index.group()
    before = held(store)
    a, b = store.hold(["a", "b"])
    old = {**b.document.tokens, "scheme": "another", "minhash": None}
    plain_a = {n: a.document.source[n] for n in ("id", "text", "n", "tags")}
    store.change([Change(a, plain_a, True), Change(b, {"esdedup": old})])
    report = index.add(DOCUMENTS)
    assert (report.updated, report.unchanged) == (2, 2)
    after = held(store)
    assert after["a"][1]["digest"] == before["a"][1]["digest"]
    assert after["b"][1] == before["b"][1]
    assert {match.id for match in index.similar(id="a").matches} == {"b"}


@pytest.mark.on_every_server
def test_updates_of_the_same_text_keep_marks(index: esdedup.Index, store: Store) -> None:
    index.add([*DOCUMENTS, {"id": "e", "text": SENTENCE}], on_duplicate="mark")
    before = held(store)
    assert before["b"][1]["original"] == "a"
    texts = [{"id": each["id"], "text": each["text"].upper(), "n": 9} for each in DOCUMENTS]
    assert index.update(texts) == 4
    after = held(store)
    assert [ours for _, ours in after.values()] == [ours for _, ours in before.values()]
    assert [one.source["n"] for one in store.get(list("abcd"))] == [9] * 4
    index.update([{"id": "b", "text": "sunshine"}, {"id": "a", "text": None}])
    found = {id: ours for id, (_, ours) in held(store).items()}
    assert (found["b"]["group"], found["b"].get("original")) == ("b", None)
    assert (found["a"]["group"], found["a"].get("digest")) == ("a", None)


@local
def test_a_group_of_any_number(index: esdedup.Index) -> None:
    """Users may write what they like there: a table of marks holds less than JSON."""
    index.add(DOCUMENTS)
    assert index.update([{"id": "a", "esdedup": {"group": 2**63}}]) == 1
    assert index.get("a").source["n"] == 1
    assert index.statistics().documents == 4


@pytest.mark.parametrize("place", ["local", "elasticsearch"], indirect=True)
def test_a_change_that_comes_in_between_is_seen(index: esdedup.Index, store: Store) -> None:
    """Another client gives a document a group after it was read and before it is written."""
    index.add(DOCUMENTS)
    updated = list[int]()

    def first_another(changes: Any) -> Any:
        if not updated:
            (one,) = store.hold(["a"])
            report = store.change([Change(one, {"esdedup": {"group": "g"}})])
            updated.append(report.updated)
        return index.store.change(changes)

    with wrapped(index, change=first_another) as late:
        report = late.add([{**DOCUMENTS[0], "n": 2}])
    assert updated == [1]
    assert (report.updated, report.failed) == (1, 0)
    (found,) = store.get(["a"])
    assert (found.source["n"], found.tokens["group"]) == (2, "g")


@pytest.mark.on_every_server
def test_a_line_is_stored_as_it_means(target: list[str], store: Store) -> None:
    lines = [
        '{"id": "plain", "text": "one \\n two", "n": 1.0, "big": 9007199254740993}',
        '{"id":"spaced" , "text" :"a: b" , "of" : {"deep" : [ {"er" : "值"} ] } } ',
        '{"id": "escaped", "text": "\\u4e2d\\ud83d\\ude00"}',
        '{"id": "ours", "text": "three four five", "esdedup": {"group": "g", "digest": "d"}}',
    ]
    Path("some.jsonl").write_text("\n".join(lines), "utf-8")
    (report,) = run_command("index", "some.jsonl", "--json", *target).json
    assert report["created"] == 4
    given = {source["id"]: source for source in map(json.loads, lines)}
    given["ours"].pop("esdedup")
    found = {one.id: one.source for one in store.get(list(given))}
    assert {id: plain(Document(id, source)) for id, source in found.items()} == given
    assert "group" not in found["ours"]["esdedup"]
    # Written in another way, they are the same.
    Path("some.jsonl").write_text("\n".join(map(json.dumps, given.values())), "utf-8")
    assert run_command("index", "some.jsonl", "--json", *target).json[0]["unchanged"] == 4


def test_a_fast_load_restores_refreshes_and_replicas(url: str, name: str) -> None:
    settings = {"number_of_replicas": 2, "refresh_interval": "7s"}
    template = {"index_patterns": [name], "template": {"settings": settings}}
    call(url, "PUT", f"/_index_template/{name}", template)

    def now() -> tuple[Any, Any, list[str]]:
        found = call(url, "GET", f"/{name}/_settings")[name]["settings"]["index"]
        meta = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]["_meta"]
        return found["number_of_replicas"], found.get("refresh_interval"), [*meta]

    write_lines(Path("f.jsonl"), DOCUMENTS)
    try:
        command = ["index", "f.jsonl", "-i", name, "--fast-load"]
        esdedup_command(url, *command, status=0)
        assert now() == ("2", "7s", ["esdedup"])
        esdedup_command(url, *command, status=2)
        with esdedup.open(url, name) as index:
            # As a run does that is killed before its end.
            indices.suspend(cast(ClusterStore, index.store).cluster, name)
            assert now()[:2] == ("0", "-1")
        esdedup_command(url, *command[:-1], status=0)
        assert now() == ("2", "7s", ["esdedup"])
    finally:
        call(url, "DELETE", f"/_index_template/{name}")


def test_a_fast_load_of_an_index_that_is_in_use_changes_nothing(url: str, name: str) -> None:
    """Also one without tokens, which an alias stands for."""
    alias, empty = f"{name}-alias", f"{name}-empty"
    for index in (name, empty):
        settings = {"number_of_replicas": 0, "refresh_interval": "7s"}
        aliases: dict[str, object] = {alias: {}} if index == empty else {}
        call(url, "PUT", f"/{index}", {"settings": settings, "aliases": aliases})
    fill(url, name, {"of others": {"text": SENTENCE}})

    def state() -> list[Any]:
        paths = ("_mapping", "_settings", "_search")
        answers = [call(url, "GET", f"/{name},{empty}/{path}") for path in paths]
        return [*answers[:2], answers[2]["hits"]["hits"]]

    before = state()
    write_lines(Path("f.jsonl"), DOCUMENTS)
    for place, reason in ((name, "has documents"), (alias, f"is a name of {empty}")):
        refused = esdedup_command(url, "index", "f.jsonl", "-i", place, "--fast-load", status=2)
        assert f"--fast-load requires a new index, and '{place}' {reason}" in refused.err
    assert state() == before
    esdedup_command(url, "index", "f.jsonl", "-i", empty, "--fast-load", status=0)


def test_a_fast_load_that_was_interrupted_goes_on_without_the_option() -> None:
    write_lines(Path("f.jsonl"), DOCUMENTS)
    command = ["index", "f.jsonl", "--fast-load"]
    ended = run_command(*command, surroundings=killed_at("Indexing"), status=130)
    assert "Run the same command again to resume without --fast-load" in ended.err
    refused = run_command(*command, status=2)
    assert "--fast-load requires a new index, and 'documents' has documents" in refused.err
    (report,) = run_command(*command[:-1], "--json", status=0).json
    assert report["unchanged"] == len(DOCUMENTS)
