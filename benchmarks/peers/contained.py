"""Items of a benchmark inside pages: found by `decontaminate`, and by runs of 13 equal words.

    python -m benchmarks.peers.contained [--documents 200000] [--items 1000] [--folder OUT]

Made-up items of 15 to 60 words, each inside three pages of some 2,000 characters: verbatim, with
one word in ten replaced, and in another format (capitals, line breaks, other punctuation). One item
in five begins with an instruction of 15 words, which one page in fifty has too, alone.

Found: items that the tool names for their page. Wrongly: pages without an item that it removes.

- `n-gram`: a page is removed if it shares a run of 13 words with an item, in lower case and without
  punctuation, as datatrove's NGramsDecontFilter does with its own length.
- `n-gram, 10`: runs that more than 10 pages have do not count (Brown et al., "Language models are
  few-shot learners", NeurIPS 2020, appendix C).
"""

import argparse
import json
import re
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from benchmarks.lib import measuring
from benchmarks.lib.measuring import ESDEDUP, Figures, run
from benchmarks.lib.texts import english
from benchmarks.own.decontaminate import write

KINDS = ("verbatim", "one word in ten", "reformatted")
SHARES = ("0.8", "0.6")
RUN, MOST = 13, 10
INSTRUCTION = (
    "The following is a multiple choice question. Read it carefully and choose the best answer."
)
_OTHER = re.compile(r"[^\w\s]")


def variant(kind: str, text: str, others: list[str], rng: np.random.Generator) -> str:
    """Return an item as it is in a page. others: words to replace some by."""
    words = text.split()
    if kind == "one word in ten":
        for at in rng.choice(len(words), max(1, len(words) // 10), replace=False).tolist():
            words[at] = others[int(rng.integers(len(others)))]
    if kind == "reformatted":
        words = [_OTHER.sub("", word).upper() for word in words]
        lines = [words[at : at + 7] for at in range(0, len(words), 7)]
        return "\n> ".join(" – ".join([" ".join(line[:3]), " ".join(line[3:])]) for line in lines)
    return " ".join(words)


def corpus(documents: int, count: int) -> tuple[list[str], list[str]]:
    """Return items, and pages, of which the first hold the items, kind after kind."""
    rng = np.random.default_rng(3)
    drawn = english(count, 400, seed=21)
    items = [" ".join(text.split()[: int(rng.integers(15, 61))]) for text in drawn]
    items = [f"{INSTRUCTION} {text}" if row % 5 == 0 else text for row, text in enumerate(items)]
    others, pages = " ".join(english(50, 400, seed=22)).split(), english(documents, 2_000, seed=23)
    for row, page in enumerate(pages):
        kind, item = divmod(row, count)
        if kind < len(KINDS):
            inserted = variant(KINDS[kind], items[item], others, rng)
        elif row % 50 == 0:
            inserted = INSTRUCTION
        else:
            continue
        words = page.split(" ")
        at = int(rng.integers(len(words)))
        pages[row] = " ".join([*words[:at], inserted, *words[at:]])
    return items, pages


def n_grams(text: str) -> set[str]:
    """Return the runs of words of a text."""
    words = _OTHER.sub("", text.lower()).split()
    return {" ".join(words[at : at + RUN]) for at in range(len(words) - RUN + 1)}


def by_n_grams(held: Path, pages: Path, most: int | None) -> None:
    """Print the pages that share runs of words with items, and the ids of these."""
    owners, found, count = defaultdict(list), defaultdict(list), Counter[str]()
    for line in held.open(encoding="utf-8"):
        item = json.loads(line)
        for gram in n_grams(item["text"]):
            owners[gram].append(item["id"])
    for line in pages.open(encoding="utf-8"):
        page = json.loads(line)
        for gram in n_grams(page["text"]) & owners.keys():
            found[page["id"]].append(gram)
            count[gram] += 1
    for page, grams in found.items():
        kept = [gram for gram in grams if most is None or count[gram] <= most]
        for item in {item for gram in kept for item in owners[gram]}:
            print(json.dumps({"id": page, "original_id": item}))


def measure(documents: int, count: int) -> list[Figures]:
    """Return the figures of each way."""
    items, pages = corpus(documents, count)
    results = []
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as made:
        folder = Path(made)
        held, file, listed = (folder / name for name in ("held.jsonl", "pages.jsonl", "l.jsonl"))
        write(held, items, "q")
        write(file, pages, "")
        for way in (*SHARES, "n-gram", f"n-gram, {MOST}"):
            if way in SHARES:
                command = [*ESDEDUP, "decontaminate", str(file), "-o", f"{folder}/out{way}.jsonl"]
                command += ["--against", str(held), "--share", way, "--removed", str(listed)]
                figures = run([*command, "--json"], folder / "said")
                figures["contained"] = measuring.last_line(folder / "said")["contained"]
            else:
                command = [sys.executable, "-m", _MODULE, "--n-grams", str(held), str(file)]
                figures = run([*command, *way.split(", ")[1:]], listed)
            rows = [json.loads(line) for line in listed.read_text("utf-8").splitlines()]
            pairs = {(int(each["id"]), int(each["original_id"][1:])) for each in rows}
            right = [sum((kind * count + n, n) in pairs for n in range(count)) for kind in range(3)]
            wrong = len({page for page, _ in pairs if page >= count * len(KINDS)})
            results.append({"way": way, **figures, "found": right, "wrongly": wrong})
            print(results[-1], file=sys.stderr)
    return results


_MODULE = "benchmarks.peers.contained"


def tables(document: Figures) -> str:
    """Return the table of all ways."""
    (corpus,) = document["corpora"]
    title = f"{corpus['items']:,} items, {corpus['documents']:,} pages"
    head = [*KINDS, "pages wrongly", "seconds", "CPU seconds", "peak MB"]
    lines = [f"| {title} | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for row in document["results"]:
        name = f"`--share {row['way']}`" if row["way"] in SHARES else row["way"]
        cells = [f"{each:,}" for each in [*row["found"], row["wrongly"]]]
        cells += [f"{row['seconds']:.1f}", f"{row['cpu_seconds']:.1f}", f"{row['peak_mb']:.0f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--folder", type=Path, help="where the results go")
    parser.add_argument("--n-grams", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.n_grams:
        held, pages, *most = options.n_grams
        by_n_grams(Path(held), Path(pages), int(most[0]) if most else None)
        return
    results = measure(options.documents, options.items)
    described = [{"documents": options.documents, "items": options.items}]
    print(measuring.save("contained", results, described, folder=options.folder))


if __name__ == "__main__":
    main()
