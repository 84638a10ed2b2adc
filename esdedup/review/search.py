"""The page Search: the documents most similar to a text or to a document."""

from dataclasses import dataclass, replace
from typing import Any

from starlette.responses import Response

from esdedup.exceptions import UsageError
from esdedup.models import Document, Query
from esdedup.review.decide import logs_of
from esdedup.review.pages import Given, NotThere, Review
from esdedup.review.texts import pair_of
from esdedup.search.warnings import lacking
from esdedup.sketch.limits import LOOKING, Limits
from esdedup.text.characters import message_of

_MOST = 100
"""Results on a page."""
_NUMBER = 10


@dataclass(frozen=True)
class Search:
    """The page."""

    review: Review

    def form(self, given: Given) -> Response:
        """Show the form, with the numbers of the index and the steps."""
        review = self.review
        steps = {
            "documents": review.index.statistics().documents,
            "groups": review.found.listed(),
            "judged": len(review.index.judgements().pairs),
            "runs": len([*logs_of(review)]),
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
        index, number = self.review.index, given.whole("number", _NUMBER, _MOST)
        if self.review.by_distance:
            limits = replace(self.review.grouping.limits, k=number)
        else:
            limits = Limits(threshold=given.share("threshold", LOOKING), k=number)
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

    def _page(self, given: Given, **values: Any) -> Response:
        """Show the forms, with results or an error."""
        return self.review.page(
            "search.html",
            **{"results": None, "warnings": [], "error": None, "steps": None} | values,
            text="" if given.get("id") else given.get("text", ""),
            id=given.get("id", ""),
            threshold=given.get("threshold", f"{LOOKING:g}"),
            number=given.get("number", "").strip() or str(_NUMBER),
            by_distance=self.review.by_distance,
        )
