"""The page Judge: pairs drawn over the whole range of similarity, judged by one key each."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from starlette.responses import Response
from starlette.routing import Route

from esdedup.analysis.distribution import Bin, bars
from esdedup.analysis.explain import compare
from esdedup.analysis.judging import Pool, in_turn
from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.models import Document, natural
from esdedup.review.pages import Asked, NotThere, Review, redirect
from esdedup.review.pool import Drawing
from esdedup.review.texts import Shown, changed, measured, pair_of
from esdedup.stores.fields import text_at
from esdedup.stores.judgements import VERDICTS, Judgement, Judgements
from esdedup.text.characters import message_of

_IN_WORDS: dict[str, str] = {
    "duplicate": "Judged a duplicate",
    "different": "Judged not a duplicate",
    "unsure": "Skipped",
}
_AT_ONCE = 100
"""Pairs whose documents are looked up at once, if those of many are gone."""
_JUDGED_AT_ONCE = 500
"""Judged pairs whose texts are read at once."""
_BAR = 0.1
"""Width of the bins of the chart."""

Ids = tuple[str, str]


@dataclass(frozen=True)
class Pair:
    """A pair to judge. similarity: exact, of the texts as they are shown."""

    ids: Ids
    similarity: float
    sides: tuple[Shown, Shown]


class Ahead:
    """Makes the next pair while somebody looks at the one before.

    handed: ids of all pairs that were shown because it was their turn. said: the message of the
    next page, if it is not part of the answer to a form.
    """

    def __init__(self) -> None:
        self.handed: set[Ids] = set()
        self.said = ""
        self._turn = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "next pair")
        self._key: object = None
        self._made: Future[Pair | None] | None = None

    def take(self, key: object) -> Future[Pair | None] | None:
        """The pair that was prepared for a state; None if it was for another."""
        with self._turn:
            return self._made if self._key == key else None

    def prepare(self, key: object, make: Callable[[], Pair | None]) -> None:
        """Start to make a pair for a state."""
        with self._turn:
            self._key, self._made = key, self._thread.submit(make)


class Changes:
    """Tells which judged pairs of the pool have another text since, so that they are asked again.

    The documents of a judgement are looked up once, and again when the pool is drawn again.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self._turn = threading.Lock()
        self._pool: Pool | None = None
        self._pairs: frozenset[Ids] = frozenset()
        self._known: dict[Ids, tuple[Judgement, bool]] = {}

    def of(self, pool: Pool, judgements: Judgements) -> frozenset[Ids]:
        """The ids of the pairs whose texts have changed since they were judged."""
        with self._turn:
            if pool is not self._pool:
                self._pool, self._known = pool, {}
                self._pairs = frozenset((each.left, each.right) for each in pool.pairs)
            judged = {(each.left, each.right): each for each in judgements.pairs}
            judged = {ids: judged[ids] for ids in judged.keys() & self._pairs}
            new = [each for ids, each in judged.items() if not self._knows(ids, each)]
            for first in range(0, len(new), _JUDGED_AT_ONCE):
                self._look_up(new[first : first + _JUDGED_AT_ONCE])
            return frozenset(ids for ids in judged if self._known[ids][1])

    def note(self, made: Judgement) -> None:
        """Tells of a judgement that was made now, so that its texts are those of now."""
        with self._turn:
            self._known[made.left, made.right] = made, False

    def _knows(self, ids: Ids, judgement: Judgement) -> bool:
        known = self._known.get(ids)
        return known is not None and (known[0] is judgement or known[0] == judgement)

    def _look_up(self, judgements: Sequence[Judgement]) -> None:
        ids = {id for each in judgements for id in (each.left, each.right)}
        meta = self._index.meta
        documents = {each.id: each for each in self._index.store.get([*ids], [*meta.text_fields])}
        for each in judgements:
            two = [documents[id] for id in (each.left, each.right) if id in documents]
            self._known[each.left, each.right] = each, changed(each, two, meta)


