"""Decisions about documents, each with a way back: judgements, and representatives of groups."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.review.found import Found
from esdedup.stores.judgements import (
    Judgement,
    Judgements,
    Verdict,
    keep_judgement,
    stored_judgement,
)

_READ_SECONDS = 10.0
"""Seconds after which judgements are read again, because other programs may make some."""


@dataclass(frozen=True, eq=False)
class Decision:
    """A judgement of this session. earlier: the one that it replaced, of anybody."""

    made: Judgement
    earlier: Judgement | None

    @property
    def pair(self) -> tuple[str, str]:
        """The ids that were judged."""
        return self.made.left, self.made.right


@dataclass(frozen=True, eq=False)
class Choice:
    """A representative that was chosen in this session.

    instead_of: ids that were chosen before, and are not any more. before: the document itself was
    chosen before too.
    """

    id: str
    instead_of: tuple[str, ...]
    before: bool


def _same(one: Judgement, other: Judgement) -> bool:
    return (one.verdict, one.digests) == (other.verdict, other.digests)


def _acting(judgement: Judgement | None) -> tuple[str, tuple[str, str]] | None:
    """The part of a judgement that changes groups; None if it changes none."""
    if judgement is None or judgement.verdict == "unsure":
        return None
    return judgement.verdict, judgement.digests


class Decisions:
    """Keeps decisions in the index, and tells the groups that were found of them."""

    def __init__(self, index: Index, found: Found) -> None:
        self._index = index
        self._found = found
        self._turn = threading.Lock()
        self._made: list[Decision] = []
        self._chosen: list[Choice] = []
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
        """Keep a judgement. Raises what `Index.judge` raises."""
        with self._turn:
            known = self._judgements()
            before = earlier = stored_judgement(self._index.store, left, right)
            made = self._index.judge(left, right, verdict, similarity, drawn=drawn)
            shown = known.between(left, right)
            pairs = (*(each for each in known.pairs if each is not shown), made)
            self._known = replace(known, pairs=pairs)
            last = self._last((left, right))
            if last is not None and last.made == earlier and _same(earlier, made):
                # The form was sent twice: one undo takes both back.
                self._made.remove(last)
                earlier = last.earlier
            self._made.append(Decision(made, earlier))
        self._note_change(before, made)
        return made

    def undo(self, pair: tuple[str, str] | None = None, judged: str = "") -> tuple[str, str] | None:
        """Undo the last judgement of this session, or the last one on a pair of documents.

        judged: the time of the judgement on the pair; if it is another by now, nothing is undone.

        The judgement that it replaced holds again. A judgement of an earlier session is removed.
        Returns the pair; None if nothing was judged in this session. Raises UsageError if somebody
        else has judged the pair since.
        """
        with self._turn:
            last = self._last(pair)
            if last is not None:
                pair = last.pair
            if pair is None:
                return None
            self._known = None
            stored = stored_judgement(self._index.store, *pair)
            if judged and (stored is None or stored.judged != judged):
                # The form was sent twice, or is of an old page.
                return pair
            earlier = None if last is None else last.earlier
            if last is not None and stored != last.made:
                self._made.remove(last)
                raise UsageError(
                    f"{pair[0]!r} and {pair[1]!r} were judged again by somebody else, so that"
                    " nothing was undone: look at them again"
                )
            if earlier is not None:
                keep_judgement(self._index.store, earlier)
            else:
                self._index.unjudge(*pair)
            if last is not None:
                self._made.remove(last)
        self._note_change(stored, earlier)
        return pair

    def _note_change(self, before: Judgement | None, after: Judgement | None) -> None:
        """Tells the groups of a judgement in place of another, if that may change them."""
        either = after or before
        if either is not None and _acting(before) != _acting(after):
            self._found.note(either.left, either.right)

    def _last(self, pair: tuple[str, str] | None) -> Decision | None:
        """The last decision of this session, or the last one on a pair; None if there is none."""
        made = (each for each in reversed(self._made) if pair is None or {*each.pair} == {*pair})
        return next(made, None)

    def represent(self, id: str, members: Sequence[str]) -> None:
        """Let a document represent its group. members: ids of all documents of the group."""
        with self._turn:
            chosen = set(self._index.judgements().representatives)
            earlier = [each for each in members if each in chosen and each != id]
            if id in chosen and not earlier:
                # The form was sent twice, perhaps: one undo takes both back.
                return
            self._index.represent(id, earlier)
            self._chosen.append(Choice(id, tuple(earlier), id in chosen))
        self._found.note(id, *members[:1])

    @property
    def last_choice(self) -> str | None:
        """The representative that was chosen last in this session; None if none was."""
        return self._chosen[-1].id if self._chosen else None

    def undo_represent(self, id: str) -> str | None:
        """Undo the last choice of a representative of this session, which is of a document.

        Returns the id of the document that was chosen before it; None if none was. Raises
        UsageError if another was chosen last, or somebody else has changed the choice since.
        """
        with self._turn:
            if self.last_choice != id:
                raise UsageError(f"{id!r} was not the last choice: nothing was undone")
            last = self._chosen[-1]
            if last.id not in self._index.judgements().representatives:
                self._chosen.pop()
                raise UsageError(
                    f"{last.id!r} is not chosen any more, so that nothing was undone: look at its"
                    " group again"
                )
            for each in last.instead_of:
                self._index.represent(each)
            self._chosen.pop()
        if last.before:
            self._found.note(last.id)
        else:
            self.unrepresent(last.id)
        return next(iter(last.instead_of), None)

    def unrepresent(self, id: str) -> None:
        """Remove the choice of a document as the representative of its group."""
        self._index.unrepresent(id)
        self._found.note(id)
        listed = self._found.listed()
        grouped = listed is not None and listed.group_of(id) is not None
        if grouped and self._found.was_chosen(id):
            # Where the rule puts it is only known if all documents are put in order.
            self._found.outdate(
                "the rule chooses another representative when all groups are found again"
            )
