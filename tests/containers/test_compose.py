"""docker-compose.yml: both servers, and the proxy before Elasticsearch."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from esdedup.models import FIELD
from tests.containers.conftest import ROOT, Provide
from tests.helpers.commands import call, run_command
from tests.servers.ports import free_port
from tests.servers.provide import refusing
from tools.servers.containers import IMAGES
from tools.servers.engine import Engine
from tools.servers.jdk import Unavailable
from tools.servers.versions import ELASTICSEARCH, OPENSEARCH

# One process has the engine.
pytestmark = pytest.mark.xdist_group("containers")

PROFILES = {
    "elasticsearch": {"elasticsearch"},
    "opensearch": {"opensearch"},
    "proxy": {"elasticsearch", "proxy"},
}


@dataclass(frozen=True)
class Compose:
    """The file of this checkout as a project of its own name, with ports of its own."""

    engine: Engine
    variables: dict[str, str]

    def __call__(self, *arguments: str) -> str:
        profiles = [option for name in PROFILES for option in ("--profile", name)]
        return self.run(*profiles, *arguments)

    def run(self, *arguments: str) -> str:
        """Return what `docker compose ARGUMENTS` prints, for the profiles named there."""
        file = str(ROOT / "docker-compose.yml")
        return self.engine.docker("compose", "--file", file, *arguments, **self.variables)

    def url(self, service: str) -> str:
        return f"http://127.0.0.1:{self.variables[f'{service.upper()}_PORT']}"


@pytest.fixture(scope="module")
def compose(engine: Engine) -> Compose:
    ports = {name: str(free_port()) for name in ("ELASTICSEARCH", "OPENSEARCH", "PROXY")}
    variables = {f"{name}_PORT": port for name, port in ports.items()}
    variables["COMPOSE_PROJECT_NAME"] = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    found = Compose(engine, variables)
    with refusing():
        try:
            found.run("version")
        except AssertionError as error:
            raise Unavailable(f"docker has no compose: {error}") from None
    return found


@pytest.fixture(scope="module")
def running(compose: Compose, image: str, provide: Provide) -> Iterator[Compose]:
    """All services, each healthy."""
    for server in (ELASTICSEARCH, OPENSEARCH):
        provide(f"{IMAGES[server.product]}:{server.version}")
    compose.variables["ESDEDUP_IMAGE"] = image
    try:
        try:
            compose("up", "--wait", "--wait-timeout", "480")
        except AssertionError as error:
            error.add_note(compose("logs", "--tail", "60"))
            raise
        yield compose
    finally:
        compose("down", "--volumes", "--timeout", "5")


@pytest.mark.on_every_server
@pytest.mark.parametrize("profile", PROFILES)
def test_each_profile_has_its_services(compose: Compose, profile: str) -> None:
    services = compose.run("--profile", profile, "config", "--services").split()
    assert set(services) == PROFILES[profile]


def test_the_servers_are_those_of_the_tests(compose: Compose) -> None:
    found = json.loads(compose("config", "--format", "json"))["services"]
    for server in (ELASTICSEARCH, OPENSEARCH):
        image = f"{IMAGES[server.product].removeprefix('docker.io/')}:{server.version}"
        assert found[server.product]["image"] == image


def test_documents_written_through_the_proxy_have_tokens(running: Compose) -> None:
    direct = running.url("elasticsearch")
    call(direct, "PUT", "/news", {"mappings": {"properties": {"text": {"type": "text"}}}})
    run_command("attach", "--index", "news", "--text-field", "text", "--url", direct, status=0)
    text = "one two three four five six seven"
    call(running.url("proxy"), "PUT", "/news/_doc/1", {"text": text})
    written = call(direct, "GET", "/news/_doc/1")["_source"]
    assert written["text"] == text
    assert written[FIELD]["minhash"]


def test_the_proxy_has_no_rights_and_a_limit_of_memory(running: Compose) -> None:
    container = running("ps", "--quiet", "proxy").strip()
    (facts,) = json.loads(running.engine.docker("inspect", container))
    assert facts["HostConfig"]["ReadonlyRootfs"]
    assert facts["HostConfig"]["CapDrop"] == ["ALL"]
    assert facts["HostConfig"]["Memory"] == 512 * 2**20
    assert "no-new-privileges:true" in facts["HostConfig"]["SecurityOpt"]
    assert facts["Config"]["User"].split(":")[0] not in ("", "0", "root")
