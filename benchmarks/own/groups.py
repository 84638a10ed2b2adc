"""Pairs and groups of a whole index: time, memory, recall and precision as it grows.

    python -m benchmarks.own.groups [--sizes 10000,100000,1000000] [--methods components,leader]
        [--url URL | --product elasticsearch|opensearch | --local | --files] [--json FILE]

Made-up texts of about 400 characters. Of every 1,000, 700 are like no other; the rest are in groups
of two to six: a text, and copies of it with none to five words replaced, shuffled over the whole.
Each command is a process of its own, whose time and peak memory are taken:

- `index`: the documents from a file.
- `pairs --threshold 0.8`, its output to a file.
- `group --threshold 0.8`: groups found and written, once with each method; and again, when
  nothing is left to write.

With `--files`, texts are of about 145 characters, every tenth an edited copy of an earlier one, and
the truth is not worked out: `--sizes 100000,1000000,10000000` is within reach. Measured are
`pairs FILES --threshold 0.8`, with one and with two worker processes, and for a local file `index`,
and `pairs --threshold 0.8` of that.

The truth is worked out apart, from sets of word triples in plain Python: all pairs at Jaccard 0.8
and over within the planted groups. Texts of different groups share none but by chance. Recall: the
share of these pairs that `pairs` gives, and that are in one group. Precision: the share of the
pairs that `pairs` gives that are true; and, of the pairs of documents in one group, those that a
chain of true pairs connects.
"""

import argparse
import contextlib
import functools
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import esdedup
from benchmarks.lib import servers
from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.planted import (
    CHARACTERS,
    planted,
    scored_groups,
    share,
    true_pairs,
    with_equal,
)
from benchmarks.lib.texts import short
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.fields import value_at

INDEX = "esdedup-benchmark-groups"
SHORT = 145
TIMED_TWICE = 1_000_000
"""The most documents for which two worker processes are timed too."""
THRESHOLD = 0.8


def groups_of(index: esdedup.Index, documents: int) -> list[int]:
    """The group that each document has in the index; its own row if it is alone."""
    found = [*range(documents)]
    path = f"{index.meta.field}.group"
    for batch in index.store.scan([path], index.meta, marked=True):
        for document in batch:
            found[int(document.id)] = int(value_at(document.source, path))
    return found


def written(texts: Iterable[str], file: Path) -> None:
    with file.open("w", encoding="utf-8") as lines:
        for row, text in enumerate(texts):
            lines.write(json.dumps({"id": str(row), "text": text}) + "\n")


def measure_files(size: int, folder: Path) -> Figures:
    file, out = folder / "documents.jsonl", folder / "out"
    written(short(size), file)
    figures: Figures = {"documents": size}
    options = ["-t", str(THRESHOLD), "--json"]
    db = ["--db", str(folder / "a.db")]
    commands = {
        "files": ["pairs", str(file), *options],
        "files_2": ["pairs", str(file), *options, "--workers", "2"],
        "index": ["index", str(file), *db],
        "pairs": ["pairs", *options, *db],
    }
    for name, command in commands.items():
        if name == "files_2" and size > TIMED_TWICE:
            continue
        figures[name] = run([*ESDEDUP, *command], out)
        if "pairs" in command:
            with out.open("rb") as lines:
                figures[name]["found"] = sum(1 for _ in lines)
        print(name, figures[name], flush=True)
    figures["bytes"] = {"text": file.stat().st_size, "index": (folder / "a.db").stat().st_size}
    return figures


def measure(size: int, methods: list[str], target: list[str], opened: Any, folder: Path) -> Figures:
    texts, groups = planted(size)
    file, out = folder / "documents.jsonl", folder / "out"
    written(texts, file)
    truth = true_pairs(texts, groups, THRESHOLD)
    del texts, groups
    figures: Figures = {"documents": size, "true_pairs": len(truth)}
    figures["index"] = run([*ESDEDUP, "index", str(file), *target], out)
    figures["pairs"] = run([*ESDEDUP, "pairs", "-t", str(THRESHOLD), "--json", *target], out)
    given = with_equal(out.read_text("utf-8").splitlines())
    figures["pairs"] |= {
        "found": len(given),
        "recall": share(len(given & truth), len(truth)),
        "precision": share(len(given & truth), len(given)),
    }
    for method in methods:
        work = ["--work", str(folder / "work")]
        command = ["group", "-t", str(THRESHOLD), "--method", method, "--json", *work, *target]
        figures[method] = run([*ESDEDUP, *command], out) | json.loads(out.read_text("utf-8"))
        with opened() as index:
            figures[method] |= scored_groups(groups_of(index, size), truth)
        figures[method]["again"] = run([*ESDEDUP, *command], out) | json.loads(
            out.read_text("utf-8")
        )
    return figures


def delete(index: esdedup.Index) -> None:
    assert isinstance(index.store, ClusterStore)
    index.store.cluster.ask("DELETE", f"/{INDEX}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="10000,100000,1000000")
    parser.add_argument("--methods", default="components,leader")
    parser.add_argument("--local", action="store_true", help="a local file, no server")
    parser.add_argument("--files", action="store_true", help="many short texts, no server")
    parser.add_argument("--json", type=Path, help="file for the raw figures")
    servers.add_options(parser)
    options = parser.parse_args()
    characters = SHORT if options.files else CHARACTERS
    results: Figures = {"sizes": [], "threshold": THRESHOLD, "characters": characters}
    with contextlib.ExitStack() as stack:
        alone = options.local or options.files
        url = None if alone else stack.enter_context(servers.served(options))
        for size in map(int, options.sizes.split(",")):
            with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
                folder = Path(made)
                if options.files:
                    figures, results["store"] = measure_files(size, folder), "files"
                else:
                    figures, results["store"] = measure_index(size, url, options, folder)
            results["sizes"].append(figures)
            print(json.dumps(figures, indent=1))
            if options.json is not None:
                options.json.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def measure_index(
    size: int, url: str | None, options: argparse.Namespace, folder: Path
) -> tuple[Figures, str]:
    """The figures, and the name of the store."""
    target = ["--url", url] if url is not None else ["--db", str(folder / "a.db")]
    opened = functools.partial(esdedup.open, target[1], INDEX)
    target += ["--index", INDEX]
    try:
        figures = measure(size, options.methods.split(","), target, opened, folder)
        with opened() as index:
            return figures, index.statistics().store
    finally:
        if url is not None:
            with contextlib.suppress(esdedup.EsdedupError), opened() as index:
                delete(index)


if __name__ == "__main__":
    main()
