"""Candidates to matches: each is verified, exactly."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import RecordError
from esdedup.models import Candidate, Match
from esdedup.sketch.simhash import from_hex
from esdedup.sketch.sketch import shingle_sets
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import IndexMeta
from esdedup.text.jaccard import hamming, jaccard_with

_HEX = re.compile("[0-9a-fA-F]+")


def jaccard_matches(
    meta: IndexMeta, shingles: NDArray[np.uint64], candidates: Sequence[Candidate]
) -> list[Match]:
    """The candidates with their Jaccard similarities, the most similar first, ties by id.

    shingles: the set of the text that is looked for, sorted. One without a text is left out.
    """
    found = [candidate for candidate in candidates if _has_text(candidate, meta)]
    texts = [text_of(candidate.document.source, meta.text_field) for candidate in found]
    similarity = jaccard_with(shingles, shingle_sets(texts, meta.scheme))
    matches = [
        Match(candidate.document.id, value, None, candidate.matched, candidate.document.source)
        for candidate, value in zip(found, similarity.tolist(), strict=True)
    ]
    return sorted(matches, key=by_similarity)


def by_similarity(match: Match) -> tuple[float, str]:
    """The order of matches by Jaccard similarity."""
    return -(match.similarity or 0.0), match.id


def hamming_matches(
    meta: IndexMeta, own: NDArray[np.uint64], candidates: Sequence[Candidate]
) -> list[Match]:
    """The candidates with their Hamming distances, the closest first, ties by id.

    own: the fingerprint of the text that is looked for. One without a fingerprint is left out.
    """
    found = [each for each in candidates if _has_print(each, meta, own.size)]
    prints = from_hex([each.document.tokens_in(meta.field)["fingerprint"] for each in found])
    distances = hamming(prints, own[None, :]) if found else np.empty(0, np.int64)
    matches = [
        Match(candidate.document.id, None, value, candidate.matched, candidate.document.source)
        for candidate, value in zip(found, distances.tolist(), strict=True)
    ]
    return sorted(matches, key=lambda match: (match.distance, match.id))


def _has_text(candidate: Candidate, meta: IndexMeta) -> bool:
    """A foreign update may have taken the text away and left the tokens."""
    try:
        text_of(candidate.document.source, meta.text_field)
    except RecordError:
        return False
    return True


def _has_print(candidate: Candidate, meta: IndexMeta, words: int) -> bool:
    """A foreign writer may have put something else there, or tokens without it."""
    found = candidate.document.tokens_in(meta.field).get("fingerprint")
    return isinstance(found, str) and len(found) == 16 * words and _HEX.fullmatch(found) is not None
