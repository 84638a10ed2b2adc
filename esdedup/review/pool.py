"""The pool of pairs to judge, which a job draws when a page first needs it."""

from __future__ import annotations

from functools import partial

from esdedup.analysis.judging import Pool, make_pool
from esdedup.index import Index
from esdedup.review.jobs import Job
from esdedup.review.pages import Review
from esdedup.review.texts import changed
from esdedup.sketch.limits import ACTING
from esdedup.stores.judgements import Judgement

DRAWING = "Drawing pairs to judge"
_READ_AT_ONCE = 500
"""Judged pairs whose texts are read at once."""


class Drawing:
    """Draw the pool in the background, and keep it until it is drawn again.

    outdated: judgements whose texts had changed when the pool was drawn. Their pairs are shown
    again.
    """

    def __init__(self, review: Review) -> None:
        self._review = review
        self._pool: Pool | None = None
        self.outdated: frozenset[Judgement] = frozenset()

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
        """Return the pool; None if it is not there yet. The first call starts to draw it."""
        if self._pool is None and self.job is None:
            self.start()
        return self._pool

    def start(self) -> None:
        """Start to draw, unless that is under way."""
        self._pool = None
        self._review.jobs.start(DRAWING, self._draw)

    def _draw(self, job: Job) -> None:
        with self._review.open() as index:
            self.outdated = _outdated(index)
            self._pool = make_pool(
                index.store, index.meta, on_step=partial(job.on_step, "Documents compared")
            )


def _outdated(index: Index) -> frozenset[Judgement]:
    pairs, meta = index.judgements().pairs, index.meta
    found = []
    for first in range(0, len(pairs), _READ_AT_ONCE):
        some = pairs[first : first + _READ_AT_ONCE]
        ids = {id for each in some for id in (each.left, each.right)}
        documents = {each.id: each for each in index.store.get([*ids], [*meta.text_fields])}
        for each in some:
            two = [documents[id] for id in (each.left, each.right) if id in documents]
            if changed(each, two, meta):
                found.append(each)
    return frozenset(found)
