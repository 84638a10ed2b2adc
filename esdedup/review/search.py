"""The page Search: the documents most similar to a text or to a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from esdedup.analysis.explain import compare
from esdedup.exceptions import UsageError
from esdedup.models import Document, Query
from esdedup.review.pages import Asked, Review, redirect
from esdedup.review.texts import Shown, marked_beside, measured
from esdedup.search.limits import LOOKING, Limits
from esdedup.search.warnings import lacking

_MOST = 100
"""Results on a page."""
_NUMBER = 10
_PATIENCE = 1.0
"""Seconds that a search waits before it shows why."""


@dataclass(frozen=True)
class _Result:
    """A result. measure: similarity or distance, as text."""

    measure: str
    shown: Shown


@dataclass(frozen=True)
class Search:
    """The page, with what its results share with the query."""

    review: Review

    def routes(self) -> list[Route]:
        """The routes of the page."""
        review = self.review
        return [
            review.shown("/", self.form),
            review.shown("/search", self.by_id),
            review.asked("/search", self.by_text),
            review.shown("/bands", self.bands),
            review.asked("/bands", self.bands),
        ]

    def form(self, asked: Asked) -> Response:
        """The form; nothing is searched for yet."""
        answer = self._page(asked, found=None, warnings=[])
        self.review.prepare()
        return answer

    def by_text(self, asked: Asked) -> Response:
        """The results for a text. For an id, there is a page with an address to link."""
        text, id = asked.text("text"), asked.text("id")
        if text.strip() and id:
            raise UsageError("give either a text or the id of a document, not both")
        if id:
            names = "threshold", "number", "fields"
            rest = {name: asked.text(name) for name in names if name in asked.given}
            return redirect("/search", id=id, **rest)
        if not text.strip():
            raise UsageError("paste a text, or give the id of a document")
        # The form of a text can't be sent again by itself.
        if (job := self.review.prepare()) is not None:
            job.over.wait()
        return self._results(asked, Query(text))

    def by_id(self, asked: Asked) -> Response:
        """The results for a document."""
        if not asked.text("id"):
            return self.form(asked)
        id = asked.id("id")
        text = self.review.text_of(id)
        job = self.review.prepare()
        if job is not None and not job.over.wait(_PATIENCE):
            return self._page(asked, found=None, warnings=[], waiting=True)
        return self._results(asked, Query(text, id))

    def bands(self, asked: Asked) -> Response:
        """The bands and segments that a result shares with the text or document."""
        left, right = asked.text("left"), asked.id("right")
        text = self.review.text_of(left) if left else asked.text("text")
        compared = compare(text, self.review.text_of(right), self.review.index.scheme)
        template = "bands_fragment.html" if asked.fragment else "bands.html"
        return self.review.page(asked, template, compared=compared, left=left, right=right)

    def _results(self, asked: Asked, query: Query) -> Response:
        index, limits = self.review.index, self._limits(asked)
        (result,) = index.similar_many([query], limits)
        fields = asked.names("fields", self.review.show)
        found = []
        for match in result.matches:
            document = Document(match.id, match.source)
            shown = marked_beside(query.text, document, index.meta, fields)
            found.append(_Result(measured(match.similarity, match.distance), shown))
        warnings = [lacking(result, limits, "signature" in index.scheme.kinds)]
        if result.truncated:
            warnings.append(
                f"More than {limits.candidates:,} candidates: the best of them were verified, and a"
                " match may be missing"
            )
        return self._page(asked, found=found, warnings=[*filter(None, warnings)])

    def _limits(self, asked: Asked) -> Limits:
        options, number = self.review.options, asked.whole("number", _NUMBER, _MOST)
        if options.get("metric") == "hamming":
            return Limits("hamming", distance=options.get("distance"), matches=number)
        return Limits(threshold=asked.share("threshold", LOOKING), matches=number)

    def _page(self, asked: Asked, *, waiting: bool = False, **found: Any) -> Response:
        return self.review.page(
            asked,
            "search.html",
            text=asked.text("text"),
            id=asked.text("id"),
            threshold=asked.share("threshold", LOOKING),
            number=asked.whole("number", _NUMBER, _MOST),
            fields=asked.names("fields", self.review.show),
            refreshing=waiting,
            waiting=waiting,
            by_distance=self.review.options.get("metric") == "hamming",
            **found,
        )
