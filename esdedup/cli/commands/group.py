"""esdedup group: write the groups of similar documents into the index."""

from pathlib import Path

from typer import Exit

from esdedup import Grouping
from esdedup.cli import options, output
from esdedup.cli.command import setting
from esdedup.cli.files import dead_letters
from esdedup.cli.options import Target
from esdedup.cli.output import count, message
from esdedup.cli.result_files import ResultFile

_LARGEST = 10


def group_command(
    target: Target,
    grouping: Grouping,
    results: ResultFile,
    collapse_ready: bool = setting(False, "Give single documents a group too: their own id."),
    work: Path | None = options.work(),
    dry_run: bool = options.dry_run(),
    dead_letter: Path | None = options.dead_letter(),
    as_json: bool = options.as_json(),
) -> None:
    """Group similar documents, and write the groups.

    Example: esdedup group -i news --threshold 0.9

    Documents of a group get the id of its representative, and duplicates the similarity to it. A
    document that is similar to no other gets no group, and loses the one that it had. Run the same
    command again to resume an interrupted run.
    """
    results.check()
    with (
        target.open() as index,
        dead_letters(dead_letter, target.index, outputs=results.named) as letters,
        output.Progress() as progress,
    ):
        output.warn_before(index, grouping.limits)
        where, place = index.where, output.place_of(index)
        folder = work or index.location.work_folder("group")
        if dry_run:
            groups = index.groups(work=folder, on_step=progress.step, grouping=grouping)
            marks = None
            missed = index.missed(groups)
        else:
            report = index.group(
                collapse_ready=collapse_ready,
                work=folder,
                on_step=progress.step,
                grouping=grouping,
            )
            groups, marks, missed = report.groups, report.marks, report.missed
            for failure in marks.failures:
                letters.reject(failure.id, failure.reason)
    message(*groups.warnings(grouping.limits))
    message(output.repeated_ids(groups.repeated, "index"))
    message(groups.unordered.warning(groups.grouping.keep))
    if results.output is not None:
        place["output"] = str(results.output.resolve())
    figures = groups.to_json()
    if as_json:
        counts = () if marks is None else ("written", "unchanged", "stale", "failed")
        of_marks = {name: getattr(marks, name) for name in counts}
        output.print_json({**figures, **of_marks, **place})
    else:
        output.print_table(
            [("documents per group", "number"), ("groups", "number")],
            [(f"{int(size):,}", f"{number:,}") for size, number in figures["sizes"].items()],
            f"{output.capital(where)}: {count(groups.duplicates, 'duplicate')} in"
            f" {count(len(groups), 'group')}, of {count(len(groups.ids), 'document')}",
        )
        output.print_groups(groups, _LARGEST, "--output writes all")
        if bound := output.bound_of(groups):
            message(f"Grouped by: {bound}")
    if marks is not None:
        message(f"{count(marks.written, 'document')} written, {marks.unchanged:,} unchanged")
        if marks.stale:
            message(
                f"{count(marks.stale, 'document')} skipped, as they are gone or have another text"
                " than when they were read: run this again"
            )
    if missed:
        message(
            f"{count(missed, 'document')} with tokens not among those that were read: they are new"
            " since (run this again), or several indices behind the name have their ids"
        )
    # After the report, because the index may have been changed already.
    if results.output is not None:
        results.write(groups)
    if marks is not None and (marks.failed or (marks.stale and not marks.written)):
        raise Exit(1)
