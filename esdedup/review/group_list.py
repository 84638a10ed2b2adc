"""The list of groups: their titles, words and values of fields, filtered, sorted, and looked at."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import xxhash

from esdedup.groups.groups import Groups
from esdedup.index import Index
from esdedup.review.looked_at import LookedAt
from esdedup.review.shown.texts import ImageField, beginning_of
from esdedup.runs.run import OnStep
from esdedup.stores.fields import value_at
from esdedup.text.arrays import F64, I64

_SNIPPET = 200
"""Characters of the beginning of a text."""
_LONGEST_VALUE = 60
"""Characters of a value that groups can be filtered by."""
_MOST_VALUES = 30
"""Different values of a field that groups can be filtered by."""
_MOST_MEMBERS = 100
"""Documents of a group whose values are read."""
_READ_AT_ONCE = 500
_MOST_READ = 200_000
"""Documents that are read when groups are found. Those of further groups are read when shown."""


@dataclass(frozen=True)
class GroupText:
    """What the list shows of a group beside its numbers.

    title: the first shown field of the representative; "" without one.
    words: the beginning of the representative's text.
    values: values of each shown field among the group's documents.
    """

    title: str
    words: str
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def contains(self, words: str) -> bool:
        """Return whether the title or the words contain a text, in any case."""
        folded = words.casefold()
        return folded in self.title.casefold() or folded in self.words.casefold()


class ListedGroup(NamedTuple):
    """A group in the list.

    row: of its representative.
    head: id of its representative.
    documents: their number.
    farthest: its least similar value, in words.
    text: its title and its words.
    looked_at: whether it was accepted.
    """

    row: int
    head: str
    documents: int
    farthest: str
    text: GroupText
    looked_at: bool


@dataclass(frozen=True)
class Filters:
    """Which groups are listed, and in which order.

    sort: "size", the largest first, or "similarity", the least similar first.
    least: the least number of documents.
    below: the least similar document is less similar than this; None for all.
    words: that the title or the first words contain.
    values: the value of a field that a document of the group has, by field.
    remaining: only groups that were not looked at.
    joined: only groups with documents below the threshold, which a judgement joined.
    """

    sort: str = "size"
    least: int = 2
    below: float | None = None
    words: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    remaining: bool = False
    joined: bool = False

    @property
    def by_text(self) -> bool:
        """Return whether the texts of all groups are needed."""
        return bool(self.words or self.values)

    @property
    def query(self) -> str:
        """The filters as the query of an address; "" for all groups by size."""
        return urlencode(self.parameters)

    @property
    def parameters(self) -> dict[str, object]:
        """The values of an address, of the filters that differ from those of all groups."""
        present: dict[str, object] = {f"in.{name}": value for name, value in self.values.items()}
        if self.sort != "size":
            present["sort"] = self.sort
        if self.least > 2:
            present["least"] = self.least
        if self.below is not None:
            present["below"] = f"{self.below:g}"
        if self.words:
            present["words"] = self.words
        if self.remaining:
            present["todo"] = 1
        if self.joined:
            present["joined"] = 1
        return present


@dataclass(frozen=True, eq=False)
class GroupNumbers:
    """The numbers of all groups, in the order of `Groups.heads`.

    heads: rows of the representatives, shape (groups,).
    sizes: numbers of documents, shape (groups,).
    farthest: the least similar values, shape (groups,).
    nearness: of these, greater for more similar documents, shape (groups,).
    joined: whether a judgement joined a document that is less similar than the threshold, likewise.
    keys: a digest of the documents and texts of each group.
    """

    heads: I64
    sizes: I64
    farthest: F64
    nearness: F64
    joined: I64
    keys: list[str]

    @staticmethod
    def of(groups: Groups) -> "GroupNumbers":
        """Compute the numbers of groups."""
        documents = len(groups.ids)
        rows, representative = groups.duplicate_rows, groups.representative
        nearness = np.full(documents, np.inf)
        np.minimum.at(nearness, representative[rows], groups.measure.nearnesses(groups.value)[rows])
        joined = np.bincount(representative[groups.unlike], minlength=documents)
        in_groups = np.union1d(rows, groups.heads)
        hashes = np.zeros(documents, np.uint64)
        hashes[in_groups] = [
            xxhash.xxh3_64_intdigest(groups.ids[row].encode("utf-8", "surrogatepass"))
            for row in in_groups.tolist()
        ]
        hashes[in_groups] ^= groups.digests[in_groups, 0]
        sums = np.zeros(documents, np.uint64)
        np.add.at(sums, representative[in_groups], hashes[in_groups])
        heads = groups.heads
        # A value is also the nearness of its nearness.
        farthest = groups.measure.nearnesses(nearness[heads])
        keys = [f"{key:016x}" for key in sums[heads].tolist()]
        return GroupNumbers(heads, groups.sizes, farthest, nearness[heads], joined[heads], keys)


@dataclass(eq=False)
class GroupList:
    """The groups as a list.

    index: of the documents.
    show: fields that are shown beside texts; the first one is the title.
    looked_at: groups that were accepted.
    """

    index: Index
    show: Sequence[str]
    looked_at: LookedAt
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _texts: dict[tuple[str, int], GroupText] = field(default_factory=dict)
    _numbers: tuple[Groups, GroupNumbers] | None = None

    @property
    def fields(self) -> list[str]:
        """The shown fields that are no images."""
        return [name for name in self.show if not isinstance(name, ImageField)]

    def numbers(self, groups: Groups) -> GroupNumbers:
        """Return the numbers of groups, which are computed once."""
        with self._turn:
            if self._numbers is None or self._numbers[0] is not groups:
                self._numbers = groups, GroupNumbers.of(groups)
            return self._numbers[1]

    def read(self, index: Index, groups: Groups, on_step: OnStep) -> None:
        """Read the texts of groups that were just found, so that pages need not.

        index: with the patience of a job.
        """
        with self._turn:
            self._texts.clear()
        numbers = self.numbers(groups)
        most = int(np.searchsorted(numbers.sizes.cumsum(), _MOST_READ, "right"))
        for start in range(0, most, _READ_AT_ONCE):
            on_step("Reading groups", start, most)
            self._read(index, groups, numbers.heads[start : min(most, start + _READ_AT_ONCE)])

    def texts(self, groups: Groups, heads: I64) -> list[GroupText]:
        """Return the texts of groups, by the rows of their representatives."""
        numbers = self.numbers(groups)
        size_by_head = dict(zip(numbers.heads.tolist(), numbers.sizes.tolist(), strict=True))
        keys = [(groups.ids[head], size_by_head[head]) for head in heads.tolist()]
        missing = [
            head for head, key in zip(heads.tolist(), keys, strict=True) if key not in self._texts
        ]
        for start in range(0, len(missing), _READ_AT_ONCE):
            self._read(self.index, groups, np.array(missing[start : start + _READ_AT_ONCE]))
        return [self._texts[key] for key in keys]

    def _read(self, index: Index, groups: Groups, heads: I64) -> None:
        """Read the texts and values of some groups."""
        ids, store, meta = groups.ids, index.store, index.meta
        names = self.fields
        head_ids = [ids[head] for head in heads.tolist()]
        documents = store.get(head_ids, [*meta.text_fields, *names])
        source_by_id = {document.id: document.source for document in documents}
        rows = groups.duplicate_rows
        rows = rows[np.isin(groups.representative[rows], heads)]
        sizes = np.bincount(groups.representative[rows], minlength=len(ids)) + 1
        values: dict[int, dict[str, set[str]]] = {head: {} for head in heads.tolist()}
        if names:
            read = [row for head in heads.tolist() for row in _first_members(groups, rows, head)]
            for start in range(0, len(read), _READ_AT_ONCE):
                head_by_id = {
                    ids[row]: int(groups.representative[row])
                    for row in read[start : start + _READ_AT_ONCE]
                }
                for document in store.get([*head_by_id], names):
                    if (head := head_by_id.get(document.id)) is not None:
                        _collect(values[head], document.source, names)
        for head, id in zip(heads.tolist(), head_ids, strict=True):
            source = source_by_id.get(id, {})
            _collect(values[head], source, names)
            title = value_at(source, names[0]) if names else None
            text = meta.shown_text(source)
            group_text = GroupText(
                "" if title is None else str(title),
                beginning_of(text, _SNIPPET),
                {name: frozenset(values) for name, values in values[head].items()},
            )
            with self._turn:
                self._texts[id, int(sizes[head])] = group_text

    def choices(self) -> dict[str, list[str]]:
        """Return the values of each shown field that groups can be filtered by."""
        values: dict[str, set[str]] = {}
        with self._turn:
            for text in self._texts.values():
                for name, of_group in text.values.items():
                    of_field = values.setdefault(name, set())
                    if len(of_field) <= _MOST_VALUES:
                        of_field |= of_group
        return {
            name: sorted(of_field)
            for name, of_field in values.items()
            if 1 < len(of_field) <= _MOST_VALUES
        }

    def chosen(self, groups: Groups, filters: Filters) -> I64:
        """Return the positions in `Groups.heads` of the groups that are listed, in order."""
        numbers = self.numbers(groups)
        listed = numbers.sizes >= filters.least
        if filters.below is not None:
            below = groups.measure.nearness(filters.below)
            listed &= numbers.nearness < below
        if filters.joined:
            listed &= numbers.joined > 0
        if filters.remaining:
            listed &= ~self.looked_at.among(numbers.keys)
        positions = np.flatnonzero(listed)
        if filters.by_text:
            texts = self.texts(groups, numbers.heads[positions])
            matching = [_matches(text, filters) for text in texts]
            positions = positions[np.array(matching, bool)]
        if filters.sort == "similarity":
            positions = positions[np.argsort(numbers.nearness[positions], kind="stable")]
        return positions

    def listed(self, groups: Groups, positions: I64) -> list[ListedGroup]:
        """Return groups as the list shows them. positions: in `Groups.heads`."""
        numbers = self.numbers(groups)
        heads = numbers.heads[positions]
        looked_at = self.looked_at.among([numbers.keys[position] for position in positions])
        columns = (
            heads.tolist(),
            numbers.sizes[positions].tolist(),
            numbers.farthest[positions].tolist(),
            self.texts(groups, heads),
            looked_at.tolist(),
        )
        return [
            ListedGroup(
                head, groups.ids[head], size, groups.measure.in_words(farthest), text, accepted
            )
            for head, size, farthest, text, accepted in zip(*columns, strict=True)
        ]

    def key(self, groups: Groups, head: int) -> str:
        """Return the digest of a group, given by the row of its representative."""
        numbers = self.numbers(groups)
        return numbers.keys[int(np.flatnonzero(numbers.heads == head)[0])]


def _first_members(groups: Groups, rows: I64, head: int) -> list[int]:
    """Return the rows of a group's first duplicates. rows: duplicates, ascending."""
    members: list[int] = rows[groups.representative[rows] == head][:_MOST_MEMBERS].tolist()
    return members


def _matches(text: GroupText, filters: Filters) -> bool:
    has_values = all(value in text.values.get(name, ()) for name, value in filters.values.items())
    return has_values and text.contains(filters.words)


def _collect(
    values: dict[str, set[str]], source: Mapping[str, object], names: Sequence[str]
) -> None:
    """Add the values of the fields of a document, as far as groups can be filtered by them."""
    for name in names:
        value = value_at(source, name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str | int) and 0 < len(str(item)) <= _LONGEST_VALUE:
                values.setdefault(name, set()).add(str(item))
