"""Warnings, as sentences, that a search or a comparison may have missed documents."""

import math

from esdedup.models import Result, Statistics
from esdedup.search.buckets import Capped
from esdedup.search.similar import levels_of
from esdedup.sketch.banding import bands_needed
from esdedup.sketch.kinds.bands import MOST_PERMUTATIONS
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme

GOOD_RECALL = 0.95
"""Least expected recall without a warning."""


def lacking(result: Result, limits: Limits, scheme: Scheme) -> str | None:
    """Return a warning if a query's matches may be incomplete, else None."""
    if limits.threshold is not None:
        unknown = result.recall is None or result.blind
        return None if unknown else lacking_recall(result.recall, limits)
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


def without_tokens(statistics: Statistics) -> str | None:
    """Return a warning if documents without tokens are not compared, else None."""
    skipped = statistics.documents - statistics.sketched
    if not skipped:
        return None
    return (
        f"{skipped:,} of {statistics.documents:,} documents have no tokens of this index's"
        " scheme and are left out"
    )


def cut_buckets(capped: Capped, max_per_bucket: int) -> str | None:
    """Return a warning if not all documents of a bucket were compared, else None."""
    if not capped.buckets:
        return None
    return (
        f"{capped.buckets:,} buckets hold more than {max_per_bucket:,} documents, up to"
        f" {capped.largest:,}: each was compared with the first {max_per_bucket:,} of them, and a"
        " pair may be missing. Raise --max-per-bucket"
    )


def percent(share: float) -> str:
    """Return a share in percent, not rounded to all or nothing."""
    if share <= 0.0:
        return "none"
    # As many digits as there are nines.
    digits = 3 if share >= 1.0 else max(3, math.ceil(-math.log10(1.0 - share)))
    return f"{100 * share:.{digits}g}%"
