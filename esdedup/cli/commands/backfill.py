"""esdedup backfill: tokens for the documents that an index already holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from typer import Exit, Option

from esdedup.admin.backfill import Effort, OnUpdate, backfill, plan_backfill
from esdedup.cli import options, output
from esdedup.cli.files import dead_letters
from esdedup.exceptions import StoreError
from esdedup.records.dead_letters import DeadLetterFile, dead_letter_path
from esdedup.records.files import BadRecord
from esdedup.stores.changes import ChangeReport


@options.with_target
def backfill_command(
    target: options.ClusterTarget,
    stale: Annotated[
        bool, Option("--stale", help="Renew tokens that don't fit their text: reads all texts.")
    ] = False,
    workers: options.Workers = 1,
    max_rate: options.MaxRate = None,
    dry_run: options.DryRun = False,
    dead_letter: options.DeadLetterPath = None,
    as_json: options.AsJson = None,
) -> None:
    """Add tokens to the documents of an attached index.

    Example: esdedup backfill --index news --workers 4

    Run it again after it was stopped, and it resumes. A document that another client changes at
    the same time is read again, never overwritten.
    """
    effort = Effort(workers, max_rate)
    with target.connected() as cluster:
        plan = plan_backfill(cluster, target.index, stale=stale)
        for obstacle in plan.left_out:
            output.message(f"Left out: {obstacle}")
        if not plan.indices:
            raise StoreError(f"no index behind {plan.named.name!r} can be filled")
        if dry_run:
            output.print_json({"waiting": plan.waiting, "indices": list(plan.indices)})
            return
        path = dead_letter or dead_letter_path(target.index)
        with dead_letters(path) as letters:
            report = run(partial(backfill, cluster, plan, effort), plan.waiting, letters)
    left_out = {obstacle.index for obstacle in plan.left_out}
    name = f"{plan.named.kind.capitalize()} {plan.named.name!r}"
    title = f"{name}, scheme {plan.meta.scheme.id}"
    show(report, title, len(left_out), target, as_json)
    if report.failures:
        output.message(f"{output.count(report.failed, 'document')} not updated: see {path}")
    if report.failures or plan.left_out:
        raise Exit(1)


def run(
    work: Callable[[OnUpdate], ChangeReport], waiting: int, letters: DeadLetterFile
) -> ChangeReport:
    """Run work under a progress bar, and log its counts if it stops early."""
    total = ChangeReport()
    with output.progress("Filling", waiting) as (advance, documents):

        def on_update(done: ChangeReport) -> None:
            nonlocal total
            total += done
            advance(done.read)
            documents(total.read)

        try:
            with output.resumable(lambda: f"{total.read} documents read, {total.written} written"):
                total = work(on_update)
        finally:
            for failure in {failure.id: failure for failure in total.failures}.values():
                letters(BadRecord(failure.id, 0, "", failure.reason))
    return total


def show(
    report: ChangeReport,
    title: str,
    left_out: int,
    target: options.ClusterTarget,
    as_json: bool | None,
) -> None:
    """Print the report on standard output."""
    place = {"index": target.index, "address": target.address}
    names = ("read", "written", "unchanged", "without_text", "gone", "conflicts", "failed")
    counts = {name: getattr(report, name) for name in names}
    counts["left_out"] = left_out
    title = f"{title} at {target.address}"
    output.print_counts(counts, output.wants_json(as_json), title=title, more=place)
