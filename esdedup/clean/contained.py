"""Find the documents of a corpus that hold others, such as the items of a benchmark.

Broder, "On the resemblance and containment of documents", 1997, section 2, within a stretch of the
document, so that common phrases all over a long one do not add up to an item. Shingles that many
documents hold are no evidence, and items with fewer than eight words of evidence are ignored (Brown
et al., "Language models are few-shot learners", NeurIPS 2020, appendix C).
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from esdedup.compare.scan import FolderTexts, OnStep
from esdedup.compare.strings import Strings
from esdedup.ingest.parallel import in_order
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import hashed_words
from esdedup.text.arrays import F64, I64, U64, Mask, Ragged, blocks, ranges, run_starts
from esdedup.text.highlight import placed
from esdedup.text.shingles import shingle

_LEAST_WORDS = 8
_STRETCH = 2
"""Words of a stretch of a document for each word of the item."""
_COMMON, _FEW = 1_000, 100
"""A shingle is no evidence if more documents hold it than the second number, and than their number
divided by the first."""
_BYTES_AT_ONCE, _HITS_AT_ONCE = 1 << 20, 1 << 20
_Texts = Callable[[], list[str]]


@dataclass(frozen=True)
class _Items:
    """The documents to find, in 32 bytes of memory for each shingle.

    hashes: of the m shingles that are evidence, ascending. places: of these among all shingles, by
    item. owners: their items. Each of shape (m,). lengths: words of n items, shape (n,).
    """

    scheme: Scheme
    share: float
    hashes: U64
    places: I64
    owners: I64
    lengths: I64

    @cached_property
    def words(self) -> F64:
        """The number of each item's words in these shingles; infinite for too few."""
        order = np.argsort(self.places)
        words = np.bincount(self.owners[order], self.added(self.places[order], self.owners[order]))
        different = self.owners[run_starts(self.hashes) | run_starts(self.owners)]
        enough = (words >= _LEAST_WORDS) & (np.bincount(different) >= 2)
        return np.where(enough, words, np.inf)

    def added(self, places: I64, owners: I64) -> I64:
        """Return the words from each of some shingles, ascending, to the next one of its item."""
        added = np.full(places.size, self.scheme.shingling.size)
        near = np.minimum(np.diff(places), added[1:])
        added[:-1] = np.where(owners[1:] == owners[:-1], near, added[1:])
        return added

    @cached_property
    def _known(self) -> Mask:
        known = np.zeros(1 << 20, np.bool_)
        known[self.hashes >> np.uint64(44)] = True
        return known

    def hits(self, shingles: Ragged) -> tuple[I64, I64, I64, I64]:
        """Return the shingles of texts that items have: positions, rows, and ranges of equals."""
        # The upper bits rule out most without a search.
        at = np.flatnonzero(self._known[shingles.hashes >> np.uint64(44)])
        first = np.searchsorted(self.hashes, shingles.hashes[at])
        end = np.searchsorted(self.hashes, shingles.hashes[at], "right")
        at, first, end = (each[first < end] for each in (at, first, end))
        return at, np.searchsorted(shingles.offsets, at, "right") - 1, first, end


