"""Shards of documents to shards without duplicates: esdedup beside its peers, whole processes.

    python -m benchmarks.peers.corpus [--documents 100000] [--rounds 3] [--only JOB,...]
        [--language english|chinese] [--name corpus] [--folder OUT]

Made-up texts with planted groups (planted.py), or Chinese ones, in four files of JSON lines.
Duplicates are at a Jaccard similarity of 0.8 and above of the sets of three words in a row; a
Chinese character is a word. Lost: removed documents that no document that stays resembles so much.
Left: documents that stay and resemble an earlier one that stays.

    esdedup, esdedup-2   `esdedup clean SHARDS -o OUT`, with 1 and 2 workers
    text-dedup           its command of MinHash with 2 processes, which writes one dataset of Arrow
    datatrove            its pipeline of MinHash with 2 processes: signatures, buckets, cluster,
                         filter
    semhash              its deduplication by embeddings: static vectors of 256 numbers a word
                         (wordllama), whose mean is compared by cosine similarity, from 0.9 on

The bands of the others are as wide: 25 of 6 rows, which let a pair at 0.8 share one with a
probability of 0.9995. Only esdedup verifies candidates. Seconds, processor seconds and the peak
memory of the largest process are those of the whole command.
"""

import argparse
import functools
import json
import shutil
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from benchmarks.lib import measuring
from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.planted import planted
from benchmarks.lib.texts import chinese
from benchmarks.peers import environments
from benchmarks.peers.whole_job import OFFLINE, THRESHOLD
from esdedup import Scheme
from esdedup.sketch.sketch import shingle_sets

INSIDE = Path(__file__).parent / "inside" / "peer_corpus.py"
SHARDS = 4
LANGUAGES = {"english": "eng_Latn", "chinese": "cmn_Hani"}
"""The languages for which datatrove splits texts into words."""
NAMES = {
    "esdedup": "esdedup",
    "esdedup-2": "esdedup, 2 workers",
    "text-dedup": "text-dedup, 2 processes",
    "datatrove": "datatrove, 2 processes",
    "semhash": "SemHash, by embeddings",
}

Job = Callable[[Path, Path], Figures]
"""Clean the shards of a folder into another, and return the figures."""


def by_esdedup(shards: Path, out: Path, workers: int) -> Figures:
    command = [*ESDEDUP, "clean", str(shards), "-o", str(out), "--workers", str(workers)]
    return run([*command, "-t", str(THRESHOLD)], out.with_name("said"))


def by_text_dedup(shards: Path, out: Path) -> Figures:
    python, room = environments.python_of("text-dedup"), out.with_name("text-dedup")
    shutil.rmtree(room, ignore_errors=True)
    source = ["--path", "json", "--data_files", f"{shards}/*.jsonl", "--split", "train"]
    asked = ["--column", "text", "--ngram", "3", "--min_length", "1", "--num_perm", "150"]
    asked += ["--b", "25", "--r", "6", "--hash_func", "xxh3", "--hash_bits", "32"]
    made = ["--output", str(out), "--cache_dir", str(room / "cache"), "--num_proc", "2"]
    command = [python, "-m", "text_dedup.minhash", *source, *asked, *made]
    environment = {**OFFLINE, "HF_HOME": str(room / "home")}
    figures = run(command, out.with_name("said"), environment)
    read = [python, str(INSIDE), "read-text-dedup", str(out), str(out / "kept.txt")]
    run(read, out.with_name("said"), environment)
    return figures


def by_datatrove(shards: Path, out: Path, language: str) -> Figures:
    command = [environments.python_of("datatrove"), str(INSIDE), "datatrove"]
    return run([*command, str(shards), str(out), "2", language], out.with_name("said"))


def by_semhash(shards: Path, out: Path) -> Figures:
    command = [environments.python_of("semhash"), str(INSIDE), "semhash", str(shards), str(out)]
    return run(command, out.with_name("said"), OFFLINE)


def jobs(language: str) -> dict[str, Job]:
    """Return the jobs by name."""
    return {
        "esdedup": functools.partial(by_esdedup, workers=1),
        "esdedup-2": functools.partial(by_esdedup, workers=2),
        "text-dedup": by_text_dedup,
        "datatrove": functools.partial(by_datatrove, language=LANGUAGES[language]),
        "semhash": by_semhash,
    }


