"""Draws the S-curve of bands above the neighbours of a document: as a table, and as a figure.

The table has bars of block characters, or of plain ones if the terminal has no others. The figure
is made by matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from esdedup.analysis.distribution import BINS, bars, similarity_histogram
from esdedup.analysis.tuning import Choice, Neighbours, meeting
from esdedup.cli.output import Kind, only_plain, print_table
from esdedup.exceptions import MissingExtra, UsageError
from esdedup.sketch.minhash import MinHash

ENDINGS = (".png", ".svg", ".pdf")
_BINS = 50
_PERCENT_A_BLOCK = 6.25


def print_chart(minhash: MinHash, threshold: float, neighbours: Neighbours | None) -> None:
    """Prints the S-curve, and the neighbours if they are known, by similarity.

    Bars of neighbours are on a logarithmic scale.
    """
    curve = similarity_histogram(meeting((np.arange(BINS) + 0.5) / BINS, minhash))
    columns: list[tuple[str, Kind]] = [("similarity", "key"), ("met", "number"), ("", "key")]
    rows = [
        [
            f"{each.name} {'<' * (each.low <= threshold < each.high)}",
            f"{each.count:.1%}",
            _bar(length),
        ]
        for each, length in bars(curve)
    ]
    if neighbours is not None:
        columns += [("neighbours", "number"), ("", "key")]
        seen = bars(similarity_histogram(neighbours.histogram(BINS)), log_scale=True)
        for row, (each, length) in zip(rows, seen, strict=True):
            row += [number(each.count), _bar(length)]
    title = (
        f"S-curve of {minhash.bands} bands of {minhash.rows} rows; < is the threshold {threshold:g}"
    )
    print_table(columns, rows, title=title)


def number(value: float) -> str:
    """A number with three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.0e}"


def _bar(percent: float) -> str:
    return ("#" if only_plain() else "█") * round(percent / _PERCENT_A_BLOCK)


def check_figure(path: Path) -> None:
    """Raises UsageError for another ending, MissingExtra if matplotlib is not installed."""
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"--plot {path}: use a name that ends in {', '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise UsageError(f"--plot {path}: there is no folder {path.parent}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtra("--plot needs matplotlib: pip install 'esdedup[plot]'") from error


def draw(
    path: Path, choices: Sequence[Choice], threshold: float, neighbours: Neighbours, title: str
) -> None:
    """Saves the figure, with the S-curves of all choices, in the format of the path's ending."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # A fixed salt and no dates, so that the same choices give the same file.
    with mpl.rc_context({"svg.hashsalt": "esdedup"}):
        figure = Figure(figsize=(8, 7), layout="constrained")
        curves, below = figure.subplots(2, 1, sharex=True)
        _draw_curves(curves, choices)
        _draw_neighbours(below, choices, neighbours)
        for axes, corner in ((curves, "upper left"), (below, "upper right")):
            axes.axvline(
                threshold, color="tab:red", linestyle="--", linewidth=1.2, label="threshold"
            )
            axes.grid(visible=True, alpha=0.25)
            axes.legend(loc=corner, fontsize=9)
        figure.suptitle(title, fontsize=11)
        date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        metadata: dict[str, Any] = date.get(path.suffix.lower(), {"Software": None})
        try:
            figure.savefig(path, dpi=130, metadata=metadata)
        except OSError as error:
            raise UsageError(f"--plot {path}: {error.strerror}") from error


def _draw_curves(axes: Any, choices: Sequence[Choice]) -> None:
    similarity = np.linspace(0, 1, 501)
    for choice in choices:
        bands, rows = choice.minhash.bands, choice.minhash.rows
        axes.plot(
            similarity,
            meeting(similarity, choice.minhash),
            color="tab:blue" if choice.chosen else "0.72",
            linewidth=2.4 if choice.chosen else 1.0,
            zorder=3 if choice.chosen else 2,
            label=f"{bands} bands of {rows} rows" if choice.chosen else None,
        )
    axes.plot([], [], color="0.72", linewidth=1.0, label="other numbers of rows")
    axes.set_ylabel("chance to be a candidate")
    axes.set_ylim(0, 1.02)


def _draw_neighbours(axes: Any, choices: Sequence[Choice], neighbours: Neighbours) -> None:
    (chosen,) = [choice for choice in choices if choice.chosen]
    met = neighbours.weighted(meeting(neighbours.similarity, chosen.minhash))
    places, width = (np.arange(_BINS) + 0.5) / _BINS, 1.0 / _BINS
    every = neighbours.histogram(_BINS)
    axes.bar(places, every, width, color="0.85", edgecolor="0.7", linewidth=0.5, label="all")
    axes.bar(places, met.histogram(_BINS), width * 0.6, color="tab:blue", label="candidates")
    if (filled := every[every > 0]).size:
        axes.set_yscale("log")
        axes.set_ylim(max(1e-6, float(filled.min()) / 3), float(filled.max()) * 3)
    else:
        axes.set_ylim(0.1, 1.0)
    axes.set_xlim(0, 1)
    axes.set_xlabel("Jaccard similarity")
    axes.set_ylabel("neighbours of a document")
