"""Searches that others send, searches with conditions of theirs, and many searches at once."""

import json
from pathlib import Path

import pytest

import esdedup
from tests.helpers.commands import call, esdedup_command, words
from tests.helpers.indices import fill_index, open_index
from tests.helpers.places import Place


@pytest.fixture
def name(url: str, name: str) -> str:
    """An index of 40 texts, each twice: of tenant a and, a day later, of tenant b."""
    properties = {"tenant": {"type": "keyword"}, "day": {"type": "date"}}
    call(url, "PUT", f"/{name}", {"mappings": {"properties": properties}})
    fill_index(
        Place(url, name),
        (
            {
                "id": f"{tenant}{n}",
                "text": words(n),
                "tenant": tenant,
                "day": f"2026-11-2{'ab'.index(tenant)}",
            }
            for tenant in "ab"
            for n in range(40)
        ),
    )
    return name


@pytest.mark.on_every_server
def test_a_body_for_any_client(url: str, name: str) -> None:
    ran = esdedup_command(url, "query", "-i", name, "--text", words(3))
    (body,) = ran.json
    hits = call(url, "POST", f"/{name}/_search", body)["hits"]
    assert {hit["_id"]: hit["_score"] for hit in hits["hits"]} == {"a3": 12.0, "b3": 12.0}
    assert "minhash" not in hits["hits"][0]["_source"]["esdedup"]
    tenant = json.dumps({"term": {"tenant": "b"}})
    (body,) = esdedup_command(url, "query", "-i", name, "--id", "a3", "--filter", tenant).json
    hits = call(url, "POST", f"/{name}/_search", body)["hits"]
    assert [hit["_id"] for hit in hits["hits"]] == ["b3"]
    (body,) = esdedup_command(
        url, "query", "-i", name, "--text", words(3), "--sketch", "simhash", "--distance", "7"
    ).json
    hits = call(url, "POST", f"/{name}/_search", body)["hits"]
    assert {"a3", "b3"} <= {hit["_id"] for hit in hits["hits"]}
    (body,) = esdedup_command(url, "query", "-i", name, "--text", "!").json
    assert call(url, "POST", f"/{name}/_search", body)["hits"]["hits"] == []


def test_conditions(url: str, name: str) -> None:
    since = {"range": {"day": {"gte": "2026-11-21"}}}
    ran = esdedup_command(
        url, "similar", "-i", name, "--text", words(5), "--filter", json.dumps(since)
    )
    assert [match["id"] for match in ran.json[0]["matches"]] == ["b5"]
    other = {"term": {"tenant": "a"}}
    with esdedup.open(url, name) as index:
        assert index.similar(words(5), filters=[since, other]).candidates == 0
        found = index.similar(words(5), sketch="simhash", filters=[other])
        assert [match.id for match in found.matches] == ["a5"]
    for wrong in ("[1]", "{", '"x"'):
        ran = esdedup_command(
            url, "similar", "-i", name, "--text", "x", "--filter", wrong, status=2
        )
        assert "--filter" in ran.err
    ran = esdedup_command(
        url, "similar", "-i", name, "--text", "x y z", "--filter", '{"no": {}}', status=1
    )
    assert "no" in ran.err


def test_many_at_once(url: str, name: str) -> None:
    lines = [{"id": f"a{n}", "text": words(n)} for n in range(40)]
    lines += [{"text": words(7)}, {"id": "x", "body": "no text"}, {"id": "y", "text": "."}]
    Path("q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{broken\n")
    ran = esdedup_command(
        url, "similar", "-i", name, "--batch", "q.jsonl", "--candidates", "1", status=1
    )
    assert "2 records skipped" in ran.err
    answers = {answer["query"]: answer for answer in ran.json}
    assert len(answers) == len(ran.json) == 42
    for n in range(40):
        assert [match["id"] for match in answers[f"a{n}"]["matches"]] == [f"b{n}"]
    assert answers["q.jsonl:41"]["truncated"]
    assert answers["y"]["matches"] == []
    assert "texts: More than 1 candidates" in ran.err
    esdedup_command(url, "similar", "-i", name, "--batch", "none.jsonl", status=2)
    esdedup_command(url, "similar", "-i", name, "--batch", "q", "--id", "a", status=2)


def test_results_collapse_on_the_group(url: str, name: str) -> None:
    esdedup_command(url, "group", "-i", name, status=0)
    body = {"query": {"match_all": {}}, "size": 100, "collapse": {"field": "esdedup.group"}}
    hits = call(url, "POST", f"/{name}/_search", body)["hits"]["hits"]
    assert len(hits) == 40
    (body,) = esdedup_command(url, "query", "-i", name, "--text", words(3), "--collapse").json
    assert len(call(url, "POST", f"/{name}/_search", body)["hits"]["hits"]) == 1


def test_a_local_file_has_no_filters(tmp_path: Path) -> None:
    with (
        open_index(tmp_path / "x.db", {"1": words(1)}) as index,
        pytest.raises(esdedup.UsageError, match="filters"),
    ):
        index.similar(words(1), filters=[{"match_all": {}}])
