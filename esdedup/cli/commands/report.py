"""esdedup report: a page on the duplicates of an index."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from esdedup.analysis.report import Wanted, report
from esdedup.cli.options import AsJson, GroupingOptions, Target, with_target
from esdedup.cli.output import (
    check_page,
    message,
    print_json,
    print_table,
    steps,
    wants_json,
    write_page,
)
from esdedup.models import MOST_SAMPLED
from esdedup.pairing.scan import WorkFolder
from esdedup.search.hot_buckets import MOST_COUNTED
from esdedup.stores.private_files import file_name

_MOST_EXAMPLES = 50
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        show_default="INDEX.report.html",
        help="Page to write, with texts of documents.",
    ),
]
Examples = Annotated[int, typer.Option(min=0, max=_MOST_EXAMPLES, help="Show this many examples.")]
Hot = Annotated[
    int, typer.Option(min=0, max=MOST_COUNTED, help="Show at most this many hot buckets.")
]
Sample = Annotated[
    int,
    typer.Option(min=0, max=MOST_SAMPLED, help="Documents to sample for the similarity of pairs."),
]
Work = Annotated[
    Path | None,
    typer.Option(
        show_default="FILE.INDEX.report, or INDEX@HOST.report",
        help="Folder to go on from after a stop; removed at the end.",
    ),
]


@with_target
def report_command(
    target: Target,
    *,
    output: Output = None,
    group_options: GroupingOptions,
    examples: Examples = Wanted.examples,
    hot: Hot = Wanted.hot,
    sample: Sample = Wanted.sample,
    work: Work = None,
    as_json: AsJson = None,
) -> None:
    """Write a page on the duplicates of an index.

    Example: esdedup report --threshold 0.9 -o duplicates.html

    The page tells how many duplicates there are, how alike they are, and how much dedup would
    save. It is one file that loads nothing. Nothing in the index changes. With the same options,
    dedup finds the same groups.
    """
    grouping, wanted = group_options.grouping(), Wanted(examples, hot, sample)
    file = output or Path(f"{file_name(target.index)}.report.html")
    check_page("--output", file)
    with (
        target.open() as index,
        WorkFolder.at(work or index.place.work_folder("report")) as folder,
    ):
        with steps() as on_step:
            found = report(index.store, index.meta, grouping, wanted, work=folder, on_step=on_step)
        write_page("--output", file, found.html(target.index))
        folder.remove()
    for warning in found.warnings:
        message(warning)
    if wants_json(as_json):
        print_json({"index": target.index, **found.to_json()})
    else:
        rows = [(name, f"{value} ({remark})") for name, value, remark in found.facts()]
        print_table([("", "text"), ("", "text")], rows, title=f"Duplicates in {target.index}")
    plural = "" if found.texts_shown == 1 else "s"
    message(f"{file}: the report holds texts of {found.texts_shown:,} document{plural}")
