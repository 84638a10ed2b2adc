"""The pages of documents: search, one document, and two side by side with a verdict."""

from dataclasses import dataclass, replace
from mimetypes import guess_type
from pathlib import Path
from typing import Any, cast

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from esdedup.exceptions import UsageError
from esdedup.models import Document, Query
from esdedup.review.decide import logs_of
from esdedup.review.pages import Given, Review
from esdedup.review.texts import ImageField, alone, pair_of
from esdedup.search.warnings import missing_matches
from esdedup.sketch.limits import LOOKING, Limits
from esdedup.stores.fields import text_at, value_at
from esdedup.stores.judgements import Verdict
from esdedup.text.characters import message_of

_MOST = 100
"""Results on a page."""
_NUMBER = 10


@dataclass(frozen=True)
class DocumentPages:
    """Search, a document, and two documents side by side, of one review."""

    review: Review

    def form(self, given: Given) -> Response:
        """Show the form, with the numbers of the index and the steps."""
        index = self.review.index
        steps = {
            "documents": index.statistics().documents,
            "judged": len(index.judgements.read().pairs),
            "runs": len([*logs_of(self.review)]),
        }
        return self._page(given, steps=steps)

    def show(self, given: Given) -> Response:
        """Show the documents similar to a text or to a document."""
        # Browsers send each line end as two characters.
        text, id = given.get("text", "").replace("\r\n", "\n"), given.get("id", "")
        try:
            if id:
                fields = self.review.index.meta.text_fields
                text = text_at(self.review.document(id).source, fields) or ""
            if not text.strip():
                raise UsageError("enter a text, or the id of a document that has one")
            return self._results(given, Query(text, id or None))
        except UsageError as error:
            return self._page(given, status=400, error=message_of(str(error)))

    def _results(self, given: Given, query: Query) -> Response:
        index, number = self.review.index, given.whole("number", _NUMBER, _MOST)
        if not self.review.measure.by_threshold:
            limits = replace(self.review.found.grouping.limits, k=number)
        else:
            limits = Limits(threshold=given.share("threshold", LOOKING), k=number)
        (result,) = index.similar_many([query], limits)
        asked = Document("", {index.meta.text_fields[0]: query.text})
        found = [
            pair_of(
                (asked, Document(match.id, match.source)),
                index.meta,
                self.review.show,
                match.similarity,
                match.distance,
            )
            for match in result.matches
        ]
        warnings = [*missing_matches(result, limits, index.scheme)]
        total = max(len(found), result.total or 0)
        answer = self._page(given, results=found, total=total, warnings=warnings)
        # Browsers go back to the answer to a form only if they may keep it.
        answer.headers["cache-control"] = "private, no-cache"
        return answer

    def _page(self, given: Given, **values: Any) -> Response:
        return self.review.page(
            "search.html",
            **{"results": None, "warnings": [], "error": None, "steps": None} | values,
            text="" if given.get("id") else given.get("text", ""),
            id=given.get("id", ""),
            threshold=given.get("threshold", f"{LOOKING:g}"),
            number=given.get("number", "").strip() or str(_NUMBER),
            by_threshold=self.review.measure.by_threshold,
        )

    def one(self, given: Given) -> Response:
        """Show a document with its text and all of its fields."""
        shown = alone(self.review.document(given.id()), self.review.index.meta, self.review.show)
        return self.review.page("document.html", shown=shown, back=None)

    def image(self, given: Given) -> Response:
        """Send the image that a document names, if `review.show` has the field."""
        document = self.review.document(given.id())
        for name in self.review.show:
            value = value_at(document.source, name)
            if isinstance(name, ImageField) and isinstance(value, str):
                path = Path(value.removeprefix("file://"))
                if (guess_type(path)[0] or "").startswith("image/") and path.is_file():
                    return FileResponse(path)
        raise HTTPException(404, f"document {document.id!r} names no image that can be read")

    def pair(self, given: Given) -> Response:
        """Show two documents side by side, with their shared bands and the judgement on them."""
        review, index = self.review, self.review.index
        left, right = review.document(given.id("left")), review.document(given.id("right"))
        found = index.explain(left.id, right.id, sketch=review.found.grouping.limits.sketch)
        pair = pair_of(
            (left, right),
            index.meta,
            review.show,
            found.similarity,
            explained=found if found.passage else None,
            judgement=index.judgements.read().between(left.id, right.id),
            whole="whole" in given,
        )
        made, back = review.decisions.of(given.get("made")), {"left": left.id, "right": right.id}
        return review.page("compare.html", explained=found, pair=pair, made=made, back=back)

    def judge(self, given: Given) -> Response:
        """Keep a judgement, and show the page that it came from."""
        left, right = (self.review.document(given.id(each)).id for each in ("left", "right"))
        verdict = given.get("verdict", "")
        similarity = self.review.index.explain(left, right).similarity
        # The page Judge only shows pairs whose turn it is.
        drawn = given.get("from") == "judge"
        decision = self.review.decisions.judge(
            [(left, right)], cast(Verdict, verdict), similarity, drawn=drawn
        )
        return self._back(given, decision.time)

    def undo(self, given: Given) -> Response:
        """Undo a decision of this session, and show the page that the form was on."""
        self.review.decisions.undo(given.get("made"))
        return self._back(given, None)

    def _back(self, given: Given, made: str | None) -> Response:
        if given.get("from") == "judge":
            return self.review.redirect("/judge", made=made)
        left = given.id("left")
        if given.get("from") == "group":
            place = {name: given.get(name) for name in ("page", "at")}
            return self.review.redirect("/group", id=left, made=made, **place)
        return self.review.redirect("/compare", left=left, right=given.id("right"), made=made)
