"""Options of the commands that group documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from esdedup.cli.commands.similar import check_metric_options
from esdedup.cli.options import Distance, MaxBucket, MetricOption, Recall
from esdedup.dedup.groups import MAX_BUCKET, Grouping, Method
from esdedup.dedup.representative import KeepRule
from esdedup.exceptions import UsageError
from esdedup.search.limits import RECALL

THRESHOLD = 0.8

MethodOption = Annotated[
    Method,
    typer.Option(
        help="components joins all that a chain of similar documents connects; leader takes the"
        " documents in the order of --keep, and each joins its nearest leader or becomes one."
    ),
]
GroupThreshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        "-t",
        show_default=str(THRESHOLD),
        help="Least Jaccard similarity, above 0, up to 1.",
    ),
]
KeepOption = Annotated[
    str,
    typer.Option(
        "--keep",
        metavar="RULE",
        help="Which document of a group stays: first or last (by id), first:FIELD or last:FIELD"
        " (also oldest:, newest:), longest, shortest.",
    ),
]
Exact = Annotated[
    bool, typer.Option("--exact", help="Only documents of equal text, after normalisation.")
]


@dataclass(frozen=True)
class GroupingOptions:
    """The options of every command that groups documents."""

    method: MethodOption = "components"
    metric: MetricOption = "jaccard"
    threshold: GroupThreshold = None
    distance: Distance = None
    keep: KeepOption = "first"
    exact: Exact = False
    recall: Recall = RECALL
    max_bucket: MaxBucket = MAX_BUCKET

    def grouping(self) -> Grouping:
        """The grouping that the options name. Raises UsageError for what does not go together."""
        by_text = self.metric == "jaccard" and self.threshold is None and self.distance is None
        if self.exact and not by_text:
            raise UsageError("--exact goes without --metric, --threshold and --distance")
        check_metric_options(self.metric, self.threshold, self.distance)
        return Grouping(
            self.method,
            self.metric,
            THRESHOLD if self.threshold is None else self.threshold,
            self.distance,
            KeepRule.parse(self.keep),
            self.recall,
            self.max_bucket,
            self.exact,
        )


@dataclass(frozen=True)
class LeaderOptions(GroupingOptions):
    """The same, where what goes shall be like what stays."""

    method: MethodOption = "leader"
