"""A file of documents to a file of verified pairs: esdedup beside its peers, each a whole process.

    python -m benchmarks.peers.whole_job [--documents 100000] [--corpora planted,debian]
        [--only JOB,...] [--rounds 3] [--take best|median] [--folder OUT]

Pairs at a Jaccard similarity of 0.8 and above of the sets of three words in a row, in made-up texts
with planted groups (planted.py) and in the package descriptions of Debian. Seconds, processor
seconds and the peak memory of the largest process are those of the whole commands, from start to
end, with the reading of the file and the writing of the pairs. The work before and after
(the texts, the truth, recall, precision) is not counted.

    files          `esdedup pairs FILE`, without an index
    files-2        the same with `--workers 2`
    local          `esdedup index` into a local file, then `esdedup pairs` of that
    local-2        the same with `index --workers 2`
    elasticsearch, opensearch
                   the same with a node that runs already; memory and processor of the client alone
    datasketch     MinHash with xxhash, MinHashLSH with its choice for the threshold
    gaoya, rensa   likewise, with the same bands and rows
    datasketch-equal, gaoya-equal, rensa-equal
                   likewise, with the bands and rows of esdedup's default scheme
    datasketch-unverified
                   candidates as they are
    text-dedup-1, text-dedup-2
                   its command with as many processes, with its faster hash; it makes groups of
                   all that share a bucket, and verifies none. All pairs of a group count.

The peers verify as `inside/peer_whole_job.py` says. Rounds are interleaved. Servers run after the
others.
"""

import argparse
import contextlib
import functools
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import esdedup
from benchmarks.lib import corpora, measuring, servers
from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.planted import planted, true_pairs, with_equal
from benchmarks.lib.scoring import I64, Truth, keys_of
from benchmarks.peers import environments
from esdedup.sketch.sketch import shingle_sets

THRESHOLD = 0.8
INDEX = "esdedup-benchmark-whole-job"
INSIDE = Path(__file__).parent / "inside"
PRODUCTS = ("elasticsearch", "opensearch")
OFFLINE = {
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
}

NAMES = {
    "files": "esdedup, `pairs FILE`",
    "files-2": "esdedup, `pairs FILE --workers 2`",
    "local": "esdedup, local file",
    "local-2": "esdedup, local file, 2 workers",
    "elasticsearch": "esdedup, Elasticsearch (client)",
    "opensearch": "esdedup, OpenSearch (client)",
    "datasketch-unverified": "datasketch, nothing verified",
    "datasketch-equal": "datasketch, esdedup's bands and rows",
    "gaoya-equal": "gaoya, esdedup's bands and rows",
    "rensa-equal": "rensa, esdedup's bands and rows",
    "text-dedup-1": "text-dedup, 1 process, nothing verified",
    "text-dedup-2": "text-dedup, 2 processes, nothing verified",
}


@dataclass(frozen=True)
class Work:
    """The input of a job: the documents, whose ids are their rows, and a folder of its own."""

    documents: Path
    folder: Path
    truth: Truth


Job = Callable[[Work], Figures]


def summed(parts: Mapping[str, Figures]) -> Figures:
    """Several processes, one after the other, as one job."""
    total = {
        "seconds": round(sum(part["seconds"] for part in parts.values()), 2),
        "cpu_seconds": round(sum(part["cpu_seconds"] for part in parts.values()), 2),
        "peak_mb": max(part["peak_mb"] for part in parts.values()),
    }
    each = {f"{name}_{key}": value for name, part in parts.items() for key, value in part.items()}
    return total | each


def scored(work: Work, file: Path) -> Figures:
    """Recall and precision of the pairs in a file."""
    with file.open(encoding="utf-8") as lines:
        rows = np.array([*with_equal(lines)], np.int64).reshape(-1, 2)
    return work.truth.scored(keys_of(rows[:, 0], rows[:, 1], work.truth.count))


def by_esdedup(work: Work, target: tuple[str, ...], more: tuple[str, ...] = ()) -> Figures:
    out = work.folder / "pairs.jsonl"
    indexing = [*ESDEDUP, "index", str(work.documents), *more, *target]
    pairing = [*ESDEDUP, "pairs", "-t", str(THRESHOLD), "--json", *target]
    parts = {"index": run(indexing, work.folder / "out"), "pairs": run(pairing, out)}
    return summed(parts) | {"verified": True} | scored(work, out)


