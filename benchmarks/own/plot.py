"""Draws how an index grows: docs/explanation/scale.png and .svg, from the figures of cluster.py.

    python -m benchmarks.own.plot FILE.json [FILE.json ...] [--out docs/explanation/scale]

One file for each product or number of nodes. Needs matplotlib, which belongs to no extra of the
package: install it in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

INSTALL = """\
matplotlib is not installed; to have it in an environment of its own:
    python -m venv plotting
    plotting/bin/pip install matplotlib
    plotting/bin/python -m benchmarks.own.plot FILE.json"""

Figures = dict[str, Any]

# Panels: title, and lines by label as the keys that lead to a figure.
PANELS: list[tuple[str, dict[str, tuple[str, ...]]]] = [
    (
        "Bytes a document (merged)",
        {"with tokens": ("merged_bytes",), "without": ("merged_plain_bytes",)},
    ),
    (
        "Ingest, documents a second",
        {"with tokens": ("docs_a_second",), "without": ("plain_docs_a_second",)},
    ),
    (
        "Query, ms",
        {
            "similar, median": ("queries", "similar_ms", "median"),
            "similar, p99": ("queries", "similar_ms", "p99"),
            "terms query, median": ("queries", "terms_ms", "median"),
        },
    ),
    ("Candidates a query, mean", {"candidates": ("queries", "candidates", "mean")}),
    (
        "Recall of edited copies",
        {"found": ("recall", "all", "found"), "by the formula": ("recall", "all", "expected")},
    ),
    ("Memory of the client, MB", {"most so far": ("peak_mb_all",)}),
]
LINES = ("-", "--", ":")
COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")
LOGARITHMIC = {"Query, ms"}
"""Panels that are so upwards too; the others begin at zero, where level lines are seen as such."""


def points(run: Figures, path: Sequence[str]) -> tuple[list[int], list[float]]:
    """Sizes, and the figure at each; sizes that lack it are left out."""
    sizes, values = [], []
    for figures in run["sizes"]:
        value: Any = figures
        for key in path:
            value = value.get(key) if value is not None else None
        if value is not None:
            sizes.append(int(figures["documents"]))
            values.append(float(value))
    return sizes, values


def name_of(run: Figures) -> str:
    return f"{run['product']}, {run['nodes']} node{'s' if run['nodes'] > 1 else ''}"


def draw(runs: list[Figures], out: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    # The same figures give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "esdedup"
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    for axes, (title, lines) in zip(grid.flat, PANELS, strict=True):
        for run, colour in zip(runs, COLOURS, strict=False):
            for (label, path), style in zip(lines.items(), LINES, strict=False):
                sizes, values = points(run, path)
                shown = label if len(runs) == 1 else f"{label} ({name_of(run)})"
                axes.plot(sizes, values, style, marker="o", ms=4, color=colour, label=shown)
        axes.set_title(title, fontsize=11)
        axes.set_xscale("log")
        axes.set_xlabel("documents")
        if title in LOGARITHMIC:
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            axes.set_ylim(low, high * (high / low) ** 0.6)  # Room for the legend.
        elif title.startswith("Recall"):
            axes.set_ylim(0.9, 1.005)
        else:
            axes.set_ylim(0, 1.45 * axes.get_ylim()[1])
        axes.grid(visible=True, which="both", alpha=0.25)
        axes.legend(fontsize=7, loc="lower left" if title.startswith("Recall") else "upper left")
    figure.suptitle("; ".join(name_of(run) for run in runs) + ": documents of 400 characters")
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out.with_suffix(".png"), dpi=110, metadata={"Software": None})
    figure.savefig(out.with_suffix(".svg"), metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/explanation/scale"), help="without .png, .svg"
    )
    options = parser.parse_args()
    runs = [json.loads(file.read_text("utf-8")) for file in options.files]
    try:
        draw(runs, options.out)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        sys.exit(INSTALL)


if __name__ == "__main__":
    main()
