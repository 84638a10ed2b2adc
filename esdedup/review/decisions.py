"""Decisions about documents: judgements with a way back, and representatives of groups."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.review.found import FoundGroups
from esdedup.stores.judgements import Judgement, Verdict


@dataclass(frozen=True, eq=False)
class Decision:
    """Judgements of this session with one verdict. earlier: those that they replaced."""

    made: tuple[Judgement, ...]
    earlier: tuple[Judgement, ...]

    @property
    def time(self) -> str:
        """The time of the judgements, which identifies the decision."""
        return self.made[0].judged


@dataclass(frozen=True)
class Decisions:
    """Keep decisions in the index, and note which of the found groups they touch."""

    index: Index
    found: FoundGroups
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _made: dict[str, Decision] = field(default_factory=dict)

    def of(self, time: str | None) -> Decision | None:
        """Return the decision of a time; None if it is of another session, or was undone."""
        return self._made.get(time or "")

    def judge(
        self,
        pairs: Sequence[tuple[str, str]],
        verdict: Verdict,
        similarity: float | None = None,
        *,
        drawn: bool = False,
    ) -> Decision:
        """Keep a verdict on some pairs of documents. Raises what `StoredJudgements.judge` does."""
        judgements = self.index.judgements
        with self._turn:
            earlier = judgements.stored_on(pairs)
            made = judgements.judge_pairs(pairs, verdict, similarity, drawn=drawn)
            decision = Decision(tuple(made), tuple(earlier))
            self._made[decision.time] = decision
        self._note_change(earlier, made)
        return decision

    def read(self, judgements: Sequence[Judgement]) -> int:
        """Keep judgements of a file, unless newer ones exist; return how many are kept."""
        with self._turn:
            stored = self.index.judgements.read().pairs
            known = {(each.left, each.right): each.judged for each in stored}
            newer = [
                each for each in judgements if each.judged > known.get((each.left, each.right), "")
            ]
            self.index.judgements.write(newer)
        if newer:
            self.found.outdate("judgements were read from a file: find all groups again")
        return len(newer)

    def undo(self, time: str | None = None) -> None:
        """Undo the decision of a time, or the last one. Raises UsageError if there is none."""
        stored = self.index.judgements
        with self._turn:
            last = self.of(time or next(reversed(self._made), None))
            if last is None:
                raise UsageError("there is nothing to undo: it was undone, or made before")
            pairs = [(each.left, each.right) for each in last.made]
            if {*stored.stored_on(pairs)} != {*last.made}:
                del self._made[last.time]
                one, other = pairs[0]
                again = f"{one!r} and {other!r} were judged again by another client"
                raise UsageError(f"{again}, so that nothing was undone: look at them again")
            stored.write(last.earlier)
            stored.remove_pairs({*pairs} - {(one.left, one.right) for one in last.earlier})
            del self._made[last.time]
        self._note_change(last.made, last.earlier)

    def represent(self, id: str, members: Sequence[str]) -> None:
        """Let a document represent its group. members: ids of all documents of the group."""
        with self._turn:
            chosen = self.index.judgements.read().representatives
            self.index.judgements.represent(
                id, [each for each in members if each in chosen and each != id]
            )
        self.found.note(id, *members[:1])

    def unrepresent(self, id: str) -> None:
        """Remove the choice of a document as the representative of its group."""
        self.index.judgements.unrepresent(id)
        self.found.note_unchosen(id)

    def _note_change(self, before: Sequence[Judgement], after: Sequence[Judgement]) -> None:
        """Note the documents of judgements in place of others, if that may change groups."""
        old, new = (
            {(each.left, each.right, each.verdict, each.digests) for each in some}
            for some in (before, after)
        )
        changed = {id for *two, verdict, _ in old ^ new if verdict != "unsure" for id in two}
        if changed:
            self.found.note(*sorted(changed))
