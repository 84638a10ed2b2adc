"""What `esdedup tune` draws in a terminal: the S-curve above the similarities, on one axis."""

from __future__ import annotations

import numpy as np

from esdedup.analysis.tuning import Neighbours, meeting
from esdedup.cli.chart import axis, bars, logarithmic
from esdedup.cli.output import only_plain
from esdedup.sketch.minhash import MinHash

_WIDTH = 70
"""With the labels less than the 80 columns of the narrowest terminal."""
_LINES = 8


def chart(minhash: MinHash, threshold: float, neighbours: Neighbours | None) -> list[str]:
    """The lines of the plot, the similarities left out where none are known."""
    plain = only_plain()
    places = (np.arange(_WIDTH) + 0.5) / _WIDTH
    curve = meeting(places, minhash).tolist()
    labels = ["100%", "", "", "", "50%"]
    lines = [
        f"S-curve of {minhash.bands} bands of {minhash.rows} rows: the chance to be a candidate,",
        "by Jaccard similarity",
        *bars(curve, _LINES, labels, plain=plain),
        *axis(_WIDTH, threshold, plain=plain),
    ]
    if neighbours is not None:
        lines += ["Neighbours of a document, by similarity, on a logarithmic scale"]
        lines += _histogram(neighbours, plain=plain)
        lines += axis(_WIDTH, threshold, plain=plain)
    return lines


def _histogram(neighbours: Neighbours, *, plain: bool) -> list[str]:
    heights, top = logarithmic(neighbours.histogram(_WIDTH).tolist(), _LINES)
    labels = [_power(top - line) for line in range(_LINES)]
    return bars(heights, _LINES, labels, plain=plain)


def _power(exponent: int) -> str:
    return f"{10.0**exponent:,g}" if -4 <= exponent <= 5 else f"1e{exponent}"
