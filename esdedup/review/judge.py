"""The pages Judge and Threshold: pairs to judge, and estimates from their judgements."""

import functools
import itertools
import json
import math
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
from esdedup.analysis.sampling import draw_sample
from esdedup.exceptions import UsageError
from esdedup.review.jobs import Job
from esdedup.review.messages import message
from esdedup.review.pages import Parameters, Review
from esdedup.review.shown.texts import (
    PairDetails,
    ShownMember,
    ShownPair,
    measured,
    member_of,
    pair_of,
)
from esdedup.sketch.limits import ACTING
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import VERDICTS, Judgement, Judgements

_DRAWING = "Drawing pairs to judge"
_STEP = 0.02
_TOO_WIDE = 0.9
"""An interval of this width says nothing."""
_FIRST = 20
"""Judgements on one side before the number of further ones is estimated."""
_MORE = 20
"""Further judgements of which the page shows what they would bring."""
_AT_BORDER = 2
"""Pairs on either side of a threshold that are shown."""
_MOST_PAIRS = 30
"""Pairs between two thresholds that the page lists."""


@dataclass
class Judge:
    """Serve both pages. Pairs are drawn in the background, and kept until they are drawn again."""

    review: Review
    _pool: Pool | None = None

    @property
    def threshold(self) -> float:
        """The threshold near which most pairs are drawn: that of groups, if they have one."""
        return self.review.threshold or ACTING

    @property
    def of_groups(self) -> bool:
        """Return whether groups are found by this threshold."""
        review = self.review
        return not review.group_search.grouping.exact and review.measure.is_similarity

    def draw(self, parameters: Parameters) -> Response:
        """Start to draw pairs from the documents as they are now."""
        self._start()
        return self.review.redirect("/judge")

    def _start(self) -> Job:
        self._pool = None
        if self.of_groups and self.review.group_search.groups() is None:
            # Jobs run in turn: the groups are there when pairs are drawn.
            self.review.group_search.find()
        return self.review.jobs.start(_DRAWING, self._draw)

    def _waiting(self, title: str) -> Response:
        """Show the progress while pairs are drawn, which this starts, or why that failed."""
        if (job := self.review.jobs.last(_DRAWING)) is None:
            job = self._start()
        return self.review.page("drawing.html", {"title": title, "error": job.error})

    def _draw(self, job: Job) -> None:
        with self.review.group_search.open() as index:
            step = functools.partial(job.on_step, "Documents compared")
            meta = index.meta_of(self.review.group_search.grouping.limits)
            sample = draw_sample(index.store, meta, on_drawn=step)
        self._pool = Pool.of(sample, self.review.group_search.groups() if self.of_groups else None)

    def show(self, parameters: Parameters) -> Response:
        """Show the next pair."""
        review = self.review
        if (pool := self._pool) is None:
            return self._waiting("Judge")
        judgements = review.index.judgements.read()
        ids = {name: parameters.get(name) for name in ("left", "right", "again")}
        again = ids["again"] if review.write else None
        pair = self._first(pool, judgements, parameters) if review.write else None
        if again and (pair is None or {pair.left.id, pair.right.id} != {ids["left"], ids["right"]}):
            # Pairs have been drawn again since, without this one.
            return review.redirect("/compare", ids)
        return review.page(
            "judge.html",
            {
                "pair": pair,
                "again": again,
                "counts": {verdict: len(judgements.of(verdict)) for verdict in VERDICTS},
                "decision": review.decisions.of(parameters.get("made")),
                "parameters": parameters,
                "measured": measured,
                "threshold": self.threshold,
                "pool": pool,
                "wanted": self._wanted(pool, judgements),
                "back": {"from": "judge"},
            },
        )

    def _wanted(self, pool: Pool, judgements: Judgements) -> int:
        """Return about how many judgements make the estimates at the threshold good."""
        threshold = max(self.threshold, pool.sample.floor)
        (estimate,) = estimates(pool, drawn_at_random(pool, judgements), [threshold])
        sides = (estimate.precision, estimate.above), (estimate.recall, estimate.below)
        needed = sum(judgements_needed(interval, judged) for interval, judged in sides)
        left = len(pool.pairs) - estimate.above - estimate.below
        return len(judgements.pairs) + max(0, min(needed, left))

    def export(self, parameters: Parameters) -> Response:
        """Return all judgements as JSON lines."""
        judgements = self.review.index.judgements.read().pairs
        lines = [json.dumps(judgement.to_json()) + "\n" for judgement in judgements]
        headers = {"content-disposition": 'attachment; filename="judgements.jsonl"'}
        return Response("".join(lines), 200, headers, "application/x-ndjson")

    def read(self, parameters: Parameters) -> Response:
        """Keep the judgements of an export, unless newer ones exist."""
        judgements = []
        for number, line in enumerate(parameters.get("lines", "").splitlines(), 1):
            try:
                if line.strip():
                    judgements.append(Judgement.from_json(json.loads(line)))
            except (ValueError, RecursionError, UsageError) as error:
                raise UsageError(f"line {number} is not a judgement: {error}") from error
        written = self.review.decisions.read(judgements)
        return self.review.redirect("/judge", {"read": len(judgements), "kept": written})

    def _first(
        self, pool: Pool, judgements: Judgements, parameters: Parameters
    ) -> ShownPair | None:
        """Return the pair that is shown again, or the first in turn, if it exists with texts."""
        # A pair that was judged on another page is shown in its turn: only then does it count.
        judged = {
            (judgement.left, judgement.right) for judgement in judgements.pairs if judgement.drawn
        }
        index, again = self.review.index, {parameters.get("left"), parameters.get("right")}
        turns = _turns(pool, self.threshold)
        shown_again = [pair for pair in turns if {*pair[:2]} == again] if None not in again else []
        in_turn = (pair for pair in turns if pair[:2] not in judged)
        for left, right, *_ in itertools.chain(shown_again, in_turn):
            stored = {document.id: document for document in index.store.get([left, right])}
            documents = [stored[id] for id in (left, right) if id in stored]
            texts = [text_at(document.source, index.meta.text_fields) for document in documents]
            if len(documents) == 2 and all(texts):
                comparison = PairDetails(judgement=judgements.between(left, right))
                return pair_of(documents, index.meta, self.review.show, comparison)
        return None

    def threshold_page(self, parameters: Parameters) -> Response:
        """Show what each threshold removes, what is known of it, and pairs at the border."""
        review = self.review
        if (pool := self._pool) is None:
            return self._waiting("Threshold")
        # Pairs below the floor are unknown.
        floor = pool.sample.floor
        current = round(max(self.threshold, floor), 6)
        judgements = review.index.judgements.read()
        grid = np.round(np.arange(floor, 1.0 + _STEP / 2, _STEP), 6).tolist()
        proposed = _proposed(parameters, pool)
        thresholds = sorted({*grid, current, current if proposed is None else proposed})
        # One call, so that the sentences agree with the chart: draws differ between calls.
        at_all = estimates(pool, drawn_at_random(pool, judgements), thresholds)
        at_threshold = {estimate.threshold: estimate for estimate in at_all}
        at_current = at_threshold[current]
        at_proposed = at_current if proposed is None else at_threshold[proposed]
        on_grid = {*grid, current}
        estimated = [estimate for estimate in at_all if estimate.threshold in on_grid]
        groups, note = review.group_search.groups() if self.of_groups else None, None
        if not self.of_groups:
            note = "Groups are found by equal texts or Hamming distance, not by a similarity"
        elif self.threshold < floor:
            note = f"Pairs less similar than {floor:g} are too many to be estimated"
        return review.page(
            "threshold.html",
            {
                **self._border(pool, judgements, at_proposed),
                "estimated": estimated,
                "documents_on_axis": on_axis(max(estimate.removed.high for estimate in estimated)),
                "similarities_on_axis": similarities_on_axis(floor),
                "at_current": at_current,
                "counted": at_current.above + at_current.below,
                "judged": len(judgements.pairs),
                "note": note,
                "advice": _advice(at_current, pool, judgements),
                "known": known_in_words(at_current),
                "pool": pool,
                "exact": None if groups is None else groups.duplicates,
                "in_percent": in_percent,
            },
        )

    def border(self, parameters: Parameters) -> Response:
        """Show what a threshold decides, for the page on which a person moves it."""
        if (pool := self._pool) is None:
            return self._waiting("Threshold")
        judgements, proposed = self.review.index.judgements.read(), _proposed(parameters, pool)
        threshold = max(self.threshold, pool.sample.floor) if proposed is None else proposed
        (estimate,) = estimates(pool, drawn_at_random(pool, judgements), [threshold])
        return self.review.page("border.html", self._border(pool, judgements, estimate))

    def _border(
        self, pool: Pool, judgements: Judgements, estimate: AtThreshold
    ) -> dict[str, object]:
        """Return what a threshold removes, and the pairs that are nearest to it."""
        review, threshold = self.review, estimate.threshold
        current = round(max(self.threshold, pool.sample.floor), 6)
        sides = changing(pool, judgements, current, threshold)
        groups = review.group_search.groups() if self.of_groups else None
        return {
            "at_proposed": estimate,
            "is_current": threshold == current,
            "removed_exactly": None if groups is None else groups.duplicates,
            "known_at_proposed": known_in_words(estimate),
            "examples": self._at_border(pool, judgements, threshold),
            "sides": sides,
            "between": pool.total(*sorted((current, threshold))),
            "usable": self.of_groups,
            "measured": measured,
            "most": _MOST_PAIRS,
        }

    def _at_border(
        self, pool: Pool, judgements: Judgements, threshold: float
    ) -> list[tuple[str, ShownMember, bool]]:
        """Return the pairs nearest to a threshold: of each the first document, and the second one.

        The last value is whether the threshold makes them duplicates.
        """
        above = sorted(
            (pair for pair in pool.pairs if pair.similarity >= threshold),
            key=lambda pair: pair.similarity,
        )
        below = sorted(
            (pair for pair in pool.pairs if pair.similarity < threshold),
            key=lambda pair: -pair.similarity,
        )
        pairs = [*above[:_AT_BORDER][::-1], *below[:_AT_BORDER]]
        index = self.review.index
        ids = [*dict.fromkeys(id for pair in pairs for id in pair[:2])]
        documents = {document.id: document for document in index.store.get(ids)}
        shown = []
        for left, right, similarity, _ in pairs:
            if {left, right} <= documents.keys():
                judgement = judgements.between(left, right)
                member = member_of(
                    documents[left],
                    documents[right],
                    index.meta,
                    self.review.show,
                    PairDetails(similarity, judgement=judgement),
                )
                shown.append((left, member, similarity >= threshold))
        return shown

    def use(self, parameters: Parameters) -> Response:
        """Find groups by another threshold, in this session."""
        if not self.of_groups:
            raise UsageError("groups are not found by a similarity")
        threshold = parameters.number("threshold")
        if threshold is None or not 0.0 < threshold <= 1.0:
            raise UsageError("name a threshold above 0, up to 1")
        self.review.group_search.use(threshold)
        return self.review.redirect("/groups")


