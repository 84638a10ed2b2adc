"""esdedup index: index the documents of files."""

from dataclasses import asdict

from typer import Exit

from esdedup import DuplicatePolicy, UsageError, admin
from esdedup.cli import options, output
from esdedup.cli.command import argument, setting
from esdedup.cli.files import FORMATS, FileOptions, dead_letters, warn_of_records
from esdedup.cli.options import Target, as_json, check_limits, refuse
from esdedup.cli.output import count, message
from esdedup.files import PATH, RepeatedIds, format_of, total_bytes
from esdedup.results import IngestReport

_RARE = ("dropped", "moved", "renamed", "replaced_originals")
"""Counts that a table shows only if there are any. Few indices have a pipeline that does the first.
"""


def index_command(
    target: Target,
    plan: FileOptions,
    files: list[str] = argument(..., FORMATS, metavar="FILES..."),
    on_duplicate: admin.PolicyAction = setting(
        "keep", "Near-duplicates of earlier documents: keep, mark, skip, fail, or group them."
    ),
    column: list[str] | None = setting(
        None, "Column of a table to index; may be repeated.", metavar="NAME", rare=True
    ),
    routing_field: str | None = setting(
        None, "Field of the routing, for an index that requires one.", metavar="NAME", rare=True
    ),
    sketch: str | None = setting(
        None, "Sketch to compare by.", show_default="the scheme's first", rare=True, metavar="NAME"
    ),
    threshold: float = setting(
        DuplicatePolicy.threshold, "Minimum Jaccard similarity of duplicates.", "-t"
    ),
    distance: int | None = setting(
        None, "Maximum Hamming distance in bits, of fingerprints.", "-d"
    ),
    cosine: float | None = setting(
        None, "Minimum cosine of vectors.", rare=True, show_default="0.95"
    ),
    within: list[str] | None = setting(
        None,
        "Duplicates have equal values of FIELD, or times that near; repeatable.",
        metavar="FIELD[:TIME]",
        show_default="all documents",
        rare=True,
    ),
    server: bool = options.server(rare=True),
    fast_load: bool = setting(
        False, "Load a new index without refreshes and replicas; both come back at the end."
    ),
    as_json: bool = as_json(),
) -> None:
    """Index documents with their near-duplicate tokens.

    Example: esdedup index news.jsonl -i news --on-duplicate mark

    The index is created if there is none. A document with the id of an indexed one replaces it. One
    that is indexed already is not written, so the same command again completes an interrupted run.
    """
    if on_duplicate == "keep":
        acting = "requires --on-duplicate mark, skip, fail or group"
        refuse(["sketch", "threshold", "within"], acting)
        # These are also parameters of the sketches.
        refuse([*["distance"] * (plan.bits is None), *["cosine"] * (plan.vectors is None)], acting)
    if fast_load and on_duplicate != "keep":
        raise UsageError("--fast-load can't be combined with --on-duplicate: searches see nothing")
    files = plan.named(files, column or ())
    policy = DuplicatePolicy(
        on_duplicate, threshold, sketch=sketch, distance=distance, cosine=cosine
    )
    policy = policy.limited_to(within or ())
    scheme, text_field = plan.scheme_and_fields(distance, server, cosine)
    last, ids = IngestReport(), RepeatedIds()
    with (
        target.open(scheme, text_field) as opened,
        dead_letters(plan.dead_letter, target.index, files) as letters,
        output.Progress("Indexing", total_bytes(files)) as progress,
    ):
        # Before the index is created, because it keeps the name of the field.
        stored = opened.store.meta()
        planned = opened.planned_meta(stored)
        names = text_field or planned.text_fields
        chunks = plan.chunks(files, names, progress.advance, column)
        if policy.action != "keep":
            policy.check_sketch(planned)
            check_limits(scheme or planned.full_scheme, policy.limits)
        message(*admin.check_writable(opened, stored, routing_field))
        # Other clients may search an index that has no tokens.
        if fast_load and (reason := opened.store.why_not_new()):
            raise UsageError(f"--fast-load requires a new index, and {reason}")
        # Before the index has documents of this run.
        places = admin.Places(opened.store, plan.id_field == PATH)
        if added_fields := opened.create():
            message(
                f"{output.capital(opened.where)} had no fields for tokens: its mapping got"
                f" {count(added_fields, 'field', 'fields')}, which GET {target.index}/_mapping"
                f" shows. To add tokens to the documents that it had, run esdedup backfill --index"
                f" {target.index}"
            )

        def on_batch(report: IngestReport) -> None:
            nonlocal last
            last = report
            progress.show(report.read)

        # The counts are those of whole batches, which are acknowledged.
        with (
            opened.store.loading(fast_load),
            output.resumable(
                lambda: (
                    f"{last.read} records, {last.created} created, {last.updated} updated,"
                    f" {last.unchanged} unchanged, {last.not_indexed} failed"
                ),
                " without --fast-load" if fast_load else "",
            ),
        ):
            settings = admin.IngestSettings(
                workers=plan.processes(files),
                id_field=plan.id_field,
                on_duplicate=policy,
                on_batch=on_batch,
                ids=ids,
                places=places,
                routing_field=routing_field,
            )
            report = opened.ingest(chunks, letters, settings)
            opened.store.refresh()
        used = opened.scheme
    title = output.capital(opened.where)
    counts = asdict(report)
    if not policy.within:
        del counts["unscoped"]
    if not as_json:
        counts = {name: n for name, n in counts.items() if n or name not in _RARE}
    output.print_counts(counts, as_json, "Records", title, output.place_of(opened))
    has_fields = any((plan.format or format_of(file)) not in ("text", "file") for file in files)
    is_shown = has_fields and plan.id_field != PATH
    blank = report.without_words if used.sketches[0].reads_values else 0
    warn_of_records(
        ids,
        report.without_words - blank,
        places.count if is_shown else 0,
        leaves_out=policy.action in ("skip", "fail"),
    )
    if blank:
        have = count(blank, "document has", "documents have")
        message(f"{have} a blank fingerprint, as plain images have: similar to none")
    if policy.action != "keep":
        check_limits(used, policy.limits)
        message(policy.warning(used), policy.warning_of_missing(report.unscoped))
    if report.truncated:
        message(
            f"{count(report.truncated, 'document')} with more candidates than the"
            f" {policy.candidates} to compare with, or only buckets of the stop list: a duplicate"
            " may have been missed"
        )
    if report.replaced_originals:
        were_replaced = count(report.replaced_originals, "document was", "documents were")
        message(
            f"{were_replaced} replaced by a later record of the same id, after near-duplicates of"
            " the former text were left out: the index may lack the texts of these. Give each"
            " record an id of its own, or use --on-duplicate mark, and index the records again"
        )
    if report.dropped or report.moved or report.renamed:
        message(
            "The index has an ingest pipeline that drops documents, moves them to other indices or"
            " changes their ids: no other record is treated as a duplicate of these"
        )
    if report.not_indexed:
        message(
            f"{report.not_indexed} of {report.read} records were not indexed: see {letters.path}"
        )
        raise Exit(1)
