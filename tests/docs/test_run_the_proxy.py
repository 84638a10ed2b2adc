"""The page on running the proxy names metrics, settings and outcomes that exist."""

from __future__ import annotations

import re
from typing import get_args

import yaml
from prometheus_client.parser import text_string_to_metric_families

from esdedup.proxy.metrics import Metrics
from esdedup.proxy.splice import Outcome
from tools.commands import COMMANDS
from tools.docs import ROOT, Block, blocks_of

PAGE = (ROOT / "docs" / "how-to" / "run-the-proxy.md").read_text("utf-8")
OUTCOMES = set(get_args(Outcome))


def file(name: str) -> Block:
    return next(block for block in blocks_of(PAGE) if block.title == name)


def test_metrics_of_the_page_and_of_its_rules_exist() -> None:
    made = {family.name for family in text_string_to_metric_families(Metrics().page()[0].decode())}
    named = set(re.findall(r"esdedup_proxy_[a-z_]+", PAGE))
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in named} <= made


def test_rules_are_yaml_and_name_outcomes_that_exist() -> None:
    (group,) = yaml.safe_load(file("esdedup-proxy.rules.yml").body)["groups"]
    rules = {rule["alert"]: rule["expr"] for rule in group["rules"]}
    asked = re.search(r'tokens=~"([\w|]+)"', rules["EsdedupProxyDocumentsWithoutTokens"])
    assert asked is not None
    assert set(asked[1].split("|")) < OUTCOMES


def test_each_outcome_is_explained() -> None:
    _, table = PAGE.split("| `tokens` | the document |", 1)
    rows = table.split("\n\n", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == OUTCOMES


def test_each_outcome_is_counted_from_zero() -> None:
    """Otherwise Prometheus takes the first document of a kind for no increase."""
    page = Metrics().page()[0].decode()
    for outcome in OUTCOMES:
        assert f'esdedup_proxy_documents_total{{tokens="{outcome}"}} 0.0' in page


def test_settings_are_options() -> None:
    options = {option.name for option in COMMANDS["proxy"].params}
    named = re.findall(r"^ESDEDUP_PROXY_(\w+)=", file("proxy.env").body, re.MULTILINE)
    assert {name.lower() for name in named} <= options
