"""The pool of pairs to judge, which a job draws when a page first needs it."""

from __future__ import annotations

from functools import partial

from esdedup.analysis.judging import Pool, make_pool
from esdedup.review.jobs import Job
from esdedup.review.pages import Review
from esdedup.sketch.limits import ACTING

DRAWING = "Drawing pairs to judge"


class Drawing:
    """Draws the pool in the background, and keeps it until it is drawn again."""

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
        grouping = self._review.grouping
        chosen = grouping.limits.chosen(self._review.index.scheme)
        return chosen.metric == "jaccard" and not grouping.exact

    @property
    def job(self) -> Job | None:
        """The last job that drew pairs; None if there was none."""
        return self._review.jobs.last(DRAWING)

    def pool(self) -> Pool | None:
        """The pool; None if it is not there yet. It is drawn if nobody asked for it before."""
        if self._pool is None and self.job is None:
            self.start()
        return self._pool

    def start(self) -> None:
        """Start to draw, unless that is under way."""
        self._pool = None
        self._review.jobs.start(DRAWING, self._draw)

    def _draw(self, job: Job) -> None:
        with self._review.open() as index:
            self._pool = make_pool(
                index.store, index.meta, on_step=partial(job.on_step, "Documents compared")
            )
