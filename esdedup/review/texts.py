"""Texts of documents for a page: differences marked, long ones cut, fields beside them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from esdedup.analysis.explain import MOST_ON_PAGE
from esdedup.models import FIELD, Document
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.fields import text_at, value_at
from esdedup.stores.judgements import Judgement
from esdedup.stores.mapping import IndexMeta
from esdedup.text.highlight import Excerpt, MarkedText, differing, excerpts, mark_shared

_SNIPPET = 200
_EXCERPT = 1_500
"""Characters of a text in a list of them."""
_LONGEST = 1_000_000
"""Characters of a text whose differences are marked: more take seconds."""
_LONGEST_VALUE = 500


@dataclass(frozen=True)
class Shown:
    """A document on a page.

    pieces: of its text. characters: of the whole text. cut: not all of it is shown. original: the
    text is as it was written, not normalised. marked: its differences are marked. fields: name and
    value of each field beside it.
    """

    id: str
    pieces: tuple[Excerpt, ...]
    characters: int
    cut: bool = False
    original: bool = True
    marked: bool = True
    fields: tuple[tuple[str, str], ...] = ()

    @property
    def unmarked(self) -> bool:
        """Return whether the text is too long for its differences to be marked."""
        return not self.marked and self.characters > _LONGEST

    @property
    def differs(self) -> bool:
        """Return whether a word differs from those of the other text."""
        return any(piece.differs for piece in self.pieces)


def pair_of(
    left: Document,
    right: Document,
    meta: IndexMeta,
    fields: Sequence[str] = (),
    whole: bool = False,
) -> tuple[Shown, Shown]:
    """Both documents, with the differences between their texts marked.

    whole: up to 200,000 characters of each text; else, of more than 1,500, the parts around
    the differences.
    """
    texts = _text(left, meta), _text(right, meta)
    one, other = marked_pair(texts, meta.scheme, whole=whole)
    return _shown(left, texts[0], one, fields), _shown(right, texts[1], other, fields)


def marked_beside(
    text: str, document: Document, meta: IndexMeta, fields: Sequence[str] = ()
) -> tuple[Shown, bool]:
    """A document, with its differences from a text marked; and whether that has other words."""
    own = _text(document, meta)
    (pieces, *_), other = marked_pair((text, own), meta.scheme)
    return _shown(document, own, other, fields), any(piece.differs for piece in pieces)


def alone(document: Document, meta: IndexMeta, fields: Sequence[str] = ()) -> Shown:
    """A document with its text, up to 200,000 characters, and nothing marked."""
    text = _text(document, meta)
    return _shown(document, text, (_beginning(text, MOST_ON_PAGE), True, False), fields)


def snippet(document: Document, meta: IndexMeta) -> str:
    """The beginning of a document's text, on one line."""
    text = _text(document, meta)
    line = " ".join(text[: 2 * _SNIPPET].split())
    whole = len(line) <= _SNIPPET and len(text) <= 2 * _SNIPPET
    return line if whole else f"{line[:_SNIPPET]}…"


Marked = tuple[tuple[Excerpt, ...], bool, bool]
"""The pieces of a text, whether it is the original, and whether its differences are marked."""


def marked_pair(
    texts: tuple[str, str], scheme: Scheme, *, whole: bool = False
) -> tuple[Marked, Marked]:
    """The pieces of two texts. whole: as in `pair_of`."""
    most = MOST_ON_PAGE if whole else _EXCERPT
    if max(map(len, texts)) > _LONGEST:
        left, right = ((_beginning(text, most), True, False) for text in texts)
        return left, right
    both = mark_shared(texts, scheme.normalisation, scheme.shingling, scheme.seed)
    left, right = (
        (
            tuple(_whole(each, most)) if whole or len(each.text) <= most else excerpts(each, most),
            each.original,
            True,
        )
        for each in both
    )
    return left, right


def _whole(text: MarkedText, most: int) -> Iterator[Excerpt]:
    """The text in pieces, up to `most` characters."""
    at = 0
    for span in (*differing(text), (len(text.text), len(text.text))):
        start, end = (min(max(edge, at), most) for edge in span)
        if at < start:
            yield Excerpt(text.text[at:start])
        if start < end:
            yield Excerpt(text.text[start:end], differs=True)
        at = end
    if at < len(text.text):
        yield Excerpt("", left_out=len(text.text) - at)


def _beginning(text: str, most: int) -> tuple[Excerpt, ...]:
    rest = len(text) - most
    return (Excerpt(text[:most]), *([Excerpt("", left_out=rest)] if rest > 0 else []))


def _shown(document: Document, text: str, found: Marked, fields: Sequence[str]) -> Shown:
    pieces, original, marked = found
    cut = any(piece.left_out for piece in pieces)
    beside = tuple((name, in_words(value_at(document.source, name))) for name in fields)
    return Shown(document.id, pieces, len(text), cut, original, marked, beside)


def changed(judgement: Judgement, documents: Iterable[Document], meta: IndexMeta) -> bool:
    """Return whether one of two judged documents has another text than the one that was judged.

    documents: those of the judgement, as they are now, and any others. One that is gone, or has no
    text any more, is not counted as changed.
    """
    judged = dict(zip((judgement.left, judgement.right), judgement.digests, strict=True))
    texts = {each.id: text_at(each.source, meta.text_fields) for each in documents}
    known = {id: text for id, text in texts.items() if id in judged and text is not None}
    _, digests = normalised_digests([*known.values()], judgement.normalisation)
    return any(judged[id] != digest for id, digest in zip(known, digests, strict=True))


def measured(similarity: float | None, distance: int | None) -> str:
    """A similarity or a distance as text. Only equal texts are shown as 1."""
    if similarity is None:
        return f"{distance} bit{'' if distance == 1 else 's'}"
    return ">0.999" if 0.9995 <= similarity < 1.0 else f"{similarity:.3f}"


def field_names(document: Document, meta: IndexMeta) -> list[str]:
    """Return the names of a document's fields, without those of its text and of our tokens."""
    hidden = {*meta.text_fields, meta.field, FIELD}
    return [name for name in document.source if name not in hidden]


def in_words(value: Any) -> str:
    """The value of a field as text, cut after 500 characters."""
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _text(document: Document, meta: IndexMeta) -> str:
    return text_at(document.source, meta.text_fields) or ""
