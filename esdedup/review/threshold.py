"""The page Threshold: precision and recall at each threshold, from the judgements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from starlette.responses import Response

from esdedup.analysis.judging import AtThreshold, Pool, changing, drawn_of, estimates, more_wanted
from esdedup.exceptions import UsageError
from esdedup.review.judge import Drawing, waiting
from esdedup.review.pages import Asked, Review
from esdedup.review.texts import measured
from esdedup.stores.judgements import Judgements

_STEP = 0.02
_MOST_PAIRS = 30
"""Pairs on the page that would change sides."""


@dataclass(frozen=True)
class Threshold:
    """The page."""

    review: Review
    drawing: Drawing

    def show(self, asked: Asked) -> Response:
        """Show the estimates, and the pairs that another threshold would change."""
        review = self.review
        if (pool := self.drawing.pool()) is None:
            return waiting(review, asked, self.drawing, "Threshold")
        # Pairs below the floor are unknown.
        now = max(self.drawing.threshold, pool.floor)
        other = asked.share("other", None)
        if other is not None and not pool.floor <= other <= 1.0:
            raise UsageError(f"threshold {other:g}: use {pool.floor:g} to 1")
        judgements = review.index.judgements()
        grid = np.round(np.arange(pool.floor, 1.0 + _STEP / 2, _STEP), 6).tolist()
        wanted = sorted({*grid, now, *filter(None, [other])})
        found = estimates(pool, drawn_of(pool, judgements), wanted)
        at = {each.threshold: each for each in found}
        here = at[round(now, 6)]
        sides = [] if other is None else changing(pool, judgements, now, other)
        low, high = sorted((now, now if other is None else other))
        listed = review.found.listed() if self.drawing.of_groups else None
        return review.page(
            asked,
            "threshold.html",
            found=found,
            here=here,
            there=None if other is None else at[round(other, 6)],
            counted=here.above + here.below,
            judged=len(judgements.pairs),
            note=self._note(pool),
            advice=_advice(here, pool, judgements),
            pool=pool,
            sides=sides[:_MOST_PAIRS],
            known=sum(each.judgement is not None for each in sides),
            many=len(sides),
            between=pool.total(low, high),
            exact=None if listed is None else listed.groups.duplicates,
            percent=percent,
            measured=measured,
        )

    def _note(self, pool: Pool) -> str | None:
        """How the threshold of the groups differs from that of this page, if it does."""
        wanted = self.drawing.threshold
        if not self.drawing.of_groups:
            return (
                "Groups are found by equal texts or Hamming distance here. This page is about"
                f" thresholds on Jaccard similarity, such as {wanted:g}"
            )
        if wanted < pool.floor:
            return (
                f"Groups are found from similarity {wanted:g} on. This page begins at"
                f" {pool.floor:g}: below, there are too many pairs, or bands seldom find them"
            )
        return None


def percent(share: float) -> str:
    """Return a share in percent. Only all is 100."""
    return f"{100 * share:.1f}" if share in (0.0, 1.0) else f"{min(99.9, 100 * share):.1f}"


def _advice(here: AtThreshold, pool: Pool, judgements: Judgements) -> list[str]:
    """The judgements that are still needed, in words, if there are pairs to judge."""
    judged = {(each.left, each.right) for each in judgements.pairs}
    left = [pair.similarity >= here.threshold for pair in pool.pairs if pair[:2] not in judged]
    above, at = sum(left), here.threshold
    named = [
        ("precision", here.precision, here.above, above, f"of similarity {at:g} or more"),
        ("recall", here.recall, here.below, len(left) - above, f"of less similarity than {at:g}"),
    ]
    return [
        f"For {name} at {at:g} to within 5 percentage points, judge about {more:,} more"
        f" pair{'' if more == 1 else 's'} {where}"
        for name, interval, count, most, where in named
        if (more := min(most, more_wanted(interval, count)))
    ]
