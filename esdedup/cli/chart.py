"""Plots for a terminal, of block characters; of plain ones where it has no others."""

from __future__ import annotations

import math
from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_PLAIN = "  .-=+*##"
_MARGIN = 8
"""Characters before the plot, for the labels."""


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
    """An axis from 0 to 1, and below it its numbers and a mark at one of its places."""
    dash, tick, arrow = ("-", "+", "^") if plain else ("─", "┴", "▲")
    line = [dash] * width
    numbers = [" "] * (width + 4)
    for tenth in range(0, 11, 2):
        at = min(round(tenth / 10 * width), width - 1)
        line[at] = tick
        for offset, character in enumerate(f"{tenth / 10:g}"):
            numbers[at + offset] = character
    marks = [" "] * width
    marks[min(math.floor(mark * width), width - 1)] = arrow
    margin = " " * _MARGIN
    return [
        margin + "".join(line),
        margin + "".join(numbers).rstrip(),
        margin + "".join(marks).rstrip() + f" {mark:g}",
    ]


def logarithmic(values: Sequence[float], decades: int) -> tuple[list[float], int]:
    """Heights of values on a logarithmic scale, and the power of ten at its top.

    The scale is of `decades` powers of ten below the largest value; what is less has no height.
    """
    largest = max(values, default=0.0)
    top = math.ceil(math.log10(largest)) if largest > 0 else 0
    return [
        (math.log10(value) - (top - decades)) / decades if value > 0 else 0.0 for value in values
    ], top
