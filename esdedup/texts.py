"""Similar texts of a list, without ids, files or servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from esdedup.arguments import accepts, check_list, check_type
from esdedup.groups.groups import Grouping, Groups
from esdedup.index import Index, open
from esdedup.pairing.pairs import SimilarPairs
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import shingle_sets
from esdedup.text.jaccard import jaccard_with


def similarity(left: str, right: str, *, scheme: Scheme | None = None) -> float:
    """Return the exact Jaccard similarity of two texts, 0 to 1.

    scheme: how texts become shingles, `Scheme()` by default. Two texts without words are 0.
    """
    check_type("left", left, "str")
    check_type("right", right, "str")
    sets = shingle_sets([left, right], scheme or Scheme())
    return float(jaccard_with(sets[0], sets)[1])


@accepts(Limits, "pairs")
def pairs(
    texts: Iterable[str],
    *,
    scheme: Scheme | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> SimilarPairs:
    """Return all pairs of similar texts, the most similar first.

    Its ids are the positions of the texts, from "0". limits, options: as in `Index.pairs`.
    """
    with _indexed(texts, scheme) as index:
        return index.pairs(limits=limits, **options)


@accepts(Grouping)
def group(
    texts: Iterable[str],
    *,
    scheme: Scheme | None = None,
    grouping: Grouping | None = None,
    **options: Any,
) -> Groups:
    """Return the groups of similar texts, the largest first.

    The ids of a group are the positions of the texts, from "0". grouping, options: as in
    `Index.groups`.
    """
    with _indexed(texts, scheme) as index:
        return index.groups(grouping=grouping, **options)


@contextmanager
def _indexed(texts: Iterable[str], scheme: Scheme | None) -> Iterator[Index]:
    check_list("texts", texts)
    with open(":memory:", scheme=scheme) as index:
        index.add({"id": number, "text": text} for number, text in enumerate(texts))
        yield index
