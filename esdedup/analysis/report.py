"""What an index holds of duplicates: the numbers, and examples that people can look at.

Of the documents' texts only those of examples are read, so that memory grows with the documents as
it does in `clustering.find_groups`, and with no text.

Documents of groups as examples: how two differ, and how a text begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from esdedup.analysis.distribution import (
    BINS,
    Bin,
    SizeRange,
    bins_of_distances,
    bins_of_similarities,
    distance_bins,
    similarity_bins,
    size_ranges,
    spread,
)
from esdedup.analysis.sampling import sample_neighbours
from esdedup.dedup.checkpoint import OnStep, WorkFolder
from esdedup.dedup.groups import Grouping, Groups, find_groups
from esdedup.exceptions import UsageError
from esdedup.ingest.refresh import digests
from esdedup.models import Statistics
from esdedup.search.buckets import Capped
from esdedup.search.hot_buckets import HotBuckets, hot_buckets
from esdedup.search.limits import distance_for, require_simhash
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64
from esdedup.text.highlight import Excerpt, differing, excerpts, mark_shared

_EXCERPT = 2_400
_LONGEST = 1_000_000
"""Characters: shown of a text, and of the longest that is compared with another to be shown."""
_SNIPPET = 200


@dataclass(frozen=True)
class LargeGroup:
    """A group: the document that stays, the beginning of its text, and how many there are.

    farthest: similarity, or distance, of the one that is least like it.
    """

    id: str
    text: str
    documents: int
    farthest: float


@dataclass(frozen=True)
class ExampleText:
    """A document of an example. characters: of its whole text. original: not normalised."""

    id: str
    pieces: tuple[Excerpt, ...]
    characters: int
    original: bool


@dataclass(frozen=True)
class Example:
    """A duplicate and the document that stays; value: their similarity, or distance.

    same_words: no word differs, only punctuation, or how often something is said.
    """

    stays: ExampleText
    goes: ExampleText
    value: float
    same_words: bool


def example(store: Store, meta: IndexMeta, groups: Groups, row: int) -> Example | None:
    """A row and the one that stays; None where a text is not the one that was grouped."""
    rows = int(groups.representative[row]), row
    left, right = (groups.ids[each] for each in rows)
    texts = _texts(store, meta, [left, right])
    if len(texts) < 2 or max(map(len, texts.values())) > _LONGEST:
        return None
    if digests([texts[left], texts[right]], meta) != [f"{groups.digests[r]:016x}" for r in rows]:
        return None
    scheme = meta.scheme
    both = mark_shared(
        (texts[left], texts[right]), scheme.normalisation, scheme.shingling, scheme.seed
    )
    stays, goes = (
        ExampleText(id, excerpts(text, _EXCERPT), len(texts[id]), text.original)
        for id, text in zip((left, right), both, strict=True)
    )
    return Example(stays, goes, float(groups.value[row]), not any(map(differing, both)))


def largest_groups(
    store: Store, meta: IndexMeta, groups: Groups, count: int
) -> tuple[LargeGroup, ...]:
    """The largest groups, at most so many, the largest first."""
    counts = np.bincount(groups.representative, minlength=len(groups.ids))
    heads = [row for row in np.argsort(-counts, kind="stable")[:count].tolist() if counts[row] > 1]
    texts = {}
    for row in heads:
        # One by one, because a text may be large.
        found = _texts(store, meta, [groups.ids[row]])
        texts[row] = snippet(found.get(groups.ids[row], ""))
    worst = np.nanmax if groups.grouping.by_distance else np.nanmin
    return tuple(
        LargeGroup(
            groups.ids[row],
            texts[row],
            int(counts[row]),
            float(worst(groups.value[groups.representative == row])),
        )
        for row in heads
    )


def snippet(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 2 * _SNIPPET].split())
    return line if len(line) <= _SNIPPET and len(text) <= 2 * _SNIPPET else f"{line[:_SNIPPET]}…"


def _texts(store: Store, meta: IndexMeta, ids: Sequence[str]) -> dict[str, str]:
    found = {
        document.id: value_at(document.source, meta.text_field)
        for document in store.get(ids, [meta.text_field])
    }
    return {id: text for id, text in found.items() if isinstance(text, str)}


_LARGEST = 10
"""Groups that are shown."""
_FEWEST = 10
"""Documents of a bucket that is called hot: any two may share a token by chance."""


@dataclass(frozen=True)
class Wanted:
    """How much is wanted: pairs as examples, hot buckets, documents of the sample for `pairs`."""

    examples: int = 8
    hot: int = 10
    sample: int = 1_000


@dataclass(frozen=True)
class AllPairs:
    """How alike any two documents are, by a random sample: pairs in bins from 0 to 1, expected.

    truncated: documents of the sample that had more candidates than were looked at.
    """

    bins: tuple[Bin, ...]
    sampled: int
    truncated: int


@dataclass(frozen=True)
class Report:
    """What is known of an index and its groups of duplicates.

    grouped: documents with tokens, which were grouped. sizes: how many groups there are of each
    size of two or more. duplicates: documents that do not stay. copies: those of them whose
    normalised text another document of the group has too. equal: those whose text is that of the
    one that stays. chained: those less like it than was asked for. bins: of the others than equal
    ones, the least like first. examples_left_out: their texts were gone, changed, or too long.
    pairs: None where they were not asked for or can't be told.
    """

    statistics: Statistics
    grouping: Grouping
    grouped: int
    sizes: Mapping[int, int]
    ranges: tuple[SizeRange, ...]
    duplicates: int
    copies: int
    equal: int
    chained: int
    bins: tuple[Bin, ...]
    largest: tuple[LargeGroup, ...]
    examples: tuple[Example, ...]
    examples_left_out: int
    hot: HotBuckets
    pairs: AllPairs | None
    capped: Capped
    recall: float

    @property
    def groups(self) -> int:
        """Groups of two or more."""
        return sum(self.sizes.values())

    @property
    def share(self) -> float:
        """Of all documents, those that do not stay."""
        return self.duplicates / max(1, self.statistics.documents, self.grouped)

    @property
    def saved(self) -> int:
        """Bytes that go with the duplicates, if they are as large as documents are on average."""
        return round(self.statistics.bytes * self.share)

    @property
    def shown(self) -> int:
        """Documents whose text, or some of it, is in here."""
        ids = {each.id for each in self.largest} | {each.id for each in self.hot.buckets}
        for each in self.examples:
            ids |= {each.stays.id, each.goes.id}
        return len(ids)


def report(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    wanted: Wanted = Wanted(),
    *,
    work: WorkFolder | None = None,
    on_step: OnStep | None = None,
) -> Report:
    """What an index holds of duplicates; nothing is changed.

    work: as in `find_groups`. Raises what that raises, and the errors of the store.
    """
    step = on_step or (lambda *_: None)
    statistics = store.statistics(meta)
    groups = find_groups(store, meta, grouping, work=work, on_step=on_step)
    rows = np.arange(len(groups.ids))
    followers = rows[groups.representative != rows]
    same = groups.digests[followers] == groups.digests[groups.representative[followers]]
    unlike = followers[~same]
    empty, bin_of = _binned(meta, groups, unlike)
    counts = np.bincount(bin_of, minlength=len(empty)).tolist()
    bins = tuple(replace(each, count=count) for each, count in zip(empty, counts, strict=True))
    chosen = unlike[spread(bin_of, groups.representative[unlike], wanted.examples)]
    examples = [example(store, meta, groups, row) for row in _by_likeness(groups, chosen)]
    step("Examples", len(examples), len(examples))
    sizes, numbers = np.unique(groups.sizes, return_counts=True)
    return Report(
        statistics=statistics,
        grouping=grouping,
        grouped=len(groups.ids),
        sizes=dict(zip(sizes.tolist(), numbers.tolist(), strict=True)),
        ranges=tuple(size_ranges(groups.sizes)),
        duplicates=followers.size,
        copies=_copies(groups, followers),
        equal=int(same.sum()),
        chained=int(bins[0].count),
        bins=bins,
        largest=largest_groups(store, meta, groups, _LARGEST),
        examples=tuple(each for each in examples if each is not None),
        examples_left_out=sum(each is None for each in examples),
        hot=_hot(store, meta, wanted.hot),
        pairs=_all_pairs(store, meta, wanted.sample, step),
        capped=groups.capped,
        recall=groups.recall,
    )


def _binned(meta: IndexMeta, groups: Groups, rows: I64) -> tuple[list[Bin], I64]:
    """Empty bins, and which of them each row is in."""
    grouping, values = groups.grouping, groups.value[rows]
    if grouping.by_distance:
        layout = require_simhash(meta.scheme)
        bins = distance_bins(distance_for(layout, grouping.limits.distance), layout.bits)
        return bins, bins_of_distances(values, bins)
    bins = similarity_bins(1.0 if grouping.exact else grouping.limits.least_similarity)
    return bins, bins_of_similarities(values, bins)


def _copies(groups: Groups, followers: I64) -> int:
    members = np.union1d(followers, groups.representative[followers])
    return int(members.size - np.unique(groups.digests[members]).size)


def _by_likeness(groups: Groups, rows: I64) -> list[int]:
    """Rows, the most like the one that stays first."""
    value = groups.value[rows]
    order = np.argsort(value if groups.grouping.by_distance else -value, kind="stable")
    found: list[int] = rows[order].tolist()
    return found


def _hot(store: Store, meta: IndexMeta, count: int) -> HotBuckets:
    if not count:
        return HotBuckets([], 0, 0)
    found = hot_buckets(store, meta, count, over=_FEWEST - 1)
    return replace(
        found, buckets=[replace(each, text=snippet(each.text)) for each in found.buckets]
    )


def _all_pairs(store: Store, meta: IndexMeta, count: int, step: OnStep) -> AllPairs | None:
    if meta.scheme.minhash is None or min(count, store.statistics(meta).sketched) < 2:
        return None
    done = 0

    def on_query(asked: int) -> None:
        nonlocal done
        done += asked
        step("Comparing a sample", done, count)

    try:
        found = sample_neighbours(store, meta, count, on_query=on_query)
    except UsageError:
        # Tokens without texts: their documents were changed since.
        return None
    # Each pair is a neighbour to both.
    pairs = found.neighbours.histogram(BINS) * found.neighbours.documents / 2
    bins = (Bin(at / BINS, (at + 1) / BINS, n) for at, n in enumerate(pairs.tolist()))
    return AllPairs(tuple(bins), found.sampled, found.truncated)
