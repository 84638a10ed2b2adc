"""Report the duplicates of an index: numbers, and examples to look at.

Only the texts of examples are read, so that memory grows with the documents as in
`groups.find_groups`, and not with their texts.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from esdedup.analysis.describe import describe
from esdedup.analysis.distribution import (
    Bin,
    SizeRange,
    bars,
    distances_in_bins,
    similarities_in_bins,
    size_ranges,
)
from esdedup.analysis.explain import CONTEXT
from esdedup.analysis.html import page
from esdedup.analysis.templates import Template, in_group, largest, warning_of
from esdedup.analysis.to_json import object_of
from esdedup.arguments import check_type
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
from esdedup.text.highlight import Piece, mark_shared

EXAMPLES = 8
HOT = 10
"""Default numbers of examples and of hot buckets."""
_EXCERPT = 2_400
_LONGEST = 1_000_000
"""Characters: shown of a text, and of the longest text that is compared to be shown."""
_SNIPPET = 200
_FEWEST = 10
"""Least number of documents in a hot bucket: any two may share a token by chance."""


@dataclass(frozen=True)
class LargeGroup:
    """A large group. text: beginning of the representative's.

    farthest: similarity, or distance, of the duplicate that is least similar to the representative.
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
    pieces: list[Piece] = field(repr=False)


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
class Report:
    """The groups of duplicates of an index in numbers, with examples.

    made: when, in UTC. documents: with tokens, which were grouped. groups: of two or more. sizes:
    number of groups by size. duplicates: documents that are not representatives. copies: duplicates
    whose normalised text another document of the group has too. equal: those with the text of the
    representative. chained: those less similar to it than the threshold. bins: similarities or
    distances to the representative of all but the equal ones, the least similar first.
    examples_left_out: their texts were gone, changed, or too long. capped_buckets: buckets not
    compared in full; capped_largest: documents of the largest of them. expected_recall: share of
    pairs at the threshold that is found. read, bands, rows: as of `Basis`. stopped_tokens: in the
    index's stop list. judged: counts of the judgements that the groups are formed by.
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
        ids |= {id for each in self.largest if each.template for id in each.template.ids}
        ids |= {side.id for each in self.examples for side in (each.representative, each.duplicate)}
        return len(ids)

    @property
    def options(self) -> str:
        """The grouping as options of the command line."""
        grouping, limits = self.grouping, self.grouping.limits
        if grouping.exact:
            return f"--exact --keep {grouping.keep}"
        found = [f"--method {grouping.method}"]
        if limits.sketch is not None:
            found.append(f"--sketch {limits.sketch}")
        if not grouping.by_distance:
            found.append(f"--threshold {limits.threshold:g} --recall {limits.wanted_recall:g}")
        elif limits.distance is not None:
            found.append(f"--distance {limits.distance}")
        found.append(f"--keep {grouping.keep} --max-per-bucket {limits.max_per_bucket}")
        return " ".join([*found, *(["--split-templates"] if grouping.split_templates else [])])

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
        found += [
            warning_of(group.representative, group.documents, group.template)
            for group in self.largest
            if group.template is not None
        ]
        if self.examples_left_out:
            examples = _counted(self.examples_left_out, "example is", "examples are")
            found.append(
                f"{examples} left out: a text is gone, has changed since its tokens were computed"
                " (esdedup check), or is longer than a million characters"
            )
        return [each for each in found if each is not None]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of everything but the texts of examples."""
        return object_of(self)

    def html(self, index: str = "the index") -> str:
        """Return a page with the texts of examples, which loads nothing. index: for the title."""
        scheme = describe(self.scheme, max(1, self.statistics.documents))
        return page("report", report=self, index=index, bars=bars, scheme=scheme)

    def facts(self) -> list[tuple[str, str, str]]:
        """Return the main figures in words: (name, value, remark)."""
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
        """Return a similarity, or a distance, as text."""
        if self.grouping.by_distance:
            return f"{value} bit{'' if value == 1 else 's'}"
        # Only equal texts are shown as 1.
        return ">0.999" if 0.9995 <= value < 1.0 else f"{value:.3f}"


