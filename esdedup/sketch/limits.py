"""Limits of a comparison: its sketch, threshold, recall and caps, checked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from esdedup.arguments import check_fields, for_use, parsed_by, repeatable, setting
from esdedup.exceptions import UsageError
from esdedup.sketch.within import Within

LOOKING = 0.5
"""The default threshold of commands that only look: similar, pairs, query."""
ACTING = 0.8
"""The default threshold of commands that act on duplicates: group, dedup, report, index."""
MAX_PER_BUCKET = 1_000
MAX_CANDIDATES = 10_000
RECALL = 0.999


class LimitSettings(TypedDict, total=False):
    """The settings of `Limits` that queries and pairs share, as keywords of a call."""

    sketch: str | None
    threshold: float | None
    distance: int | None
    recall: float | None
    cover: float | None
    words: int | None
    cosine: float | None


class QuerySettings(LimitSettings, total=False):
    """The settings of `Limits` for queries, as keywords of a call."""

    k: int
    candidates: int
    within: Within | str | Sequence[str]


class PairSettings(LimitSettings, total=False):
    """The settings of `Limits` for pairs, as keywords of a call."""

    max_per_bucket: int
    within: Within | str | Sequence[str]


@dataclass(frozen=True)
class Limits:
    """Which documents count as similar, and how far to look for them.

    sketch: name of the sketch to compare by, from which the measure follows; None for the first.
    threshold: minimum Jaccard similarity; None for the nearest documents, however different.
    distance: maximum Hamming distance, in bits; None for the one that equal segments guarantee.
    cover: minimum share of the query, or of the document, in shared passages; None for any.
    words: minimum number of words of a passage; None for the shortest that is always found.
    cosine: minimum cosine of vectors; None for that of the sketch.
    k: maximum number of matches of a query.
    candidates: maximum number of documents to fetch and verify for a query.
    recall: fraction of the documents at the threshold to find; None for 99.9%, or as much as the
        scheme reaches. A higher one requires fewer shared bands and more swaps (`banding`), and
        returns more candidates.
    max_per_bucket: compare a document with at most this many others of a bucket. Not for queries.
    least: number of bands to share; None for the most that reach the recall.
    swaps: of queries; None for the fewest that reach the recall.
    within: fields that similar documents agree in, and windows of time.

    Raises UsageError if a value is out of range.
    """

    sketch: str | None = setting(
        None, "Sketch to compare by.", show_default="the scheme's first", metavar="NAME"
    )
    threshold: float | None = setting(LOOKING, "Minimum Jaccard similarity, 0 to 1.", "-t")
    distance: int | None = setting(
        None,
        "Maximum Hamming distance in bits, for a sketch of fingerprints.",
        "-d",
        show_default="what the segments guarantee",
    )
    k: int = for_use("query", setting(10, "Maximum number of matches.", "-k"))
    candidates: int = for_use(
        "query", setting(1_000, "Maximum number of documents to verify.", rare=True)
    )
    recall: float | None = setting(
        None,
        "Share to find of documents at the threshold.",
        show_default="0.999, or what the scheme reaches",
        rare=True,
    )
    max_per_bucket: int = for_use(
        "pairs",
        setting(MAX_PER_BUCKET, "Maximum comparisons of a document in a bucket.", rare=True),
    )
    cover: float | None = setting(
        None,
        "Minimum share in passages, 0 to 1, for a sketch of these.",
        rare=True,
        show_default="any; 0.5 for pairs, 0.8 for groups",
    )
    words: int | None = setting(
        None,
        "Minimum number of words of a passage.",
        rare=True,
        show_default="the shortest that is always found",
    )
    cosine: float | None = setting(
        None,
        "Minimum cosine, 0 to 1, for a sketch of vectors.",
        rare=True,
        show_default="the sketch's, 0.95",
    )
    least: int | None = None
    swaps: int | None = None
    within: Within = repeatable(
        parsed_by(
            Within.parse,
            setting(
                Within(),
                "Only with equal values of FIELD, or times that near; repeatable.",
                metavar="FIELD[:TIME]",
                show_default="all documents",
                rare=True,
            ),
        )
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise UsageError(f"threshold {self.threshold}: use a similarity above 0, up to 1")
        if not 1 <= self.candidates <= MAX_CANDIDATES:
            raise UsageError(f"candidates {self.candidates}: use 1 to {MAX_CANDIDATES}")
        if self.recall is not None and not 0.0 < self.recall < 1.0:
            raise UsageError(f"recall {self.recall}: use a share between 0 and 1, such as 0.99")
        if self.cover is not None and not 0.0 < self.cover <= 1.0:
            raise UsageError(f"cover {self.cover}: use a share above 0, up to 1")
        if self.cosine is not None and not 0.0 < self.cosine <= 1.0:
            raise UsageError(f"cosine {self.cosine}: use a cosine above 0, up to 1")
        for name in ("k", "max_per_bucket", "words"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UsageError(f"{name.replace('_', ' ')} {value}: use at least 1")

    @property
    def wanted_recall(self) -> float:
        """The recall to reach, if that is possible."""
        return RECALL if self.recall is None else self.recall

    def at(self, threshold: float) -> "Limits":
        """Return the limits with another threshold, or another cover if that is the limit."""
        return replace(self, threshold=threshold, cover=None if self.cover is None else threshold)

    @property
    def least_similarity(self) -> float:
        """The cover, or the threshold, for work that needs one.

        Raises UsageError if both are None.
        """
        if self.cover is not None:
            return self.cover
        if self.threshold is None:
            raise UsageError("a threshold is needed here: use a similarity above 0, up to 1")
        return self.threshold
