"""Constraints on groups: pairs of texts that people judged to be duplicates, or different.

A pair that must link is in one group, and a pair that can't link in different ones, whatever their
similarity: Wagstaff and Cardie, "Clustering with instance-level constraints", ICML 2000, section 2.
Where the two contradict each other, texts stay apart, so that nothing is removed by mistake.

A constraint applies to all documents of two texts. Documents of one text that were judged different
are kept apart by their ids. If another field is compared than the text, a constraint applies to the
judged documents, and to those whose field has an equal value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from esdedup.compare.candidates import Classes, classes_of
from esdedup.compare.columns import Columns
from esdedup.compare.union_find import join, singletons
from esdedup.sketch.sketch import digest_words
from esdedup.stores.judgements import Judgement, Judgements
from esdedup.text.arrays import F64, I64, U64, Mask


@dataclass(frozen=True)
class JudgedCounts:
    """Counts of the judgements that groups are formed by.

    different: pairs that were kept apart.
    duplicates: pairs that were joined.
    contradictory: duplicates that were not joined, since other texts of their group were judged
        different.
    stale: pairs without effect, since a text is gone or has changed.
    elsewhere: other names of the index, whose judgements have no effect.
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
        effects = [f"{number:,} {effect}" for effect, number in counts.items() if number]
        if self.elsewhere:
            names = ", ".join(map(repr, self.elsewhere))
            effects.append(f"those made for {names}, another name of the index, without effect")
        return ", ".join(effects)


@dataclass(frozen=True)
class Constraints:
    """Pairs of classes of rows that must link, and pairs that can't.

    must: pairs (root, class) that must link, each class once, root < class, shape (m, 2). A root is
        the first of all classes that must link with each other.
    cannot: pairs of roots that can't link, shape (k, 2).
    counts: of the judgements.
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
        earlier_roots: dict[int, list[int]] = {}
        for earlier, later in np.sort(self._among(classes), axis=1).tolist():
            earlier_roots.setdefault(later, []).append(earlier)
        return earlier_roots

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
        could_join: Mask = np.isin(reached[left], reached[cannot])
        return could_join

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
    for left_root, right_root in partition[cannot].tolist():
        apart.setdefault(left_root, set()).add(right_root)
        apart.setdefault(right_root, set()).add(left_root)
    pairs = zip(partition[left].tolist(), partition[right].tolist(), strict=True)
    for left_row, right_row in pairs:
        root, joined = sorted((first(left_row), first(right_row)))
        if root == joined or joined in apart.get(root, ()):
            continue
        above[joined] = root
        # What can't link with the joined group can't link with all of it.
        for stranger in apart.pop(joined, ()):
            apart[stranger].discard(joined)
            apart[stranger].add(root)
            apart.setdefault(root, set()).add(stranger)
    rows = np.flatnonzero(touched)
    partition[rows] = [first(row) for row in partition[rows].tolist()]


def constrained(judgements: Judgements, columns: Columns) -> tuple[Classes, Constraints]:
    """Return the classes of documents of equal texts in one scope, and the constraints on them."""
    digests, judged = columns.digests, columns.judged
    pairs = [judgement for judgement in judgements.pairs if judgement.verdict != "unsure"]
    rows_of_pairs = judged_rows(
        pairs, columns.ids, digests if judged is None else judged, by_id=judged is not None
    )
    present = [
        (judgement, rows)
        for judgement, rows in zip(pairs, rows_of_pairs, strict=True)
        if rows is not None
    ]
    equal_texts = [
        rows
        for judgement, rows in present
        if judgement.verdict == "different" and (digests[rows[0]] == digests[rows[1]]).all()
    ]
    classes = classes_of(digests, columns.filled, _kinds(equal_texts), columns.scopes)

    def pairs_of_classes(verdict: str) -> I64:
        rows = [rows for judgement, rows in present if judgement.verdict == verdict]
        ends = classes.of[np.array(rows, np.int64).reshape(-1, 2)]
        # Texts that are empty once normalised are in no class.
        return ends[(ends >= 0).all(axis=1)]

    must, cannot = pairs_of_classes("duplicate"), pairs_of_classes("different")
    constraints = _settled(must, cannot, classes.rows.size, len(pairs) - len(present))
    return classes, constraints


def _kinds(different: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Number rows of equal texts, so that different ones have different numbers; others have 0."""
    neighbours: dict[int, set[int]] = {}
    for left, right in different:
        neighbours.setdefault(left, set()).add(right)
        neighbours.setdefault(right, set()).add(left)
    kind_of: dict[int, int] = {}
    for row in sorted(neighbours):
        kinds = {kind_of[neighbour] for neighbour in neighbours[row] if neighbour in kind_of}
        kind_of[row] = next(kind for kind in range(len(kinds) + 1) if kind not in kinds)
    return kind_of


def judged_rows(
    pairs: Sequence[Judgement], ids: Sequence[str], digests: U64, *, by_id: bool = False
) -> list[tuple[int, int] | None]:
    """Return the rows of each pair: of its documents, or other ones of their texts; None without.

    digests: of the texts that judgements are of. Documents of one text are not replaced by others.
    by_id: nor are any documents, as they can differ in the field that is compared.
    """
    judged = digest_words([digest for judgement in pairs for digest in judgement.digests])
    keys = [digest.tobytes() for digest in judged]
    is_judged = np.zeros(len(digests), np.bool_)
    if pairs:
        # Most digests differ in their first word, so few rows are looked at.
        is_judged = np.isin(digests[:, 0], judged[:, 0])
    row_of: dict[tuple[bytes, str | None], int] = {}
    for row in np.flatnonzero(is_judged).tolist():
        key = digests[row].tobytes()
        row_of[key, ids[row]] = row
        row_of.setdefault((key, None), row)

    def row_with(key: bytes, id: str, is_own: bool) -> int | None:
        return row_of.get((key, id), None if is_own else row_of.get((key, None)))

    rows_of_pairs = []
    for judgement, left_key, right_key in zip(pairs, keys[::2], keys[1::2], strict=True):
        is_own = by_id or left_key == right_key
        left = row_with(left_key, judgement.left, is_own)
        right = row_with(right_key, judgement.right, is_own)
        rows_of_pairs.append(None if left is None or right is None else (left, right))
    return rows_of_pairs


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