def from_files(work: Work, more: tuple[str, ...] = ()) -> Figures:
    out = work.folder / "pairs.jsonl"
    pairing = [*ESDEDUP, "pairs", str(work.documents), "-t", str(THRESHOLD), "--json", *more]
    return run(pairing, out) | {"verified": True} | scored(work, out)


def locally(work: Work, more: tuple[str, ...] = ()) -> Figures:
    with tempfile.TemporaryDirectory(dir=work.folder) as folder:
        return by_esdedup(work, ("--db", str(Path(folder) / "documents.db")), more)


def on_a_cluster(work: Work, url: str) -> Figures:
    try:
        return by_esdedup(work, ("--url", url, "--index", INDEX))
    finally:
        servers.drop(url, INDEX)


def by_sketches(work: Work, peer: str, shape: str, more: tuple[str, ...] = ()) -> Figures:
    out = work.folder / "pairs.jsonl"
    script = [environments.python_of("sketches"), str(INSIDE / "peer_whole_job.py"), peer]
    asked = [str(work.documents), str(out), str(THRESHOLD), shape, *more]
    figures = run([*script, *asked], work.folder / "out")
    return figures | {"verified": not more, "shape": shape} | scored(work, out)


def by_text_dedup(work: Work, processes: int) -> Figures:
    python, room = environments.python_of("text-dedup"), work.folder / "text-dedup"
    shutil.rmtree(room, ignore_errors=True)
    made = ["--output", str(room / "out"), "--cache_dir", str(room / "cache"), "--debug"]
    source = ["--path", "json", "--data_files", str(work.documents), "--split", "train"]
    # Its own least length would leave out short texts.
    asked = ["--column", "text", "--ngram", "3", "--min_length", "1", "--num_perm", "128"]
    asked += ["--threshold", str(THRESHOLD), "--hash_func", "xxh3", "--hash_bits", "32"]
    command = [python, "-m", "text_dedup.minhash", *source, *asked, *made]
    environment = {**OFFLINE, "HF_HOME": str(room / "home")}
    out, groups = work.folder / "out", work.folder / "groups.npy"
    figures = run([*command, "--num_proc", str(processes)], out, environment)
    script = [python, str(INSIDE / "peer_text_dedup.py"), str(room / "out" / "uf.pkl")]
    run([*script, str(work.truth.count), str(groups)], out, environment)
    found: I64 = np.load(groups)
    return figures | {"verified": False} | work.truth.scored_groups(found)


def shapes() -> tuple[str, str]:
    """Bands and rows that datasketch chooses, and those of esdedup's default scheme."""
    program = f"from datasketch import MinHashLSH as M; i = M({THRESHOLD}, 128); print([i.b, i.r])"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        run([environments.python_of("sketches"), "-c", program], out)
        bands, rows = measuring.last_line(out)
    minhash = esdedup.Scheme().banded
    return f"{bands}x{rows}", f"{minhash.bands}x{minhash.rows}"


def jobs() -> dict[str, Job]:
    """All that need no server."""
    chosen, default = shapes()
    both = ("--workers", "2")
    found: dict[str, Job] = {
        "files": from_files,
        "files-2": functools.partial(from_files, more=both),
        "local": locally,
        "local-2": functools.partial(locally, more=both),
    }
    for peer in ("datasketch", "gaoya", "rensa"):
        found[peer] = functools.partial(by_sketches, peer=peer, shape=chosen)
        found[f"{peer}-equal"] = functools.partial(by_sketches, peer=peer, shape=default)
    found["datasketch-unverified"] = functools.partial(
        by_sketches, peer="datasketch", shape=chosen, more=("--unverified",)
    )
    for processes in (1, 2):
        found[f"text-dedup-{processes}"] = functools.partial(by_text_dedup, processes=processes)
    return found


