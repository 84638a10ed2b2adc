"""Reports the duplicates of an index: numbers, and examples that people can look at.

Only the texts of examples are read. So memory grows with the documents as in `groups.find_groups`,
and not with their texts.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from esdedup.analysis import distribution
from esdedup.analysis.describe import describe
from esdedup.analysis.distribution import BINS, Bin, SizeRange, bars
from esdedup.analysis.html import page
from esdedup.analysis.sampling import sample_neighbours
from esdedup.analysis.templates import Template, in_group, largest, warning_of
from esdedup.analysis.to_json import object_of
from esdedup.arguments import check_fields
from esdedup.exceptions import UsageError
from esdedup.groups.constraints import JudgedCounts
from esdedup.groups.groups import Grouping, Groups, find_groups, joined_though_unlike
from esdedup.ingest.renew import digests
from esdedup.models import Statistics
from esdedup.pairing.scan import OnStep, WorkFolder
from esdedup.pairing.verify import texts_in
from esdedup.search.buckets import Capped
from esdedup.search.hot_buckets import HotBuckets, hot_buckets
from esdedup.search.warnings import cut_buckets, lacking_recall, without_tokens
from esdedup.sketch.scheme import Scheme
from esdedup.stores.base import Store
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64
from esdedup.text.highlight import Excerpt, differing, excerpts, mark_shared

_EXCERPT = 2_400
_LONGEST = 1_000_000
"""Characters: shown of a text, and of the longest text that is compared to be shown."""
_SNIPPET = 200
_FEWEST = 10
"""Documents in a hot bucket, at least: any two may share a token by chance."""


@dataclass(frozen=True)
class LargeGroup:
    """A large group. text: beginning of the representative's.

    farthest: similarity, or distance, of the duplicate that is least like the representative.
    template: that its documents seem to follow, or None.
    """

    representative: str
    text: str
    documents: int
    farthest: float
    template: Template | None


@dataclass(frozen=True)
class ExampleText:
    """A document of an example.

    characters: of its whole text. original: False if it is shown normalised.
    """

    id: str
    characters: int
    original: bool
    pieces: tuple[Excerpt, ...] = field(repr=False)


@dataclass(frozen=True)
class Example:
    """A duplicate beside the representative of its group.

    value: their similarity, or distance. same_words: the texts differ only in punctuation, or in
    how often they repeat something.
    """

    representative: ExampleText
    duplicate: ExampleText
    value: float
    same_words: bool


@dataclass(frozen=True)
class Wanted:
    """Parts of a report: numbers of examples, of hot buckets, and of documents to sample."""

    examples: int = 8
    hot: int = 10
    sample: int = 1_000

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class AllPairs:
    """Estimated similarities of all pairs of documents, by a random sample.

    bins: expected pairs, from 0 to 1. sampled: documents of the sample. truncated: those of them
    that had more candidates than were verified.
    """

    bins: tuple[Bin, ...]
    sampled: int
    truncated: int


@dataclass(frozen=True)
class Report:
    """The groups of duplicates of an index in numbers, with examples.

    made: when, in UTC. documents: with tokens, which were grouped. groups: of two or more. sizes:
    number of groups by size. duplicates: documents that are not representatives. copies: duplicates
    whose normalised text another document of the group has too. equal: those with the text of the
    representative. chained: those less like it than the threshold. bins: similarities or distances
    to the representative of all but the equal ones, the least like first. examples_left_out: their
    texts were gone, changed, or too long. pairs: None if not asked for, or if nothing can be
    sampled. capped_buckets: buckets not compared in full; capped_largest: documents of the largest
    of them. expected_recall: share of pairs at the threshold that is found. read, bands, rows:
    as of `Basis`. stopped_tokens: in the index's stop list. judged: counts of the judgements that
    the groups are formed by.
    """

    made: str
    text_fields: tuple[str, ...]
    scheme: Scheme = field(repr=False)
    grouping: Grouping
    statistics: Statistics
    documents: int
    groups: int
    duplicates: int
    copies: int
    equal: int
    chained: int
    sizes: Mapping[int, int]
    ranges: tuple[SizeRange, ...]
    bins: tuple[Bin, ...]
    largest: tuple[LargeGroup, ...]
    examples: tuple[Example, ...]
    examples_left_out: int
    hot: HotBuckets
    pairs: AllPairs | None
    capped_buckets: int
    capped_largest: int
    expected_recall: float | None
    read: str
    bands: int | None
    rows: int | None
    stopped_tokens: int
    judged: JudgedCounts

    @property
    def scheme_id(self) -> str:
        """The id of the index's scheme."""
        return self.scheme.id

    @property
    def share(self) -> float:
        """Share of duplicates among all documents."""
        return self.duplicates / max(1, self.statistics.documents, self.documents)

    @property
    def bytes_saved(self) -> int:
        """Estimated size of the duplicates, if they are as large as documents are on average."""
        return round(self.statistics.bytes * self.share)

    @property
    def texts_shown(self) -> int:
        """Number of documents whose text, or a part of it, is in the report."""
        ids = {each.representative for each in self.largest} | {b.id for b in self.hot.buckets}
        for group in self.largest:
            ids |= set(group.template.ids) if group.template else set()
        for each in self.examples:
            ids |= {each.representative.id, each.duplicate.id}
        return len(ids)

    @property
    def options(self) -> str:
        """The grouping as options of the command line."""
        grouping = self.grouping
        if grouping.exact:
            return f"--exact --keep {grouping.keep}"
        split = " --split-templates" if grouping.split_templates else ""
        limits = grouping.limits
        sketch = "" if limits.sketch is None else f" --sketch {limits.sketch}"
        limit = f"--threshold {limits.threshold:g} --recall {limits.wanted_recall:g} "
        if grouping.by_distance:
            limit = "" if limits.distance is None else f"--distance {limits.distance} "
        return (
            f"--method {grouping.method}{sketch} {limit}"
            f"--keep {grouping.keep} --max-per-bucket {limits.max_per_bucket}{split}"
        )

    @property
    def warnings(self) -> list[str]:
        """Sentences to read before the rest is believed."""
        grouping, limits = self.grouping, self.grouping.limits
        capped = Capped(self.capped_buckets, self.capped_largest)
        found = [without_tokens(self.statistics), cut_buckets(capped, limits.max_per_bucket)]
        if not grouping.exact and not grouping.by_distance:
            found.append(lacking_recall(self.expected_recall, limits))
        if self.stopped_tokens and not grouping.exact:
            tokens = _counted(self.stopped_tokens, "token is", "tokens are")
            found.append(
                f"{tokens} in the index's stop list: documents that share no other token were not"
                " compared"
            )
        if str(self.judged):
            found.append(f"Judged pairs: {self.judged}")
        if self.chained:
            chained = _counted(self.chained, "duplicate is", "duplicates are")
            found.append(f"{chained} {joined_though_unlike(grouping, self.judged)}")
        for group in self.largest:
            if group.template is not None:
                found.append(warning_of(group.representative, group.documents, group.template))
        if self.examples_left_out:
            examples = _counted(self.examples_left_out, "example is", "examples are")
            found.append(
                f"{examples} left out: a text is gone, has changed since its tokens were made"
                " (esdedup check), or is longer than a million characters"
            )
        if self.pairs is not None and self.pairs.truncated:
            truncated = self.pairs.truncated
            sampled = _counted(truncated, "sampled document has", "sampled documents have")
            found.append(
                f"{sampled} more candidates than were verified: the estimate for all pairs lacks"
                " pairs of little similarity"
            )
        return [each for each in found if each is not None]

    def to_json(self) -> dict[str, Any]:
        """A JSON object of everything but the texts of examples."""
        return object_of(self)

    def html(self, index: str = "the index") -> str:
        """A page with the texts of examples, one file that loads nothing. index: for the title."""
        scheme = describe(self.scheme, max(1, self.statistics.documents))
        return page("report", report=self, index=index, bars=bars, scheme=scheme)

    def facts(self) -> list[tuple[str, str, str]]:
        """The main figures in words: (name, value, remark)."""
        size, saved = _megabytes(self.statistics.bytes), _megabytes(self.bytes_saved)
        compared = f"{self.documents:,} with tokens, which were compared"
        return [
            ("documents", f"{self.statistics.documents:,}", compared),
            ("groups", f"{self.groups:,}", "of two documents or more; one of each stays"),
            ("duplicates", f"{self.duplicates:,}", f"{self.share:.1%} of all documents"),
            ("copies of equal text", f"{self.copies:,}", "of the duplicates, once normalised"),
            ("dedup would save", f"about {saved}", f"of {size}, if all documents are of one size"),
        ]

    def in_words(self, value: float) -> str:
        """A similarity, or a distance, as text."""
        if self.grouping.by_distance:
            return f"{value} bit{'' if value == 1 else 's'}"
        # Only equal texts are shown as 1.
        return ">0.999" if 0.9995 <= value < 1.0 else f"{value:.3f}"