def _proposed(parameters: Parameters, pool: Pool) -> float | None:
    """Return the threshold that the slider shows, or None. Raises UsageError."""
    proposed = parameters.number("other")
    if proposed is not None and not pool.sample.floor <= proposed <= 1.0:
        raise UsageError(f"threshold {proposed:g}: use {pool.sample.floor:g} to 1")
    return None if proposed is None else round(proposed, 6)


def on_axis(most: float) -> list[int]:
    """Return round numbers for an axis, at most seven, from 0 to the first one from `most` on."""
    step, factors = 1, itertools.cycle((2.0, 2.5, 2.0))
    while step * 6 < most:
        step = int(step * next(factors))
    return [*range(0, max(step, math.ceil(most / step) * step) + 1, step)]


def similarities_on_axis(floor: float) -> list[float]:
    """Return the similarities that an axis from the floor to 1 names: tenths, or finer steps."""
    steps = 10 if floor < 0.7 else 20 if floor < 0.9 else 100
    first = math.ceil(round(floor * steps, 6))
    return [number / steps for number in range(first, steps + 1)]


def known_in_words(estimate: AtThreshold) -> list[str]:
    """Return what judgements show about a threshold, in sentences; none if they show nothing."""
    sentences: list[str] = []
    precision, recall = estimate.precision, estimate.recall_of_documents
    if precision is not None and precision.high - precision.low <= _TOO_WIDE:
        low = _of_hundred(precision.low)
        sentences.append(
            message("Of 100 documents removed, at least {low} are duplicates.", {"low": low})
        )
        # An interval narrows with the root of the number of judgements.
        narrower = math.sqrt(estimate.above / (estimate.above + _MORE))
        better = _of_hundred(precision.value - (precision.value - precision.low) * narrower)
        if better > low:
            values = {"n": _MORE, "better": better}
            sentences.append(message("{n} more answers will make it about {better}.", values))
    if recall is not None and recall.high - recall.low <= _TOO_WIDE:
        values = {"removed": _of_hundred(recall.value)}
        sentences.append(
            message("Of 100 documents that repeat others, about {removed} are removed.", values)
        )
    if estimate.recall is not None and estimate.recall.high - estimate.recall.low <= _TOO_WIDE:
        values = {"above": _of_hundred(estimate.recall.value)}
        sentences.append(
            message(
                "Of 100 pairs of duplicates, about {above} are at the threshold or above.", values
            )
        )
    return sentences


