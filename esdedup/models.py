"""The types that go between stores, services and callers; the order of ids, groups of items."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, overload

from esdedup.arguments import check_fields, check_type
from esdedup.exceptions import UsageError
from esdedup.sketch.measures import Measure
from esdedup.tabular import Tabular

if TYPE_CHECKING:
    from esdedup.text.arrays import F64, Mask, Ragged

Each = TypeVar("Each")
Fields = dict[str, Any]
"""The fields of a document, or of an object in it, as JSON has them."""
MARKS = ("group", "original", "similarity", "distance")
"""The values, beside the tokens, that an ingest policy or `group` adds."""
FIELD = "esdedup"
"""The object field of a document that holds all of our values, by default."""
MOST_SLICES = 1024
"""Maximum number of slices, the default limit of a cluster."""
MOST_SAMPLED = 10_000
"""Maximum number of documents in a sample, which is held in memory."""


@dataclass(frozen=True)
class Share:
    """Part `number`, from 1, `of` equal shares of the work. Raises UsageError for other values."""

    number: int = 1
    of: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        if self.of > MOST_SLICES:
            raise UsageError(f"slice {self.number}/{self.of}: use at most {MOST_SLICES} slices")
        if not 1 <= self.number <= self.of:
            raise UsageError(f"slice {self.number}/{self.of}: the first number is 1 to {self.of}")


WHOLE = Share()


def id_with_place(place: str | None, id: str) -> str:
    """Return the id of a document that names its place; None for the only one."""
    return id if place is None else f"{place}/{id}"


@dataclass(frozen=True)
class Document:
    """A document: its id and its fields, including the object with our tokens.

    raw: the JSON that the store has of all its fields; None if it was not read whole, or is new.
    index: that it is in, if it was found behind a name of several indices, which can have one id.
    """

    id: str
    source: Mapping[str, Any]
    raw: str | None = field(default=None, compare=False, repr=False)
    index: str | None = field(default=None, compare=False)

    @property
    def full_id(self) -> str:
        """The id with the index, if the name stands for several."""
        return id_with_place(self.index, self.id)

    @property
    def tokens(self) -> Mapping[str, Any]:
        """The values under FIELD, empty if there are none."""
        return tokens_in(self.source, FIELD)

    def tokens_in(self, field: str) -> Mapping[str, Any]:
        """Return the values under a field of ours, empty if there are none."""
        return tokens_in(self.source, field)


def tokens_in(source: Mapping[str, object], field: str) -> Mapping[str, Any]:
    """Return the values under a field of ours in a document's source, empty if there are none."""
    found = source.get(field)
    if isinstance(found, list) and len(found) == 1:
        # Servers treat an array of one object like the object, and return it as it was written.
        (found,) = found
    return found if isinstance(found, Mapping) else {}


def value_in(source: Mapping[str, object], path: str) -> Any:
    """Return the value at "field.name" of ours, or None. A dotted key is never ours."""
    field, _, name = path.partition(".")
    return tokens_in(source, field).get(name)


class TimeField(str):
    """The name of a field whose value is read as a time: a server returns it as it sees it."""


def check_sample(count: int) -> None:
    """Raise UsageError for a number of documents that a sample can't have."""
    check_type("sample", count, "int")
    if not 1 <= count <= MOST_SAMPLED:
        raise UsageError(f"sample {count}: use 1 to {MOST_SAMPLED} documents")


@dataclass(frozen=True)
class QueryScope:
    """The scope that a document must be in to match a query (`within`).

    includes: returns whether the document with these fields is in the scope.
    texts: the values that fields must have, as texts, by their names.
    times: the first and the last time of fields, in microseconds since 1970, by their names.
    is_missing: the query itself is in no scope, so that nothing matches it.
    """

    includes: Callable[[Mapping[str, object]], bool]
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    times: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    is_missing: bool = False


