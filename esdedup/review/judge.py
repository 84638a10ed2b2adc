"""The page Judge: pairs drawn over the whole range of similarity, judged by one key each."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from functools import partial

from starlette.responses import Response

from esdedup.analysis.judging import Pool
from esdedup.analysis.sampling import SampledPair, draw
from esdedup.exceptions import UsageError
from esdedup.review.jobs import Job
from esdedup.review.pages import Given, Review
from esdedup.review.texts import ShownPair, measured, pair_of
from esdedup.sketch.limits import ACTING
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import VERDICTS, Judgement, Judgements, Verdict

_IN_WORDS: dict[Verdict, str] = {
    "duplicate": "Judged a duplicate",
    "different": "Judged not a duplicate",
    "unsure": "Skipped",
}
DRAWING = "Drawing pairs to judge"


class Drawing:
    """Draw the pool in the background, and keep it until it is drawn again."""

    def __init__(self, review: Review) -> None:
        self._review = review
        self._pool: Pool | None = None

    @property
    def threshold(self) -> float:
        """The threshold near which most pairs are drawn: that of groups, if they have one."""
        return self._review.grouping.limits.threshold or ACTING

    @property
    def of_groups(self) -> bool:
        """Return whether groups are found by this threshold."""
        return not self._review.grouping.exact and not self._review.by_distance

    def pool(self) -> Pool | None:
        """Return the pool; None if it is not there yet. The first call starts to draw it."""
        if self._pool is None and self._review.jobs.last(DRAWING) is None:
            self.start()
        return self._pool

    def start(self) -> None:
        """Start to draw, unless that is under way."""
        self._pool = None
        if self.of_groups and self._review.found.listed() is None:
            # Jobs run in turn: the groups are there when pairs are drawn.
            self._review.found.find()
        self._review.jobs.start(DRAWING, self._draw)

    def waiting(self, title: str) -> Response:
        """Show the progress while pairs are drawn, or the reason for which they could not be."""
        job = self._review.jobs.last(DRAWING)
        error = None if job is None else job.error
        return self._review.page("drawing.html", title=title, error=error)

    def _draw(self, job: Job) -> None:
        with self._review.open() as index:
            on_drawn = partial(job.on_step, "Documents compared")
            sample = draw(index.store, index.meta, on_drawn=on_drawn)
        listed = self._review.found.listed() if self.of_groups else None
        self._pool = Pool.of(sample, None if listed is None else listed.groups)


@functools.lru_cache(maxsize=1)
def _turns(pool: Pool, threshold: float) -> list[SampledPair]:
    """Return all pairs in turn, sorted once for all of their pages."""
    return pool.in_turn(threshold, ())


@dataclass(frozen=True)
class Judge:
    """The page."""

    review: Review
    drawing: Drawing

    def show(self, given: Given) -> Response:
        """Show the next pair."""
        review = self.review
        if (pool := self.drawing.pool()) is None:
            return self.drawing.waiting("Judge")
        judgements = review.index.judgements()
        return review.page(
            "judge.html",
            pair=self._first(pool, judgements) if review.write else None,
            counts={verdict: len(judgements.of(verdict)) for verdict in VERDICTS},
            said=self._said(given),
            threshold=self.drawing.threshold,
            pool=pool,
            back={"from": "judge"},
        )

    def _said(self, given: Given) -> str:
        """Return what was done just now. The page hides the similarity before the verdict."""
        if (made := self.review.decisions.of(given.get("made"))) is not None:
            judged = made.made[0]
            similarity = measured(judged.similarity, None)
            return f"{_IN_WORDS[judged.verdict]}, similarity {similarity}. "
        if "kept" in given:
            kept, read = given["kept"], given.get("read", "")
            return f"{kept} of {read} judgements were kept; the others have newer ones. "
        return ""

    def draw(self, given: Given) -> Response:
        """Start to draw pairs from the documents as they are now."""
        self.drawing.start()
        return self.review.redirect("/judge")

    def export(self, given: Given) -> Response:
        """Return all judgements as JSON lines."""
        lines = [json.dumps(each.to_json()) + "\n" for each in self.review.index.judgements().pairs]
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
        for left, right, *_ in _turns(pool, self.drawing.threshold):
            if (left, right) in judged:
                continue
            found = {each.id: each for each in index.store.get([left, right])}
            two = [found[id] for id in (left, right) if id in found]
            if sum(bool(text_at(each.source, index.meta.text_fields)) for each in two) == 2:
                judgement = judgements.between(left, right)
                return pair_of(two, index.meta, self.review.show, judgement=judgement)
        return None
