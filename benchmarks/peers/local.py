"""An index on one machine: esdedup's local file beside Lance, datasketch, gaoya and rensa.

    python -m benchmarks.peers.local [--documents 100000] [--rounds 10] [--only TOOL,...]
        [--esdedup COMMAND ...] [--name local] [--folder OUT]

Made-up texts with planted groups (planted.py), read from JSON lines, CSV and Parquet. Every 20th
ends with the same notice, so that some buckets are full. Each command is a whole process, from its
start to its end; those of all tools take turns in each round, also of several versions of esdedup,
each named by its command, whose Python is in the same folder. Figures are medians of the rounds.

- Index: documents stored and searchable. esdedup lists the tokens of new documents in the next
  search, so the first search is a figure of its own. Lance's index is finished when it is built.
  The others index in memory, and keep signatures in place of documents.
- Search, in one process: texts of the index, edited until their Jaccard similarity to the original
  is at a level or up to 0.05 above. Found: the original is among the 10 best. Each similarity
  returned is compared with the exact one, of sets of word triples in plain Python.
- Change: 1% more documents, at most 1,000, are appended, and then as many deleted, until a search
  sees it. Of those appended, half are Chinese, searched by level too, each character a word, and
  half have two words, searched in capitals.
"""

import argparse
import csv
import json
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from benchmarks.lib import measuring
from benchmarks.lib.measuring import ESDEDUP, RESULTS, Figures, run
from benchmarks.lib.planted import planted, triples
from benchmarks.lib.texts import chinese
from benchmarks.peers import environments

INSIDE = Path(__file__).parent / "inside" / "peer_local.py"
FORMATS = ("jsonl", "csv", "parquet")
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)
WITHIN, QUERIES = 0.05, 600
COMMANDS = {
    "jsonl": "from JSON lines",
    "csv": "from CSV",
    "parquet": "from Parquet",
    "first": "the first search",
    "later": "a later search",
}
PEERS = {
    "lance": ("Lance, 69 hashes, 23 bands", "23x69"),
    "lance-36": ("Lance, 36 hashes, 12 bands", "12x36"),
    "lance-default": ("Lance, its default: 128 hashes, 16 bands", "16x128"),
    "lance-icu": ("Lance, 69 hashes, 23 bands, tokenizer `icu`", "23x69-icu"),
    "datasketch": ("datasketch, 128 hashes, 23 bands of 3", "23x69"),
    "gaoya": ("gaoya, 69 hashes, 23 bands", "23x69"),
    "rensa": ("rensa, 69 hashes, 23 bands", "23x69"),
}
"""Names in the tables, and bands x hashes."""

Text = dict[str, str]
"""A document, or a query: the `id` of its original, and its `kind`, a level in a language."""
Found = list[tuple[str, float]]
"""Matches of a query, the best first."""


@dataclass(frozen=True)
class Tool:
    """A tool and its Python; command: that of esdedup."""

    name: str
    python: str
    persists: bool
    command: Sequence[str] = ()

    def run(self, action: str, work: Path, file: Path, place: Path) -> Figures:
        """Run an action of `inside/peer_local.py`, or esdedup's command for it."""
        peer = "esdedup" if self.command else self.name.partition("-")[0]
        shape = PEERS.get(self.name, ("", "-"))[1]
        command = [self.python, str(INSIDE), action, peer, shape, *map(str, (work, file, place))]
        if self.command and action != "ask":
            text = next(read(work / "queries.jsonl"))["text"]
            options = {"build": ["index", str(file)], "once": ["similar", "--text", text]}
            command = [*self.command, *options[action], "--db", str(place)]
        # Each version of esdedup is that of its Python.
        path = "" if self.command else str(RESULTS.parents[1])
        return run(command, work / "out", {"PYTHONPATH": path})


def measure(tool: Tool, work: Path) -> tuple[Figures, list[Found]]:
    """Return the figures of a round of a tool, and the matches of each query."""
    figures: Figures = {}

    def timed(name: str, action: str, *where: Path) -> None:
        ran = tool.run(action, work, *where)
        figures.update({f"{name} {key}": value for key, value in ran.items()})

    for form in FORMATS[::-1] if tool.name == "lance" or tool.command else FORMATS[:1]:
        with tempfile.TemporaryDirectory(dir=work) as made:
            where = work / f"documents.{form}", Path(made) / "index"
            timed(form, "build", *where)
            if form != FORMATS[0]:
                continue
            if tool.persists:
                timed("first", "once", *where)
                figures |= sizes(where[1], where[0].stat().st_size)
                timed("later", "once", *where)
            tool.run("ask", work, *where)
    answers = measuring.last_line(work / "out")
    median, p99 = map(float, np.quantile(answers.pop("times"), (0.5, 0.99)))
    found = answers.pop("found")
    return {**answers, **figures, "median_ms": median, "p99_ms": p99}, found


