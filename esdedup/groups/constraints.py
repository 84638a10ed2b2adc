"""Constraints on groups: pairs of texts that people judged to be duplicates, or different.

A pair that must link is in one group, and a pair that can't link in different ones, whatever their
similarity: Wagstaff and Cardie, "Clustering with instance-level constraints", ICML 2000, section 2.
Where the two contradict each other, texts stay apart, so that nothing is removed by mistake.

A constraint applies to all documents of two texts. Documents of one text that were judged different
are kept apart by their ids.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from esdedup.compare.candidates import Classes, classes_of
from esdedup.compare.union_find import join, singletons
from esdedup.sketch.sketch import digest_words
from esdedup.stores.judgements import Judgement, Judgements
from esdedup.text.arrays import F64, I64, U64, Mask


@dataclass(frozen=True)
class JudgedCounts:
    """Counts of the judgements that groups are formed by.

    different, duplicates: pairs that were kept apart, and joined. contradictory: duplicates that
    were not joined, since other texts of their group were judged different. stale: pairs without
    effect, since a text is gone or has changed. elsewhere: other names of the index, whose
    judgements have no effect.
    """

    different: int = 0
    duplicates: int = 0
    contradictory: int = 0
    stale: int = 0
    elsewhere: tuple[str, ...] = ()

    def __str__(self) -> str:
        counts = {
            "kept apart": self.different,
            "joined": self.duplicates,
            "not joined, since other texts were judged different": self.contradictory,
            "without effect, because a text is gone or has changed": self.stale,
        }
        found = [f"{number:,} {what}" for what, number in counts.items() if number]
        if self.elsewhere:
            names = ", ".join(map(repr, self.elsewhere))
            found.append(f"those made for {names}, another name of the index, without effect")
        return ", ".join(found)


@dataclass(frozen=True)
class Constraints:
    """Pairs of classes of rows that must link, and pairs that can't.

    must: pairs (root, class) that must link, each class once, root < class, shape (m, 2). A root is
    the first of all classes that must link with each other. cannot: pairs of roots that can't link,
    shape (k, 2). counts: of the judgements.
    """

    must: I64
    cannot: I64
    counts: JudgedCounts = JudgedCounts()

    def link(self, partition: I64) -> None:
        """Join the groups of classes that must link, in place."""
        must = self.must[self.must[:, 1] < partition.size]
        join(partition, must[:, 0], must[:, 1])

    def apart(self, classes: int) -> dict[int, list[int]]:
        """Return by root the earlier roots that it can't link with, among the first `classes`."""
        found: dict[int, list[int]] = {}
        for one, other in np.sort(self._among(classes), axis=1).tolist():
            found.setdefault(other, []).append(one)
        return found

    def _among(self, classes: int) -> I64:
        """Return the pairs of the first classes that can't link."""
        return self.cannot[(self.cannot < classes).all(axis=1)]

    def near_cannot(self, partition: I64, left: I64, right: I64) -> Mask:
        """Mark the pairs that could join a group with a row that can't link with another."""
        cannot = self._among(partition.size)
        if not cannot.size:
            return np.zeros(left.size, np.bool_)
        reached = partition.copy()
        join(reached, left, right)
        near: Mask = np.isin(reached[left], reached[cannot])
        return near

    def join(self, partition: I64, left: I64, right: I64, nearness: F64) -> None:
        """Join the groups of pairs except those that can't link, in place, the nearest first."""
        cannot = self._among(partition.size)
        if not cannot.size:
            join(partition, left, right)
            return
        joined = partition.copy()
        join(joined, left, right)
        ends = joined[cannot]
        wrong = np.unique(ends[ends[:, 0] == ends[:, 1], 0])
        touched = np.isin(joined, wrong)
        partition[~touched] = joined[~touched]
        order = np.argsort(-nearness, kind="stable")
        order = order[touched[left[order]]]
        if order.size:
            _join_one_by_one(partition, touched, left[order], right[order], cannot)


