"""Report the duplicates of an index: numbers, and examples to look at.

Only the texts of examples are read, so that memory doesn't grow with texts.
"""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from esdedup.analysis.distribution import (
    Bin,
    bars,
    distances_in_bins,
    similarities_in_bins,
    size_ranges,
)
from esdedup.analysis.explain import CONTEXT
from esdedup.analysis.html import head, page
from esdedup.analysis.plain_json import object_of
from esdedup.analysis.templates import LARGEST, Template, in_group, warning_of
from esdedup.compare.source import shown_texts_in
from esdedup.groups.groups import Grouping, Groups, joined_though_unlike
from esdedup.ingest.renew import digests
from esdedup.models import Statistics
from esdedup.records.targets import check_new
from esdedup.search.warnings import missing_pairs, not_compared
from esdedup.sketch.measures import JACCARD
from esdedup.sketch.scheme import Scheme
from esdedup.stores.base import Store
from esdedup.stores.fields import shown_paths
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.private_files import file_name
from esdedup.text.arrays import I64
from esdedup.text.characters import count
from esdedup.text.highlight import Piece, mark_shared

_EXAMPLES = 8
"""Maximum number of examples."""
_EXCERPT = 2_400
_LONGEST = 1_000_000
"""Characters: shown of a text, and of the longest text that is compared to be shown."""
_SNIPPET = 200


@dataclass(frozen=True)
class LargeGroup:
    """A large group.

    representative: id of the document that stays.
    text: beginning of the representative's.
    documents: their number.
    farthest: similarity, or distance, of the duplicate that is least similar to the representative.
    template: that its documents seem to follow, or None.
    """

    representative: str
    text: str
    documents: int
    farthest: float
    template: Template | None = None


@dataclass(frozen=True)
class ExampleText:
    """A document of an example.

    id: of the document.
    characters: number of those of its whole text.
    pieces: of the text, as far as it is shown.
    """

    id: str
    characters: int
    pieces: list[Piece] = field(repr=False)


@dataclass(frozen=True)
class Example:
    """A duplicate beside the representative of its group.

    representative, duplicate: the documents.
    value: similarity, or distance.
    """

    representative: ExampleText
    duplicate: ExampleText
    value: float


@dataclass(frozen=True)
class Report:
    """The groups of duplicates of an index in numbers, with examples.

    made: when, in UTC.
    text_fields: of the index.
    scheme: of the index.
    groups: of duplicates.
    statistics: of the index.
    equal: duplicates whose normalised text is that of the representative.
    chained: duplicates that are less similar to the representative than the threshold.
    ranges: number of groups by size.
    bins: similarities or distances to the representative of all but the equal ones, the least
        similar first.
    largest: the largest groups.
    examples: duplicates beside their representatives.
    examples_left_out: texts that were gone, changed, or too long.
    stopped_tokens: number of tokens in the index's stop list.
    """

    made: str
    text_fields: tuple[str, ...]
    scheme: Scheme = field(repr=False)
    groups: Groups = field(repr=False)
    statistics: Statistics
    equal: int
    chained: int
    ranges: tuple[Bin, ...]
    bins: tuple[Bin, ...]
    largest: tuple[LargeGroup, ...]
    examples: tuple[Example, ...]
    examples_left_out: int
    stopped_tokens: int

    @property
    def duplicates(self) -> int:
        """Number of documents that are not representatives."""
        return self.groups.duplicates

    @property
    def documents(self) -> int:
        """Number of documents with tokens, which were grouped."""
        return len(self.groups.ids)

    @property
    def grouping(self) -> Grouping:
        """How documents were grouped."""
        return self.groups.grouping

    @property
    def measure(self) -> str:
        """The value of a duplicate, in words."""
        return measure_of(self.grouping, self.scheme)

    @property
    def share(self) -> float:
        """Share of duplicates among all documents."""
        return self.duplicates / max(1, self.statistics.documents, self.documents)

    @property
    def warnings(self) -> list[str]:
        """Return sentences to read before the figures."""
        grouping, groups, judged = self.grouping, self.groups, self.groups.judged
        stopped = 0 if grouping.exact else self.stopped_tokens
        warnings = [
            *not_compared(self.statistics, stopped),
            *missing_pairs(groups.recall, groups.capped, grouping.limits),
        ]
        if unordered := groups.unordered.warning(grouping.keep):
            warnings.append(unordered)
        if str(judged):
            warnings.append(f"Judged pairs: {judged}")
        if self.chained:
            chained = count(self.chained, "duplicate is", "duplicates are")
            warnings.append(f"{chained} {joined_though_unlike(grouping, judged)}")
        warnings += [
            warning_of(group.representative, group.documents, group.template)
            for group in self.largest
            if group.template is not None
        ]
        if self.examples_left_out:
            examples = count(self.examples_left_out, "example is", "examples are")
            warnings.append(
                f"{examples} left out: a text is gone, has changed since its tokens were computed"
                " (esdedup check), or is longer than a million characters"
            )
        return warnings

    def to_json(self) -> dict[str, object]:
        """Return a JSON object of everything but the texts of examples."""
        return object_of(self) | {"scheme_id": self.scheme.id} | self.groups.to_json()

    def html(self, index: str = "the index") -> str:
        """Return a page with the texts of examples, which loads nothing. index: for the title."""
        scheme = self.scheme.describe(max(1, self.statistics.documents))
        worded = self.groups.measure.in_words
        values = {"report": self, "index": index, "bars": bars, "scheme": scheme}
        return page("report", values | {"in_words": worded})

    @staticmethod
    def default_path(index: str) -> Path:
        """Return the path of the page on an index if none is named."""
        return Path(f"{file_name(index)}.report.html")

    @staticmethod
    def check_page(setting: str, path: Path) -> None:
        """Raise UsageError if a file to write the page to exists, and is no such page.

        setting: names the file, in messages.
        """
        check_new(setting, str(path), head())

    def facts(self) -> list[tuple[str, str, str]]:
        """Return the main figures in words: (name, value, remark)."""
        compared = f"{self.documents:,} with tokens, which were compared"
        return [
            ("documents", f"{self.statistics.documents:,}", compared),
            ("groups", f"{len(self.groups):,}", "of two documents or more; one of each stays"),
            ("duplicates", f"{self.duplicates:,}", f"{self.share:.1%} of all documents"),
            ("equal text", f"{self.equal:,}", "as their representative, once normalised"),
        ]


