"""esdedup backfill: compute the tokens of documents that an index holds already."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from click.exceptions import Exit

from esdedup.admin.backfill import Effort, OnUpdate, backfill, plan_backfill
from esdedup.arguments import setting
from esdedup.cli import output
from esdedup.cli.files import dead_letters
from esdedup.cli.options import ClusterTarget, as_json, dead_letter, dry_run, max_rate, workers
from esdedup.exceptions import StoreError
from esdedup.records.dead_letters import DeadLetterFile, dead_letter_path
from esdedup.records.files import BadRecord
from esdedup.stores.changes import ChangeReport


def backfill_command(
    target: ClusterTarget,
    stale: bool = setting(False, "Renew tokens that don't fit their text: reads all texts."),
    workers: int = workers(),
    max_rate: float | None = max_rate(),
    dry_run: bool = dry_run(),
    dead_letter: Path | None = dead_letter(),
    as_json: bool | None = as_json(),
) -> None:
    """Give the documents of an attached index their tokens.

    Example: esdedup backfill --index news --workers 4

    Run the same command again to resume an interrupted run. A document that another client changes
    at the same time is read again, never overwritten.
    """
    effort = Effort(workers, max_rate)
    with target.connected() as cluster:
        plan = plan_backfill(cluster, target.index, stale=stale)
        for obstacle in plan.left_out:
            output.message(f"Skipped: {obstacle}")
        if not plan.indices:
            raise StoreError(f"no index behind {plan.named.name!r} can be filled as it is")
        if dry_run:
            output.print_json({"waiting": plan.waiting, "indices": list(plan.indices)})
            return
        path = dead_letter or dead_letter_path(target.index)
        with dead_letters(path) as letters:
            report = run(partial(backfill, cluster, plan, effort), plan.waiting, letters)
    left_out = {obstacle.index for obstacle in plan.left_out}
    title = f"{plan.named.kind.capitalize()} {plan.named.name!r}, scheme {plan.meta.scheme.id}"
    show(report, title, len(left_out), target, as_json)
    if report.failures:
        output.message(f"{output.count(report.failed, 'document')} not updated: see {path}")
    if report.failures or plan.left_out:
        raise Exit(1)


def run(
    work: Callable[[OnUpdate], ChangeReport], waiting: int, letters: DeadLetterFile
) -> ChangeReport:
    """Run with a progress bar, and report the counts if it stops early."""
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
    report: ChangeReport, title: str, left_out: int, target: ClusterTarget, as_json: bool | None
) -> None:
    """Print the report on standard output."""
    place = {"index": target.index, "address": target.address}
    names = ("read", "written", "unchanged", "without_text", "gone", "conflicts", "failed")
    counts = {name: getattr(report, name) for name in names}
    counts["left_out"] = left_out
    title = f"{title} at {target.address}"
    output.print_counts(counts, output.wants_json(as_json), title=title, more=place)
