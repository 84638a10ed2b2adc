"""The values that go between stores, services and callers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, Self, get_args

from esdedup.exceptions import UsageError

Metric = Literal["jaccard", "hamming"]
TokenKind = Literal["minhash", "signature", "simhash"]
TOKEN_KINDS: tuple[TokenKind, ...] = get_args(TokenKind)
"""The fields of tokens, below FIELD."""
FIELD = "esdedup"
"""The object field of a document under which everything of ours lies, unless another is chosen."""
MOST_SLICES = 1024
"""What a cluster takes by default."""
MOST_SAMPLED = 10_000
"""Documents of a sample, which is held in memory."""


@dataclass(frozen=True)
class Share:
    """One of several equal shares of the work; number counts from 1.

    Raises UsageError for numbers that are none.
    """

    number: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        if self.of > MOST_SLICES:
            raise UsageError(f"slice {self.number}/{self.of}: use at most {MOST_SLICES} slices")
        if not 1 <= self.number <= self.of:
            raise UsageError(f"slice {self.number}/{self.of}: the first number is 1 to {self.of}")

    @staticmethod
    def parse(text: str) -> Share:
        """The share that "3/16" names. Raises UsageError for another form."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal()):
            raise UsageError(f"slice {text!r}: use a form like 3/16")
        return Share(int(number), int(of))


WHOLE = Share()


@dataclass(frozen=True)
class Document:
    """A document: its id and its fields, the object with our tokens among them."""

    id: str
    source: Mapping[str, Any]

    @property
    def tokens(self) -> Mapping[str, Any]:
        """What lies under FIELD, or nothing."""
        return self.tokens_in(FIELD)

    def tokens_in(self, field: str) -> Mapping[str, Any]:
        """What lies under a field of ours, or nothing."""
        return tokens_in(self.source, field)


class Encoded(NamedTuple):
    """A document as its store writes it.

    digest: of its text. form: what the store's `encode` returns.
    """

    id: str
    digest: str
    form: Any


def tokens_in(source: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """What lies under a field of ours in a document's source, or nothing."""
    found = source.get(field)
    if isinstance(found, list) and len(found) == 1:
        # The servers take an array of one object for the object, and keep it as it was written.
        (found,) = found
    return found if isinstance(found, Mapping) else {}


def check_sample(count: int) -> None:
    """Raises UsageError for a number of documents that no sample has."""
    if not 1 <= count <= MOST_SAMPLED:
        raise UsageError(f"sample {count}: use 1 to {MOST_SAMPLED} documents")


@dataclass(frozen=True)
class Query:
    """A text to find similar documents of.

    exclude: the id of a document to leave out. filters: queries in the cluster's own language that
    a document must match too, such as a range of dates or a tenant. originals: only documents that
    are not marked as like another.
    """

    text: str
    exclude: str | None = None
    filters: Sequence[Mapping[str, Any]] = ()
    originals: bool = False


@dataclass(frozen=True)
class RecallQuery:
    """What to look for: documents that hold a token of at least so many groups.

    kind: the field of the tokens, or "digest" for digests in place of them, in one group. groups:
    tokens, those of a group all of one position; a document's rank is the number of groups that it
    shares a token with. exclude: the id of a document to leave out. field: where the tokens lie.
    filters: queries of the cluster that a document must match too. least: groups that it must share
    a token with, 1 or more. stopped: groups of which tokens were left out, as their buckets are too
    large to be looked at. originals: only documents that are not marked as like another.
    """

    kind: TokenKind | Literal["digest"]
    groups: list[list[str]]
    exclude: str | None = None
    field: str = FIELD
    filters: Sequence[Mapping[str, Any]] = ()
    least: int = 1
    stopped: int = 0
    originals: bool = False


@dataclass(frozen=True)
class Candidate:
    """A document that shares tokens with a query, and the number of groups that met."""

    document: Document
    matched: int


@dataclass(frozen=True)
class Candidates:
    """What a recall query found, most shared tokens first.

    truncated: there were more than were fetched.
    """

    found: list[Candidate]
    truncated: bool


@dataclass(frozen=True)
class Failure:
    """A document that a store did not take, and why. conflict: the id was taken already."""

    id: str
    reason: str
    conflict: bool = False


@dataclass(frozen=True)
class Counts:
    """Adds reports field by field: numbers add up, lists are joined."""

    def __add__(self, other: Self) -> Self:
        names = [each.name for each in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True)
class WriteReport(Counts):
    """What became of the documents of a write; the numbers add up to the documents given."""

    created: int = 0
    updated: int = 0
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True)
class Held:
    """A document as it was read, with its tokens, and what tells whether it is still the same.

    version: equal only while nobody changed the document. index, routing: where it lies in a
    cluster.
    """

    document: Document
    version: str
    index: str | None = None
    routing: str | None = None


