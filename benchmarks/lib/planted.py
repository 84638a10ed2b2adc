"""Texts with planted groups of near-duplicates, and the true pairs among them.

Of every 1,000 texts of about 400 characters, 700 are like no other; the rest are in groups of two
to six: a text, and copies of it with none to five words replaced, shuffled over the whole. The
truth is worked out apart, from sets of word triples in plain Python.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from benchmarks.lib.measuring import Figures
from benchmarks.lib.texts import CHUNK, Growing
from esdedup.text.arrays import I64

CHARACTERS = 400
FRESH = 700
EDITS = 5

Pair = tuple[int, int]


def planted(
    documents: int,
    seed: int = 1,
    characters: int = CHARACTERS,
    edits: int = EDITS,
    fresh: int = FRESH,
) -> tuple[list[str], list[int]]:
    """Texts in any order, and the planted group of each.

    edits: most words replaced in a copy. fresh: texts of about 1,000, at most 800, that are like no
    other; 780 makes 7% of all duplicates.
    """
    source = Growing(characters, seed)
    texts: list[str] = []
    groups: list[int] = []
    number = 0
    while len(texts) < documents:
        chunk = source.chunk(number)
        rng = np.random.default_rng([seed, number, 1])
        # Every tenth of these is an edited copy: texts without a duplicate are taken from the rest.
        unlike = [text for row, text in enumerate(chunk) if row % 10 not in (9, 0)]
        number += 1
        made = 0
        for at, text in enumerate(unlike):
            size = 1 if at < fresh else int(rng.integers(2, 7))
            copies = [text, *(edited(source, text, rng, edits) for _ in range(size - 1))]
            texts += copies
            groups += [number * CHUNK + at] * size
            made += size
            if made >= CHUNK:
                break
    order = np.random.default_rng(seed).permutation(len(texts))[:documents].tolist()
    return [texts[row] for row in order], [groups[row] for row in order]


def edited(source: Growing, text: str, rng: np.random.Generator, edits: int = EDITS) -> str:
    """A copy with none to `edits` words replaced."""
    words = text.split(" ")
    for at in rng.integers(0, len(words), rng.integers(0, edits + 1)).tolist():
        words[at] = f"n{rng.integers(0, 10**6)}"
    return " ".join(words)


def triples(text: str) -> frozenset[tuple[str, ...]]:
    words = "".join(c if c.isalnum() else " " for c in text.casefold()).split()
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def true_pairs(texts: list[str], groups: list[int], threshold: float) -> set[Pair]:
    """All pairs at the threshold and over within the groups; texts of two share none by plan."""
    members: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(groups):
        members[group].append(row)
    found = set()
    for rows in members.values():
        sets = {row: triples(texts[row]) for row in rows} if len(rows) > 1 else {}
        for a, b in itertools.combinations(rows, 2):
            shared = len(sets[a] & sets[b])
            if shared >= threshold * (len(sets[a]) + len(sets[b]) - shared):
                found.add((a, b))
    return found


def with_equal(lines: Iterable[str]) -> set[Pair]:
    """All pairs of documents, also of equal texts, from the lines of `pairs --json`.

    There a document of an equal text is listed with the first one of that text only.
    """
    texts: dict[int, list[int]] = {}
    apart: list[Pair] = []
    for pair in map(json.loads, lines):
        left, right = int(pair["left"]), int(pair["right"])
        if pair.get("equal"):
            texts.setdefault(left, [left]).append(right)
        else:
            apart.append((left, right))
    found = [rows for members in texts.values() for rows in itertools.combinations(members, 2)]
    for left, right in apart:
        found += itertools.product(texts.get(left, [left]), texts.get(right, [right]))
    return {(min(rows), max(rows)) for rows in found}


def connected(documents: int, pairs: Iterable[Pair]) -> list[int]:
    """The least row that each is connected with."""
    least = list(range(documents))

    def find(row: int) -> int:
        while least[row] != row:
            least[row] = least[least[row]]
            row = least[row]
        return row

    for a, b in pairs:
        x, y = find(a), find(b)
        least[max(x, y)] = min(x, y)
    return [find(row) for row in range(documents)]


def scored_groups(found: list[int], truth: set[Pair]) -> Figures:
    """Recall: the share of the true pairs that are in one group. Precision: of the pairs of
    documents in one group, the share that a chain of true pairs connects.

    found: the group of each document.
    """
    groups, components = np.array(found), np.array(connected(len(found), truth))
    together = pairs_within(groups)
    right = pairs_within(groups * groups.size + components)
    return {
        "recall": share(sum(found[a] == found[b] for a, b in truth), len(truth)),
        "precision": share(right, together),
    }


def scored_removal(kept: list[int], documents: int, truth: set[Pair]) -> Figures:
    """removed: documents. lost: those of which no document stays that a chain of true pairs
    connects with them, itself included, counted once a chain. left: duplicates that stay.
    """
    components = np.array(connected(documents, truth))
    there, stay = np.unique(components).size, np.unique(components[kept]).size
    return {
        "removed": documents - len(kept),
        "lost": there - stay,
        "left": len(kept) - stay,
    }


def pairs_within(groups: I64) -> int:
    """The number of pairs of documents in one group."""
    sizes = np.unique(groups, return_counts=True)[1]
    return int((sizes * (sizes - 1) // 2).sum())


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
