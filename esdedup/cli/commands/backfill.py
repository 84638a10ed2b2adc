"""esdedup backfill, switch: compute tokens of documents that an index holds already."""

import json
from functools import partial
from pathlib import Path
from typing import Protocol

from typer import Exit

from esdedup import admin
from esdedup.cli import options, output
from esdedup.cli.command import setting
from esdedup.cli.files import dead_letters
from esdedup.cli.options import ClusterTarget, SchemeOptions
from esdedup.cli.output import count, message
from esdedup.exceptions import StoreError


class _Rejects(Protocol):
    """A file of documents that were not updated."""

    path: Path

    def reject(self, id: str, reason: str) -> None:
        """Append a document with the reason."""


def backfill_command(
    target: ClusterTarget,
    stale: bool = setting(False, "Renew stale tokens too: reads all texts."),
    workers: int = options.workers(),
    max_rate: float | None = options.max_rate(),
    dead_letter: Path | None = options.dead_letter(),
    as_json: bool = options.as_json(),
) -> None:
    """Give the documents of an attached index their tokens.

    Example: esdedup backfill --index news --workers 4

    Run the same command again to resume an interrupted run. A document that another client changes
    at the same time is read again, never overwritten. --stale mends missing and stale tokens in one
    run.
    """
    effort = admin.Effort(workers, max_rate)
    with target.connected() as cluster:
        plan = admin.plan_backfill(cluster, target.index, stale=stale)
        for obstacle in plan.left_out:
            message(f"Skipped: {obstacle}")
        if not plan.indices:
            raise StoreError(f"no index behind {plan.named.name!r} can be filled as it is")
        with dead_letters(dead_letter, target.index) as letters:
            report = _fill(cluster, effort, letters, plan)
        now = admin.plan_backfill(cluster, target.index).waiting
    # Documents without a text never get tokens.
    left = max(0, now - report.without_text - report.failed)
    left_out = {obstacle.index for obstacle in plan.left_out}
    title = f"{plan.named.kind.capitalize()} {plan.named.name!r}, scheme {plan.meta.full_scheme.id}"
    _show(report, title, len(left_out), target, as_json)
    if left and not plan.left_out:
        message(f"{count(left, 'document')} without tokens left: run this again")
    if report.failures or plan.left_out or left:
        raise Exit(1)


def switch_command(
    target: ClusterTarget,
    sketching: SchemeOptions,
    distance: int | None = options.distance(),
    cosine: float | None = options.cosine(),
    workers: int = options.workers(),
    max_rate: float | None = options.max_rate(),
    as_json: bool = options.as_json(),
) -> None:
    """Change the scheme or text field of an index in use.

    Example: esdedup switch --index news --scheme new.json

    The new tokens are filled in beside the old ones. Searches use them when all are there. Run the
    same command again to resume an interrupted run.
    """
    effort = admin.Effort(workers, max_rate)
    scheme, text_field = sketching.scheme_and_fields(distance, cosine=cosine)
    with target.connected() as cluster, dead_letters(None, target.index) as letters:
        plan = admin.plan_switch(cluster, target.index, scheme, text_field)
        if plan.stage == "done":
            message(f"{target.index!r} has scheme {plan.meta.full_scheme.id} already")
            return

        following = plan.following
        if plan.stage == "begin":
            before = f"From scheme {plan.meta.full_scheme.id} in the field {plan.meta.field!r}"
            message(
                f"{before} to scheme {following.full_scheme.id} in the field {following.field!r}:"
            )
            message(json.dumps(plan.properties))
        fill = partial(_fill, cluster, effort, letters)
        report = admin.execute_switch(cluster, plan, fill, message)
        _show(report, f"Scheme {following.full_scheme.id} of {plan.name!r}", 0, target, as_json)
        if plan.meta.stop:
            shows = f"esdedup stats --index {target.index} --hot 10"
            message(
                f"The stop list ({count(len(plan.meta.stop), 'token')}) was of the old scheme and"
                f" is empty now: {shows} shows the large buckets of the new one"
            )
        message(f"Searches use scheme {following.full_scheme.id} from now on")


def _fill(
    cluster: admin.Cluster, effort: admin.Effort, letters: _Rejects, plan: admin.BackfillPlan
) -> admin.ChangeReport:
    """Fill while showing the progress, and report the counts if it stops early."""
    failed: set[str] = set()

    def on_update(report: admin.ChangeReport) -> None:
        on_report(report)
        for failure in report.failures:
            if failure.id not in failed:
                letters.reject(failure.id, failure.reason)
            failed.add(failure.id)

    with output.totalling(
        admin.ChangeReport(),
        "Filling",
        plan.waiting,
        lambda so_far: so_far.read,
        lambda so_far: f"{so_far.read} documents read, {so_far.written} written",
    ) as on_report:
        report = admin.backfill(cluster, plan, effort, on_update)
    if report.failures:
        message(f"{count(report.failed, 'document')} not updated: see {letters.path}")
    return report


def _show(
    report: admin.ChangeReport, title: str, left_out: int, target: ClusterTarget, as_json: bool
) -> None:
    """Print the report on standard output."""
    names = ("read", "written", "unchanged", "without_text", "gone", "conflicts", "failed")
    counts = {name: getattr(report, name) for name in names} | {"left_out": left_out}
    place = {"index": target.index, "address": target.address}
    title = f"{title} at {target.address}"
    output.print_counts(counts, as_json, title=title, details=place)
