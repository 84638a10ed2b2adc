"""Seconds of the pages of `esdedup review` over a large local file.

    python -m benchmarks.own.review [--documents 1000000] [--rounds 5] [--folder OUT]

Made-up texts with planted groups of near-duplicates, see benchmarks/lib/planted.py. The client is
on the same machine and keeps one connection. The time of a page ends with its last byte.
"""

import argparse
import json
import re
import statistics
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.lib import measuring
from benchmarks.lib.measuring import Figures
from benchmarks.lib.planted_index import planted_index
from benchmarks.lib.processes import resident_mb

WORKING = ("/", "/groups", "/document?id=0")
READY = (
    "/",
    "/search?id=0",
    "/groups",
    "/groups?page={last}",
    "/group?id={largest}",
    "/compare?left={largest}&right=0",
    "/judge",
    "/threshold",
    "/decide",
    "/decide?keep=longest",
    "/search?words={words}",
)
"""Pages when groups are found and pairs to judge are drawn."""
MOST_SECONDS = 600.0


class Visitor:
    """Asks for pages of a program that listens, and times them."""

    def __init__(self, address: str) -> None:
        self._client = httpx.Client(timeout=60, follow_redirects=True)
        self._client.base_url = self._client.get(address).url

    def page(self, path: str) -> tuple[float, str]:
        """The seconds and the text of a page."""
        began = time.perf_counter()
        text = self._client.get(path).raise_for_status().text
        return time.perf_counter() - began, text

    def until(self, path: str, text: str, seconds: dict[str, list[float]]) -> float:
        """Ask for pages until one of them shows a text; returns the seconds that this took."""
        began = time.perf_counter()
        while text not in self.page(path)[1]:
            assert time.perf_counter() - began < MOST_SECONDS, path
            for each, found in seconds.items():
                found.append(self.page(each)[0])
        return time.perf_counter() - began


def measure(db: Path, options: argparse.Namespace) -> Figures:
    from tests.review.reviewing import Reviewing

    with Reviewing(db.parent, "--db", str(db), "--write") as app:
        began = time.perf_counter()
        visitor = Visitor(app.url)
        first = time.perf_counter() - began
        working: dict[str, list[float]] = {path: [] for path in WORKING}
        searched = visitor.until("/search?id=0", 'id="results"', {})
        found = visitor.until("/groups", "Least similar", working)
        drawn = visitor.until("/judge", 'data-key="d"', {})
        with (db.parent / "documents.jsonl").open(encoding="utf-8") as lines:
            word = max(json.loads(next(lines))["text"].split(), key=len)
        words = f"/search?words={word}"
        first_words = visitor.page(words)[0]
        read = first_words + visitor.until(words, 'id="with-words"', {})
        groups = visitor.page("/groups")[1]
        named = {
            "largest": re.findall(r'href="/[^"]*/group\?id=(\d+)"', groups)[0],
            "words": word,
            "last": re.findall(r"Page 1 of ([\d,]+)", groups)[0].replace(",", ""),
        }
        ready = {
            path: [visitor.page(path.format(**named))[0] for _ in range(options.rounds)]
            for path in READY
        }
        memory = resident_mb(app.pid)
    return {
        "documents": options.documents,
        "first": round(first, 4),
        "search_seconds": round(searched, 1),
        "groups_seconds": round(found, 1),
        "pairs_seconds": round(drawn, 1),
        "words_first": round(first_words, 4),
        "words_seconds": round(read, 1),
        "resident_mb": round(memory),
        "working": {path: spread(seconds) for path, seconds in working.items()},
        "ready": {path: spread(seconds) for path, seconds in ready.items()},
    }


def spread(seconds: list[float]) -> Figures:
    return {
        "pages": len(seconds),
        "median": round(statistics.median(seconds), 4),
        "worst": round(max(seconds), 4),
    }


def tables(document: dict[str, Any]) -> str:
    """Milliseconds of each page."""
    found = document["results"]
    lines = ["| page | when | times | median ms | worst ms |", "| --- | --- | ---: | ---: | ---: |"]
    first = {"pages": 1, "median": found["first"], "worst": found["first"]}
    parts = {
        "just started": {"/": first},
        "groups are being found": found["working"],
        "ready": found["ready"],
    }
    for when, pages in parts.items():
        for path, each in pages.items():
            times = f"{each['pages']:,} | {each['median'] * 1e3:.0f} | {each['worst'] * 1e3:.0f}"
            lines.append(f"| `{path}` | {when} | {times} |")
    told = (
        f"{found['documents']:,} documents. After the start, the first search was ready in"
        f" {found['search_seconds']:.0f} s, groups {found['groups_seconds']:.0f} s later, pairs to"
        f" judge {found['pairs_seconds']:.0f} s after these; then {found['resident_mb']} MB were"
        " resident."
    )
    if "words_first" in found:
        told += (
            f" The first search for words showed its progress after {found['words_first']:.1f} s,"
            f" and all texts were read in {found['words_seconds']:.0f} s."
        )
    return "\n".join([told, "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    with planted_index(options.documents) as db:
        results = measure(db, options)
    described = [{"name": "texts", "source": "benchmarks/lib/planted.py"}]
    print(measuring.save("review", results, described, folder=options.folder))


if __name__ == "__main__":
    main()
