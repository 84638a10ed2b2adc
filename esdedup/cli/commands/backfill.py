"""esdedup backfill: tokens for the documents that an index holds already."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from typer import Exit, Option

from esdedup.admin.backfill import BackfillPlan, Effort, OnUpdate, backfill, plan_backfill
from esdedup.admin.sidecar import SidecarPlan, fill_sidecar, plan_sidecar
from esdedup.cli import options, output
from esdedup.cli.files import dead_letters
from esdedup.exceptions import StoreError, UsageError
from esdedup.models import Share
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
    slice: Annotated[
        str | None, Option(metavar="N/M", help="The share of this machine, such as 3/16.")
    ] = None,
    max_rate: options.MaxRate = None,
    sidecar: Annotated[
        str | None,
        Option(
            metavar="NAME", help="Fill this index instead, for documents that can't be updated."
        ),
    ] = None,
    text_field: options.TextField = None,
    scheme: options.SchemeOption = None,
    dry_run: options.DryRun = False,
    dead_letter: options.DeadLetterPath = None,
    as_json: options.AsJson = None,
) -> None:
    """Give the documents of an attached index their tokens.

    Example: esdedup backfill --index news --workers 4

    Run it again after it was stopped: it goes on where it was. A document that somebody changes at
    the same time is read again, never overwritten.
    """
    share = Share.parse(slice) if slice is not None else Share()
    effort = Effort(workers, share, max_rate)
    if sidecar is None and (scheme is not None or text_field is not None):
        raise UsageError("--scheme and --text-field go with --sidecar; an index has its own")
    plan: BackfillPlan | SidecarPlan
    with target.connected() as cluster:
        if sidecar is not None:
            if stale or slice or workers > 1 or max_rate is not None or dry_run:
                raise UsageError(
                    "--sidecar goes without --stale, --slice, --workers, --max-rate, --dry-run"
                )
            wanted = options.scheme_in(scheme)
            plan = plan_sidecar(cluster, target.index, sidecar, wanted, text_field)
            work = partial(fill_sidecar, cluster, plan)
            name = f"Sidecar index {sidecar!r} of {target.index!r}"
        else:
            plan = plan_backfill(cluster, target.index, stale=stale, effort=effort)
            work = partial(backfill, cluster, plan, effort)
            name = f"{plan.named.kind.capitalize()} {plan.named.name!r}"
        for obstacle in plan.left_out:
            output.message(f"Left out: {obstacle}")
        if isinstance(plan, BackfillPlan):
            if not plan.indices:
                raise StoreError(f"no index behind {plan.named.name!r} can be filled as it is")
            if dry_run:
                output.print_json({"waiting": plan.waiting, "indices": list(plan.indices)})
                return
        path = dead_letter or dead_letter_path(target.index)
        with dead_letters(path) as letters:
            report = run(work, plan.waiting, letters)
    left_out = {obstacle.index for obstacle in plan.left_out}
    title = f"{name}, scheme {plan.meta.scheme.id}"
    show(report, title, len(left_out), target, as_json)
    if report.failures and sidecar is None:
        output.message(f"{output.count(report.failed, 'document')} not updated: see {path}")
    if report.failures or plan.left_out:
        raise Exit(1)


def run(
    work: Callable[[OnUpdate], ChangeReport], waiting: int, letters: DeadLetterFile
) -> ChangeReport:
    """Works with a bar of progress, and tells the counts if it stops early."""
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
