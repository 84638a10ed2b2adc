"""The image of esdedup, built from the Dockerfile."""

import json
import uuid
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from tests.containers.conftest import ROOT
from tests.helpers.processes import await_true
from tools.servers.engine import Engine

# One process has the engine.
pytestmark = pytest.mark.xdist_group("containers")

ENDED = [["false", "0"], ["false", "143"]]
"""Not running any more, with status 0 or that of SIGTERM."""

CONFINED = [
    *("--rm", "--read-only", "--tmpfs", "/tmp"),
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
]


@pytest.fixture
def volume(engine: Engine) -> Iterator[str]:
    name = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    engine.docker("volume", "create", name)
    yield name
    engine.docker("volume", "rm", "--force", name)


def test_commands_run_without_rights_and_without_a_file_to_write(
    engine: Engine, image: str
) -> None:
    shown = engine.docker("run", *CONFINED, image, "--version")
    assert shown.startswith(f"esdedup {version('esdedup')} ")
    assert "Usage: esdedup" in engine.docker("run", *CONFINED, image)


def test_the_user_is_a_number_and_nothing_that_only_installs_is_left(
    engine: Engine, image: str
) -> None:
    (facts,) = json.loads(engine.docker("image", "inspect", image))
    assert facts["Config"]["User"] == "10001:10001"
    assert facts["Config"]["Labels"]["org.opencontainers.image.title"] == "esdedup"
    code = (
        "import importlib.util as u, os;"
        "print(os.getuid(), os.getgid(), u.find_spec('pip'), os.path.exists('/source'))"
    )
    python = ["run", *CONFINED, "--entrypoint", "python", image, "-c"]
    assert engine.docker(*python, code) == "10001 10001 None False\n"


def test_documents_are_indexed_and_found_in_a_volume(
    engine: Engine, image: str, volume: str
) -> None:
    examples = ["--volume", f"{ROOT / 'examples'}:/examples:ro"]
    run = ["run", *CONFINED, "--volume", f"{volume}:/data", *examples, image]
    engine.docker(*run, "index", "/examples/articles.jsonl", "--db", "articles.db")
    similar = ["similar", "--db", "articles.db", "--id", "en-20", "--json"]
    matches = json.loads(engine.docker(*run, *similar))["matches"]
    assert [match["id"] for match in matches] == ["en-21"]


def test_the_proxy_ends_when_it_is_told_to(engine: Engine, image: str) -> None:
    arguments = ["proxy", "--upstream", "http://127.0.0.1:9", "--host", "0.0.0.0"]
    options = [option for option in CONFINED if option != "--rm"]
    container = engine.docker("run", "--detach", *options, image, *arguments).strip()
    try:
        await_true("it listens", lambda: listens(engine, container), 60)
        # If it did not answer SIGTERM it would be killed after this time, with status 137.
        engine.docker("stop", "--time", "60", container)
        state = "{{.State.Running}} {{.State.ExitCode}}"
        assert engine.docker("inspect", "--format", state, container).split() in ENDED
    finally:
        engine.docker("rm", "--force", container)


def listens(engine: Engine, container: str) -> bool:
    code = "import socket; socket.create_connection(('127.0.0.1', 9280))"
    try:
        engine.docker("exec", container, "python", "-c", code)
    except AssertionError:
        return False
    return True
