"""Decisions about documents, each with a way back: judgements, and representatives of groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from esdedup.index import Index
from esdedup.review.found import Found
from esdedup.stores.judgements import Judgement, Judgements, Verdict, keep_judgement

_READ_SECONDS = 10.0
"""Seconds after which judgements are read again, because other programs may make some."""


@dataclass(frozen=True, eq=False)
class Decision:
    """A decision of this session. pair: ids that were judged. earlier: the judgement before."""

    pair: tuple[str, str]
    earlier: Judgement | None


def _same(one: Judgement, other: Judgement) -> bool:
    return (one.verdict, one.digests) == (other.verdict, other.digests)


class Decisions:
    """Keeps decisions in the index, and tells the groups that were found of them."""

    def __init__(self, index: Index, found: Found) -> None:
        self._index = index
        self._found = found
        self._turn = threading.Lock()
        self._made: list[Decision] = []
        self._known: Judgements | None = None
        self._read_at = 0.0

    def judgements(self) -> Judgements:
        """All judgements: as they were read in the last 10 seconds, with those made here since."""
        with self._turn:
            return self._judgements()

    def _judgements(self) -> Judgements:
        now = time.monotonic()
        if self._known is None or now > self._read_at + _READ_SECONDS:
            self._known, self._read_at = self._index.judgements(), now
        return self._known

    def judge(
        self,
        left: str,
        right: str,
        verdict: Verdict,
        similarity: float | None = None,
        *,
        drawn: bool = False,
    ) -> Judgement:
        """Keeps a judgement. Raises what `Index.judge` raises."""
        with self._turn:
            known = self._judgements()
            earlier = known.between(left, right)
            made = self._index.judge(left, right, verdict, similarity, drawn=drawn)
            pairs = (*(each for each in known.pairs if each is not earlier), made)
            self._known = replace(known, pairs=pairs)
            last = self._last((left, right))
            if last is not None and earlier is not None and _same(earlier, made):
                # The form was sent twice: one undo takes both back.
                self._made.remove(last)
                earlier = last.earlier
            self._made.append(Decision((left, right), earlier))
        self._found.note(left, right)
        return made

    def undo(self, pair: tuple[str, str] | None = None) -> tuple[str, str] | None:
        """Undoes the last judgement of this session, or the last one on a pair of documents.

        The judgement that it replaced holds again. A judgement of an earlier session is removed.
        Returns the pair; None if nothing was judged in this session.
        """
        with self._turn:
            last = self._last(pair)
            if last is not None:
                pair = last.pair
            if pair is None:
                return None
            self._known = None
            if last is not None and last.earlier is not None:
                keep_judgement(self._index.store, last.earlier)
            else:
                self._index.unjudge(*pair)
            if last is not None:
                self._made.remove(last)
        self._found.note(*pair)
        return pair

    def _last(self, pair: tuple[str, str] | None) -> Decision | None:
        """The last decision of this session, or the last one on a pair; None if there is none."""
        made = (each for each in reversed(self._made) if pair is None or {*each.pair} == {*pair})
        return next(made, None)

    def represent(self, id: str, members: Sequence[str]) -> None:
        """Lets a document represent its group. members: ids of all documents of the group."""
        chosen = set(self._index.judgements().representatives)
        earlier = [each for each in members if each in chosen and each != id]
        self._index.represent(id, earlier)
        self._found.note(id, *members[:1])

    def unrepresent(self, id: str) -> None:
        """Removes the choice of a document as the representative of its group."""
        self._index.unrepresent(id)
        self._found.note(id)
        listed = self._found.listed()
        at = None if listed is None else listed.group_of(id)
        if listed is not None and at is not None and listed.id(int(listed.heads[at])) == id:
            # Where the rule puts it is only known if all documents are put in order.
            self._found.outdate(
                "the rule chooses another representative when all groups are found again"
            )
