"""The page Search: the documents most similar to a text or to a document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.responses import Response

from esdedup.exceptions import UsageError
from esdedup.models import Document, Query
from esdedup.review.history import paths_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Given, NotThere, Review
from esdedup.review.texts import pair_of
from esdedup.search.warnings import lacking
from esdedup.sketch.limits import LOOKING, Limits
from esdedup.text.characters import message_of

_MOST = 100
"""Results on a page."""
_NUMBER = 10
_PREPARING = "Listing tokens, once, for searches"
_PATIENCE = 60.0
"""Seconds to wait for the tokens of a local file."""


@dataclass(frozen=True)
class Search:
    """The page."""

    review: Review

    def prepare(self) -> None:
        """Start to list the tokens of a local file: half a minute for a million documents."""

        def work(_: Job) -> None:
            with self.review.open() as index:
                index.similar("a text")

        if isinstance(self.review.index.place.target, Path):
            self.review.jobs.start(_PREPARING, work)

    def form(self, given: Given) -> Response:
        """Show the form, with the numbers of the index and the steps."""
        review = self.review
        steps = {
            "documents": review.index.statistics().documents,
            "groups": review.found.listed(),
            "judged": len(review.index.judgements().pairs),
            "runs": len(paths_of(review)),
            "threshold": review.grouping.limits.threshold,
        }
        return self._page(given, steps=steps)

    def show(self, given: Given) -> Response:
        """Show the documents similar to a text or to a document."""
        # Browsers send each line end as two characters.
        text, id = given.get("text", "").replace("\r\n", "\n"), given.get("id", "")
        try:
            if id:
                text = self.review.text_of(id)
            elif not text.strip():
                raise UsageError("enter a text, or the id of a document")
            return self._results(given, Query(text, id or None))
        except (UsageError, NotThere) as error:
            status = 404 if isinstance(error, NotThere) else 400
            return self._page(given, status=status, error=message_of(str(error)))

    def _results(self, given: Given, query: Query) -> Response:
        index, limits = self.review.index, self._limits(given)
        if (job := self.review.jobs.last(_PREPARING)) is not None:
            job.over.wait(_PATIENCE)
        (result,) = index.similar_many([query], limits)
        asked = Document("", {index.meta.text_fields[0]: query.text})
        found = [
            pair_of(
                (asked, Document(match.id, match.source)),
                index.meta,
                self.review.show,
                similarity=match.similarity,
                distance=match.distance,
            )
            for match in result.matches
        ]
        warnings = [lacking(result, limits, index.scheme)]
        if result.truncated:
            warnings.append(
                f"More than {limits.candidates:,} candidates: the best of them were verified, and a"
                " match may be missing"
            )
        answer = self._page(given, results=found, warnings=[*filter(None, warnings)])
        # Browsers go back to the answer to a form only if they may keep it.
        answer.headers["cache-control"] = "private, no-cache"
        return answer

    @property
    def _by_distance(self) -> bool:
        review = self.review
        return review.grouping.limits.chosen(review.index.scheme).metric == "hamming"

    def _limits(self, given: Given) -> Limits:
        number = given.whole("number", _NUMBER, _MOST)
        if self._by_distance:
            return replace(self.review.grouping.limits, k=number)
        return Limits(threshold=given.share("threshold", LOOKING), k=number)

    def _page(self, given: Given, **values: Any) -> Response:
        """Show the forms, with results or an error."""
        return self.review.page(
            "search.html",
            **{"results": None, "warnings": [], "error": None, "steps": None} | values,
            text="" if given.get("id") else given.get("text", ""),
            id=given.get("id", ""),
            threshold=given.get("threshold", f"{LOOKING:g}"),
            number=given.get("number", "").strip() or str(_NUMBER),
            by_distance=self._by_distance,
        )
