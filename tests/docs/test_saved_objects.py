"""Saved objects for Kibana and OpenSearch Dashboards have the form that an import requires."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import Scheme
from esdedup.models import MARKS
from esdedup.stores.mapping import field_mapping
from tests.helpers.commands import call, run_command

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = ["kibana.ndjson", "dashboards.ndjson"]
PANEL = "panelRefName"
SavedObject = dict[str, Any]


def objects_of(file: str) -> list[SavedObject]:
    return [json.loads(line) for line in (EXAMPLES / file).read_text("utf-8").splitlines()]


def attribute(saved: SavedObject, *names: str) -> Any:
    """Return an attribute, which is JSON in a string."""
    value = saved["attributes"]
    for name in names:
        value = value[name]
    return json.loads(value)


def search_source(saved: SavedObject) -> SavedObject:
    source: SavedObject = attribute(saved, "kibanaSavedObjectMeta", "searchSourceJSON")
    return source


def panels_of(file: str) -> list[SavedObject]:
    (dashboard,) = (saved for saved in objects_of(file) if saved["type"] == "dashboard")
    panels: list[SavedObject] = attribute(dashboard, "panelsJSON")
    return panels


def aggregations(file: str) -> Iterator[tuple[str, SavedObject]]:
    """Yield the type and the parameters of each aggregation but counts."""
    for saved in objects_of(file):
        if saved["type"] == "visualization":
            for aggregation in attribute(saved, "visState")["aggs"]:
                if aggregation["type"] != "count":
                    yield aggregation["type"], aggregation["params"]


@pytest.mark.parametrize("file", FILES)
def test_objects_have_what_an_import_requires(file: str) -> None:
    objects = objects_of(file)
    keys = {(saved["type"], saved["id"]) for saved in objects}
    assert len(keys) == len(objects)
    for saved in objects:
        assert saved["attributes"]["title"]
        # The version from which the product migrates an older object.
        if file == "kibana.ndjson":
            assert {"coreMigrationVersion", "typeMigrationVersion"} < saved.keys()
        else:
            assert saved["migrationVersion"].keys() == {saved["type"]}
        for reference in saved["references"]:
            assert (reference["type"], reference["id"]) in keys
    assert objects[0]["type"] == "index-pattern"


@pytest.mark.parametrize("file", FILES)
def test_references_are_named(file: str) -> None:
    for saved in objects_of(file):
        if saved["type"] == "index-pattern":
            continue
        names = {reference["name"] for reference in saved["references"]}
        source = search_source(saved)
        assert source["query"]["language"] == "kuery"
        if saved["type"] == "dashboard":
            prefix = "{0[panelIndex]}:" if file == "kibana.ndjson" else ""
            assert names == {prefix.format(panel) + panel[PANEL] for panel in panels_of(file)}
        else:
            assert names == {source["indexRefName"]}


@pytest.mark.parametrize("file", FILES)
def test_panels_do_not_overlap(file: str) -> None:
    cells = list[tuple[int, int]]()
    for panel in panels_of(file):
        x, y, width, height = (panel["gridData"][name] for name in "xywh")
        assert panel["gridData"]["i"] == panel["panelIndex"]
        # A dashboard has 48 columns.
        assert x + width <= 48
        cells += [(x + right, y + down) for right in range(width) for down in range(height)]
    assert len(cells) == len({*cells})


@pytest.mark.parametrize("file", FILES)
def test_fields_are_those_of_the_mapping(file: str) -> None:
    texts = [esdedup.MinHash(), esdedup.SimHash(), esdedup.Signature(), esdedup.Passages()]
    values = [esdedup.Bits(fields=["hash"]), esdedup.Vectors(dimensions=2, fields=["vector"])]
    schemes = [Scheme(texts), *(Scheme([sketch]) for sketch in values)]
    properties = {name for scheme in schemes for name in field_mapping(scheme)["properties"]}
    fields = {f"esdedup.{name}" for name in properties}
    marks = {f"esdedup.{name}" for name in MARKS}
    named = {parameters["field"] for _, parameters in aggregations(file)}
    for saved in objects_of(file):
        if saved["type"] == "index-pattern":
            filters = [entry["value"] for entry in attribute(saved, "sourceFilters")]
            hidden = {name for name in fields if any(fnmatch(name, each) for each in filters)}
            assert hidden == fields - marks
        else:
            named |= {*re.findall(r"[\w.]+(?=: )", search_source(saved)["query"]["query"])}
            named |= {*saved["attributes"].get("columns", ())} - {"text"}
            named |= {name for name, _ in saved["attributes"].get("sort", ())}
    assert named <= marks


@pytest.mark.on_every_server
@pytest.mark.parametrize("url", ["elasticsearch", "opensearch"], indirect=True)
def test_servers_compute_the_panels(url: str) -> None:
    index = "saved-objects-news"
    run_command("index", str(EXAMPLES / "articles.jsonl"), "--url", url, "--index", index)
    run_command("group", "--url", url, "--index", index)
    call(url, "POST", f"/{index}/_refresh")
    values = dict[str, Any]()
    for file in FILES:
        for kind, parameters in aggregations(file):
            sent = {name: parameters[name] for name in ("field", "interval") if name in parameters}
            body = {
                "size": 0,
                "query": {"exists": {"field": "esdedup.original"}},
                "aggs": {"value": {kind: sent}},
            }
            values[kind] = call(url, "POST", f"/{index}/_search", body)["aggregations"]["value"]
    assert values["cardinality"]["value"] == len(values["terms"]["buckets"]) == 8
    assert sum(bucket["doc_count"] for bucket in values["histogram"]["buckets"]) == 10
    assert 0.8 < values["avg"]["value"] < 1
