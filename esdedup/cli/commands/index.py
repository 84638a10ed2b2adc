"""esdedup index: documents from files into an index."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from esdedup.cli.files import (
    DeadLetterFile,
    FileOptions,
    Files,
    check_files,
    chunks_of,
    total_bytes,
)
from esdedup.cli.options import (
    THRESHOLD,
    AsJson,
    Distance,
    MetricOption,
    Target,
    scheme_in,
    with_target,
)
from esdedup.cli.output import Documents, message, print_json, print_table, progress, wants_json
from esdedup.exceptions import EsdedupError, UsageError
from esdedup.index import Index
from esdedup.ingest.ingest import IngestReport, ingest
from esdedup.ingest.near_duplicates import DuplicatePolicy, OnDuplicate
from esdedup.stores import BulkPolicy

OnDuplicateOption = Annotated[
    OnDuplicate,
    typer.Option(
        "--on-duplicate",
        help="What to do with a near-duplicate of an earlier document: keep it as any other, mark"
        " it with the original's id and the similarity, skip it, or fail it into the dead letters.",
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        "-t",
        show_default=str(THRESHOLD),
        help="Least Jaccard similarity of a near-duplicate, above 0, up to 1.",
    ),
]
GroupOption = Annotated[
    bool,
    typer.Option(
        "--group",
        help="Group documents as they come in: each joins the nearest leader, or becomes one.",
    ),
]
Retries = Annotated[
    int,
    typer.Option(min=0, help="How often a rejected or unanswered bulk request is sent again."),
]


@with_target
def index(
    target: Target,
    files: Files,
    options: FileOptions,
    on_duplicate: OnDuplicateOption = "keep",
    group: GroupOption = False,
    metric: MetricOption = "jaccard",
    threshold: Threshold = None,
    distance: Distance = None,
    retries: Retries = 6,
    as_json: AsJson = None,
) -> None:
    """Index documents with their near-duplicate tokens.

    The index is made if there is none. A document with the id of an indexed one replaces it, so
    that doing the same again completes a run that was stopped.
    """
    check_files(files, options.format)
    if group and on_duplicate != "keep":
        raise UsageError(f"--group marks near-duplicates: leave out --on-duplicate {on_duplicate}")
    if metric == "hamming" and threshold is not None:
        raise UsageError("--threshold goes with --metric jaccard")
    policy = DuplicatePolicy(
        "group" if group else on_duplicate,
        THRESHOLD if threshold is None else threshold,
        metric=metric,
        distance=distance,
    )
    wanted = scheme_in(options.scheme)
    letter_path = options.dead_letter or Path(f"{target.index}.dead-letter.jsonl")
    bulk = BulkPolicy(retries=retries)
    with ExitStack() as stack:
        opened = stack.enter_context(target.open(wanted, options.text_field, bulk))
        letters = stack.enter_context(DeadLetterFile(letter_path))
        opened.create()
        advance, documents = stack.enter_context(progress("Indexing", total_bytes(files)))
        work = functools.partial(
            ingest,
            opened.store,
            opened.meta,
            chunks_of(files, options.format, advance),
            workers=options.workers,
            on_duplicate=policy,
            fresh=lambda: opened.meta,
        )
        report = _ingest(opened, work, letters, options.id_field, documents)
    _show(report, opened.store.where, wants_json(as_json))
    if report.truncated:
        message(
            f"{report.truncated} documents had more candidates than the {policy.candidates} that"
            " they were compared with, or only buckets of the stop list: a duplicate may have been"
            " missed"
        )
    if report.failed:
        message(f"{report.failed} of {report.read} records were not indexed: see {letters.path}")
        raise typer.Exit(1)


def _ingest(
    index: Index,
    work: Callable[..., IngestReport],
    letters: DeadLetterFile,
    id_field: str | None,
    documents: Documents,
) -> IngestReport:
    """Ingests; where that stops early, says what was acknowledged before."""
    last = IngestReport()

    def on_batch(report: IngestReport) -> None:
        nonlocal last
        last = report
        documents(report.read)

    try:
        report = work(letters, id_field=id_field, on_batch=on_batch)
        index.store.refresh()
    except EsdedupError as error:
        raise type(error)(f"{error}\n{_stopped(last)}") from error
    except KeyboardInterrupt:
        message(f"Interrupted. {_stopped(last)}")
        raise
    return report


def _stopped(report: IngestReport) -> str:
    return (
        f"Whole batches before this: {report.read} records, {report.created} created,"
        f" {report.updated} updated, {report.unchanged} unchanged, {report.failed} failed."
        " Run the same command again to complete it"
    )


def _show(report: IngestReport, where: str, as_json: bool) -> None:
    if as_json:
        print_json(asdict(report))
        return
    print_table(
        [("Records", "text"), ("", "number")],
        [(name, f"{count:,}") for name, count in asdict(report).items()],
        title=where[0].upper() + where[1:],
    )
