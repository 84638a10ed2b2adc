"""Choose what happens to a near-duplicate of an earlier document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.models import MARKS, Fields
from esdedup.search.scopes import warning_of_missing
from esdedup.search.warnings import lacking_recall
from esdedup.sketch.limits import ACTING, Limits
from esdedup.sketch.measures import Measure
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.within import Within
from esdedup.stores.mapping import IndexMeta

PolicyAction = Literal["keep", "mark", "skip", "fail", "group"]


@dataclass(frozen=True)
class DuplicatePolicy:
    """How to treat a near-duplicate of an earlier document.

    Clients that write at the same time don't see each other's documents until a refresh, by default
    within a second: near-duplicates that arrive in between are both kept.

    action: "keep" it; "mark" it with the original's id and the similarity; "skip" it; "fail" it, as
        an error; or "group" it: mark it as a duplicate of the nearest representative, or let it
        become one.
    threshold: minimum Jaccard similarity.
    candidates: maximum number of stored documents to compare with, and of documents of the same
        batch; the report counts documents with more.
    sketch: name of the sketch to compare by; the scheme's first by default.
    distance: maximum Hamming distance in bits, by default that which the scheme's segments
        guarantee by equality alone.
    within: fields that duplicates agree in, and windows of time.
    cosine: minimum cosine of vectors, by default that of the scheme's sketch.
    Raises UsageError for values out of range.
    """

    action: PolicyAction = "keep"
    threshold: float = ACTING
    candidates: int = 100
    sketch: str | None = None
    distance: int | None = None
    within: Within = Within()  # noqa: RUF009
    cosine: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        _ = self.limits
        if self.within and self.action == "keep":
            raise UsageError("`within` requires `on_duplicate` mark, skip, fail or group")

    @property
    def limits(self) -> Limits:
        """Return the limits of the search in the store: one band, as within the batch."""
        most = self.candidates
        return Limits(
            self.sketch, self.threshold, self.distance, most, most, cosine=self.cosine, least=1
        )

    def warning(self, scheme: Scheme) -> str | None:
        """Return a warning if a scheme finds fewer duplicates than it should, else None."""
        limits = self.limits
        sketch = scheme.chosen(limits)
        expected = sketch.recall(limits, sketch.tokens, 1)
        return None if expected is None else lacking_recall(expected, limits)

    def limited_to(self, within: str | Sequence[str]) -> DuplicatePolicy:
        """Return the policy for duplicates that agree in fields, or in windows such as "date:3d".

        Raises UsageError for a window that can't be read, and if all duplicates are kept.
        """
        return replace(self, within=Within.parse(within))

    def warning_of_missing(self, unscoped: int) -> str | None:
        """Return a warning about documents without a value of the scope, else None."""
        return warning_of_missing(self.within, unscoped)

    @property
    def writes(self) -> bool:
        """True if near-duplicates are written, and marked."""
        return self.action in ("mark", "group")

    @property
    def groups(self) -> bool:
        """True if documents are compared only with representatives."""
        return self.action == "group"

    def check_sketch(self, meta: IndexMeta) -> None:
        """Raise UsageError for a sketch of other fields than the text of the index."""
        if self.sketch in meta.full_scheme.names and self.sketch not in meta.scheme.names:
            raise UsageError(
                f"sketch {self.sketch!r} is not of the text: `on_duplicate` compares by"
                f" {' or '.join(meta.scheme.names)} only; to find duplicates by {self.sketch!r},"
                f" index the documents, and run `esdedup dedup` with it"
            )

    def takes(self, verdict: Verdict) -> bool:
        """Return True if a document with this verdict is written."""
        return verdict.original is None or self.writes


@dataclass(frozen=True)
class Verdict:
    """The earlier document that a document resembles.

    group: id of the group's first document.
    original: id of the earlier document, or None.
    original_name: the id with its index, if another index has it too and `original` is in the same
        batch, whose documents are known by their ids.
    similarity: to the original, if the policy compares by that.
    distance: to the original, if the policy compares by that.
    truncated: there were more candidates than compared.
    exact: the texts are equal.
    """

    group: str
    original: str | None = None
    similarity: float | None = None
    distance: int | None = None
    truncated: bool = False
    exact: bool = False
    original_name: str | None = None

    @staticmethod
    def stored(id: str, ours: Mapping[str, object]) -> Verdict:
        """Return the verdict in our field of a document. Without a group, it is its own."""
        marks: Fields = {name: ours.get(name) for name in MARKS}
        return Verdict(**{**marks, "group": marks["group"] or id})

    def reason(self, measure: Measure) -> str:
        """Return the verdict in words, for messages. measure: by which documents are compared."""
        original = self.original_name or self.original
        value = self.similarity if self.distance is None else self.distance
        assert value is not None
        return f"a near-duplicate of {original!r} ({measure.words} {measure.text(value)})"

    def fields(self) -> dict[str, object]:
        """Return the marks to add to our field."""
        marks = {name: getattr(self, name) for name in MARKS}
        marks["original"] = self.original_name or self.original
        return {name: value for name, value in marks.items() if value is not None}
