"""The page Search: the documents most similar to a text or to a document."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash
from starlette.responses import Response

from esdedup.exceptions import UsageError
from esdedup.models import Document, Query
from esdedup.review.history import paths_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Asked, NotThere, Review
from esdedup.review.texts import Sides, measured, pair_of
from esdedup.search.warnings import lacking
from esdedup.sketch.limits import LOOKING, Limits
from esdedup.text.characters import message_of

_MOST = 100
"""Results on a page."""
_NUMBER = 10
_PREPARING = "Listing tokens, once, for searches"
_PATIENCE = 1.0
"""Seconds that a search waits before it shows why."""
_MOST_KEPT = 8
"""Pasted texts in memory."""


@dataclass(frozen=True)
class _Result:
    """A result. measure: similarity or distance, as text. sides: the query, and the document."""

    measure: str
    sides: Sides


@dataclass(frozen=True)
class Search:
    """The page.

    pasted: the last texts, by digest. Results have an address without the text, because browsers
    keep addresses.
    """

    review: Review
    pasted: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Start to list the tokens of a local file, which its first search needs.

        It takes half a minute for a million documents.
        """

        def work(_: Job) -> None:
            with self.review.open() as index:
                index.similar("a text")

        if isinstance(self.review.index.place.target, Path):
            self.review.jobs.start(_PREPARING, work)

    def form(self, asked: Asked) -> Response:
        """Show the form, with the numbers of the index and the steps."""
        review = self.review
        steps = {
            "documents": review.index.statistics().documents,
            "groups": review.found.listed(),
            "judged": len(review.index.judgements().pairs),
            "runs": len(paths_of(review)),
            "threshold": review.grouping.limits.threshold,
        }
        return self._page(asked, steps=steps)

    def ask(self, asked: Asked) -> Response:
        """Send the browser to the results.

        If both a text and an id are given, one of them may be that of the last search, which the
        form still holds: the other one counts.
        """
        # Browsers send each line end as two characters.
        text, id = asked.text("text").replace("\r\n", "\n"), asked.text("id")
        key = xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))
        if text.strip() and id == asked.text("of"):
            id = ""
        elif id and key == asked.text("pasted"):
            text = ""
        if bool(text.strip()) == bool(id):
            wrong = "Enter a text or the id of a document, and not both"
            return self._page(asked, status=400, error=wrong)
        rest = {name: asked.given.get(name) for name in ("threshold", "number")}
        if id:
            return self.review.redirect("/search", id=id, **rest)
        self.pasted.pop(key, None)
        self.pasted[key] = text
        for former in [*self.pasted][:-_MOST_KEPT]:
            self.pasted.pop(former, None)
        return self.review.redirect("/search", pasted=key, **rest)

    def show(self, asked: Asked) -> Response:
        """Show the results for a pasted text or for a document."""
        if "id" not in asked.given and "pasted" not in asked.given:
            return self.form(asked)
        try:
            query = self._query(asked)
            job = self.review.jobs.last(_PREPARING)
            if job is not None and not job.over.wait(_PATIENCE):
                return self._page(asked, waiting=True, refreshing=True)
            return self._results(asked, query)
        except (UsageError, NotThere) as error:
            status = 404 if isinstance(error, NotThere) else 400
            return self._page(asked, status=status, error=message_of(str(error)))

    def _query(self, asked: Asked) -> Query:
        if "id" in asked.given:
            return Query(self.review.text_of(asked.id("id")), asked.id("id"))
        if (text := self.pasted.get(asked.text("pasted"))) is None:
            raise NotThere("the pasted text is not kept any more: paste it again")
        return Query(text)

    def _results(self, asked: Asked, query: Query) -> Response:
        index, limits = self.review.index, self._limits(asked)
        (result,) = index.similar_many([query], limits)
        found = []
        for match in result.matches:
            document = Document(match.id, match.source)
            asked_for, show = Document("", {}), self.review.show
            sides = pair_of(asked_for, document, index.meta, show, query=query.text)
            measure = measured(match.similarity, match.distance, equal=sides.equal)
            found.append(_Result(measure, sides))
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

    def _page(self, asked: Asked, **values: Any) -> Response:
        """Show the form, with results or an error."""
        page: dict[str, Any] = {"found": None, "warnings": [], "error": None, "waiting": False}
        page["steps"] = None
        return self.review.page(
            asked,
            "search.html",
            text=asked.text("text") or self.pasted.get(asked.text("pasted"), ""),
            id=asked.text("id"),
            former={
                "of": asked.text("of") or asked.text("id") or None,
                "pasted": asked.text("pasted") or None,
            },
            threshold=asked.text("threshold", f"{LOOKING:g}"),
            number=asked.text("number").strip() or str(_NUMBER),
            by_distance=self._by_distance,
            **page | values,
        )
