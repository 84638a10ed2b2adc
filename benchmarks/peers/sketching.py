"""Raw text to band tokens, on one core: esdedup beside every peer; and how well each estimates.

    python -m benchmarks.peers.sketching [--documents 10000] [--processes 3] [--only speed]

Texts are made up, short and long, English and Chinese. Paragraphs of about 150 bytes are real, in
seven languages (corpora.py), and made up in Arabic. Word 5-shingles, bands of 4 rows, folded to
lower case. A job runs in a process of its own, several times there; processes of all jobs take
turns, and the best counts: on a shared machine the best is closest to the cost of the code. Peers
run in environments of their own (peers.py, inside/peer_sketches.py, inside/peer_estimates.py).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lib import corpora, measuring
from benchmarks.lib import texts as made_up
from benchmarks.peers import environments
from esdedup.sketch.kinds.bands import estimate_jaccard, signatures
from esdedup.text.arrays import Ragged, offsets_of
from esdedup.text.hashing import xxh3
from esdedup.text.shingles import shingle

INSIDE = Path(__file__).parent / "inside"
LENGTHS = {"short": 400, "long": 4_000}
LANGUAGES = ("english", "chinese")
PARAGRAPHS = (*corpora.PARAGRAPHS, "chinese", "arabic")
UNSPACED = ("chinese", "japanese")
PERMUTATIONS, ROWS = (128, 256), 4

OURS = ("esdedup", "esdedup, all its fields")
SKETCHES = (
    "gaoya, with its buckets",
    "rensa R-MinHash",
    "rensa R-MinHash, with its buckets",
    "rensa C-MinHash",
    "rensa rho (samples), with its buckets",
    "datasketch xxhash",
    "datasketch xxhash, keys cut by us",
    "datasketch sha1",
)
TEXT_DEDUP = ("text-dedup xxh3", "text-dedup sha1")
PARAGRAPH_JOBS = (
    *OURS,
    "gaoya, with its buckets",
    "rensa R-MinHash",
    "rensa R-MinHash, with its buckets",
    "datasketch xxhash, keys cut by us",
)
FINGERPRINTS = ("esdedup fingerprints", "simhash md5", "simhash xxhash")
ESTIMATES = {
    "datasketch": "sketches",
    "rensa R-MinHash": "sketches",
    "rensa C-MinHash": "sketches",
    "rensa rho (samples)": "sketches",
    "gaoya": "sketches",
    "text-dedup": "text-dedup",
}

SIMILARITIES = (0.1, 0.3, 0.5, 0.7, 0.9)
ELEMENTS = (5, 10, 20, 50, 200)

Rows = list[dict[str, Any]]


def speed(options: argparse.Namespace, folder: Path) -> tuple[Rows, Rows]:
    """Seconds and memory of every job on every kind of texts; the texts, described."""
    rows: Rows = []
    described: Rows = []
    for language in LANGUAGES:
        for length, characters in LENGTHS.items():
            documents = max(1, options.documents * LENGTHS["short"] // characters)
            texts = getattr(made_up, language)(documents, characters)
            file = folder / f"{language}-{length}.txt"
            file.write_text("".join(f"{text}\n" for text in texts), "utf-8")
            size = file.stat().st_size - documents
            kind = {"language": language, "length": length, "characters": characters}
            described.append(
                {
                    "name": f"{length} {language}",
                    "source": "benchmarks/lib/texts.py",
                    "documents": documents,
                    "bytes": size,
                }
            )
            kind |= {"documents": documents, "megabytes": round(size / 1e6, 3)}
            if "speed" in options.only:
                for permutations in PERMUTATIONS:
                    jobs = (*OURS, *SKETCHES, *TEXT_DEDUP)
                    rows += _beside(jobs, file, {**kind, "permutations": permutations}, options)
            if "fingerprints" in options.only:
                rows += _beside(FINGERPRINTS, file, kind, options)
    return rows, described


def paragraphs(options: argparse.Namespace, folder: Path) -> tuple[Rows, Rows]:
    """The same of short paragraphs in many scripts."""
    rows: Rows = []
    described: Rows = []
    for language in PARAGRAPHS:
        texts, source = _paragraphs(language, options.documents)
        file = folder / f"{language}-paragraphs.txt"
        file.write_text("".join(f"{text}\n" for text in texts), "utf-8")
        size = file.stat().st_size - len(texts)
        name = f"paragraphs, {language}"
        described.append({"name": name, "source": source, "documents": len(texts), "bytes": size})
        kind = {"language": language, "length": "paragraph", "documents": len(texts)}
        kind |= {"megabytes": round(size / 1e6, 3), "permutations": min(PERMUTATIONS)}
        rows += _beside(PARAGRAPH_JOBS, file, kind, options)
    return rows, described


def _paragraphs(language: str, documents: int) -> tuple[list[str], str]:
    """Texts of 80 to 240 bytes, and where they are from."""
    if language == "arabic":
        return made_up.arabic(documents, 90), "benchmarks/lib/texts.py"
    name = language if language == "chinese" else f"paragraphs-{language}"
    corpus = corpora.corpus(name)
    texts = [" ".join(text.split()) for text in corpus.texts()]
    texts = [text for text in texts if corpora.SHORTEST <= len(text.encode()) <= corpora.LONGEST]
    return texts[:: max(1, len(texts) // documents)][:documents], corpus.source


def _beside(
    jobs: tuple[str, ...], file: Path, kind: dict[str, Any], options: argparse.Namespace
) -> Rows:
    """A row for each job, the best of its processes; the first job is what others are held to."""
    best: dict[str, dict[str, Any]] = {}
    for _ in range(options.processes):
        for job in jobs:
            found = json.loads(_run(_command(job, file, kind)))
            if job not in best or found["seconds"] < best[job]["seconds"]:
                best[job] = found
    first = best[jobs[0]]["seconds"]
    rows = []
    for job, found in best.items():
        rates = {
            "documents_per_second": round(kind["documents"] / found["seconds"]),
            "megabytes_per_second": round(kind["megabytes"] / found["seconds"], 2),
            "esdedup_is_times_faster": round(found["seconds"] / first, 3),
        }
        rows.append({"job": job, **kind, **found, **rates})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def _command(job: str, file: Path, kind: dict[str, Any]) -> list[str]:
    if job.startswith("esdedup"):
        program = [sys.executable, "-m", "benchmarks.peers.inside.own_sketches"]
    else:
        environment = "text-dedup" if job in TEXT_DEDUP else "sketches"
        program = [
            environments.python_of(environment),
            "-m",
            "benchmarks.peers.inside.peer_sketches",
        ]
    settings = ["--language", "chinese" if kind["language"] in UNSPACED else "english"]
    if "permutations" in kind:
        settings += ["--permutations", str(kind["permutations"]), "--rows", str(ROWS)]
    return [*program, job, str(file), *settings]


def _run(command: list[str]) -> str:
    """The last line that a command prints."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    return done.stdout.splitlines()[-1]


