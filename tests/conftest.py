"""Fixtures that hand out real servers, and the rules of a test run.

A run of folders uses several processes, which share the servers. By default only some tests run
on OpenSearch, none on Elasticsearch 8, and property tests try few examples; --all runs everything.
"""

import contextlib
import os
import signal
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from esdedup.stores import Store
from esdedup.stores.waits import Waits
from tests.helpers.commands import call
from tests.helpers.packages import missing_package, reason
from tests.helpers.places import META, STORES, OpenStore, Place
from tests.helpers.waits import waits
from tests.servers.node import Node
from tests.servers.provide import (
    Provider,
    connected,
    names_of,
    refusing,
    servers_wanted,
)
from tools.servers.jdk import find_jdk
from tools.servers.versions import ELASTICSEARCH, ONLY_WITH_ALL, OPENSEARCH, Server

# Shells start programs in the background with SIGINT ignored, and commands would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

MOST_PROCESSES = 4
"""More processes would only wait for the servers."""

# Tests assert results and not speed, on machines of any speed.
settings.register_profile("ci", deadline=None, max_examples=30)
settings.register_profile("nightly", deadline=None, max_examples=500)

TURNS = ("spark", "unit", "proxy", "containers", "browser")
"""Groups of tests, and those in tests/unit, in the order in which they begin. The rest follows.

The longest is first, so that no process works alone in the end. While the servers start, the other
processes run what needs none.
"""

STAND_IN = "stand-in"
"""Property of a test, with the name of an image that was made on this machine."""

_wanted = pytest.StashKey[set[str]]()
_shared = pytest.StashKey[tuple[str, bytes]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all",
        action="store_true",
        help="run every test on every server, and try many examples of each property",
    )


