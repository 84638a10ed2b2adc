"""Groups of similar documents whose labels contradict each other, and which are left whole.

Two documents contradict each other if both have a value of the field, and these differ. The values
are compared as texts, of a list all of them in any order, as those of a scope.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from esdedup.compare.labels import compared, label_at
from esdedup.tabular import Tabular
from esdedup.text.arrays import I64, run_starts
from esdedup.text.characters import count
from esdedup.text.strings import Strings


def _no_rows() -> I64:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Conflict:
    """Similar documents whose labels contradict each other.

    ids: of the documents, in their order of precedence.
    labels: their values of the field, None for a missing one.
    """

    ids: list[str]
    labels: list[object]


@dataclass(frozen=True, repr=False)
class Conflicts(Tabular):
    """The groups that are left whole. As a table they have a row for each document.

    name: of the field that the labels are values of; None if labels are not compared.
    ids: of all documents.
    rows: of the documents of these groups, group after group, shape (m,).
    representative: the first row of the group of each, shape (m,).
    labels: of each, as `labels_of` returns them.
    """

    name: str | None = None
    ids: Sequence[str] = ()
    rows: I64 = field(default_factory=_no_rows)
    representative: I64 = field(default_factory=_no_rows)
    labels: Strings = Strings.of([])  # noqa: RUF009

    columns: ClassVar[dict[str, str]] = {"group": "string", "id": "string", "label": "string"}

    def __len__(self) -> int:
        return int(np.count_nonzero(run_starts(self.representative)))

    def __repr__(self) -> str:
        return f"<Conflicts: {len(self)} groups of {self.rows.size} documents>"

    def __iter__(self) -> Iterator[Conflict]:
        bounds = [*np.flatnonzero(run_starts(self.representative)).tolist(), self.rows.size]
        for start, end in itertools.pairwise(bounds):
            positions = range(start, end)
            rows = self.rows[start:end].tolist()
            labels = [label_at(self.labels, position) for position in positions]
            yield Conflict([self.ids[row] for row in rows], labels)

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        for conflict in self:
            for id, label in zip(conflict.ids, conflict.labels, strict=True):
                yield conflict.ids[0], id, label_text(label)

    def to_json(self) -> dict[str, object]:
        """Return a JSON object of the figures, without the groups."""
        return {"field": self.name, "groups": len(self), "documents": self.rows.size}

    @property
    def warning(self) -> str | None:
        """Return a sentence about the groups, or None if there are none."""
        return warning_of_conflicts(self.name, len(self), self.rows.size)


def conflicts_among(
    name: str, ids: Sequence[str], representative: I64, labels: Strings
) -> Conflicts:
    """Return the groups of documents whose labels contradict each other.

    name: of the field. representative: the row of each document's representative, shape (n,).
    labels: of all documents.
    """
    sizes = np.bincount(representative, minlength=representative.size)
    rows = np.flatnonzero(sizes[representative] > 1)
    rows = rows[np.argsort(representative[rows], kind="stable")]
    number_of = dict[tuple[str, ...], int]()
    # Of the documents that are in groups, which are few.
    numbers = np.array(
        [
            number_of.setdefault(compared(label_at(labels, row)), len(number_of))
            for row in rows.tolist()
        ],
        np.int64,
    )
    is_labelled = numbers != number_of.get((), -1)
    pairs = np.stack([representative[rows[is_labelled]], numbers[is_labelled]])
    groups, counts = np.unique(np.unique(pairs, axis=1)[0], return_counts=True)
    chosen = rows[np.isin(representative[rows], groups[counts > 1])]
    return Conflicts(name, ids, chosen, representative[chosen], labels.picked(chosen))


def label_text(label: object) -> str | None:
    """Return a label as text, None for a missing one."""
    if label is None or isinstance(label, str):
        return label
    return json.dumps(label, ensure_ascii=False)


def warning_of_conflicts(name: str | None, groups: int, documents: int) -> str | None:
    """Return a sentence about groups that are left whole, or None if there are none."""
    if not groups:
        return None
    left = f"{count(groups, 'group')} of {count(documents, 'document')} left whole"
    return f"{left}, because of different values of {name!r}"