def find_held(
    texts: FolderTexts,
    first: int,
    scheme: Scheme,
    share: float,
    workers: int,
    step: OnStep,
    among: int = 0,
) -> tuple[F64, dict[str, int]]:
    """Return which documents hold a share of the words of one of the first ones, and counts.

    Of each pair the document, the one it holds, the share, and the first character and the end in
    the document's text: shape (5, pairs). workers: number of processes. among: the number of
    documents of which these are candidates; by default these are all.
    """
    total = texts.order.size

    def read(start: int, end: int, work: Callable[[_Texts], Any], title: str) -> Iterator[Any]:
        rows = np.arange(start, end)
        some = [rows[each] for each in blocks(texts.sizes(rows), _BYTES_AT_ONCE)]
        with closing(in_order(workers, work, map(texts, some))) as parts:
            for each, part in zip(some, parts, strict=True):
                yield part
                step(title, int(each.max(initial=0)) + 1, total)

    every = Ragged.joined([*read(0, first, partial(_shingles, scheme), "Hashing")])
    order = np.argsort(every.hashes, kind="stable")
    owners = np.repeat(np.arange(first), every.counts)[order]
    lengths = every.counts + scheme.shingling.size - 1
    items = _Items(scheme, share, every.hashes[order], order, owners, lengths)
    holders = np.zeros(order.size, np.int64)
    for held in read(first, total, partial(_held, items), "Counting"):
        np.add.at(holders, held, 1)
    common = holders > max(_FEW, max(among, total - first) // _COMMON)
    # The first of equal shingles has their number.
    rare = ~common[np.searchsorted(items.hashes, items.hashes)]
    rest = replace(items, hashes=items.hashes[rare], places=order[rare], owners=owners[rare])
    pairs, start = list[tuple[float, ...]](), first
    for documents, found in read(first, total, partial(_inside, rest), "Finding"):
        pairs += [(start + row, *each) for row, *each in found]
        start += documents
    table = np.array(pairs, np.float64).reshape(-1, 5).T
    return table, {
        "items": first,
        "found": np.unique(table[1]).size,
        "ignored": first - int(np.isfinite(rest.words).sum()),
        "shingles": int(run_starts(items.hashes).sum()),
        "common": int(common.sum()),
        "memory": 32 * order.size,
    }


def without_held(texts: FolderTexts, held: F64) -> tuple[I64, Strings]:
    """Cut the items that documents hold from their texts. held: as `find_held` returns it.

    Return the documents that have more than that, ascending, and the rest of their texts.
    """
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for document, _, _, start, end in held[:, np.lexsort(held[[3, 0]])].astype(np.int64).T.tolist():
        spans[document].append((start, end))
    documents, rests = np.array([*spans], np.int64), list[str]()
    for some in blocks(texts.sizes(documents), _BYTES_AT_ONCE):
        for document, text in zip(documents[some].tolist(), texts(documents[some])(), strict=True):
            at, parts = 0, list[str]()
            for start, end in spans[document]:
                parts.append(text[at:start])
                at = max(at, end)
            rests.append("".join([*parts, text[at:]]))
    more = np.array([not rest.isspace() and rest != "" for rest in rests], np.bool_)
    return documents[more], Strings.of(rests).picked(np.flatnonzero(more))


def _shingles(scheme: Scheme, texts: _Texts) -> Ragged:
    return shingle(hashed_words(texts(), scheme)[1], scheme.shingling.size)


def _held(items: _Items, texts: _Texts) -> I64:
    """Return the first of equal shingles once for each text that holds them."""
    _, rows, first, _ = items.hits(_shingles(items.scheme, texts))
    count = items.hashes.size
    return np.unique(rows * count + first) % max(1, count)


def _inside(items: _Items, texts: _Texts) -> tuple[int, list[tuple[float, ...]]]:
    """Return the number of texts, and of each pair what `find_held` does."""
    given, shingles, scheme = texts(), _shingles(items.scheme, texts), items.scheme
    at, rows, first, end = items.hits(shingles)
    pairs, last, size = list[tuple[float, ...]](), -1, scheme.shingling.size
    for block in blocks(np.bincount(rows, end - first, len(given)), _HITS_AT_ONCE):
        some = slice(*np.searchsorted(rows, [block.start, block.stop]).tolist())
        counts = end[some] - first[some]
        held, position = ranges(first[some], counts), np.repeat(at[some], counts)
        keys = np.repeat(rows[some], counts) * max(1, items.words.size) + items.owners[held]
        order = np.argsort(keys, kind="stable")
        keys, starts, hits = np.unique(keys[order], return_index=True, return_counts=True)
        of_rows, of_items = np.divmod(keys, max(1, items.words.size))
        for pair in np.flatnonzero(hits * size / items.words[of_items] >= items.share).tolist():
            row, item = int(of_rows[pair]), int(of_items[pair])
            of = order[starts[pair] : starts[pair] + hits[pair]]
            share, low, high = _best(items, item, position[of] - shingles.offsets[row], held[of])
            if share >= items.share:
                if row != last:
                    how = scheme.normalisation, scheme.shingling, scheme.seed
                    last, (_, begins, ends) = row, placed(given[row], *how)
                pairs.append((row, item, share, begins[low], ends[high + size - 1]))
    return len(given), pairs


def _best(items: _Items, item: int, at: I64, held: I64) -> tuple[float, int, int]:
    """Return the largest share of an item in a stretch of a text, and its first and last shingle.

    at: of shingles of the text, ascending. held: the shingles of the item that these are.
    """
    size, words = items.scheme.shingling.size, items.words[item]
    ends = np.searchsorted(at, at + _STRETCH * items.lengths[item] - size, "right")
    most, best = (ends - np.arange(at.size)) * size / words, (0.0, 0, 0)
    for start in np.flatnonzero(most >= items.share).tolist():
        some = held[start : ends[start]]
        # A single shingle is no evidence.
        if np.any(items.hashes[some] != items.hashes[some[0]]):
            places = np.unique(items.places[some])
            share = float(items.added(places, places * 0).sum() / words)
            # Of equal ones the shortest stretch, and of these the first.
            best = max(best, (share, int(at[start] - at[ends[start] - 1]), -int(at[start])))
    return best[0], -best[2], -best[2] - best[1]
