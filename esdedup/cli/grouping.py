"""Options of the commands that group documents."""

from __future__ import annotations

from typing import Annotated

import typer

from esdedup.cli.similar import check_metric_options
from esdedup.datatypes import Metric
from esdedup.exceptions import UsageError
from esdedup.groups import Grouping, Method
from esdedup.keep import KeepRule

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


def grouping_of(
    method: Method,
    metric: Metric,
    threshold: float | None,
    distance: int | None,
    keep: str,
    recall: float,
    max_bucket: int,
    exact: bool,
) -> Grouping:
    """The grouping that the options name. Raises UsageError for what does not go together."""
    if exact and (metric != "jaccard" or threshold is not None or distance is not None):
        raise UsageError("--exact goes without --metric, --threshold and --distance")
    check_metric_options(metric, threshold, distance)
    chosen = THRESHOLD if threshold is None else threshold
    rule = KeepRule.parse(keep)
    return Grouping(method, metric, chosen, distance, rule, recall, max_bucket, exact)
