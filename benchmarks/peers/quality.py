"""Recall and precision on real texts: esdedup beside its peers.

    python -m benchmarks.peers.quality [--corpora articles,debian,chinese] [--documents N]
        [--thresholds 0.3,0.5,0.7,0.8,0.9] [--peers datasketch,gaoya,rensa,text-dedup]
        [--seeds 1] [--folder OUT]

Truth is the exact Jaccard similarity of all pairs of texts, by the sets of shingles that esdedup
makes by default (three words), worked out without any sketch. All use 128 permutations and the
bands and rows that datasketch chooses for the threshold, and get the same sets: as members of eight
bytes or as text of the same bytes. A peer's pairs are its candidates; if it estimates their
similarity, also those that it estimates at the threshold or above. esdedup is taken through its
index, a local file: with the bands and rows of the others, with its default scheme, and with that
as it comes, which compares a document with at most 1,000 of those that share a token with it. How
near recall comes to the S-curve is chance too, as texts with the same boilerplate are found or
missed together: hence esdedup also with several seeds, on average. Texts without any shingle are
left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import esdedup
from benchmarks.lib import corpora, measuring
from benchmarks.lib.measuring import Figures
from benchmarks.lib.scoring import I64, Truth, keys_of
from benchmarks.peers import environments
from benchmarks.peers.quality_tables import tables
from esdedup.pairing.pairs import SimilarPairs
from esdedup.sketch.banding import least_bands
from esdedup.sketch.limits import MAX_PER_BUCKET
from esdedup.sketch.sketch import shingle_sets
from esdedup.text.arrays import Ragged

__all__ = ["tables"]

PERMUTATIONS = 128
THRESHOLDS = "0.3,0.5,0.7,0.8,0.9"
RECALL = 0.999
INSIDE = Path(__file__).parent / "inside"

Setting = tuple[float, int, int]


class Indexed:
    """Texts in a local file."""

    def __init__(self, folder: Path, texts: list[str], scheme: esdedup.Scheme) -> None:
        file = folder / f"{scheme.id}.db"
        # Two thresholds may take the same bands and rows.
        there = file.exists()
        self.index = esdedup.open(file, scheme=scheme)
        if not there:
            self.index.add({"id": str(row), "text": text} for row, text in enumerate(texts))

    def pairs(self, threshold: float, most: int) -> tuple[I64, Figures]:
        """Keys of the pairs found, and the buckets that were cut."""
        pairs = self.index.pairs(threshold=threshold, recall=RECALL, max_per_bucket=most)
        return _keys(pairs), {"max_bucket": most, "capped_buckets": pairs.capped.buckets}


def _keys(pairs: SimilarPairs) -> I64:
    every = np.array([(int(pair.left), int(pair.right)) for pair in pairs.every()], np.int64)
    left, right = every.reshape(-1, 2).T
    return keys_of(left, right, len(pairs.ids))


def by_esdedup(
    folder: Path, texts: list[str], real: Truth, settings: list[Setting], seeds: int
) -> Iterator[Figures]:
    """Rows of results of the product."""
    usual = Indexed(folder, texts, esdedup.Scheme())
    minhash = usual.index.scheme.banded
    shape = minhash.bands, minhash.rows
    for threshold, bands, rows in settings:
        true = real.at(threshold)
        own = Indexed(folder, texts, equal((threshold, bands, rows)))
        for method, (index, (b, r), most) in {
            "esdedup": (own, (bands, rows), real.count),
            "esdedup, default scheme": (usual, shape, real.count),
            "esdedup, as it comes": (usual, shape, MAX_PER_BUCKET),
        }.items():
            found, more = index.pairs(threshold, most)
            least = least_bands(threshold, RECALL, b, r)
            line = {"threshold": threshold, "method": method, "bands": b, "rows": r}
            expected = {"least": least, "expected_recall": true.expected(b, r, least)}
            row = {**line, **expected, **true.scored(found), **more}
            yield row
            if method == "esdedup" and seeds > 1:
                schemes = [equal((threshold, bands, rows), seed) for seed in range(2, seeds + 1)]
                yield over_seeds(folder, texts, true, row, schemes)
        own.index.close()
    usual.index.close()


def equal(setting: Setting, seed: int = 1) -> esdedup.Scheme:
    """A scheme with bands and rows as the peers have them."""
    _, bands, rows = setting
    minhash = esdedup.MinHash(PERMUTATIONS, bands, rows)
    return esdedup.Scheme([minhash], seed=seed)


def over_seeds(
    folder: Path, texts: list[str], true: Truth, first: Figures, schemes: list[esdedup.Scheme]
) -> Figures:
    """The same with other permutations too, on average: what of the first is chance."""
    found = [first]
    for scheme in schemes:
        own = Indexed(folder, texts, scheme)
        found.append(true.scored(own.pairs(first["threshold"], true.count)[0]))
        own.index.close()
    names = ("pairs", "recall", "precision", "f1")
    means = {name: float(np.mean([each[name] for each in found])) for name in names}
    recalls = [each["recall"] for each in found]
    known = {name: first[name] for name in ("threshold", "bands", "rows", "expected_recall")}
    method = {"method": f"esdedup, mean of {len(found)} seeds", "recall_of_seeds": recalls}
    return known | method | means


def by_peer(
    peer: str, folder: Path, sets: Path, real: Truth, settings: list[Setting]
) -> Iterator[Figures]:
    """Rows of results of a peer."""
    asked = [f"{threshold}:{bands}:{rows}" for threshold, bands, rows in settings]
    if peer == "text-dedup":
        script = [
            environments.python_of("text-dedup"),
            str(INSIDE / "peer_text_dedup.py"),
            "buckets",
        ]
    else:
        script = [environments.python_of("sketches"), str(INSIDE / "peer_quality.py"), peer]
    environment = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
    measuring.run([*script, str(sets), str(folder), *asked], folder / "out", environment)
    for threshold, bands, rows in settings:
        line = {"threshold": threshold, "bands": bands, "rows": rows}
        true = real.at(threshold)
        file = folder / f"{peer}-{threshold}.npz"
        with np.load(file) as found:
            yield {**line, "method": peer, **true.scored(found["keys"])}
            if "estimates" in found:
                near = found["keys"][found["estimates"] >= threshold]
                yield {**line, "method": f"{peer}, own estimate", **true.scored(near)}
            if "groups" in found:
                by_group = true.scored_groups(found["groups"])
                yield {**line, "method": f"{peer}, groups", **by_group}
        file.unlink()


def settings_for(thresholds: str) -> list[Setting]:
    """Bands and rows for thresholds, by datasketch's own rule."""
    script = [environments.python_of("sketches"), str(INSIDE / "peer_quality.py"), "parameters"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        measuring.run([*script, *thresholds.split(",")], out)
        return [(threshold, bands, rows) for threshold, bands, rows in measuring.last_line(out)]


def measure(name: str, texts: list[str], folder: Path, options: argparse.Namespace) -> Figures:
    sets = shingle_sets(texts, esdedup.Scheme())
    texts = [text for text, count in zip(texts, sets.counts, strict=True) if count]
    sets = Ragged(sets.hashes, np.concatenate([[0], np.cumsum(sets.counts[sets.counts > 0])]))
    np.savez(folder / "sets", hashes=sets.hashes, offsets=sets.offsets)
    settings = settings_for(options.thresholds)
    real = Truth.of(sets, min(threshold for threshold, *_ in settings))
    result: Figures = {"corpus": name, "documents": len(texts), "truth": [], "minhash": []}
    for threshold, bands, rows in settings:
        true = real.at(threshold)
        line = {"threshold": threshold, "true_pairs": len(true.keys), "bands": bands, "rows": rows}
        result["truth"].append(line | {"expected_recall": true.expected(bands, rows)})
    ways = [by_esdedup(folder, texts, real, settings, options.seeds)]
    ways += [
        by_peer(peer, folder, folder / "sets.npz", real, settings)
        for peer in options.peers.split(",")
    ]
    for row in (row for way in ways for row in way):
        print(json.dumps({"corpus": name, **row}), flush=True)
        result["minhash"].append(row)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", default=",".join(corpora.NAMES))
    parser.add_argument("--documents", type=int, help="take only the first of each corpus")
    parser.add_argument("--thresholds", default=THRESHOLDS)
    parser.add_argument("--peers", default="datasketch,gaoya,rensa,text-dedup")
    parser.add_argument("--seeds", type=int, default=1, help="of esdedup's permutations")
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    found = [corpora.corpus(name) for name in options.corpora.split(",")]
    results = []
    for corpus in found:
        with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as folder:
            texts = corpus.texts()[: options.documents]
            results.append(measure(corpus.name, texts, Path(folder), options))
    versions = environments.versions_of("sketches") | environments.versions_of("text-dedup")
    described = [corpus.described() for corpus in found]
    print(measuring.save("quality", results, described, versions, options.folder))


if __name__ == "__main__":
    main()
