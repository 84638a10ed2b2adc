"""The pages of groups: all of them, and one with its members beside the representative."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from urllib.parse import parse_qsl

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
from esdedup.review.decisions import Decision
from esdedup.review.group_list import Filters
from esdedup.review.group_search import head_of, members_of
from esdedup.review.pages import Parameters, Review
from esdedup.review.shown.texts import (
    PairDetails,
    ShownMember,
    alone,
    excerpt,
    member_of,
    title_of,
)
from esdedup.review.who_stays import candidates
from esdedup.search.scopes import warning_of_missing
from esdedup.search.warnings import missing_pairs, not_compared
from esdedup.sketch.scheme import Scheme
from esdedup.stores.judgements import ChangedSince
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
        """Show a page of the list of groups, filtered and sorted."""
        review = self.review
        # Taken before the groups are read: the forms are refused after a decision in between.
        state, groups = review.group_search.state, review.group_search.groups()
        if groups is None or review.group_search.finding:
            return self._waiting()
        group_list = review.group_list
        filters = filters_of(parameters, group_list.fields)
        positions = group_list.chosen(groups, filters)
        pages = max(1, -(-positions.size // _GROUPS))
        page = min(parameters.integer("page", 1, 1 << 30), pages)
        looked_at = group_list.looked_at.among(group_list.numbers(groups).keys)
        return review.page(
            "groups.html",
            {
                "groups": groups,
                "state": state,
                "rows": group_list.listed(groups, positions[(page - 1) * _GROUPS : page * _GROUPS]),
                "total": positions.size,
                "looked_at": int(looked_at.sum()),
                "accepted": parameters.get("accepted", ""),
                "filters": filters,
                "choices": group_list.choices(),
                "warnings": warnings_of(review, groups),
                "number": page,
                "pages": pages,
                "listed": filters.query,
                "decision": review.decisions.of(parameters.get("made")),
                "back": {"from": "groups", "list": filters.query},
            },
        )

    def one(self, parameters: Parameters) -> Response:
        """Show a page of one group: the representative, and where each member differs."""
        review, id = self.review, parameters.id()
        state, groups = review.group_search.state, review.group_search.groups()
        if groups is None:
            return self._waiting()
        decision = review.decisions.of(parameters.get("made"))
        filters = self._filters(parameters)
        back: dict[str, object] = {"from": "group", "left": id, "list": filters.query or None}
        if (head_row := head_of(groups, id)) is None:
            shown = alone(review.document(id), review.index.meta, review.show)
            next_head = self._next(groups, filters, None)
            values = {"shown": shown, "decision": decision, "back": back, "next_head": next_head}
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
        members: list[tuple[int, str, ShownMember | None]] = []
        for row in rows_of_page:
            member, shown_member = groups.member(row), None
            if {head, member.id} <= documents.keys():
                judgement = judgements.between(head, member.id)
                shown_member = member_of(
                    documents[head],
                    documents[member.id],
                    index.meta,
                    review.show,
                    PairDetails(member.similarity, member.distance, judgement=judgement),
                    all_ignored="ignored" in parameters,
                )
            members.append((row, member.id, shown_member))
        # The keys go on at the member that took the place of the one that was judged.
        focus = 0
        if "at" in parameters:
            focus = min(parameters.integer("at", 1, _MEMBERS), len(rows_of_page))
        representative = None
        if head in documents:
            representative = excerpt(documents[head], index.meta, review.show)
        key = review.group_list.key(groups, head_row)
        positions = review.group_list.chosen(groups, replace(filters, remaining=False))
        heads = review.group_list.numbers(groups).heads[positions]
        place = np.flatnonzero(heads == head_row)
        return review.page(
            "group.html",
            {
                "head": head,
                "state": state,
                "representative": representative,
                "title": title_of(documents[head], review.show) if head in documents else "",
                "size": len(rows) + 1,
                "members": members,
                "focus": focus,
                "number": page,
                "pages": pages,
                "place": int(place[0]) + 1 if place.size else None,
                "listed_groups": int(heads.size),
                "looked_at": bool(review.group_list.looked_at.among([key])[0]),
                "next_head": self._next(groups, filters, head_row),
                "list_query": filters.query or None,
                "candidates": candidates(review, groups, head_row) if review.write else {},
                "all_ignored": "ignored" in parameters,
                "warnings": [*review.warnings(template_warnings), *warnings_of(review, groups)],
                "chosen": head in judgements.representatives,
                "decision": decision,
                "back": back | {"page": page, "at": focus or None},
            },
        )

    def _filters(self, parameters: Parameters) -> Filters:
        """Return the filters of the list from which a group was opened."""
        listed = Parameters(parse_qsl(parameters.get("list", ""), keep_blank_values=True))
        return filters_of(listed, self.review.group_list.fields)

    def _next(self, groups: Groups, filters: Filters, head: int | None) -> str | None:
        """Return the next group of a list that was not looked at; None if there is none.

        head: row of the group that precedes it; None to begin at the first.
        """
        group_list = self.review.group_list
        numbers = group_list.numbers(groups)
        positions = group_list.chosen(groups, replace(filters, remaining=False))
        place = np.flatnonzero(numbers.heads[positions] == head)
        behind = int(place[0]) + 1 if place.size else 0
        in_turn = np.roll(positions, -behind)
        keys = [numbers.keys[position] for position in in_turn.tolist()]
        remaining = in_turn[~group_list.looked_at.among(keys)]
        heads = [int(row) for row in numbers.heads[remaining] if row != head]
        return groups.ids[heads[0]] if heads else None

    def accept(self, parameters: Parameters) -> Response:
        """Note that a group was looked at, or withdraw that, and show the next one."""
        review, id = self.review, parameters.id()
        groups, (head, *_) = self._group(id)
        self._check_state(parameters)
        filters = self._filters(parameters)
        list_query = filters.query or None
        key = review.group_list.key(groups, head)
        if "withdraw" in parameters:
            review.group_list.looked_at.accept([key], accepted=False)
            return review.redirect("/group", {"id": id, "list": list_query})
        next_head = self._next(groups, filters, head)
        review.group_list.looked_at.accept([key])
        if next_head is None:
            return review.redirect("/groups", dict(parse_qsl(filters.query)))
        return review.redirect("/group", {"id": next_head, "list": list_query})

    def accept_listed(self, parameters: Parameters) -> Response:
        """Note that groups of a page of the list were looked at, or judge them no duplicates."""
        review, extent = self.review, parameters.get("how", "")
        groups = review.group_search.groups()
        self._check_state(parameters)
        if groups is None:
            raise UsageError("there are no groups: find them")
        numbers = review.group_list.numbers(groups)
        rows = [int(row) for row in parameters.get("rows", "").split(",") if row.isdecimal()]
        if extent in ("selected", "apart"):
            rows = [row for row in rows if f"row{row}" in parameters]
        positions = np.flatnonzero(np.isin(numbers.heads, rows))
        if not positions.size:
            raise UsageError("select groups first")
        place: dict[str, object] = {**dict(parse_qsl(parameters.get("list", "")))}
        place["page"] = parameters.get("page")
        if extent == "apart":
            sizes = numbers.sizes[positions]
            _check_apart(int((sizes * (sizes - 1) // 2).sum()))
            pairs = [
                pair
                for head in numbers.heads[positions].tolist()
                for pair in combinations([head, *members_of(groups, head)], 2)
            ]
            decision = self._judge_apart(groups, pairs)
            return review.redirect("/groups", {**place, "made": decision.time})
        keys = [numbers.keys[position] for position in positions.tolist()]
        review.group_list.looked_at.accept(keys, accepted=extent != "withdraw")
        accepted = None if extent == "withdraw" else ",".join(map(str, rows))
        return review.redirect("/groups", {**place, "accepted": accepted})

    def _check_state(self, parameters: Parameters) -> None:
        """Raise UsageError if groups changed since the page of a form was shown."""
        if str(self.review.group_search.state) != parameters.get("state"):
            raise UsageError("the group has changed since you saw it: look at it again")

    def split(self, parameters: Parameters) -> Response:
        """Judge all pairs of a group different, those of selected rows with others, or of forms."""
        review, index = self.review, self.review.index
        id, extent = parameters.id(), parameters.get("how", "")
        groups, members = self._group(id)
        self._check_state(parameters)
        rows = np.array(members)
        if extent == "all":
            part = np.arange(rows.size)
        elif extent == "selected":
            part = np.array([f"row{row}" in parameters for row in rows.tolist()]).astype(np.int64)
        else:
            texts = texts_in(index.store, index.meta.text_fields)
            part = split_templates(
                np.zeros(rows.size, np.int64),
                lambda rows: texts([groups.ids[members[row]] for row in rows.tolist()]),
                index.scheme,
            )
        counts = np.unique(part, return_counts=True)[1]
        if counts.size == 1:
            raise UsageError("nothing to split: select documents, or the group is no template")
        _check_apart(int(counts.sum() ** 2 - (counts**2).sum()) // 2)
        apart = np.argwhere(np.triu(part[:, None] != part)).tolist()
        decision = self._judge_apart(groups, [(members[a], members[b]) for a, b in apart])
        list_query = parameters.get("list")
        return review.redirect("/group", {"id": id, "made": decision.time, "list": list_query})

    def _judge_apart(self, groups: Groups, pairs: Sequence[tuple[int, int]]) -> Decision:
        """Judge pairs of rows different. Raises ChangedSince, with their groups formed again."""
        review = self.review
        rows = sorted({row for pair in pairs for row in pair})
        view = review.decisions.view_of(groups, rows)
        ids = [(groups.ids[left], groups.ids[right]) for left, right in pairs]
        try:
            return review.decisions.judge(ids, "different", view=view)
        except ChangedSince as change:
            review.group_search.note(*change.ids)
            raise

    def represent(self, parameters: Parameters) -> Response:
        """Let a member represent its group, or let the rule choose again."""
        id, decisions = parameters.id(), self.review.decisions
        if "rule" in parameters:
            decisions.unrepresent(id)
        else:
            groups, members = self._group(id)
            decisions.represent(id, [groups.ids[row] for row in members])
        return self.review.redirect("/group", {"id": id, "list": parameters.get("list")})

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


def _check_apart(pairs: int) -> None:
    """Raise UsageError if these are too many pairs to be judged different by one decision."""
    if pairs > _MOST_APART:
        raise UsageError(
            f"these are {pairs:,} pairs, and at most {_MOST_APART:,} are judged together:"
            " choose a higher threshold, or split templates when groups are found"
        )


def filters_of(parameters: Parameters, fields: Sequence[str]) -> Filters:
    """Return the filters of an address. fields: those that groups can be filtered by."""
    return Filters(
        sort="similarity" if parameters.get("sort") == "similarity" else "size",
        least=parameters.integer("least", 2, 1 << 30),
        below=parameters.number("below"),
        words=parameters.get("words", "").strip(),
        values={name: value for name in fields if (value := parameters.get(f"in.{name}"))},
        remaining="todo" in parameters,
        joined="joined" in parameters,
    )


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