def report(
    store: Store,
    meta: IndexMeta,
    grouping: Grouping,
    *,
    examples: int = EXAMPLES,
    hot: int = HOT,
    work: WorkFolder | None = None,
    on_step: OnStep | None = None,
) -> Report:
    """Group the documents of an index and report on the groups; change nothing.

    examples, hot: maximum numbers of examples and of hot buckets. work: as in `find_groups`. Raises
    the errors of that, and of the store.
    """
    check_type("examples", examples, "int")
    check_type("hot", hot, "int")
    statistics = store.statistics(meta)
    groups = find_groups(store, meta, grouping, work=work, on_step=on_step)
    rows = groups.duplicate_rows
    heads = groups.representative[rows]
    same = (groups.digests[rows] == groups.digests[heads]).all(axis=1)
    copied = np.union1d(rows, heads)
    bins = _bins(meta, groups, rows[~same])
    chosen = _spread(groups, rows[~same], examples)
    shown = [_example(store, meta, groups, row) for row in chosen]
    buckets = hot_buckets(store, meta, hot, over=_FEWEST - 1) if hot else HotBuckets([], 0, 0)
    short = [replace(each, text=_snippet(each.text)) for each in buckets.buckets]
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
        ranges=tuple(size_ranges(groups.sizes)),
        bins=bins,
        largest=_largest_groups(store, meta, groups),
        examples=tuple(each for each in shown if each is not None),
        examples_left_out=sum(each is None for each in shown),
        hot=replace(buckets, buckets=short),
        capped_buckets=groups.capped.buckets,
        capped_largest=groups.capped.largest,
        expected_recall=groups.recall,
        **asdict(groups.basis),
        stopped_tokens=len(meta.stop),
        judged=groups.judged,
    )


def _bins(meta: IndexMeta, groups: Groups, rows: I64) -> tuple[Bin, ...]:
    """Return the similarities, or distances, of duplicates in bins."""
    limits, values = groups.grouping.limits, groups.value[rows]
    if groups.grouping.by_distance:
        bits = 64 * meta.scheme.sketch(limits.sketch).width
        return distances_in_bins(values, limits.distance or 0, bits)
    return similarities_in_bins(values, 1.0 if groups.grouping.exact else limits.least_similarity)


def _spread(groups: Groups, rows: I64, count: int) -> list[int]:
    """Return rows from all over the range, the most similar first: of different groups if possible.

    The least and the most similar are among them.
    """
    rows = rows[np.argsort(groups.value[rows], kind="stable")]
    if not groups.grouping.by_distance:
        rows = rows[::-1]
    _, first = np.unique(groups.representative[rows], return_index=True)
    if first.size >= count and count > 2:
        rows = rows[np.union1d(first, [0, rows.size - 1])]
    if rows.size > count:
        rows = rows[np.linspace(0, rows.size - 1, count).astype(np.int64)]
    found: list[int] = rows.tolist()
    return found


def _example(store: Store, meta: IndexMeta, groups: Groups, row: int) -> Example | None:
    """Return a row and its representative, or None if a text is not the one that was grouped."""
    rows = int(groups.representative[row]), row
    ids = [groups.ids[each] for each in rows]
    texts, scheme = texts_in(store, meta.text_fields)(ids), meta.scheme
    if max(map(len, texts)) > _LONGEST:
        return None
    if digests(texts, meta) != [groups.digest(each) for each in rows]:
        return None
    both = mark_shared((texts[0], texts[1]), scheme.normalisation, scheme.shingling, scheme.seed)
    representative, duplicate = (
        ExampleText(id, len(text), marked.original, marked.pieces(CONTEXT, _EXCERPT))
        for id, text, marked in zip(ids, texts, both, strict=True)
    )
    same_words = all(marked.common.all() for marked in both)
    return Example(representative, duplicate, _exactly(groups, groups.value[row]), same_words)


def _largest_groups(store: Store, meta: IndexMeta, groups: Groups) -> tuple[LargeGroup, ...]:
    texts_of = texts_in(store, meta.text_fields)
    worst = np.nanmax if groups.grouping.by_distance else np.nanmin
    found = []
    for row, documents in largest(groups):
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
    """Return the beginning of a text, on one line."""
    line = " ".join(text[: 2 * _SNIPPET].split())
    return line if len(line) <= _SNIPPET and len(text) <= 2 * _SNIPPET else f"{line[:_SNIPPET]}…"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _megabytes(count: int) -> str:
    """Return bytes in a unit that reads well."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count:,} bytes"
