"""An owner that numbers the versions of its rows, and deletes some, while commands run.

Every write of the owner must be accepted, none may be undone, and no row may come back. The owner
never refreshes, and the index may not do so by itself: commands must see all rows nevertheless.
"""

import json
import random
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esdedup.models import FIELD
from tests.helpers.commands import all_documents, run_command, words
from tests.helpers.places import Place, clusters
from tests.servers.proxy import Proxy

ROWS = 300


class Owner(threading.Thread):
    """Writes rows with the next version of each, and deletes some for ever.

    rows: the JSON that must be there, by id. refused: answers that should not have come.
    """

    def __init__(self, place: Place, pause: float) -> None:
        super().__init__(daemon=True)
        self.place, self.pause, self.chance = place, pause, random.Random(3)
        self.version = dict.fromkeys((f"d{number}" for number in range(ROWS)), 0)
        self.rows: dict[str, str] = {}
        self.refused: list[Any] = []
        self.written, self.ended = 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(self.pause):
            self.write(self.chance.sample([*self.rows], 5))
            # The first of each pair, which is the original of the other one, until none is left.
            originals = [id for id in self.rows if int(id[1:]) % 2 == 0]
            if originals and self.chance.random() < 0.3:
                self.delete(self.chance.choice(originals))

    def write(self, ids: list[str]) -> None:
        lines = []
        for id in ids:
            self.version[id] += self.chance.randint(1, 3)
            text = words(int(id[1:]) // 2, 30)
            number = f"{self.chance.randint(1, 999)}.{self.chance.randint(0, 9)}0"
            self.rows[id] = f'{{"text":"{text}","price":{number},"version":{self.version[id]}}}'
            lines += [json.dumps({"index": self.target(id)}), self.rows[id]]
        self.send(lines)

    def delete(self, id: str) -> None:
        self.version[id] += 1
        self.send([json.dumps({"delete": self.target(id)})])
        del self.rows[id]

    def target(self, id: str) -> dict[str, Any]:
        return {"_id": id, "version": self.version[id], "version_type": "external"}

    def send(self, lines: list[str]) -> None:
        request = urllib.request.Request(
            f"{self.place.target}/{self.place.index}/_bulk",
            "".join(f"{line}\n" for line in lines).encode(),
            {"content-type": "application/x-ndjson"},
        )
        with urllib.request.urlopen(request) as answer:
            items = json.load(answer)["items"]
        results = [result for item in items for result in item.values()]
        self.refused += [each for each in results if each["status"] >= 300]
        self.written += len(results)


@pytest.fixture(params=["-1", pytest.param("1s", marks=pytest.mark.nightly)])
def owner(place: Place, request: pytest.FixtureRequest) -> Iterator[Owner]:
    """Return the owner of an index with each setting of refreshes."""
    mapping = {"dynamic": False, "properties": {"text": {"type": "text"}}}
    settings = {"refresh_interval": request.param}
    place.call("PUT", "", {"mappings": mapping, "settings": settings})
    owner = Owner(place, 0.02)
    owner.write([*owner.version])
    run_command("attach", *place.options, "--text-field", "text", "--external-versions", status=0)
    yield owner
    owner.ended.set()


# On OpenSearch, tests/admin/test_external_versions.py runs without --all.
@clusters
@pytest.mark.parametrize("rounds", [1, pytest.param(10, marks=pytest.mark.nightly)])
def test_every_write_of_the_owner_wins(
    place: Place, owner: Owner, folder: Path, rounds: int
) -> None:
    url = str(place.target)
    owner.start()
    with Proxy(url) as proxy:
        where = ["--url", proxy.url, "--index", place.index]
        for number in range(rounds):
            log = str(folder / f"{number}.jsonl")
            dedup = ("dedup", *where, "--apply", "--action", "mark", "--log", log, "--yes")
            for command in (
                ("backfill", *where),
                ("backfill", *where, "--stale"),
                ("group", *where),
                dedup,
                ("undo", log, "--url", proxy.url, "--yes", "--force"),
            ):
                # The server does what the lost answer would have confirmed.
                proxy.drop_after = 1
                if command[0] == "undo" and not Path(log).exists():
                    continue
                done = run_command(*command)
                assert done.status in (0, 1), done.err
                assert "Traceback" not in done.err
    owner.ended.set()
    owner.join()
    assert owner.refused == []
    assert owner.written > ROWS
    # What the last writes left is mended, also copies whose original the owner deleted.
    for more in ((), ("--stale",)):
        run_command("backfill", *place.options, *more, status=0)
    run_command("group", *place.options, status=0)
    checked = run_command("check", *place.options, "--json", status=0)
    assert checked.json[0]["original_gone"]["count"] == 0
    place.call("POST", "/_refresh")
    stored = all_documents(url, place.index)
    own = {id: {k: v for k, v in one.items() if k != FIELD} for id, one in stored.items()}
    assert own == {id: json.loads(row) for id, row in owner.rows.items()}
    assert [id for id, fields in stored.items() if FIELD not in fields] == []
    for id, row in owner.rows.items():
        with urllib.request.urlopen(f"{url}/{place.index}/_source/{id}") as found:
            assert found.read().decode().startswith(row[:-1]), id
    owner.write([*owner.rows])
    assert owner.refused == []
