"""Two shapes of the recall query, side by side: plain `terms`, and ranked by matching tokens.

    python benchmarks/recall_query.py --url http://localhost:9200 [--documents 100000]

Made-up texts, a tenth of them lightly edited copies, are indexed with the default scheme. The same
200 queries are then sent in both shapes, alone and 50 to an `_msearch`, in interleaved rounds; for
MinHash tokens (23 terms) and for SimHash segments within distance 7 (68 terms). Milliseconds a
query by the client's clock; the first round warms up. The index is deleted at the end.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import texts as made_up

import esdedup
from esdedup.models import FIELD, Query, RecallQuery
from esdedup.search.recall import band_queries, segment_queries
from esdedup.sketch.sketch import sketch
from esdedup.stores.elastic.client import line
from esdedup.stores.elastic.queries import recall_body
from esdedup.stores.elastic.store import ClusterStore

LIMIT = 100
Shape = Callable[[RecallQuery], dict[str, Any]]


def ranked(query: RecallQuery) -> dict[str, Any]:
    return recall_body(query, LIMIT)


def plain(query: RecallQuery) -> dict[str, Any]:
    tokens = [token for group in query.groups for token in group]
    return {**ranked(query), "query": {"terms": {f"{FIELD}.{query.kind}": tokens}}}


def edited_copies(texts: list[str]) -> list[str]:
    """The texts, every tenth replaced by an edited copy of the one before it."""
    rng = np.random.default_rng(5)
    for row in range(10, len(texts), 10):
        words = texts[row - 1].split()
        for at in rng.integers(0, len(words), 4).tolist():
            words[at] = "edited"
        texts[row] = " ".join(words)
    return texts


def measure(
    store: ClusterStore, queries: list[RecallQuery], shapes: dict[str, Shape], together: int
) -> dict[str, list[float]]:
    """Milliseconds of each query, or of each query's share of an _msearch."""
    times: dict[str, list[float]] = {name: [] for name in shapes}
    for round_number in range(3):
        for first in range(0, len(queries), together):
            some = queries[first : first + together]
            for name, shape in shapes.items():
                body = b"".join(line({}) + line(shape(query)) for query in some)
                start = time.perf_counter()
                store.cluster.client.request("POST", f"{store._path}/_msearch", body)
                if round_number:
                    times[name].append(1e3 * (time.perf_counter() - start) / len(some))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--documents", type=int, default=100_000)
    options = parser.parse_args()
    texts = edited_copies(made_up.english(options.documents, 400))
    scheme = esdedup.Scheme()
    with esdedup.open(options.url, "esdedup-benchmark-recall") as index:
        store = index.store
        assert isinstance(store, ClusterStore)
        index.add({"id": str(row), "text": text} for row, text in enumerate(texts))
        store.cluster.client.request(
            "POST", f"{store._path}/_forcemerge", params={"max_num_segments": "1"}
        )
        chosen = [Query(texts[row]) for row in range(9, 2_000, 10)]
        sketches = sketch([query.text for query in chosen], scheme)
        assert sketches.bands is not None
        assert sketches.fingerprints is not None
        assert scheme.simhash is not None
        kinds = {
            "MinHash": band_queries(index.meta, sketches.bands, chosen),
            "SimHash k=7": segment_queries(index.meta, sketches.fingerprints, chosen, 7),
        }
        print(
            f"{store.cluster.client.product}, {options.documents:,} documents, {LIMIT} hits at most"
        )
        for kind, queries in kinds.items():
            for together in (1, 50):
                found = measure(store, queries, {"terms": plain, "ranked": ranked}, together)
                for name, times in found.items():
                    times.sort()
                    print(
                        f"{kind:12} {together:3} a request  {name:7}"
                        f" median {statistics.median(times):6.2f} ms"
                        f"  p99 {times[int(0.99 * len(times))]:6.2f} ms"
                    )
        store.cluster.client.request("DELETE", store._path)


if __name__ == "__main__":
    main()
