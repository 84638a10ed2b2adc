"""Decisions about documents: judgements with a way back, and representatives of groups."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.review.found import Found
from esdedup.stores.judgements import (
    Judgement,
    Verdict,
    forget_judgements,
    judge,
    keep_judgements,
    stored_judgements,
)

Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class _Decision:
    """Judgements of this session, made at one time. earlier: those that they replaced."""

    made: tuple[Judgement, ...]
    earlier: tuple[Judgement, ...]


def _pair_of(judgement: Judgement) -> Pair:
    return judgement.left, judgement.right


def _acting(judgements: Sequence[Judgement]) -> set[tuple[Pair, str, Pair]]:
    """The parts of judgements that change groups."""
    acting = (each for each in judgements if each.verdict != "unsure")
    return {(_pair_of(each), each.verdict, each.digests) for each in acting}


class Decisions:
    """Keep decisions in the index, and note which of the found groups they touch."""

    def __init__(self, index: Index, found: Found) -> None:
        self._index = index
        self._found = found
        self._turn = threading.Lock()
        self._made: list[_Decision] = []

    def judge(
        self,
        pairs: Sequence[Pair],
        verdict: Verdict,
        similarity: float | None = None,
        *,
        drawn: bool = False,
    ) -> list[Judgement]:
        """Keep a verdict on some pairs of documents. Raises what `Index.judge` raises."""
        store = self._index.store
        with self._turn:
            earlier = stored_judgements(store, pairs)
            made = judge(store, self._index.meta, pairs, verdict, similarity, drawn)
            self._made.append(_Decision(tuple(made), tuple(earlier)))
        self._note_change(earlier, made)
        return made

    def read(self, judgements: Sequence[Judgement]) -> int:
        """Keep judgements of a file, unless newer ones are there; return how many are kept."""
        with self._turn:
            known = {_pair_of(each): each.judged for each in self._index.judgements().pairs}
            newer = [each for each in judgements if each.judged > known.get(_pair_of(each), "")]
            keep_judgements(self._index.store, newer)
        if newer:
            self._found.outdate("judgements were read from a file: find all groups again")
        return len(newer)

    def undo(self, pair: Pair | None = None, judged: str = "") -> Pair | None:
        """Undo the last decision of this session; with `pair` or `judged`, the last one of these.

        judged: the time of the judgement to undo; a form that is sent twice undoes one. The
        judgements that it replaced hold again. One of an earlier session is removed.

        Return the first pair; None if nothing was undone. Raises UsageError if another client has
        judged one of the pairs since.
        """
        store = self._index.store
        with self._turn:
            made = (
                each
                for each in reversed(self._made)
                if judged in ("", each.made[0].judged)
                and (pair is None or any({*_pair_of(one)} == {*pair} for one in each.made))
            )
            last = next(made, None)
            if last is not None:
                pairs = [_pair_of(each) for each in last.made]
            elif pair is not None:
                pairs = [pair]
            else:
                return None
            stored = stored_judgements(store, pairs)
            if last is None and judged not in ("", *(each.judged for each in stored)):
                return pair
            if last is not None and {*stored} != {*last.made}:
                self._made.remove(last)
                one, other = pairs[0]
                raise UsageError(
                    f"{one!r} and {other!r} were judged again by another client, so that nothing"
                    " was undone: look at them again"
                )
            earlier = () if last is None else last.earlier
            keep_judgements(store, earlier)
            forget_judgements(store, {*pairs} - {_pair_of(each) for each in earlier})
            if last is not None:
                self._made.remove(last)
        self._note_change(stored, earlier)
        return pairs[0]

    def made_at(self, judged: str) -> int:
        """Return the number of judgements of this session that were made at a time."""
        with self._turn:
            return sum(len(each.made) for each in self._made if each.made[0].judged == judged)

    def _note_change(self, before: Sequence[Judgement], after: Sequence[Judgement]) -> None:
        """Note judgements in place of others, if that may change groups."""
        changed = _acting(before) ^ _acting(after)
        if ids := {id for pair, *_ in changed for id in pair}:
            self._found.note(*sorted(ids))

    def represent(self, id: str, members: Sequence[str]) -> None:
        """Let a document represent its group. members: ids of all documents of the group."""
        with self._turn:
            chosen = self._index.judgements().representatives
            self._index.represent(id, [each for each in members if each in chosen and each != id])
        self._found.note(id, *members[:1])

    def unrepresent(self, id: str) -> None:
        """Remove the choice of a document as the representative of its group."""
        self._index.unrepresent(id)
        self._found.note(id)
        if self._found.was_chosen(id):
            # Where the rule puts it is only known if all documents are put in order.
            self._found.outdate(
                "the rule chooses another representative when all groups are found again"
            )