@dataclass(frozen=True)
class Judge:
    """The page."""

    review: Review
    drawing: Drawing
    changes: Changes
    ahead: Ahead = field(default_factory=Ahead)

    def routes(self) -> list[Route]:
        """The routes of the page."""
        review = self.review
        return [
            review.shown("/judge", self.show),
            review.changing("/judge/verdict", self.judge),
            review.changing("/judge/undo", self.undo),
            review.asked("/judge/draw", self.draw),
            review.shown("/judgements.jsonl", self.export),
        ]

    def show(self, asked: Asked) -> Response:
        """The pair that the address names, or the next."""
        if (pool := self.drawing.pool()) is None:
            return waiting(self.review, asked, self.drawing, "Judge")
        wanted = None
        if "left" in asked.given:
            ids = asked.id("left"), asked.id("right")
            if (wanted := self._made(ids)) is None:
                raise NotThere(f"one of {ids[0]!r} and {ids[1]!r} is gone, or has no text")
        said, self.ahead.said = self.ahead.said, ""
        return self._pair(asked, pool, wanted, said)

    def judge(self, asked: Asked) -> Response:
        """Keep a verdict, and show the next pair."""
        ids, verdict = (asked.id("left"), asked.id("right")), asked.verdict()
        review, pool = self.review, self.drawing.pool()
        documents = self._documents(ids)
        if len(documents) < 2:
            return self._answer(asked, pool, None, "A document of this pair is gone: not judged")
        similarity = self._similarity(*documents.values())
        drawn = ids in self.ahead.handed
        made = review.decisions.judge(*ids, verdict, similarity, drawn=drawn)
        self.changes.note(made)
        return self._answer(asked, pool, None, _said(made))

    def undo(self, asked: Asked) -> Response:
        """Take the last judgement of this session back, and show its pair if it is there."""
        pool = self.drawing.pool()
        try:
            ids = self.review.decisions.undo()
        except UsageError as error:
            return self._answer(asked, pool, None, message_of(str(error)))
        if ids is None:
            return self._answer(asked, pool, None, "Nothing was judged in this session")
        return self._answer(asked, pool, self._made(ids), "Undone")

    def draw(self, asked: Asked) -> Response:
        """Start to draw pairs from the documents as they are now."""
        self.drawing.start()
        return redirect("/judge")

    def export(self, asked: Asked) -> Response:
        """All judgements as JSON lines."""
        lines = [json.dumps(each.to_json()) + "\n" for each in self.review.index.judgements().pairs]
        headers = {"content-disposition": 'attachment; filename="judgements.jsonl"'}
        return Response("".join(lines), 200, headers, "application/x-ndjson")

    def _answer(self, asked: Asked, pool: Pool | None, wanted: Pair | None, said: str) -> Response:
        """The next pair, or the one that is wanted, after a form was sent."""
        if asked.fragment and pool is not None:
            return self._pair(asked, pool, wanted, said)
        self.ahead.said = said
        left, right = (None, None) if wanted is None else wanted.ids
        return redirect("/judge", left=left, right=right, shown=_shown(asked))

    def _pair(self, asked: Asked, pool: Pool, wanted: Pair | None, said: str) -> Response:
        review = self.review
        judgements = review.decisions.judgements()
        outdated = self.changes.of(pool, judgements)
        pair = turn = None
        if review.write:
            turn = self._next(pool, judgements, outdated)
            pair = wanted or turn
        if pair is not None and pair is turn:
            self.ahead.handed.add(pair.ids)
        judged = {verdict: len(judgements.of(verdict)) for verdict in VERDICTS}
        return review.page(
            asked,
            "judge_pair.html" if asked.fragment else "judge.html",
            pair=pair,
            # An address with ids would show this pair again after it was judged.
            in_turn=pair is not None and turn is not None and pair.ids == turn.ids,
            judgement=None if pair is None else judgements.between(*pair.ids),
            outdated=outdated,
            similarity=None if pair is None else measured(pair.similarity, None),
            shown=_shown(asked),
            said=said,
            judged=judged,
            total=sum(judged.values()),
            spread=_spread(pool, judgements),
            threshold=self.drawing.threshold,
            pool=pool,
            fragment=asked.fragment,
        )

    def _next(self, pool: Pool, judgements: Judgements, outdated: frozenset[Ids]) -> Pair | None:
        """The next pair, which is often made already; starts to make the one after it."""
        judged = frozenset((each.left, each.right) for each in judgements.pairs) - outdated
        ready = self.ahead.take((pool, judged))
        # If it failed, the store may be back.
        made = ready is not None and ready.exception() is None
        pair = ready.result() if ready and made else self._first(pool, judged)
        if pair is not None:
            after = judged | {pair.ids}
            self.ahead.prepare((pool, after), lambda: self._first(pool, after))
        return pair

    def _first(self, pool: Pool, judged: frozenset[Ids]) -> Pair | None:
        """The first pair in turn whose documents are still there, with texts."""
        turns, count = in_turn(pool, self.drawing.threshold, judged), 1
        while some := [*itertools.islice(turns, count)]:
            documents = self._documents([id for pair in some for id in pair[:2]])
            for left, right, *_ in some:
                if left in documents and right in documents:
                    return self._of(documents[left], documents[right])
            count = min(2 * count, _AT_ONCE)
        return None

    def _made(self, ids: Ids) -> Pair | None:
        documents = self._documents(ids)
        if not all(id in documents for id in ids):
            return None
        left, right = sorted(ids, key=natural)
        return self._of(documents[left], documents[right])

    def _documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents that have a text, by id."""
        index = self.review.index
        fields = index.meta.text_fields
        found = index.store.get(ids)
        return {each.id: each for each in found if text_at(each.source, fields) is not None}

    def _of(self, left: Document, right: Document) -> Pair:
        meta = self.review.index.meta
        sides = pair_of(left, right, meta, self.review.show)
        return Pair((left.id, right.id), self._similarity(left, right), sides)

    def _similarity(self, left: Document, right: Document) -> float:
        meta = self.review.index.meta
        texts = [text_at(each.source, meta.text_fields) or "" for each in (left, right)]
        return compare(texts[0], texts[1], meta.scheme).similarity


def waiting(review: Review, asked: Asked, drawing: Drawing, title: str) -> Response:
    """The page while pairs are drawn, or the reason for which they could not be."""
    if asked.fragment:
        return Response(headers={"hx-refresh": "true"})
    job = drawing.job
    error = None if job is None else job.failure
    return review.page(asked, "drawing.html", title=title, error=error, refreshing=error is None)


def _shown(asked: Asked) -> str | None:
    return asked.text("shown") or None


def _said(judgement: Judgement) -> str:
    """The verdict and the similarity, which the page hides before it."""
    similarity = judgement.similarity
    of = "" if similarity is None else f", similarity {measured(similarity, None)}"
    return f"{_IN_WORDS[judgement.verdict]}{of}"


def _spread(pool: Pool, judgements: Judgements) -> list[tuple[Bin, float, dict[str, int]]]:
    """The judgements in bins of similarity: the bin, the length of its bar, and the verdicts."""
    edges = [*np.arange(round(pool.floor / _BAR), round(1 / _BAR) + 1) / round(1 / _BAR)]
    counts: list[dict[str, int]] = [dict.fromkeys(VERDICTS, 0) for _ in edges[1:]]
    for each in judgements.pairs:
        if each.similarity is not None and each.similarity >= pool.floor:
            at = min(int(np.searchsorted(edges, each.similarity, "right")), len(counts)) - 1
            counts[at][each.verdict] += 1
    bins = [
        Bin(f"{low:.2f} to {high:.2f}", low, high, sum(each.values()))
        for low, high, each in zip(edges, edges[1:], counts, strict=False)
    ]
    return [(*bar, each) for bar, each in zip(bars(bins), reversed(counts), strict=True)]