def report(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    wanted: Wanted = Wanted(),
    *,
    work: WorkFolder | None = None,
    on_step: OnStep | None = None,
) -> Report:
    """Group the documents of an index and reports on the groups; changes nothing.

    work: as in `find_groups`. Raises the errors of that, and of the store.
    """
    step = on_step or (lambda *_: None)
    statistics = store.statistics(meta)
    groups = find_groups(store, meta, grouping, work=work, on_step=on_step)
    rows = groups.duplicate_rows
    heads = groups.representative[rows]
    same = (groups.digests[rows] == groups.digests[heads]).all(axis=1)
    copied = np.union1d(rows, heads)
    unlike = rows[~same]
    bins, bin_of = _binned(meta, groups, unlike)
    group_of = groups.representative[unlike]
    chosen = unlike[distribution.spread(bin_of, group_of, wanted.examples)]
    value = groups.value[chosen]
    most_like_first = np.argsort(value if grouping.by_distance else -value, kind="stable")
    examples = [_example(store, meta, groups, row) for row in chosen[most_like_first].tolist()]
    step("Examples", len(examples), len(examples))
    hot = HotBuckets([], 0, 0)
    if wanted.hot:
        hot = hot_buckets(store, meta, wanted.hot, over=_FEWEST - 1)
    short = [replace(each, text=_snippet(each.text)) for each in hot.buckets]
    sizes, numbers = np.unique(groups.sizes, return_counts=True)
    return Report(
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        text_fields=meta.text_fields,
        scheme=meta.scheme,
        grouping=grouping,
        statistics=statistics,
        documents=len(groups.ids),
        groups=groups.sizes.size,
        duplicates=rows.size,
        copies=int(copied.size - len(np.unique(groups.digests[copied], axis=0))),
        equal=int(same.sum()),
        chained=int(bins[0].count),
        sizes=dict(zip(sizes.tolist(), numbers.tolist(), strict=True)),
        ranges=tuple(distribution.size_ranges(groups.sizes)),
        bins=bins,
        largest=_largest_groups(store, meta, groups),
        examples=tuple(each for each in examples if each is not None),
        examples_left_out=sum(each is None for each in examples),
        hot=replace(hot, buckets=short),
        pairs=_all_pairs(store, meta, wanted.sample, step),
        capped_buckets=groups.capped.buckets,
        capped_largest=groups.capped.largest,
        expected_recall=groups.recall,
        **asdict(groups.basis),
        stopped_tokens=len(meta.stop),
        judged=groups.judged,
    )


