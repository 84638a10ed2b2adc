"""The pages Judge and Threshold: pairs to judge, and estimates from their judgements."""

import functools
import json
from dataclasses import dataclass

import numpy as np
from starlette.responses import Response

from esdedup.analysis.judging import (
    AtThreshold,
    Interval,
    Pool,
    changing,
    drawn_at_random,
    estimates,
    judgements_needed,
)
from esdedup.analysis.sampling import draw
from esdedup.exceptions import UsageError
from esdedup.review.jobs import Job
from esdedup.review.pages import Given, Review
from esdedup.review.texts import ShownPair, measured, pair_of
from esdedup.sketch.limits import ACTING
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import VERDICTS, Judgement, Judgements

_DRAWING = "Drawing pairs to judge"
_STEP = 0.02
_TOO_WIDE = 0.9
"""An interval of this width says nothing."""
_FIRST = 20
"""Judgements on one side before the number of further ones is estimated."""
_MOST_PAIRS = 30
"""Pairs on the page that would change sides."""


@dataclass
class Judge:
    """Serve both pages. Pairs are drawn in the background, and kept until they are drawn again."""

    review: Review
    _pool: Pool | None = None

    @property
    def threshold(self) -> float:
        """The threshold near which most pairs are drawn: that of groups, if they have one."""
        return self.review.found.grouping.limits.threshold or ACTING

    @property
    def of_groups(self) -> bool:
        """Return whether groups are found by this threshold."""
        return not self.review.found.grouping.exact and self.review.measure.by_threshold

    def draw(self, given: Given) -> Response:
        """Start to draw pairs from the documents as they are now."""
        self._start()
        return self.review.redirect("/judge")

    def _start(self) -> Job:
        self._pool = None
        if self.of_groups and self.review.found.groups() is None:
            # Jobs run in turn: the groups are there when pairs are drawn.
            self.review.found.find()
        return self.review.jobs.start(_DRAWING, self._draw)

    def _waiting(self, title: str) -> Response:
        """Show the progress while pairs are drawn, which this starts, or why that failed."""
        if (job := self.review.jobs.last(_DRAWING)) is None:
            job = self._start()
        return self.review.page("drawing.html", title=title, error=job.error)

    def _draw(self, job: Job) -> None:
        with self.review.found.open() as index:
            step = functools.partial(job.on_step, "Documents compared")
            sample = draw(index.store, index.meta, on_drawn=step)
        self._pool = Pool.of(sample, self.review.found.groups() if self.of_groups else None)

    def show(self, given: Given) -> Response:
        """Show the next pair."""
        review = self.review
        if (pool := self._pool) is None:
            return self._waiting("Judge")
        judgements = review.index.judgements.read()
        return review.page(
            "judge.html",
            pair=self._first(pool, judgements) if review.write else None,
            counts={verdict: len(judgements.of(verdict)) for verdict in VERDICTS},
            made=review.decisions.of(given.get("made")),
            given=given,
            measured=measured,
            threshold=self.threshold,
            pool=pool,
            back={"from": "judge"},
        )

    def export(self, given: Given) -> Response:
        """Return all judgements as JSON lines."""
        lines = [
            json.dumps(each.to_json()) + "\n" for each in self.review.index.judgements.read().pairs
        ]
        headers = {"content-disposition": 'attachment; filename="judgements.jsonl"'}
        return Response("".join(lines), 200, headers, "application/x-ndjson")

    def read(self, given: Given) -> Response:
        """Keep the judgements of an export, unless newer ones exist."""
        found = []
        for number, line in enumerate(given.get("lines", "").splitlines(), 1):
            try:
                found += [Judgement.from_json(json.loads(line))] if line.strip() else []
            except (ValueError, RecursionError, UsageError) as error:
                raise UsageError(f"line {number} is not a judgement: {error}") from error
        kept = self.review.decisions.read(found)
        return self.review.redirect("/judge", read=len(found), kept=kept)

    def _first(self, pool: Pool, judgements: Judgements) -> ShownPair | None:
        """Return the first pair in turn whose documents still exist, with texts."""
        # A pair that was judged on another page is shown in its turn: only then does it count.
        judged = {(each.left, each.right) for each in judgements.pairs if each.drawn}
        index = self.review.index
        for left, right, *_ in _turns(pool, self.threshold):
            if (left, right) in judged:
                continue
            found = {each.id: each for each in index.store.get([left, right])}
            two = [found[id] for id in (left, right) if id in found]
            if sum(bool(text_at(each.source, index.meta.text_fields)) for each in two) == 2:
                judgement = judgements.between(left, right)
                return pair_of(two, index.meta, self.review.show, judgement=judgement)
        return None

    def threshold_page(self, given: Given) -> Response:
        """Show the estimates, and the pairs that another threshold would change."""
        review = self.review
        if (pool := self._pool) is None:
            return self._waiting("Threshold")
        # Pairs below the floor are unknown.
        now = max(self.threshold, pool.sample.floor)
        other = given.share("other")
        if other is not None and not pool.sample.floor <= other <= 1.0:
            raise UsageError(f"threshold {other:g}: use {pool.sample.floor:g} to 1")
        judgements = review.index.judgements.read()
        grid = np.round(np.arange(pool.sample.floor, 1.0 + _STEP / 2, _STEP), 6).tolist()
        wanted = sorted({*grid, now, *filter(None, [other])})
        found = estimates(pool, drawn_at_random(pool, judgements), wanted)
        at = {each.threshold: each for each in found}
        here = at[round(now, 6)]
        sides = [] if other is None else changing(pool, judgements, now, other)
        low, high = sorted((now, now if other is None else other))
        groups, note = review.found.groups() if self.of_groups else None, None
        if not self.of_groups:
            note = "Groups are found by equal texts or Hamming distance, not by Jaccard similarity"
        elif self.threshold < pool.sample.floor:
            note = f"Pairs less similar than {pool.sample.floor:g} are too many to be estimated"
        return review.page(
            "threshold.html",
            estimated=found,
            here=here,
            there=None if other is None else at[round(other, 6)],
            counted=here.above + here.below,
            judged=len(judgements.pairs),
            note=note,
            advice=_advice(here, pool, judgements),
            pool=pool,
            sides=sides,
            between=pool.total(low, high),
            usable=self.of_groups,
            exact=None if groups is None else groups.duplicates,
            share=in_percent,
            measured=measured,
            most=_MOST_PAIRS,
        )

    def use(self, given: Given) -> Response:
        """Find groups by another threshold, in this session."""
        if not self.of_groups:
            raise UsageError("groups are not found by Jaccard similarity")
        threshold = given.share("threshold")
        if threshold is None or not 0.0 < threshold <= 1.0:
            raise UsageError("name a threshold above 0, up to 1")
        self.review.found.use(threshold)
        return self.review.redirect("/groups")


_turns = functools.lru_cache(maxsize=1)(Pool.in_turn)
"""All pairs in turn, sorted once for all of their pages."""


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
    """Describe the judgements that are still needed."""
    judged = {(each.left, each.right) for each in judgements.pairs}
    left = [pair.similarity >= here.threshold for pair in pool.pairs if pair[:2] not in judged]
    above, at = sum(left), here.threshold
    named = [
        ("precision", here.precision, here.above, above, f"{at:g} or more"),
        ("recall", here.recall, here.below, len(left) - above, f"less than {at:g}"),
    ]
    advice = []
    for name, interval, count, rest, where in named:
        if not (more := judgements_needed(interval, count)):
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