@dataclass(frozen=True)
class Change:
    """What to do with a document that is still as it was held.

    fields: to merge into it, objects into objects; or None to delete it. whole: they are all that
    it shall hold instead.
    """

    held: Held
    fields: Mapping[str, Any] | None
    whole: bool = False


@dataclass(frozen=True)
class Match:
    """A document verified to be similar to a query.

    similarity: exact Jaccard similarity, 0 to 1, or None where Hamming distance was asked for.
    distance: Hamming distance in bits, or None where Jaccard similarity was asked for.
    matched: tokens that met. source: the document's own fields.
    """

    id: str
    similarity: float | None
    distance: int | None
    matched: int
    source: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """The answer to one query.

    matches: the most similar first, ties by id. candidates: documents verified. truncated: more
    candidates shared enough tokens than were fetched, so that a match may be missing. recall: the
    share that is expected to be found, of the documents whose Jaccard similarity is just the
    threshold, or that of the last match where the nearest were asked for (of more similar ones it
    is more). None for Hamming distance, where all are, and where there were fewer than asked for.
    asked: bands or segments of the query that were looked up, and single values where the nearest
    were asked for and bands did not do; 0 for a text without any shingle.
    stopped: those that were not, or not wholly, as their buckets are in the index's stop list or
    larger than was asked for. What shares only these is missing, at any Hamming distance too.
    """

    matches: list[Match]
    candidates: int
    truncated: bool
    recall: float | None = None
    asked: int = 0
    stopped: int = 0

    @property
    def blind(self) -> bool:
        """Whether nothing could be looked for, because all that the text has is stopped."""
        return self.stopped > 0 and self.asked == 0


@dataclass(frozen=True)
class Pair:
    """Two similar documents, left < right by id; similarity and distance as in Match."""

    left: str
    right: str
    similarity: float | None
    distance: int | None


@dataclass(frozen=True)
class Statistics:
    """Numbers of an index.

    documents: in all. sketched: with tokens of this index's scheme; an empty text counts. other:
    with another scheme's. bytes: what the index takes on disk, primaries only.
    """

    documents: int
    sketched: int
    other: int
    bytes: int
    store: str


_DIGITS = re.compile("([0-9]+)")


def natural(id: str) -> tuple[tuple[str | tuple[int, str], ...], str]:
    """A key that orders ids as people do: "a2" before "a10"."""
    # Every second part is a number, so that only like is compared with like; of two numbers the
    # longer one is greater, whatever Python's limit for the digits of an int.
    if id.isdecimal() and id.isascii():
        # What most ids are, at a fifth of the time.
        number = id.lstrip("0")
        return ("", (len(number), number), ""), id
    parts: list[str | tuple[int, str]] = list(_DIGITS.split(id))
    digits = [each.lstrip("0") for each in parts[1::2]]  # type: ignore[union-attr]
    parts[1::2] = [(len(each), each) for each in digits]
    # "a1" and "a01" are not the same.
    return tuple(parts), id
