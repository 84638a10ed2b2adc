"""Pipelines that documents pass after the proxy has computed their tokens."""

import uuid
from collections.abc import Iterator

import pytest

import esdedup
from tests.conftest import delete_index
from tests.helpers.pipelines import html_strip, pipeline, use_pipeline
from tests.helpers.processes import await_true
from tests.proxy.conftest import Setup, post

pytestmark = [pytest.mark.xdist_group("proxy"), pytest.mark.on_every_server]


@pytest.fixture
def place_of_tokens(setup: Setup) -> Iterator[str]:
    """An index with tokens, on the server of this setup."""
    name = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    with esdedup.open(setup.direct, name) as index:
        index.create()
    yield name
    delete_index(setup.direct, name)


def test_a_pipeline_is_named_once(setup: Setup, place_of_tokens: str) -> None:
    name = place_of_tokens
    body = b'{"index":{}}\n{"text":"some <b>words</b> of a text"}\n'
    with pipeline(setup.direct, html_strip("text")) as made:
        for _ in range(2):
            answer = post(f"{setup.proxy.url}/{name}/_bulk?pipeline={made}", body)
            assert answer.status_code == 200
        parameter = (
            f"the parameter pipeline of requests: documents pass the ingest pipeline '{made}'"
        )
        await_true("logged", lambda: parameter in setup.proxy.log, 30)
        use_pipeline(setup.direct, name, made)
        try:
            for _ in range(2):
                post(f"{setup.proxy.url}/{name}/_bulk", body)
            setting = f"index '{name}', index.default_pipeline: documents pass"
            await_true("logged", lambda: setting in setup.proxy.log, 30)
            assert setup.proxy.log.count(parameter) == 1
        finally:
            use_pipeline(setup.direct, name, None)
