"""Describes a scheme in words: its parameters, its recall, and the cost of a query."""

from esdedup.sketch.scheme import Scheme

CHANCE_SIMILARITY = 0.02
"""Jaccard similarity that unrelated texts are taken to have, for the cost of a query."""


def describe(
    scheme: Scheme, documents: float, chance: float = CHANCE_SIMILARITY
) -> list[tuple[str, str]]:
    """Return the parameters of a scheme and their effect, as (name, text)."""
    form, shingling = scheme.normalisation.form, scheme.shingling
    fold = "case folded" if scheme.normalisation.casefold else "case kept"
    stop = f", {len(shingling.stop_words)} stop words" if shingling.stop_words else ""
    rows = [("scheme", scheme.id), ("text", f"{form}, {fold}; shingles {shingling}{stop}")]
    for each in scheme.sketches:
        rows += [(each.name, each.describe()), *each.costs(documents, chance)]
    return rows
