"""Fields that strict mappings and objects lack, and the request that adds them."""

import json
from typing import Any

import pytest

from esdedup.stores.elastic.strict_mappings import how_to_add, missing_fields, refused_fields
from esdedup.stores.fields import dotted_names

KEYWORD = {"type": "keyword"}
STRICT: dict[str, Any] = {
    "dynamic": "strict",
    "runtime": {"day": KEYWORD},
    "properties": {
        "text": {"type": "text"},
        "labels": {"type": "flattened"},
        "raw": {"type": "object", "enabled": False},
        "open": {"dynamic": True, "properties": {}},
        "people": {"type": "nested", "properties": {"name": KEYWORD}},
    },
}


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ({"text": "a", "day": "monday"}, []),
        ({"labels": {"a": 1}, "raw": {"b": {"c": 1}}, "open": {"d": 1}}, []),
        (
            {"people": [{"name": "a"}, {"age": 5}], "people.city": "b"},
            ["people.age", "people.city"],
        ),
        ({"place": {"town": "a"}, "id": "1"}, ["id", "place"]),
    ],
)
def test_fields_that_a_strict_mapping_lacks(source: dict[str, Any], missing: list[str]) -> None:
    assert missing_fields([STRICT], dotted_names(source)) == missing
    accepting = {"properties": {"people": {"dynamic": True, "properties": {}}}}
    assert missing_fields([STRICT, accepting], dotted_names(source)) == []


def test_fields_that_servers_name_are_below_their_object() -> None:
    reason = "strict_dynamic_mapping_exception: [1:9] mapping set to {}, dynamic introduction of"
    reasons = [
        f"{reason.format('strict')} [street] within [people.place] is not allowed",
        f"{reason.format('strict_allow_templates')} [id] within [_doc] is not allowed",
    ]
    assert refused_fields([*reasons, "another reason"]) == {"people.place.street", "id"}


def test_the_request_has_fields_in_their_objects() -> None:
    path, body = how_to_add("news", ["id", "meta", "meta.size"]).split(" ", 2)[1:]
    assert path == "news/_mapping"
    described = {"type": "..."}
    meta = {**described, "properties": {"size": described}}
    assert json.loads(body) == {"properties": {"id": KEYWORD, "meta": meta}}
