"""Verifies candidates by the passages that they share with a query, and finds these."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from esdedup.models import Candidates, Cover, Document, Match, Passage
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.sketch import hashed_words
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64, U64
from esdedup.text.highlight import placed
from esdedup.text.passages import covers, shared_runs


def covered_matches(
    meta: IndexMeta,
    level: Sketch,
    texts: Sequence[str],
    candidates: Sequence[Candidates],
    limits: Limits,
) -> list[list[Match]]:
    """Return the candidates of each query within the limits, without their passages, unordered.

    texts: of the queries.
    """
    documents = [each for some in candidates for each in some.documents]
    matched = [each for some in candidates for each in some.matched]
    owners = np.repeat(np.arange(len(texts)), [len(some.documents) for some in candidates])
    _, own = hashed_words(texts, meta.scheme)
    _, theirs = hashed_words([_text_of(each, meta) for each in documents], meta.scheme)
    least = limits.words or level.passage
    words = covers(own, owners, theirs, np.arange(owners.size), least)
    shares = words / np.maximum([own.counts[owners], theirs.counts], 1)
    matches: list[list[Match]] = [[] for _ in texts]
    for row in np.flatnonzero(words[0] * (shares.max(axis=0) >= (limits.cover or 0.0))).tolist():
        each, cover = documents[row], Cover(int(words[0, row]), *shares[:, row].tolist())
        found = Match(each.id, None, None, matched[row], each.source, cover)
        matches[owners[row]].append(found)
    return matches


def with_passages(
    meta: IndexMeta, level: Sketch, text: str, matches: Sequence[Match], limits: Limits
) -> list[Match]:
    """Return the matches of a query with their passages. text: of the query."""
    scheme, least = meta.scheme, limits.words or level.passage
    parameters = scheme.normalisation, scheme.shingling, scheme.seed
    own, made = placed(text, *parameters), []
    for match in matches:
        theirs = placed(_text_of(match, meta), *parameters)
        runs = shared_runs(own[0], theirs[0], least)
        found = tuple(
            Passage(size, left, _span(own, left, size), right, _span(theirs, right, size))
            for left, right, size in _widest(*runs).tolist()
        )
        assert match.cover is not None
        made.append(replace(match, cover=replace(match.cover, passages=found)))
    return made


def _text_of(each: Document | Match, meta: IndexMeta) -> str:
    # Other clients may have removed a text and left its tokens.
    return text_at(each.source, meta.text_fields) or ""


def _widest(left: I64, right: I64, lengths: I64) -> I64:
    """Return the runs that are within no other on one of the sides, shape (m, 3), ordered.

    Of equal ones on a side it is the first, so that all words in runs are in one of these.
    """
    runs = np.stack([left, right, lengths], axis=1)
    both = []
    for own, other in ((left, right), (right, left)):
        order = np.lexsort((other, -lengths, own))
        ends = (own + lengths)[order]
        both.append(order[np.append(-1, np.maximum.accumulate(ends)[:-1])[: ends.size] < ends])
    wider: I64 = np.unique(runs[np.concatenate(both)], axis=0)
    return wider


def _span(places: tuple[U64, I64, I64], first: int, words: int) -> tuple[int, int]:
    """Return the first character of words, and the end of the last one."""
    _, starts, ends = places
    return int(starts[first]), int(ends[first + words - 1])
