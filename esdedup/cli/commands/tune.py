"""esdedup tune: where to cut, and with how many bands and rows, by what the documents are like."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.analysis.sampling import Sampled, sample_neighbours
from esdedup.analysis.tuning import (
    Choice,
    LayoutChoice,
    Neighbours,
    choices,
    layout_choices,
    unrelated,
)
from esdedup.cli.options import (
    CHANCE_SIMILARITY,
    MOST_DOCUMENTS,
    AsJson,
    Target,
    scheme_in,
    with_target,
    write_scheme,
)
from esdedup.cli.output import message, print_json, print_table, print_text, progress, wants_json
from esdedup.cli.plot import chart, check_figure, draw
from esdedup.exceptions import UsageError
from esdedup.models import MOST_SAMPLED
from esdedup.sketch.minhash import MOST_PERMUTATIONS, MinHash
from esdedup.sketch.scheme import Scheme

_DOCUMENTS = 1e6
_BINS = 50


@with_target
def tune(
    target: Target,
    threshold: Annotated[
        float, typer.Option("--threshold", "-t", help="Jaccard similarity to be found ...")
    ] = 0.8,
    recall: Annotated[float, typer.Option(help="... with this probability.")] = 0.95,
    documents: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=MOST_DOCUMENTS,
            show_default="the index's, with --sample; else a million",
            help="Say the cost at so many documents.",
        ),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=MOST_SAMPLED,
            show_default="none: no index is asked",
            help="Learn how alike the index's documents are from so many of them.",
        ),
    ] = None,
    seed: Annotated[
        # What servers take.
        int,
        typer.Option(min=-(2**63), max=2**63 - 1, help="Which random sample to take."),
    ] = 1,
    candidates: Annotated[
        int,
        typer.Option(min=1, max=10_000, help="Documents to compare each sampled one with."),
    ] = 1_000,
    chance: Annotated[
        float,
        typer.Option(min=0, max=1, help="Without a sample: similarity of unrelated texts."),
    ] = CHANCE_SIMILARITY,
    scheme: Annotated[
        Path | None,
        typer.Option(
            show_default="the index's, with --sample; else the default one",
            help="Scheme file to change the bands and rows of.",
        ),
    ] = None,
    permutations: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_PERMUTATIONS, show_default="the scheme's", help="Length of a signature."
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            show_default="the most that the permutations allow",
            help="Choose this row of the table.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write the chosen scheme to.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw S-curve and similarities: FILE.png, .svg or .pdf."),
    ] = None,
    as_json: AsJson = None,
) -> None:
    """Choose bands and rows, and see what will be found, missed and verified in vain.

    With --sample, by how alike the documents of an index are: --url, --db and --index name it.
    """
    if plot is not None:
        check_figure(plot)
    if sample is not None and scheme is not None:
        raise UsageError("--sample takes the index's own scheme: leave --scheme out")
    if sample is not None:
        base, sampled = _sampled(target, sample, seed, candidates)
        neighbours = sampled.neighbours.of(documents or sampled.neighbours.documents)
    else:
        base, sampled = scheme_in(scheme) or Scheme(), None
        neighbours = unrelated(documents or _DOCUMENTS, chance)
    bands = base.minhash or MinHash()
    found = choices(
        threshold,
        recall,
        neighbours,
        # One band of one row is only a place for the others to be put into.
        replace(bands, permutations=permutations or bands.permutations, bands=1, rows=1),
        base.simhash,
        rows,
    )
    (chosen,) = [choice for choice in found if choice.chosen]
    made = replace(base, minhash=chosen.minhash)
    if output is not None:
        write_scheme(output, made)
    if plot is not None:
        draw(plot, found, threshold, neighbours, _title(neighbours, sampled, chosen))
    layouts = layout_choices(neighbours.documents)
    if wants_json(as_json):
        print_json(_document(threshold, recall, neighbours, sampled, found, layouts, made))
    else:
        _show(threshold, neighbours, sampled, found, layouts)


def _sampled(target: Target, count: int, seed: int, candidates: int) -> tuple[Scheme, Sampled]:
    with target.open() as index, progress("Sampling", count) as (advance, documents):
        done = 0

        def on_query(asked: int) -> None:
            nonlocal done
            done += asked
            advance(asked)
            documents(done)

        sampled = sample_neighbours(index.store, index.meta, count, seed, candidates, on_query)
        scheme = index.scheme
    if sampled.without_text:
        message(f"{sampled.without_text:,} sampled documents have no text and are left out")
    if sampled.truncated:
        message(
            f"{sampled.truncated:,} sampled documents have more than {candidates:,} candidates:"
            " what is little alike is more than is shown here; use more --candidates"
        )
    return scheme, sampled


def _title(neighbours: Neighbours, sampled: Sampled | None, chosen: Choice) -> str:
    of = f", by a sample of {sampled.sampled:,}" if sampled else ""
    return (
        f"{chosen.minhash.bands} bands of {chosen.minhash.rows} rows at"
        f" {neighbours.documents:,.0f} documents{of}"
    )


def _document(
    threshold: float,
    recall: float,
    neighbours: Neighbours,
    sampled: Sampled | None,
    found: list[Choice],
    layouts: list[LayoutChoice],
    made: Scheme,
) -> dict[str, Any]:
    document: dict[str, Any] = {
        "threshold": threshold,
        "recall": recall,
        "documents": neighbours.documents,
        "choices": [_choice(choice) for choice in found],
        "layouts": [{**asdict(each), "layout": str(each.layout)} for each in layouts],
        "scheme": made.to_json(),
    }
    if sampled is not None:
        document["sample"] = {
            "documents": sampled.sampled,
            "without_text": sampled.without_text,
            "truncated": sampled.truncated,
            "neighbours_at_threshold": sampled.neighbours.seen_from(threshold),
        }
        document["histogram"] = [
            {"from": at / _BINS, "to": (at + 1) / _BINS, "neighbours": expected}
            for at, expected in enumerate(neighbours.histogram(_BINS).tolist())
        ]
    return document


def _choice(choice: Choice) -> dict[str, Any]:
    return {
        "chosen": choice.chosen,
        "bands": choice.minhash.bands,
        "rows": choice.minhash.rows,
        "tokens": choice.tokens,
        "bytes": choice.bytes,
        "recall_at_threshold": choice.at_threshold,
        "recall": choice.expected.recall,
        **asdict(choice.expected),
    }


def _show(
    threshold: float,
    neighbours: Neighbours,
    sampled: Sampled | None,
    found: list[Choice],
    layouts: list[LayoutChoice],
) -> None:
    (chosen,) = [choice for choice in found if choice.chosen]
    for line in chart(chosen.minhash, threshold, neighbours if sampled else None):
        print_text(line)
    names = ["banding", "tokens", "bytes", f"at {threshold:g}", "candidates"]
    rows = [_cells(choice, sampled is not None) for choice in found]
    if sampled is not None:
        names += ["recall", "missed", "in vain"]
    columns = [(name, "number") for name in names]
    print_table(columns, rows, title=_title(neighbours, sampled, chosen))  # type: ignore[arg-type]
    print_table(
        [("segments", "text"), ("tokens", "number"), ("distance", "number"),
         ("chance candidates", "number")],
        [
            (str(each.layout), str(each.tokens), str(each.distance), f"{each.candidates:,.1f}")
            for each in layouts
        ],
        title="SimHash, by equality of segments",
    )  # fmt: skip
    if sampled is not None:
        message(
            f"{sampled.neighbours.seen_from(threshold):,} neighbours at or over {threshold:g} of"
            f" {sampled.sampled:,} sampled documents were seen: from few, little is known"
        )


def _cells(choice: Choice, sampled: bool) -> list[str]:
    expected = choice.expected
    cells = [
        f"{'* ' * choice.chosen}{choice.minhash.bands} x {choice.minhash.rows}",
        str(choice.tokens),
        f"{choice.bytes:.0f}",
        f"{100 * choice.at_threshold:.1f}%",
        _number(expected.candidates),
    ]
    if sampled:
        recall = expected.recall
        cells += [
            "" if recall is None else f"{100 * recall:.2f}%",
            _number(expected.missed),
            _number(expected.wasted),
        ]
    return cells


def _number(value: float) -> str:
    """Three digits, whatever the size."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.0e}"
