"""Find the passages that matches share with a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from esdedup.models import Match, Passage
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64, U64
from esdedup.text.highlight import placed
from esdedup.text.passages import shared_runs


def with_passages(
    meta: IndexMeta, level: Sketch, text: str, matches: Sequence[Match], limits: Limits
) -> list[Match]:
    """Return the matches of a query with their passages. text: of the query."""
    scheme, least = meta.scheme, limits.words or level.passage
    query_words = _Words.of(text, scheme)
    with_passages = []
    for match in matches:
        document_words = _Words.of(_text_of(match, meta), scheme)
        runs = _widest(*shared_runs(query_words.hashes, document_words.hashes, least))
        passages = tuple(
            Passage(
                words,
                query_start,
                query_words.span(query_start, words),
                document_start,
                document_words.span(document_start, words),
            )
            for query_start, document_start, words in runs.tolist()
        )
        assert match.cover is not None
        with_passages.append(replace(match, cover=replace(match.cover, passages=passages)))
    return with_passages


def _text_of(match: Match, meta: IndexMeta) -> str:
    # Other clients may have removed a text and left its tokens.
    return text_at(match.source, meta.text_fields) or ""


@dataclass(frozen=True, eq=False)
class _Words:
    """The words of a text, and where they are in it.

    hashes: of the words, shape (n,).
    starts: the first character of each word, shape (n,).
    ends: the end of each word, shape (n,).
    """

    hashes: U64
    starts: I64
    ends: I64

    @staticmethod
    def of(text: str, scheme: Scheme) -> _Words:
        """Split a text as a scheme does."""
        return _Words(*placed(text, scheme.normalisation, scheme.shingling, scheme.seed))

    def span(self, first: int, count: int) -> tuple[int, int]:
        """Return the first character of words, and the end of the last one."""
        return int(self.starts[first]), int(self.ends[first + count - 1])


def _widest(left: I64, right: I64, lengths: I64) -> I64:
    """Return the runs that are within no other on one of the sides, shape (m, 3), ordered.

    Of equal ones on a side it is the first, so that all words in runs are in one of these.
    """
    runs = np.stack([left, right, lengths], axis=1)
    widest = []
    for starts, other_starts in ((left, right), (right, left)):
        order = np.lexsort((other_starts, -lengths, starts))
        ends = (starts + lengths)[order]
        # A run is within an earlier one unless it ends after all of them.
        last_end_before = np.append(-1, np.maximum.accumulate(ends)[:-1])[: ends.size]
        widest.append(order[last_end_before < ends])
    ordered: I64 = np.unique(runs[np.concatenate(widest)], axis=0)
    return ordered
