"""Items of a benchmark, lightly edited, in a corpus: found by `esdedup clean --against`.

    python -m benchmarks.own.decontaminate [--documents 200000] [--items 1000] [--folder OUT]

The items are made-up texts of about 25 words. The corpus holds each once, with one to three words
replaced, dropped or added, in capitals or with other punctuation, among texts that resemble none.
Found: items whose copy is removed. Others: removed documents that are no copy, by what removed
them: an item, or another document of the corpus.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.lib import measuring
from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.texts import english
from esdedup import similarity

THRESHOLDS = ("0.8", "0.6", "0.5", "0.4", "0.3")


def edited(text: str, rng: np.random.Generator) -> str:
    """Return a text with one to three words replaced, dropped or added, in another style."""
    words = text.split()
    for _ in range(int(rng.integers(1, 4))):
        at, way = int(rng.integers(len(words))), rng.integers(3)
        words[at : at + int(way != 2)] = [] if way == 1 else [f"w{rng.integers(10**6)}"]
    made = " ".join(words)
    return (made.upper(), made.replace(",", ";"), f"Q: {made}")[int(rng.integers(3))]


def write(file: Path, texts: list[str], prefix: str) -> None:
    """Write texts as JSON lines."""
    lines = (json.dumps({"id": f"{prefix}{row}", "text": text}) for row, text in enumerate(texts))
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def measure(documents: int, items: int) -> list[Figures]:
    """Return the figures of each threshold."""
    rng, found = np.random.default_rng(7), []
    held = english(items, 140, seed=11)
    copies = [edited(text, rng) for text in held]
    corpus = [*english(documents - items, 400, seed=12), *copies]
    first = documents - items
    order = rng.permutation(documents)
    near = np.array([similarity(*each) for each in zip(held, copies, strict=True)])
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        folder = Path(made)
        write(folder / "held.jsonl", held, "q")
        write(folder / "corpus.jsonl", [corpus[row] for row in order.tolist()], "")
        for threshold in THRESHOLDS:
            out = folder / f"out{threshold}"
            command = [*ESDEDUP, "clean", str(folder / "corpus.jsonl"), "-o", str(out)]
            command += ["--removed", f"{out}.jsonl", "-t", threshold]
            figures = run([*command, "--against", str(folder / "held.jsonl")], folder / "said")
            rows = [*map(json.loads, Path(f"{out}.jsonl").read_text("utf-8").splitlines())]
            by_item = [each for each in rows if each["original_id"].startswith("q")]
            copied = {int(order[int(each["id"])]) for each in by_item} & {*range(first, documents)}
            found.append(
                {
                    "threshold": threshold,
                    **figures,
                    "similar": int((near >= float(threshold)).sum()),
                    "found": len(copied),
                    "by_item": len(by_item) - len(copied),
                    "by_document": len(rows) - len(by_item),
                }
            )
    return found


def tables(document: Figures) -> str:
    """Return the table of all thresholds."""
    (corpus,) = document["corpora"]
    title = f"{corpus['items']:,} items in {corpus['documents']:,} documents, threshold"
    head = ["copies at least as similar", "found", "others, by an item", "by a document", "seconds"]
    lines = [f"| {title} | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for row in document["results"]:
        cells = [f"{row[key]:,}" for key in ("similar", "found", "by_item", "by_document")]
        lines.append(f"| {row['threshold']} | {' | '.join(cells)} | {row['seconds']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    results = measure(options.documents, options.items)
    described = [{"documents": options.documents, "items": options.items}]
    print(measuring.save("decontaminate", results, described, folder=options.folder))


if __name__ == "__main__":
    main()
