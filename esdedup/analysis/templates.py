"""Recognise groups that look like a template: their documents differ in the same places.

A group is judged by a few of its texts, with the patterns by which `groups.templates` separates
documents.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from esdedup.compare.source import texts_in
from esdedup.groups.groups import Groups
from esdedup.groups.templates import FEWEST, paired, pattern_of
from esdedup.sketch.scheme import Scheme
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta

LARGEST = 10
"""Number of groups to look at, the largest first."""
_SAMPLED = 20
"""Number of texts of a group to read."""
_EXAMPLES, _PLACES, _WORDS = 3, 3, 30
"""Documents that are examples; places of each that are shown, and characters of a place."""


@dataclass(frozen=True)
class Template:
    """A template that the documents of a group seem to follow.

    places: number of places in which they differ.
    examples: words of a few documents in the first few places, normalised; an empty text if a
        document has none.
    """

    places: int
    examples: tuple[tuple[str, ...], ...]


def looks_like_template(texts: Sequence[str], scheme: Scheme) -> Template | None:
    """Return the template that texts of a group follow, the representative's first, or None.

    The examples are of the places that most texts fill.
    """
    aligned_texts = list(paired(texts, scheme))
    pattern = pattern_of(aligned_texts)
    if pattern is None:
        return None
    fillings = [
        filling.places for text in aligned_texts if (filling := pattern.filling(text)) is not None
    ]
    filled = Counter(place for filling in fillings for place, words in enumerate(filling) if words)
    places = sorted(place for place, _ in filled.most_common(_PLACES))
    examples = (
        tuple(" / ".join(filling[place])[:_WORDS] for place in places) for filling in fillings
    )
    # A document with empty places alone shows nothing.
    shown = itertools.islice(filter(any, examples), _EXAMPLES)
    return Template(len(pattern.places), tuple(shown))


def in_group(store: Store, meta: IndexMeta, groups: Groups, head_row: int) -> Template | None:
    """Return the template that a group looks like, or None. head_row: of its representative."""
    rows = np.flatnonzero(groups.representative == head_row)
    _, first = np.unique(groups.digests[rows], axis=0, return_index=True)
    rows = rows[np.sort(first)]
    if rows.size < FEWEST:
        return None
    chosen = np.linspace(0, rows.size - 1, min(rows.size, _SAMPLED)).astype(np.int64)
    ids = [groups.ids[row] for row in rows[chosen].tolist()]
    return looks_like_template(texts_in(store, meta.text_fields)(ids), meta.scheme)


def template_warnings(store: Store, meta: IndexMeta, groups: Groups) -> Iterator[str]:
    """Yield a warning for each large group that looks like a template."""
    for head, size in zip(groups.heads[:LARGEST].tolist(), groups.sizes.tolist(), strict=False):
        if template := in_group(store, meta, groups, head):
            yield warning_of(groups.ids[head], size, template)


def warning_of(representative: str, documents: int, template: Template) -> str:
    """Return the warning for a group."""
    places = "place" if template.places == 1 else f"{template.places} places"
    examples = "; ".join(" | ".join(filter(None, example)) for example in template.examples)
    return (
        f"The group of {representative} ({documents:,} documents) looks like a template: its"
        f" documents differ in the same {places} ({examples}). They may be different documents:"
        " `split_templates` separates them, see docs/how-to/templates.md"
    )
