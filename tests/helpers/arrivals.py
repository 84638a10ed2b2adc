"""Families of texts, and their groups by the rule, one document at a time by brute force."""

from typing import Any

import numpy as np

import esdedup
from esdedup import DuplicatePolicy
from esdedup.sketch.sketch import shingle_sets, sketch
from esdedup.text.jaccard import hamming, jaccard

SCHEME = esdedup.Scheme()
Texts = dict[str, str]
Marks = dict[str, dict[str, Any]]


def family(seed: int, edits: int, *, chinese: bool = False) -> str:
    """Return a text of sixty words, of which `edits` are replaced at random, by the seed."""
    rng = np.random.default_rng(seed // 100)
    words = [_word(rng, chinese) for _ in range(60)]
    rng = np.random.default_rng(seed)
    for at in rng.integers(0, 60, edits).tolist():
        words[at] = _word(rng, chinese)
    return ("" if chinese else " ").join(words)


def _word(rng: np.random.Generator, chinese: bool) -> str:
    return chr(int(rng.integers(0x4E00, 0x9000))) if chinese else f"w{rng.integers(10**6)}"


def by_brute_force(texts: Texts, policy: DuplicatePolicy) -> Marks:
    """Return the marks of each document, grouping one after the other by the rule."""
    ids, contents = list(texts), list(texts.values())
    sets = shingle_sets(contents, SCHEME)
    sketches = sketch(contents, SCHEME)
    prints = sketches.values["simhash"]
    marks: Marks = {}
    leaders: list[int] = []
    first: dict[str, int] = {}
    for row, id in enumerate(ids):
        digest = sketches.digests[row]
        marks[id] = {"group": id}
        if not contents[row]:
            continue
        if digest in first:
            original = ids[first[digest]]
            value: dict[str, Any] = {"similarity": 1.0}
            if policy.sketch == "simhash":
                value = {"distance": 0}
            marks[id] = (
                marks[original]
                if "original" in marks[original]
                else {"group": original, "original": original, **value}
            )
            continue
        first[digest] = row
        if not sketches.filled[row]:
            continue
        before, me = np.array(leaders, np.int64), np.full(len(leaders), row)
        if policy.sketch is None:
            name, sign, most = "similarity", -1, -policy.threshold
            values: list[float] = jaccard(sets, before, me).tolist()
        else:
            name, sign, most = "distance", 1, 3.0
            values = hamming(prints[before], prints[me]).tolist()
        near = [
            (sign * value, int(ids[leader][1:]), ids[leader], value)
            for leader, value in zip(leaders, values, strict=True)
            if sign * value <= most
        ]
        if near:
            _, _, leader_id, measured = min(near)
            marks[id] = {"group": leader_id, "original": leader_id, name: measured}
        else:
            leaders.append(row)
    return marks
