"""esdedup report: a page on the duplicates of an index.

The numbers of a report: as JSON, and as a page shows them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.analysis.distribution import Bin
from esdedup.analysis.html import render
from esdedup.analysis.report import AllPairs, Report, Wanted, report
from esdedup.cli.commands.pairs import capped, left_out
from esdedup.cli.commands.stats import bucket_document
from esdedup.cli.options import (
    AsJson,
    GroupingOptions,
    Target,
    describe,
    with_target,
)
from esdedup.cli.output import (
    check_page,
    lacking_recall,
    message,
    print_json,
    print_table,
    steps,
    visible,
    wants_json,
    write_page,
)
from esdedup.dedup.checkpoint import WorkFolder
from esdedup.dedup.groups import Grouping
from esdedup.models import MOST_SAMPLED
from esdedup.search.hot_buckets import MOST_COUNTED
from esdedup.stores.mapping import IndexMeta

_MOST_DIGITS = 4
_DECADES = 6
"""Powers of ten on the scale of pairs; what is less has no bar."""


@dataclass(frozen=True)
class Bar:
    """A line of a chart: what it is of, the number as text, and the bar's length in percent."""

    name: str
    number: str
    percent: float
    more: str = ""


def report_document(found: Report, meta: IndexMeta) -> dict[str, Any]:
    """All numbers as JSON."""
    statistics, by_distance = found.statistics, found.grouping.by_distance
    value = "distance" if by_distance else "similarity"
    exactly = int if by_distance else float
    return {
        "store": statistics.store,
        "grouping": found.grouping.to_json(),
        "indexed": statistics.documents,
        "with_tokens": statistics.sketched,
        "other_scheme": statistics.other,
        "documents": found.grouped,
        "groups": found.groups,
        "duplicates": found.duplicates,
        "share": found.share,
        "copies": found.copies,
        "equal_to_kept": found.equal,
        "chained": found.chained,
        "bytes": statistics.bytes,
        "bytes_saved_estimate": found.saved,
        "sizes": {str(size): count for size, count in found.sizes.items()},
        value: [_bin(each, int(each.count)) for each in found.bins],
        "largest": [
            {"id": each.id, "documents": each.documents, "farthest": exactly(each.farthest)}
            for each in found.largest
        ],
        "examples": [
            {"stays": each.stays.id, "goes": each.goes.id, value: exactly(each.value)}
            for each in found.examples
        ],
        "examples_left_out": found.examples_left_out,
        "hot": [bucket_document(bucket) for bucket in found.hot.buckets],
        "hot_sampled": found.hot.sampled,
        "hot_from": found.hot.sure,
        "pairs": None if found.pairs is None else _pairs(found.pairs),
        "stopped_tokens": len(meta.stop),
        "expected_recall": found.recall,
        "capped_buckets": found.capped.buckets,
        "capped_largest": found.capped.largest,
    }


def _pairs(pairs: AllPairs) -> dict[str, Any]:
    return {
        "sampled": pairs.sampled,
        "truncated": pairs.truncated,
        "estimate": [_bin(each, each.count) for each in pairs.bins],
    }


def _bin(each: Bin, count: float) -> dict[str, float]:
    return {"from": each.low, "to": each.high, "number": count}


def options(grouping: Grouping) -> str:
    """A grouping as the options that ask for it."""
    if grouping.exact:
        return f"--exact --keep {grouping.keep}"
    limits = grouping.limits
    limit = f"--threshold {limits.threshold:g} --recall {limits.recall:g}"
    if grouping.by_distance:
        limit = "" if limits.distance is None else f"--distance {limits.distance}"
    return " ".join(
        each
        for each in (
            f"--method {grouping.method} --metric {limits.metric}",
            limit,
            f"--keep {grouping.keep} --max-per-bucket {limits.max_per_bucket}",
        )
        if each
    )


def page_values(found: Report, visible: Callable[[str], str]) -> dict[str, Any]:
    """What the page names besides the report itself.

    visible: makes a text's control characters seen.
    """
    by_distance = found.grouping.by_distance
    return {
        "visible": visible,
        "megabytes": megabytes,
        "value": _distance if by_distance else _similarity,
        "measure": "Hamming distance" if by_distance else "Jaccard similarity",
        "size_bars": _size_bars(found),
        "value_bars": _distance_bars(found) if by_distance else _similarity_bars(found),
        "pair_bars": () if found.pairs is None else _pair_bars(found.pairs.bins),
    }


def megabytes(count: int) -> str:
    """Bytes in a unit that reads well."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,} bytes"


def _similarity(value: float) -> str:
    # What is not equal is not said to be.
    return ">0.999" if 0.9995 <= value < 1.0 else f"{value:.3f}"


def _distance(value: float) -> str:
    return f"{value:.0f} bits" if value != 1 else "1 bit"


def _size_bars(found: Report) -> list[Bar]:
    most = max((each.groups for each in found.ranges), default=1)
    return [
        Bar(
            f"{each.least:,}" if each.least == each.most else f"{each.least:,} to {each.most:,}",
            f"{each.groups:,}",
            _percent(each.groups, most),
            f"{each.documents:,}",
        )
        for each in found.ranges
    ]


def _similarity_bars(found: Report) -> list[Bar]:
    less, *bins = found.bins
    digits = _digits([each.low for each in bins])
    names = [f"{each.low:.{digits}f} to {each.high:.{digits}f}" for each in bins]
    if found.grouping.limits.threshold == 1.0:
        names = ["1"]
    return _bars([(f"less than {less.high:g}", less), *zip(names, bins, strict=True)])


def _distance_bars(found: Report) -> list[Bar]:
    more, *bins = found.bins
    names = [
        _distance(each.low) if each.low == each.high else f"{each.low:.0f} to {each.high:.0f} bits"
        for each in bins
    ]
    return _bars([(f"more than {bins[0].high:.0f} bits", more), *zip(names, bins, strict=True)])


def _bars(named: Sequence[tuple[str, Bin]]) -> list[Bar]:
    """The bars, the most like first; the one beyond what was asked for only if it is of any."""
    most = max(1.0, *(each.count for _, each in named))
    return [
        Bar(name, f"{each.count:,.0f}", _percent(each.count, most))
        for at, (name, each) in reversed(list(enumerate(named)))
        if at or each.count
    ]


def _pair_bars(bins: Sequence[Bin]) -> list[Bar]:
    top = math.ceil(math.log10(max(1.0, *(each.count for each in bins)))) or 1
    # So that one pair has a bar.
    decades = min(_DECADES, top + 1)
    return [
        Bar(
            f"{each.low:.2f} to {each.high:.2f}",
            f"{each.count:,.0f}" if each.count >= 1 or not each.count else f"{each.count:.1g}",
            _percent(math.log10(each.count) - top + decades if each.count > 0 else 0.0, decades),
        )
        for each in reversed(bins)
    ]


def _percent(part: float, whole: float) -> float:
    return round(max(0.0, 100 * part / whole), 2)


def _digits(edges: Sequence[float]) -> int:
    """So many digits that the edges are told apart, and as they are if few will do."""
    for digits in range(2, _MOST_DIGITS):
        if all(abs(round(edge, digits) - edge) < 1e-9 for edge in edges):
            return digits
    return _MOST_DIGITS


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
    group_options: GroupingOptions,
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
    grouping, limits = found.grouping, found.grouping.limits
    notes = [left_out(found.statistics)]
    if not grouping.exact and grouping.limits.metric == "jaccard":
        notes.append(lacking_recall(found.recall, limits.least_similarity, limits.recall))
    notes.append(capped(found.capped, limits.max_per_bucket))
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