def _of_hundred(fraction: float) -> int:
    """Return a fraction of 100, of which only all is 100."""
    return 100 if fraction == 1.0 else min(99, round(100 * fraction))


_turns = functools.lru_cache(maxsize=1)(Pool.in_turn)
"""All pairs in turn, sorted once for all of their pages."""


def in_percent(interval: Interval | None) -> tuple[str, str]:
    """Return a fraction in percent, of which only 1 is 100, and its interval, in words."""
    if interval is None or interval.high - interval.low > _TOO_WIDE:
        return "unknown", ""
    value, low, high = (
        f"{100 * fraction:.1f}" if fraction in (0.0, 1.0) else f"{min(99.9, 100 * fraction):.1f}"
        for fraction in interval
    )
    return f"{value}%", f"{low} to {high}%"


@dataclass(frozen=True)
class _Side:
    """The pairs on one side of a threshold, and what is estimated from them.

    figure: "precision" or "recall", with the threshold.
    interval: of the figure; None if no judgement shows it.
    judged: number of counted judgements on these pairs.
    unjudged: number of drawn pairs that are not judged.
    similarity: of the pairs, in words.
    """

    figure: str
    interval: Interval | None
    judged: int
    unjudged: int
    similarity: str

    def advice(self) -> str | None:
        """Describe the judgements that are still needed; None if there are enough."""
        needed = judgements_needed(self.interval, self.judged)
        if not needed:
            return None
        pairs = f"pairs of similarity {self.similarity}"
        if not self.unjudged and not self.judged:
            return None
        if not self.unjudged:
            figure = f"{self.figure[0].upper()}{self.figure[1:]}"
            return (
                f"{figure} can't be estimated better: all {self.judged:,} drawn {pairs} are judged"
            )
        if self.judged < _FIRST:
            return f"For {self.figure}, judge {_FIRST} {pairs}: {self.judged:,} so far"
        too_few = f", and only {self.unjudged:,} are left" if self.unjudged < needed else ""
        within = f"For {self.figure} to within 5 percentage points"
        return f"{within}, about {needed:,} more {pairs} are needed{too_few}"


def _advice(estimate: AtThreshold, pool: Pool, judgements: Judgements) -> list[str]:
    """Describe the judgements that are still needed for an estimate."""
    threshold = estimate.threshold
    judged = {(judgement.left, judgement.right) for judgement in judgements.pairs}
    unjudged = [pair for pair in pool.pairs if pair[:2] not in judged]
    above = sum(pair.similarity >= threshold for pair in unjudged)
    precision = _Side(
        f"precision at {threshold:g}",
        estimate.precision,
        estimate.above,
        above,
        f"{threshold:g} or more",
    )
    recall = _Side(
        f"recall at {threshold:g}",
        estimate.recall,
        estimate.below,
        len(unjudged) - above,
        f"less than {threshold:g}",
    )
    return [advice for side in (precision, recall) if (advice := side.advice()) is not None]
