"""The page of benchmarks shows the results that are kept, and the benchmarks of the proxy run."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import esdedup
from benchmarks.lib import families
from benchmarks.own import proxy, soak, templates
from tests.helpers.packages import imported
from tests.servers.provide import refusing

ROOT = Path(__file__).parents[2]


def test_the_page_shows_what_the_results_say() -> None:
    # It imports all benchmarks.
    imported("imagehash")
    command = [sys.executable, "-m", "benchmarks.page", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_soak_sees_what_is_lost_and_what_has_no_tokens(elasticsearch_url: str) -> None:
    url, name = elasticsearch_url, soak.index_of(0)
    httpx.delete(f"{url}/{name}")
    ledger = soak.Ledger()
    writing = soak.Writing([url], ["some words of a text"], itertools.count(), ledger)
    documents = [writing.document(number) for number in range(5)]
    made: list[Any] = [
        each["_source"] for each in esdedup.enrich({"_source": document} for document in documents)
    ]
    with esdedup.open(url, name) as index:
        index.create()
    written = [made[0], documents[1], made[0], made[3]]
    for number, document in enumerate(written):
        httpx.put(f"{url}/{name}/_doc/{number}", json=document).raise_for_status()
    ledger.acknowledge(name, range(5))
    found = soak.check(url, writing, name)
    assert {key: found[key] for key in ("acknowledged", *soak.CHECKED)} == {
        "acknowledged": 5,
        "there": 4,
        "lost": 1,
        "without_tokens": 1,
        # One without them, and one with those of another text.
        "wrong_tokens": 2,
    }
    assert found["examples"] == [1, 4]
    httpx.delete(f"{url}/{name}")


def test_documents_kept_and_copies_found_are_counted() -> None:
    texts = families.Labelled([""] * 6, [0, 0, 1, 1, 2, 3], ["a"] * 6, [""] * 6)
    assert templates.scored(texts, [0, 0, 2, 2, 4, 5]) == {"kept": 1.0, "found": 1.0, "false": 1}
    assert templates.scored(texts, [0, 1, 2, 3, 4, 5]) == {"kept": 1.0, "found": 0.0, "false": 1}
    assert templates.scored(texts, [0] * 6) == {"kept": 0.25, "found": 1.0, "false": 4}
    assert templates.scored(texts, [0, 1, 1, 1, 4, 4]) == {"kept": 0.5, "found": 0.5, "false": 2}


@pytest.mark.nightly
def test_the_benchmark_of_the_proxy(elasticsearch_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.own.proxy", "--url", elasticsearch_url]
    command += ["--documents", "1000", "--rounds", "1", "--clients", "python,python-parallel"]
    done = subprocess.run(
        [*command, "--folder", str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    table = proxy.tables(json.loads((tmp_path / "proxy.json").read_text("utf-8")))
    assert len(table.splitlines()) == 2 + 2 * len(proxy.WAYS)


@pytest.mark.nightly
def test_a_short_soak_loses_nothing(tmp_path: Path) -> None:
    arguments = ["--minutes", "0.5", "--days", "3", "--heap", "512m", "--folder", str(tmp_path)]
    with refusing():
        soak.main(arguments)
    document = json.loads((tmp_path / "soak.json").read_text("utf-8"))
    assert document["results"]["acknowledged"] > 0
    assert not soak.bad(document["results"])
    assert "node-2 by SIGKILL" in soak.tables(document)