def kept_in(out: Path) -> set[int]:
    """Return the ids of the documents that stay."""
    if (file := out / "kept.txt").exists():
        return {*map(int, file.read_text("utf-8").split())}
    shards = [each for each in out.iterdir() if each.suffix == ".jsonl"]
    return {int(json.loads(line)["id"]) for each in shards for line in each.open(encoding="utf-8")}


def neighbours(texts: Sequence[str], groups: Sequence[int]) -> dict[int, set[int]]:
    """Return the documents that each one resembles at the threshold, within its group."""
    members: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    found: dict[int, set[int]] = defaultdict(set)
    for rows in (each for each in members.values() if len(each) > 1):
        sets = [{*each.tolist()} for each in shingle_sets([texts[row] for row in rows], Scheme())]
        for at, one in enumerate(rows):
            for other_at, other in enumerate(rows[:at]):
                shared = len(sets[at] & sets[other_at])
                whole = len(sets[at]) + len(sets[other_at]) - shared
                if shared >= THRESHOLD * whole:
                    found[one].add(other)
                    found[other].add(one)
    return found


def chinese_groups(documents: int) -> tuple[list[str], list[int]]:
    """Return Chinese texts, of which each tenth is a copy of another with some characters new."""
    texts, rng = chinese(documents, 130), np.random.default_rng(3)
    groups = [*range(documents)]
    for row in range(9, documents, 10):
        original = int(rng.integers(0, row))
        characters = [*texts[original]]
        for at in rng.integers(0, len(characters), rng.integers(0, 6)).tolist():
            characters[at] = chr(0x4E00 + int(rng.integers(0x3000)))
        texts[row], groups[row] = "".join(characters), groups[original]
    return texts, groups


def measure(options: argparse.Namespace) -> Iterator[Figures]:
    """Yield the medians of each job."""
    make = planted if options.language == "english" else chinese_groups
    texts, groups = make(options.documents)
    near = neighbours(texts, groups)
    only = options.only.split(",") if options.only else [*NAMES]
    found: dict[str, list[Figures]] = {name: [] for name in jobs(options.language) if name in only}
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        shards = Path(made) / "shards"
        shards.mkdir()
        for shard in range(SHARDS):
            rows = range(shard * len(texts) // SHARDS, (shard + 1) * len(texts) // SHARDS)
            lines = (json.dumps({"id": str(n), "text": texts[n]}, ensure_ascii=False) for n in rows)
            (shards / f"{shard}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        for number in range(options.rounds):
            for name in found:
                with tempfile.TemporaryDirectory(dir=made) as room:
                    figures = jobs(options.language)[name](shards, Path(room) / "out")
                    kept = kept_in(Path(room) / "out")
                removed = {*range(len(texts))} - kept
                figures["removed"] = len(removed)
                figures["lost"] = sum(not near[row] & kept for row in removed)
                earlier = (any(each < row for each in near[row] & kept) for row in kept)
                figures["left"] = sum(earlier)
                print(json.dumps({"round": number, "job": name, **figures}), flush=True)
                found[name].append(figures)
    for name, each in found.items():
        median = {key: statistics.median(one[key] for one in each) for key in each[0]}
        yield {"job": name, **median, "seconds_of_rounds": [one["seconds"] for one in each]}


def tables(document: Figures) -> str:
    """Return the table of all jobs."""
    (corpus,) = document["corpora"]
    title = f"{corpus['documents']:,} documents, {corpus['language']}"
    head = ["seconds", "CPU seconds", "peak MB", "removed", "lost", "left"]
    lines = [f"| {title} | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for row in document["results"]:
        cells = [f"{row['seconds']:.1f}"]
        for key in ("cpu_seconds", "peak_mb", "removed", "lost", "left"):
            cells.append(f"{row[key]:,.{int(key == 'cpu_seconds')}f}" if key in row else "–")
        lines.append(f"| {NAMES[row['job']]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="jobs, with commas between")
    parser.add_argument("--language", choices=[*LANGUAGES], default="english")
    parser.add_argument("--name", default="corpus", help="of the results")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results = [*measure(options)]
    versions = environments.versions_of("text-dedup") | environments.versions_of("semhash")
    versions["datatrove"] = environments.versions_of("datatrove")["datatrove"]
    described = [{"documents": options.documents, "language": options.language}]
    print(measuring.save(options.name, results, described, versions, options.folder))


if __name__ == "__main__":
    main()
