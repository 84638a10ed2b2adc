"""Several clients that attach, change the scheme, or put stop lists at once."""

import functools

import pytest

import esdedup
from esdedup import admin
from esdedup.stores.mapping import meta_of
from tests.helpers.commands import call
from tests.helpers.processes import at_once

SCHEMES = [esdedup.Scheme(seed=seed) for seed in (1, 2, 3)]


@pytest.fixture
def name(url: str, name: str) -> str:
    mapping = {"_meta": {"team": "news"}, "properties": {"text": {"type": "text"}}}
    call(url, "PUT", f"/{name}", {"mappings": mapping})
    return name


@pytest.fixture
def not_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for other clients, which is longer than each of them needs here."""
    monkeypatch.setattr("esdedup.stores.elastic.indices.SETTLE_SECONDS", 1.2)


def stored(url: str, name: str) -> esdedup.Scheme:
    mapping = call(url, "GET", f"/{name}/_mapping")[name]["mappings"]
    assert mapping["_meta"]["team"] == "news"
    meta = meta_of(mapping)
    assert meta is not None
    return meta.scheme


@pytest.mark.on_every_server
@pytest.mark.usefixtures("not_alone")
def test_of_several_that_attach_at_once_one_is_told_that_it_did(url: str, name: str) -> None:
    plans = [admin.plan_attach(url, name, scheme) for scheme in SCHEMES]
    outcomes = at_once([functools.partial(admin.attach, url, plan) for plan in plans])
    assert outcomes.count(None) == 1
    assert stored(url, name) == SCHEMES[outcomes.index(None)]
    assert all("at the same time" in str(error) for error in outcomes if error is not None)
