"""The pages of one document and of two, and the verdicts on two documents."""

from dataclasses import dataclass
from typing import cast

from starlette.responses import Response

from esdedup.review.pages import Given, Review
from esdedup.review.texts import alone, pair_of
from esdedup.stores.judgements import Verdict


@dataclass(frozen=True)
class Compare:
    """The pages."""

    review: Review

    def document(self, given: Given) -> Response:
        """Show a document with its text and all of its fields."""
        shown = alone(self.review.document(given.id()), self.review.index.meta)
        return self.review.page("document.html", shown=shown, back=None)

    def pair(self, given: Given) -> Response:
        """Show two documents side by side, with their shared bands and the judgement on them."""
        review, index = self.review, self.review.index
        left, right = review.document(given.id("left")), review.document(given.id("right"))
        found = index.explain(left.id, right.id)
        pair = pair_of(
            (left, right),
            index.meta,
            review.show,
            similarity=found.similarity,
            judgement=index.judgements().between(left.id, right.id),
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
