"""esdedup index: documents from files into an index."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from typer import Exit, Option

from esdedup.cli import options, output
from esdedup.cli.files import (
    FileOptions,
    Files,
    dead_letters,
    total_bytes,
    warn_of_repeated,
    warn_without_words,
)
from esdedup.exceptions import PermissionDenied, UsageError
from esdedup.ingest.ingest import IngestReport, ingest
from esdedup.ingest.policies import DuplicatePolicy, OnDuplicate
from esdedup.records.dead_letters import dead_letter_path
from esdedup.records.documents import RepeatedIds
from esdedup.search.limits import ACTING, Limits, require_minhash
from esdedup.search.warnings import lacking_recall
from esdedup.sketch.banding import expected_recall
from esdedup.stores import Store


@options.with_target
def index(
    target: options.Target,
    files: Files,
    reading: FileOptions,
    on_duplicate: Annotated[
        OnDuplicate,
        Option(
            help="With a near-duplicate of an earlier document: keep it as any other, mark it with"
            " the original's id and the similarity, skip it, or fail it into the dead letters."
        ),
    ] = "keep",
    column: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            show_default="all",
            help="Of Parquet and Arrow files: a column to index, with the text's and the id's; may"
            " be repeated.",
        ),
    ] = None,
    group: Annotated[
        bool, Option("--group", help="Let each document join a group as it comes in.")
    ] = False,
    metric: options.MetricOption = "jaccard",
    threshold: options.Acting = None,
    distance: options.Distance = None,
    as_json: options.AsJson = None,
) -> None:
    """Index documents with their near-duplicate tokens.

    Example: esdedup index news.jsonl -i news --on-duplicate mark

    The index is made if there is none. A document with the id of an indexed one replaces it. One
    that the index has already is not written, so that the same command again completes a run that
    was stopped.
    """
    files = reading.named(files, column or ())
    if group and on_duplicate != "keep":
        raise UsageError(f"--group marks near-duplicates: leave out --on-duplicate {on_duplicate}")
    options.check_metric_options(metric, threshold, None)
    least = ACTING if threshold is None else threshold
    action = "group" if group else on_duplicate
    policy = DuplicatePolicy(action, least, metric=metric, distance=distance)
    scheme = options.scheme_in(reading.scheme)
    last, ids = IngestReport(), RepeatedIds()
    path = reading.dead_letter or dead_letter_path(target.index)
    with (
        target.open(scheme, reading.text_field) as opened,
        dead_letters(path) as letters,
        output.progress("Indexing", total_bytes(files)) as (advance, documents),
    ):
        # Before the index is made, because it keeps the name of the field.
        made = opened.store.meta() is not None
        names = opened.meta.text_fields if made else reading.text_field or ["text"]
        chunks = reading.chunks(files, names, advance, column)
        opened.create()

        def on_batch(report: IngestReport) -> None:
            nonlocal last
            last = report
            documents(report.read)

        # The counts are those of whole batches, which are acknowledged.
        with output.resumable(
            lambda: (
                f"{last.read} records, {last.created} created, {last.updated} updated,"
                f" {last.unchanged} unchanged, {last.failed} failed"
            )
        ):
            report = ingest(
                opened.store,
                opened.meta,
                chunks,
                letters,
                workers=reading.workers,
                id_field=reading.id_field,
                on_duplicate=policy,
                on_batch=on_batch,
                fresh=lambda: opened.meta,
                ids=ids,
            )
            _refresh(opened.store)
        used = opened.scheme
    output.print_counts(
        asdict(report),
        output.wants_json(as_json),
        of="Records",
        title=output.capital(opened.store.where),
        more=output.place_of(opened),
    )
    warn_of_repeated(ids.count, ids.first)
    warn_without_words(report.without_words)
    if policy.action != "keep" and metric == "jaccard":
        limits, minhash = Limits(threshold=least), require_minhash(used)
        expected = expected_recall(least, minhash.bands, minhash.rows, swaps=limits.swaps_for(used))
        output.warn(lacking_recall(expected, limits))
    if report.truncated:
        output.message(
            f"{output.count(report.truncated, 'document')} with more candidates than the"
            f" {policy.candidates} to compare with, or only buckets of the stop list: a duplicate"
            " may have been missed"
        )
    if report.failed:
        output.message(
            f"{report.failed} of {report.read} records were not indexed: see {letters.path}"
        )
        raise Exit(1)


def _refresh(store: Store) -> None:
    """Let searches see the documents, or tells that they will later: all are written."""
    try:
        store.refresh()
    except PermissionDenied as error:
        output.message(
            f"{error}. All documents are written: searches see them after the index's own next"
            " refresh, by default within a second"
        )
