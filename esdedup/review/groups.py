"""The pages of groups: all of them, and one with its members beside the representative."""

from dataclasses import dataclass

import numpy as np
from starlette.exceptions import HTTPException
from starlette.responses import Response

from esdedup.analysis.report import summaries
from esdedup.analysis.templates import in_group, warning_of
from esdedup.compare.keep_rule import KeepRule
from esdedup.compare.source import texts_in
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups
from esdedup.groups.templates import split_templates
from esdedup.review.group_search import head_of, members_of
from esdedup.review.pages import Parameters, Review
from esdedup.review.texts import PairDetails, ShownPair, alone, pair_of
from esdedup.search.scopes import warning_of_missing
from esdedup.search.warnings import missing_pairs, not_compared
from esdedup.sketch.scheme import Scheme
from esdedup.text.arrays import I64

_GROUPS = 20
"""Groups on a page."""
_MEMBERS = 10
"""Members on a page."""
_MOST_APART = 5_000
"""Pairs that are judged different by one decision: those of 100 documents."""


@dataclass(frozen=True)
class GroupPages:
    """The pages."""

    review: Review

    def find(self, parameters: Parameters) -> Response:
        """Find the groups again."""
        self.review.group_search.find()
        pages = {"decide": "/decide", "overview": "/"}
        return self.review.redirect(pages.get(parameters.get("from", ""), "/groups"))

    def browse(self, parameters: Parameters) -> Response:
        """Show a page of the list of groups, the largest first."""
        review = self.review
        groups = review.group_search.groups()
        if groups is None or review.group_search.finding:
            return self._waiting()
        pages = max(1, -(-len(groups) // _GROUPS))
        page = parameters.integer("page", 1, pages)
        heads = groups.heads[(page - 1) * _GROUPS : page * _GROUPS]
        return review.page(
            "groups.html",
            {
                "groups": groups,
                "rows": described(review, groups, heads),
                "warnings": warnings_of(review, groups),
                "number": page,
                "pages": pages,
            },
        )

    def one(self, parameters: Parameters) -> Response:
        """Show a page of one group, with members beside the representative."""
        review, id = self.review, parameters.id()
        groups = review.group_search.groups()
        if groups is None:
            return self._waiting()
        decision = review.decisions.of(parameters.get("made"))
        back: dict[str, object] = {"from": "group", "left": id}
        if (head_row := head_of(groups, id)) is None:
            shown = alone(review.document(id), review.index.meta, review.show)
            values = {"shown": shown, "decision": decision, "back": back}
            return review.page("document.html", values)
        index, head = review.index, groups.ids[head_row]
        rows = members_of(groups, head_row)
        judgements = index.judgements.read()
        pages = -(-len(rows) // _MEMBERS)
        page = min(parameters.integer("page", 1, 1 << 30), pages)
        rows_of_page = rows[(page - 1) * _MEMBERS : page * _MEMBERS]
        template = in_group(index.store, index.meta, groups, head_row)
        template_warnings = [warning_of(head, len(rows) + 1, template)] if template else []
        ids = [head, *(groups.ids[row] for row in rows_of_page)]
        documents = {document.id: document for document in index.store.get(ids)}
        members: list[tuple[int, str, ShownPair | None]] = []
        for row in rows_of_page:
            member, pair = groups.member(row), None
            if {head, member.id} <= documents.keys():
                pair = pair_of(
                    (documents[head], documents[member.id]),
                    index.meta,
                    review.show,
                    PairDetails(
                        member.similarity,
                        member.distance,
                        judgement=judgements.between(head, member.id),
                    ),
                )
            members.append((row, member.id, pair))
        # The keys go on at the member that took the place of the one that was judged.
        focus = 0
        if "at" in parameters:
            focus = min(parameters.integer("at", 1, _MEMBERS), len(rows_of_page))
        return review.page(
            "group.html",
            {
                "head": head,
                "size": len(rows) + 1,
                "members": members,
                "focus": focus,
                "number": page,
                "pages": pages,
                "warnings": [*review.warnings(template_warnings), *warnings_of(review, groups)],
                "chosen": head in judgements.representatives,
                "decision": decision,
                "back": back | {"page": page, "at": focus or None},
            },
        )

    def split(self, parameters: Parameters) -> Response:
        """Judge all pairs of a group different, those of selected rows with others, or of forms."""
        review, index = self.review, self.review.index
        id, extent = parameters.id(), parameters.get("how", "")
        groups, members = self._group(id)
        if str(review.group_search.state) != parameters.get("state"):
            raise UsageError("the group has changed since you saw it: look at it again")
        rows, ids = np.array(members), [groups.ids[row] for row in members]
        if extent == "all":
            part = np.arange(rows.size)
        elif extent == "selected":
            part = np.array([f"row{row}" in parameters for row in rows.tolist()]).astype(np.int64)
        else:
            texts = texts_in(index.store, index.meta.text_fields)
            part = split_templates(
                np.zeros(rows.size, np.int64),
                lambda rows: texts([ids[row] for row in rows.tolist()]),
                index.scheme,
            )
        counts = np.unique(part, return_counts=True)[1]
        if counts.size == 1:
            raise UsageError("nothing to split: select documents, or the group is no template")
        if (pairs := int(counts.sum() ** 2 - (counts**2).sum()) // 2) > _MOST_APART:
            raise UsageError(
                f"these are {pairs:,} pairs, and at most {_MOST_APART:,} are judged together:"
                " choose a higher threshold, or split templates when groups are found"
            )
        apart = np.argwhere(np.triu(part[:, None] != part)).tolist()
        decision = review.decisions.judge([(ids[a], ids[b]) for a, b in apart], "different")
        return review.redirect("/group", {"id": id, "made": decision.time})

    def represent(self, parameters: Parameters) -> Response:
        """Let a member represent its group, or let the rule choose again."""
        id, decisions = parameters.id(), self.review.decisions
        if "rule" in parameters:
            decisions.unrepresent(id)
        else:
            groups, members = self._group(id)
            decisions.represent(id, [groups.ids[row] for row in members])
        return self.review.redirect("/group", {"id": id})

    def _group(self, id: str) -> tuple[Groups, list[int]]:
        """Return all groups, and the rows of a document's group, the representative's first."""
        groups = self.review.group_search.groups()
        head = None if groups is None else head_of(groups, id)
        if groups is None or head is None:
            raise HTTPException(404, f"{id!r} is in no group: find groups again")
        return groups, [head, *members_of(groups, head)]

    def _waiting(self) -> Response:
        """Show the progress while groups are found, which this starts, or why it failed."""
        values = {"groups": None, "error": self.review.group_search.ready()}
        return self.review.page("groups.html", values)


def described(review: Review, groups: Groups, heads: I64) -> list[tuple[str, int, str, str]]:
    """Return the representative, size, greatest difference and beginning of some groups."""
    index, rows = review.index, []
    for group in summaries(index.store, index.meta, groups, heads.tolist()):
        farthest = groups.measure.in_words(group.farthest)
        text = group.text or "It no longer exists"
        rows.append((group.representative, group.documents, farthest, text))
    return rows


def rules_of(grouping: Grouping, scheme: Scheme) -> str:
    """Return how documents are grouped, and which of them stay, in words."""
    limits, keep = grouping.limits, grouping.keep
    scope = f", within {limits.within}," if limits.within else ""
    if grouping.exact:
        rule = f"Documents with equal texts, once normalised{scope or ','} form a group"
    else:
        sketch = scheme.chosen(limits)
        measure = sketch.measure
        limit = f"a {measure.within(sketch.settled(limits))}"
        if measure.directed:
            compared_to = ""
        elif grouping.method == "leader":
            compared_to = " to their representative"
        else:
            compared_to = " along a chain of documents"
        rule = f"Documents with {limit}{compared_to}{scope} form a group"
    stays = ", then ".join(map(_stays, keep.rules))
    return f"{rule}. Of each group, the document with {stays} stays, unless one was chosen by hand"


def _stays(keep: KeepRule) -> str:
    """Return in words by which property one keep rule chooses the document that stays."""
    if keep.values:
        return f"the first {keep.field} of {', '.join(keep.values)}"
    if keep.by == "words":
        return "the most different words"
    if keep.by == "field":
        words = {"time": ("oldest", "newest")}.get(keep.compared, ("least", "greatest"))
        return f"the {words[keep.last]} {keep.field}"
    return f"the {keep} {'text' if keep.by == 'length' else 'id'}"


def warnings_of(review: Review, groups: Groups) -> list[str]:
    """Return the sentences to read before groups are believed."""
    grouping = groups.grouping
    warnings = [*missing_pairs(groups.recall, groups.capped, grouping.limits)]
    if unordered := groups.unordered.warning(grouping.keep):
        warnings.append(unordered)
    if unscoped := warning_of_missing(grouping.limits.within, groups.unscoped):
        warnings.append(unscoped)
    if (statistics := review.group_search.statistics) is not None:
        warnings += not_compared(statistics, 0 if grouping.exact else len(review.index.meta.stop))
    if (reason := review.group_search.outdated) is not None:
        warnings.append(f"Some decisions do not show here yet: {reason}")
    return review.warnings(warnings)
