"""Pipelines that documents pass after the proxy has computed their tokens."""

import pytest

from tests.helpers.pipelines import html_strip, pipeline, use_pipeline
from tests.helpers.processes import await_true
from tests.proxy.conftest import Setup, post

pytestmark = [pytest.mark.xdist_group("proxy"), pytest.mark.on_every_server]


def test_pipelines_are_named(setup: Setup, place_of_tokens: str) -> None:
    name = place_of_tokens
    body = b'{"index":{}}\n{"text":"some <b>words</b> of a text"}\n'
    with pipeline(setup.direct, html_strip("text")) as stripping:
        answer = post(f"{setup.proxy.url}/{name}/_bulk?pipeline={stripping}", body)
        assert answer.status_code == 200
        parameter = f"the ingest pipeline '{stripping}' (the parameter pipeline)"
        await_true("logged", lambda: parameter in setup.proxy.log, 30)
        use_pipeline(setup.direct, name, stripping)
        try:
            assert post(f"{setup.proxy.url}/{name}/_bulk", body).status_code == 200
            setting = f"the ingest pipeline '{stripping}' (index.default_pipeline)"
            await_true("logged", lambda: setting in setup.proxy.log, 30)
        finally:
            use_pipeline(setup.direct, name, None)
