"""Each command as a user who has its role, over TLS, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from esdedup.admin.roles import RIGHTS, ROLES, ROLES_PATHS, Needs, role, role_of
from tests.helpers.commands import words, write_lines
from tests.security.scenarios import (
    CLEAN,
    DECONTAMINATE,
    DOCUMENTS,
    MORE,
    SCENARIOS,
    Scenario,
    filled,
    nothing,
    plain,
    with_passages,
)
from tests.security.users import Secured


@pytest.mark.parametrize(
    "scenario", SCENARIOS, ids=[f"{at}-{each.role}" for at, each in enumerate(SCENARIOS)]
)
def test_a_role_suffices_for_its_command(
    secured: Secured, name: str, filled_index: str, scenario: Scenario
) -> None:
    index = filled_index if scenario.reads else name
    if not scenario.reads:
        scenario.make(secured, index)
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


def _some_fails(server: Secured, name: str, made: dict[str, Any], tried: str) -> bool:
    """Return whether a user with this role can't run a command, or is told of a privilege."""
    for scenario in SCENARIOS:
        if scenario.role == tried:
            server.forget(name)
            scenario.make(server, name)
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
    scenario = next(each for each in SCENARIOS if each.role == tried)
    scenario.prepare(secured, name)
    missing = lacking[secured.product]
    less = without(scenario.role_for(secured, name), missing)
    secured.make_user(name, less)
    ran = scenario.run(secured, name, name)
    assert ran.status == 1
    assert "403" in ran.err
    assert missing in ran.err
    command = tried.partition("-")[0]
    assert f"esdedup check --index {name} --role {command}" in ran.err


@pytest.mark.parametrize(
    "missing", [*RIGHTS["change analyzers"]["opensearch"]["index"], "indices:admin/mapping/put"]
)
def test_an_index_is_not_closed_by_a_user_without_a_right(
    secured: Secured, name: str, missing: str
) -> None:
    def state() -> tuple[int, Any]:
        """A number that grows when the index is closed or opened or its settings change."""
        state = secured.ask("GET", f"/_cluster/state/metadata/{name}")
        version: int = state["metadata"]["indices"][name]["settings_version"]
        return version, secured.ask("GET", f"/{name}/_mapping")[name]["mappings"]["properties"]

    made = role("attach-server", secured.product, name)
    if (less := without(made, missing)) == made:
        # Elasticsearch closes and opens the index by itself, which takes no right of its own.
        assert secured.product == "elasticsearch"
        assert missing in RIGHTS["change analyzers"]["opensearch"]["index"]
        return
    plain(secured, name)
    secured.ask("PUT", f"/{name}/_settings", {"index": {"number_of_replicas": 0}})
    before = state()
    secured.make_user(name, less)
    ran = secured.run("attach", "-i", name, "--server", "--yes", user=name, status=1)
    assert missing.removesuffix("*") in ran.err
    assert f"esdedup check --index {name} --role attach, or attach-server" in ran.err
    assert state() == before


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
    ran = secured.run("index", "documents.jsonl", "-i", name, user=name, status=0)
    assert ran.json[0]["created"] == len(DOCUMENTS)
    assert "when the index refreshes" in ran.err
    secured.ask("POST", f"/{name}/_refresh")
    assert secured.ask("GET", f"/{name}/_count")["count"] == len(DOCUMENTS)


def test_reading_without_the_right_to_refresh_warns_where_it_matters(
    secured: Secured, name: str
) -> None:
    filled(secured, name)
    secured.make_user(name, role("report", secured.product, name))
    commands = ("pairs", "dedup", "report -o report.html", "stats")
    for interval, warned in ((None, False), ("-1", True), ("30s", True)):
        settings = {"index": {"refresh_interval": interval}}
        secured.ask("PUT", f"/{name}/_settings", settings)
        for command in commands:
            first, *options = command.split()
            ran = secured.run(first, "-i", name, *options, user=name, status=0)
            said = f"index.refresh_interval is {interval}" in ran.err
            assert (said, "are not read" in ran.err) == (warned, warned), ran.err


def test_switch_asks_for_the_right_to_templates_before_any_change(
    secured: Secured, name: str
) -> None:
    filled(secured, name)
    alias = f"{name}-to"
    secured.ask("PUT", f"/{name}/_alias/{alias}")
    before = secured.ask("GET", f"/{name}/_mapping")
    switch, template = (role(each, secured.product, f"{name}*") for each in ("switch", "template"))
    secured.make_user(name, switch)
    command = f"switch -i {alias} --scheme new.json"
    ran = secured.run(*command.split(), user=name, status=1)
    assert "component_template" in ran.err
    assert secured.ask("GET", f"/{name}/_mapping") == before
    secured.make_user(name, switch, template)
    ran = secured.run(*command.split(), user=name, status=0)


def test_two_roles_suffice_to_clean_files_and_add_what_stays(secured: Secured, name: str) -> None:
    filled(secured, name)
    write_lines(Path("more.jsonl"), [*MORE, {"id": "e2", "text": words(99)}])
    reading, writing = (role(each, secured.product, name) for each in ("pairs", "index"))
    command = f"clean more.jsonl -o out.jsonl --against {name} --update"
    secured.make_user(name, reading)
    ran = secured.run(*command.split(), user=name, status=1)
    assert "403" in ran.err
    secured.make_user(name, reading, writing)
    ran = secured.run(*command.split(), user=name, status=0)
    # The others duplicate documents of the index.
    assert secured.ask("GET", f"/{name}/_count")["count"] == len(DOCUMENTS) + 1


@pytest.mark.parametrize(
    ("command", "known"), [(CLEAN, "pairs"), (DECONTAMINATE, "dedup, or dedup-mark")]
)
def test_a_message_of_a_command_without_roles_names_those_of_another(
    secured: Secured, name: str, command: str, known: str
) -> None:
    with_passages(secured, name)
    secured.make_user(name, role("query", secured.product, name))
    ran = secured.run(*command.replace("INDEX", name).split(), user=name, status=1)
    assert f"--role {known}" in ran.err


def test_check_prints_a_role_that_the_server_takes(secured: Secured, name: str) -> None:
    secured.make_user(name, role("query", secured.product, "others"))
    ran = secured.run("check", "--role", "pairs", "-i", f"{name}*", "--json", user=name, status=0)
    assert ran.json == [role("pairs", secured.product, f"{name}*")]
    path = ROLES_PATHS[secured.product]
    assert f"PUT /{path}/" in ran.err
    secured.make_user(name, ran.json[0])
