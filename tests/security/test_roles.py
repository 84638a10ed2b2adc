"""Each command as a user who has its role, over TLS, and nothing else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from esdedup.admin.roles import RIGHTS, ROLES, ROLES_PATHS, Needs, role, role_of
from tests.helpers.commands import run_command
from tests.security.scenarios import DOCUMENTS, SCENARIOS, Scenario, filled, nothing
from tests.security.users import Secured

TRIED = tuple(dict.fromkeys(right for each in SCENARIOS for right in ROLES[each.role]["index"]))

ELSEWHERE = {
    "indices:admin/data_stream/get",
    "indices:admin/index_template/simulate",
    "indices:admin/index_template/simulate_index",
}
"""Actions that only data streams need, or without which `template` knows less of the next index."""

every_scenario = pytest.mark.parametrize(
    "scenario", SCENARIOS, ids=[f"{at}-{each.role}" for at, each in enumerate(SCENARIOS)]
)


@every_scenario
def test_a_role_suffices_for_its_command(
    secured: Secured, name: str, filled_index: str, scenario: Scenario
) -> None:
    index = filled_index if scenario.reads else name
    if not scenario.reads:
        scenario.prepare(secured, index)
        if "judgements" in ROLES[scenario.role]:
            secured.judge(index)
    secured.make_user(name, scenario.role_for(secured, index))
    ran = scenario.run(secured, index, name)
    assert ran.status == 0, ran.err
    assert "privilege" not in ran.err


def test_every_role_is_tried() -> None:
    # The proxy's roles and those of review have modules of their own.
    assert {each.role for each in SCENARIOS} == ROLES.keys() - {
        "proxy",
        "proxy-new",
        "review",
        "review-write",
    }


@pytest.mark.nightly
@pytest.mark.parametrize("tried", sorted({each.role for each in SCENARIOS}))
def test_no_right_is_too_much(secured: Secured, name: str, tried: str) -> None:
    needs, other = ROLES[tried], f"{name}-to"
    # There `index` allows to change mappings too, until version 10: that is deprecated.
    on_elasticsearch = secured.product == "elasticsearch"
    whole = role_of(needs, secured.product, name, other)
    for part, rights in needs.items():
        for right in rights:
            left = [each for each in rights if each != right]
            changed: Needs = {**needs, part: left}
            less = role_of(changed, secured.product, name, other)
            # Another right may grant the same.
            mapped = on_elasticsearch and right == "change mapping" and "write" in left
            assert less == whole or mapped or _some_fails(secured, name, less, tried), right


@pytest.mark.nightly
@pytest.mark.parametrize("right", TRIED)
def test_no_action_of_a_right_is_too_much(secured: Secured, name: str, right: str) -> None:
    """Each is needed by one command at least that has the right."""
    grants = RIGHTS[right][secured.product].values()
    kin = [each for each in SCENARIOS if right in ROLES[each.role]["index"]]
    for action in {action for some in grants for action in some} - ELSEWHERE:
        roles = ((each.role, without(each.role_for(secured, name), action)) for each in kin)
        assert any(_some_fails(secured, name, less, role) for role, less in roles), action


def _some_fails(server: Secured, name: str, made: dict[str, Any], tried: str) -> bool:
    """Return whether a user with this role can't run a command, or is told of a privilege."""
    for scenario in SCENARIOS:
        if scenario.role == tried:
            server.forget(name)
            scenario.prepare(server, name)
            if "judgements" in ROLES[tried]:
                server.judge(name)
            server.make_user(name, made)
            ran = scenario.run(server, name, name)
            if ran.status != 0 or "privilege" in ran.err:
                return True
    return False


@pytest.mark.parametrize(
    ("tried", "lacking"),
    [
        ("stats", {"elasticsearch": "monitor", "opensearch": "indices:monitor/stats"}),
        ("index-new", {"elasticsearch": "create_index", "opensearch": "indices:admin/create"}),
        ("attach", dict.fromkeys(ROLES_PATHS, "indices:admin/mapping/put")),
        ("backfill", {"elasticsearch": "index", "opensearch": "indices:data/write/bulk"}),
    ],
)
def test_a_message_names_the_missing_right_and_how_to_see_all(
    secured: Secured, name: str, tried: str, lacking: dict[str, str]
) -> None:
    (scenario,) = (each for each in SCENARIOS if each.role == tried)
    scenario.prepare(secured, name)
    missing = lacking[secured.product]
    less = without(scenario.role_for(secured, name), missing)
    secured.make_user(name, less)
    ran = scenario.run(secured, name, name)
    assert ran.status == 1
    assert "403" in ran.err
    assert missing in ran.err
    command = tried.partition("-")[0]
    assert f"esdedup check --role {command}" in ran.err
    assert "Traceback" not in ran.err


def without(made: dict[str, Any], privilege: str) -> dict[str, Any]:
    """The role without a privilege, wherever it stands."""
    (cluster, granted), (indices, parts) = made.items()
    left = []
    for part in parts:
        (names, on), (actions, each) = part.items()
        if kept := [action for action in each if action != privilege]:
            left.append({names: on, actions: kept})
    return {cluster: [each for each in granted if each != privilege], indices: left}


