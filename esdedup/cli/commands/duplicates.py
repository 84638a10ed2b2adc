"""Groups of duplicates, shown."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np

from esdedup.cli.output import message, print_table
from esdedup.dedup.groups import Group, Groups
from esdedup.models import Statistics

_LARGEST = 20


def group_json(group: Group) -> dict[str, Any]:
    """A group as a line of JSON."""
    duplicates = [
        {"id": member.id, "similarity": member.similarity}
        if member.distance is None
        else {"id": member.id, "distance": member.distance}
        for member in group.members
    ]
    return {"keep": group.representative, "duplicates": duplicates}


def show_groups(groups: Groups, where: str) -> None:
    """A table of the largest groups."""
    rows = [
        (
            f"{len(group.members):,}",
            _farthest(group),
            group.representative,
            ", ".join(member.id for member in group.members[:_LARGEST]),
        )
        for group in itertools.islice(groups, _LARGEST)
    ]
    if not rows:
        return
    columns: list[Any] = [
        ("go", "number"),
        ("least like", "number"),
        ("stays", "key"),
        ("those that go", "line"),
    ]
    print_table(columns, rows, title=where[0].upper() + where[1:])
    if groups.sizes.size > len(rows):
        message(f"... and {groups.sizes.size - len(rows):,} smaller groups: --json lists all")
    # What is about to happen is seen before it happens.
    sys.stdout.flush()


def _farthest(group: Group) -> str:
    """The similarity, or distance, of the document that is least like the one that stays."""
    similarities = [each.similarity for each in group.members if each.similarity is not None]
    distances = [each.distance for each in group.members if each.distance is not None]
    return f"{min(similarities):.3f}" if similarities else str(max(distances))


def tell_chained(groups: Groups) -> None:
    """Says how many are less like the one that stays than what was asked for."""
    grouping, value = groups.grouping, groups.value[~np.isnan(groups.value)]
    if grouping.exact or grouping.method == "leader":
        return
    if grouping.metric == "jaccard":
        chained = int((value < grouping.threshold).sum())
    else:
        assert grouping.distance is not None
        chained = int((value > grouping.distance).sum())
    if chained:
        message(
            f"{chained:,} of them are joined by a chain of similar documents, and less like the one"
            " that stays than you asked for: --method leader leaves them"
        )


def summary(groups: Groups, statistics: Statistics) -> str:
    """How many duplicates there are, and what they take."""
    if not groups.duplicates:
        return f"No duplicates among {len(groups.ids):,} documents"
    saved = statistics.bytes * groups.duplicates // max(1, statistics.documents)
    return (
        f"{groups.duplicates:,} duplicates in {groups.sizes.size:,} groups of"
        f" {len(groups.ids):,} documents; by their number, about {_megabytes(saved)} of"
        f" {_megabytes(statistics.bytes)}"
    )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
