"""The page Search: the documents most similar to a text or to a document."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from esdedup.analysis.explain import compare
from esdedup.exceptions import UsageError
from esdedup.models import Document, Query
from esdedup.review.pages import Asked, NotThere, Review, redirect
from esdedup.review.texts import Shown, marked_beside, measured
from esdedup.search.warnings import lacking
from esdedup.sketch.limits import LOOKING, Limits
from esdedup.text.characters import message_of

_MOST = 100
"""Results on a page."""
_NUMBER = 10
_PATIENCE = 1.0
"""Seconds that a search waits before it shows why."""
_MOST_KEPT = 32
_MOST_CHARACTERS = 64 << 20
"""Pasted texts in memory, and characters of all of them; the last one is always there."""
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Characters that a box of one line, or a form, does not give back as they were."""
_OPTIONS = "threshold", "number", "fields"


@dataclass(frozen=True)
class _Result:
    """A result. measure: similarity or distance, as text. more: the query has other words."""

    measure: str
    shown: Shown
    more: bool


class Pasted:
    """Keeps the texts that were pasted last, so that their results have an address.

    A text itself does not stand in an address: browsers keep those.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._texts: dict[str, str] = {}

    def keep(self, text: str) -> str:
        """The random key of a text. The texts that were kept first give way to it."""
        with self._turn:
            key = next((each for each, kept in self._texts.items() if kept == text), None)
            key = key or secrets.token_urlsafe(16)
            self._texts.pop(key, None)
            self._texts[key] = text
            while len(self._texts) > 1 and not self._fits():
                del self._texts[next(iter(self._texts))]
            return key

    def text(self, key: str) -> str | None:
        """The text of a key; None if it is not kept any more."""
        with self._turn:
            return self._texts.get(key)

    def _fits(self) -> bool:
        characters = sum(map(len, self._texts.values()))
        return len(self._texts) <= _MOST_KEPT and characters <= _MOST_CHARACTERS


@dataclass(frozen=True)
class Search:
    """The page, with what its results share with the query."""

    review: Review
    pasted: Pasted = field(default_factory=Pasted)

    def routes(self) -> list[Route]:
        """The routes of the page."""
        review = self.review
        return [
            review.shown("/", self.form),
            review.shown("/search", self.show),
            review.asked("/search", self.ask),
            review.shown("/bands", self.bands),
            review.asked("/bands", self.bands),
        ]

    def form(self, asked: Asked) -> Response:
        """The form; nothing is searched for yet."""
        answer = self._page(asked)
        self.review.prepare()
        return answer

    def ask(self, asked: Asked) -> Response:
        """Send the browser to the results, whose address it can open again.

        If both a text and an id are given, the one counts that was not there before: the form
        holds the text or id of the last search.
        """
        # Browsers send each line end as two characters.
        text, id = asked.text("text").replace("\r\n", "\n"), asked.text("id")
        former = {name: asked.text(name) or None for name in ("of", "pasted")}
        former_id = former["of"] or ""
        if not id and _UNFIT.search(former_id):
            id = former_id
        if text.strip() and id == former_id:
            id = ""
        elif id and text == self.pasted.text(former["pasted"] or ""):
            text = ""
        rest = {name: asked.text(name) for name in _OPTIONS if name in asked.given}
        if text.strip() and id:
            both = "Give either a text or the id of a document, not both"
            return self._page(asked, status=400, error=both, former=former)
        if id:
            return redirect("/search", id=id, **rest)
        if text.strip():
            return redirect("/search", pasted=self.pasted.keep(text), **rest)
        neither = "Paste a text, or give the id of a document"
        return self._page(asked, status=400, error=neither, former=former)

    def show(self, asked: Asked) -> Response:
        """The results for a pasted text or for a document."""
        if not asked.text("id") and not asked.text("pasted"):
            return self.form(asked)
        try:
            query = self._query(asked)
            job = self.review.prepare()
            if job is not None and not job.over.wait(_PATIENCE):
                return self._page(asked, waiting=True)
            return self._results(asked, query)
        except (UsageError, NotThere) as error:
            if asked.fragment:
                raise
            status = 404 if isinstance(error, NotThere) else 400
            return self._page(asked, status=status, error=message_of(str(error)))

    def _query(self, asked: Asked) -> Query:
        if id := asked.text("id"):
            return Query(self.review.text_of(id), id)
        if (text := self.pasted.text(asked.text("pasted"))) is None:
            raise NotThere("the pasted text is not kept any more: paste it again")
        return Query(text)

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
            shown, more = marked_beside(query.text, document, index.meta, fields)
            found.append(_Result(measured(match.similarity, match.distance), shown, more))
        warnings = [lacking(result, limits, index.scheme)]
        if result.truncated:
            warnings.append(
                f"More than {limits.candidates:,} candidates: the best of them were verified, and a"
                " match may be missing"
            )
        return self._page(asked, found=found, warnings=[*filter(None, warnings)])

    @property
    def _by_distance(self) -> bool:
        review = self.review
        return review.grouping.limits.chosen(review.index.scheme).metric == "hamming"

    def _limits(self, asked: Asked) -> Limits:
        limits, number = self.review.grouping.limits, asked.whole("number", _NUMBER, _MOST)
        if self._by_distance:
            return replace(limits, k=number)
        return Limits(threshold=asked.share("threshold", LOOKING), k=number)

    def _page(
        self,
        asked: Asked,
        *,
        waiting: bool = False,
        former: Mapping[str, str | None] | None = None,
        **values: Any,
    ) -> Response:
        """The form, with results or an error. former: the last search, if not the one asked for."""
        id, key = asked.text("id"), asked.text("pasted")
        kept = self.pasted.text(key) or ""
        page: dict[str, Any] = {"found": None, "warnings": [], "error": None, **values}
        return self.review.page(
            asked,
            "search.html",
            text=asked.text("text", kept),
            id=id,
            unfit=_UNFIT.search(id) is not None,
            former=former or {"of": id or None, "pasted": key or None},
            threshold=asked.text("threshold") if "threshold" in asked.given else f"{LOOKING:g}",
            number=asked.text("number").strip() or str(_NUMBER),
            fields=asked.names("fields", self.review.show),
            typed=asked.fields,
            refreshing=waiting,
            waiting=waiting,
            by_distance=self._by_distance,
            **page,
        )
