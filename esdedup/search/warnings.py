"""Warnings, as sentences, that a search or a comparison may have missed documents."""

import math
from collections.abc import Iterator

from esdedup.models import Result, Statistics
from esdedup.search.buckets import Capped
from esdedup.search.similar import levels_of
from esdedup.sketch.banding import bands_needed
from esdedup.sketch.kinds.bands import MOST_PERMUTATIONS
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.text.characters import count

GOOD_RECALL = 0.95
"""Least expected recall without a warning."""


def missing_matches(
    result: Result, limits: Limits, scheme: Scheme, *, of_many: bool = False
) -> Iterator[str]:
    """Yield warnings of missing matches. of_many: without numbers that differ between texts."""
    if result.truncated:
        yield (
            f"More than {limits.candidates} candidates: the best {limits.candidates} were verified,"
            " and a match may be missing. Raise --candidates, and index.max_result_window if it is"
            " lower"
        )
    if (result.asked or result.stopped) and (lack := _lacking(result, limits, scheme)):
        differs = of_many and (limits.threshold is None or result.stopped)
        yield "Fewer than -k matches, or missing ones: see expected_recall" if differs else lack
    chosen = scheme.chosen(limits)
    parts = {"hamming": "segments", "jaccard": "bands", "cover": "tokens"}[chosen.metric]
    if (limits.words or chosen.passage) < chosen.passage:
        yield f"A passage of fewer than {chosen.passage} words may be missing"
    if result.blind:
        yield f"Nothing could be looked for: all {parts} of the text are in the stop list"
    elif result.stopped:
        by_distance = chosen.metric == "hamming"
        lost = "within the distance may be" if by_distance else "that share only these are"
        skipped = f"Some {parts} of the text were skipped, as they are in the stop list"
        yield f"{skipped}: matches {lost} missing"


def _lacking(result: Result, limits: Limits, scheme: Scheme) -> str | None:
    """Return a warning if the expected recall is low, else None."""
    if limits.threshold is not None:
        # More candidates help a truncated answer, not another scheme.
        other = result.recall is None or result.blind or result.truncated
        return None if other else lacking_recall(result.recall, limits)
    found = len(result.matches)
    if result.blind and not found:
        return None
    chosen = scheme.chosen(limits)
    several = len(levels_of(scheme, chosen)) > 1
    better = "" if several else f": an index of {chosen.nearest} finds more"
    if found < limits.k and not result.truncated:
        token = "a token that was looked up" if result.stopped else "a token"
        return f"Only {found} of {limits.k} were found, as no other document shares {token}{better}"
    if result.recall is None or result.recall >= GOOD_RECALL:
        return None
    share = f"Of documents as near as the last about {percent(result.recall)} are found"
    return share + (better or ": raise --candidates")


def lacking_recall(expected: float | None, limits: Limits) -> str | None:
    """Return a warning if the recall is below the requested one, or `GOOD_RECALL`, else None.

    expected: None if it is unknown, because buckets are stopped or truncated.
    """
    if expected is None:
        return (
            "How many similar pairs are missing is unknown: pairs that share only stopped or"
            " truncated buckets were not compared"
        )
    wanted = GOOD_RECALL if limits.recall is None else limits.recall
    if limits.threshold is None or expected >= wanted:
        return None
    at = f"{limits.threshold:g}"
    warning = f"Of documents at Jaccard {at} about {percent(expected)} are found"
    if limits.recall is not None:
        warning += f", less than --recall {percent(wanted)}"
    if (bands_needed(limits.threshold, wanted, 1) or math.inf) > MOST_PERMUTATIONS:
        return f"{warning}. No scheme reaches {percent(wanted)}"
    made = f"esdedup scheme --threshold {at} --recall {wanted:g}"
    return f"{warning}. An index with the scheme that `{made}` prints finds more"


def not_compared(statistics: Statistics, stopped: int) -> Iterator[str]:
    """Yield warnings of documents without tokens, and of the number of tokens in the stop list."""
    if skipped := statistics.documents - statistics.sketched:
        yield (
            f"{skipped:,} of {statistics.documents:,} documents have no tokens of this index's"
            " scheme and are left out"
        )
    if stopped:
        yield (
            f"{count(stopped, 'token is', 'tokens are')} in the stop list of the index: documents"
            " that share only these are not compared, unless their texts are equal"
        )


def missing_pairs(recall: float | None, capped: Capped, limits: Limits) -> Iterator[str]:
    """Yield warnings of similar pairs that may be missing."""
    if lack := lacking_recall(recall, limits):
        yield lack
    if capped.buckets:
        most = f"{limits.max_per_bucket:,}"
        yield (
            f"{capped.buckets:,} buckets hold more than {most} documents, up to"
            f" {capped.largest:,}: each was compared with the first {most} of them, and a pair may"
            " be missing. Raise --max-per-bucket"
        )


def percent(share: float) -> str:
    """Return a share in percent, not rounded to all or nothing."""
    if share <= 0.0:
        return "none"
    # As many digits as there are nines.
    digits = 3 if share >= 1.0 else max(3, math.ceil(-math.log10(1.0 - share)))
    return f"{100 * share:.{digits}g}%"
