"""The pages of groups: all of them, and one with its members beside the representative."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from starlette.responses import Response
from starlette.routing import Route

from esdedup.analysis.templates import in_group, warning_of
from esdedup.exceptions import StoreError, UsageError
from esdedup.models import Document
from esdedup.pairing.keep_rule import KeepRule
from esdedup.review.found import Listed, row_of
from esdedup.review.jobs import Job
from esdedup.review.pages import Asked, NotThere, Review, redirect
from esdedup.review.texts import Shown, alone, changed, in_words, measured, pair_of, snippet
from esdedup.search.warnings import cut_buckets, lacking_recall, without_tokens
from esdedup.stores.fields import value_at
from esdedup.stores.judgements import Judgement, Judgements
from esdedup.text.arrays import I64

_GROUPS = 20
"""Groups on a page."""
_MEMBERS = 10
"""Members on a page."""
_AT_ONCE = 1_000
"""Documents that are read within a request, and at once in a job."""
_SORTS = {"size": "Size", "likeness": "Least similarity", "field": "Field"}


@dataclass(frozen=True)
class _Row:
    """A group in the list. value: of the field that the list is sorted by, or None."""

    id: str
    size: int
    farthest: str
    snippet: str
    value: str | None


@dataclass(frozen=True)
class _Member:
    """A duplicate beside its representative. outdated: a text has changed since the judgement."""

    id: str
    measure: str
    sides: tuple[Shown, Shown] | None
    judgement: Judgement | None
    outdated: bool


@dataclass
class _Values:
    """The values of a field of representatives, by id, of one run that found groups."""

    run: int = -1
    name: str = ""
    by_id: dict[str, Any] = field(default_factory=dict)
    ordered: tuple[Listed, I64] | None = None
    told: Job | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class Groups:
    """The pages."""

    review: Review
    values: _Values = field(default_factory=_Values)

    def routes(self) -> list[Route]:
        """The routes of the pages."""
        review = self.review
        return [
            review.shown("/groups", self.browse),
            review.asked("/groups/find", self.find),
            review.shown("/group", self.one),
            review.asked("/group/fields", self.show_fields),
            review.changing("/group/represent", self.represent),
            review.changing("/group/represent/undo", self.undo_represent),
            review.changing("/group/unrepresent", self.unrepresent),
        ]

    def find(self, asked: Asked) -> Response:
        """Find the groups again."""
        self.review.found.find()
        return redirect("/decide" if asked.text("from") == "decide" else "/groups")

    def browse(self, asked: Asked) -> Response:
        """A page of groups."""
        review, sort, name = self.review, asked.text("sort", "size"), asked.text("field").strip()
        if sort not in _SORTS:
            raise UsageError(f"sort {sort!r}: use {', '.join(_SORTS)}")
        if sort == "field" and not name:
            raise UsageError("name the field to sort by")
        listed = review.found.listed()
        if listed is None or review.found.finding:
            return waiting(review, asked, "groups.html", listed=None, sorts=_SORTS)
        if sort == "field" and (job := self._read(listed, name)) is not None and not job.ended:
            return review.page(asked, "groups.html", listed=None, refreshing=True, sorts=_SORTS)
        order = self._order(listed, sort, name)
        pages = max(1, -(-len(order) // _GROUPS))
        page = asked.whole("page", 1, pages)
        some = order[(page - 1) * _GROUPS : page * _GROUPS]
        return review.page(
            asked,
            "groups.html",
            listed=listed,
            rows=self._rows(listed, some.tolist(), name if sort == "field" else None),
            warnings=warnings_of(review, listed),
            sort=sort,
            sorts=_SORTS,
            field=name,
            number=page,
            pages=pages,
            decided=review.found.decided,
            judged=str(listed.groups.judged),
        )

    def one(self, asked: Asked) -> Response:
        """A page of one group, with members beside the representative."""
        review, id = self.review, asked.id("id")
        listed = review.found.listed()
        if listed is None:
            return waiting(review, asked, "groups.html", listed=None, sorts=_SORTS)
        fields = asked.names("fields", review.show)
        judgements = review.index.judgements()
        notice = self._notice(listed, judgements, id, asked.text("judged"))
        place = {name: asked.text(name) or None for name in ("page", "at")}
        common: dict[str, Any] = {"typed": asked.fields, "notice": notice, "id": id, "place": place}
        at = listed.group_of(id)
        if at is None:
            document, meta = review.document(id), review.index.meta
            known = row_of(listed.groups.ids, id) is not None
            shown = alone(document, meta, fields)
            decided = review.found.decided
            return review.page(
                asked, "alone.html", shown=shown, known=known, decided=decided, **common
            )
        rows = listed.members_of(at)
        pages = -(-len(rows) // _MEMBERS)
        page = min(asked.whole("page", 1, 1 << 30), pages)
        head = listed.id(int(listed.heads[at]))
        some = rows[(page - 1) * _MEMBERS : page * _MEMBERS]
        members = self._members(head, listed, some, fields, judgements)
        return review.page(
            asked,
            "group.html",
            head=head,
            size=len(rows) + 1,
            members=members,
            fields=fields,
            # The keys go on at the member that took the place of the one that was judged.
            focus=min(asked.whole("at", 1, _MEMBERS), len(members)) if "at" in asked.given else 0,
            number=page,
            pages=pages,
            warnings=[*self._template(listed, at), *warnings_of(review, listed)],
            outdated=review.found.outdated,
            chosen=head in judgements.representatives,
            choice=self._choice(asked, judgements),
            by_distance=listed.groups.grouping.by_distance,
            **common,
        )

    def represent(self, asked: Asked) -> Response:
        """Let a member represent its group."""
        id, listed = asked.id("id"), self.review.found.listed()
        at = None if listed is None else listed.group_of(id)
        if listed is None or at is None:
            raise NotThere(f"{id!r} is in no group: find groups again")
        members = [int(listed.heads[at]), *listed.members_of(at)]
        self.review.decisions.represent(id, [listed.id(row) for row in members])
        return redirect("/group", id=id, chosen=id, fields=asked.fields)

    def undo_represent(self, asked: Asked) -> Response:
        """Take the last choice of a representative back."""
        id = asked.id("id")
        former = self.review.decisions.undo_represent(id)
        return redirect("/group", id=former or id, fields=asked.fields)

    def unrepresent(self, asked: Asked) -> Response:
        """Let the rule choose the representative of a group again."""
        id = asked.id("id")
        self.review.decisions.unrepresent(id)
        return redirect("/group", id=id, fields=asked.fields)

    def _rows(self, listed: Listed, positions: Sequence[int], name: str | None) -> list[_Row]:
        index = self.review.index
        paths = [*index.meta.text_fields]
        ids = [listed.id(int(listed.heads[at])) for at in positions]
        documents = {each.id: each for each in index.store.get(ids, paths)}
        rows = []
        for at, id in zip(positions, ids, strict=True):
            document = documents.get(id)
            text = "It is gone" if document is None else snippet(document, index.meta)
            value = None if name is None else in_words(self.values.by_id.get(id))
            far = _measure(listed, float(listed.farthest[at]))
            rows.append(_Row(id, int(listed.sizes[at]), far, text, value))
        return rows

    def _members(
        self,
        head: str,
        listed: Listed,
        rows: Sequence[int],
        fields: Sequence[str],
        judgements: Judgements,
    ) -> list[_Member]:
        index = self.review.index
        ids = [listed.id(row) for row in rows]
        documents = {each.id: each for each in index.store.get([head, *ids])}
        found = []
        for row, id in zip(rows, ids, strict=True):
            there = head in documents and id in documents
            sides = pair_of(documents[head], documents[id], index.meta, fields) if there else None
            measure = _measure(listed, float(listed.groups.value[row]))
            judgement = judgements.between(head, id)
            outdated = (
                judgement is not None
                and there
                and changed(judgement, (documents[head], documents[id]), index.meta)
            )
            found.append(_Member(id, measure, sides, judgement, outdated))
        return found

    def _choice(self, asked: Asked, judgements: Judgements) -> dict[str, Any] | None:
        """Tells of the representative that was chosen on this page just now; None if none was."""
        id = asked.text("chosen")
        if id not in judgements.representatives:
            return None
        return {"id": id, "undo": self.review.decisions.last_choice == id}

    def _template(self, listed: Listed, at: int) -> list[str]:
        """A warning if a group looks like a template."""
        index, head = self.review.index, int(listed.heads[at])
        found = in_group(index.store, index.meta, listed.groups, head)
        size = int(listed.sizes[at])
        return [warning_of(listed.id(head), size, found)] if found else []

    def _order(self, listed: Listed, sort: str, name: str) -> I64:
        """The positions of all groups, in the order of the list."""
        if sort == "size":
            return np.arange(len(listed))
        if sort == "likeness":
            return listed.by_likeness
        kept = self.values.ordered
        if kept is not None and kept[0] is listed:
            return kept[1]
        values = [self.values.by_id.get(listed.id(row)) for row in listed.heads.tolist()]
        if len(listed) and not any(isinstance(each, (int, float, str)) for each in values):
            raise UsageError(f"no representative has a number or a text in the field {name!r}")
        order = KeepRule("field", field=name).order(np.arange(len(listed)), values)
        self.values.ordered = listed, order
        return order

    def _read(self, listed: Listed, name: str) -> Job | None:
        """Read the values of a field, at once if they are few; else returns the job that does."""
        values, run = self.values, self.review.found.run
        with values.turn:
            if (values.run, values.name) != (run, name):
                values.run, values.name, values.by_id, values.ordered = run, name, {}, None
            if values.ordered is not None and values.ordered[0] is listed:
                return None
            missing = [
                id for row in listed.heads.tolist() if (id := listed.id(row)) not in values.by_id
            ]
            if len(missing) <= _AT_ONCE:
                self._take(self.review.index.store.get(missing, [name]), missing, name)
                return None

            title = f"Reading the field {name}"
            last = self.review.jobs.last(title)
            if last is not None and last.failure is not None and last is not values.told:
                # Told once: who asks again lets it be read again.
                values.told = last
                raise StoreError(f"the field {name!r} could not be read: {last.failure}")

        def work(job: Job) -> None:
            with self.review.open() as index:
                for first in range(0, len(missing), _AT_ONCE):
                    some = missing[first : first + _AT_ONCE]
                    self._take(index.store.get(some, [name]), some, name)
                    job.on_step("Reading", first + len(some), len(missing))

        return self.review.jobs.start(title, work)

    def _take(self, documents: Sequence[Document], ids: Sequence[str], name: str) -> None:
        found = {each.id: value_at(each.source, name) for each in documents}
        self.values.by_id.update({id: found.get(id) for id in ids})

    def _notice(
        self, listed: Listed, judgements: Judgements, id: str, judged: str
    ) -> dict[str, Any] | None:
        """Say where a document is that was judged on this page just now. id: of the other one."""
        found = judgements.between(id, judged) if judged else None
        index = self.review.index
        if found is None or changed(found, index.store.get([id, judged]), index.meta):
            return None
        at = listed.group_of(judged)
        head = None if at is None else listed.id(int(listed.heads[at]))
        together = at is not None and at == listed.group_of(id)
        # Groups of texts that were not there, or that could not be formed again, tell nothing.
        known = all(row_of(listed.groups.ids, each) is not None for each in (id, judged))
        shown = known and self.review.found.outdated is None
        named = {"id": judged, "verdict": found.verdict, "of": id, "judged": found.judged}
        return {**named, "head": head, "together": together, "shown": shown}

    def show_fields(self, asked: Asked) -> Response:
        """Send the browser to the page of a group with the fields that were typed.

        A hidden field of a form would not give any id back as it is: browsers write line breaks in
        one way.
        """
        page = asked.text("page") or None
        return redirect("/group", id=asked.id("id"), page=page, fields=asked.fields)


def waiting(review: Review, asked: Asked, template: str, **values: Any) -> Response:
    """The page while groups are found; it starts that, if nothing failed."""
    job = review.found.job
    error = None if job is None else job.failure
    if error is None:
        review.found.find()
    return review.page(asked, template, refreshing=error is None, error=error, **values)


def warnings_of(review: Review, listed: Listed) -> list[str]:
    """The sentences to read before groups are believed."""
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


def _measure(listed: Listed, value: float) -> str:
    by_distance = listed.groups.grouping.by_distance
    return measured(None, int(value)) if by_distance else measured(value, None)
