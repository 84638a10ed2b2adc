"""`enrich` inside the bulk helpers of both clients."""

import copy
import json
from typing import Any

import elasticsearch.helpers
import opensearchpy.helpers
import pytest

import esdedup
from esdedup.models import FIELD
from esdedup.sketch.sketch import sketch, token_fields
from tests.helpers.places import Place

TEXT = "one two three four five"
TOKENS = token_fields(sketch([TEXT], esdedup.Scheme()), esdedup.Scheme())[0]


def actions(name: str = "x") -> list[Any]:
    return [
        {"_index": name, "_id": "flat", "text": TEXT, "n": 1},
        {"_index": name, "_id": "source", "_source": {"text": TEXT}},
        {"_op_type": "create", "_index": name, "_id": "create", "text": TEXT},
        {"_index": name, "_id": "none", "title": "without the field"},
        {"_op_type": "update", "_index": name, "_id": "flat", "doc": {"text": TEXT}},
        {"_op_type": "update", "_index": name, "_id": "up", "doc": {"n": 2}}
        | {"upsert": {"text": TEXT}},
        {"_op_type": "update", "_index": name, "_id": "none", "_source": {"doc": {"text": TEXT}}},
        {"_op_type": "delete", "_index": name, "_id": "source"},
    ]  # fmt: skip


def test_fields_are_added_and_nothing_else_is_changed() -> None:
    given = actions()
    before = copy.deepcopy(given)
    got = list(esdedup.enrich(given))
    assert given == before
    assert got[0] == {**before[0], FIELD: TOKENS}
    assert got[1]["_source"] == {"text": TEXT, FIELD: TOKENS}
    assert got[3] == before[3]
    # An update merges objects, and a former text may have had no words.
    assert got[4]["doc"] == {"text": TEXT, FIELD: {**TOKENS, "wordless": None}}
    assert got[5]["doc"] == {"n": 2}
    assert got[5]["upsert"][FIELD] == TOKENS
    assert got[6]["_source"]["doc"][FIELD] == {**TOKENS, "wordless": None}
    assert got[7] == before[7]


def test_strings_dotted_fields_and_scripts() -> None:
    script = {"_op_type": "update", "_id": "1", "script": {"source": "ctx.op = 'none'"}}
    got = list(esdedup.enrich([json.dumps({"text": TEXT}), b'{"text": "x"}', "no json", script]))
    assert got[0]["_source"][FIELD] == TOKENS
    assert FIELD in got[1]["_source"]
    assert got[2:] == ["no json", script]
    (nested,) = esdedup.enrich([{"a": {"b": TEXT}}], text_field="a.b")
    assert nested[FIELD] == TOKENS


@pytest.mark.on_every_server
@pytest.mark.parametrize("place", ["elasticsearch", "opensearch"], indirect=True)
@pytest.mark.parametrize("helper", ["bulk", "streaming_bulk", "parallel_bulk"])
def test_bulk_helpers_of_the_clients(place: Place, index: esdedup.Index, helper: str) -> None:
    texts = {f"d{number}": f"{TEXT} {number // 2}" for number in range(40)}
    given: list[Any] = [{"_index": place.index, "_id": id, "text": texts[id]} for id in texts]
    client: Any = elasticsearch.Elasticsearch(str(place.target))
    helpers: Any = elasticsearch.helpers
    if "OpenSearch" in index.statistics().store:
        client, helpers = opensearchpy.OpenSearch(str(place.target)), opensearchpy.helpers
    update = {"_op_type": "update", "_index": place.index, "_id": "d0", "doc": {"text": ""}}
    given.append(update)
    done = getattr(helpers, helper)(client, esdedup.enrich(given, scheme=index.scheme))
    if helper != "bulk":
        assert all(ok for ok, _ in done)
    client.close()
    index.store.refresh()
    texts["d0"] = ""
    expected = token_fields(sketch(list(texts.values()), index.scheme), index.scheme)
    found = [document.tokens["digest"] for document in index.store.get(list(texts))]
    assert found == [each["digest"] for each in expected]
    pairs = {(pair.left, pair.right) for pair in index.pairs(threshold=1.0)}
    assert pairs == {(f"d{n}", f"d{n + 1}") for n in range(2, 40, 2)}
