"""Read the answer to a bulk request: what became of each document.

A status below 400 does not mean that a document is stored as it was sent, because an ingest
pipeline may drop it (`noop`), move it to another index, or give it another id. Only a document that
was created, updated or deleted under its id, in an index behind the name that it was sent to,
counts as written.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from esdedup.exceptions import StoreError
from esdedup.models import Failure, WriteReport
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.errors import error_of, is_transient, reason_of

_FATAL = (
    "cluster_block_exception",
    "index_closed_exception",
    "index_not_found_exception",
    "security_exception",
)
"""Types of errors with which an index refuses every document."""

_WRITTEN = ("created", "updated", "deleted")

DROPPED = "dropped by the ingest pipeline of the index"

IsBehind = Callable[[str, str], bool]
"""Returns whether the first name, of an index, alias or data stream, stands for the second."""


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a bulk request.

    key: what its failure is called: the document's id, or the number of its change.
    id: of the document.
    index: name of the index, alias or data stream that the document is sent to.
    lines: of the bulk body, line feeds included.
    """

    key: str
    id: str
    index: str
    lines: bytes


@dataclass(frozen=True)
class Settled:
    """What a server did with the actions of a request.

    report: counts of the documents that need not be sent again.
    rejected: the actions to retry, with the reason of each.
    """

    report: WriteReport
    rejected: list[tuple[Action, str]] = field(default_factory=list)


@dataclass(frozen=True)
class AnswerReader:
    """Reads answers to bulk requests.

    where: the store and index, for messages.
    is_behind: called only if an answer names another index than was sent.
    """

    where: str
    is_behind: IsBehind

    def settled(self, actions: Sequence[Action], items: Sequence[Body]) -> Settled:
        """Return what became of the actions.

        Raises StoreError if the answer is of other actions, and an error of `errors.error_of` if
        the index refuses every document.
        """
        if len(items) != len(actions):
            raise StoreError(
                f"{self.where}: the server answered {len(items)} of {len(actions)} actions of a"
                " bulk request"
            )
        created = updated = 0
        failures: list[Failure] = []
        rejected: list[tuple[Action, str]] = []
        for action, (verb, result) in zip(actions, _in_order(actions, items), strict=True):
            status = result["status"]
            if status >= 400 and is_transient(status, result):
                rejected.append((action, reason_of(result)))
            elif (failure := self._failure(action, verb, result)) is not None:
                failures.append(failure)
            else:
                created += result["result"] == "created"
                updated += result["result"] != "created"
        return Settled(WriteReport(created, updated, failures), rejected)

    def _failure(self, action: Action, verb: str, result: Body) -> Failure | None:
        """Return why a document is not written as it was sent, or None if it is."""
        status, error, outcome = result["status"], result.get("error"), result.get("result")
        if status < 400:
            if outcome == "noop" and verb != "update":
                return Failure(action.key, DROPPED, cause="dropped")
            if outcome not in (*_WRITTEN, "noop"):
                return Failure(action.key, f"the server answered {outcome!r}, which is unknown")
            return self._elsewhere(action, result, conflict=False)
        if isinstance(error, Mapping) and error.get("type") in _FATAL:
            raise error_of(status, result, self.where)
        conflict = status == 409
        # A conflict of another id, or in another index, is not one with the document's own.
        elsewhere = self._elsewhere(action, result, conflict=True) if conflict else None
        index = result.get("_index") if conflict else None
        return elsewhere or Failure(action.key, reason_of(result), conflict, index)

    def _elsewhere(self, action: Action, result: Body, *, conflict: bool) -> Failure | None:
        """Return a failure for a document that got another id, or went to another index."""
        id, index = result.get("_id"), result.get("_index")
        end = ", where its id is taken" if conflict else ""
        if index is not None and index != action.index and not self.is_behind(action.index, index):
            renamed = "" if id == action.id else f" as {id!r}"
            reason = f"moved to index {index!r}{renamed} by the ingest pipeline{end}"
            return Failure(action.key, reason, index=index, cause="moved")
        if id is not None and id != action.id:
            end = ", which is taken" if conflict else ""
            reason = f"the ingest pipeline of the index changed its id to {id!r}{end}"
            return Failure(action.key, reason, index=index, cause="renamed")
        return None


def _in_order(actions: Sequence[Action], items: Sequence[Body]) -> list[tuple[str, Body]]:
    """Return the operation and the result of each action.

    OpenSearch, and Elasticsearch before 8.13, put documents that a pipeline dropped and that it
    refused in places of each other, as these were settled (elastic/elasticsearch#101921). Documents
    that were written are in their own places.
    """
    results = [next(iter(item.items())) for item in items]
    if all(
        result.get("_id") == action.id for action, (_, result) in zip(actions, results, strict=True)
    ):
        return results
    placed: dict[int, tuple[str, Body]] = {}
    waiting: dict[str, list[int]] = defaultdict(list)
    astray = []
    for place, (action, answer) in enumerate(zip(actions, results, strict=True)):
        if answer[1].get("result") in _WRITTEN or answer[1].get("_id") == action.id:
            placed[place] = answer
        else:
            waiting[action.id].append(place)
            astray.append(answer)
    unknown = []
    for answer in astray:
        if places := waiting.get(answer[1].get("_id", "")):
            placed[places.pop(0)] = answer
        else:
            unknown.append(answer)
    # A pipeline changed these ids first, and dropped or refused the documents then.
    free = (place for place in range(len(actions)) if place not in placed)
    placed.update(zip(free, unknown, strict=True))
    return [placed[place] for place in range(len(actions))]
