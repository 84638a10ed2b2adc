"""The requests that commands send, held against the table of what-is-promised.md."""

import json
import re
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.commands import call, esdedup_command, fill, run_command, words, write_lines
from tests.servers.proxy import Proxy, Received

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "what-is-promised.md"
ROW = re.compile(r"^\| `([a-z].*?)`.*? \| (\d+) \| ([\d.]+) \|$", re.MULTILINE)
THOUSANDS = 2


@pytest.fixture
def url(elasticsearch_url: str) -> str:
    return elasticsearch_url


def test_requests_are_at_most_those_of_the_table(url: str, name: str) -> None:
    received: list[Received] = []
    with Proxy(url) as proxy:
        # All but the first one of each connection, which asks for the version.
        proxy.on_request = partial(note, received)
        sent = requests_of_commands(url, name, proxy, received)
    # Servers compile patterns of a body for each document or query; parameters have none.
    assert not [
        request.path
        for request in received
        if request.path.endswith(("_mget", "_msearch")) and b"esdedup*" in request.body
    ]
    table = {what: (int(base), float(each)) for what, base, each in ROW.findall(PAGE.read_text())}
    assert table.keys() == sent.keys()
    most = {what: base + each * THOUSANDS for what, (base, each) in table.items()}
    assert not {what: n for what, n in sent.items() if n > most[what]}, json.dumps(sent)


def note(received: list[Received], request: Received) -> None:
    if request.path != "/":
        received.append(request)


def requests_of_commands(
    url: str, name: str, proxy: Proxy, received: list[Received]
) -> dict[str, int]:
    """Run the commands of the table, and return the number of requests of each."""
    texts = {f"d{n}": {"text": words(n // 2, 30)} for n in range(1_000 * THOUSANDS)}
    write_lines(Path("f.jsonl"), [{"id": id, **source} for id, source in texts.items()])
    # Behind an alias of two indices, documents are found by searches.
    for part in ("a", "b"):
        call(url, "PUT", f"/{name}-{part}", {"aliases": {f"{name}-both": {}}})
    half = len(texts) // 2
    fill(url, f"{name}-a", dict([*texts.items()][:half]))
    fill(url, f"{name}-b", dict([*texts.items()][half:]))
    both = f"-i {name}-both"
    esdedup_command(url, *f"attach {both}".split(), status=0)
    run_command("scheme", "--threshold", "0.7", "-o", "new.json", "--db", "none.db", status=0)
    commands = {
        "index": f"index f.jsonl -i {name}",
        "pairs": f"pairs -i {name}",
        "similar --batch": f"similar --batch f.jsonl -i {name}",
        "group": f"group -i {name}",
        "dedup": f"dedup -i {name} --apply --action delete --yes --log one.zst",
        "undo": f"undo one.zst -i {name} --yes",
        "backfill": f"backfill {both}",
        "check": f"check {both}",
        "report": f"report {both} -o report.html",
        "dedup of an alias": f"dedup {both} --apply --action delete --yes --log two.zst",
        "switch": f"switch {both} --scheme new.json",
    }
    sent = {}
    for what, command in commands.items():
        before = len(received)
        esdedup_command(proxy.url, *command.split(), status=0)
        sent[what] = len(received) - before
    return sent
