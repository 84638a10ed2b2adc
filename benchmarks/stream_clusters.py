"""How much the order of arrival changes the groups of `esdedup index --group`.

Documents are indexed in several orders into local files; their groups are compared with each other
and with the connected components of all pairs, by the adjusted Rand index (Hubert and Arabie,
"Comparing partitions", Journal of Classification 2, 1985, equation 5): 1 for the same groups, 0 for
what chance would give. Made-up families have an original and copies of it, and copies of copies.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import texts as made_up

import esdedup
from esdedup.ingest.files import Record, read_records
from esdedup.ingest.near_duplicates import DuplicatePolicy


def adjusted_rand_index(left: Sequence[object], right: Sequence[object]) -> float:
    """The agreement of two partitions of the same documents, given by their groups."""

    def pairs(counts: np.ndarray) -> float:
        return float((counts * (counts - 1.0) / 2.0).sum())

    a = np.unique(np.array(left), return_inverse=True)[1]
    b = np.unique(np.array(right), return_inverse=True)[1]
    together = pairs(np.unique(np.stack([a, b]), axis=1, return_counts=True)[1])
    in_a, in_b = pairs(np.bincount(a)), pairs(np.bincount(b))
    expected = in_a * in_b / pairs(np.array([len(a)]))
    most = (in_a + in_b) / 2.0
    return 1.0 if most == expected else (together - expected) / (most - expected)


def planted(documents: int, characters: int, language: str, seed: int = 1) -> list[str]:
    """A quarter of the documents originals; the others copies of one before, of any depth."""
    rng = np.random.default_rng(seed)
    originals = getattr(made_up, language)(documents // 4, characters, seed)
    spare = getattr(made_up, language)(1, 100 * characters, seed + 1)[0]
    between = " " if language == "english" else ""
    pool = spare.split(" ") if between else list(spare)
    families: list[list[list[str]]] = [
        [text.split(" ") if between else list(text)] for text in originals
    ]
    while sum(map(len, families)) < documents:
        family = families[int(rng.integers(len(families)))]
        copy = list(family[int(rng.integers(len(family)))])
        for at in rng.integers(0, len(copy), int(rng.integers(1, 4))).tolist():
            copy[at] = pool[int(rng.integers(len(pool)))]
        family.append(copy)
    return [between.join(words) for family in families for words in family]


def components(count: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    first = list(range(count))

    def root(row: int) -> int:
        while first[row] != row:
            first[row] = first[first[row]]
            row = first[row]
        return row

    for left, right in pairs:
        first[max(root(left), root(right))] = min(root(left), root(right))
    return [root(row) for row in range(count)]


def groups(texts: Sequence[str], order: Sequence[int], policy: DuplicatePolicy) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, esdedup.open(Path(folder) / "x.db") as index:
        index.add(({"id": str(row), "text": texts[row]} for row in order), on_duplicate=policy)
        found = index.store.get([str(row) for row in range(len(texts))])
        return [document.tokens["group"] for document in found]


def all_pairs(texts: Sequence[str], policy: DuplicatePolicy) -> list[tuple[int, int]]:
    with tempfile.TemporaryDirectory() as folder, esdedup.open(Path(folder) / "x.db") as index:
        index.add({"id": str(row), "text": text} for row, text in enumerate(texts))
        found = index.pairs(
            metric=policy.metric, threshold=policy.threshold, distance=policy.distance
        )
        return [(int(pair.left), int(pair.right)) for pair in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="texts, as esdedup index reads them")
    parser.add_argument("--format", help="of the file, if its ending does not say")
    parser.add_argument("--documents", type=int, default=4_000)
    parser.add_argument("--characters", type=int, default=400)
    parser.add_argument("--language", choices=("english", "chinese"), default="english")
    parser.add_argument("--orders", type=int, default=4)
    options = parser.parse_args()
    if options.file is None:
        texts = planted(options.documents, options.characters, options.language)
    else:
        records = read_records(options.file, options.format, lambda _: None)
        texts = [str(each.source["text"]) for each in records if isinstance(each, Record)]
    rng = np.random.default_rng(1)
    orders = [rng.permutation(len(texts)).tolist() for _ in range(options.orders)]
    print(f"{len(texts):,} documents, {options.orders} orders of arrival; adjusted Rand index")
    for policy in (
        *(DuplicatePolicy("group", threshold) for threshold in (0.5, 0.8, 0.9)),
        DuplicatePolicy("group", metric="hamming"),
    ):
        found = [groups(texts, order, policy) for order in orders]
        joined = components(len(texts), all_pairs(texts, policy))
        among = [adjusted_rand_index(a, b) for a, b in itertools.combinations(found, 2)]
        against = [adjusted_rand_index(each, joined) for each in found]
        name = f"Jaccard {policy.threshold}" if policy.metric == "jaccard" else "Hamming 3"
        print(
            f"{name:12} {len(set(found[0])):6,} groups, {len(set(joined)):6,} components;"
            f" orders {np.mean(among):.4f} (least {min(among):.4f}),"
            f" with components {np.mean(against):.4f} (least {min(against):.4f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
