"""esdedup report: write a page on the duplicates of an index."""

from pathlib import Path

from esdedup import Grouping
from esdedup.cli.command import setting
from esdedup.cli.options import Target, as_json, check_limits
from esdedup.cli.output import Progress, check_folder, message, print_facts, print_json, write_page
from esdedup.cli.setting_names import with_options
from esdedup.results import Report


def report_command(
    target: Target,
    grouping: Grouping,
    output: Path | None = setting(
        None, "Page to write.", "-o", metavar="FILE", show_default="INDEX.report.html"
    ),
    as_json: bool = as_json(),
) -> None:
    """Write a page on the duplicates of an index.

    Example: esdedup report --threshold 0.9 -o duplicates.html

    The page shows how many duplicates there are, and how similar they are. It is one file that
    loads nothing. Nothing in the index changes. With the same options, dedup finds the same groups.
    """
    file = output or Report.default_path(target.index)
    check_folder("--output", file)
    Report.check_page("--output", file)
    with target.open() as index, Progress() as progress:
        check_limits(index.scheme, grouping.limits)
        report = index.report(
            work=index.location.work_folder("report"), on_step=progress.step, grouping=grouping
        )
    write_page(file, report.html(target.index))
    if as_json:
        document = {"index": target.index, **report.to_json()}
        document["warnings"] = [with_options(warning) for warning in report.warnings]
        print_json(document)
    else:
        rows = [(name, f"{value} ({remark})") for name, value, remark in report.facts()]
        print_facts(rows, f"Duplicates in {target.index}")
    message(*report.warnings, f"{file}: the report holds texts of documents")
