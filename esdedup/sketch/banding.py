"""Chooses the number of bands and of rows a band, by the S-curve and its cost.

Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4.2.
"""

from __future__ import annotations

import bisect
import functools
import math

from esdedup.exceptions import UsageError


def candidate_probability(similarity: float, bands: int, rows: int) -> float:
    """The chance that two sets of Jaccard similarity s meet: the S-curve 1 - (1 - s**r)**b."""
    return 1.0 - math.pow(1.0 - similarity**rows, bands)


# Cached: many queries ask for the same value, and computing it takes longer than looking it up.
@functools.lru_cache
def expected_recall(threshold: float, bands: int, rows: int, least: int = 1) -> float:
    """The chance that two sets of Jaccard similarity `threshold` share at least `least` bands.

    The number they share is Binomial(bands, threshold**rows). With `least` 1 this is the S-curve.
    """
    meeting = threshold**rows
    if least < 1 or meeting == 1.0:
        return float(least <= bands)
    if meeting == 0.0:
        return 0.0
    few = least <= bands * meeting
    # The smaller side is added up, so that rounding loses neither a rare meeting nor a rare miss.
    side = range(least) if few else range(least, bands + 1)
    chance = math.fsum(_binomial(shared, bands, meeting) for shared in side)
    return max(0.0, 1.0 - chance) if few else min(1.0, chance)


@functools.lru_cache
def least_bands(threshold: float, recall: float, bands: int, rows: int) -> int:
    """The most shared bands that a query can ask for and still expect `recall` at `threshold`.

    It is at least 1, even if one shared band does not reach that recall. The more bands a query
    asks for, the fewer documents below the threshold it meets.
    """
    enough = range(1, bands + 1)
    reaching = bisect.bisect_left(
        enough, True, key=lambda least: expected_recall(threshold, bands, rows, least) < recall
    )
    return max(1, reaching)


def _binomial(successes: int, trials: int, chance: float) -> float:
    """The probability of exactly `successes`. Its factors are too large for floats: logarithms."""
    failures = trials - successes
    choices = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(failures + 1)
    return math.exp(choices + successes * math.log(chance) + failures * math.log1p(-chance))


def steepest_similarity(bands: int, rows: int) -> float:
    """The similarity at which the S-curve is about steepest: (1/b)**(1/r)."""
    return math.pow(1.0 / bands, 1.0 / rows)


def background_candidates(documents: float, similarity: float, bands: int, rows: int) -> float:
    """Candidates expected among N unrelated documents of chance similarity s: N * b * s**r."""
    return documents * min(1.0, bands * similarity**rows)


def choose_banding(threshold: float, recall: float, permutations: int) -> tuple[int, int]:
    """Returns (bands, rows) that reach `recall` at `threshold` within `permutations`.

    The choice has the most rows, because each further row divides the candidates that meet by
    chance. It has no more bands than needed, because each costs a token.
    Raises UsageError for values out of range, or if not even one row a band reaches the recall.
    """
    if not 0.0 < threshold < 1.0:
        raise UsageError(f"threshold {threshold}: use a similarity between 0 and 1")
    if not 0.0 < recall < 1.0:
        raise UsageError(f"recall {recall}: use a share between 0 and 1, such as 0.95")
    for rows in range(permutations, 0, -1):
        bands = bands_needed(threshold, recall, rows)
        if bands is not None and bands * rows <= permutations:
            return bands, rows
    needed = bands_needed(threshold, recall, 1)
    many = "more than can be" if needed is None else needed
    raise UsageError(
        f"recall {recall} at threshold {threshold} needs {many} permutations, but there are"
        f" {permutations}"
    )


def bands_needed(threshold: float, recall: float, rows: int) -> int | None:
    """The fewest bands of `rows` rows that reach the recall, or None if no usable number does."""
    meeting = threshold**rows
    if meeting < 1e-12:
        return None
    return max(1, math.ceil(math.log1p(-recall) / math.log1p(-meeting)))
