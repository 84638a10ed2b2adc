"""The proxy before a secured server, and clients of different rights."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from esdedup.admin.roles import role
from esdedup.stores.mapping import index_mapping
from tests.helpers.http import HTTP
from tests.helpers.places import META
from tests.security.test_roles import without
from tests.security.users import Secured
from tests.servers.enriching import Enriching
from tests.servers.secured import basic

TEXT = "one two three four five six seven"
# One process starts the proxies.
pytestmark = pytest.mark.xdist_group("secured proxy")


@pytest.fixture(scope="module")
def proxy(secured: Secured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enriching]:
    folder = tmp_path_factory.mktemp("proxy")
    with Enriching(secured.url, folder, "--ca-certs", secured.ca_file) as running:
        yield running


def put(proxy: Enriching, path: str, user: str) -> httpx.Response:
    body = json.dumps({"text": TEXT, "of": f"{user} and more"})
    headers = {"content-type": "application/json", **basic(user)}
    return HTTP.put(f"{proxy.url}{path}", content=body, headers=headers)


def stored(server: Secured, index: str, id: str) -> dict[str, Any]:
    found: dict[str, Any] = server.ask("GET", f"/{index}/_doc/{id}")["_source"]
    return found


def test_who_may_see_and_write_gets_tokens(
    secured: Secured, filled_index: str, name: str, proxy: Enriching
) -> None:
    secured.make_user(name, role("proxy", secured.product, filled_index))
    assert put(proxy, f"/{filled_index}/_doc/1", name).status_code == 201
    assert stored(secured, filled_index, "1")["esdedup"]["minhash"]
    body = f'{{"index":{{"_index":"{filled_index}","_id":"2"}}}}\n{{"text":"{TEXT}"}}\n'
    headers = {"content-type": "application/x-ndjson", **basic(name)}
    answer = HTTP.post(f"{proxy.url}/_bulk", content=body, headers=headers).json()
    assert answer["errors"] is False
    assert stored(secured, filled_index, "2")["esdedup"]["minhash"]


def test_who_may_only_write_gets_no_tokens_and_the_log_says_why(
    secured: Secured, filled_index: str, name: str, proxy: Enriching
) -> None:
    made = role("proxy", secured.product, filled_index)
    for lookup in ("view_index_metadata", "indices:admin/get", "indices:monitor/settings/get"):
        made = without(made, lookup)
    secured.make_user(name, made)
    assert put(proxy, f"/{filled_index}/_doc/3", name).status_code == 201
    assert "esdedup" not in stored(secured, filled_index, "3")
    assert [line for line in proxy.log.splitlines() if filled_index in line and "right" in line]


def test_who_may_not_write_gets_the_servers_refusal(
    secured: Secured, filled_index: str, name: str, proxy: Enriching
) -> None:
    """Though another user may, and has just looked the index up."""
    secured.make_user(f"{name}-to", role("proxy", secured.product, filled_index))
    secured.make_user(name, role("query", secured.product, filled_index))
    assert put(proxy, f"/{filled_index}/_doc/4", f"{name}-to").status_code == 201
    answer = put(proxy, f"/{filled_index}/_doc/5", name)
    assert answer.status_code == 403
    assert "security_exception" in answer.text
    assert secured.request("GET", f"/{filled_index}/_doc/5")[0] == 404
    assert put(proxy, f"/{filled_index}/_doc/5", f"nobody-{name}").status_code == 401


@pytest.mark.parametrize("simulates", [True, False])
def test_who_may_make_an_index_and_simulate_its_template_gets_tokens_from_its_first_document_on(
    secured: Secured, name: str, proxy: Enriching, simulates: bool
) -> None:
    template = {"index_patterns": [f"{name}*"], "template": {"mappings": index_mapping(META)}}
    secured.ask("PUT", f"/_index_template/{name}", template)
    made = role("proxy-new", secured.product, name)
    if not simulates:
        made = without(made, "indices:admin/index_template/simulate_index")
    secured.make_user(name, made)
    for id in "12":
        assert put(proxy, f"/{name}/_doc/{id}", name).status_code == 201
    secured.ask("DELETE", f"/_index_template/{name}")
    assert ("esdedup" in stored(secured, name, "1")) is simulates
    assert "esdedup" in stored(secured, name, "2")
    assert (f"no right to simulate the template of '{name}'" in proxy.log) is not simulates
