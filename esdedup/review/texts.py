"""Texts of documents for a page: differences marked, long ones cut, fields beside them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from esdedup.analysis.explain import Explanation
from esdedup.models import FIELD, Document
from esdedup.review.difference import Difference, TextPiece, differences, outside_passages, pieces
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.fields import text_at, value_at
from esdedup.stores.judgements import Judgement
from esdedup.stores.mapping import IndexMeta
from esdedup.text.characters import count
from esdedup.text.normalise import normalise

_MOST = 200_000
"""Characters of each text on a page. A browser shows a few megabytes with effort."""
_EXCERPT = 1_500
"""Characters of a text in a list of them."""


class ImageField(str):
    """The name of a field that holds the path or the address of an image."""


@dataclass(frozen=True)
class Shown:
    """A document on a page: its text in pieces, and fields beside it.

    fields: name, value, and the address of an image to show in place of the value.
    """

    id: str
    pieces: tuple[TextPiece, ...]
    fields: tuple[tuple[str, str, str], ...] = ()

    @property
    def cut(self) -> bool:
        """Return whether not all of the text is shown."""
        return any(piece.left_out for piece in self.pieces)


@dataclass(frozen=True)
class ShownPair:
    """Two documents side by side, the differences between their texts marked.

    note: how the texts differ if no word does. outdated: a text has changed since the judgement.
    """

    left: Shown
    right: Shown
    measure: str
    note: str
    judgement: Judgement | None
    outdated: bool


def pair_of(
    two: Sequence[Document],
    meta: IndexMeta,
    fields: Sequence[str],
    similarity: float | None = None,
    distance: int | None = None,
    *,
    explained: Explanation | None = None,
    judgement: Judgement | None = None,
    whole: bool = False,
) -> ShownPair:
    """Return two documents as a pair.

    explained: mark the stretches outside of its passages. whole: long texts are not cut to 1,500
    characters.
    """
    texts = [text_at(each.source, meta.text_fields) or "" for each in two]
    if explained is None:
        found = differences(texts[0], texts[1], meta.scheme)
    else:
        found = outside_passages(explained.left.text), outside_passages(explained.right.text)
    most = _MOST if whole else _EXCERPT
    if found is None:
        note = "The texts are too long for their differences to be marked."
    elif texts[0] == texts[1]:
        note = "The texts are equal."
    elif all(span.kind == "ignored" for span in found[0]):
        note = "No word differs, only what the comparison ignores."
    else:
        note = ""
    left, right = (
        _shown(document, text, spans, fields, most)
        for document, text, spans in zip(two, texts, found or ([], []), strict=True)
    )
    one, other = normalise(texts, meta.scheme.normalisation)
    measure = measured(similarity, distance, equal=one == other)
    outdated = False
    if judgement is not None:
        judged = dict(zip((judgement.left, judgement.right), judgement.digests, strict=True))
        now = normalised_digests(texts, judgement.normalisation)[1]
        outdated = [*now] != [judged[each.id] for each in two]
    return ShownPair(left, right, measure, note, judgement, outdated)


def alone(document: Document, meta: IndexMeta, show: Sequence[str]) -> Shown:
    """Return a document with its text, up to 200,000 characters, images, and all other fields."""
    images = [name for name in show if isinstance(name, ImageField)]
    hidden = {*images, *meta.text_fields, meta.field, meta.marks_field, FIELD}
    fields = [*images, *(name for name in document.source if name not in hidden)]
    text = text_at(document.source, meta.text_fields) or ""
    return _shown(document, text, [], fields, _MOST)


def measured(
    similarity: float | None = None, distance: int | None = None, *, equal: bool = False
) -> str:
    """Return a similarity or a distance as text. equal: so are the normalised texts."""
    if similarity is None:
        return "" if distance is None else count(distance, "bit")
    return ">0.999" if similarity >= 0.9995 and not equal else f"{similarity:.3f}"


def _shown(
    document: Document, text: str, spans: Sequence[Difference], fields: Sequence[str], most: int
) -> Shown:
    beside = []
    for name in fields:
        value = value_at(document.source, name)
        if value is not None and not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False, default=str)
        image = ""
        if value and isinstance(name, ImageField):
            of_web = value.startswith(("http://", "https://"))
            image = value if of_web else f"image?{urlencode({'id': document.id})}"
        beside.append((name, value or "–", image))
    return Shown(document.id, pieces(text, spans, most), tuple(beside))
