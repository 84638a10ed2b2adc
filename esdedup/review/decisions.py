"""Decisions about documents: judgements with a way back, and representatives of groups."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from esdedup.exceptions import UsageError
from esdedup.groups.groups import Groups
from esdedup.index import Index
from esdedup.review.group_search import GroupSearch
from esdedup.stores.judgements import ChangedSince, Judgement, Verdict

_WORDS: dict[Verdict, str] = {"duplicate": "duplicates", "different": "not duplicates"}


@dataclass(frozen=True)
class View:
    """The texts and judgements that a person saw of the documents that they judge.

    digests: of the texts, by id.
    judged: the times of the judgements that they knew.
    """

    digests: Mapping[str, str]
    judged: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Decision:
    """Judgements of this session with one verdict.

    judgements: those that were made, one a pair.
    replaced: those that were stored on these pairs before.
    """

    judgements: tuple[Judgement, ...]
    replaced: tuple[Judgement, ...]

    @property
    def time(self) -> str:
        """The time of the judgements, which identifies the decision."""
        return self.judgements[0].judged


@dataclass(frozen=True)
class Decisions:
    """Keep decisions in the index, and note which groups they touch."""

    index: Index
    group_search: GroupSearch
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _by_time: dict[str, Decision] = field(default_factory=dict)

    def of(self, time: str | None) -> Decision | None:
        """Return the decision of a time; None if it is of another session, or was undone."""
        return self._by_time.get(time or "")

    def judge(
        self,
        pairs: Sequence[tuple[str, str]],
        verdict: Verdict,
        similarity: float | None = None,
        *,
        drawn: bool = False,
        view: View | None = None,
    ) -> Decision:
        """Keep a verdict on some pairs of documents. Raises what `StoredJudgements.judge` does.

        view: the texts and judgements that the verdict is about; by default those of now. Raises
        ChangedSince if a text has changed since, or another verdict was given.
        """
        stored = self.index.judgements
        with self._turn:
            replaced = stored.stored_on(pairs)
            if view is not None:
                _check_known(stored.renewed(replaced), verdict, view)
            digests = None if view is None else view.digests
            judgements = stored.judge_pairs(
                pairs, verdict, similarity, drawn=drawn, digests=digests
            )
            decision = Decision(tuple(judgements), tuple(replaced))
            self._by_time[decision.time] = decision
        self._note_change(replaced, judgements)
        return decision

    def view_of(self, groups: Groups, rows: Sequence[int]) -> View:
        """Return what groups show of some documents, with the decisions of this session."""
        judged = {judgement.judged for judgement in groups.judgements.pairs}
        with self._turn:
            judged |= self._by_time.keys()
        return View({groups.ids[row]: groups.judged_digest(row) for row in rows}, frozenset(judged))

    def read(self, judgements: Sequence[Judgement]) -> int:
        """Keep judgements of a file, unless newer ones exist; return how many are kept."""
        # Of several on one pair, the newest comes last.
        by_time = sorted(judgements, key=lambda judgement: judgement.judged)
        newest = {(judgement.left, judgement.right): judgement for judgement in by_time}
        with self._turn:
            time_by_pair = {
                (stored.left, stored.right): stored.judged
                for stored in self.index.judgements.stored_on([*newest])
            }
            newer = [
                judgement
                for pair, judgement in newest.items()
                if judgement.judged > time_by_pair.get(pair, "")
            ]
            self.index.judgements.write(newer)
        if newer:
            self.group_search.outdate("judgements were read from a file: find all groups again")
        return len(newer)

    def undo(self, time: str | None = None) -> None:
        """Undo the decision of a time, or the last one. Raises UsageError if there is none."""
        stored = self.index.judgements
        with self._turn:
            last = self.of(time or next(reversed(self._by_time), None))
            if last is None:
                raise UsageError("there is nothing to undo: it was undone, or made before")
            pairs = [(judgement.left, judgement.right) for judgement in last.judgements]
            if {*stored.stored_on(pairs)} != {*last.judgements}:
                del self._by_time[last.time]
                left, right = pairs[0]
                again = f"{left!r} and {right!r} were judged again by another client"
                raise UsageError(f"{again}, so that nothing was undone: look at them again")
            stored.write(last.replaced)
            judged_before = {(judgement.left, judgement.right) for judgement in last.replaced}
            stored.remove_pairs({*pairs} - judged_before)
            del self._by_time[last.time]
        self._note_change(last.judgements, last.replaced)

    def represent(self, id: str, members: Sequence[str]) -> None:
        """Let a document represent its group. members: ids of all documents of the group."""
        with self._turn:
            chosen = self.index.judgements.read().representatives
            replaced = [member for member in members if member in chosen and member != id]
            self.index.judgements.represent(id, replaced)
        self.group_search.note(id, *members[:1])

    def unrepresent(self, id: str) -> None:
        """Remove the choice of a document as the representative of its group."""
        self.index.judgements.unrepresent(id)
        self.group_search.note_unchosen(id)

    def _note_change(self, before: Sequence[Judgement], after: Sequence[Judgement]) -> None:
        """Note the documents of judgements in place of others, if that may change groups."""
        changed = _verdicts(before) ^ _verdicts(after)
        ids = {id for *pair, verdict, _ in changed if verdict != "unsure" for id in pair}
        if ids:
            self.group_search.note(*sorted(ids))


def _check_known(stored: Sequence[Judgement], verdict: Verdict, view: View) -> None:
    """Raise ChangedSince if a person did not know of a judgement that theirs contradicts."""
    unknown = [
        judgement
        for judgement in stored
        if judgement.judged not in view.judged and judgement.verdict not in (verdict, "unsure")
    ]
    if unknown:
        first = unknown[0]
        since = f"were judged {_WORDS[first.verdict]} since you saw them: look at them again"
        ids = [id for judgement in unknown for id in (judgement.left, judgement.right)]
        raise ChangedSince(f"{first.left!r} and {first.right!r} {since}", "judged", ids)


def _verdicts(judgements: Sequence[Judgement]) -> set[tuple[str, str, Verdict, tuple[str, str]]]:
    """Return what can change groups: the ids, verdicts and digests of the texts of pairs."""
    return {
        (judgement.left, judgement.right, judgement.verdict, judgement.digests)
        for judgement in judgements
    }
