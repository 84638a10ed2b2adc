"""esdedup tune: choose bands and rows by how alike the documents are."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from esdedup.analysis.describe import CHANCE_SIMILARITY
from esdedup.analysis.distribution import BINS, bars, similarity_histogram
from esdedup.analysis.sampling import Sampled, sample_neighbours
from esdedup.analysis.to_json import to_json
from esdedup.analysis.tuning import Choice, Neighbours, choices, meeting, unrelated
from esdedup.arguments import setting
from esdedup.cli.commands.scheme import MOST_DOCUMENTS, output, write_scheme
from esdedup.cli.options import Target, as_json, scheme_in
from esdedup.cli.output import Kind, message, only_plain, print_json, print_table, steps, wants_json
from esdedup.exceptions import UsageError
from esdedup.models import MOST_SAMPLED
from esdedup.sketch.banding import SWAPS
from esdedup.sketch.kinds.bands import MOST_PERMUTATIONS, Banded
from esdedup.sketch.scheme import Scheme

_DOCUMENTS = 1e6
_BINS = 50
_PERCENT_A_BLOCK = 6.25


def tune_command(
    target: Target,
    threshold: float = setting(0.8, "Jaccard similarity to find ...", "-t"),
    recall: float = setting(0.95, "... with this probability."),
    sample: int | None = setting(
        None,
        "Learn from this many documents of the index.",
        min=2,
        max=MOST_SAMPLED,
        show_default="none: no index is read",
    ),
    output: Path | None = output,
    documents: float | None = setting(
        None,
        "Show the cost at this many documents.",
        min=1,
        max=MOST_DOCUMENTS,
        show_default="the index's, with --sample; else a million",
    ),
    rows: int | None = setting(
        None, "Choose this number of rows.", show_default="the most that the permutations allow"
    ),
    permutations: int | None = setting(
        None,
        "Length of a signature.",
        min=1,
        max=MOST_PERMUTATIONS,
        rare=True,
        show_default="the scheme's",
    ),
    scheme: Path | None = setting(
        None,
        "Scheme file to change the bands and rows of.",
        show_default="the index's, with --sample; else the default one",
    ),
    chance: float = setting(
        CHANCE_SIMILARITY, "Similarity of unrelated texts, for the cost.", min=0, max=1, rare=True
    ),
    candidates: int = setting(
        1_000, "Maximum documents to verify for a sampled text.", min=1, max=10_000, rare=True
    ),
    # Servers accept seeds of 64 bits.
    seed: int = setting(1, "Choose another random sample.", min=-(2**63), max=2**63 - 1, rare=True),
    as_json: bool | None = as_json(),
) -> None:
    """Choose bands and rows, and show their recall and cost.

    Example: esdedup tune --sample 2000 --threshold 0.8 -o scheme.json

    With --sample, the figures are of the documents of an index, which --url, --db and --index name.
    """
    if sample is not None and scheme is not None:
        raise UsageError("--sample uses the index's own scheme: leave --scheme out")
    if sample is not None:
        base, sampled = _sampled(target, sample, seed, candidates)
        neighbours = sampled.neighbours.of(documents or sampled.neighbours.documents)
    else:
        base, sampled = scheme_in(scheme) or Scheme(), None
        neighbours = unrelated(documents or _DOCUMENTS, chance)
    # The bands and rows here are replaced by those of each choice.
    wide = base.banded.wide(permutations or base.banded.permutations)
    found = choices(threshold, recall, neighbours, base.replaced(wide), rows)
    (chosen,) = [choice for choice in found if choice.chosen]
    made = base.replaced(chosen.sketch)
    write_scheme(output, made)
    if wants_json(as_json):
        wanted = {"threshold": threshold, "recall": recall, "documents": neighbours.documents}
        answer = {**wanted, "choices": found, "scheme": made}
        if sampled is not None:
            seen = sampled.neighbours.seen_from(threshold)
            answer["sample"] = {**to_json(sampled), "neighbours_at_threshold": seen}
            answer["histogram"] = similarity_histogram(neighbours.histogram(_BINS))
        print_json(to_json(answer))
        return
    _print_chart(chosen.sketch, threshold, neighbours if sampled else None)
    names = ["banding", "terms", "bytes", f"at {threshold:g}", "candidates"]
    if sampled is not None:
        names += ["recall", "missed", "wasted"]
    print_table(
        [(name, "number") for name in names],
        [_cells(choice)[: len(names)] for choice in found],
        title=f"{chosen.sketch.bands} bands of {chosen.sketch.rows} rows at"
        f" {neighbours.documents:,.0f} documents"
        + (f", by a sample of {sampled.sampled:,}" if sampled else ""),
    )
    if sampled is not None:
        message(
            f"{sampled.neighbours.seen_from(threshold):,} neighbours at or over {threshold:g} of"
            f" {sampled.sampled:,} sampled documents were seen: few make a bad estimate"
        )


def _sampled(target: Target, count: int, seed: int, candidates: int) -> tuple[Scheme, Sampled]:
    with target.open() as index, steps() as on_step:
        scheme, on_query = index.scheme, lambda done: on_step("Sampling", done, count)
        sampled = sample_neighbours(index.store, index.meta, count, seed, candidates, on_query)
    if sampled.without_text:
        message(f"{sampled.without_text:,} sampled documents have no text and are left out")
    if sampled.truncated:
        message(
            f"{sampled.truncated:,} sampled documents have more than {candidates:,} candidates:"
            " there are more neighbours of little similarity than shown; use more --candidates"
        )
    return scheme, sampled


def _print_chart(banded: Banded, threshold: float, neighbours: Neighbours | None) -> None:
    """Print the S-curve, and the neighbours on a logarithmic scale if known, by similarity."""
    curve = similarity_histogram(meeting((np.arange(BINS) + 0.5) / BINS, banded, SWAPS))
    columns: list[tuple[str, Kind]] = [("similarity", "key"), ("met", "number"), ("", "key")]
    rows = []
    for each, length in bars(curve):
        mark = "<" if each.low <= threshold < each.high else ""
        rows.append([f"{each.name} {mark}", f"{each.count:.1%}", _bar(length)])
    if neighbours is not None:
        columns += [("neighbours", "number"), ("", "key")]
        seen = bars(similarity_histogram(neighbours.histogram(BINS)), log_scale=True)
        for row, (each, length) in zip(rows, seen, strict=True):
            row += [_number(each.count), _bar(length)]
    banding = f"{banded.bands} bands of {banded.rows} rows"
    print_table(columns, rows, f"S-curve of {banding}; < is the threshold {threshold:g}")


def _bar(percent: float) -> str:
    return ("#" if only_plain() else "█") * round(percent / _PERCENT_A_BLOCK)


def _number(value: float) -> str:
    """A number with three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.0e}"


def _cells(choice: Choice) -> list[str]:
    expected = choice.expected
    return [
        f"{'* ' * choice.chosen}{choice.sketch.bands} x {choice.sketch.rows}",
        f"{choice.terms:,}",
        f"{choice.bytes:.0f}",
        f"{100 * choice.recall_at_threshold:.1f}%",
        _number(expected.candidates),
        "" if expected.recall is None else f"{100 * expected.recall:.2f}%",
        _number(expected.missed),
        _number(expected.wasted),
    ]