def sizes(place: Path, documents: int) -> Figures:
    """Bytes of an index on disk, and those beside its documents.

    documents: bytes of these as JSON lines, which is how esdedup's file has them. Lance has its
    index in files of its own.
    """
    if place.is_file():
        return {"disk_bytes": (size := place.stat().st_size), "index_bytes": size - documents}
    files = {each: each.stat().st_size for each in place.rglob("*") if each.is_file()}
    index = sum(size for each, size in files.items() if "_indices" in each.parts)
    return {"disk_bytes": sum(files.values()), "index_bytes": index}


def prepare(documents: int, work: Path) -> None:
    """Write the documents, those to append and to delete, and the queries."""
    texts, rng, part = planted(documents)[0], np.random.default_rng(5), min(documents // 200, 500)
    texts[::20] = [f"{text} {texts[1]}" for text in texts[::20]]
    rows = rng.choice(documents, QUERIES, replace=False).tolist()
    levels = [LEVELS[at % len(LEVELS)] for at in range(max(QUERIES, part))]
    queries = [
        {"id": str(row), "kind": f"{at}", "text": " ".join(edited(texts[row].split(), at, rng))}
        for row, at in zip(rows, levels, strict=False)
    ]
    more, asked = [], []
    for row, (text, at) in enumerate(zip(chinese(part, 130), levels, strict=False)):
        more += [{"id": f"{documents + row}", "text": text}]
        asked += [{**more[-1], "kind": f"Chinese {at}", "text": "".join(edited([*text], at, rng))}]
    for row in range(part):
        two = f"{texts[row].split()[0]} {row}"
        more += [{"id": f"{documents + part + row}", "text": two}]
        asked += [{**more[-1], "kind": "two words", "text": f"{two.upper()}!"}]
    whole = [{"id": f"{row}", "text": text} for row, text in enumerate(texts)]
    for name, each in {
        "documents": whole, "removed": whole[: 2 * part], "queries": queries, "more": more,
        "more-queries": asked,
    }.items():  # fmt: skip
        lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in each)
        (work / f"{name}.jsonl").write_text("".join(lines), "utf-8")
    with (work / "documents.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *(each.values() for each in whole)])
    parquet.write_table(pyarrow.Table.from_pylist(whole), work / "documents.parquet")


def edited(words: list[str], level: float, rng: np.random.Generator) -> list[str]:
    """Return the words, some replaced, so that the similarity to the original reaches a level."""
    original, made = triples(" ".join(words)), words
    for at in rng.permutation(len(words)).tolist():
        # A word that no text has, in any language.
        tried = [*made[:at], chr(0x7000 + int(rng.integers(0x2000))), *made[at + 1 :]]
        if jaccard(original, triples(" ".join(tried))) >= level:
            made = tried
        if jaccard(original, triples(" ".join(made))) < level + WITHIN:
            break
    return made


def jaccard(left: frozenset[Any], right: frozenset[Any]) -> float:
    return len(left & right) / max(1, len(left | right))


def read(file: Path) -> Iterator[Text]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def scored(work: Path, found: list[Found]) -> Figures:
    """Shares found, by kind, and how right the similarities of matches are, over `QUERIES`."""
    texts = {each["id"]: each["text"] for each in read(work / "documents.jsonl")}
    queries = [*read(work / "queries.jsonl"), *read(work / "more-queries.jsonl")]
    shares: dict[str, list[bool]] = defaultdict(list)
    for query, matches in zip(queries, found, strict=True):
        shares[query["kind"]].append(query["id"] in dict(matches))
    pairs = np.array(
        [
            (similarity, jaccard(triples(query["text"]), triples(texts[id])))
            for query, matches in zip(queries[:QUERIES], found[:QUERIES], strict=True)
            for id, similarity in matches
        ]
    )
    errors, likely = np.abs(pairs[:, 0] - pairs[:, 1]), pairs[:, 0] >= LEVELS[0]
    return {
        "found": {kind: statistics.mean(each) for kind, each in shares.items()},
        "mean_error": float(errors.mean()),
        "largest_error": float(errors.max()),
        "precision": float((pairs[likely, 1] >= LEVELS[0]).mean()),
    }


def tables(document: Mapping[str, Any]) -> str:
    """Figures of indexing, searching and changes, a line for each tool."""
    (corpus,), parts = document["corpora"], []
    documents = corpus["documents"]
    of = f"{documents:,} documents of {corpus['bytes'] / documents:.0f} bytes"
    titles = {f"Index, {of}": indexed, f"Search, {QUERIES} queries": searched, "Change": changed}
    for title, cells in titles.items():
        rows = {row["tool"]: cells(row, documents) for row in document["results"]}
        columns = next(iter(rows.values()))
        parts += [f"| {title} | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
        parts += [f"| {tool} | {' | '.join(row.values())} |" for tool, row in rows.items()]
        parts.append("")
    return "\n".join(parts)


def indexed(row: Figures, documents: int) -> Text:
    """Seconds, processor seconds and peak memory of commands; bytes a document."""
    found = {}
    for name, title in COMMANDS.items():
        keys = (f"{name} {key}" for key in ("seconds", "cpu_seconds", "peak_mb"))
        seconds, cpu, peak = (row.get(key) for key in keys)
        found[title] = f"{seconds:.2f} s, {cpu:.2f}, {peak:.0f} MB" if seconds else "–"
    for title, key in (("bytes on disk", "disk_bytes"), ("beside the documents", "index_bytes")):
        found[title] = f"{row[key] / documents:,.0f}" if key in row else "–"
    return found


def searched(row: Figures, _: int) -> Text:
    """Milliseconds, shares found by level, and how right similarities are."""
    times = {"first, ms": "first_ms", "median": "median_ms", "p99": "p99_ms"}
    right = {"mean error": "mean_error", "largest": "largest_error", "precision": "precision"}
    return {
        **{title: f"{row[key]:.2f}" for title, key in times.items()},
        **{f"found at {level}": f"{row['found'][f'{level}']:.2f}" for level in LEVELS},
        **{title: f"{row[key]:.3f}" for title, key in right.items()},
    }


def changed(row: Figures, _: int) -> Text:
    """Return the seconds of changes, and the shares found of appended documents."""
    kinds = [*(f"Chinese {level}" for level in LEVELS), "two words"]
    return {
        "append": f"{row['append_seconds']:.2f} s",
        "delete": f"{row['delete_seconds']:.2f} s",
        **{kind: f"{row['found'][kind]:.2f}" for kind in kinds},
    }


def chosen(only: Sequence[str], commands: Sequence[str]) -> tuple[list[Tool], dict[str, str]]:
    """Return the tools, and the versions of the peers."""
    tools: list[Tool] = []
    versions: dict[str, str] = {}
    if "esdedup" in only and not commands:
        tools.append(Tool("esdedup", sys.executable, True, ESDEDUP))
    for command in commands if "esdedup" in only else ():
        found = shutil.which(command) or sys.exit(f"there is no command {command}")
        # The command may be a link to a version's own.
        python = Path(found).resolve().with_name("python")
        tools.append(Tool(command, str(python), True, [command]))
    for name in filter(only.__contains__, PEERS):
        environment = "lance" if name.startswith("lance") else "sketches"
        tools.append(Tool(name, environments.python_of(environment), environment == "lance"))
        versions |= environments.versions_of(environment)
    return tools, versions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default=",".join(["esdedup", *PEERS]), help="tools")
    parser.add_argument(
        "--esdedup", action="append", help="the command of a version; may be repeated"
    )
    parser.add_argument("--name", default="local", help="of the results")
    parser.add_argument("--folder", type=Path, help="for the results")
    options = parser.parse_args()
    tools, versions = chosen(options.only.split(","), options.esdedup or ())
    rounds: dict[str, list[Figures]] = defaultdict(list)
    found: dict[str, list[Found]] = {}
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        work = Path(made)
        prepare(options.documents, work)
        for number in range(options.rounds):
            for tool in tools[:: 1 - 2 * (number % 2)]:
                figures, found[tool.name] = measure(tool, work)
                rounds[tool.name].append(figures)
                print(tool.name, json.dumps(figures), flush=True)
        size = (work / "documents.jsonl").stat().st_size
        results = [
            {
                "tool": PEERS.get(name, [name])[0],
                **{key: statistics.median(one[key] for one in some) for key in some[0]},
                **scored(work, found[name]),
                "rounds": some,
            }
            for name, some in rounds.items()
        ]
    described = [{"name": "planted", "documents": options.documents, "bytes": size}]
    measuring.save(options.name, results, described, versions, options.folder)
    print(tables({"corpora": described, "results": results}))


if __name__ == "__main__":
    main()
