"""Texts of documents for a page: differences marked, long ones cut, fields beside them."""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from esdedup.analysis.explain import Explanation
from esdedup.models import FIELD, Document
from esdedup.review.messages import message
from esdedup.review.shown.difference import (
    Difference,
    TextPiece,
    around,
    changes,
    differences,
    first_words,
    outside_passages,
    pieces,
)
from esdedup.sketch.sketch import normalised_digests
from esdedup.stores.fields import value_at
from esdedup.stores.judgements import Judgement
from esdedup.stores.mapping import IndexMeta
from esdedup.text.characters import count

_MOST = 200_000
"""Characters of each text on a page. A browser shows a few megabytes with effort."""
_WORDS = re.compile(r"\w+")
_MOST_PLACES = 5
"""Places of a text with words that a list shows."""
_EXCERPT = 1_500
"""Characters of a text in a list of them."""


class ImageField(str):
    """The name of a field that holds the path or the address of an image."""


@dataclass(frozen=True)
class Shown:
    """A document on a page: its text in pieces, and fields beside it.

    id: of the document.
    pieces: of its text, in order.
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

    left, right: the documents.
    measure: their similarity or distance, as text.
    note: how the texts differ if no word does.
    digests: of the texts, the left one first.
    judgement: the verdict on them, if there is one.
    outdated: whether a text has changed since the judgement.
    """

    left: Shown
    right: Shown
    measure: str
    note: str
    digests: tuple[str, str]
    judgement: Judgement | None
    outdated: bool

    @property
    def seen(self) -> dict[str, str]:
        """The values of a form with a verdict, which name the texts and the judgement shown."""
        return seen_values(self.digests, self.judgement)


@dataclass(frozen=True)
class PairDetails:
    """What is known about two documents.

    similarity: of their texts, if it was computed.
    distance: of their fingerprints, if it was computed.
    passages: marks the passages that they share. Without it every difference is marked.
    judgement: the verdict on them, if there is one.
    """

    similarity: float | None = None
    distance: int | None = None
    passages: Explanation | None = None
    judgement: Judgement | None = None


def pair_of(
    documents: Sequence[Document],
    meta: IndexMeta,
    fields: Sequence[str],
    comparison: PairDetails,
    *,
    excerpts: bool = True,
) -> ShownPair:
    """Return two documents as a pair.

    fields: to show beside the texts. excerpts: whether texts are truncated to 1,500 characters.
    """
    compared = _compared(documents, meta, comparison)
    most = _EXCERPT if excerpts else _MOST
    left, right = (
        _shown(document, text, marked, fields, most)
        for document, text, marked in zip(
            documents, compared.texts, compared.spans or ([], []), strict=True
        )
    )
    return ShownPair(
        left,
        right,
        compared.measure,
        compared.note,
        compared.digests,
        comparison.judgement,
        compared.outdated,
    )


def seen_values(digests: tuple[str, str], judgement: Judgement | None) -> dict[str, str]:
    """Return the values of a form about two documents: their texts, and the time of a verdict."""
    return {"texts": ".".join(digests), "judged": "" if judgement is None else judgement.judged}


@dataclass(frozen=True)
class _ComparedTexts:
    """Two texts, compared.

    texts: of both documents.
    spans: the differences of each; None if they are too long.
    measure, note, digests, outdated: as of `ShownPair`.
    """

    texts: tuple[str, str]
    spans: tuple[list[Difference], list[Difference]] | None
    measure: str
    note: str
    digests: tuple[str, str]
    outdated: bool


def _compared(
    documents: Sequence[Document], meta: IndexMeta, comparison: PairDetails
) -> _ComparedTexts:
    left_document, right_document = documents
    shown_texts = (
        meta.shown_text(left_document.source),
        meta.shown_text(right_document.source),
    )
    passages, judgement = comparison.passages, comparison.judgement
    spans: tuple[list[Difference], list[Difference]] | None
    if passages is None:
        spans = differences(shown_texts[0], shown_texts[1], meta.scheme)
    else:
        spans = outside_passages(passages.left.text), outside_passages(passages.right.text)
    note: str = ""
    if spans is None:
        note = message("The texts are too long for their differences to be marked.")
    elif shown_texts[0] == shown_texts[1]:
        note = message("The texts are equal.")
    elif all(span.kind == "ignored" for span in spans[0]):
        note = message("No word differs, only what the comparison ignores.")
    # The page of a verdict shows the text, also of documents that were compared by another field.
    texts = [meta.judged_text(document.source) or "" for document in documents]
    left_digest, right_digest = normalised_digests(texts, meta.scheme.normalisation)[1]
    equal = left_digest == right_digest
    measure = measured(comparison.similarity, comparison.distance, equal=equal)
    outdated = False
    if judgement is not None:
        ids = judgement.left, judgement.right
        judged_digests = dict(zip(ids, judgement.digests, strict=True))
        digests = normalised_digests(texts, judgement.normalisation)[1]
        outdated = [*digests] != [judged_digests[document.id] for document in documents]
    digests_of_now = left_digest, right_digest
    return _ComparedTexts(shown_texts, spans, measure, note, digests_of_now, outdated)


