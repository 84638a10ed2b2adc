"""Answers to similar: as JSON, as a table, and what they lack in words."""

from __future__ import annotations

from typing import Any

from esdedup.cli.output import message, print_table, snippet
from esdedup.models import FIELD, Match, Result
from esdedup.search.limits import Limits
from esdedup.stores.fields import value_at

_GOOD_RECALL = 0.95
"""Less is said, whatever is printed."""


def answer(result: Result, id: str | None, with_source: bool) -> dict[str, Any]:
    """An answer as JSON."""
    return {
        "query": id,
        "matches": [_match(match, with_source) for match in result.matches],
        "candidates": result.candidates,
        "truncated": result.truncated,
        "expected_recall": result.recall,
        "asked": result.asked,
        "stopped": result.stopped,
    }


def _match(match: Match, with_source: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"id": match.id}
    if match.similarity is not None:
        document["similarity"] = match.similarity
    else:
        document["distance"] = match.distance
    document["matched"] = match.matched
    if with_source:
        document["source"] = {name: value for name, value in match.source.items() if name != FIELD}
    return document


def lacking(result: Result, limits: Limits, values: bool) -> str | None:
    """What a look can't find, in words, or None. values: the index has tokens of single values."""
    if limits.threshold is None:
        return _lacking_nearest(result, limits, values)
    if result.recall is None or result.blind:
        return None
    if result.stopped:
        return _lacking_bands(result.recall, limits.threshold)
    return lacking_recall(result.recall, limits.threshold, limits.recall)


def lacking_recall(expected: float, threshold: float, wanted: float) -> str | None:
    """What is said where much of what is at the threshold is not found, or None."""
    if expected >= _GOOD_RECALL:
        return None
    at, share = f"{threshold:g}", _percent(expected)
    if expected >= wanted:
        return f"Of documents at Jaccard {at} about {share} are found: raise --recall"
    return (
        f"Of documents at Jaccard {at} this index finds about {share}: make one with esdedup"
        f" scheme --threshold {at}"
    )


def _lacking_bands(expected: float, threshold: float) -> str | None:
    """What is said where it may be for want of the bands that were left out."""
    if expected >= _GOOD_RECALL:
        return None
    return (
        f"Of documents at Jaccard {threshold:g} about {_percent(expected)} are found by the bands"
        " that were looked up"
    )


def _lacking_nearest(result: Result, limits: Limits, values: bool) -> str | None:
    found, wanted = len(result.matches), limits.matches
    if result.blind and not found:
        return None
    better = "" if values else ": an index of esdedup scheme --signature 128 finds more"
    if found < wanted and not result.truncated:
        token = "a token that was looked up" if result.stopped else "a token"
        return f"Only {found} of {wanted} were found, as no other document shares {token}{better}"
    if result.recall is None or result.recall >= _GOOD_RECALL:
        return None
    share = f"Of documents as near as the last about {_percent(result.recall)} are found"
    return share + (better or ": raise --candidates")


def _percent(share: float) -> str:
    """A share that does not round to all or nothing."""
    return f"{min(99.9, 100 * share):.3g}%" if share > 0 else "none"


def show(result: Result, limits: Limits, text_field: str) -> None:
    """An answer as a table."""
    matches = result.matches
    if not matches:
        message("No similar documents")
        return
    by_distance = matches[0].similarity is None
    print_table(
        [
            ("distance" if by_distance else "similarity", "number"),
            ("id", "key"),
            ("text", "line"),
        ],
        [
            (
                str(match.distance) if by_distance else f"{match.similarity:.3f}",
                match.id,
                snippet(value_at(match.source, text_field)),
            )
            for match in matches
        ],
        title=_title(result, limits),
    )


def _title(result: Result, limits: Limits) -> str | None:
    if result.recall is None or result.recall < _GOOD_RECALL:
        return None
    at = "as near as the last" if limits.threshold is None else f"at Jaccard {limits.threshold:g}"
    return f"Of documents {at} about {_percent(result.recall)} are found"