@dataclass(frozen=True)
class Query:
    """A text to find similar documents of.

    exclude: the id of a document to leave out. filters: queries in the cluster's own language that
    a document must match too. originals: leave out documents that are marked as duplicates.
    marked: return digests and marks too. parts: number of strings that are joined in the text; an
    index that computes tokens has none of what is across two. scope: that matches are in; None for
    all documents. Raises UsageError for other types.
    """

    text: str
    exclude: str | None = None
    filters: Sequence[Mapping[str, object]] = ()
    originals: bool = False
    marked: bool = False
    parts: int = 1
    scope: QueryScope | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class CandidateQuery:
    """A query for documents that share tokens, ranked by the number of groups they share.

    key: the field of the tokens, or "wordless" to look for the digest of a text without words.
    groups: lists of tokens, one for each band or segment, of which a document holds any.
    exclude, filters, originals, marked, scope: as in `Query`. field: the object field that holds
    tokens; marks_in: that which holds the marks.
    least: number of groups to share, at least 1. stopped: number of groups that lack tokens, whose
    buckets are too large. leads: a group counts only with its first token. kept: return the tokens.
    of_values: return fields that servers leave out of documents, such as vectors.
    text: whose tokens the index computes, in `field`; groups are empty then, one for each token.
    shingles: the number of those of the text. verify: from the sets of shingle hashes of
    candidates, return their nearness, a mask of those that may be in the answer, and how many
    of the others match. A local file keeps the sets of large buckets, and reads only documents that
    may be in the answer.
    """

    key: str
    groups: list[list[str]]
    exclude: str | None = None
    field: str = FIELD
    filters: Sequence[Mapping[str, object]] = ()
    least: int = 1
    stopped: int = 0
    originals: bool = False
    marked: bool = False
    leads: bool = False
    kept: bool = False
    of_values: bool = False
    marks_in: str = FIELD
    text: str | None = None
    shingles: int = 0
    verify: "Callable[[Ragged], tuple[F64, Mask, int]] | None" = None
    scope: QueryScope | None = None


@dataclass(frozen=True)
class Candidates:
    """Documents that share tokens with a query, most shared groups first.

    matched: the number of groups that each shares. missed: the most groups that a document which
    was not looked at may share; 0 if all were. nearness: of the documents, if `verify` returned
    it. excluded: number of candidates that it excluded, which are not among the documents.
    matching: how many of these match.
    """

    documents: list[Document]
    matched: list[int]
    missed: int = 0
    nearness: Sequence[float] = ()
    excluded: int = 0
    matching: int = 0

    @property
    def truncated(self) -> bool:
        """Return whether there are documents that were not looked at."""
        return self.missed > 0


Cause = Literal["refused", "dropped", "moved", "renamed"]
"""Why a document is not stored as it was sent."""


@dataclass(frozen=True)
class Failure:
    """A document that is not stored as it was sent, and why.

    conflict: the id was taken, or the document had changed. index: of the document, in a cluster.
    unsure: it may have been changed all the same, such as by an earlier attempt of the request.
    cause: a store refused it, or an ingest pipeline of a cluster dropped it, moved it to another
    index, or gave it another id.
    """

    id: str
    reason: str
    conflict: bool = False
    index: str | None = None
    unsure: bool = False
    cause: Cause = "refused"


@dataclass(frozen=True)
class Counts:
    """Adds reports field by field: numbers add up, lists are joined."""

    def __add__(self, other: Self) -> Self:
        names = [part.name for part in fields(self)]
        return type(self)(*(getattr(self, name) + getattr(other, name) for name in names))


@dataclass(frozen=True)
class WriteReport(Counts):
    """Counts of the documents of a write; they add up to the documents given.

    unchanged: documents to create that a local file has in the same bytes.
    """

    created: int = 0
    updated: int = 0
    failures: list[Failure] = field(default_factory=list)
    unchanged: int = 0


@dataclass(frozen=True)
class StoredDocument:
    """A document as it was read, so that it can be changed if it is still the same.

    document: its id and fields.
    version: differs after each change.
    index: the index of the cluster that it is stored in; None in a local file.
    routing: decides on its shard, instead of its id.
    number: the version that the cluster shows to its clients (`_version`); None if it is not known.
    plain_id: the id in its index, if `document.id` names the index too ("offers-000001/1").
    is_ambiguous: the id names no index, and other indices behind the name have it too.
    """

    document: Document
    version: str
    index: str | None = None
    routing: str | None = None
    number: int | None = field(default=None, compare=False)
    plain_id: str | None = None
    is_ambiguous: bool = field(default=False, compare=False)

    @property
    def id(self) -> str:
        """The document's id."""
        return self.document.id

    @property
    def id_in_index(self) -> str:
        """The id that its index has."""
        return self.document.id if self.plain_id is None else self.plain_id

    def requested_as(self, id: str) -> Self:
        """Return the document under the id by which it is requested."""
        if id == self.document.id:
            return self
        plain_id = None if id == self.id_in_index else self.id_in_index
        return replace(self, document=replace(self.document, id=id), plain_id=plain_id)

    @property
    def source(self) -> Mapping[str, object]:
        """The document's fields."""
        return self.document.source

    @property
    def raw(self) -> str | None:
        """The document's JSON, if it was read whole."""
        return self.document.raw

    def tokens_in(self, field: str) -> Mapping[str, object]:
        """Return the values under a field of ours, empty if there are none."""
        return self.document.tokens_in(field)


