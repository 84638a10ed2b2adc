"""The page Threshold: precision and recall at each threshold, from the judgements."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from starlette.responses import Response

from esdedup.analysis.judging import (
    AtThreshold,
    Interval,
    Pool,
    changing,
    counted,
    estimates,
    more_wanted,
)
from esdedup.exceptions import UsageError
from esdedup.review.judge import Drawing
from esdedup.review.pages import Given, Review
from esdedup.review.texts import measured
from esdedup.stores.judgements import Judgements

_STEP = 0.02
_TOO_WIDE = 0.9
"""An interval of this width says nothing."""
_FIRST = 20
"""Judgements on one side of the threshold before the number of further ones is estimated."""
_MOST_PAIRS = 30
"""Pairs on the page that would change sides."""


@dataclass(frozen=True)
class Threshold:
    """The page."""

    review: Review
    drawing: Drawing

    def show(self, given: Given) -> Response:
        """Show the estimates, and the pairs that another threshold would change."""
        review = self.review
        if (pool := self.drawing.pool()) is None:
            return self.drawing.waiting("Threshold")
        # Pairs below the floor are unknown.
        now = max(self.drawing.threshold, pool.sample.floor)
        other = given.share("other")
        if other is not None and not pool.sample.floor <= other <= 1.0:
            raise UsageError(f"threshold {other:g}: use {pool.sample.floor:g} to 1")
        judgements = review.index.judgements()
        grid = np.round(np.arange(pool.sample.floor, 1.0 + _STEP / 2, _STEP), 6).tolist()
        wanted = sorted({*grid, now, *filter(None, [other])})
        found = estimates(pool, counted(pool, judgements), wanted)
        at = {each.threshold: each for each in found}
        here = at[round(now, 6)]
        sides = [] if other is None else changing(pool, judgements, now, other)
        low, high = sorted((now, now if other is None else other))
        listed = review.found.listed() if self.drawing.of_groups else None
        return review.page(
            "threshold.html",
            estimated=found,
            here=here,
            there=None if other is None else at[round(other, 6)],
            counted=here.above + here.below,
            judged=len(judgements.pairs),
            note=self._note(pool),
            advice=_advice(here, pool, judgements),
            pool=pool,
            sample=pool.sample,
            sides=sides,
            most=_MOST_PAIRS,
            between=pool.total(low, high),
            usable=self.drawing.of_groups,
            exact=None if listed is None else listed.groups.duplicates,
            share=in_percent,
            measured=measured,
        )

    def use(self, given: Given) -> Response:
        """Find groups by another threshold, in this session."""
        if not self.drawing.of_groups:
            raise UsageError("groups are not found by Jaccard similarity")
        threshold = given.share("threshold")
        if threshold is None or not 0.0 < threshold <= 1.0:
            raise UsageError("name a threshold above 0, up to 1")
        self.review.found.use(threshold)
        return self.review.redirect("/groups")

    def _note(self, pool: Pool) -> str | None:
        """Return how the threshold of the groups differs from that of this page, if it does."""
        if not self.drawing.of_groups:
            return "Groups are found by equal texts or Hamming distance, not by Jaccard similarity"
        if self.drawing.threshold < pool.sample.floor:
            return f"Pairs less similar than {pool.sample.floor:g} are too many to be estimated"
        return None


def in_percent(found: Interval | None) -> tuple[str, str]:
    """Return a share in percent, of which only all is 100, and its interval, in words."""
    if found is None or found.high - found.low > _TOO_WIDE:
        return "unknown", ""
    value, low, high = (
        f"{100 * share:.1f}" if share in (0.0, 1.0) else f"{min(99.9, 100 * share):.1f}"
        for share in found
    )
    return f"{value}%", f"{low} to {high}%"


def _advice(here: AtThreshold, pool: Pool, judgements: Judgements) -> list[str]:
    """The judgements that are still needed, in words."""
    judged = {(each.left, each.right) for each in judgements.pairs}
    left = [pair.similarity >= here.threshold for pair in pool.pairs if pair[:2] not in judged]
    above, at = sum(left), here.threshold
    named = [
        ("precision", here.precision, here.above, above, f"{at:g} or more"),
        ("recall", here.recall, here.below, len(left) - above, f"less than {at:g}"),
    ]
    advice = []
    for name, interval, count, rest, where in named:
        if not (more := more_wanted(interval, count)):
            continue
        pairs = f"pairs of similarity {where}"
        if not rest:
            drawn = f"all {count:,} drawn {pairs} are judged"
            advice.append(f"{name.capitalize()} at {at:g} can't be estimated better: {drawn}")
        elif count < _FIRST:
            advice.append(f"For {name} at {at:g}, judge {_FIRST} {pairs}: {count:,} so far")
        else:
            few = f", and only {rest:,} are left" if rest < more else ""
            within = f"For {name} at {at:g} to within 5 percentage points"
            advice.append(f"{within}, about {more:,} more {pairs} are needed{few}")
    return advice
