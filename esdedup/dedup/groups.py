"""Groups of near-duplicates: how they are wanted, and what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.representative import KeepRule
from esdedup.exceptions import UsageError
from esdedup.models import Metric
from esdedup.search.buckets import Capped
from esdedup.search.limits import RECALL, check_recall, check_threshold
from esdedup.text.hashing import U64

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

Method = Literal["components", "leader"]
OnStep = Callable[[str, int, int], None]
"""Called with a step's name, what is done of it, and what there is to do."""

MAX_BUCKET = 1_000


@dataclass(frozen=True)
class Grouping:
    """How documents are grouped.

    method: "components" joins all that a chain of similar documents connects; "leader" takes
    documents in their order of precedence, and each joins its nearest leader, or becomes one.
    metric, threshold, distance: as in `Limits`. keep: which document of a group stays.
    recall: the share of pairs at the threshold to be found, if the bands allow it; the less, the
    fewer are verified in vain. max_bucket: a document is compared with only so many of those that
    share a token with it. exact: only documents of equal normalised text.

    Raises UsageError for values out of range.
    """

    method: Method = "components"
    metric: Metric = "jaccard"
    threshold: float = 0.8
    distance: int | None = None
    keep: KeepRule = KeepRule()  # noqa: RUF009
    recall: float = RECALL
    max_bucket: int = MAX_BUCKET
    exact: bool = False

    def __post_init__(self) -> None:
        if self.method not in ("components", "leader"):
            raise UsageError(f"method {self.method!r}: use components or leader")
        if self.metric not in ("jaccard", "hamming"):
            raise UsageError(f"metric {self.metric!r}: use jaccard or hamming")
        check_threshold(self.threshold)
        check_recall(self.recall)
        if self.max_bucket < 1:
            raise UsageError(f"max bucket {self.max_bucket}: use at least 1")

    @property
    def by_distance(self) -> bool:
        """Whether documents are compared by Hamming distance, and not by Jaccard similarity."""
        return self.metric == "hamming" and not self.exact

    def to_json(self) -> dict[str, Any]:
        """A JSON object that tells two groupings apart."""
        return {**asdict(self), "keep": str(self.keep)}


@dataclass(frozen=True)
class Member:
    """A document of a group, and how near it is to the one that stays.

    similarity: exact Jaccard similarity, or None where Hamming distance was asked for; distance:
    the other way round. digest: of its text, as it was when it was looked at.
    """

    id: str
    similarity: float | None
    distance: int | None
    digest: str


@dataclass(frozen=True)
class Group:
    """Two documents or more: the one that stays, and the others in their order of precedence."""

    representative: str
    digest: str
    members: list[Member]


@dataclass(frozen=True)
class Groups:
    """All documents with tokens, in their order of precedence, and where each belongs.

    grouping: as asked for; by Hamming distance, with the distance that was taken.
    ids: of n documents. digests: shape (n,), uint64. representative: the row of the document that
    stays, shape (n,), int64; its own where a document stays itself. value: the similarity, or
    distance, to it, shape (n,); nan where a document stays. capped: buckets that were cut short.
    recall: the share of pairs at the threshold that is expected to be found; 1 by distance.
    """

    grouping: Grouping
    ids: list[str]
    digests: U64
    representative: I64
    value: F64
    capped: Capped
    recall: float = 1.0

    @property
    def sizes(self) -> I64:
        """Documents of each group of two or more, the largest first."""
        counts = np.bincount(self.representative, minlength=len(self.ids))
        return -np.sort(-counts[counts > 1])

    @property
    def duplicates(self) -> int:
        """Documents that are not the one that stays."""
        return int((self.representative != np.arange(len(self.ids))).sum())

    def __iter__(self) -> Iterator[Group]:
        """The groups of two or more, the largest first, then by precedence."""
        counts = np.bincount(self.representative, minlength=len(self.ids))
        heads = np.flatnonzero(counts > 1)
        followers = np.flatnonzero(self.representative != np.arange(len(self.ids)))
        by_head = followers[np.argsort(self.representative[followers], kind="stable")]
        starts = np.searchsorted(self.representative[by_head], heads)
        for at in np.argsort(-counts[heads], kind="stable").tolist():
            head, first = int(heads[at]), int(starts[at])
            rows = by_head[first : first + int(counts[head]) - 1]
            members = [self._member(row) for row in rows.tolist()]
            yield Group(self.ids[head], self._digest(head), members)

    def _member(self, row: int) -> Member:
        value = float(self.value[row])
        if self.grouping.by_distance:
            return Member(self.ids[row], None, int(value), self._digest(row))
        return Member(self.ids[row], value, None, self._digest(row))

    def _digest(self, row: int) -> str:
        return f"{int(self.digests[row]):016x}"
