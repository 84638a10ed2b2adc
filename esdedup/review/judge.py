"""The page Judge: pairs drawn over the whole range of similarity, judged by one key each."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from starlette.responses import Response

from esdedup.analysis.explain import compare
from esdedup.analysis.judging import Pool
from esdedup.analysis.sampling import draw
from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.models import Document
from esdedup.review.jobs import Job
from esdedup.review.pages import Asked, Review
from esdedup.review.texts import Sides, changed, measured, pair_of
from esdedup.sketch.limits import ACTING
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import VERDICTS, Judgement, Judgements, Verdict
from esdedup.text.characters import message_of

_IN_WORDS: dict[Verdict, str] = {
    "duplicate": "Judged a duplicate",
    "different": "Judged not a duplicate",
    "unsure": "Skipped",
}
_AT_ONCE = 100
"""Pairs whose documents are looked up at once, if those of many are gone."""

DRAWING = "Drawing pairs to judge"

Ids = tuple[str, str]


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
        if self.of_groups and self._review.found.listed() is None:
            # Jobs run in turn: the groups are there when pairs are drawn.
            self._review.found.find()
        self._review.jobs.start(DRAWING, self._draw)

    def _draw(self, job: Job) -> None:
        with self._review.open() as index:
            self.outdated = _outdated(index)
            sample = draw(
                index.store, index.meta, on_drawn=partial(job.on_step, "Documents compared")
            )
            listed = self._review.found.listed() if self.of_groups else None
            self._pool = Pool.of(sample, None if listed is None else listed.groups)


def _outdated(index: Index) -> frozenset[Judgement]:
    pairs, meta = index.judgements().pairs, index.meta
    ids = {id for each in pairs for id in (each.left, each.right)}
    documents = {each.id: each for each in index.store.get([*ids], [*meta.text_fields])}

    def now(judgement: Judgement) -> list[Document]:
        both = judgement.left, judgement.right
        return [documents[id] for id in both if id in documents]

    return frozenset(each for each in pairs if changed(each, now(each), meta))


@dataclass(frozen=True)
class Judge:
    """The page. handed: ids of all pairs that were shown, each because it was its turn."""

    review: Review
    drawing: Drawing
    handed: set[Ids] = field(default_factory=set)

    def show(self, asked: Asked) -> Response:
        """Show the next pair."""
        return self._next(asked, "")

    def judge(self, asked: Asked) -> Response:
        """Keep a verdict, and show the next pair."""
        ids, verdict = (asked.id("left"), asked.id("right")), asked.verdict()
        documents = self._documents(ids)
        if len(documents) < 2:
            return self._next(asked, "A document of this pair is gone: not judged")
        fields, scheme = self.review.index.meta.text_fields, self.review.index.scheme
        texts = [text_at(each.source, fields) or "" for each in documents.values()]
        similarity = compare(texts[0], texts[1], scheme).similarity
        drawn = ids in self.handed
        self.review.decisions.judge([ids], verdict, similarity, drawn=drawn)
        # The page hides the similarity before the verdict.
        said = f"{_IN_WORDS[verdict]}, similarity {measured(similarity, None)}"
        return self._next(asked, said)

    def undo(self, asked: Asked) -> Response:
        """Undo the last judgement of this session, whose pair is the next one again."""
        try:
            ids = self.review.decisions.undo()
        except UsageError as error:
            return self._next(asked, message_of(str(error)))
        return self._next(asked, "Undone" if ids else "Nothing was judged in this session")

    def draw(self, asked: Asked) -> Response:
        """Start to draw pairs from the documents as they are now."""
        self.drawing.start()
        return self.review.redirect("/judge")

    def export(self, asked: Asked) -> Response:
        """Return all judgements as JSON lines."""
        lines = [json.dumps(each.to_json()) + "\n" for each in self.review.index.judgements().pairs]
        headers = {"content-disposition": 'attachment; filename="judgements.jsonl"'}
        return Response("".join(lines), 200, headers, "application/x-ndjson")

    def read(self, asked: Asked) -> Response:
        """Keep the judgements of an export, unless newer ones are there."""
        found = []
        for number, line in enumerate(asked.text("lines").splitlines(), 1):
            try:
                found += [Judgement.from_json(json.loads(line))] if line.strip() else []
            except (ValueError, RecursionError, UsageError) as error:
                raise UsageError(f"line {number} is not a judgement: {error}") from error
        kept = self.review.decisions.read(found)
        return self.review.redirect("/judge", read=len(found), kept=kept)

    def _next(self, asked: Asked, said: str) -> Response:
        """Show the next pair. said: what became of the last one."""
        review = self.review
        if said and not asked.fragment:
            return review.redirect("/judge")
        if (pool := self.drawing.pool()) is None:
            return waiting(review, asked, self.drawing, "Judge")
        judgements = review.index.judgements()
        outdated = self.drawing.outdated.intersection(judgements.pairs)
        pair = self._first(pool, judgements, outdated) if review.write else None
        if pair is not None:
            self.handed.add((pair.left.id, pair.right.id))
        judged = {verdict: len(judgements.of(verdict)) for verdict in VERDICTS}
        judgement = None if pair is None else judgements.between(pair.left.id, pair.right.id)
        return review.page(
            asked,
            "judge_pair.html" if asked.fragment else "judge.html",
            pair=pair,
            judgement=judgement,
            outdated=len(outdated),
            said=said or self._read(asked),
            judged=judged,
            total=sum(judged.values()),
            threshold=self.drawing.threshold,
            pool=pool,
            fragment=asked.fragment,
        )

    def _read(self, asked: Asked) -> str:
        """What became of judgements that were read, in words."""
        read, kept = asked.text("read"), asked.text("kept")
        if not (read.isdecimal() and kept.isdecimal()):
            return ""
        return f"{kept} of {read} judgements were kept; the others have newer ones"

    def _first(
        self, pool: Pool, judgements: Judgements, outdated: frozenset[Judgement]
    ) -> Sides | None:
        """The first pair in turn whose documents are still there, with texts."""
        # A pair that was judged on another page is shown in its turn: only then does it count.
        judged = {
            (each.left, each.right)
            for each in judgements.pairs
            if each.drawn and each not in outdated
        }
        turns, count = iter(pool.in_turn(self.drawing.threshold, judged)), 1
        while some := [*itertools.islice(turns, count)]:
            documents = self._documents([id for pair in some for id in pair[:2]])
            for left, right, *_ in some:
                if left in documents and right in documents:
                    two = documents[left], documents[right]
                    return pair_of(*two, self.review.index.meta, self.review.show)
            count = min(2 * count, _AT_ONCE)
        return None

    def _documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents that have a text, by id."""
        index = self.review.index
        fields = index.meta.text_fields
        found = index.store.get(ids)
        return {each.id: each for each in found if text_at(each.source, fields) is not None}


def waiting(review: Review, asked: Asked, drawing: Drawing, title: str) -> Response:
    """Show the progress while pairs are drawn, or the reason for which they could not be."""
    if asked.fragment:
        return Response(headers={"hx-refresh": "true"})
    error = None if drawing.job is None else drawing.job.error
    return review.page(asked, "drawing.html", title=title, error=error, refreshing=error is None)
