"""The page on running the proxy names metrics, settings and outcomes that exist."""

import json
import re
from typing import get_args

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from esdedup.proxy.metrics import Metrics
from esdedup.proxy.splice import Outcome
from tools.commands import COMMANDS
from tools.docs import ROOT, Block, blocks_of

FOLDER = ROOT / "docs" / "how-to"
PAGE = (FOLDER / "run-the-proxy.md").read_text("utf-8")
RULES = (FOLDER / "proxy" / "rules.yml").read_text("utf-8")
DASHBOARD = (FOLDER / "proxy" / "dashboard.json").read_text("utf-8")
OUTCOMES = set(get_args(Outcome))


def file(name: str) -> Block:
    return next(block for block in blocks_of(PAGE) if block.title == name)


@pytest.mark.parametrize("text", [PAGE, RULES, DASHBOARD], ids=["page", "rules", "dashboard"])
def test_metrics_of_the_page_the_rules_and_the_dashboard_exist(text: str) -> None:
    made = {family.name for family in text_string_to_metric_families(Metrics().page()[0].decode())}
    named = set(re.findall(r"esdedup_proxy_[a-z_]+", text))
    assert named
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in named} <= made


def test_rules_are_yaml_and_name_outcomes_that_exist() -> None:
    (group,) = yaml.safe_load(RULES)["groups"]
    rules = {rule["alert"]: rule["expr"] for rule in group["rules"]}
    asked = re.search(r'tokens=~"([\w|]+)"', rules["EsdedupProxyDocumentsWithoutTokens"])
    assert asked is not None
    assert set(asked[1].split("|")) < OUTCOMES


def test_the_dashboard_is_json_whose_panels_have_a_source() -> None:
    dashboard = json.loads(DASHBOARD)
    (source,) = dashboard["templating"]["list"]
    for panel in dashboard["panels"]:
        assert panel["datasource"]["uid"] == f"${{{source['name']}}}"
        assert all(target["expr"] for target in panel["targets"])


def test_each_outcome_is_explained_and_counted() -> None:
    _, table = PAGE.split("| `tokens` | the document |", 1)
    rows = table.split("\n\n", 1)[0]
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == OUTCOMES
    # Counted from zero: otherwise Prometheus takes the first document of a kind for no increase.
    page = Metrics().page()[0].decode()
    for outcome in OUTCOMES:
        assert f'esdedup_proxy_documents_total{{tokens="{outcome}"}} 0.0' in page


def test_settings_are_options() -> None:
    options = {option.name for option in COMMANDS["proxy"].params}
    named = re.findall(r"^ESDEDUP_PROXY_(\w+)=", file("proxy.env").body, re.MULTILINE)
    assert {name.lower() for name in named} <= options
