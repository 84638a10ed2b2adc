"""Draws what pairs and groups take as documents grow, from the figures of groups.py.

    python -m benchmarks.own.plot_groups FILE.json [FILE.json ...] [--out docs/explanation/groups]

One file for each store, of documents of the same length. Needs matplotlib: pip install matplotlib.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

COMMANDS = {
    "index": "index",
    "pairs": "pairs",
    "components": "group --method components",
    "leader": "group",
    "files": "pairs FILES",
    "files_2": "pairs FILES --workers 2",
}
LINES = {
    "index": ":", "pairs": "--", "components": "-", "leader": "-.", "files": "-", "files_2": "--"
}  # fmt: skip
COLOURS = ("tab:blue", "tab:orange", "tab:green")
PANELS = {"seconds": "Seconds", "peak_mb": "Peak memory of the command, MB"}

Figures = dict[str, Any]


def draw(runs: list[Figures], out: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    # The same figures give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "esdedup"
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained")
    for axes, (key, title) in zip(grid, PANELS.items(), strict=True):
        for run, colour in zip(runs, COLOURS, strict=False):
            for command, label in COMMANDS.items():
                found = [size for size in run["sizes"] if command in size]
                if not found:
                    continue
                axes.plot(
                    [size["documents"] for size in found],
                    [size[command][key] for size in found],
                    LINES[command],
                    marker="o",
                    ms=4,
                    color=colour,
                    label=f"{label} ({run['store']})",
                )
        axes.set_title(title, fontsize=11)
        axes.set_xscale("log")
        axes.set_xlabel("documents")
        if key == "seconds":
            axes.set_yscale("log")
        else:
            axes.axhline(2048, color="black", lw=0.8)
            axes.text(axes.get_xlim()[0] * 1.1, 2080, "2 GiB", fontsize=8)
            axes.set_ylim(bottom=0)
        axes.grid(visible=True, which="both", alpha=0.25)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=4)
    length = runs[0]["characters"]
    figure.suptitle(f"Pairs and groups at Jaccard 0.8, documents of {length} characters")
    figure.savefig(out.with_suffix(".png"), dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    parser.add_argument(
        "--out", type=Path, default=Path("docs/explanation/groups"), help="without .png"
    )
    options = parser.parse_args()
    draw([json.loads(file.read_text("utf-8")) for file in options.files], options.out)


if __name__ == "__main__":
    main()
