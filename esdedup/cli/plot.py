"""The figure of `esdedup tune --plot`, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from esdedup.analysis.choices import Choice
from esdedup.analysis.tuning import Neighbours, meeting
from esdedup.exceptions import MissingExtra, UsageError

ENDINGS = (".png", ".svg", ".pdf")
_BINS = 50


def check_figure(path: Path) -> None:
    """Raises UsageError for another ending, MissingExtra where matplotlib is not installed."""
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
    """The S-curves of all choices, and below them who meets: saved as the ending of `path` says."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # The same figures give the same file.
    with mpl.rc_context({"svg.hashsalt": "esdedup"}):
        figure = Figure(figsize=(8, 7), layout="constrained")
        curves, bars = figure.subplots(2, 1, sharex=True)
        _draw_curves(curves, choices, threshold)
        _draw_neighbours(bars, choices, threshold, neighbours)
        figure.suptitle(title, fontsize=11)
        date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
        metadata: dict[str, Any] = date.get(path.suffix.lower(), {"Software": None})
        try:
            figure.savefig(path, dpi=130, metadata=metadata)
        except OSError as error:
            raise UsageError(f"--plot {path}: {error.strerror}") from error


def _draw_curves(axes: Any, choices: Sequence[Choice], threshold: float) -> None:
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
    axes.axvline(threshold, color="tab:red", linestyle="--", linewidth=1.2, label="threshold")
    axes.set_ylabel("chance to be a candidate")
    axes.set_ylim(0, 1.02)
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="upper left", fontsize=9)


def _draw_neighbours(
    axes: Any, choices: Sequence[Choice], threshold: float, neighbours: Neighbours
) -> None:
    (chosen,) = [choice for choice in choices if choice.chosen]
    met = neighbours.weighted(meeting(neighbours.similarity, chosen.minhash))
    places, width = (np.arange(_BINS) + 0.5) / _BINS, 1.0 / _BINS
    every = neighbours.histogram(_BINS)
    axes.bar(places, every, width, color="0.85", edgecolor="0.7", linewidth=0.5, label="all")
    axes.bar(places, met.histogram(_BINS), width * 0.6, color="tab:blue", label="candidates")
    axes.axvline(threshold, color="tab:red", linestyle="--", linewidth=1.2)
    if (every > 0).any():
        axes.set_yscale("log")
    axes.set_ylim(*_limits(every))
    axes.set_xlim(0, 1)
    axes.set_xlabel("Jaccard similarity")
    axes.set_ylabel("neighbours of a document")
    axes.grid(visible=True, alpha=0.25)
    axes.legend(loc="upper right", fontsize=9)


def _limits(every: Any) -> tuple[float, float]:
    """From a tenth of what matters least to above the highest bar."""
    filled = every[every > 0]
    if not filled.size:
        return 0.1, 1.0
    return max(1e-6, float(filled.min()) / 3), float(filled.max()) * 3
