"""Choose bands, rows per band, and the probes of a query, by their chance to meet and their cost.

Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4.3: documents of Jaccard
similarity J share the minimum of a row with the chance J, and a band of r rows with J**r.

In a probe of a query, some minima of a band are replaced by larger values (`bands.probe_hashes`).
In the order of a row's permutation, the minimum of the document is the (k + 1)-th smallest value of
the query exactly if the first k shingles are of the query alone, and the next one is in both. In
long texts of equal length the chance is J * c**k, with c = (1 - J) / 2. The sum of the k of all
rows is the number of swaps of a probe. C(r + j - 1, j) probes have j swaps, and each is met with
J**r * c**j. A query for all probes of at most w swaps meets a band with the chance

    J**r * sum(C(r + j - 1, j) * c**j for j = 0 ... w)

A query that is much shorter than the document gains less; a longer one gains more.
"""

import bisect
import functools
import math
from collections.abc import Callable

from esdedup.exceptions import UsageError

MOST_SWAPS = 2
"""Third swaps double the terms of a query for about 1% of the documents at Jaccard 0.5."""
SWAPS = 1
"""The swaps of queries that a scheme is chosen for: they halve the bands that it takes."""
MOST_TERMS = 2_048
"""Maximum number of terms that swaps may give a query."""


def meeting(similarity: float, rows: int, swaps: int = 0) -> float:
    """Return the chance that a query with at most `swaps` swaps meets one band of a document."""
    apart = (1.0 - similarity) / 2.0
    probe_chances = sum(
        math.comb(rows + swapped - 1, swapped) * apart**swapped for swapped in range(swaps + 1)
    )
    return min(1.0, similarity**rows * probe_chances)


def probes(rows: int, swaps: int) -> int:
    """Return the number of probes of a band with at most `swaps` swaps."""
    return sum(math.comb(rows + swapped - 1, swapped) for swapped in range(swaps + 1))


@functools.lru_cache  # Many queries require the same value.
def expected_recall(
    threshold: float, bands: int, rows: int, least: int = 1, swaps: int = 0
) -> float:
    """Return the chance that a query meets at least `least` bands: Binomial(bands, meeting).

    For one band without swaps this is the S-curve, 1 - (1 - s**r)**b.
    """
    return shared_at_least(least, bands, meeting(threshold, rows, swaps))


def shared_at_least(least: int, bands: int, met: float) -> float:
    """Return the chance to meet at least `least` bands. met: the chance to meet each one."""
    if least < 1 or met == 1.0:
        return float(least <= bands)
    if met == 0.0:
        return 0.0
    sums_misses = least <= bands * met
    # Summing the smaller side loses neither a rare meeting nor a rare miss to rounding.
    side = range(least) if sums_misses else range(least, bands + 1)
    chance = math.fsum(_binomial(shared, bands, met) for shared in side)
    return max(0.0, 1.0 - chance) if sums_misses else min(1.0, chance)


@functools.lru_cache
def least_bands(threshold: float, recall: float, bands: int, rows: int, swaps: int = 0) -> int:
    """Return the most shared bands to require that still reach `recall`; at least 1."""
    expected = functools.partial(expected_recall, threshold, bands, rows, swaps=swaps)
    return most_required(recall, bands, expected)


def most_required(recall: float, groups: int, expected: Callable[[int], float]) -> int:
    """Return the most shared groups to require that still reach `recall`; at least 1.

    expected: returns the recall if a number of groups is required; it falls with the number.
    """
    enough = range(1, groups + 1)
    return max(1, bisect.bisect_left(enough, True, key=lambda least: expected(least) < recall))


@functools.lru_cache
def swaps_for(threshold: float, recall: float, bands: int, rows: int) -> int:
    """Return the fewest swaps that reach `recall`; the most possible if none does."""
    possible = [
        swaps
        for swaps in range(MOST_SWAPS + 1)
        if not swaps or bands * probes(rows, swaps) <= MOST_TERMS
    ]
    reaching = (
        swaps for swaps in possible if expected_recall(threshold, bands, rows, 1, swaps) >= recall
    )
    return next(reaching, possible[-1])


def _binomial(successes: int, trials: int, chance: float) -> float:
    """Return the probability of exactly `successes`, by logarithms of its large factors."""
    failures = trials - successes
    choices = math.lgamma(trials + 1) - math.lgamma(successes + 1) - math.lgamma(failures + 1)
    return math.exp(choices + successes * math.log(chance) + failures * math.log1p(-chance))


def choose_banding(
    threshold: float, recall: float, permutations: int, swaps: int = SWAPS
) -> tuple[int, int]:
    """Return (bands, rows) for queries with `swaps` swaps to reach `recall` at `threshold`.

    The most rows that reach it without swaps, as each row divides the chance candidates, and the
    fewest bands that the queries need, as each costs a token.
    Raises UsageError for values out of range, or if not even one row a band reaches the recall.
    """
    if not 0.0 < threshold < 1.0:
        raise UsageError(f"threshold {threshold}: use a similarity between 0 and 1")
    if not 0.0 < recall < 1.0:
        raise UsageError(f"recall {recall}: use a share between 0 and 1, such as 0.95")
    for rows in range(permutations, 0, -1):
        bands = bands_needed(threshold, recall, rows)
        if bands is not None and bands * rows <= permutations:
            return bands_needed(threshold, recall, rows, swaps) or bands, rows
    needed = bands_needed(threshold, recall, 1)
    needed_permutations = "more than can be" if needed is None else needed
    raise UsageError(
        f"recall {recall} at threshold {threshold} needs {needed_permutations} permutations, but"
        f" there are {permutations}"
    )


def bands_needed(threshold: float, recall: float, rows: int, swaps: int = 0) -> int | None:
    """Return the fewest bands of `rows` rows that reach the recall, or None if too many do."""
    met = meeting(threshold, rows, swaps)
    if met < 1e-12:
        return None
    return 1 if met == 1.0 else max(1, math.ceil(math.log1p(-recall) / math.log1p(-met)))