def _binned(meta: IndexMeta, groups: Groups, rows: I64) -> tuple[tuple[Bin, ...], I64]:
    """Bins, and the number of the bin of each row."""
    limits, values = groups.grouping.limits, groups.value[rows]
    if groups.grouping.by_distance:
        bits = 64 * meta.scheme.sketch(limits.sketch).width
        return distribution.distances_in_bins(values, limits.distance or 0, bits)
    threshold = 1.0 if groups.grouping.exact else limits.least_similarity
    return distribution.similarities_in_bins(values, threshold)


def _example(store: Store, meta: IndexMeta, groups: Groups, row: int) -> Example | None:
    """A row and its representative, or None if a text is not the one that was grouped."""
    rows = int(groups.representative[row]), row
    ids = [groups.ids[each] for each in rows]
    texts, scheme = texts_in(store, meta.text_fields)(ids), meta.scheme
    if max(map(len, texts)) > _LONGEST:
        return None
    if digests(texts, meta) != [groups.digest(each) for each in rows]:
        return None
    both = mark_shared((texts[0], texts[1]), scheme.normalisation, scheme.shingling, scheme.seed)
    representative, duplicate = (
        ExampleText(id, len(text), marked.original, excerpts(marked, _EXCERPT))
        for id, text, marked in zip(ids, texts, both, strict=True)
    )
    same_words = not any(map(differing, both))
    return Example(representative, duplicate, _exactly(groups, groups.value[row]), same_words)


def _largest_groups(store: Store, meta: IndexMeta, groups: Groups) -> tuple[LargeGroup, ...]:
    texts_of = texts_in(store, meta.text_fields)
    worst = np.nanmax if groups.grouping.by_distance else np.nanmin
    found = []
    for row, documents in zip(*(each.tolist() for each in largest(groups)), strict=True):
        id = groups.ids[row]
        # One by one, because a text may be large.
        (text,) = texts_of([id])
        farthest = _exactly(groups, worst(groups.value[groups.representative == row]))
        template = in_group(store, meta, groups, row)
        found.append(LargeGroup(id, _snippet(text), documents, farthest, template))
    return tuple(found)


def _exactly(groups: Groups, value: float) -> float:
    return int(value) if groups.grouping.by_distance else float(value)


def _snippet(text: str) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(text[: 2 * _SNIPPET].split())
    return line if len(line) <= _SNIPPET and len(text) <= 2 * _SNIPPET else f"{line[:_SNIPPET]}…"


def _all_pairs(store: Store, meta: IndexMeta, count: int, step: OnStep) -> AllPairs | None:
    if meta.scheme.of_metric("jaccard") is None or min(count, store.statistics(meta).sketched) < 2:
        return None
    try:
        found = sample_neighbours(
            store, meta, count, on_query=lambda done: step("Comparing a sample", done, count)
        )
    except UsageError:
        # The documents have tokens and no texts: they were changed since.
        return None
    # Each pair is a neighbour to both.
    pairs = found.neighbours.histogram(BINS) * found.neighbours.documents / 2
    bins = distribution.similarity_histogram(pairs)
    return AllPairs(bins, found.sampled, found.truncated)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _megabytes(count: int) -> str:
    """Bytes in a unit that reads well."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,} bytes"
