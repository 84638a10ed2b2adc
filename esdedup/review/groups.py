"""The pages of groups: all of them, and one with its members beside the representative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from starlette.responses import Response

from esdedup.analysis.templates import in_group, warning_of
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping
from esdedup.groups.templates import split_templates
from esdedup.pairing.verify import texts_in
from esdedup.review.found import Listed, row_of
from esdedup.review.pages import Asked, NotThere, Review
from esdedup.review.texts import Sides, alone, changed, measured, pair_of, snippet
from esdedup.search.warnings import cut_buckets, lacking_recall, without_tokens
from esdedup.stores.judgements import Judgement, Judgements

_GROUPS = 20
"""Groups on a page."""
_MEMBERS = 10
"""Members on a page."""
_MOST_APART = 5_000
"""Pairs that are judged different at once: those of 100 documents."""
_MOST_SPLIT = 1_000
"""Documents of a group that is split, as many as are grouped again by themselves."""
_SORTS = {"size": "Size", "likeness": "Least similarity"}


@dataclass(frozen=True)
class GroupRow:
    """A group in the list."""

    id: str
    size: int
    farthest: str
    snippet: str


@dataclass(frozen=True)
class _Member:
    """A duplicate beside its representative. outdated: a text has changed since the judgement."""

    id: str
    row: int
    measure: str
    sides: Sides | None
    judgement: Judgement | None
    outdated: bool


@dataclass(frozen=True)
class Groups:
    """The pages."""

    review: Review

    def find(self, asked: Asked) -> Response:
        """Find the groups again."""
        self.review.found.find()
        return self.review.redirect("/decide" if asked.text("from") == "decide" else "/groups")

    def browse(self, asked: Asked) -> Response:
        """Show a page of the list of groups."""
        review, sort = self.review, asked.text("sort", "size")
        if sort not in _SORTS:
            raise UsageError(f"sort {sort!r}: use {', '.join(_SORTS)}")
        listed = review.found.listed()
        if listed is None or review.found.finding:
            return self._waiting(asked)
        order = np.arange(len(listed)) if sort == "size" else listed.by_likeness
        pages = max(1, -(-len(order) // _GROUPS))
        page = asked.whole("page", 1, pages)
        some = order[(page - 1) * _GROUPS : page * _GROUPS]
        return review.page(
            asked,
            "groups.html",
            listed=listed,
            rows=described(review, listed, some.tolist()),
            warnings=warnings_of(review, listed),
            sort=sort,
            sorts=_SORTS,
            number=page,
            pages=pages,
            decided=review.found.decided,
            judged=str(listed.groups.judged),
        )

    def one(self, asked: Asked) -> Response:
        """Show a page of one group, with members beside the representative."""
        review, id = self.review, asked.id("id")
        listed = review.found.listed()
        if listed is None:
            return self._waiting(asked)
        judgements = review.index.judgements()
        place = {name: asked.text(name) or None for name in ("page", "at")}
        notice = self._notice(listed, judgements, id, asked.text("judged"))
        split = asked.text("split")
        common: dict[str, Any] = {
            "notice": notice,
            "id": id,
            "place": place,
            "split": split,
            "apart": review.decisions.made_at(split),
        }
        at = listed.group_of(id)
        if at is None:
            shown = alone(review.document(id), review.index.meta, review.show)
            known = row_of(listed.groups.ids, id) is not None
            decided = review.found.decided
            return review.page(
                asked, "alone.html", shown=shown, known=known, decided=decided, **common
            )
        rows = listed.members_of(at)
        pages = -(-len(rows) // _MEMBERS)
        page = min(asked.whole("page", 1, 1 << 30), pages)
        head = listed.id(int(listed.heads[at]))
        some = rows[(page - 1) * _MEMBERS : page * _MEMBERS]
        members = self._members(head, listed, some, judgements)
        return review.page(
            asked,
            "group.html",
            head=head,
            size=len(rows) + 1,
            members=members,
            # The keys go on at the member that took the place of the one that was judged.
            focus=min(asked.whole("at", 1, _MEMBERS), len(members)) if "at" in asked.given else 0,
            number=page,
            pages=pages,
            warnings=[*self._template(listed, at), *warnings_of(review, listed)],
            outdated=review.found.outdated,
            chosen=head in judgements.representatives,
            state=review.found.state,
            **common,
        )

    def split(self, asked: Asked) -> Response:
        """Judge many pairs of one group different at once.

        how: "all" of its documents are different; "selected" ones are from the others, each named
        by its row; or they fill a "template" differently.
        """
        review, id, how = self.review, asked.id("id"), asked.text("how")
        at, listed = self._group(id)
        if review.found.state != asked.text("state"):
            raise UsageError("the group has changed since you saw it: look at it again")
        rows = np.array([int(listed.heads[at]), *listed.members_of(at)])
        if rows.size > _MOST_SPLIT:
            raise UsageError(
                f"the group has {rows.size:,} documents: split at most {_MOST_SPLIT:,}"
            )
        ids = [listed.id(row) for row in rows.tolist()]
        if how == "all":
            part = np.arange(rows.size)
        elif how == "selected":
            part = np.array([f"row{row}" in asked.given for row in rows.tolist()]).astype(np.int64)
        else:
            texts = texts_in(review.index.store, review.index.meta.text_fields)
            part = split_templates(
                np.zeros(rows.size, np.int64),
                lambda some: texts([ids[row] for row in some.tolist()]),
                review.index.scheme,
            )
        left, right = np.nonzero(np.triu(part[:, None] != part))
        if not left.size:
            none = {"selected": "no document is selected: select some"}
            raise UsageError(none.get(how, "these documents do not look like a template"))
        if left.size > _MOST_APART:
            raise UsageError(
                f"these are {left.size:,} pairs, and at most {_MOST_APART:,} are judged at once:"
                " choose a higher threshold, or split templates when groups are found"
            )
        pairs = [(ids[a], ids[b]) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
        made = review.decisions.judge(pairs, "different")
        return review.redirect("/group", id=id, split=made[0].judged)

    def undo_split(self, asked: Asked) -> Response:
        """Undo the judgements of a split."""
        id, judged = asked.id("id"), asked.text("judged")
        if not judged or self.review.decisions.undo(judged=judged) is None:
            raise UsageError("this was undone already")
        return self.review.redirect("/group", id=id)

    def _group(self, id: str) -> tuple[int, Listed]:
        """The position of a document's group, and all groups. Raises NotThere if it has none."""
        listed = self.review.found.listed()
        at = None if listed is None else listed.group_of(id)
        if listed is None or at is None:
            raise NotThere(f"{id!r} is in no group: find groups again")
        return at, listed

    def represent(self, asked: Asked) -> Response:
        """Let a member represent its group."""
        id = asked.id("id")
        at, listed = self._group(id)
        members = [int(listed.heads[at]), *listed.members_of(at)]
        self.review.decisions.represent(id, [listed.id(row) for row in members])
        return self.review.redirect("/group", id=id)

    def unrepresent(self, asked: Asked) -> Response:
        """Let the rule choose the representative of a group again."""
        id = asked.id("id")
        self.review.decisions.unrepresent(id)
        return self.review.redirect("/group", id=id)

    def _waiting(self, asked: Asked) -> Response:
        """Show the progress while groups are found, which this starts, or why it failed."""
        error = self.review.found.ready()
        return self.review.page(
            asked, "groups.html", listed=None, refreshing=error is None, error=error
        )

    def _members(
        self, head: str, listed: Listed, rows: Sequence[int], judgements: Judgements
    ) -> list[_Member]:
        index, fields = self.review.index, self.review.show
        ids = [listed.id(row) for row in rows]
        documents = {each.id: each for each in index.store.get([head, *ids])}
        found = []
        for row, id in zip(rows, ids, strict=True):
            two = [documents[each] for each in (head, id) if each in documents]
            sides = pair_of(two[0], two[1], index.meta, fields) if len(two) == 2 else None
            measure = _measure(listed, row, listed.groups.value[row])
            judgement = judgements.between(head, id)
            outdated = judgement is not None and changed(judgement, two, index.meta)
            found.append(_Member(id, row, measure, sides, judgement, outdated))
        return found

    def _template(self, listed: Listed, at: int) -> list[str]:
        """A warning if a group looks like a template."""
        index, head = self.review.index, int(listed.heads[at])
        found = in_group(index.store, index.meta, listed.groups, head)
        size = int(listed.sizes[at])
        return [warning_of(listed.id(head), size, found)] if found else []

    def _notice(
        self, listed: Listed, judgements: Judgements, id: str, judged: str
    ) -> dict[str, Any] | None:
        """What was judged on this page just now, and where that document is. id: the other one."""
        found = judgements.between(id, judged) if judged else None
        index = self.review.index
        if found is None or changed(found, index.store.get([id, judged]), index.meta):
            return None
        at = listed.group_of(judged)
        # Groups of texts that were not there, or that could not be formed again, show nothing.
        known = all(row_of(listed.groups.ids, each) is not None for each in (id, judged))
        return {
            "id": judged,
            "of": id,
            "verdict": found.verdict,
            "judged": found.judged,
            "head": None if at is None else listed.id(int(listed.heads[at])),
            "together": at is not None and at == listed.group_of(id),
            "shown": known and self.review.found.outdated is None,
        }


