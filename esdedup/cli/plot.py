"""Draws what `esdedup tune` shows: charts for a terminal, and a figure by matplotlib.

Both have the S-curve above the neighbours of a document, on one axis of similarity. The terminal's
charts are of block characters, or of plain ones if it has no others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from esdedup.analysis.distribution import logarithmic
from esdedup.analysis.tuning import Choice, Neighbours, meeting
from esdedup.cli.output import only_plain
from esdedup.exceptions import MissingExtra, UsageError
from esdedup.sketch.minhash import MinHash

ENDINGS = (".png", ".svg", ".pdf")
_BINS = 50
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_PLAIN = "  .-=+*##"
_WIDTH, _LINES, _MARGIN = 70, 8, 8
"""Characters of a chart, its lines, and the characters before it for labels. With the labels it is
less than the 80 columns of the narrowest terminal."""


def charts(minhash: MinHash, threshold: float, neighbours: Neighbours | None) -> list[str]:
    """The lines of the charts: the S-curve, and the neighbours if they are known."""
    plain = only_plain()
    curve = meeting((np.arange(_WIDTH) + 0.5) / _WIDTH, minhash).tolist()
    lines = [
        f"S-curve of {minhash.bands} bands of {minhash.rows} rows: the chance to be a candidate,",
        "by Jaccard similarity",
        *bars(curve, _LINES, ["100%", "", "", "", "50%"], plain=plain),
        *axis(_WIDTH, threshold, plain=plain),
    ]
    if neighbours is not None:
        heights, top = logarithmic(neighbours.histogram(_WIDTH).tolist(), _LINES)
        lines += [
            "Neighbours of a document, by similarity, on a logarithmic scale",
            *bars(heights, _LINES, [_power(top - line) for line in range(_LINES)], plain=plain),
            *axis(_WIDTH, threshold, plain=plain),
        ]
    return lines


def bars(
    heights: Sequence[float], lines: int, labels: Sequence[str], *, plain: bool = False
) -> list[str]:
    """Bars of one character's width. heights: 0 to 1. labels: of the lines, from the top."""
    blocks = _PLAIN if plain else _EIGHTHS
    eighths = [round(8 * lines * min(1.0, max(0.0, height))) for height in heights]
    rows = []
    for line in range(lines):
        below = 8 * (lines - 1 - line)
        cells = "".join(blocks[min(8, max(0, height - below))] for height in eighths)
        label = labels[line] if line < len(labels) else ""
        rows.append(f"{label:>{_MARGIN - 1}} {cells}".rstrip())
    return rows


def axis(width: int, mark: float, *, plain: bool = False) -> list[str]:
    """An axis from 0 to 1, with its numbers and a mark at one place below it."""
    dash, tick, arrow = ("-", "+", "^") if plain else ("─", "┴", "▲")
    line = [dash] * width
    numbers = [" "] * (width + 4)
    for tenth in range(0, 11, 2):
        at = min(round(tenth / 10 * width), width - 1)
        line[at] = tick
        for offset, character in enumerate(f"{tenth / 10:g}"):
            numbers[at + offset] = character
    place = min(math.floor(mark * width), width - 1)
    margin = " " * _MARGIN
    return [
        margin + "".join(line),
        margin + "".join(numbers).rstrip(),
        f"{margin}{' ' * place}{arrow} {mark:g}",
    ]


def _power(exponent: int) -> str:
    return f"{10.0**exponent:,g}" if -4 <= exponent <= 5 else f"1e{exponent}"


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
