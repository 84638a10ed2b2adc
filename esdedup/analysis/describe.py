"""Describes a scheme in words: its parameters, its recall, and the cost of a query."""

from __future__ import annotations

from esdedup.sketch.banding import (
    MOST_SWAPS,
    background_candidates,
    candidate_probability,
    probes,
    steepest_similarity,
)
from esdedup.sketch.scheme import Scheme

CHANCE_SIMILARITY = 0.02
"""Jaccard similarity that unrelated texts are taken to have, for the cost of a query."""
_RADII = 3


def describe(
    scheme: Scheme, documents: float, chance: float = CHANCE_SIMILARITY
) -> list[tuple[str, str]]:
    """The parameters of a scheme, and their effect at a number of documents: (name, text)."""
    form, shingling = scheme.normalisation.form, scheme.shingling
    fold = "case folded" if scheme.normalisation.casefold else "case kept"
    stop = f", {len(shingling.stop_words)} stop words" if shingling.stop_words else ""
    rows = [("scheme", scheme.id), ("text", f"{form}, {fold}; shingles {shingling}{stop}")]
    if scheme.minhash is not None:
        minhash = scheme.minhash
        bands, each = minhash.bands, minhash.rows
        single = f", {minhash.signature} single values" if minhash.signature else ""
        banding = f"{bands} bands of {each} rows of {minhash.permutations} permutations{single}"
        rows.append(("MinHash", f"{banding}; steepest at {steepest_similarity(bands, each):.2f}"))
        for swaps in range(MOST_SWAPS + 1):
            recalls = ", ".join(
                f"{100 * candidate_probability(similarity, bands, each, swaps):.1f}%"
                f" at {similarity}"
                for similarity in (0.3, 0.5, 0.7, 0.8, 0.9)
            )
            expected = background_candidates(documents, chance, bands, each, swaps)
            rows.append(
                (
                    f"recall with {bands * probes(each, swaps):,} terms a query",
                    f"{recalls}; about {expected:,.1f} candidates at {documents:,.0f} documents"
                    f" that are {chance} alike by chance",
                )
            )
    if scheme.simhash is not None:
        layout = scheme.simhash.layout
        segments = f"{layout.bits} bits, segments {layout}, {len(layout.widths)} tokens"
        rows.append(("SimHash", segments))
        for radius in range(_RADII):
            cost = (
                f"guaranteed with {layout.probes(radius):,} terms a query; about"
                f" {layout.expected_candidates(documents, radius):,.1f} chance candidates"
                f" at {documents:,.0f} documents"
            )
            rows.append((f"Hamming distance up to {layout.guarantee(radius)}", cost))
    return rows
