"""Queries of `search.py` to a corpus, their true answers, and the score of an answer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import esdedup
from benchmarks.lib.corpora import Corpus, corpus
from benchmarks.lib.truth import similarities
from benchmarks.peers.ways import THRESHOLDS
from esdedup.sketch.sketch import shingle_sets

WARM = 100
"""Queries before the measured ones."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A corpus, the rows to ask for, and which rows are to be found, by threshold."""

    corpus: Corpus
    texts: list[str]
    asked: list[int]
    warm: list[int]
    near: dict[float, list[NDArray[np.intp]]]

    def described(self) -> dict[str, Any]:
        """For the file of results."""
        found = {f"similar_at_{each}": sum(map(len, near)) for each, near in self.near.items()}
        size = sum(len(text.encode()) for text in self.texts) / len(self.texts)
        return {
            **self.corpus.described(),
            "searched": len(self.texts),
            "queries": len(self.asked),
            **found,
            "most_similar_to_one": max(len(rows) for near in self.near.values() for rows in near),
            "text_bytes_per_document": round(size),
        }


def task(name: str, documents: int | None, queries: int) -> Task:
    """The queries to a corpus: the same rows in each run."""
    whole = corpus(name)
    texts = whole.texts()[:documents]
    sets = shingle_sets(texts, esdedup.Scheme())
    rng = np.random.default_rng(3)
    filled = rng.permutation(np.flatnonzero(sets.counts)).tolist()
    asked, warm = filled[:queries], filled[queries : queries + WARM]
    of = similarities(sets)
    values = [of(row) for row in asked]
    near = {each: [np.flatnonzero(row >= each) for row in values] for each in THRESHOLDS}
    return Task(whole, texts, asked, warm, near)


def scored(
    task: Task,
    threshold: float,
    way: tuple[str, str],
    found: Sequence[Sequence[int]],
    times: Sequence[float],
) -> Row:
    """A row of results, without the figures of the index. times: in milliseconds."""
    right = sum(
        np.intersect1d(rows, near, assume_unique=True).size
        for rows, near in zip(found, task.near[threshold], strict=True)
    )
    wanted, answered = sum(map(len, task.near[threshold])), sum(map(len, found))
    recall = right / wanted if wanted else 1.0
    precision = right / answered if answered else 1.0
    return {
        "corpus": task.corpus.name,
        "threshold": threshold,
        "method": way[0],
        "setting": way[1],
        "tuned": False,
        "recall": round(recall, 4),
        "precision": round(precision, 4),
        "f1": round(2 * right / (wanted + answered), 4) if wanted + answered else 1.0,
        "answers_per_query": round(answered / len(found), 1),
        "median_ms": round(float(np.median(times)), 3),
        "p99_ms": round(float(np.quantile(times, 0.99)), 3),
    }
