"""Repeated spans of a corpus: `clean --unit span`, and suffix arrays of its bytes.

    python -m benchmarks.peers.spans [--megabytes 100] [--files FILE] [--google DIR] [--folder OUT]

Made-up English-like documents of 6,000 characters. One in three has a passage of 400 to 1,500
characters of an earlier one, at any place, and one in five has one of 20 notices. With --files, the
texts of a file of JSON lines instead.

Each way removes what repeats runs of as many bytes as 50 words have on average:

- `esdedup`: reads, cuts and writes the texts, in one process. It keeps the first occurrence.
- `libdivsufsort`: the suffix array and the common prefixes of all bytes in memory, by pydivsufsort,
  and which bytes repeat earlier ones. It writes nothing.
- `text-dedup`: its suffix_array, which runs the program of Lee et al. (2022) in DIR, a clone of
  google-research/deduplicate-text-datasets in which `cargo build` ran. It removes all occurrences.
  Peak memory is that of the largest of its processes, several of which run at once.
"""

import argparse
import json
import re
import resource
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.lib import measuring
from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.texts import english
from benchmarks.peers.environments import python_of, versions_of

MIN_WORDS = 50
_CHARACTERS = 6_000
_VOCABULARY_TEXT = 20_000_000
_NOTICES = 20
_RECENT = 2_000
"""Number of documents from which passages are repeated."""
_MOST_MEMORY = 20 << 30
"""Bytes of addresses that a peer can have."""


def texts(megabytes: int) -> Iterator[str]:
    """Yield the made-up documents."""
    rng = np.random.default_rng(7)
    # Pieces of one long text at random places would repeat it: words are drawn anew.
    words = np.array(" ".join(english(100, _VOCABULARY_TEXT // 100, seed=31)).split(" "))
    notices = [" ".join(words[start : start + 80]) for start in range(0, _NOTICES * 80, 80)]
    recent = list[str]()
    size = 0
    while size < megabytes * 1_000_000:
        drawn = words[rng.integers(0, words.size, _CHARACTERS // 6)]
        text = " ".join(drawn.tolist())
        kind = rng.random()
        if recent and kind < 1 / 3:
            other = recent[int(rng.integers(len(recent)))]
            start = int(rng.integers(len(other)))
            passage = other[start : start + int(rng.integers(400, 1_500))]
            place = int(rng.integers(len(text)))
            text = f"{text[:place]} {passage} {text[place:]}"
        if rng.random() < 1 / 5:
            text = f"{text} {notices[int(rng.integers(_NOTICES))]}"
        if len(recent) < _RECENT:
            recent.append(text)
        else:
            recent[int(rng.integers(_RECENT))] = text
        size += len(text)
        yield text


def write(file: Path, megabytes: int) -> None:
    with file.open("w", encoding="utf-8") as lines:
        for number, text in enumerate(texts(megabytes)):
            lines.write(json.dumps({"id": number, "text": text}) + "\n")


def ours(file: Path, folder: Path, memory: str) -> tuple[Figures, int]:
    """Return the figures of esdedup, and how many bytes 50 words have."""
    command = [*ESDEDUP, "clean", str(file), "-o", str(folder / "clean"), "--unit", "span"]
    command += ["--min-words", str(MIN_WORDS), "--workers", "1", "--max-memory", memory]
    figures = run([*command, "--drop-over", "1", "--json"], folder / "out")
    report = measuring.last_line(folder / "out")
    size = report["bytes_kept"] + report["bytes_removed"]
    words = report["words_kept"] + report["words_removed"]
    figures |= {"removed": report["bytes_removed"] / size, "spans": report["spans"]["spans"]}
    figures |= {"documents": report["documents"], "bytes": size, "max_memory": memory}
    return figures, round(MIN_WORDS * size / words)


def by_suffix_array(file: Path, folder: Path, length: int) -> Figures:
    inside = Path(__file__).parent / "inside" / "peer_suffix_array.py"
    command = [python_of("suffix-array"), str(inside), str(file), str(length)]
    figures = run(command, folder / "out")
    return {**figures, "removed": measuring.last_line(folder / "out")["removed"]}


def by_text_dedup(file: Path, folder: Path, length: int, google: Path) -> Figures:
    command = [python_of("text-dedup"), "-m", "text_dedup.suffix_array", "--path", "json"]
    command += ["--data_files", str(file), "--split", "train", "--column", "text"]
    command += ["--cache_dir", str(folder / "cache"), "--output", str(folder / "text-dedup")]
    command += ["--google_repo_path", str(google.resolve()), "--k", str(length)]
    log = folder / "log"
    figures = run(["sh", "-c", 'exec "$@" 2>&1', "sh", *command], log)
    sizes = re.findall(r"(Before|After) *:.*?(\d+) bytes", log.read_text("utf-8"), re.DOTALL)
    before, after = (int(size) for _, size in sizes[-2:])
    return {**figures, "removed": 1 - after / before}


def measure(file: Path, memory: str, google: Path | None, ways: list[str]) -> list[Figures]:
    """Return the figures of each way."""
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-", dir=file.parent) as made:
        folder = Path(made)
        figures, length = ours(file, folder, memory)
        results = [{"way": "esdedup", **figures, "length": length}]
        print(results[-1], file=sys.stderr)
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, resource.RLIM_INFINITY))
        if "libdivsufsort" in ways:
            results.append({"way": "libdivsufsort", **by_suffix_array(file, folder, length)})
            print(results[-1], file=sys.stderr)
        if google is not None:
            results.append({"way": "text-dedup", **by_text_dedup(file, folder, length, google)})
            print(results[-1], file=sys.stderr)
    return results


def tables(document: Figures) -> str:
    """Return the table of all ways and corpora."""
    head = ["corpus", "way", "removed", "seconds", "CPU seconds", "peak MB"]
    lines = [f"| {' | '.join(head)} |", "|---|---|" + "---:|" * 4]
    for corpus in document["corpora"]:
        for row in document["results"][corpus["name"]]:
            cells = [corpus["name"], row["way"]]
            cells += [f"{row['removed']:.1%}", f"{row['seconds']:.0f}"]
            cells += [f"{row['cpu_seconds']:.0f}", f"{row['peak_mb']:,.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="*", default=[100])
    parser.add_argument("--files", type=Path, nargs="*", default=[])
    parser.add_argument("--max-memory", default="400MB")
    parser.add_argument("--google", type=Path, help="the program of Lee et al.")
    parser.add_argument("--only", nargs="*", default=["libdivsufsort"], help="besides esdedup")
    parser.add_argument("--work", type=Path, help="where the corpora are written")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results, corpora = {}, []
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-", dir=options.work) as made:
        for megabytes in options.megabytes:
            file = Path(made, f"{megabytes}.jsonl")
            write(file, megabytes)
            name = f"made up, {megabytes:,} MB"
            corpora.append({"name": name, "megabytes": megabytes})
            results[name] = measure(file, options.max_memory, options.google, options.only)
        for file in options.files:
            megabytes = round(file.stat().st_size / 1e6)
            name = f"{file.stem}, {megabytes:,} MB"
            corpora.append({"name": name, "megabytes": megabytes})
            results[name] = measure(file, options.max_memory, options.google, options.only)
    print(measuring.save("spans", results, corpora, versions_of("suffix-array"), options.folder))


if __name__ == "__main__":
    main()