@dataclass(frozen=True)
class ShownMember:
    """A document beside the representative of its group: only what differs.

    id: of the document.
    title: the first shown field; "" without one.
    pieces: of its text where it differs, with the representative's words there.
    measure: their similarity or distance, as text.
    note: how the texts differ if no word does; "" otherwise.
    fields: as of `Shown`, those whose value differs, and images.
    digests: of the texts, that of the representative first.
    judgement: the verdict on them, if there is one.
    outdated: whether a text has changed since the judgement.
    """

    id: str
    title: str
    pieces: tuple[TextPiece, ...]
    measure: str
    note: str
    fields: tuple[tuple[str, str, str], ...]
    digests: tuple[str, str]
    judgement: Judgement | None
    outdated: bool

    @property
    def seen(self) -> dict[str, str]:
        """As of `ShownPair`."""
        return seen_values(self.digests, self.judgement)


def member_of(
    head: Document,
    member: Document,
    meta: IndexMeta,
    fields: Sequence[str],
    comparison: PairDetails,
    *,
    all_ignored: bool = False,
) -> ShownMember:
    """Return a document where it differs from the representative.

    fields: to show beside the text. all_ignored: as of `changes`.
    """
    compared = _compared((head, member), meta, comparison)
    if compared.spans is None:
        changed = pieces(compared.texts[1], [], _EXCERPT)
    else:
        changed = changes(compared.texts, compared.spans, _EXCERPT, all_ignored=all_ignored)
    return ShownMember(
        member.id,
        title_of(member, fields),
        changed,
        compared.measure,
        compared.note,
        _differing(fields_beside(member, fields), fields_beside(head, fields)),
        compared.digests,
        comparison.judgement,
        compared.outdated,
    )


def _differing(
    fields: Sequence[tuple[str, str, str]], of_head: Sequence[tuple[str, str, str]]
) -> tuple[tuple[str, str, str], ...]:
    """Return the fields of a document that differ from those of the representative, and images."""
    return tuple(field for field in fields if field[2] or field not in of_head)


def beginning_of(text: str, most: int) -> str:
    """Return the first words of a text on one line, with an ellipsis if there are more."""
    line = " ".join(text[: 2 * most].split())
    beginning = first_words(line, most)
    return f"{beginning} …" if len(beginning) < len(line) else line


def title_of(document: Document, fields: Sequence[str]) -> str:
    """Return the value of the first shown field of text, not of an image; "" without one."""
    names = [name for name in fields if not isinstance(name, ImageField)]
    value = value_at(document.source, names[0]) if names else None
    return "" if value is None else str(value)


def alone(document: Document, meta: IndexMeta, show: Sequence[str]) -> Shown:
    """Return a document with its text, up to 200,000 characters, images, and all other fields."""
    images = [name for name in show if isinstance(name, ImageField)]
    hidden = {*images, *meta.text_fields, meta.field, meta.marks_field, FIELD}
    fields = [*images, *(name for name in document.source if name not in hidden)]
    text = meta.shown_text(document.source)
    return _shown(document, text, [], fields, _MOST)


def excerpt(document: Document, meta: IndexMeta, fields: Sequence[str]) -> Shown:
    """Return a document with the beginning of its text, and some fields."""
    return _shown(document, meta.shown_text(document.source), [], fields, _EXCERPT)


def with_words(document: Document, words: str, meta: IndexMeta, fields: Sequence[str]) -> Shown:
    """Return a document with the places of its text that have words, which are marked."""
    text = meta.shown_text(document.source)
    terms = sorted({*_WORDS.findall(words)}, key=len, reverse=True)
    in_a_row = r"\W+".join(map(re.escape, _WORDS.findall(words)))
    spans: list[Difference] = []
    for pattern in (in_a_row, "|".join(map(re.escape, terms))):
        matches = re.finditer(pattern, text, re.IGNORECASE) if pattern else []
        spans = [
            Difference(*match.span(), "differs")
            for match in itertools.islice(matches, _MOST_PLACES)
        ]
        if spans:
            break
    return Shown(document.id, around(text, spans), fields_beside(document, fields))


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
    return Shown(document.id, pieces(text, spans, most), fields_beside(document, fields))


def fields_beside(document: Document, fields: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Return fields of a document as `Shown` has them."""
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
    return tuple(beside)
