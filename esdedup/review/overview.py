"""The page that opens first: how many documents repeat others, three examples, and what is next."""

from dataclasses import dataclass

from starlette.responses import Response

from esdedup.groups.groups import Groups
from esdedup.review.decide import logs_of
from esdedup.review.group_search import by_likeness, judged_below, members_of
from esdedup.review.pages import Parameters, Review
from esdedup.review.shown.texts import PairDetails, ShownMember, member_of, title_of

_FOUND_BY_ITSELF = 1_000_000
"""Documents up to which the first visit finds the groups: in minutes, without a button."""


@dataclass(frozen=True)
class ExampleGroup:
    """A group of the overview.

    head: id of its representative.
    title: of the representative.
    documents: their number.
    member: the least similar duplicate.
    """

    head: str
    title: str
    documents: int
    member: ShownMember


@dataclass(frozen=True)
class Overview:
    """The page."""

    review: Review

    def show(self, parameters: Parameters) -> Response:
        """Show how many documents repeat others; start to find that out if it is not known."""
        review, search = self.review, self.review.group_search
        groups, error, job = search.groups(), None, None
        documents = review.index.statistics().documents
        if groups is None and documents <= _FOUND_BY_ITSELF:
            error = search.ready()
            # Its progress loads the page again when it ends, also if it has ended by now.
            job = search.latest if error is None else None
        values: dict[str, object] = {
            "documents": documents,
            "groups": groups,
            "error": error,
            "job": job or review.jobs.current,
            "judged": len(review.index.judgements.read().pairs),
            "runs": len([*logs_of(review)]),
            "measure": review.measure,
            "threshold": review.threshold,
        }
        if groups is not None:
            keys = review.group_list.numbers(groups).keys
            values |= {
                "looked_at": int(review.group_list.looked_at.among(keys).sum()),
                "joined": int(judged_below(groups).sum()),
                "examples": examples(review, groups),
            }
        return review.page("overview.html", values)


def examples(review: Review, groups: Groups) -> list[ExampleGroup]:
    """Return the largest group, a middling one, and the one with the least similar duplicate."""
    by_nearness = by_likeness(groups).tolist()
    if not by_nearness:
        return []
    chosen = [int(groups.heads[0]), by_nearness[len(by_nearness) // 2], by_nearness[0]]
    index, shown = review.index, []
    for head in dict.fromkeys(chosen):
        members = members_of(groups, head)
        farthest = groups.member(members[0])
        documents = {
            document.id: document for document in index.store.get([groups.ids[head], farthest.id])
        }
        # A document may have gone since groups were found.
        if len(documents) < 2:
            continue
        representative = documents[groups.ids[head]]
        comparison = PairDetails(farthest.similarity, farthest.distance)
        member = member_of(
            representative, documents[farthest.id], index.meta, review.show, comparison
        )
        title = title_of(representative, review.show)
        shown.append(ExampleGroup(representative.id, title, len(members) + 1, member))
    return shown