def measure_of(grouping: Grouping, scheme: Scheme) -> str:
    """Return what the value of a duplicate is: a measure, in words."""
    return (JACCARD if grouping.exact else scheme.chosen(grouping.limits).measure).of_duplicate


def report_on(store: Store, meta: IndexMeta, groups: Groups) -> Report:
    """Report on the groups of an index."""
    statistics = store.statistics(meta)
    rows = groups.duplicate_rows
    representatives = groups.representative[rows]
    is_equal = (groups.digests[rows] == groups.digests[representatives]).all(axis=1)
    differing = rows[~is_equal]
    bins = _bins(meta, groups, differing)
    examples = [_example(store, meta, groups, row) for row in _rows_of_examples(groups, differing)]
    shown = tuple(example for example in examples if example is not None)
    large = groups.heads[:LARGEST].tolist()
    return Report(
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        text_fields=meta.text_fields,
        scheme=meta.scheme,
        groups=groups,
        statistics=statistics,
        equal=int(is_equal.sum()),
        chained=int(bins[0].count),
        ranges=size_ranges(groups.sizes),
        bins=bins,
        largest=tuple(
            replace(group, template=in_group(store, meta, groups, row))
            for row, group in zip(large, summaries(store, meta, groups, large), strict=True)
        ),
        examples=shown,
        examples_left_out=len(examples) - len(shown),
        stopped_tokens=len(meta.stop),
    )


def _rows_of_examples(groups: Groups, rows: I64) -> list[int]:
    """Return rows from all over the range of values, the most similar first."""
    nearest_first = rows[groups.measure.nearest_first(groups.value[rows])]
    count = min(_EXAMPLES, rows.size)
    places = np.linspace(0, rows.size - 1, count).astype(np.int64)
    chosen: list[int] = nearest_first[places].tolist()
    return chosen


def _bins(meta: IndexMeta, groups: Groups, rows: I64) -> tuple[Bin, ...]:
    """Return the bins of the values of rows, the least similar first."""
    values, farthest = groups.value[rows], groups.farthest
    if groups.measure.whole_numbers:
        bits = 64 * meta.scheme.sketch(groups.grouping.limits.sketch).width
        return distances_in_bins(values, int(farthest), bits)
    return similarities_in_bins(values, farthest)


def _example(store: Store, meta: IndexMeta, groups: Groups, row: int) -> Example | None:
    """Return a row and its representative, or None if a text is not the one that was grouped."""
    pair = int(groups.representative[row]), row
    ids, scheme = [groups.ids[document_row] for document_row in pair], meta.scheme
    paths = shown_paths(meta.text_fields)
    sources = {document.id: document.source for document in store.get(ids, paths)}
    texts = [meta.text_at(sources.get(id, {})) or "" for id in ids]
    if max(map(len, texts)) > _LONGEST:
        return None
    if digests(texts, meta) != [groups.digest(document_row) for document_row in pair]:
        return None
    texts = [meta.shown_text(sources.get(id, {})) for id in ids]
    marked_texts = mark_shared(
        (texts[0], texts[1]), scheme.normalisation, scheme.shingling, scheme.seed
    )
    representative, duplicate = (
        ExampleText(id, len(text), marked.pieces(CONTEXT, _EXCERPT))
        for id, text, marked in zip(ids, texts, marked_texts, strict=True)
    )
    return Example(representative, duplicate, float(groups.value[row]))


def summaries(
    store: Store, meta: IndexMeta, groups: Groups, heads: Sequence[int]
) -> Iterator[LargeGroup]:
    """Yield the groups of some representatives, given by row, without their templates."""
    texts = shown_texts_in(store, meta.text_fields)([groups.ids[row] for row in heads])
    for row, text in zip(heads, texts, strict=True):
        values = groups.value[groups.representative == row]
        line = " ".join(text[: 2 * _SNIPPET].split())
        if len(line) > _SNIPPET or len(text) > 2 * _SNIPPET:
            line = f"{line[:_SNIPPET]}…"
        yield LargeGroup(groups.ids[row], line, values.size, groups.measure.farthest(values))
