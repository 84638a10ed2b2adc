"""The pages of groups: all of them, and one with its members beside the representative."""

from dataclasses import dataclass

import numpy as np
from starlette.exceptions import HTTPException
from starlette.responses import Response

from esdedup.analysis.report import summaries
from esdedup.analysis.templates import in_group, warning_of
from esdedup.compare.source import texts_in
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, Groups
from esdedup.groups.templates import split_templates
from esdedup.review.found import head_of, members_of
from esdedup.review.pages import Given, Review
from esdedup.review.texts import ShownPair, alone, pair_of
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

    def find(self, given: Given) -> Response:
        """Find the groups again."""
        self.review.found.find()
        return self.review.redirect("/decide" if given.get("from") == "decide" else "/groups")

    def browse(self, given: Given) -> Response:
        """Show a page of the list of groups, the largest first."""
        review = self.review
        groups = review.found.groups()
        if groups is None or review.found.finding:
            return self._waiting()
        pages = max(1, -(-len(groups) // _GROUPS))
        page = given.whole("page", 1, pages)
        some = groups.heads[(page - 1) * _GROUPS : page * _GROUPS]
        return review.page(
            "groups.html",
            groups=groups,
            rows=described(review, groups, some),
            warnings=warnings_of(review, groups),
            number=page,
            pages=pages,
        )

    def one(self, given: Given) -> Response:
        """Show a page of one group, with members beside the representative."""
        review, id = self.review, given.id()
        groups = review.found.groups()
        if groups is None:
            return self._waiting()
        made, back = review.decisions.of(given.get("made")), {"from": "group", "left": id}
        if (head_row := head_of(groups, id)) is None:
            shown = alone(review.document(id), review.index.meta, review.show)
            return review.page("document.html", shown=shown, made=made, back=back)
        index, rows, head = review.index, members_of(groups, head_row), groups.ids[head_row]
        judgements = index.judgements.read()
        pages = -(-len(rows) // _MEMBERS)
        page = min(given.whole("page", 1, 1 << 30), pages)
        some = rows[(page - 1) * _MEMBERS : page * _MEMBERS]
        found = in_group(index.store, index.meta, groups, head_row)
        template = [warning_of(head, len(rows) + 1, found)] if found else []
        ids = [head, *(groups.ids[row] for row in some)]
        documents = {each.id: each for each in index.store.get(ids)}
        members: list[tuple[int, str, ShownPair | None]] = []
        for row in some:
            member, pair = groups.member(row), None
            if {head, member.id} <= documents.keys():
                two, value = (documents[head], documents[member.id]), member.similarity
                judgement = judgements.between(head, member.id)
                pair = pair_of(
                    two, index.meta, review.show, value, member.distance, judgement=judgement
                )
            members.append((row, member.id, pair))
        # The keys go on at the member that took the place of the one that was judged.
        focus = min(given.whole("at", 1, _MEMBERS), len(some)) if "at" in given else 0
        return review.page(
            "group.html",
            head=head,
            size=len(rows) + 1,
            members=members,
            focus=focus,
            number=page,
            pages=pages,
            warnings=[*template, *warnings_of(review, groups)],
            chosen=head in judgements.representatives,
            made=made,
            back=back | {"page": page, "at": focus or None},
        )

    def split(self, given: Given) -> Response:
        """Judge all pairs of a group different, those of selected rows with others, or of forms."""
        review, index, id, how = self.review, self.review.index, given.id(), given.get("how", "")
        groups, members = self._group(id)
        if str(review.found.state) != given.get("state"):
            raise UsageError("the group has changed since you saw it: look at it again")
        rows, ids = np.array(members), [groups.ids[row] for row in members]
        if how == "all":
            part = np.arange(rows.size)
        elif how == "selected":
            part = np.array([f"row{row}" in given for row in rows.tolist()]).astype(np.int64)
        else:
            texts = texts_in(index.store, index.meta.text_fields)
            part = split_templates(
                np.zeros(rows.size, np.int64),
                lambda some: texts([ids[row] for row in some.tolist()]),
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
        return review.redirect("/group", id=id, made=decision.time)

    def represent(self, given: Given) -> Response:
        """Let a member represent its group, or let the rule choose again."""
        id, decisions = given.id(), self.review.decisions
        if "rule" in given:
            decisions.unrepresent(id)
        else:
            groups, members = self._group(id)
            decisions.represent(id, [groups.ids[row] for row in members])
        return self.review.redirect("/group", id=id)

    def _group(self, id: str) -> tuple[Groups, list[int]]:
        """Return all groups, and the rows of a document's group, the representative's first."""
        groups = self.review.found.groups()
        head = None if groups is None else head_of(groups, id)
        if groups is None or head is None:
            raise HTTPException(404, f"{id!r} is in no group: find groups again")
        return groups, [head, *members_of(groups, head)]

    def _waiting(self) -> Response:
        """Show the progress while groups are found, which this starts, or why it failed."""
        return self.review.page("groups.html", groups=None, error=self.review.found.ready())


def described(review: Review, groups: Groups, heads: I64) -> list[tuple[str, int, str, str]]:
    """Return the representative, size, greatest difference and beginning of some groups."""
    index, rows = review.index, []
    for each in summaries(index.store, index.meta, groups, heads.tolist()):
        far = groups.measure.in_words(each.farthest)
        rows.append((each.representative, each.documents, far, each.text or "It no longer exists"))
    return rows


def rules_of(grouping: Grouping, scheme: Scheme) -> str:
    """Return how documents are grouped, and which of them stay, in words."""
    limits, keep = grouping.limits, grouping.keep
    if grouping.exact:
        found = "Documents with equal texts, once normalised, form a group"
    else:
        sketch = scheme.chosen(limits)
        measure = sketch.measure
        near = f"a {measure.within(sketch.settled(limits))}"
        leader = grouping.method == "leader"
        to = " to their representative" if leader else " along a chain of documents"
        if measure.directed:
            to = ""
        found = f"Documents with {near}{to} form a group"
    stays = f"the {keep} {'text' if keep.by == 'length' else 'id'}"
    if keep.by == "words":
        stays = "the most different words"
    if keep.by == "field":
        words = {"time": ("oldest", "newest")}.get(keep.compared, ("least", "greatest"))
        stays = f"the {words[keep.last]} {keep.field}"
    return f"{found}. Of each group, the document with {stays} stays, unless one was chosen by hand"


def warnings_of(review: Review, groups: Groups) -> list[str]:
    """Return the sentences to read before groups are believed."""
    grouping = groups.grouping
    found = [*missing_pairs(groups.recall, groups.capped, grouping.limits)]
    if unordered := groups.unordered.warning(grouping.keep):
        found.append(unordered)
    if (statistics := review.found.statistics) is not None:
        found += not_compared(statistics, 0 if grouping.exact else len(review.index.meta.stop))
    if (reason := review.found.outdated) is not None:
        found.append(f"Some decisions do not show here yet: {reason}")
    return found
