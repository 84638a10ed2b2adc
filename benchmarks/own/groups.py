"""Pairs and groups of a whole index: time, memory, recall and precision as it grows.

    python -m benchmarks.own.groups [--sizes 10000,100000,1000000] [--methods components,leader]
        [--url URL | --product elasticsearch|opensearch | --local] [--json FILE]

Made-up texts of about 400 characters. Of every 1,000, 700 are like no other; the rest are in groups
of two to six: a text, and copies of it with none to five words replaced, shuffled over the whole.
Each command is a process of its own, whose time and peak memory are taken:

- `index`: the documents from a file.
- `pairs --threshold 0.8`, its output to a file.
- `group --threshold 0.8`: groups found and written, once with each method; and again, when
  nothing is left to write.

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
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.fields import value_at

INDEX = "esdedup-benchmark-groups"
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
    parser.add_argument("--json", type=Path, help="file for the raw figures")
    servers.add_options(parser)
    options = parser.parse_args()
    results: Figures = {"sizes": [], "threshold": THRESHOLD, "characters": CHARACTERS}
    with contextlib.ExitStack() as stack:
        url = None if options.local else stack.enter_context(servers.served(options))
        for size in map(int, options.sizes.split(",")):
            with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
                figures, results["store"] = measure_index(size, url, options, Path(made))
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
