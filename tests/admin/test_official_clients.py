"""Official clients and a shipper write, and the index computes the tokens: esdedup only searches.

The programs are in the folder writers; npm and the Go module proxy have their clients. The package
rsyslog-elasticsearch of Debian has the shipper.
"""

import json
import random
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from esdedup import Scheme, Server
from esdedup.sketch.sketch import shingle_sets
from esdedup.text.jaccard import jaccard
from tests.helpers.commands import all_documents, call, esdedup_command, write_lines
from tests.helpers.http import HTTP
from tests.helpers.processes import await_true, end

PROGRAMS = Path(__file__).parent / "writers"
FAMILIES = 40
THRESHOLD = 0.5

Lines = list[dict[str, Any]]
Writer = Callable[[str, str, Lines], None]
"""Writes lines of an index and a source to a product at an address."""

RSYSLOG = r"""
global(workDirectory="FOLDER")
module(load="imfile")
module(load="omelasticsearch")
template(name="id" type="string" string="%uuid%")
template(name="document" type="list") {
  constant(value="{\"@timestamp\":\"")
  property(name="timereported" dateFormat="rfc3339")
  constant(value="\",")
  property(name="msg" outname="message" format="jsonf")
  constant(value="}")
}
"""

pytestmark = pytest.mark.nightly


def tool(name: str) -> str:
    """Return the path of a program, or skip the test."""
    found = shutil.which(name) or shutil.which(name, path="/usr/local/go/bin:/usr/sbin")
    return found or pytest.skip(f"there is no {name} on this machine")


def run(*command: str, folder: Path) -> None:
    """Fetch, build or check something, or skip the test with what failed in the log."""
    if subprocess.run(command, cwd=folder, check=False).returncode:
        pytest.skip(f"{' '.join(command[:2])} failed")


@pytest.fixture(scope="session")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the program over the official JavaScript clients."""
    folder = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", "write.js"):
        shutil.copy(PROGRAMS / name, folder)
    options = ("--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts")
    run(tool("npm"), "install", *options, folder=folder)
    return [tool("node"), str(folder / "write.js")]


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of the program over the official Go clients, which is built for minutes once."""
    program = tmp_path_factory.mktemp("go") / "writer"
    build = ("build", "-o", str(program), ".")
    run(tool("go"), *build, folder=PROGRAMS)
    return [str(program)]


