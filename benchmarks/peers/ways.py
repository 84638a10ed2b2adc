"""Ways to search that `search.py` measures from here: esdedup's, and a server's own."""

import functools
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import esdedup
from esdedup.models import Document
from esdedup.records.files import SIZES
from esdedup.stores.elastic.store import ClusterStore

THRESHOLDS = (0.5, 0.8)
MOST = 2_000
"""Answers of a query at most: no text of the corpora has so many that are like it."""

INDEX = "esdedup-benchmark-search"
SETTINGS = {"number_of_shards": 1, "number_of_replicas": 0, "store.stats_refresh_interval": "0ms"}
EQUAL = {0.5: (25, 5), 0.8: (9, 13)}
"""The bands and rows that datasketch chooses for a threshold, of 128 permutations."""

BUCKETS = (512, 128)
"""Hashes of `min_hash`: its default, and as many as there are permutations."""

SHARES = (30, 40, 50, 60, 65, 70, 75, 80, 85, 90, 95)
"""Percent of a query's terms that a document must have."""


@dataclass(frozen=True)
class Answer:
    """The rows that a query found; truncated: there were more, and the method says so."""

    rows: list[int]
    truncated: bool


Ask = Callable[[int], Answer]


@dataclass(frozen=True)
class Way:
    """A way to search that is ready: its cost, and a function that finds documents like a row.

    ask: by threshold; the same for all of a way that knows none, nothing for one that only keeps
    the texts. bytes: on disk. tuned: one of several settings, of which the best counts.
    """

    method: str
    setting: str
    seconds: float
    bytes: int
    ask: Mapping[float, Ask]
    tuned: bool = False


def with_esdedup(texts: Sequence[str], target: str | Path, where: str) -> Iterator[Way]:
    """esdedup with its default scheme, and with what datasketch chooses for each threshold.

    target: a folder for files, or a server's address.
    """
    default = esdedup.Scheme()
    shape = f"{default.banded.bands} x {default.banded.rows}"
    schemes: list[tuple[str, esdedup.Scheme, tuple[float, ...]]] = [
        (f"{shape}, the default", default, THRESHOLDS)
    ]
    for threshold, (bands, rows) in EQUAL.items():
        minhash = esdedup.MinHash(128, bands, rows)
        scheme = esdedup.Scheme([minhash])
        schemes.append((f"{bands} x {rows}", scheme, (threshold,)))
    for setting, scheme, thresholds in schemes:
        place = target / f"{scheme.id}.db" if isinstance(target, Path) else target
        with esdedup.open(place, INDEX, scheme=scheme) as index:
            if isinstance(index.store, ClusterStore):
                make(index.store, {})
            began = time.perf_counter()
            index.add({"id": str(row), "text": text} for row, text in enumerate(texts))
            # A local file lists its tokens when it is first asked.
            index.similar(texts[0])
            seconds = time.perf_counter() - began
            if isinstance(index.store, ClusterStore):
                merge(index.store)
            size = index.statistics().bytes
            asks = {each: _similar(index, texts, each) for each in thresholds}
            yield Way(f"esdedup, {where}", setting, seconds, size, asks)


def _similar(index: esdedup.Index, texts: Sequence[str], threshold: float) -> Ask:
    limits = esdedup.Limits(threshold=threshold, k=MOST, candidates=MOST)

    def ask(row: int) -> Answer:
        (result,) = index.similar_many([esdedup.Query(texts[row], str(row))], limits)
        return Answer([int(match.id) for match in result.matches], result.truncated)

    return ask


def with_the_server(texts: Sequence[str], url: str, where: str) -> Iterator[Way]:
    """The server's own ways: `min_hash` and `more_like_this`; and the texts alone."""
    with esdedup.open(url, INDEX, timeout=900.0) as index:
        store = index.store
        assert isinstance(store, ClusterStore)
        seconds, size = filled(store, texts, {"type": "text", "index": False}, {})
        yield Way(f"{where}, the texts alone", "not indexed", seconds, size, {})
        for buckets in BUCKETS:
            field = {"type": "text", "analyzer": "signature", "norms": False}
            field["index_options"] = "docs"
            seconds, size = filled(store, texts, field, _min_hash(buckets))
            method, many = f"{where}, min_hash", f"{buckets} buckets"
            ask = _searched(store, texts, lambda text: {"match": {"text": text}})
            yield _alike(f"{method}, match", many, seconds, size, ask)
            for share in SHARES[1:]:
                ask = _searched(store, texts, functools.partial(more_like, share, buckets))
                setting = f"{many}, {share}%"
                yield _alike(f"{method}, more_like_this", setting, seconds, size, ask)
        seconds, size = filled(store, texts, {"type": "text"}, {})
        for share in SHARES:
            ask = _searched(store, texts, functools.partial(more_like, share, 25))
            yield _alike(f"{where}, more_like_this", f"{share}%", seconds, size, ask)


