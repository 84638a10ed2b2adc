"""The pages of one document and of two, and the form that judges two documents."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from esdedup.analysis.explain import compare
from esdedup.review.pages import Asked, Review
from esdedup.review.texts import alone, changed, field_names, measured, pair_of


@dataclass(frozen=True)
class Compare:
    """The pages."""

    review: Review

    def document(self, asked: Asked) -> Response:
        """Show a document with its text and all of its fields."""
        review = self.review
        document, meta = review.document(asked.id("id")), review.index.meta
        shown = alone(document, meta, field_names(document, meta))
        return review.page(asked, "document.html", shown=shown)

    def pair(self, asked: Asked) -> Response:
        """Show two documents side by side, with their shared bands and the judgement on them."""
        review, index = self.review, self.review.index
        left, right = review.document(asked.id("left")), review.document(asked.id("right"))
        found = index.explain(left.id, right.id)
        judgement, whole = index.judgements().between(left.id, right.id), "whole" in asked.given
        return review.page(
            asked,
            "compare.html",
            pair=found,
            sides=pair_of(left, right, index.meta, review.show, whole=whole),
            similarity=measured(found.similarity, None, equal=found.duplicates),
            judgement=judgement,
            outdated=judgement is not None and changed(judgement, (left, right), index.meta),
        )

    def judge(self, asked: Asked) -> Response:
        """Keep a judgement, and show the page that it came from."""
        left, right, verdict = asked.id("left"), asked.id("right"), asked.verdict()
        review = self.review
        texts = review.text_of(left), review.text_of(right)
        similarity = compare(*texts, review.index.scheme).similarity
        review.decisions.judge([(left, right)], verdict, similarity)
        return self._back(asked, left, right, judged=right)

    def undo(self, asked: Asked) -> Response:
        """Undo the last judgement on two documents."""
        left, right = asked.id("left"), asked.id("right")
        self.review.decisions.undo((left, right), asked.text("judged"))
        return self._back(asked, left, right, judged=None)

    def _back(self, asked: Asked, left: str, right: str, *, judged: str | None) -> Response:
        """Show the page with the form of a judgement, or of its undo."""
        if asked.text("from") == "group":
            rest = {name: asked.text(name) or None for name in ("page", "at")}
            return self.review.redirect("/group", id=left, judged=judged, **rest)
        return self.review.redirect("/compare", left=left, right=right)