@pytest.fixture
def writers(request: pytest.FixtureRequest, tmp_path: Path) -> list[Writer]:
    """Return what writes, by the names in the parameter."""

    def writer(name: str) -> Writer:
        if name == "rsyslog":
            program = tool("rsyslogd")
            return lambda _, url, lines: ship(program, tmp_path, url, lines)
        program = request.getfixturevalue(name)

        def write(product: str, url: str, lines: Lines) -> None:
            sent = "".join(json.dumps(line) + "\n" for line in lines)
            command = [*program, product, url]
            ran = subprocess.run(command, input=sent, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr

        return write

    return [writer(name) for name in request.param.split()]


def ship(program: str, folder: Path, url: str, lines: Lines) -> None:
    """Let rsyslog read a log file for each index, until the index has its lines as well."""
    texts = defaultdict(list)
    for line in lines:
        texts[line["index"]].append(line["source"]["message"])
    wanted = {index: documents(url, index) + len(some) for index, some in texts.items()}
    config = [RSYSLOG.replace("FOLDER", str(folder))]
    host, port = url.removeprefix("http://").split(":")
    for at, (index, some) in enumerate(texts.items()):
        write_lines(folder / f"{at}.log", [*some])
        config += [
            f'input(type="imfile" file="{folder}/{at}.log" tag="log:" ruleset="to{at}")',
            f'ruleset(name="to{at}") {{ action(type="omelasticsearch" template="document"',
            f'  server="{host}" serverport="{port}" searchIndex="{index}" searchType=""',
            '  bulkmode="on" writeoperation="create" bulkid="id" dynbulkid="on") }',
        ]
    (folder / "rsyslog.conf").write_text("\n".join(config) + "\n")
    # Its module for this is a package of its own.
    run(program, "-N1", "-f", "rsyslog.conf", folder=folder)
    command = [program, "-n", "-f", str(folder / "rsyslog.conf"), "-i", str(folder / "pid")]
    with (
        (folder / "rsyslog.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):

        def shipped() -> bool:
            assert process.poll() is None
            return all(documents(url, index) == count for index, count in wanted.items())

        try:
            await_true("rsyslog has shipped all", shipped, 60, every=0.2)
        finally:
            end(process)


def documents(url: str, index: str) -> int:
    HTTP.post(f"{url}/{index}/_refresh")
    answer = HTTP.get(f"{url}/{index}/_count")
    return int(answer.json()["count"]) if answer.is_success else 0


def family(seed: int, size: int) -> Iterator[str]:
    """Yield a text and near-duplicates of it, with up to a seventh of the words replaced."""
    draw = random.Random(seed)
    own = [f"w{draw.randrange(10**6)}" for _ in range(draw.choice([15, 40, 120]))]
    for _ in range(size):
        edited = [*own]
        for at in draw.sample(range(len(own)), draw.randrange(1 + len(own) // 14)):
            edited[at] = f"w{draw.randrange(10**6)}"
        yield " ".join(edited)


@pytest.fixture
def stream(url: str, name: str) -> Iterator[str]:
    """Yield the name of a data stream, which is deleted afterwards with all templates."""
    yield f"{name}-stream"
    HTTP.delete(f"{url}/_data_stream/{name}-stream")
    for made in (f"_index_template/{name}*", f"_component_template/esdedup-{name}"):
        HTTP.delete(f"{url}/{made}")


def components(pairs: set[tuple[str, str]]) -> set[frozenset[str]]:
    """Return the sets of ids that chains of pairs connect."""
    found: dict[str, set[str]] = {}
    for left, right in pairs:
        both = found.get(left, {left}) | found.get(right, {right})
        found.update(dict.fromkeys(both, both))
    return {frozenset(each) for each in found.values()}


def assert_all_is_found(url: str, index: str) -> set[tuple[str, str]]:
    """Compare what esdedup finds with the exact similarities of all pairs, which are returned."""
    sources = all_documents(url, index)
    ids, texts = [*sources], [source["message"] for source in sources.values()]
    left, right = np.triu_indices(len(ids), 1)
    similar = jaccard(shingle_sets(texts, Scheme([Server()])), left, right) >= THRESHOLD
    both = zip(left[similar].tolist(), right[similar].tolist(), strict=True)
    pairs = {tuple(sorted((ids[one], ids[other]))) for one, other in both}
    write_lines(
        Path("texts.jsonl"),
        [{"id": id, "message": text} for id, text in zip(ids, texts, strict=True)],
    )
    options = ("--index", index, "--threshold", str(THRESHOLD))
    ran = esdedup_command(
        url, "similar", "--batch", "texts.jsonl", "-k", "1000", *options, status=0
    )
    found = [(line["query"], match["id"]) for line in ran.json for match in line["matches"]]
    assert sorted(found) == sorted((*pairs, *((other, one) for one, other in pairs)))
    ran = esdedup_command(url, "group", *options, "--method", "components", status=0)
    groups = defaultdict(set)
    for id, source in all_documents(url, index).items():
        groups[source.get("esdedup", {}).get("group") or id].add(id)
    assert {frozenset(each) for each in groups.values() if len(each) > 1} == components(pairs)
    return pairs


@pytest.mark.parametrize(
    "writers", ["javascript", "go", "rsyslog", "javascript go rsyslog"], indirect=True
)
def test_all_near_duplicates_of_other_writers_are_found(
    url: str, name: str, stream: str, writers: list[Writer]
) -> None:
    # The jars of Elasticsearch have no data streams, no scripts, and no module that reindexes.
    whole = HTTP.get(f"{url}/_data_stream").is_success
    product = product_of(url)
    described = ("--server", "--text-field", "message", "--install")
    esdedup_command(url, "template", "--index", name, *described, status=0)
    days = [f"{name}-2026.11.2{day}" for day in range(1, 4)]
    template = {"index_patterns": [f"{name}-2*"], "composed_of": [f"esdedup-{name}"]}
    aliased = {**template, "priority": 400, "template": {"aliases": {name: {}}}}
    call(url, "PUT", f"/_index_template/{name}", aliased)
    places = [*days]
    if whole:
        places.append(stream)
        body = {**template, "index_patterns": [stream], "data_stream": {}, "priority": 500}
        call(url, "PUT", f"/_index_template/{stream}", body)
    sent: list[Lines] = [[] for _ in writers]
    for seed in range(FAMILIES):
        for at, text in enumerate(family(seed, 3 * len(places))):
            source = {"@timestamp": "2026-11-21T10:00:00Z", "message": text}
            # Neighbours go to other writers and other indices.
            sent[at % len(writers)].append({"index": places[at // 3], "source": source})
    for writer, lines in zip(writers, sent, strict=True):
        writer(product, url, lines)
    for target in (name, *places[3:]):
        pairs = assert_all_is_found(url, target)
        assert len(pairs) > 2 * FAMILIES
        esdedup_command(url, "check", "--index", target, status=0)
    change(url, days)
    if whole:
        move(url, days[0], f"{name}-2026.11.24")
        for target in (name, stream):
            change_by_scripts(url, target)
        assert_all_is_found(url, stream)
    assert_all_is_found(url, name)


def product_of(url: str) -> str:
    """Return the name of a server's product, and of Elasticsearch 8 its version too."""
    path = "/_nodes?filter_path=nodes.*.version,nodes.*.build_flavor"
    (node,) = call(url, "GET", path)["nodes"].values()
    if "build_flavor" not in node:
        return "opensearch"
    return "elasticsearch8" if node["version"].startswith("8.") else "elasticsearch"


def by_text(url: str, index: str) -> dict[str, str]:
    """Return the texts by id, in their own order: ids differ with each run."""
    texts = ((id, source["message"]) for id, source in all_documents(url, index).items())
    return dict(sorted(texts, key=lambda each: each[1]))


def change(url: str, days: list[str]) -> None:
    """Give documents the text of others, with a few more words: in place, and by deleting them."""
    for day in days:
        texts = by_text(url, day)
        ids = [*texts]
        for id, other in zip(ids[:20], ids[60:80], strict=True):
            call(url, "POST", f"/{day}/_update/{id}", {"doc": {"message": f"{texts[other]} more"}})
        lines: list[Any] = []
        for number, id in enumerate(ids[20:40]):
            again = {"message": f"{texts[ids[99]]} {number}"}
            lines += [{"delete": {"_id": id}}, {"create": {"_id": id}}, again]
        answer = call(url, "POST", f"/{day}/_bulk", lines)
        assert not answer["errors"], answer


def change_by_scripts(url: str, name: str) -> None:
    """Change texts by a query and a script; updates by query are all that a stream accepts."""
    ids = [*by_text(url, name)][-60:]
    script = {"source": "ctx._source.message += params.more", "params": {"more": " one two three"}}
    body = {"query": {"ids": {"values": ids}}, "script": script}
    answer = call(url, "POST", f"/{name}/_update_by_query", body)
    assert (answer["updated"], answer["failures"]) == (len(ids), [])


def move(url: str, day: str, to: str) -> None:
    """Change texts by scripts, one by one, and reindex all into a new index."""
    for number, id in enumerate([*by_text(url, day)][100:120]):
        text = {"text": f"a b c d e {number}"}
        script = {"source": "ctx._source.message = params.text", "params": text}
        call(url, "POST", f"/{day}/_update/{id}", {"script": script})
    call(url, "POST", f"/{day}/_refresh")
    moved = {"source": {"index": day}, "dest": {"index": to}}
    answer = call(url, "POST", "/_reindex", moved)
    assert (answer["created"], answer["failures"]) == (documents(url, day), [])
    call(url, "DELETE", f"/{day}")
