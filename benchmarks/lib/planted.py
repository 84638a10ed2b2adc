"""Texts with planted groups of near-duplicates, and the true pairs among them.

Of every 1,000 texts of about 400 characters, 700 are like no other; the rest are in groups of two
to six: a text, and copies of it with none to five words replaced, shuffled over the whole. The
truth is worked out apart, from sets of word triples in plain Python.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

import numpy as np

from benchmarks.lib.texts import CHUNK, Growing

CHARACTERS = 400
FRESH = 700

Pair = tuple[int, int]


def planted(documents: int, seed: int = 1) -> tuple[list[str], list[int]]:
    """Texts in any order, and the planted group of each."""
    source = Growing(CHARACTERS, seed)
    texts: list[str] = []
    groups: list[int] = []
    number = 0
    while len(texts) < documents:
        chunk = source.chunk(number)
        rng = np.random.default_rng([seed, number, 1])
        # Every tenth of these is an edited copy: texts without a duplicate are taken from the rest.
        fresh = [text for row, text in enumerate(chunk) if row % 10 not in (9, 0)]
        number += 1
        made = 0
        for at, text in enumerate(fresh):
            size = 1 if at < FRESH else int(rng.integers(2, 7))
            copies = [text, *(edited(source, text, rng) for _ in range(size - 1))]
            texts += copies
            groups += [number * CHUNK + at] * size
            made += size
            if made >= CHUNK:
                break
    order = np.random.default_rng(seed).permutation(len(texts))[:documents].tolist()
    return [texts[row] for row in order], [groups[row] for row in order]


def edited(source: Growing, text: str, rng: np.random.Generator) -> str:
    """A copy with none to five words replaced."""
    words = text.split(" ")
    for at in rng.integers(0, len(words), rng.integers(0, 6)).tolist():
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


def share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