def accuracy(options: argparse.Namespace, folder: Path) -> Rows:
    """Errors of the estimates over random pairs of sets of a known similarity."""
    rows: Rows = []
    for elements in ELEMENTS:
        for exact, pairs in _pairs(elements, options.pairs):
            file = folder / "pairs.json"
            file.write_text(json.dumps(pairs), "ascii")
            for permutations in PERMUTATIONS:
                kind = {"elements": elements, "jaccard": exact, "permutations": permutations}
                for name, estimates in _estimates(file, pairs, permutations):
                    errors = estimates - exact
                    rows.append(
                        {
                            "job": name,
                            **kind,
                            "pairs": len(pairs),
                            "rmse": round(float(np.sqrt(np.mean(errors**2))), 5),
                            "binomial_bound": round(
                                float(np.sqrt(exact * (1 - exact) / permutations)), 5
                            ),
                            "mean_error": round(float(errors.mean()), 5),
                        }
                    )
                    print(json.dumps(rows[-1]), flush=True)
    return rows


def _pairs(elements: int, count: int) -> Iterator[tuple[float, list[list[list[str]]]]]:
    """Pairs of sets of a number of words each, and their similarity, near each of SIMILARITIES."""
    rng = np.random.default_rng(elements)
    shares = [round(2 * elements * j / (1 + j)) for j in SIMILARITIES]
    for shared in sorted({min(max(share, 1), elements - 1) for share in shares}):
        union = 2 * elements - shared
        drawn = rng.integers(0, 1 << 60, (count, union)).tolist()
        words = [[f"w{number:x}" for number in row] for row in drawn]
        yield shared / union, [[row[:elements], row[elements - shared :]] for row in words]


def _estimates(
    file: Path, pairs: list[list[list[str]]], permutations: int
) -> Iterator[tuple[str, Any]]:
    left, right = (_signed([pair[side] for pair in pairs], permutations) for side in (0, 1))
    yield "esdedup", estimate_jaccard(left, right)
    for name, environment in ESTIMATES.items():
        script = str(INSIDE / "peer_estimates.py")
        command = [environments.python_of(environment), script, name, str(file), str(permutations)]
        yield name, np.array(json.loads(_run(command)))


def _signed(sets: list[list[str]], permutations: int) -> Any:
    offsets = offsets_of(np.array([len(words) for words in sets]))
    tokens = Ragged(xxh3((word for words in sets for word in words), 1), offsets)
    return signatures(shingle(tokens, 1), permutations, 1)


