"""Splits the time of `esdedup index` and of a query into stages, in one process.

    python -m benchmarks.own.stages [--documents 10000] [--only local] [--url URL]

The default scheme; JSON lines of made-up texts and of the corpora. The texts go through the
product's own functions one after the other, in batches and blocks of the product's sizes, with a
clock between. The documents are compared with those that the product makes. "The rest" is the time
of the whole beyond its stages: accounts of records, ids, documents put together. By the clock; of
each stage, and of the whole, the best round.

A query is the text of an indexed document, asked for by `Index.similar`. Its stages are to sketch
the text and probe, to write the query's tokens, to search, and to verify the candidates.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import esdedup
from benchmarks.lib import corpora, measuring, servers
from benchmarks.lib import texts as made_up
from esdedup.index import Index
from esdedup.ingest.ingest import ingest
from esdedup.models import Encoded, Query
from esdedup.records.documents import NewDocument, encoded, items_of
from esdedup.records.files import BATCH_DOCUMENTS, BadRecord, read_records
from esdedup.search.candidates import candidate_queries
from esdedup.search.similar import jaccard_matches
from esdedup.sketch import sketch as sketching
from esdedup.sketch.kinds.bands import band_hashes, signatures
from esdedup.sketch.kinds.simhash import SimHash, fingerprints
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.stores.elastic.bulk import document_line, line
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.tables import columns_of
from esdedup.text.normalise import normalise
from esdedup.text.shingles import shingle
from esdedup.text.words import tokenise

CHARACTERS = 400
AT_ONCE = 2_000
"""Documents sketched at once (`documents.py`)."""

NAME = "esdedup-benchmark-stages"
SKETCHING = ("normalise", "split", "shingle", "sign", "simhash", "digest", "tokens")
QUERIES = 300
QUERY_STAGES = ("sketch", "tokens", "search", "verify")
STAGES = ("read", *SKETCHING, "serialise", "send")


Stages = dict[str, float]


class Clock:
    """Seconds by stage."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)

    def __call__(self, stage: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do work and add its time to the stage; returns its result."""
        began = time.perf_counter()
        result = work(*arguments)
        self.seconds[stage] += time.perf_counter() - began
        return result


def through_stages(file: Path, index: Index, clock: Clock) -> None:
    """Index a file, stage by stage."""
    meta = index.meta
    items: list[NewDocument] = clock("read", _read, file, meta)
    for first in range(0, len(items), BATCH_DOCUMENTS):
        batch = items[first : first + BATCH_DOCUMENTS]
        documents = [
            document
            for start in range(0, len(batch), AT_ONCE)
            for document in sketched(batch[start : start + AT_ONCE], meta, clock)
        ]
        write(documents, index, clock)


def _read(file: Path, meta: IndexMeta) -> list[NewDocument]:
    return items_of(read_records(str(file)), meta.text_fields, "id")[0]


def sketched(items: list[NewDocument], meta: IndexMeta, clock: Clock) -> list[Encoded]:
    """Documents with their tokens, each step of `sketch` by itself."""
    texts = [item.text for item in items]
    parts = [_block(texts[block], meta.scheme, clock) for block in sketching._blocks(texts)]
    fields = [
        made for part in parts for made in clock("tokens", sketching.token_json, part, meta.scheme)
    ]
    documents = [
        Encoded(item.id, item.record.json or "", {meta.field: tokens})
        for item, tokens in zip(items, fields, strict=True)
    ]
    assert documents[:100] == encoded(items[:100], meta), "other tokens than the product's"
    return documents


def _block(texts: list[str], scheme: Scheme, clock: Clock) -> sketching.Sketches:
    minhash, simhash = scheme.banded, scheme.sketch("simhash")
    assert isinstance(simhash, SimHash)
    normalised = clock("normalise", normalise, texts, scheme.normalisation)
    tokens = clock("split", tokenise, normalised, scheme.shingling, scheme.seed)
    shingles = clock("shingle", shingle, tokens, scheme.shingling.size)
    length = minhash.bands * minhash.rows
    signed = clock("sign", signatures, shingles, length, scheme.seed)
    bands = clock("sign", band_hashes, signed, minhash.bands, minhash.rows, minhash.token_bits)
    features = clock("simhash", shingle, tokens, simhash.feature_size)
    prints = clock("simhash", fingerprints, features, simhash)
    digests = clock("digest", lambda: sketching.text_digests(normalised))
    values = {minhash.name: bands, simhash.name: prints}
    return sketching.Sketches(digests, tokens.counts > 0, values)


def write(documents: list[Encoded], index: Index, clock: Clock) -> None:
    """Serialises, for the clock alone, and writes; what that took beside it was sending."""
    before = clock.seconds["serialise"]
    clock("serialise", serialised, documents, isinstance(index.store, ClusterStore))
    took = clock.seconds["serialise"] - before
    report = clock("send", partial(index.store.write, create=True), documents)
    clock.seconds["send"] -= took
    assert report.created == len(documents), report


def serialised(documents: list[Encoded], cluster: bool) -> list[Any]:
    """The documents as lines of a bulk body, or as rows of a local file."""
    if cluster:
        return [line({"create": {"_id": one.id}}) + document_line(one) for one in documents]
    return [*map(columns_of, documents)]


def whole(file: Path, index: Index, clock: Clock) -> float:
    """Seconds of the product's own ingest."""
    began = time.perf_counter()
    report = ingest(index.store, index.meta, read_records(str(file)), _refuse, id_field="id")
    assert report.created == report.read, report
    return time.perf_counter() - began


def _refuse(record: BadRecord) -> None:
    raise ValueError(record.reason)


def rounds_of(file: Path, fresh: Callable[[], Index], rounds: int) -> tuple[Stages, float]:
    """The best of each stage, and of the whole, over several rounds, each into a new index."""
    clocks, wholes = [], []
    for _ in range(rounds):
        for work in (through_stages, whole):
            clock = Clock()
            with fresh() as index:
                took = work(file, index, clock)
            if took is None:
                clocks.append(clock.seconds)
            else:
                wholes.append(took)
    return {stage: min(clock[stage] for clock in clocks) for stage in STAGES}, min(wholes)


def query_rounds(file: Path, fresh: Callable[[], Index], rounds: int) -> tuple[Stages, float]:
    """The same of QUERIES queries."""
    seconds = {stage: [0.0] * rounds for stage in (*QUERY_STAGES, "the whole")}
    with fresh() as index:
        items = _read(file, index.meta)
        index.add({"id": item.id, "text": item.text} for item in items)
        index.store.refresh()
        texts = [item.text for item in items[:: max(1, len(items) // QUERIES)]][:QUERIES]
        for text in texts:
            index.similar(text)
        for at, text in itertools.product(range(rounds), texts):
            for stage, took in _query(index, text).items():
                seconds[stage][at] += took
    best = {stage: min(found) for stage, found in seconds.items()}
    return {stage: best[stage] for stage in QUERY_STAGES}, best["the whole"]


def _query(index: Index, text: str) -> Stages:
    """Seconds of the stages of a query, and of the whole."""
    meta, store, limits = index.meta, index.store, Limits()
    query, seconds = Query(text), {}
    for _ in range(2):  # The second time counts: the whole comes after it, as warm as the stages.
        at = [time.perf_counter()]
        chosen = limits.chosen(meta.scheme)
        scheme = meta.scheme.only(chosen)
        sketches = sketching.sketch([text], scheme, with_shingles=True, limits=limits)
        at.append(time.perf_counter())
        wanted = candidate_queries(meta, chosen, sketches, [query])
        at.append(time.perf_counter())
        (found,) = store.candidates(wanted, limits.candidates)
        at.append(time.perf_counter())
        assert sketches.shingles is not None
        jaccard_matches(meta, [sketches.shingles[0]], [found.found], limits.least_similarity)
        at.append(time.perf_counter())
        seconds = {
            stage: end - start
            for stage, (start, end) in zip(QUERY_STAGES, itertools.pairwise(at), strict=True)
        }
    began = time.perf_counter()
    index.similar(text)
    return {**seconds, "the whole": time.perf_counter() - began}


def rows_of(
    store: str, kind: dict[str, Any], file: Path, fresh: Callable[[], Index], rounds: int
) -> Iterator[dict[str, Any]]:
    work = {
        store: (rounds_of, kind["documents"]),
        f"{store}, a query": (query_rounds, min(QUERIES, kind["documents"])),
    }
    for name, (of, count) in work.items():
        stages, total = of(file, fresh, rounds)
        parts = {**stages, "the rest": total - sum(stages.values()), "the whole": total}
        for stage, seconds in parts.items():
            yield {
                "store": name,
                **kind,
                "stage": stage,
                "microseconds": round(1e6 * seconds / count, 3),
                "share": round(seconds / total, 4),
            }


def files(documents: int, folder: Path) -> Iterator[tuple[dict[str, Any], Path, dict[str, Any]]]:
    """The kinds of texts, their files, and where they are from."""
    for language in ("english", "chinese"):
        texts = getattr(made_up, language)(documents, CHARACTERS)
        name = f"made-up {language.capitalize()}"
        yield _file(name, texts, folder, {"name": name, "source": "benchmarks/lib/texts.py"})
    for name in ("debian", "chinese"):
        corpus = corpora.corpus(name)
        yield _file(name, corpus.texts()[:documents], folder, corpus.described())


def _file(
    name: str, texts: list[str], folder: Path, described: dict[str, Any]
) -> tuple[dict[str, Any], Path, dict[str, Any]]:
    path = folder / f"{name.replace(' ', '-')}.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            document = {"id": f"d{number}", "text": text}
            file.write(json.dumps(document, ensure_ascii=False) + "\n")
    size = sum(len(text.encode()) for text in texts)
    kind = {"texts": name, "documents": len(texts), "bytes_per_document": size // len(texts)}
    return kind, path, {"documents": len(texts), **described}


def local(folder: Path) -> Callable[[], Index]:
    """Open a new local file each time."""

    def fresh() -> Index:
        path = folder / "stages.db"
        for old in folder.glob("stages.db*"):
            old.unlink()
        index = esdedup.open(path, NAME)
        index.create()
        return index

    return fresh


def cluster(url: str) -> Callable[[], Index]:
    """Open a new index of a cluster each time."""

    def fresh() -> Index:
        index = esdedup.open(url, NAME)
        assert isinstance(index.store, ClusterStore)
        client = index.store.cluster
        client.request("DELETE", f"/{NAME}", allowed=frozenset({404}))
        index.create()
        return index

    return fresh


def tables(document: dict[str, Any]) -> str:
    """The results as Markdown: a table for each store."""
    rows = document["results"]
    parts = []
    for store in dict.fromkeys(row["store"] for row in rows):
        mine = [row for row in rows if row["store"] == store]
        kinds = list(dict.fromkeys((row["texts"], row["bytes_per_document"]) for row in mine))
        heads = " | ".join(f"{name}, {size} bytes" for name, size in kinds)
        lines = [f"| **{store}** | {heads} |", "|---" + "|---:" * len(kinds) + "|"]
        for stage in dict.fromkeys(row["stage"] for row in mine):
            cells = " | ".join(
                f"{row['microseconds']:.1f} ({100 * row['share']:.0f}%)"
                for name, _ in kinds
                for row in mine
                if (row["stage"], row["texts"]) == (stage, name)
            )
            lines.append(f"| {stage} | {cells} |")
        parts.append("\n".join(lines))
    return "Microseconds a document or a query, and their share.\n\n" + "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    servers.add_options(parser)
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("local", "cluster"), help="one of the stores")
    parser.add_argument("--folder", type=Path, help="for the results")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kinds = list(files(options.documents, folder))
        stores: dict[str, Callable[[], Index]] = {}
        versions: dict[str, str] = {}
        if options.only != "cluster":
            stores["local file"] = local(folder)
        if options.only != "local":
            url = stack.enter_context(servers.served(options))
            stores[options.product] = cluster(url)
            with esdedup.open(url, NAME) as index:
                assert isinstance(index.store, ClusterStore)
                versions["server"] = index.store.cluster.product
        for store, fresh in stores.items():
            for kind, file, _ in kinds:
                for row in rows_of(store, kind, file, fresh, options.rounds):
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    measuring.save("stages", rows, [each for _, _, each in kinds], versions, options.folder)


if __name__ == "__main__":
    main()
