"""Jobs on a cluster that changes, beside a foreign writer, whose record is what must be there."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

import esdedup
from esdedup.models import FIELD, Document
from esdedup.stores import Cluster as Opened
from esdedup.stores.connection import connection_to
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import all_documents, esdedup_command, fill, words
from tests.helpers.foreign_writer import ForeignWriter, State
from tests.helpers.places import with_tokens
from tests.helpers.processes import SMALL_PAGES, start_command
from tests.servers.cluster import Cluster
from tests.servers.node import Node
from tests.servers.proxy import Proxy

NAME, GREEN = "changing", "green"
PAIRS = 500
META = IndexMeta(esdedup.Scheme())
DEDUP = ("dedup", "--apply", "--yes", "--action")

Fault = tuple[Callable[[Popen[str]], None], int]
"""What happens to a running command, and the number of the bulk request before which."""


def kill(process: Popen[str]) -> None:
    process.kill()


class Changing:
    """A cluster with an alias, a writer, and the faults that happen while commands run."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes, self.parts, self.url = nodes, [f"{NAME}-1"], nodes[0].url
        replicas = int(len(nodes) > 1)
        self.settings = {"number_of_shards": 2, "number_of_replicas": replicas}
        self.ask = Opened(connection_to(",".join(one.url for one in nodes), retry_for=120)).ask
        self.proxies = [Proxy(node.url, node.product) for node in nodes]
        self.happened: list[str] = []
        self.restarting: threading.Thread | None = None
        self.green: dict[str, Any] = {}
        documents = {f"d{n}": {"text": words(n // 2, 12), "n": 0} for n in range(2 * PAIRS)}
        for name in (self.parts[0], GREEN):
            self.ask("PUT", f"/{name}", {"settings": self.settings})
            attach = ("attach", "--text-field", "text", "-i", name)
            esdedup_command(self.url, *attach, status=0)
        fill(self.url, self.parts[0], documents)
        self.point(self.parts)
        self.writer = ForeignWriter(nodes, documents, self.parts[0])
        self.writer.start()

    def point(self, names: list[str]) -> None:
        """Make the alias that of these indices."""
        every = {"indices": [*self.parts, GREEN], "alias": NAME, "must_exist": False}
        actions: list[Any] = [{"remove": every}]
        for name in names:
            last = {"is_write_index": name == names[-1]}
            actions.append({"add": {"index": name, "alias": NAME, **last}})
        self.ask("POST", "/_aliases", {"actions": actions})

    def copy_to_green(self) -> None:
        """Copy the documents as they are now, for a swap that no command may follow."""
        self.green |= all_documents(self.url, NAME)
        fill(self.url, GREEN, self.green)

    def swap(self, _: object) -> None:
        self.point([GREEN])

    def restart(self, _: object = None) -> None:
        """Kill and start the nodes, one after the other, while the commands go on."""

        def roll() -> None:
            for node in self.nodes:
                node.kill()
                node.launch()
                node.await_ready(nodes=len(self.nodes))
                green = {"wait_for_status": "green", "timeout": "60s"}
                self.ask("GET", "/_cluster/health", params=green)

        self.restarting = threading.Thread(target=roll)
        self.restarting.start()

    def roll_over(self, _: object) -> None:
        """As a template with our fields and a policy do."""
        _, found = self.ask("GET", f"/{self.parts[0]}/_mapping")
        made = {"settings": self.settings, "mappings": found[self.parts[0]]["mappings"]}
        name = f"{NAME}-{len(self.parts) + 1}"
        self.ask("PUT", f"/{name}", made)
        self.parts.append(name)
        self.point(self.parts)
        self.writer.newest = name

    def job(self, *arguments: str, faults: Sequence[Fault] = ()) -> None:
        """Run a command again until it completes, with one of the faults each time."""
        fault, at = faults[0] if faults else (None, 0)
        counted = itertools.count(1)

        def before_bulk() -> None:
            if next(counted) == at and fault is not None:
                fault(process)
                self.happened.append(f"{fault.__name__} {arguments[0]}")

        for proxy in self.proxies:
            proxy.before_bulk = before_bulk
        urls = ",".join(proxy.url for proxy in self.proxies)
        command = [*arguments, "-i", NAME, "--url", urls, "--retry-for", "2m"]
        command += ["--requests", "16"]
        process = start_command(*command, script=SMALL_PAGES, stdout=PIPE, stderr=PIPE)
        # Ends only when its worker processes have ended too.
        out, err = process.communicate(timeout=300)
        self.point(self.parts)
        assert "Traceback" not in err, err
        if not out:
            stopped = process.returncode == -9 or "another index when this run began" in err
            assert stopped, (process.returncode, arguments, err)
            self.job(*arguments, faults=faults[1:])

    def undo(self, faults: Sequence[Fault]) -> None:
        for log in sorted(Path().glob("*.zst"), reverse=True):
            self.job("undo", str(log), "--yes", faults=faults)
            log.unlink()
            faults = ()

    def finish(self) -> None:
        """Compare all with the writer's record, and `check` with a scan."""
        if self.restarting is not None:
            self.restarting.join()
        assert self.writer.is_alive()
        self.writer.ended.set()
        self.writer.join()
        assert self.writer.acknowledged > 100
        lacking, stale = self.look()
        checked = esdedup_command(self.url, "check", "-i", NAME, "--json")
        assert checked.status == bool(lacking or stale)
        counts = [(one["without_tokens"]["count"], one["stale"]["count"]) for one in checked.json]
        assert tuple(map(sum, zip(*counts, strict=True))) == (lacking, stale)
        for more in ((), ("--stale",)):
            esdedup_command(self.url, "backfill", "-i", NAME, *more, status=0)
        assert self.look() == (0, 0)
        esdedup_command(self.url, "check", "-i", NAME, status=0)
        assert all_documents(self.url, GREEN) == self.green

    def look(self) -> tuple[int, int]:
        """Compare all with the record; return how many lack tokens, and how many are stale."""
        found, states = all_documents(self.url, NAME), self.writer.states
        got: dict[str, State] = {id: (one["text"], one["n"]) for id, one in found.items()}
        wrong = [(id, got.get(id), may) for id, may in states.items() if got.get(id) not in may]
        assert not wrong, f"{len(wrong)}, such as {wrong[0]}"
        assert found.keys() <= states.keys()
        plain = [Document(id, {"text": one["text"]}) for id, one in found.items() if FIELD in one]
        stale = [one for one in with_tokens(plain, META)
                 if not one.tokens.items() <= found[one.id][FIELD].items()]  # fmt: skip
        return len(found) - len(plain), len(stale)


# Without --all, test_faults.py and test_changing_generations.py have the same faults one by one.
@pytest.mark.nightly
def test_on_one_node(killable_elasticsearch: Node) -> None:
    one = Changing([killable_elasticsearch])
    one.job("backfill", "--workers", "2", "--max-rate", "1000", faults=[(kill, 6)])
    one.copy_to_green()
    one.job("backfill")
    one.job(*DEDUP, "delete", faults=[(one.swap, 10), (kill, 20)])
    one.undo([(kill, 10), (one.restart, 4)])
    # Early, because up to 16 requests are on their way when a run is killed, of some 25 in all.
    one.job("group", faults=[(kill, 2), (one.roll_over, 2)])
    one.finish()
    assert len(one.happened) == 7, one.happened


@pytest.mark.nightly
def test_on_three_nodes(cluster: Cluster) -> None:
    """Commands one after the other, while the nodes are restarted one after the other."""
    three, chance = Changing(cluster.nodes), random.Random(7)
    three.job("backfill")

    def faults() -> list[Fault]:
        kinds = chance.choices([kill, three.roll_over, three.swap], k=chance.randint(0, 2))
        return [(kind, chance.randint(1, 8)) for kind in kinds]

    until = time.monotonic() + 150
    while time.monotonic() < until:
        if three.restarting is None or not three.restarting.is_alive():
            three.copy_to_green()
            three.restart()
        three.job("backfill", "--workers", "2", faults=faults())
        for action in (["delete"], ["mark"], ["move", "--to", "moved"]):
            three.job(*DEDUP, *action, faults=faults())
            three.undo([each for each in faults() if each[0] != three.swap])
            three.job("group", faults=faults())
    three.finish()
