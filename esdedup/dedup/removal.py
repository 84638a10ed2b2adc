"""Documents taken out of an index and put back, sure of each also where an answer was lost.

A request whose answer was lost is sent again, and then meets its own deed as a conflict: what was
in conflict is looked at again, and what is as it should be is taken for done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from esdedup.models import Change, Failure, Held
from esdedup.stores.base import Store


@dataclass(frozen=True)
class PutBack:
    """Ids of the documents that were put back, of those that were there, and what was refused."""

    created: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


def remove(store: Store, held: Sequence[Held]) -> list[Failure]:
    """Deletes documents that are as they were held; those that were not deleted."""
    report = store.change([Change(one, None) for one in held])
    conflicts = [each.id for each in report.failures if each.conflict]
    still = {one.document.id for one in store.hold(conflicts, [])} if conflicts else set()
    return [each for each in report.failures if not each.conflict or each.id in still]


def put_back(store: Store, held: Sequence[Held]) -> PutBack:
    """Creates documents as they were held, unless they are there; another one is never overwritten.

    What is there with the same fields counts as present, whoever wrote it.
    """
    found = {one.document.id: one for one in store.hold([one.document.id for one in held])}
    absent = [one for one in held if one.document.id not in found]
    report = store.restore(absent)
    refused = {each.id: each for each in report.failures}
    found |= {one.document.id: one for one in store.hold(list(refused))}
    result = PutBack()
    for one in held:
        id = one.document.id
        there = found.get(id)
        if there is not None and there.document.source == one.document.source:
            result.present.append(id)
        elif there is not None:
            reason = f"{store.where} has another document of this id, which was left as it is"
            result.failures.append(Failure(id, reason, conflict=True))
        elif id in refused:
            result.failures.append(refused[id])
        else:
            result.created.append(id)
    return result


def move(store: Store, destination: Store, held: Sequence[Held]) -> list[Failure]:
    """Creates documents in another index, then deletes them here; those that were not moved."""
    put = put_back(destination, [replace(one, index=None) for one in held])
    arrived = {*put.created, *put.present}
    left = remove(store, [one for one in held if one.document.id in arrived])
    stayed = {each.id for each in left}
    # What changed here meanwhile stays here, and its copy of before is of no use there.
    _remove_same(destination, [one for one in held if one.document.id in stayed & {*put.created}])
    return put.failures + left


def move_back(store: Store, destination: Store | None, held: Sequence[Held]) -> PutBack:
    """Puts documents back, and then takes them out of the index that they were moved to, if to any.

    What was changed there meanwhile stays there too, and is among the failures.
    """
    put = put_back(store, held)
    if destination is None:
        return put
    back = {*put.created, *put.present}
    left = _remove_same(destination, [one for one in held if one.document.id in back])
    return replace(put, failures=put.failures + left)


def _remove_same(store: Store, held: Sequence[Held]) -> list[Failure]:
    """Deletes the documents that are there with the same fields."""
    wanted = {one.document.id: one.document.source for one in held}
    found = store.hold(list(wanted))
    same = [one for one in found if one.document.source == wanted[one.document.id]]
    changed = {one.document.id for one in found} - {one.document.id for one in same}
    changed |= {each.id for each in remove(store, same)}
    reason = f"it was put back, and stays in {store.where} too, where it was changed"
    return [Failure(id, reason, conflict=True) for id in wanted if id in changed]