@dataclass(frozen=True)
class Change:
    """A change of a document that is still as it was read.

    stored: the document as it was read.
    fields: merged into it, objects into objects; None to delete it. A value
        `stores.json_text.REMOVED` removes a name.
    whole: they replace all of it.
    new: the fields come from outside, so that a cluster's index puts them through its own pipeline.
    raw: the JSON of `fields`, if they replace all of it.
    """

    stored: StoredDocument
    fields: Mapping[str, object] | None
    whole: bool = False
    new: bool = False
    raw: str | None = None


@dataclass(frozen=True)
class Passage:
    """A run of equal words in a query and a document.

    words: their number. query_word, document_word: the first one, from 0. query_span,
    document_span: its start and end in each text, in characters.
    """

    words: int
    query_word: int
    query_span: tuple[int, int]
    document_word: int
    document_span: tuple[int, int]


@dataclass(frozen=True)
class Cover:
    """The passages that a query and a document share.

    words: number of words of the query in passages. of_query, of_document: share of the words of
    each in passages, 0 to 1. passages: in the order of the query, without those within a longer one
    there; of equal ones the first in the document.
    """

    words: int
    of_query: float
    of_document: float
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True)
class Match:
    """A document verified to be similar to a query.

    value: exact Jaccard similarity, Hamming distance in bits, or number of words of the query in
    passages.
    measure: of the value.
    matched: number of shared tokens.
    source: the document's own fields.
    cover: shared passages; None for another measure.
    index: that it is in, if the name stands for several. Where several of the matches have one id,
    `id` begins with it ("offers-000001/1").
    """

    id: str
    value: float
    measure: Measure
    matched: int
    source: Mapping[str, Any]
    cover: Cover | None = None
    index: str | None = None

    @property
    def similarity(self) -> float | None:
        """The exact Jaccard similarity, 0 to 1; None for another measure."""
        return None if self.cover is not None else self.measure.similarity(self.value)

    @property
    def distance(self) -> int | None:
        """The Hamming distance in bits; None for another measure."""
        return self.measure.distance(self.value)


@dataclass(frozen=True)
class Unattached:
    """Indices behind a name that lack our fields, so that no result has their documents.

    It is false if there are none.

    name: of the alias or data stream.
    indices: their names.
    """

    name: str = ""
    indices: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.indices)

    @property
    def warning(self) -> str | None:
        """A sentence that names the indices, and the commands that add the fields, if any."""
        if not self.indices:
            return None
        names = ", ".join(map(repr, self.indices))
        of_several = len(self.indices) > 1
        lack = f"indices {names} have" if of_several else f"index {names} has"
        whose = "their" if of_several else "its"
        return (
            f"{lack} no esdedup fields, and {whose} documents are left out: run `esdedup attach -i"
            f" {self.name}` and `esdedup backfill -i {self.name}`"
        )


