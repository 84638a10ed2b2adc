"""esdedup backfill: tokens for the documents that an index holds already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from esdedup.admin.backfill import BackfillPlan, Effort, OnUpdate, backfill, plan_backfill
from esdedup.admin.sidecar import fill_sidecar, plan_sidecar
from esdedup.cli.files import DeadLetterFile
from esdedup.cli.options import (
    AsJson,
    ClusterTarget,
    DeadLetterPath,
    DryRun,
    MaxRate,
    Retries,
    SchemeOption,
    TextField,
    Workers,
    scheme_in,
    with_target,
)
from esdedup.cli.output import (
    count,
    message,
    print_counts,
    print_json,
    progress,
    resumable,
    wants_json,
)
from esdedup.exceptions import StoreError, UsageError
from esdedup.ingest.files import BadRecord
from esdedup.models import Share
from esdedup.stores import BulkPolicy, Cluster
from esdedup.stores.changes import ChangeReport

Stale = Annotated[
    bool, typer.Option("--stale", help="Renew tokens that don't fit their text: reads all texts.")
]
SliceOption = Annotated[
    str | None,
    typer.Option("--slice", metavar="N/M", help="The share of this machine, such as 3/16."),
]
SidecarOption = Annotated[
    str | None,
    typer.Option(
        "--sidecar",
        metavar="NAME",
        help="Fill this index instead, for documents that can't be updated.",
    ),
]


@with_target
def backfill_command(
    target: ClusterTarget,
    stale: Stale = False,
    workers: Workers = 1,
    slice: SliceOption = None,
    max_rate: MaxRate = None,
    sidecar: SidecarOption = None,
    text_field: TextField = None,
    scheme: SchemeOption = None,
    dry_run: DryRun = False,
    dead_letter: DeadLetterPath = None,
    retries: Retries = 6,
    as_json: AsJson = None,
) -> None:
    """Give the documents of an attached index their tokens.

    Example: esdedup backfill --index news --workers 4

    Run it again after it was stopped: it goes on where it was. A document that somebody changes at
    the same time is read again, never overwritten.
    """
    share = Share.parse(slice) if slice is not None else Share()
    effort = Effort(workers, share, max_rate)
    letters = DeadLetterFile(dead_letter or Path(f"{target.index}.dead-letter.jsonl"))
    if sidecar is None and (scheme is not None or text_field is not None):
        raise UsageError("--scheme and --text-field go with --sidecar; an index has its own")
    with target.connected(BulkPolicy(retries=retries)) as cluster:
        if sidecar is not None:
            if stale or slice or workers > 1 or max_rate is not None or dry_run:
                raise UsageError(
                    "--sidecar goes without --stale, --slice, --workers, --max-rate, --dry-run"
                )
            json = wants_json(as_json)
            _fill_sidecar(target, cluster, sidecar, text_field, scheme, letters, json)
            return
        plan = plan_backfill(cluster, target.index, stale=stale, effort=effort)
        tell_left_out(plan)
        if dry_run:
            print_json({"waiting": plan.waiting, "indices": list(plan.indices)})
            return
        with letters:
            report = run(
                lambda on_update: backfill(cluster, plan, effort, on_update), plan.waiting, letters
            )
    left_out = {obstacle.index for obstacle in plan.left_out}
    title = f"{plan.named.kind.capitalize()} {plan.named.name!r}, scheme {plan.meta.scheme.id}"
    show(report, title, len(left_out), wants_json(as_json))
    if report.failures:
        message(f"{count(report.failed, 'document')} not updated: see {letters.path}")
    if report.failures or plan.left_out:
        raise typer.Exit(1)


def _fill_sidecar(
    target: ClusterTarget,
    cluster: Cluster,
    sidecar: str,
    text_field: str | None,
    scheme: Path | None,
    letters: DeadLetterFile,
    as_json: bool,
) -> None:
    plan = plan_sidecar(cluster, target.index, sidecar, scheme_in(scheme), text_field)
    for obstacle in plan.left_out:
        message(f"Left out: {obstacle}")
    with letters:
        report = run(
            lambda on_update: fill_sidecar(cluster, plan, on_update), plan.waiting, letters
        )
    title = f"Sidecar index {sidecar!r} of {target.index!r}, scheme {plan.meta.scheme.id}"
    show(report, title, len(plan.left_out), as_json)
    if report.failures or plan.left_out:
        raise typer.Exit(1)


def tell_left_out(plan: BackfillPlan) -> None:
    """Names the indices that can't be filled. Raises StoreError if none can."""
    for obstacle in plan.left_out:
        message(f"Left out: {obstacle}")
    if not plan.indices:
        raise StoreError(f"no index behind {plan.named.name!r} can be filled as it is")


def run(
    work: Callable[[OnUpdate], ChangeReport], waiting: int, letters: DeadLetterFile
) -> ChangeReport:
    """Works with a bar of progress, and tells the counts if it stops early."""
    total = ChangeReport()
    with progress("Filling", waiting) as (advance, documents):

        def on_update(done: ChangeReport) -> None:
            nonlocal total
            total += done
            advance(done.read)
            documents(total.read)

        try:
            with resumable(lambda: f"{total.read} documents read, {total.written} written"):
                total = work(on_update)
        finally:
            for failure in {failure.id: failure for failure in total.failures}.values():
                letters(BadRecord(failure.id, 0, "", failure.reason))
    return total


def show(report: ChangeReport, title: str, left_out: int, as_json: bool) -> None:
    """Prints the report on standard output."""
    names = ("read", "written", "unchanged", "without_text", "gone", "conflicts", "failed")
    counts = {name: getattr(report, name) for name in names}
    print_counts({**counts, "left_out": left_out}, as_json, title=title)
