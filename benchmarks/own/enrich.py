"""Measures the cost of `enrich` in a bulk helper: documents a second beside tokens made before.

    python -m benchmarks.own.enrich [--url URL] [--product elasticsearch|opensearch]
        [--documents 20000] [--rounds 7] [--json FILE]

The same actions go through the `helpers.bulk` of the product's own client, with its defaults, in
interleaved rounds, each time into a new index with the token fields mapped:

- plain: documents without tokens.
- precomputed: with the token fields, made before the clock starts.
- enrich: `helpers.bulk(client, enrich(actions))`.

Documents a second by the clock, the median of the rounds; the first round warms up. What enrich
costs is its rate over the precomputed one's: the server does the same work for both. The last
lines say what its parts take alone: to sketch and make the fields (`enrich` in this process with
nobody to send), and the processor time of the client in each way.

The client must be of the server's major version: elasticsearch-py 9 is refused by version 8.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import esdedup
from benchmarks.lib import servers
from benchmarks.lib.texts import CHUNK, Growing
from esdedup.stores.elastic.store import ClusterStore

INDEX = "esdedup-benchmark-enrich"
CHARACTERS = 400

Actions = Callable[[], Iterator[Any]]


def helper_of(product: str, url: str) -> Callable[[Iterator[Any]], int]:
    """Send actions by the helper of the product's client; how many were written."""
    if product.startswith("OpenSearch"):
        import opensearchpy

        opensearch = opensearchpy.OpenSearch(url, timeout=300)
        return lambda actions: int(opensearchpy.helpers.bulk(opensearch, actions)[0])
    import elasticsearch.helpers

    client = elasticsearch.Elasticsearch(url, request_timeout=300)
    return lambda actions: int(elasticsearch.helpers.bulk(client, actions)[0])


def actions_of(documents: list[dict[str, Any]]) -> Actions:
    def actions() -> Iterator[Any]:
        for document in documents:
            yield {"_index": INDEX, "_id": document["id"], "_source": document}

    return actions


def documents_of(count: int) -> list[dict[str, Any]]:
    texts = Growing(CHARACTERS)
    documents = []
    for first in range(0, count, CHUNK):
        for row, text in enumerate(texts.chunk(first // CHUNK)):
            documents.append({"id": f"d{first + row}", "text": text})
    return documents[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    servers.add_options(parser)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, help="a file to write the raw figures to")
    options = parser.parse_args()
    documents = documents_of(options.documents)
    plain = actions_of(documents)
    enriched = [action["_source"] for action in esdedup.enrich(plain())]
    ways: dict[str, Actions] = {
        "plain": plain,
        "precomputed": actions_of(enriched),
        "enrich": lambda: esdedup.enrich(plain()),
    }
    rates: dict[str, list[float]] = collections.defaultdict(list)
    processor: dict[str, list[float]] = collections.defaultdict(list)
    # The documents kept here for the rounds are not those of a client, whose collector of garbage
    # would not go through them.
    gc.collect()
    gc.freeze()
    with servers.served(options) as url, esdedup.open(url, INDEX) as index:
        assert isinstance(index.store, ClusterStore)
        ask = index.store.cluster.client.request
        product = index.store.cluster.client.product
        send = helper_of(product, url)
        names = list(ways)
        for round_number in range(options.rounds + 1):
            for name in names:
                ask("DELETE", f"/{INDEX}", allowed=frozenset({404}))
                index.create()
                began, processor_began = time.perf_counter(), time.process_time()
                written = send(ways[name]())
                elapsed = time.perf_counter() - began
                assert written == len(documents), written
                if round_number:
                    rates[name].append(written / elapsed)
                    processor[name].append(time.process_time() - processor_began)
            # Each is the first of a round as often as the others.
            names.append(names.pop(0))
        ask("DELETE", f"/{INDEX}")
    alone = []
    for _ in range(options.rounds):
        began = time.perf_counter()
        collections.deque(ways["enrich"](), maxlen=0)
        alone.append(time.perf_counter() - began)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    print(f"{product}, {len(documents):,} documents, {options.rounds} rounds")
    print(
        f"{'':14}{'docs a second':>14}{'lowest':>9}{'highest':>9}{'client CPU, us a document':>27}"
    )
    for name in ways:
        each = 1e6 * statistics.median(processor[name]) / len(documents)
        print(
            f"{name:14}{medians[name]:14,.0f}{min(rates[name]):9,.0f}{max(rates[name]):9,.0f}"
            f"{each:27.1f}"
        )
    each = 1e6 * statistics.median(alone) / len(documents)
    print(f"enrich alone, without sending: {each:.1f} us a document")
    ratio = medians["enrich"] / medians["precomputed"]
    pairs = zip(rates["enrich"], rates["precomputed"], strict=True)
    by_round = statistics.median(one / other for one, other in pairs)
    print(f"enrich / precomputed: {ratio:.3f} (median of the rounds' own ratios {by_round:.3f})")
    if options.json is not None:
        raw = {"product": product, "rates": rates, "processor": processor, "alone": alone}
        options.json.write_text(json.dumps(raw, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
