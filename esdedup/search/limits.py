"""Limits of a search: threshold, recall and caps, checked; and the tokens they need of a scheme."""

from __future__ import annotations

import functools
from contextlib import suppress
from dataclasses import dataclass, replace

from esdedup.arguments import check_fields, setting
from esdedup.exceptions import UsageError
from esdedup.models import Metric
from esdedup.sketch.banding import choose_banding, least_bands, swaps_for
from esdedup.sketch.kinds.minhash import MOST_PERMUTATIONS, MinHash
from esdedup.sketch.kinds.segments import Layout
from esdedup.sketch.scheme import Scheme

LOOKING = 0.5
"""The default threshold of commands that only look: similar, pairs, query."""
ACTING = 0.8
"""The default threshold of commands that act on duplicates: group, dedup, report, index."""
MAX_PER_BUCKET = 1_000
"""By default pairs and groups compare a document with at most this many others of a bucket."""
MAX_CANDIDATES = 10_000
RECALL = 0.999
NEAREST = 0.1
"""The similarity by which swaps are chosen if there is no threshold."""
_PERMUTATIONS = 160
MAX_PROBES = 65_536
"""The maximum number of terms that servers take in one query by default."""


@dataclass(frozen=True)
class Limits:
    """Says which documents count as similar, and how far to look for them.

    metric: "jaccard" or "hamming".
    threshold: minimum Jaccard similarity; None for the nearest documents, however different.
    distance: maximum Hamming distance, in bits; None for the one that equal segments guarantee.
    k: maximum number of matches of a query.
    candidates: maximum number of documents to fetch and verify for a query.
    recall: share of the documents at the threshold to find. A higher recall requires fewer shared
    bands and more swaps (`banding`), and returns more candidates.
    max_bucket: skip bands or segments whose bucket holds more documents, but keep one; None to skip
    only the stop list. It costs one more round trip. Only for queries.
    max_per_bucket: compare a document with at most this many others of a bucket. Not for queries.
    least: number of bands to share; None for the most that reach the recall.
    swaps: of queries; None for the fewest that reach the recall.

    Raises UsageError if a value is out of range.
    """

    metric: Metric = setting("jaccard", "Measure of similarity.", "-m")
    threshold: float | None = setting(LOOKING, "Minimum Jaccard similarity, 0 to 1.", "-t")
    distance: int | None = setting(
        None,
        "Maximum Hamming distance in bits, with --metric hamming.",
        "-d",
        show_default="what the segments guarantee",
    )
    k: int = setting(10, "Maximum number of matches.", "-k", use="query")
    candidates: int = setting(
        1_000, "Maximum number of documents to verify.", use="query", rare=True
    )
    recall: float = setting(RECALL, "Share to find of documents at the threshold.", rare=True)
    max_bucket: int | None = setting(
        None, "Skip buckets of more documents.", show_default="no limit", use="query", rare=True
    )
    max_per_bucket: int = setting(
        MAX_PER_BUCKET, "Maximum comparisons of a document in a bucket.", use="pairs", rare=True
    )
    least: int | None = None
    swaps: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.metric not in ("jaccard", "hamming"):
            raise UsageError(f"metric {self.metric!r}: use jaccard or hamming")
        if self.threshold is not None:
            if not 0.0 < self.threshold <= 1.0:
                raise UsageError(f"threshold {self.threshold}: use a similarity above 0, up to 1")
        elif self.metric == "hamming":
            raise UsageError("the nearest documents are found by metric jaccard")
        elif self.max_bucket is not None:
            raise UsageError("buckets are limited with a threshold, not for the nearest documents")
        if self.k < 1:
            raise UsageError(f"k {self.k}: use at least 1")
        if not 1 <= self.candidates <= MAX_CANDIDATES:
            raise UsageError(f"candidates {self.candidates}: use 1 to {MAX_CANDIDATES}")
        if not 0.0 < self.recall < 1.0:
            raise UsageError(f"recall {self.recall}: use a share between 0 and 1, such as 0.99")
        if self.max_bucket is not None and self.max_bucket < 1:
            raise UsageError(f"max bucket {self.max_bucket}: use at least 1 document")
        if self.max_per_bucket < 1:
            raise UsageError(f"max per bucket {self.max_per_bucket}: use at least 1 document")

    @property
    def least_similarity(self) -> float:
        """The threshold, for work that needs one. Raises UsageError if it is None."""
        if self.threshold is None:
            raise UsageError("a threshold is needed here: use a similarity above 0, up to 1")
        return self.threshold

    def swaps_for(self, scheme: Scheme) -> int:
        """The swaps of queries: for the nearest documents the most, by Hamming distance none."""
        if self.metric == "hamming":
            return 0
        if self.swaps is not None:
            return self.swaps
        minhash, threshold = require_minhash(scheme), self.threshold or NEAREST
        return swaps_for(threshold, self.recall, minhash.bands, minhash.rows)

    def least_of(self, bands: int, rows: int, swaps: int = 0) -> int:
        """The number of bands, of so many that are looked up, to share at the threshold."""
        if self.least is not None:
            return self.least
        return least_bands(self.least_similarity, self.recall, bands, rows, swaps)

    def check_for_pairs(self, scheme: Scheme) -> None:
        """Raise UsageError if these limits can't be used for pairs and groups, in this scheme."""
        if self.max_bucket is not None:
            raise UsageError("max bucket is for queries: use max per bucket for pairs and groups")
        if self.metric == "hamming":
            distance_for(require_simhash(scheme), self.distance)
        else:
            require_minhash(scheme)
            _ = self.least_similarity