def _alike(method: str, setting: str, seconds: float, size: int, ask: Ask) -> Way:
    return Way(method, setting, seconds, size, dict.fromkeys(THRESHOLDS, ask), tuned=True)


def _min_hash(buckets: int) -> dict[str, Any]:
    """Its documented use: shingles of words as ours are, the smallest hash of each bucket."""
    three = {"min_shingle_size": 3, "max_shingle_size": 3, "output_unigrams": False}
    smallest = {"bucket_count": buckets, "hash_count": 1, "hash_set_size": 1}
    return {
        "filter": {
            # A text of fewer words is one shingle with us, and its words here.
            "three": {"type": "shingle", **three, "output_unigrams_if_no_shingles": True},
            "smallest": {"type": "min_hash", **smallest, "with_rotation": True},
        },
        "analyzer": {
            "signature": {"tokenizer": "standard", "filter": ["lowercase", "three", "smallest"]}
        },
    }


def more_like(share: int, terms: int, text: str) -> dict[str, Any]:
    """The query for documents that have a share, in percent, of a text's best terms.

    On a field of `min_hash` it is what asks for a share of the hashes: these are all at one
    position, so that `match` takes them for synonyms, and heeds no `minimum_should_match`.
    """
    return {
        "more_like_this": {
            "fields": ["text"],
            "like": text,
            "max_query_terms": terms,
            "min_term_freq": 1,
            "min_doc_freq": 1,
            "minimum_should_match": f"{share}%",
        }
    }


def _searched(
    store: ClusterStore, texts: Sequence[str], query: Callable[[str], dict[str, Any]]
) -> Ask:
    def ask(row: int) -> Answer:
        # One more, because the document itself answers too.
        body: dict[str, Any] = {"size": MOST + 1, "track_total_hits": MOST + 1}
        body |= {"_source": False, "query": query(texts[row])}
        _, answer = store.cluster.request("POST", f"/{INDEX}/_search", body)
        found, total = answer["hits"]["hits"], answer["hits"]["total"]
        rows = [int(hit["_id"]) for hit in found]
        return Answer([each for each in rows if each != row][:MOST], total["relation"] != "eq")

    return ask


def filled(
    store: ClusterStore, texts: Sequence[str], field: dict[str, Any], analysis: dict[str, Any]
) -> tuple[float, int]:
    """Seconds from the first text until all can be found, and bytes on disk."""
    make(store, {"text": field, "id": {"type": "keyword", "index": False}}, analysis)
    began = time.perf_counter()
    documents = (
        Document(str(row), {"id": str(row), "text": text}) for row, text in enumerate(texts)
    )
    while batch := list(itertools.islice(documents, SIZES.documents)):
        if failures := store.write(batch).failures:
            raise SystemExit(f"{INDEX}: {failures[0]}")
    store.refresh()
    seconds = time.perf_counter() - began
    merge(store)
    _, answer = store.cluster.ask("GET", f"/{INDEX}/_stats/store")
    return seconds, answer["_all"]["primaries"]["store"]["size_in_bytes"]


def make(
    store: ClusterStore, fields: dict[str, Any], analysis: dict[str, Any] | None = None
) -> None:
    """An empty index of one shard, in place of the one that was there."""
    remove(store)
    settings = {**SETTINGS, "analysis": analysis} if analysis else SETTINGS
    body = {"settings": {"index": settings}, "mappings": {"properties": fields}}
    store.cluster.ask("PUT", f"/{INDEX}", body)


def remove(store: ClusterStore) -> None:
    store.cluster.ask("DELETE", f"/{INDEX}", allowed=frozenset({404}))


def merge(store: ClusterStore) -> None:
    """One segment, so that sizes and times do not hang on when the server merged last."""
    one = {"max_num_segments": "1"}
    store.cluster.request("POST", f"/{INDEX}/_forcemerge", params=one)
    store.cluster.ask("POST", f"/{INDEX}/_flush", params={"force": "true"})
    store.refresh()
    while True:
        _, answer = store.cluster.ask("GET", f"/{INDEX}/_stats/store,segments")
        if answer["_all"]["primaries"]["segments"]["count"] <= 1:
            return
        time.sleep(0.5)
