"""Decisions about documents: judgements with a way back, and representatives of groups."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.review.found import Found
from esdedup.stores.judgements import Judgement, Verdict, keep_judgement, stored_judgement

Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class _Decision:
    """A judgement of this session. earlier: the one that it replaced, of any session."""

    made: Judgement
    earlier: Judgement | None


def _acting(judgement: Judgement | None) -> tuple[str, Pair] | None:
    """The part of a judgement that changes groups; None if it changes none."""
    if judgement is None or judgement.verdict == "unsure":
        return None
    return judgement.verdict, judgement.digests


class Decisions:
    """Keep decisions in the index, and note which of the found groups they touch."""

    def __init__(self, index: Index, found: Found) -> None:
        self._index = index
        self._found = found
        self._turn = threading.Lock()
        self._made: list[_Decision] = []

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
            earlier = stored_judgement(self._index.store, left, right)
            made = self._index.judge(left, right, verdict, similarity, drawn=drawn)
            self._made.append(_Decision(made, earlier))
        self._note_change(earlier, made)
        return made

    def undo(self, pair: Pair | None = None, judged: str = "") -> Pair | None:
        """Undo the last judgement of this session, or the last one on a pair of documents.

        judged: the time of the judgement to undo; a form that is sent twice undoes one. The
        judgement that it replaced holds again; one of an earlier session is removed.

        Return the pair; None if nothing was judged in this session. Raises UsageError if another
        client has judged the pair since.
        """
        with self._turn:
            made = (
                each
                for each in reversed(self._made)
                if pair is None or {each.made.left, each.made.right} == {*pair}
            )
            if (last := next(made, None)) is not None:
                pair = last.made.left, last.made.right
            if pair is None:
                return None
            stored = stored_judgement(self._index.store, *pair)
            if judged and (stored is None or stored.judged != judged):
                return pair
            earlier = None if last is None else last.earlier
            if last is not None and stored != last.made:
                self._made.remove(last)
                raise UsageError(
                    f"{pair[0]!r} and {pair[1]!r} were judged again by another client, so that"
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
        """Note a judgement in place of another, if that may change groups."""
        either = after or before
        if either is not None and _acting(before) != _acting(after):
            self._found.note(either.left, either.right)

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