def described(review: Review, listed: Listed, positions: Sequence[int]) -> list[GroupRow]:
    """Return some groups, each with the beginning of its representative's text."""
    index = review.index
    ids = [listed.id(int(listed.heads[at])) for at in positions]
    documents = {each.id: each for each in index.store.get(ids, [*index.meta.text_fields])}
    rows = []
    for at, id in zip(positions, ids, strict=True):
        document = documents.get(id)
        text = "It is gone" if document is None else snippet(document, index.meta)
        far = _measure(listed, listed.members_of(at)[0], listed.farthest[at])
        rows.append(GroupRow(id, int(listed.sizes[at]), far, text))
    return rows


def rules_of(grouping: Grouping) -> str:
    """Return how documents are grouped, and which of them stay, in words."""
    limits, keep = grouping.limits, grouping.keep
    if grouping.exact:
        found = "Documents with equal texts, once normalised, form a group"
    else:
        alike = f"a Jaccard similarity of {limits.threshold:g} or more"
        if grouping.by_distance:
            alike = f"a Hamming distance of {limits.distance} bits or less"
        leader = grouping.method == "leader"
        to = "to their representative" if leader else "along a chain of documents"
        found = f"Documents with {alike} {to} form a group"
    if keep.by == "length":
        stays = f"the {keep} text"
    elif keep.by == "field":
        stays = f"the {'greatest' if keep.last else 'least'} {keep.field}"
    else:
        stays = f"the {keep} id"
    return f"{found}. Of each group, the document with {stays} stays, unless one was chosen by hand"


def warnings_of(review: Review, listed: Listed) -> list[str]:
    """Return the sentences to read before groups are believed."""
    groups = listed.groups
    grouping, limits = groups.grouping, groups.grouping.limits
    found = [cut_buckets(groups.capped, limits.max_per_bucket)]
    if not grouping.exact and not grouping.by_distance:
        found.append(lacking_recall(groups.recall, limits))
    if (statistics := review.found.statistics) is not None:
        found.append(without_tokens(statistics))
    if (reason := review.found.outdated) is not None:
        found.append(f"Some decisions do not show here yet: {reason}")
    return [each for each in found if each is not None]


def _measure(listed: Listed, row: int, value: float) -> str:
    """The similarity or distance of a duplicate, given by its row, as text."""
    groups = listed.groups
    if groups.grouping.by_distance:
        return measured(None, int(value))
    equal = groups.digest(row) == groups.digest(int(groups.representative[row]))
    return measured(float(value), None, equal=equal)
