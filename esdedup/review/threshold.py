"""The page Threshold: precision and recall at each threshold, from the judgements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from starlette.responses import Response
from starlette.routing import Route

from esdedup.analysis.judging import (
    AtThreshold,
    Interval,
    Pool,
    changing,
    drawn_of,
    estimates,
    more_wanted,
)
from esdedup.exceptions import UsageError
from esdedup.review.judge import waiting
from esdedup.review.pages import Asked, Review
from esdedup.review.pool import Drawing
from esdedup.stores.judgements import Judgements

_STEP = 0.02
_MOST_PAIRS = 30
"""Pairs on the page that would change sides."""
_WIDTH, _HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 16, 36
"""The plot and its margins, in units of its own."""


@dataclass(frozen=True)
class Line:
    """A line of the plot, in pieces. points: of each piece. bands: of each interval, all around."""

    name: str
    points: list[str]
    bands: list[str]


@dataclass(frozen=True)
class Plot:
    """A plot of shares by threshold. columns, rows: places and names of the ticks."""

    lines: list[Line]
    columns: list[tuple[float, str]]
    rows: list[tuple[float, str]]
    now: float

    @property
    def frame(self) -> dict[str, int]:
        """The edges of the plot."""
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        sizes = {"width": _WIDTH, "height": _HEIGHT}
        return {"left": _LEFT, "right": right, "top": _TOP, "bottom": bottom, **sizes}


@dataclass
class Last:
    """The last estimates, which take a second or so. key: the state that they are of."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    key: object = None
    found: list[AtThreshold] = field(default_factory=list)


@dataclass(frozen=True)
class Threshold:
    """The page."""

    review: Review
    drawing: Drawing
    last: Last = field(default_factory=Last)

    def routes(self) -> list[Route]:
        """The routes of the page."""
        return [self.review.shown("/threshold", self.show)]

    def show(self, asked: Asked) -> Response:
        """The estimates, and the pairs that another threshold would change."""
        review = self.review
        if (pool := self.drawing.pool()) is None:
            return waiting(review, asked, self.drawing, "Threshold")
        # Nobody knows of pairs below the floor.
        now = max(self.drawing.threshold, pool.floor)
        other = asked.share("other", None)
        if other is not None and not pool.floor <= other <= 1.0:
            raise UsageError(f"threshold {other:g}: use {pool.floor:g} to 1")
        judgements = review.index.judgements()
        grid = np.round(np.arange(pool.floor, 1.0 + _STEP / 2, _STEP), 6).tolist()
        found = self._estimates(pool, judgements, sorted({*grid, now, *filter(None, [other])}))
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
            notes=self._notes(pool),
            advice=_advice(here, pool, judgements),
            plot=_plot(found, pool.floor, now) if here.above + here.below else None,
            pool=pool,
            sides=sides[:_MOST_PAIRS],
            known=sum(each.judgement is not None for each in sides),
            many=len(sides),
            between=pool.total(low, high),
            exact=None if listed is None else listed.groups.duplicates,
            percent=percent,
        )

    def _notes(self, pool: Pool) -> list[str]:
        """Sentences on how the threshold of the groups differs from that of this page."""
        wanted = self.drawing.threshold
        if not self.drawing.of_groups:
            return [
                "Groups are found by equal texts or Hamming distance here. This page is about"
                f" thresholds on Jaccard similarity, such as {wanted:g}"
            ]
        if wanted < pool.floor:
            return [
                f"Groups are found from similarity {wanted:g} on. This page begins at"
                f" {pool.floor:g}: below, there are too many pairs, or bands seldom find them"
            ]
        return []

    def _estimates(
        self, pool: Pool, judgements: Judgements, thresholds: Sequence[float]
    ) -> list[AtThreshold]:
        key = pool, judgements.pairs, tuple(thresholds)
        last = self.last
        with last.turn:
            if last.key != key:
                last.found = estimates(pool, drawn_of(pool, judgements), thresholds)
                last.key = key
            return last.found


def percent(share: float) -> str:
    """A share in percent. Only all is 100."""
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


def _plot(found: Sequence[AtThreshold], floor: float, now: float) -> Plot:
    """The plot of precision and recall."""

    def x(threshold: float) -> float:
        share = (threshold - floor) / (1.0 - floor)
        return round(_LEFT + share * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(share: float) -> float:
        return round(_TOP + (1.0 - share) * (_HEIGHT - _TOP - _BOTTOM), 1)

    def line(name: str, of: Callable[[AtThreshold], Interval | None]) -> Line:
        pieces: list[list[tuple[float, Interval]]] = [[]]
        for each in found:
            if (interval := of(each)) is None:
                pieces.append([])
            elif each.threshold >= floor:
                pieces[-1].append((x(each.threshold), interval))
        drawn = [piece for piece in pieces if piece]
        points = [_points((at, y(each.value)) for at, each in piece) for piece in drawn]
        bands = [
            _points(
                [*((at, y(each.high)) for at, each in piece)]
                + [(at, y(each.low)) for at, each in reversed(piece)]
            )
            for piece in drawn
        ]
        return Line(name, points, bands)

    columns = [(x(at / 10), f"{at / 10:g}") for at in range(round(floor * 10), 11)]
    rows = [(y(at / 100), f"{at}%") for at in range(0, 101, 20)]
    lines = [
        line("precision", lambda each: each.precision),
        line("recall", lambda each: each.recall),
    ]
    return Plot(lines, columns, rows, x(now))


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{a:g},{b:g}" for a, b in places)