def test_index_without_the_right_to_refresh_warns(secured: Secured, name: str) -> None:
    nothing(secured, name)
    refresh = {"elasticsearch": "maintenance", "opensearch": "indices:admin/refresh*"}
    made = role("index-new", secured.product, name)
    secured.make_user(name, without(made, refresh[secured.product]))
    ran = secured.run("index", "documents.jsonl", "-i", name, user=name)
    assert ran.status == 0, ran.err
    assert ran.json[0]["created"] == len(DOCUMENTS)
    assert "when the index refreshes" in ran.err
    secured.ask("POST", f"/{name}/_refresh")
    assert secured.ask("GET", f"/{name}/_count")["count"] == len(DOCUMENTS)


def test_a_right_that_items_of_an_answer_lack_is_told_at_once(secured: Secured, name: str) -> None:
    filled(secured, name)
    elsewhere = role("similar", secured.product, f"{name}-to")
    secured.make_user(name, elsewhere, role("query", secured.product, name))
    ran = secured.run("similar", "--id", "d1", "-i", name, "--retry-for", "0", user=name)
    assert ran.status == 1
    assert "lacks a privilege (403)" in ran.err


def test_switch_asks_for_the_right_to_templates_before_any_change(
    secured: Secured, name: str
) -> None:
    filled(secured, name)
    alias = f"{name}-to"
    secured.ask("PUT", f"/{name}/_alias/{alias}")
    before = secured.ask("GET", f"/{name}/_mapping")
    switch, template = (role(each, secured.product, f"{name}*") for each in ("switch", "template"))
    secured.make_user(name, switch)
    command = f"switch -i {alias} --scheme new.json --yes"
    ran = secured.run(*command.split(), user=name)
    assert ran.status == 1
    assert "component_template" in ran.err
    assert secured.ask("GET", f"/{name}/_mapping") == before
    secured.make_user(name, switch, template)
    ran = secured.run(*command.split(), user=name)
    assert ran.status == 0, ran.err


@pytest.mark.nightly
# The jars of Elasticsearch know no data streams.
@pytest.mark.parametrize("secured", ["secured_opensearch"], indirect=True)
def test_the_role_template_adds_what_a_data_stream_takes(secured: Secured, name: str) -> None:
    nothing(secured, name)
    made_by = {"index_patterns": [name], "data_stream": {}}
    secured.ask("PUT", f"/_index_template/{name}", made_by)
    records = [{**one, "@timestamp": "2026-01-01T00:00:00Z"} for one in DOCUMENTS]
    lines = [part for one in records for part in ({"create": {"_id": one["id"]}}, one)]
    secured.ask("POST", f"/{name}/_bulk?refresh=true", lines)
    for tried, command in (
        ("attach", f"attach -i {name}"),
        ("backfill", f"backfill -i {name}"),
        ("stop", f"stop -i {name} --over 1 --yes"),
        ("switch", f"switch -i {name} --scheme new.json --yes"),
        ("group", f"group -i {name}"),
    ):
        roles = [role(each, "opensearch", name) for each in (tried, "template")]
        secured.make_user(name, *roles)
        ran = secured.run(*command.split(), user=name)
        assert ran.status == 0, (command, ran.err)
    secured.ask("DELETE", f"/_data_stream/{name}")
    secured.ask("DELETE", f"/_index_template/{name}")


def test_check_prints_a_role_that_the_server_takes(secured: Secured, name: str) -> None:
    # Nobody needs rights to see it, and no index of that name exists.
    secured.make_user(name, role("query", secured.product, "others"))
    ran = secured.run("check", "--role", "pairs", "-i", f"{name}*", "--json", user=name)
    assert ran.status == 0, ran.err
    assert ran.json == [role("pairs", secured.product, f"{name}*")]
    path = ROLES_PATHS[secured.product]
    assert f"PUT /{path}/" in ran.err
    secured.make_user(name, ran.json[0])


def test_check_prints_a_role_without_a_server() -> None:
    ran = run_command("check", "--role", "dedup-move", "-i", "news", "--to", "old", "--table",
                      "--product", "opensearch")  # fmt: skip
    assert ran.status == 0, ran.err
    assert json.loads(ran.out) == role("dedup-move", "opensearch", "news", "old")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--role dance --product opensearch", "index-new, similar"),
        ("--role pairs", "--product"),
        ("--role pairs --product opensearch --to old", "leave out --to"),
        ("--role dedup-move --product opensearch", "give --to"),
        ("--product opensearch", "require --role"),
    ],
)
def test_wrong_uses_of_check_role(options: str, said: str) -> None:
    ran = run_command("check", "-i", "news", *options.split())
    assert ran.status == 2
    assert said in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("secured", ["secured_elasticsearch"], indirect=True)
def test_an_api_key_may_have_a_role(secured: Secured, name: str) -> None:
    filled(secured, name)
    body = {"name": name, "role_descriptors": {"pairs": role("pairs", "elasticsearch", name)}}
    key = secured.ask("POST", "/_security/api_key", body)["encoded"]
    options = ["--url", secured.url, "--ca-certs", secured.ca_file, "-i", name]
    environment = {"ESDEDUP_API_KEY": key}
    assert run_command("pairs", *options, environment=environment).status == 0
    ran = run_command("index", "documents.jsonl", *options, environment=environment)
    assert ran.status == 1
    assert "403" in ran.err
