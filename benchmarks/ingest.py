"""What indexing costs the client's own process: tokens beside serialising and sending.

    python benchmarks/ingest.py --url http://localhost:9200 [--documents 10000] [--characters 400]

The same documents go, in interleaved rounds, through the parts of `esdedup index`: sketching and
making token fields; and writing (serialise, send, read the answers), with token fields and
without. Seconds of the process's CPU, the best round of each; the index is made anew each time.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable
from typing import Any

import texts as made_up

import esdedup
from esdedup.datatypes import FIELD, Document
from esdedup.documents import with_tokens
from esdedup.schema import IndexMeta
from esdedup.stores.cluster import ClusterStore


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--language", choices=("english", "chinese"), default="english")
    options = parser.parse_args()
    meta = IndexMeta(esdedup.Scheme())
    texts = getattr(made_up, options.language)(options.documents, options.characters)
    plain = [Document(f"d{i}", {"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    best: dict[str, float] = {}
    rate: dict[str, float] = {}
    with esdedup.open(options.url, "esdedup-benchmark-ingest") as index:
        assert isinstance(index.store, ClusterStore)
        for _ in range(options.rounds):
            seconds, enriched = cpu(lambda: with_tokens(plain, meta))
            note(best, "tokens: sketch and fields", seconds)
            for name, documents in (("plain", plain), ("with token fields", enriched)):
                index.create()
                began = time.perf_counter()
                seconds, report = cpu(functools.partial(index.store.write, documents))
                elapsed = time.perf_counter() - began
                assert report.created == len(documents), report
                note(best, f"write {name}: serialise, send, read answers", seconds)
                note(rate, f"write {name}: seconds by the clock", elapsed)
                index.store.cluster.client.request("DELETE", f"/{index.store._index}")
    size = sum(len(json.dumps(d.source[FIELD])) for d in enriched) / len(enriched)
    print(f"{len(texts):,} {options.language} documents, {size:.0f} bytes of token fields each")
    for name, seconds in (*best.items(), *rate.items()):
        print(f"{name:52}{seconds:8.3f} s{1e6 * seconds / len(texts):9.1f} us a document")


def note(best: dict[str, float], name: str, seconds: float) -> None:
    best[name] = min(best.get(name, seconds), seconds)


if __name__ == "__main__":
    main()