# Cached: making a scheme checks all of its parameters, and every query needs one.
@functools.lru_cache(16)
def comparing_scheme(scheme: Scheme, limits: Limits) -> Scheme:
    """The scheme to compare texts by that no stored tokens bind: with as many bands as it takes.

    Its bands find documents at the threshold with the recall asked for, without swaps. More rows a
    band take longer to sketch, and fewer leave more candidates to verify.
    """
    if limits.metric == "hamming" or limits.least_similarity == 1.0:
        return narrowed_scheme(scheme, limits.metric)
    threshold, recall = limits.least_similarity, limits.recall
    for permutations in (_PERMUTATIONS, MOST_PERMUTATIONS):
        with suppress(UsageError):
            bands, rows = choose_banding(threshold, recall, permutations, 0)
            return replace(scheme, minhash=MinHash(permutations, bands, rows), simhash=None)
    return narrowed_scheme(scheme, limits.metric)


@functools.lru_cache(16)
def narrowed_scheme(scheme: Scheme, metric: Metric, nearest: bool = False) -> Scheme:
    """The part of a scheme that a metric needs, or the whole scheme if it lacks that part.

    nearest: keep the single values of the signature, which only a search for the nearest uses.
    """
    if metric == "jaccard" and scheme.minhash is not None:
        values = scheme.minhash.signature if nearest else 0
        return replace(scheme, minhash=replace(scheme.minhash, signature=values), simhash=None)
    if metric == "hamming" and scheme.simhash is not None:
        return replace(scheme, minhash=None)
    return scheme


def require_minhash(scheme: Scheme) -> MinHash:
    """The scheme's MinHash parameters. Raises UsageError if it has none."""
    if scheme.minhash is None:
        raise UsageError("the index has no MinHash tokens: use --metric hamming")
    return scheme.minhash


def require_simhash(scheme: Scheme) -> Layout:
    """The layout of the scheme's segments. Raises UsageError if it has none."""
    if scheme.simhash is None:
        raise UsageError("the index has no SimHash tokens: use --metric jaccard")
    return scheme.simhash.layout


def distance_for(layout: Layout, distance: int | None) -> int:
    """The given Hamming distance; if it is None, the one that equal segments guarantee.

    Raises UsageError if it takes more probes than one query of a cluster can hold.
    """
    if distance is None:
        return layout.guarantee()
    probes = layout.probes(layout.radius_for(distance))
    if probes > MAX_PROBES:
        raise UsageError(
            f"distance {distance} on a {layout} layout needs {probes:,} terms a query; a cluster"
            f" takes {MAX_PROBES:,}: ask for less, or make an index with more segments"
        )
    return distance
