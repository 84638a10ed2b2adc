"""The requests that commands send, held against the table of what-is-promised.md."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from esdedup.stores import Cluster
from tests.helpers.commands import call, esdedup_command, fill, run_command, words, write_lines

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "what-is-promised.md"
ROW = re.compile(r"^\| `([a-z].*?)`.*? \| (\d+) \| ([\d.]+) \|$", re.MULTILINE)
THOUSANDS = 2


@pytest.fixture
def url(elasticsearch_url: str) -> str:
    return elasticsearch_url


def test_requests_are_at_most_those_of_the_table(
    url: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    send = Cluster.request

    def counted(self: Cluster, method: str, path: str, *others: Any, **options: Any) -> Any:
        asked.append(f"{method} {path}")
        # Servers compile patterns of a body for each document or query; parameters follow it.
        assert not (path.endswith(("_mget", "_msearch")) and "esdedup*" in str(others[:1])), path
        return send(self, method, path, *others, **options)

    monkeypatch.setattr(Cluster, "request", counted)
    texts = {f"d{n}": {"text": words(n // 2, 30)} for n in range(1_000 * THOUSANDS)}
    write_lines(Path("f.jsonl"), [{"id": id, **source} for id, source in texts.items()])
    # Behind an alias of two indices, documents are found by searches.
    for part in ("a", "b"):
        call(url, "PUT", f"/{name}-{part}", {"aliases": {f"{name}-both": {}}})
    half = len(texts) // 2
    fill(url, f"{name}-a", dict([*texts.items()][:half]))
    fill(url, f"{name}-b", dict([*texts.items()][half:]))
    both = f"-i {name}-both"
    assert esdedup_command(url, *f"attach {both}".split()).status == 0
    new = run_command("scheme", "--threshold", "0.7", "-o", "new.json", "--db", "none.db")
    assert new.status == 0, new.err
    table = {what: (int(base), float(each)) for what, base, each in ROW.findall(PAGE.read_text())}
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
    assert table.keys() == commands.keys()
    sent = {}
    for what, command in commands.items():
        asked.clear()
        ran = esdedup_command(url, *command.split())
        assert ran.status == 0, ran.err
        sent[what] = len(asked)
    most = {what: base + each * THOUSANDS for what, (base, each) in table.items()}
    assert not {what: n for what, n in sent.items() if n > most[what]}, json.dumps(sent)