@dataclass(frozen=True)
class Result(Tabular):
    """The answer to one query: iterates over its matches, and is a table of them.

    matches: the most similar first, or those that cover most words of the query, ties by id.
    candidates: number of documents verified.
    truncated: more candidates shared enough tokens than were fetched, so a match may be missing.
    recall: expected share found of the documents at the threshold or, of the nearest, at the last
    match. If truncated, a lower bound: the share expected to share more tokens than the last
    candidate. None for Hamming distance, which finds all, for fewer nearest documents than
    requested, for more copies of a text without words than were fetched, and if tokens are stopped,
    as documents that share only these are missing.
    asked: bands, segments or single values that were looked up; 0 for a text without any shingle.
    stopped: bands or segments that were skipped, because buckets are stopped or too large.
    total: number of verified matches, of which `matches` holds the first k; None for the nearest.
    guarantee: words of a passage: all documents that share one as long were compared. None for
    another measure, if truncated, and if tokens are stopped.
    unattached: indices behind the name whose documents could not match.
    """

    matches: list[Match]
    candidates: int
    truncated: bool
    recall: float | None = None
    asked: int = 0
    stopped: int = 0
    total: int | None = None
    guarantee: int | None = None
    unattached: Unattached = field(default_factory=Unattached)

    columns: ClassVar[dict[str, str]] = {
        "id": "string", "similarity": "double", "distance": "int64", "matched": "int64",
    }  # fmt: skip

    def __len__(self) -> int:
        return len(self.matches)

    def __iter__(self) -> Iterator[Match]:
        return iter(self.matches)

    @overload
    def __getitem__(self, row: int) -> Match: ...
    @overload
    def __getitem__(self, row: slice) -> list[Match]: ...
    def __getitem__(self, row: int | slice) -> Match | list[Match]:
        return self.matches[row]

    def __repr__(self) -> str:
        return f"<Result: {len(self)} matches of {self.candidates} candidates>"

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        return (
            (match.id, match.similarity, match.distance, match.matched) for match in self.matches
        )

    @property
    def blind(self) -> bool:
        """Return whether nothing was looked up, because all tokens of the text are stopped."""
        return self.stopped > 0 and self.asked == 0


@dataclass(frozen=True)
class Pair:
    """Two similar documents.

    left: the id that comes first in order; of equal texts, the earlier document.
    right: the other id.
    value: exact Jaccard similarity, Hamming distance in bits, or the larger share of either
    document in passages.
    measure: of the value.
    equal: the normalised texts are equal.
    of_left, of_right: the share of the words of each document that the other one holds in passages,
    0 to 1; None for another measure.
    left_index, right_index: the index that `left` or `right` begins with, as several indices behind
    the name have the id ("offers-000001/1"), or the file; None if only one has it.
    in_against: the right document is one of `against`.
    left_source, right_source: the values of the fields to show of each document, None for a missing
    one; None if no fields are to be shown.
    """

    left: str
    right: str
    value: float
    measure: Measure
    equal: bool = False
    of_left: float | None = None
    of_right: float | None = None
    left_index: str | None = None
    right_index: str | None = None
    in_against: bool = False
    left_source: Fields | None = None
    right_source: Fields | None = None

    @property
    def similarity(self) -> float | None:
        """The similarity, or by passages the larger share; None by Hamming distance."""
        return self.measure.similarity(self.value)

    @property
    def distance(self) -> int | None:
        """The Hamming distance in bits; None for another measure."""
        return self.measure.distance(self.value)


@dataclass(frozen=True)
class Statistics:
    """Numbers of documents, and bytes on disk: of primaries, or the used ones of a local file.

    sketched: with tokens of this index's scheme, including empty texts. other: with other tokens.
    unattached: indices whose documents have no tokens, because they lack the fields.
    """

    documents: int
    sketched: int
    other: int
    bytes: int
    store: str
    unattached: Unattached = field(default_factory=Unattached, repr=False)


_DIGITS = re.compile("([0-9]+)")


def natural(id: str) -> tuple[tuple[str | tuple[int, str], ...], str]:
    """Return a key that orders ids as people do: "a2" before "a10"."""
    # Every second part is a number: its length and digits, as Python limits the digits of an int.
    if id.isdecimal() and id.isascii():
        # Most ids are like this; it takes a fifth of the time.
        number = id.lstrip("0")
        return ("", (len(number), number), ""), id
    parts: list[str | tuple[int, str]] = list(_DIGITS.split(id))
    digits = [number.lstrip("0") for number in parts[1::2]]  # type: ignore[union-attr]
    parts[1::2] = [(len(number), number) for number in digits]
    # The id itself distinguishes "a1" from "a01".
    return tuple(parts), id


def grouped(
    items: Iterable[Each], weigh: Callable[[Each], int], size: int, most: int
) -> Iterator[list[Each]]:
    """Yield items in groups of at most a total size and number, or one item each.

    weigh: returns the size of an item. If the items break off, the error comes after the last
    group.
    """
    group: list[Each] = []
    total = 0
    try:
        for item in items:
            weight = weigh(item)
            if group and (total + weight > size or len(group) == most):
                yield group
                group, total = [], 0
            group.append(item)
            total += weight
    except Exception:
        if group:
            yield group
        raise
    if group:
        yield group
