"""The schemes that reach a recall at a threshold, and what each costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from esdedup.analysis.tuning import Expectation, Neighbours, expectation
from esdedup.exceptions import UsageError
from esdedup.sketch.banding import bands_needed, candidate_probability, choose_banding
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.segments import Layout
from esdedup.sketch.simhash import SimHash
from esdedup.sketch.tokens import MAX_TOKENS

# Bytes a document in an index of Elasticsearch, `_source` included, merged: measured, see
# docs/scale.md and `benchmarks/index_size.py`. 23 tokens of bands and 4 of segments take 461
# bytes, 20 and 4 take 415; tokens of 36 bits in place of 30 take 40 more for 20 of them; no
# segments and no fingerprint take 70 less. 128 single values take 1,390, see docs/design.md.
_BYTES_A_BAND_TOKEN = 15.0
_BYTES_MORE_A_SIX_BITS = 2.0
_BYTES_A_SEGMENT_TOKEN = 11.0
_BYTES_A_VALUE = 10.9
_BYTES_A_FINGERPRINT = 25.0
_BYTES_OF_THE_FIELD = 45.0

LAYOUTS = (Layout(64, 4), Layout(64, 8), Layout(64, 6, 3), Layout(128, 4), Layout(128, 8))
"""Layouts of segments to choose from: few tokens, more distance, or few candidates."""


@dataclass(frozen=True)
class Choice:
    """A way to cut signatures that reaches the recall, and what it costs.

    tokens: a document, those of segments and single values included. bytes: a document, about.
    at_threshold: the chance that a pair of just the threshold's similarity meets. expected: of a
    query. chosen: what `banding.choose_banding` takes.
    """

    minhash: MinHash
    tokens: int
    bytes: float
    at_threshold: float
    expected: Expectation
    chosen: bool = False


@dataclass(frozen=True)
class LayoutChoice:
    """A layout of segments: tokens a document, the distance that equality alone guarantees, and
    chance candidates of a query."""

    layout: Layout
    tokens: int
    distance: int
    candidates: float


def choices(
    threshold: float,
    recall: float,
    neighbours: Neighbours,
    minhash: MinHash,
    simhash: SimHash | None,
    rows: int | None = None,
) -> list[Choice]:
    """Each number of rows with the bands that it needs, fewest rows first.

    minhash: how many permutations, token bits and single values there are. simhash: what the
    scheme has beside it. rows: chosen by hand, in place of the most that are within the
    permutations.

    Raises UsageError where no number of rows reaches the recall, or the given one does not.
    """
    _, best = choose_banding(threshold, recall, minhash.permutations)
    found = [
        _choice(threshold, neighbours, replace(minhash, bands=bands, rows=each), simhash)
        for each in range(1, best + 1)
        if (bands := bands_needed(threshold, recall, each)) is not None
        and bands * each <= minhash.permutations
        and bands <= MAX_TOKENS
    ]
    wanted = best if rows is None else rows
    if wanted not in {choice.minhash.rows for choice in found}:
        raise UsageError(
            f"rows {wanted}: recall {recall} at threshold {threshold} within"
            f" {minhash.permutations} permutations takes"
            f" {', '.join(str(choice.minhash.rows) for choice in found)} rows"
        )
    return [replace(choice, chosen=choice.minhash.rows == wanted) for choice in found]


def layout_choices(documents: float) -> list[LayoutChoice]:
    """What the layouts of segments cost at so many documents."""
    return [
        LayoutChoice(
            layout, len(layout.widths), layout.guarantee(), layout.expected_candidates(documents)
        )
        for layout in LAYOUTS
    ]


def bytes_a_document(minhash: MinHash, simhash: SimHash | None) -> float:
    """About how many bytes the field takes in an index of Elasticsearch."""
    longer = (minhash.token_bits - 30) / 6 * _BYTES_MORE_A_SIX_BITS
    bands = minhash.bands * (_BYTES_A_BAND_TOKEN + longer) + minhash.signature * _BYTES_A_VALUE
    if simhash is None:
        return _BYTES_OF_THE_FIELD + bands
    segments = len(simhash.layout.widths) * _BYTES_A_SEGMENT_TOKEN
    words = simhash.layout.bits / 64
    return _BYTES_OF_THE_FIELD + bands + segments + _BYTES_A_FINGERPRINT * words


def _choice(
    threshold: float, neighbours: Neighbours, minhash: MinHash, simhash: SimHash | None
) -> Choice:
    segments = 0 if simhash is None else len(simhash.layout.widths)
    return Choice(
        minhash,
        minhash.bands + minhash.signature + segments,
        bytes_a_document(minhash, simhash),
        candidate_probability(threshold, minhash.bands, minhash.rows),
        expectation(neighbours, threshold, minhash),
    )
