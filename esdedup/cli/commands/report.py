"""esdedup report: a page on the duplicates of an index."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.analysis.html import render
from esdedup.analysis.report import Report, Wanted, report
from esdedup.cli.answers import lacking_recall
from esdedup.cli.commands.pairs import capped, left_out
from esdedup.cli.commands.report_numbers import megabytes, options, page_values, report_document
from esdedup.cli.grouping import LeaderOptions
from esdedup.cli.options import (
    AsJson,
    Target,
    with_target,
)
from esdedup.cli.output import (
    check_page,
    message,
    print_json,
    print_table,
    visible,
    wants_json,
    write_page,
)
from esdedup.cli.progress import steps
from esdedup.cli.scheme_file import describe
from esdedup.dedup.checkpoint import WorkFolder
from esdedup.models import MOST_SAMPLED
from esdedup.search.hot_buckets import MOST_COUNTED
from esdedup.stores.mapping import IndexMeta

_MOST_EXAMPLES = 50

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        show_default="INDEX.report.html",
        help="The page: HTML in one file, which loads nothing. It holds texts of documents.",
    ),
]
Examples = Annotated[
    int,
    typer.Option("--examples", min=0, max=_MOST_EXAMPLES, help="Pairs to show the differences of."),
]
Hot = Annotated[
    int, typer.Option("--hot", min=0, max=MOST_COUNTED, help="Hot buckets to show at most.")
]
Sample = Annotated[
    int,
    typer.Option(
        "--sample",
        min=0,
        max=MOST_SAMPLED,
        help="Documents to learn from how alike any two are; 0 for none.",
    ),
]
Work = Annotated[
    Path | None,
    typer.Option(
        "--work",
        show_default="INDEX.report",
        help="Folder to work in. A run that was stopped goes on from it; at the end it is removed.",
    ),
]


@with_target
def report_command(
    target: Target,
    *,
    output: Output = None,
    group_options: LeaderOptions,
    examples: Examples = Wanted.examples,
    hot: Hot = Wanted.hot,
    sample: Sample = Wanted.sample,
    work: Work = None,
    as_json: AsJson = None,
) -> None:
    """Write a page on the duplicates of an index: how many, how alike, and what dedup would save.

    Nothing in the index changes. With the same options, dedup finds the same groups.
    """
    grouping = group_options.grouping()
    page = output or Path(f"{target.index}.report.html")
    check_page("--output", page)
    folder = work or Path(f"{target.index}.report")
    wanted = Wanted(examples, hot, sample)
    made = datetime.datetime.now(datetime.UTC)
    with WorkFolder.at(folder) as work_folder:
        with target.open() as index, steps() as on_step:
            meta = index.meta
            found = report(index.store, meta, grouping, wanted, work=work_folder, on_step=on_step)
        head = {
            "index": target.index,
            "made": made.isoformat(timespec="seconds"),
            "text_field": meta.text_field,
            "scheme_id": meta.scheme.id,
        }
        notes = _notes(found, meta)
        values = page_values(found, visible)
        scheme = describe(meta.scheme, max(1, found.statistics.documents))
        chosen = options(grouping)
        write_page(
            "--output",
            page,
            render("report", report=found, head=head, scheme=scheme, options=chosen, notes=notes,
                   stopped=len(meta.stop), made=f"{made:%Y-%m-%d %H:%M} UTC", **values),
        )  # fmt: skip
        work_folder.remove()
    for note in notes:
        message(note)
    if wants_json(as_json):
        print_json({**head, **report_document(found, meta)})
    else:
        _show(found, target.index)
    message(f"{page}: the report holds texts of {found.shown:,} documents")


def _notes(found: Report, meta: IndexMeta) -> list[str]:
    """What a reader must know before believing the rest."""
    grouping = found.grouping
    notes = [left_out(found.statistics)]
    if not grouping.exact and grouping.metric == "jaccard":
        notes.append(lacking_recall(found.recall, grouping.threshold, grouping.recall))
    notes.append(capped(found.capped, grouping.max_bucket))
    if meta.stop and not grouping.exact:
        notes.append(
            f"{len(meta.stop):,} tokens are in the index's stop list: documents that share only"
            " these were not compared"
        )
    if found.chained:
        notes.append(
            f"{found.chained:,} of the duplicates are joined by a chain of similar documents, and"
            " less like the one that stays than you asked for: --method leader leaves them"
        )
    if found.examples_left_out:
        notes.append(
            f"{found.examples_left_out:,} examples are left out: a text is gone, has changed since"
            " its tokens were made (esdedup check), or is longer than a million characters"
        )
    if found.pairs is not None and found.pairs.truncated:
        notes.append(
            f"{found.pairs.truncated:,} documents of the sample had more candidates than were"
            " looked at: pairs of little similarity are missing in how alike any two are"
        )
    return [note for note in notes if note is not None]


def _show(found: Report, index: str) -> None:
    statistics = found.statistics
    rows: list[Any] = [
        ("documents", f"{statistics.documents:,}"),
        ("with tokens", f"{found.grouped:,}"),
        ("groups", f"{found.groups:,}"),
        ("duplicates", f"{found.duplicates:,} ({found.share:.1%} of all documents)"),
        ("copies of equal text", f"{found.copies:,}"),
        ("dedup would save", f"about {megabytes(found.saved)} of {megabytes(statistics.bytes)}"),
    ]
    print_table([("", "text"), ("", "text")], rows, title=f"Duplicates in {index}")