def rounds(work: Work, chosen: Mapping[str, Job], options: argparse.Namespace) -> list[Figures]:
    """The best or the median round of each job."""
    found: dict[str, list[Figures]] = {name: [] for name in chosen}
    for number in range(options.rounds):
        for name, job in chosen.items():
            figures = job(work)
            print(json.dumps({"round": number, "job": name, **figures}), flush=True)
            found[name].append(figures)
    rows = []
    for name, each in found.items():
        in_order = sorted(each, key=lambda figures: float(figures["seconds"]))
        taken = in_order[0 if options.take == "best" else len(in_order) // 2]
        seconds = [figures["seconds"] for figures in each]
        rows.append({"job": name, **taken, "seconds_of_rounds": seconds})
    return rows


def texts_of(name: str, most: int, file: Path) -> tuple[Truth, Figures]:
    """Write a corpus as a file of documents; returns the truth, and the corpus described."""
    if name == "planted":
        texts, groups = planted(most)
        left, right = np.array(sorted(true_pairs(texts, groups, THRESHOLD))).reshape(-1, 2).T
        keys = keys_of(left, right, len(texts))
        truth = Truth(len(texts), keys, np.full(keys.size, np.nan))
        described: Figures = {"name": name, "source": "benchmarks/lib/planted.py"}
    else:
        corpus = corpora.corpus(name)
        texts = corpus.texts()[:most]
        truth = Truth.of(shingle_sets(texts, esdedup.Scheme()), THRESHOLD)
        described = corpus.described()
    lines = (json.dumps({"id": str(row), "text": text}) + "\n" for row, text in enumerate(texts))
    with file.open("w", encoding="utf-8") as out:
        out.writelines(lines)
    data = file.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return truth, described | {"documents": len(texts), "bytes": len(data), "sha256": digest}


@contextlib.contextmanager
def node(product: str) -> Iterator[str]:
    parser = argparse.ArgumentParser()
    servers.add_options(parser)
    with servers.served(parser.parse_args(["--product", product])) as url:
        yield url


def measure(name: str, options: argparse.Namespace) -> tuple[Figures, Figures]:
    only = set(options.only.split(",")) if options.only else None
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        folder = Path(made)
        truth, described = texts_of(name, options.documents, folder / "documents.jsonl")
        work = Work(folder / "documents.jsonl", folder, truth)
        chosen = {key: job for key, job in jobs().items() if only is None or key in only}
        rows = rounds(work, chosen, options)
        for product in PRODUCTS if only is None else sorted(only & set(PRODUCTS)):
            with node(product) as url:
                job = functools.partial(on_a_cluster, url=url)
                rows += rounds(work, {product: job}, options)
        known: dict[str, Any] = {"corpus": name, "documents": truth.count}
        return known | {
            "true_pairs": len(truth.keys),
            "take": options.take,
            "jobs": rows,
        }, described


def tables(document: Figures) -> str:
    """A table of each corpus; times as long as esdedup takes from the file to pairs."""
    return "\n\n".join(_of_corpus(result) for result in document["results"])


def _of_corpus(result: Figures) -> str:
    ours = next((row["seconds"] for row in result["jobs"] if row["job"] == "files"), None)
    title = (
        f"`{result['corpus']}`, {result['documents']:,} texts, {result['true_pairs']:,} true pairs"
    )
    head = ["seconds", "times as long", "CPU seconds", "peak MB", "pairs", "recall", "precision"]
    lines = [
        f"| {title} | {' | '.join(head)} |",
        f"| --- |{' ---: |' * len(head)}",
        *(_line(row, ours) for row in result["jobs"]),
    ]
    return "\n".join(lines)


def _line(row: Figures, ours: float | None) -> str:
    name = str(NAMES.get(row["job"], row["job"]))
    if "index_seconds" in row:
        name += f": index {row['index_seconds']:.1f} s, pairs {row['pairs_seconds']:.1f} s"
    if "shape" in row:
        name += f" ({row['shape'].replace('x', ' x ')})"
    cells = [name, f"{row['seconds']:.1f}", f"{row['seconds'] / ours:.2f}" if ours else ""]
    cells += [f"{row['cpu_seconds']:.1f}", f"{row['peak_mb']:,.0f}", f"{row['pairs']:,}"]
    cells += [f"{row['recall']:.4f}", f"{row['precision']:.4f}"]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000, help="at most, of each corpus")
    parser.add_argument("--corpora", default="planted,debian")
    parser.add_argument("--only", help="jobs, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--take", choices=("best", "median"), default="best")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    measured = [measure(name, options) for name in options.corpora.split(",")]
    results, described = [each for each, _ in measured], [each for _, each in measured]
    versions = environments.versions_of("sketches") | environments.versions_of("text-dedup")
    print(measuring.save("whole_job", results, described, versions, options.folder))


if __name__ == "__main__":
    main()