def _join_one_by_one(partition: I64, touched: Mask, left: I64, right: I64, cannot: I64) -> None:
    """Join pairs of touched rows in order, unless their groups can't link, in place."""
    above: dict[int, int] = {}

    def first(row: int) -> int:
        while (next_ := above.get(row, row)) != row:
            above[row] = above.get(next_, next_)
            row = next_
        return row

    apart: dict[int, set[int]] = {}
    for one, other in partition[cannot].tolist():
        apart.setdefault(one, set()).add(other)
        apart.setdefault(other, set()).add(one)
    for one, other in zip(partition[left].tolist(), partition[right].tolist(), strict=True):
        kept, gone = sorted((first(one), first(other)))
        if kept == gone or gone in apart.get(kept, ()):
            continue
        above[gone] = kept
        for each in apart.pop(gone, ()):
            apart[each].discard(gone)
            apart[each].add(kept)
            apart.setdefault(kept, set()).add(each)
    rows = np.flatnonzero(touched)
    partition[rows] = [first(row) for row in partition[rows].tolist()]


def constrained(
    judgements: Judgements, ids: Sequence[str], digests: U64, filled: Mask
) -> tuple[Classes, Constraints]:
    """Return the classes of rows of equal texts, and the constraints on them.

    ids: of n documents. digests: of their texts, shape (n, 2). filled: as in `classes_of`.
    """
    pairs = [each for each in judgements.pairs if each.verdict != "unsure"]
    rows = judged_rows(pairs, ids, digests)
    present = [(each, *ends) for each, ends in zip(pairs, rows, strict=True) if ends is not None]
    alike = [
        (left, right)
        for each, left, right in present
        if each.digests[0] == each.digests[1] and each.verdict == "different"
    ]
    classes = classes_of(digests, filled, _kinds(alike))
    must, cannot = (
        classes.of[np.array(ends, np.int64).reshape(-1, 2)]
        for verdict in ("duplicate", "different")
        for ends in [[(a, b) for each, a, b in present if each.verdict == verdict]]
    )
    # Texts that are empty once normalised are in no class.
    must, cannot = (each[(each >= 0).all(axis=1)] for each in (must, cannot))
    constraints = _settled(must, cannot, classes.rows.size, len(pairs) - len(present))
    return classes, constraints


def _kinds(different: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Number rows of equal texts, so that different ones have different numbers; others have 0."""
    others: dict[int, set[int]] = {}
    for left, right in different:
        others.setdefault(left, set()).add(right)
        others.setdefault(right, set()).add(left)
    found: dict[int, int] = {}
    for row in sorted(others):
        taken = {found[other] for other in others[row] if other in found}
        found[row] = next(kind for kind in range(len(taken) + 1) if kind not in taken)
    return found


def judged_rows(
    pairs: Sequence[Judgement], ids: Sequence[str], digests: U64
) -> list[tuple[int, int] | None]:
    """Return the rows of each pair: of its documents, or other ones of their texts; None without.

    Documents of one text are not replaced by others.
    """
    wanted = digest_words([digest for each in pairs for digest in each.digests])
    keys = [each.tobytes() for each in wanted]
    some = np.isin(digests[:, 0], wanted[:, 0]) if pairs else np.zeros(len(digests), np.bool_)
    row_of: dict[tuple[bytes, str | None], int] = {}
    for at in np.flatnonzero(some).tolist():
        row_of[digests[at].tobytes(), ids[at]] = at
        row_of.setdefault((digests[at].tobytes(), None), at)

    def row(key: bytes, id: str, alike: bool) -> int | None:
        return row_of.get((key, id), None if alike else row_of.get((key, None)))

    found = []
    for each, one, other in zip(pairs, keys[::2], keys[1::2], strict=True):
        left, right = row(one, each.left, one == other), row(other, each.right, one == other)
        found.append(None if left is None or right is None else (left, right))
    return found


def _settled(must: I64, cannot: I64, classes: int, stale: int) -> Constraints:
    """Return the constraints on classes, without those that contradict each other."""
    root = _roots(must, classes)
    ends = root[cannot]
    wrong = np.unique(ends[ends[:, 0] == ends[:, 1], 0])
    contradictory = np.isin(root[must[:, 0]], wrong)
    root = _roots(must[~contradictory], classes)
    linked = np.flatnonzero(root != np.arange(classes))
    counts = JudgedCounts(len(cannot), int((~contradictory).sum()), int(contradictory.sum()), stale)
    return Constraints(np.stack([root[linked], linked], axis=1), root[cannot], counts)


def _roots(must: I64, classes: int) -> I64:
    root = singletons(classes)
    join(root, must[:, 0], must[:, 1])
    return root
