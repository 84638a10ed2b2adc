"""Commands on an alias with a filter over indices that repeat ids, while another client writes.

The client writes between the requests of the commands, so that each comparison and each change
meets other documents than those that were read. Its record is what must be there.
"""

import random
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from esdedup.models import FIELD
from tests.helpers.commands import Ran, call, esdedup_command, words
from tests.servers.proxy import Proxy, Received, product_of

TEXTS = [words(number, 12) for number in range(50)]
IDS = [f"d{number}" for number in range(80)]
TENANTS = ("a", "b")
DEDUP = ("dedup", "--apply", "--yes", "--log", "log.zst", "--action")
JOBS = ("pairs", "group", "backfill", "stale", "mark", "delete", "move")
REQUESTS = 15
"""Of a command, before which the client writes: `backfill` goes on for as long as it does."""


@dataclass(frozen=True)
class Place:
    """The index of a document, and its id, which other indices may have too."""

    index: str
    id: str


class Content(NamedTuple):
    """What the client wrote to a document."""

    text: str
    number: int
    tenant: str


class Generations:
    """Two indices with the same ids, behind an alias of the documents of tenant a.

    contents: what each document must be, None for one that the client deleted.
    writes: how often the client wrote each.
    seen: documents that the alias has had.
    """

    def __init__(self, proxy: Proxy, url: str, name: str, seed: int) -> None:
        self.proxy, self.url, self.name, self.random = proxy, url, name, random.Random(seed)
        self.alias, self.moved = f"{name}-a", f"{name}-moved"
        self.indices = [f"{name}-000001", f"{name}-000002"]
        self.contents: dict[Place, Content | None] = {}
        self.writes = Counter[Place]()
        self.seen = set[Place]()
        self.number = self.left = 0
        self.one_at_a_time = threading.Lock()
        self.properties = {"tenant": {"type": "keyword"}, "text": {"type": "text"}}
        for index in self.indices:
            self.create(index)
        for index in self.indices:
            self.write([Place(index, id) for id in IDS])
        self.call("POST", f"/{name}-0*/_refresh")
        esdedup_command(url, "attach", "-i", self.alias, "--text-field", "text", status=0)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        return call(self.url, method, path, body)

    def create(self, index: str) -> None:
        """Create an index, and make it the one that the alias writes to."""
        mappings = {"properties": self.properties}
        if index not in self.indices[:2]:
            # As a template with our fields does.
            (first, *_) = self.indices
            mappings = self.call("GET", f"/{first}/_mapping")[first]["mappings"]
        self.call("PUT", f"/{index}", {"mappings": mappings})
        scope = {"alias": self.alias, "filter": {"term": {"tenant": "a"}}}
        actions = [
            {"add": {"index": old, **scope, "is_write_index": old == index}}
            for old in self.indices[: self.indices.index(index) + 1]
        ]
        self.call("POST", "/_aliases", {"actions": actions})

    def new_content(self) -> Content:
        """Return a content of a number of its own."""
        self.number += 1
        tenant = self.random.choices(TENANTS, [3, 1])[0]
        return Content(self.random.choice(TEXTS), self.number, tenant)

    def write(self, places: list[Place]) -> None:
        """Write documents whole."""
        lines: list[Any] = []
        contents = {place: self.new_content() for place in places}
        for place, (text, number, tenant) in contents.items():
            lines.append({"index": {"_index": place.index, "_id": place.id}})
            lines.append({"text": text, "n": number, "tenant": tenant})
        assert not self.call("POST", "/_bulk", lines)["errors"]
        for place, content in contents.items():
            self.note(place, content)

    def note(self, place: Place, content: Content | None) -> None:
        """Note what a document is now."""
        self.contents[place] = content
        self.writes[place] += 1
        if content is not None and content.tenant == "a":
            self.seen.add(place)

    def update(self, place: Place) -> None:
        """Change some fields of a document, unless a command has removed it."""
        content, new = self.contents[place], self.new_content()
        if content is None:
            return
        changes = self.random.choice([{"n"}, {"n"}, {"n", "text"}, {"n", "tenant"}])
        fields: dict[str, Any] = {"n": new.number, "text": new.text, "tenant": new.tenant}
        lines = [
            {"update": {"_index": place.index, "_id": place.id, "retry_on_conflict": 9}},
            {"doc": {field: fields[field] for field in changes}},
        ]
        ((item,),) = (item.values() for item in self.call("POST", "/_bulk", lines)["items"])
        if item["status"] == 404:
            return
        assert item["status"] == 200, item
        self.note(
            place,
            Content(
                new.text if "text" in changes else content.text,
                new.number,
                new.tenant if "tenant" in changes else content.tenant,
            ),
        )

    def interfere(self, request: Received) -> None:
        """Change documents before a request of a command is passed on."""
        del request
        with self.one_at_a_time:
            self.left -= 1
            if self.left < 0:
                return
            for _ in range(self.random.choice([0, 0, 1, 3])):
                place = self.random.choice([*self.contents])
                if self.random.random() < 0.2:
                    self.write([place])
                else:
                    self.update(place)

    def job(self, *arguments: str, quiet: bool = False) -> Ran:
        """Run a command on the alias; quiet: while no other client writes."""
        self.left = REQUESTS
        self.proxy.on_request = (lambda _: None) if quiet else self.interfere
        ran = esdedup_command(self.proxy.url, *arguments, "-i", self.alias)
        assert ran.status in (0, 1), ran.err
        return ran

    def run(self, job: str) -> None:
        """Run a command, and undo its removals; compare all documents after each."""
        if job in ("backfill", "stale"):
            self.job("backfill", *(["--stale"] if job == "stale" else []))
        elif job in ("pairs", "group"):
            self.job(job)
        else:
            to = ["--to", self.moved] if job == "move" else []
            self.job(*DEDUP, job, *to)
            removed = self.missing()
            assert job != "mark" or not removed
            if Path("log.zst").exists():
                self.job("undo", "log.zst", "--yes")
                Path("log.zst").unlink()
        assert self.missing() == []

    def stored(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Yield the hits of all documents of the indices."""
        self.call("POST", f"/{self.name}-0*/_refresh")
        body = {"size": 10_000, "version": True}
        for hit in self.call("POST", f"/{self.name}-0*/_search", body)["hits"]["hits"]:
            yield Place(hit["_index"], hit["_id"]), hit

    def missing(self) -> list[Place]:
        """Compare all documents with the record; return those that a command has removed.

        A document that the alias never had must not have been written by any other client.
        """
        missing = self.contents.copy()
        for place, hit in self.stored():
            source, content = hit["_source"], missing.pop(place, None)
            assert content == (source["text"], source["n"], source["tenant"]), place
            if place not in self.seen:
                assert FIELD not in source
                assert hit["_version"] == self.writes[place]
        left = {place: content for place, content in missing.items() if content is not None}
        outside = [place for place, content in left.items() if content.tenant != "a"]
        assert outside == []
        return [*left]

    def require_right_groups(self) -> None:
        """Group the documents, and compare the groups with equal texts of the alias."""
        for more in ((), ("--stale",)):
            assert self.job("backfill", *more, quiet=True).status == 0
        grouped = self.job("group", quiet=True)
        assert (grouped.status, "missed" in grouped.err) == (0, False), grouped.err
        assert self.job("check", quiet=True).status == 0
        within = {place: hit["_source"] for place, hit in self.stored()}
        within = {place: source for place, source in within.items() if source["tenant"] == "a"}
        places_of_id = defaultdict[str, list[Place]](list)
        for place in within:
            places_of_id[place.id].append(place)
        named = {
            (f"{place.index}/{id}" if len(places) > 1 else id): place
            for id, places in places_of_id.items()
            for place in places
        }
        number_of = Counter(source["text"] for source in within.values())
        originals = 0
        for source in within.values():
            marks, text = source[FIELD], source["text"]
            group = marks.get("group")
            assert (group is not None) == (number_of[text] > 1)
            if group is not None:
                representative = within[named[group]]
                assert representative["text"] == text
                assert representative[FIELD].get("original") is None
            originals += marks.get("original") is None
        assert originals == len(number_of)


@pytest.fixture
def proxy(url: str) -> Iterator[Proxy]:
    """Yield a proxy in front of the cluster."""
    with Proxy(url, product_of(url)) as proxy:
        yield proxy


# On OpenSearch, tests/ingest/test_generations.py runs without --all.
def test_no_write_is_lost_and_nothing_outside_of_the_filter_is_touched(
    proxy: Proxy, url: str, name: str
) -> None:
    generations = Generations(proxy, url, name, seed=1)
    for job in ("backfill", *JOBS):
        generations.run(job)
    generations.require_right_groups()


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 8))
def test_in_any_order_and_with_rollovers(proxy: Proxy, url: str, name: str, seed: int) -> None:
    generations = Generations(proxy, url, name, seed)
    for number in range(3, 5):
        for job in generations.random.choices(JOBS, k=6):
            generations.run(job)
        generations.indices.append(f"{name}-{number:06}")
        generations.create(generations.indices[-1])
        generations.write([Place(generations.indices[-1], id) for id in IDS])
    generations.require_right_groups()
