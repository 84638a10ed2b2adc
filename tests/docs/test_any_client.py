"""The requests of the page for clients in any language, on both products."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.helpers.commands import call, run_command
from tools.docs import ROOT, blocks_of

PAGE = (ROOT / "docs/how-to/any-client.md").read_text("utf-8")
BY_LOOKUP, BY_TOKENS = (json.loads(block.body) for block in blocks_of(PAGE) if block.kind == "json")
(IN_JAVASCRIPT,) = (block.body for block in blocks_of(PAGE) if block.kind == "js")
ARTICLES = str(ROOT / "examples" / "articles.jsonl")

pytestmark = [
    pytest.mark.on_every_server,
    pytest.mark.parametrize("url", ["elasticsearch", "opensearch"], indirect=True),
]


@pytest.fixture
def articles(url: str) -> str:
    """The index of the page, whose name other tests use too."""
    index = "any-client-articles"
    run_command("index", ARTICLES, "--url", url, "--index", index)
    call(url, "POST", f"/{index}/_refresh")
    return index


def hits(url: str, index: str, body: Any) -> dict[str, float]:
    """Return the scores of the hits by their ids, which have no tokens."""
    found = call(url, "POST", f"/{index}/_search", body)["hits"]["hits"]
    assert all("esdedup" not in hit["_source"] for hit in found)
    return {hit["_id"]: hit["_score"] for hit in found}


def test_a_terms_lookup_finds_similar_documents(url: str, articles: str) -> None:
    lookup = json.loads(json.dumps(BY_LOOKUP).replace('"articles"', f'"{articles}"'))
    assert {"zh-06", "zh-07"} <= hits(url, articles, lookup).keys()


def test_scores_are_shared_tokens(url: str, articles: str) -> None:
    document = call(url, "GET", f"/{articles}/_doc/zh-05?_source_includes=esdedup.minhash")
    tokens = document["_source"]["esdedup"]["minhash"]
    text = json.dumps(BY_TOKENS["query"]["bool"]["should"][0])
    body = json.loads(json.dumps(BY_TOKENS))
    clauses = [json.loads(text.replace("TOKEN", token)) for token in tokens]
    body["query"]["bool"]["should"] = clauses
    scores = hits(url, articles, body)
    assert scores.keys() == {"zh-06", "zh-07"}
    for id, score in scores.items():
        other = call(url, "GET", f"/{articles}/_doc/{id}")["_source"]["esdedup"]["minhash"]
        assert score == len({*tokens} & {*other}) >= 4


def test_the_program_in_javascript_runs(url: str, articles: str) -> None:
    if shutil.which("node") is None:
        pytest.skip("it needs node")
    arguments = ", ".join(map(json.dumps, [url, articles, "zh-05"]))
    program = f"{IN_JAVASCRIPT}\nconsole.log(JSON.stringify(await similar({arguments})));\n"
    command = ["node", "--input-type=module"]
    ended = subprocess.run(command, input=program, capture_output=True, text=True, check=True)
    found = {match["id"]: match["tokens"] for match in json.loads(ended.stdout)}
    assert found.keys() == {"zh-06", "zh-07"}
    assert min(found.values()) >= 4
