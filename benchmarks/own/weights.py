"""Weights of words in SimHash: how far copies and unrelated texts are apart, with and without them.

    python -m benchmarks.own.weights {debian,chinese} [--documents 20000] [--jieba] [--folder OUT]

Each text of a corpus gets a copy with one to five words replaced by words of other texts (in
Chinese, pairs of characters). Measured are the distances of texts to their copies, and those of
200,000 random pairs of texts:

    area       the probability that a copy is nearer than a random text: the area under the curve
    recall     copies within 3 and 7 bits
    false      pairs of texts without copies, within 3 and 7 bits, whose Jaccard similarity of pairs
               of words is under 0.5
    seconds    of the processor to sketch the texts without and with weights, the best of seven

The weights are those of `esdedup weights` for the same texts. --jieba also compares words that
jieba splits, which takes many times as long. "short" are the first 12 words, or 24 characters, of
each text.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.corpora import corpus
from benchmarks.lib.measuring import Figures
from esdedup import MinHash, Scheme, Shingling, SimHash
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.text.arrays import F64, I64
from esdedup.text.jaccard import hamming, jaccard
from esdedup.text.shingles import Unit

RANDOM = 200_000
DISTANCES = (3, 7)
EDITS = 5
REPETITIONS = 7
SHORT = {"debian": 12, "chinese": 24}
FEATURES: list[tuple[Unit, int]] = [("word", 1), ("word", 2)]
"""The units and sizes of features. A word of Chinese is a character, unless jieba splits it."""
_HEADS = (
    "features", "weights", "area", "copies within 3 bits", "within 7", "false pairs within 3",
    "within 7",
)  # fmt: skip


class Texts:
    """The texts of a corpus with their edited copies."""

    def __init__(self, name: str, documents: int, short: bool) -> None:
        rng = np.random.default_rng(1)
        texts = corpus(name).texts()
        rows = rng.permutation(len(texts))[:documents].tolist()
        self._between = "" if name == "chinese" else " "
        self.name = f"{name}, short" if short else name
        units = [self._units(texts[row]) for row in rows]
        if short:
            units = [each[: SHORT[name]] for each in units]
        self.texts = [self._between.join(each) for each in units]
        pool = [unit for each in units[:2_000] for unit in each]
        self.copies = [self._edited(each, pool, rng) for each in units]
        pairs = rng.integers(0, len(units), (RANDOM, 2))
        self.random = pairs[pairs[:, 0] != pairs[:, 1]]
        self.sets = shingle_sets(self.texts, Scheme(shingling=Shingling(size=2)))

    def _units(self, text: str) -> list[str]:
        return text.split() if self._between else list(text)

    def _edited(self, units: Sequence[str], pool: Sequence[str], rng: np.random.Generator) -> str:
        units = list(units)
        count = 1 if self._between else 2
        for _ in range(int(rng.integers(1, EDITS + 1))):
            at, other = int(rng.integers(len(units))), int(rng.integers(len(pool) - count))
            units[at : at + count] = pool[other : other + count]
        return self._between.join(units)


def measure(texts: Texts, features: Sequence[tuple[Unit, int]]) -> list[Figures]:
    """Return the figures of each way to weigh, and of Jaccard similarity."""
    found = []
    for unit, size in features:
        base = Scheme([SimHash(feature_size=size)], shingling=Shingling(unit))
        plain, table = SimHash(feature_size=size), esdedup.weights(texts.texts, scheme=base)
        ways = {
            "tf": plain,
            "binary": replace(plain, weighting="binary"),
            "tf, IDF": replace(plain, weights=table),
            "binary, IDF": replace(plain, weighting="binary", weights=table),
        }
        for name, simhash in ways.items():
            described = {"corpus": texts.name, "features": f"{unit}:{size}", "weights": name}
            found.append(
                {**described, **_of_fingerprints(texts, replace(base, sketches=[simhash]))}
            )
    sets = shingle_sets([*texts.texts, *texts.copies], Scheme())
    rows = np.arange(len(texts.texts))
    copies, others = (
        1 - jaccard(sets, *each) for each in ((rows, rows + rows.size), texts.random.T)
    )
    recall = [float((copies <= 0.5).mean())]
    named = {"corpus": texts.name, "features": "word:3", "weights": "Jaccard similarity of 0.5"}
    found.append({**named, "area": area(copies, others), "recall": recall})
    return found


def speeds(texts: Texts) -> list[Figures]:
    """Return the seconds of the processor to sketch texts without and with weights."""
    found = []
    for others in ([], [MinHash()]):
        for size in (1, 2):
            plain = SimHash(feature_size=size)
            table = esdedup.weights(texts.texts, features=size)
            weighed = replace(plain, weights=table)
            schemes = [Scheme([*others, each]) for each in (plain, weighed)]
            seconds: list[list[float]] = [[], []]
            # In turn, since the speed of a machine changes.
            for side in (0, 1) * REPETITIONS:
                begun = time.process_time()
                sketch(texts.texts, schemes[side])
                seconds[side].append(time.process_time() - begun)
            without, weighing = map(min, seconds)
            row = {"corpus": texts.name, "features": f"word:{size}", "minhash": bool(others)}
            row |= {"words": len(table.words), "bytes": len(table.packed) * 3 // 4}
            found.append({**row, "seconds": [round(without, 3), round(weighing, 3)]})
    return found


def _of_fingerprints(texts: Texts, scheme: Scheme) -> Figures:
    """Return the figures of the fingerprints of a scheme."""
    values = sketch(texts.texts, scheme).values["simhash"]
    copies = hamming(values, sketch(texts.copies, scheme).values["simhash"])
    left, right = texts.random.T
    others = hamming(values[left], values[right])
    pairs = esdedup.pairs(texts.texts, scheme=scheme, sketch="simhash", distance=DISTANCES[-1])
    ids = np.array([(int(each.left), int(each.right)) for each in pairs], np.int64).reshape(-1, 2)
    distances = np.array([each.distance for each in pairs], np.int64)
    unlike = jaccard(texts.sets, ids[:, 0], ids[:, 1]) < 0.5
    return {
        "area": area(copies, others),
        "recall": [float((copies <= most).mean()) for most in DISTANCES],
        "false": [int((unlike & (distances <= most)).sum()) for most in DISTANCES],
        "copies": float(copies.mean()),
        "others": float(others.mean()),
    }


def area(near: F64 | I64, far: F64 | I64) -> float:
    """Return the probability that a value of `near` is less than one of `far`; half if equal."""
    ordered = np.sort(near)
    below = np.searchsorted(ordered, far, "left") + np.searchsorted(ordered, far, "right")
    return float(below.mean() / 2 / near.size)


def tables(document: Figures) -> str:
    """Return a table for each corpus."""
    found = []
    results = document["results"]
    for name in dict.fromkeys(row["corpus"] for row in results["distances"]):
        lines = [f"| {name}: {' | '.join(_HEADS)} |", f"|---|---|{'---:|' * 5}"]
        for row in results["distances"]:
            if row["corpus"] == name:
                numbers = [f"{row['area']:.5f}", *(f"{share:.1%}" for share in row["recall"])]
                numbers += [f"{pairs:,}" for pairs in row.get("false", ())]
                numbers += [""] * (5 - len(numbers))
                lines.append(f"| {row['features']} | {row['weights']} | {' | '.join(numbers)} |")
        found += [*lines, ""]
    found += ["| corpus | sketches | table | seconds without weights | with weights | times |"]
    found += [f"|---|---|{'---:|' * 4}"]
    for row in results["speeds"]:
        without, weighing = row["seconds"]
        sketches = f"{'MinHash and ' * row['minhash']}SimHash of {row['features']}"
        table = f"{row['words']:,} words, {row['bytes']:,} bytes"
        cells = [f"{without:.2f}", f"{weighing:.2f}", f"{weighing / without:.2f}"]
        found.append(f"| {row['corpus']} | {sketches} | {table} | {' | '.join(cells)} |")
    return "\n".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", choices=SHORT)
    parser.add_argument("--jieba", action="store_true", help="also words that jieba splits")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    name, features = options.corpus, [*FEATURES]
    if options.jieba:
        features.append(("jieba", 1))
    results: Figures = {"speeds": [], "distances": []}
    for short in (False, True):
        texts = Texts(name, options.documents, short)
        if not short:
            results["speeds"] = speeds(texts)
        results["distances"] += measure(texts, features)
    described = [corpus(name).described()]
    print(measuring.save(f"weights-{name}", results, described, folder=options.folder))


if __name__ == "__main__":
    main()
