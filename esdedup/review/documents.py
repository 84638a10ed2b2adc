"""The pages of documents: search, one document, and two side by side with a verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from mimetypes import guess_type
from pathlib import Path
from typing import cast
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from esdedup.exceptions import StoreError, UsageError
from esdedup.models import Document, Query
from esdedup.review.decisions import View
from esdedup.review.jobs import Job
from esdedup.review.messages import message
from esdedup.review.pages import Parameters, Review
from esdedup.review.shown.texts import ImageField, PairDetails, alone, excerpt, pair_of, with_words
from esdedup.search.scopes import warning_of_query
from esdedup.search.warnings import missing_matches
from esdedup.sketch.limits import LOOKING, Limits
from esdedup.sketch.within import Within
from esdedup.stores.fields import text_at, value_at
from esdedup.stores.judgements import ChangedSince, Verdict
from esdedup.text.characters import message_of

_MOST = 100
"""Results on a page."""
_NUMBER = 10
_WITH_WORDS = 20
"""Documents with words on a page."""
_QUICK, _PATIENT = 0.3, 5.0
"""Seconds to wait for the texts to be read: before the progress is shown, and without it."""
_PLACE = ("from", "page", "at", "list")
"""Values of a form that name the page that it was on."""
_PHRASE = 500
"""Characters of a text that is searched for as words if nothing is similar to it."""


@dataclass(frozen=True)
class DocumentPages:
    """Search, a document, and two documents side by side, of one review."""

    review: Review

    def show(self, parameters: Parameters) -> Response:
        """Show the form, and documents with words, or similar to a text or to a document."""
        if not {"text", "id", "words"} & parameters.keys():
            return self._page(parameters, {})
        # Browsers send each line end as two characters.
        text, id = parameters.get("text", "").replace("\r\n", "\n"), parameters.get("id", "")
        try:
            if words := parameters.get("words", "").strip():
                if (job := self._texts_are_read(_QUICK)) is not None:
                    return self._page(parameters, {"reading": job})
                return self._page(parameters, self._with_words(words))
            if id:
                fields = self.review.index.meta.text_fields
                text = text_at(self.review.document(id).source, fields) or ""
            if not text.strip():
                raise UsageError("enter words, a text, or the id of a document that has one")
            within = self.review.group_search.grouping.limits.within
            query = Query(text, id or None)
            if id and within:
                query = self.review.index.query(id=id, within=within)
            return self._results(parameters, query)
        except UsageError as error:
            values = {"error": message_of(str(error))}
            return self._page(parameters, values, status=400)
        except HTTPException as error:
            return self._page(parameters, {"error": error.detail}, status=error.status_code)

    def _texts_are_read(self, seconds: float) -> Job | None:
        """Return None if words can be searched for, else the job that reads the texts for that.

        seconds: to wait for the job. Raises StoreError if it fails.
        """
        index = self.review.index
        if index.store.has_read_texts():
            return None
        documents = index.statistics().documents

        def read(job: Job) -> None:
            index.store.read_texts(
                index.meta, lambda number: job.on_step("Documents", number, documents)
            )

        job = self.review.text_jobs.start("Reading texts", read)
        job.over.wait(seconds)
        if job.error is not None:
            raise StoreError(job.error)
        return None if job.ended else job

    def _with_words(self, words: str) -> dict[str, object]:
        """Return the documents that contain words, those with them in a row first."""
        index = self.review.index
        ids, total = index.store.full_text(words, index.meta, _WITH_WORDS)
        documents = [
            with_words(document, words, index.meta, self.review.show)
            for document in index.store.get(ids)
        ]
        return {"with_words": documents, "words_total": total}

    def _with_phrase(self, text: str, warnings: list[str]) -> dict[str, object]:
        """Return the documents that contain a text, or warn that they are not known yet."""
        # A page with a pasted text can't be loaded again by itself.
        if self._texts_are_read(_PATIENT) is None:
            return self._with_words(text)
        warnings.append(message("The texts are still being read. Search again in a moment."))
        return {}

    def _results(self, parameters: Parameters, query: Query) -> Response:
        index, number = self.review.index, parameters.integer("number", _NUMBER, _MOST)
        within = self.review.group_search.grouping.limits.within
        if not self.review.measure.by_threshold:
            limits = replace(self.review.group_search.grouping.limits, k=number, within=Within())
        else:
            limits = Limits(threshold=parameters.number("threshold", LOOKING), k=number)
        (result,) = index.similar_many([query], limits)
        queried = Document("", {index.meta.text_fields[0]: query.text})
        pairs = [
            pair_of(
                (queried, Document(match.id, match.source)),
                index.meta,
                self.review.show,
                PairDetails(match.similarity, match.distance),
            )
            for match in result.matches
        ]
        warnings = self.review.warnings(missing_matches(result, limits, index.scheme))
        if within and query.scope is None:
            of_any_scope = f"A text has no fields, so its matches are of any scope: {within}"
            warnings += self.review.warnings([of_any_scope])
        elif query.scope is not None and query.scope.is_missing:
            warnings = self.review.warnings([warning_of_query(within)])
        total = max(len(pairs), result.total or 0)
        values: dict[str, object] = {"results": pairs, "total": total, "warnings": warnings}
        if id := parameters.get("id"):
            asked = excerpt(self.review.document(id), index.meta, self.review.show)
            values["asked"] = asked
        elif pairs:
            values["asked"] = excerpt(queried, index.meta, ())
        elif len(query.text) <= _PHRASE:
            # A phrase is a part of a document, not similar to it.
            values |= self._with_phrase(query.text, warnings)
        answer = self._page(parameters, values)
        # Browsers go back to the answer to a form only if they may keep it.
        answer.headers["cache-control"] = "private, no-cache"
        return answer

    def _page(
        self, parameters: Parameters, values: Mapping[str, object], *, status: int = 200
    ) -> Response:
        """Return the page with the form, which shows the values that it was sent with."""
        id = parameters.get("id", "")
        form = {
            "text": "" if id else parameters.get("text", ""),
            "id": id,
            "words": parameters.get("words", ""),
            "threshold": parameters.get("threshold", f"{LOOKING:g}"),
            "number": parameters.get("number", "").strip() or str(_NUMBER),
            "by_threshold": self.review.measure.by_threshold,
        }
        absent: dict[str, object] = {
            "results": None,
            "warnings": [],
            "error": None,
            "asked": None,
            "reading": None,
            "with_words": None,
            "words_total": 0,
        }
        return self.review.page("search.html", {**absent, **values, **form}, status=status)

    def one(self, parameters: Parameters) -> Response:
        """Show a document with its text and all of its fields."""
        document = self.review.document(parameters.id())
        shown = alone(document, self.review.index.meta, self.review.show)
        return self.review.page("document.html", {"shown": shown, "back": None, "next_head": None})

    def image(self, parameters: Parameters) -> Response:
        """Send the image that a document names, if `review.show` has the field."""
        document = self.review.document(parameters.id())
        for name in self.review.show:
            value = value_at(document.source, name)
            if isinstance(name, ImageField) and isinstance(value, str):
                path = Path(value.removeprefix("file://"))
                if (guess_type(path)[0] or "").startswith("image/") and path.is_file():
                    return FileResponse(path)
        raise HTTPException(404, f"document {document.id!r} names no image that can be read")

    def pair(self, parameters: Parameters) -> Response:
        """Show two documents side by side, with their shared bands and the judgement on them."""
        review, index = self.review, self.review.index
        left, right = (
            review.document(parameters.id("left")),
            review.document(parameters.id("right")),
        )
        sketch = review.group_search.grouping.limits.sketch
        explanation = index.explain(left.id, right.id, sketch=sketch)
        pair = pair_of(
            (left, right),
            index.meta,
            review.show,
            PairDetails(
                similarity=explanation.similarity,
                passages=explanation if explanation.passage else None,
                judgement=index.judgements.read().between(left.id, right.id),
            ),
            excerpts="whole" not in parameters,
        )
        return review.page(
            "compare.html",
            {
                "explanation": explanation,
                "warnings": review.warnings(explanation.warnings),
                "pair": pair,
                "decision": review.decisions.of(parameters.get("made")),
                "again": parameters.get("again"),
                # Of a verdict that was not stored, on another page.
                "back": {
                    "left": left.id,
                    "right": right.id,
                    **{name: parameters[name] for name in _PLACE if name in parameters},
                },
            },
        )

    def judge(self, parameters: Parameters) -> Response:
        """Keep a judgement, and show the page that it came from.

        If the documents are not as it showed them, nothing is kept, and they are shown again.
        """
        left = self.review.document(parameters.id("left")).id
        right = self.review.document(parameters.id("right")).id
        verdict = parameters.get("verdict", "")
        digests = parameters.get("texts", "").split(".")
        if len(digests) != 2 or "judged" not in parameters:
            raise UsageError("it is not known which texts you saw: look at the documents again")
        left_digest, right_digest = digests
        view = View({left: left_digest, right: right_digest}, frozenset([parameters["judged"]]))
        sketch = self.review.group_search.grouping.limits.sketch
        similarity = self.review.index.explain(left, right, sketch=sketch).similarity
        # The page Judge only shows pairs whose turn it is.
        drawn = parameters.get("from") == "judge"
        try:
            decision = self.review.decisions.judge(
                [(left, right)], cast(Verdict, verdict), similarity, drawn=drawn, view=view
            )
        except ChangedSince as change:
            ids = {"left": left, "right": right, "again": change.kind}
            if drawn:
                # Their similarity stays hidden.
                return self.review.redirect("/judge", ids)
            place = {name: parameters.get(name) for name in _PLACE}
            return self.review.redirect("/compare", {**ids, **place})
        return self._back(parameters, decision.time)

    def undo(self, parameters: Parameters) -> Response:
        """Undo a decision of this session, and show the page that the form was on."""
        self.review.decisions.undo(parameters.get("made"))
        return self._back(parameters, None)

    def _back(self, parameters: Parameters, time: str | None) -> Response:
        """Show the page that a form was on. time: of the decision that it made, if any."""
        page = parameters.get("from")
        if page == "judge":
            return self.review.redirect("/judge", {"made": time})
        if page == "groups":
            filters = dict(parse_qsl(parameters.get("list", "")))
            return self.review.redirect("/groups", {**filters, "made": time})
        left = parameters.id("left")
        if page == "group":
            place = {name: parameters.get(name) for name in ("page", "at", "list")}
            return self.review.redirect("/group", {"id": left, "made": time, **place})
        ids = {"left": left, "right": parameters.id("right")}
        return self.review.redirect("/compare", {**ids, "made": time})