def pytest_configure(config: pytest.Config) -> None:
    for marker in (
        "on_every_server: runs on OpenSearch too without --all",
        "nightly: runs with --all only",
        "fuzz: takes input of any kind; all these run half a minute, and an hour with --all",
        "xdist_group(name): runs in the same process as the rest of the group",
    ):
        config.addinivalue_line("markers", marker)
    if getattr(config, "workerinput", {}).get("groups"):
        # A test process reads the command line again, and not what we chose.
        config.option.loadgroup = True
    nightly = config.getoption("--all")
    settings.load_profile(os.environ.get("ESDEDUP_TEST_PROFILE", "nightly" if nightly else "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run folders in several processes, if the command line does not choose a number."""
    if not config.pluginmanager.hasplugin("xdist") or hasattr(config, "workerinput"):
        return
    option = config.option
    if option.numprocesses is None and option.dist == "no":
        # One more than cores, because a process often waits for a server.
        processes = min((os.cpu_count() or 1) + 1, MOST_PROCESSES)
        watched = option.usepdb or option.capture == "no" or option.collectonly
        folders = all(Path(argument).is_dir() for argument in config.args)
        option.numprocesses = processes if folders and not watched and processes > 1 else 0
    if option.numprocesses and option.dist == "no":
        option.dist = "loadgroup"
        # The order of collection stays, which is ours.
        option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Give a test process the address at which it can ask for servers."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    if _shared not in config.stash:
        provider = Provider()
        config.stash[_shared] = provider.share()
        config.add_cleanup(provider.stop)
    node.workerinput["servers"] = config.stash[_shared]  # type: ignore[attr-defined]
    node.workerinput["groups"] = config.option.dist == "loadgroup"  # type: ignore[attr-defined]


class ModuleWithoutPackage(pytest.Module):
    """A module of tests that is skipped, because it can't be imported."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        package = missing_package(self.path)
        assert package is not None
        pytest.skip(reason(package), allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    """Skip a module whose package only a dependency group installs, naming the group."""
    if missing_package(module_path) is None:
        return None
    return ModuleWithoutPackage.from_parent(parent, path=module_path)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only --all runs, groups tests that share a node, and orders all."""
    if not config.getoption("--all"):
        left_out = [item for item in items if _only_with_all(item)]
        config.hook.pytest_deselected(items=left_out)
        are_left_out = set(left_out)
        items[:] = [item for item in items if item not in are_left_out]
    for item in items:
        # A group that shares more than a node has a node of its own in its process.
        if item.get_closest_marker("xdist_group") is None:
            for node in _killable_nodes(item):
                item.add_marker(pytest.mark.xdist_group(node))
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return the place of a test in the order of the run."""
    marker = item.get_closest_marker("xdist_group")
    if marker is not None:
        (group,) = marker.args
        return TURNS.index(group) if group in TURNS else len(TURNS)
    return TURNS.index("unit") if "unit" in item.path.parts else len(TURNS) + 1


def _only_with_all(item: pytest.Item) -> bool:
    """Return whether only a run with --all runs this test.

    On OpenSearch, a usual run runs the tests of the stores, and one or two marked tests of each
    feature.
    """
    if item.get_closest_marker("nightly") is not None:
        return True
    servers = names_of(item, "{}")
    return not servers.isdisjoint(ONLY_WITH_ALL) or (
        "opensearch" in servers
        and "stores" not in item.path.parts
        and item.get_closest_marker("on_every_server") is None
    )


def _killable_nodes(item: pytest.Item) -> set[str]:
    """The nodes of the whole run that a test may kill."""
    used = set(getattr(item, "fixturenames", ()))
    if "killable" in used:
        used = names_of(item, "killable_{}")
    return used & {"killable_elasticsearch", "killable_opensearch"}


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the servers that the selected tests need. A run of several processes starts them."""
    wanted = session.config.stash[_wanted] = servers_wanted(session.items)
    address = getattr(session.config, "workerinput", {}).get("servers")
    if address is not None and wanted:
        connected(address).start(wanted)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says which images were not the real ones."""
    reports = [report for some in terminalreporter.stats.values() for report in some]
    properties = [pair for report in reports for pair in getattr(report, "user_properties", ())]
    for name in sorted({value for key, value in properties if key == STAND_IN}):
        terminalreporter.write_line(
            f"No registry has {name}: made here, with another inside (tools/servers/images.py)"
        )


@pytest.fixture(scope="session", autouse=True)
def _without_options_of_the_developer() -> Iterator[None]:
    """Commands take options from the environment too."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            ours = name.startswith(("ESDEDUP_TEST_", "ESDEDUP_REQUIRE_"))
            if (name.startswith("ESDEDUP_") and not ours) or name == "FORCE_COLOR":
                patch.delenv(name)
        yield


@pytest.fixture(scope="session", autouse=True)
def _alone_with_each_index() -> Iterator[None]:
    """No other client reads or changes the mapping, except in tests that set the waits again."""
    with waits(Waits(settle=0.0, switch=0.0)):
        yield


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty folder, in which each test runs."""
    with contextlib.chdir(tmp_path):
        yield tmp_path


@pytest.fixture(scope="session")
def java() -> Iterator[None]:
    """Java for Spark: that of the servers."""
    with refusing(), pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(find_jdk().home))
        yield


@pytest.fixture(scope="session")
def url_of(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Return the address of a shared server, by the name of the fixture that hands it out."""
    address = getattr(request.config, "workerinput", {}).get("servers")
    provider = Provider() if address is None else connected(address)
    wanted = request.config.stash[_wanted]
    provider.start(wanted)

    def url_of(fixture: str) -> str:
        with refusing():
            return provider.url(fixture)

    yield url_of
    if address is None:
        provider.stop()


def address_of(server: str) -> Any:
    """Return the fixture of the address of a server that the whole run shares."""

    def address(url_of: Callable[[str], str]) -> str:
        return url_of(server)

    return pytest.fixture(address, scope="session", name=server)


# Use indices of your own.
elasticsearch_url = address_of("elasticsearch_url")
elasticsearch8_url = address_of("elasticsearch8_url")
opensearch_url = address_of("opensearch_url")
# With TLS and users, as `SecuredNode.url`.
secured_elasticsearch_url = address_of("secured_elasticsearch_url")
secured_opensearch_url = address_of("secured_opensearch_url")


@pytest.fixture(params=["elasticsearch", "elasticsearch8", "opensearch"])
def url(request: pytest.FixtureRequest) -> str:
    """Each of the clusters in turn; a module that needs fewer has a fixture of its own."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


# Our largest requests have 8 MiB, so only tests that want to be refused are.
KILLABLE_SETTINGS = {"http.max_content_length": "10mb"}


@contextlib.contextmanager
def private_node(server: Server, home: Path) -> Iterator[Node]:
    """A node from jars, which tests may kill."""
    with refusing():
        node = Node.start(server.product, server.version, home, settings=KILLABLE_SETTINGS)
    yield node
    node.kill()


@pytest.fixture(scope="session")
def _elasticsearch_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with private_node(ELASTICSEARCH, tmp_path_factory.mktemp("elasticsearch")) as node:
        yield node


@pytest.fixture(scope="session")
def _opensearch_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with private_node(OPENSEARCH, tmp_path_factory.mktemp("opensearch")) as node:
        yield node


@pytest.fixture
def killable_elasticsearch(_elasticsearch_node: Node) -> Node:
    """A running node without indices, which the test may kill and restart."""
    return tidied(_elasticsearch_node)


@pytest.fixture
def killable_opensearch(_opensearch_node: Node) -> Node:
    """A running node without indices, which the test may kill and restart."""
    return tidied(_opensearch_node)


@pytest.fixture(params=["elasticsearch", pytest.param("opensearch", marks=pytest.mark.nightly)])
def killable(request: pytest.FixtureRequest) -> Node:
    """Each of the killable nodes in turn."""
    found: Node = request.getfixturevalue(f"killable_{request.param}")
    return found


def tidied(node: Node) -> Node:
    """Start a node again if it is down, and delete all indices on it."""
    if node.pid is None or not node.running:
        node.restart()
    else:
        os.kill(node.pid, signal.SIGCONT)
    with urllib.request.urlopen(f"{node.url}/_cat/indices?h=index") as answer:
        for name in answer.read().decode().split():
            delete_index(node.url, name)
    return node


def delete_index(url: str, name: str) -> None:
    """Delete an index that a test made, if there is one."""
    with contextlib.suppress(urllib.error.HTTPError):
        urllib.request.urlopen(urllib.request.Request(f"{url}/{name}", method="DELETE")).close()


def delete_indices(url: str, prefix: str) -> None:
    """Delete all indices whose names begin so."""
    for index in call(url, "GET", f"/_resolve/index/{prefix}*")["indices"]:
        delete_index(url, index["name"])


@pytest.fixture
def name(url: str) -> Iterator[str]:
    """Yield the name of an index for one test, which may make others that begin with it."""
    made = f"esdedup-test-{uuid.uuid4().hex[:12]}"
    yield made
    delete_indices(url, made)


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    index = f"esdedup-contract-{uuid.uuid4().hex[:12]}"
    if request.param == "local":
        yield Place(tmp_path / "store.db", index)
        return
    url: str = request.getfixturevalue(f"{request.param}_url")
    yield Place(url, index)
    delete_indices(url, index)


@pytest.fixture
def target(place: Place) -> list[str]:
    """The options that name a place."""
    return place.options


@pytest.fixture
def open_store(place: Place) -> Iterator[OpenStore]:
    opened: list[Store] = []

    def open_one(index: str = place.index, **options: Any) -> Store:
        opened.append(Place(place.target, index).open(**options))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    made = open_store()
    made.create(META)
    return made