def tables(document: dict[str, Any]) -> str:
    """The results as Markdown."""
    rows = document["results"]
    short = [row for row in rows if row.get("length") == "paragraph"]
    signed = [
        row for row in rows if "megabytes" in row and "permutations" in row and row not in short
    ]
    prints = [row for row in rows if "megabytes" in row and "permutations" not in row]
    estimated = [row for row in rows if "rmse" in row]
    parts = []
    for permutations in PERMUTATIONS:
        some = [row for row in signed if row["permutations"] == permutations]
        parts += _rates(f"{permutations} permutations, {permutations // ROWS} bands", some)
    parts += _rates(f"Paragraphs of about 150 bytes, {min(PERMUTATIONS)} permutations", short)
    if signed:
        most = [row for row in signed if row["permutations"] == max(PERMUTATIONS)]
        parts.append(f"**Peak memory, {max(PERMUTATIONS)} permutations**: MB beside the texts")
        parts.append(_table(most, lambda row: f"{row['peak_mb']:,.0f}"))
    parts += _rates("Fingerprints of 64 bits, features of two words", prints)
    if estimated:
        parts += [_accuracy_table(estimated, permutations) for permutations in PERMUTATIONS]
    return "\n\n".join(parts)


def _rates(title: str, rows: Rows) -> list[str]:
    if not rows:
        return []
    lead = f"**{title}**: documents a second · MB a second · how many times as fast esdedup is"
    return [lead, _table(rows, _rate)]


def _rate(row: dict[str, Any]) -> str:
    times = row["esdedup_is_times_faster"]
    shown = f"{times:.2f}x" if times >= 1 else f"**{times:.2f}x**"
    rates = f"{row['documents_per_second']:,} · {row['megabytes_per_second']:.1f}"
    return f"{rates} · {shown}"


def _table(rows: Rows, cell: Any) -> str:
    """A line for each job, a column for each kind of texts."""
    kinds = list(dict.fromkeys((row["language"], row["length"]) for row in rows))
    jobs = list(dict.fromkeys(row["job"] for row in rows))
    cells = {(row["job"], row["language"], row["length"]): cell(row) for row in rows}
    heads = " | ".join(f"{length} {language.capitalize()}" for language, length in kinds)
    lines = [f"| | {heads} |", "|---" * (len(kinds) + 1) + "|"]
    for job in jobs:
        found = " | ".join(cells.get((job, *kind), "") for kind in kinds)
        lines.append(f"| {job} | {found} |")
    return "\n".join(lines)


def _accuracy_table(rows: Rows, permutations: int) -> str:
    """Over all similarities of a size: the error beside its bound; and the bias at small sets."""
    rows = [row for row in rows if row["permutations"] == permutations]
    largest = max(row["elements"] for row in rows)
    small = sorted({row["elements"] for row in rows} - {largest})
    heads = [f"error, {largest} elements", *(f"bias, {elements}" for elements in small)]
    lines = [
        f"**Estimates of Jaccard similarity, {permutations} permutations**: root mean square error"
        " as a multiple of the binomial bound √(J (1 − J) / k); and the mean error in thousandths"
        f" ± its standard error\n\n| | {' | '.join(heads)} |",
        "|---" + "|---:" * len(heads) + "|",
    ]
    for job in dict.fromkeys(row["job"] for row in rows):
        mine = [row for row in rows if row["job"] == job]
        cells = [_error([row for row in mine if row["elements"] == largest])]
        cells += [_bias([row for row in mine if row["elements"] == size]) for size in small]
        lines.append(f"| {job} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _error(rows: Rows) -> str:
    ratios = [(row["rmse"] / row["binomial_bound"]) ** 2 for row in rows]
    return f"{np.sqrt(np.mean(ratios)):.2f}"


def _bias(rows: Rows) -> str:
    mean = float(np.mean([row["mean_error"] for row in rows]))
    # The spread about the mean, of as many pairs of each similarity.
    variances = [(row["rmse"] ** 2 - row["mean_error"] ** 2) / row["pairs"] for row in rows]
    error = float(np.sqrt(sum(variances))) / len(rows)
    return f"{1000 * mean:+.1f} ± {1000 * error:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("speed", "paragraphs", "fingerprints", "accuracy")
    parser.add_argument("--documents", type=int, default=10_000, help="short ones; long: a tenth")
    parser.add_argument("--processes", type=int, default=3, help="of each job; the best counts")
    parser.add_argument("--pairs", type=int, default=1_000, help="of each similarity and size")
    parser.add_argument("--only", choices=parts, nargs="+", default=parts)
    parser.add_argument("--folder", type=Path, help="for the results")
    options = parser.parse_args()
    versions = environments.versions_of("sketches") | environments.versions_of("text-dedup")
    with tempfile.TemporaryDirectory() as name:
        rows: Rows = []
        described: Rows = []
        if {"speed", "fingerprints"} & set(options.only):
            rows, described = speed(options, Path(name))
        if "paragraphs" in options.only:
            found, texts = paragraphs(options, Path(name))
            rows, described = rows + found, described + texts
        if "accuracy" in options.only:
            rows += accuracy(options, Path(name))
    measuring.save("sketching", rows, described, versions, options.folder)


if __name__ == "__main__":
    main()
