"""esdedup backfill: tokens for the documents that an index holds already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.admin.backfill import BackfillPlan, Effort, OnUpdate, backfill, plan_backfill
from esdedup.admin.sidecar import fill_sidecar, plan_sidecar
from esdedup.cli.files import DeadLetterFile
from esdedup.cli.options import (
    AsJson,
    ClusterTarget,
    IndexOption,
    SchemeOption,
    TextField,
    scheme_in,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, progress, wants_json
from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.ingest.files import BadRecord
from esdedup.models import Share
from esdedup.stores import BulkPolicy, Cluster
from esdedup.stores.changes import ChangeReport

Stale = Annotated[
    bool,
    typer.Option("--stale", help="Renew tokens that no longer fit their text: reads every text."),
]
SliceOption = Annotated[
    str | None,
    typer.Option(
        "--slice", metavar="N/M", help="This machine's share, such as 3/16, where several work."
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="Processes on this machine.")]
MaxRate = Annotated[
    float | None,
    typer.Option("--max-rate", help="Most documents a second, to spare the cluster."),
]
DeadLetterPath = Annotated[
    Path | None,
    typer.Option(
        "--dead-letter",
        show_default="INDEX.dead-letter.jsonl",
        help="File to append the documents to that could not be updated.",
    ),
]
SidecarOption = Annotated[
    str | None,
    typer.Option(
        "--sidecar",
        metavar="NAME",
        help="Fill this index, with the same ids, instead: for documents that can't be updated.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the documents, change nothing.")]
Retries = Annotated[int, typer.Option(min=0, help="How often a refused request is sent again.")]


@with_target
def backfill_command(
    target: ClusterTarget,
    index: IndexOption,
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

    Run it again after it was stopped: it goes on where it was. A document that somebody changes
    meanwhile is read again, never overwritten.
    """
    share = Share.parse(slice) if slice is not None else Share()
    effort = Effort(workers, share, max_rate)
    path = dead_letter or Path(f"{index}.dead-letter.jsonl")
    if sidecar is None and (scheme is not None or text_field is not None):
        raise UsageError("--scheme and --text-field go with --sidecar; an index has its own")
    with target.connected(BulkPolicy(retries=retries)) as cluster:
        if sidecar is not None:
            if stale or slice or workers > 1 or max_rate is not None or dry_run:
                raise UsageError(
                    "--sidecar goes without --stale, --slice, --workers, --max-rate, --dry-run"
                )
            _fill_sidecar(cluster, index, sidecar, text_field, scheme, path, wants_json(as_json))
            return
        plan = plan_backfill(cluster, index, stale=stale, effort=effort)
        tell_left_out(plan)
        if dry_run:
            print_json({"waiting": plan.waiting, "indices": list(plan.indices)})
            return
        with DeadLetterFile(path) as letters:
            report = run(
                lambda on_update: backfill(cluster, plan, effort, on_update), plan.waiting, letters
            )
    left_out = {obstacle.index for obstacle in plan.left_out}
    title = f"{plan.named.kind.capitalize()} {plan.named.name!r}, scheme {plan.meta.scheme.id}"
    show(report, title, len(left_out), wants_json(as_json))
    if report.failures:
        message(f"{report.failed} documents were not updated: see {letters.path}")
    if report.failures or plan.left_out:
        raise typer.Exit(1)


def _fill_sidecar(
    cluster: Cluster,
    index: str,
    sidecar: str,
    text_field: str | None,
    scheme: Path | None,
    letter_path: Path,
    as_json: bool,
) -> None:
    plan = plan_sidecar(cluster, index, sidecar, scheme_in(scheme), text_field)
    for obstacle in plan.left_out:
        message(f"Left out: {obstacle}")
    with DeadLetterFile(letter_path) as letters:
        report = run(
            lambda on_update: fill_sidecar(cluster, plan, on_update), plan.waiting, letters
        )
    title = f"Sidecar index {sidecar!r} of {index!r}, scheme {plan.meta.scheme.id}"
    show(report, title, len(plan.left_out), as_json)
    if report.failures or plan.left_out:
        raise typer.Exit(1)


def tell_left_out(plan: BackfillPlan) -> None:
    """Names the indices that can't be filled. Raises StoreError where that is all of them."""
    for obstacle in plan.left_out:
        message(f"Left out: {obstacle}")
    if not plan.indices:
        raise StoreError(f"no index behind {plan.named.name!r} can be filled as it is")


def run(
    work: Callable[[OnUpdate], ChangeReport], waiting: int, letters: DeadLetterFile
) -> ChangeReport:
    """Works with a bar of progress; where that stops early, says what was written before."""
    total = ChangeReport()
    with progress("Filling", waiting) as (advance, documents):

        def on_update(done: ChangeReport) -> None:
            nonlocal total
            total += done
            advance(done.read)
            documents(total.read)

        try:
            total = work(on_update)
        except EsdedupError as error:
            raise type(error)(f"{error}\n{_stopped(total)}") from error
        except KeyboardInterrupt:
            message(f"Interrupted. {_stopped(total)}")
            raise
        finally:
            for failure in {failure.id: failure for failure in total.failures}.values():
                letters(BadRecord(failure.id, 0, "", failure.reason))
    return total


def _stopped(report: ChangeReport) -> str:
    return (
        f"Before this: {report.read} documents read, {report.written} written."
        " Run the same command again to go on"
    )


def show(report: ChangeReport, title: str, left_out: int, as_json: bool) -> None:
    """The report on standard output."""
    numbers: dict[str, Any] = {
        "read": report.read,
        "written": report.written,
        "unchanged": report.unchanged,
        "without_text": report.without_text,
        "gone": report.gone,
        "conflicts": report.conflicts,
        "failed": report.failed,
        "left_out": left_out,
    }
    if as_json:
        print_json(numbers)
        return
    print_table(
        [("Documents", "text"), ("", "number")],
        [(name.replace("_", " "), f"{count:,}") for name, count in numbers.items()],
        title=title,
    )
