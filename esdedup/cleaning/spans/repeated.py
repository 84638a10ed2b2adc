"""Find the windows of words that a corpus repeats, in a given memory.

Windows whose anchor occurs once can't repeat, which rules most of them out. The hashes of the
others are sorted in partitions on disk that fit into memory, and equal hashes are verified on the
words. What is found depends only on the words and their order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from esdedup.cleaning.spans.partitions import Partitions
from esdedup.cleaning.spans.windows import anchors_of, window_hashes
from esdedup.compare.resources import Resources
from esdedup.stores.memory_mapped import mapped, mapped_zeros, release
from esdedup.text.arrays import I64, U64, Mask, Ragged, blocks, offsets_of, ranges, run_starts

_MAPPED_BYTES = 1 << 16
"""Linux maps as many bytes of a file at once, where one is read."""
_BYTES_A_VERIFIED_WORD = 64
"""Memory of a word that is compared with another: both, and their positions."""


@dataclass(frozen=True)
class Repetition:
    """Which windows of a corpus are repeated.

    size: words of a window.
    most: a window that does not occur more often is no repetition, at least 1.
    earlier: number of the first documents, which keep all of their words.
    only_between: only windows that one of these documents has are repeated.
    hash_mask: bits of hashes to compare before words are. Fewer take more time.
    words_at_once: words of documents that are hashed at once.
    """

    size: int
    most: int = 1
    earlier: int = 0
    only_between: bool = False
    hash_mask: int = (1 << 64) - 1
    words_at_once: int = 1 << 17


@dataclass(frozen=True)
class FrequentWindows:
    """Windows that occur most often, by their first word.

    starts: where each one occurs first, ascending, shape (n,).
    counts: how often, shape (n,).
    """

    starts: I64
    counts: I64

    _MOST = 10_000

    @staticmethod
    def none() -> FrequentWindows:
        """Return no windows."""
        return FrequentWindows(np.empty(0, np.int64), np.empty(0, np.int64))

    def with_others(self, starts: I64, counts: I64) -> FrequentWindows:
        """Return the most frequent of these and others, of equal ones the first."""
        if counts.size > self._MOST:
            # Most windows occur twice: all of them need not be sorted.
            least = np.partition(counts, -self._MOST)[-self._MOST]
            is_more = counts > least
            ties = np.sort(starts[counts == least])[: self._MOST - np.count_nonzero(is_more)]
            starts = np.concatenate([starts[is_more], ties])
            counts = np.concatenate([counts[is_more], np.full(ties.size, least)])
        starts = np.concatenate([self.starts, starts])
        counts = np.concatenate([self.counts, counts])
        order = np.lexsort((starts, -counts))[: self._MOST]
        order = order[np.argsort(starts[order])]
        return FrequentWindows(starts[order], counts[order])


@dataclass(frozen=True)
class RepeatedSpans:
    """Stretches of successive windows that occur before, in order, as arrays of shape (n,).

    start: the first word, among the words of all documents.
    original: the first word of the first occurrence.
    words: their number, at least those of a window.
    frequent: of the first occurrences, those that occur most often.
    """

    start: I64
    original: I64
    words: I64
    frequent: FrequentWindows


@dataclass(frozen=True)
class SharedWindows:
    """Windows that some documents share, in order, and which of them one that stays has.

    start: the first word of each, among the words of all documents, shape (n,).
    number: the same of equal windows, from 0, shape (n,).
    stays: whether a document has the windows of a number, and stays, shape (numbers,).
    """

    start: I64
    number: I64
    stays: Mask

    def staying(self, first: int, end: int) -> I64:
        """Return the first words of windows in a range of words that a document keeps."""
        chosen = self._between(first, end)
        starts: I64 = self.start[chosen][self.stays[self.number[chosen]]]
        return starts

    def keep(self, first: int, end: int) -> None:
        """Note that a document keeps the windows in its range of words."""
        self.stays[self.number[self._between(first, end)]] = True

    def release(self) -> None:
        """Drop the windows that were read from the memory of the process."""
        release(self.start, self.number, self.stays)

    def _between(self, first: int, end: int) -> slice:
        return slice(*np.searchsorted(self.start, [first, end]).tolist())


class WindowSearch:
    """Finds the repeated windows of a corpus. `of` opens it.

    words: hashed words of the documents, in the order of precedence.
    repetition: which windows are repeated.
    resources: of the machine.
    """

    def __init__(
        self,
        words: Ragged,
        repetition: Repetition,
        resources: Resources,
        windows: Partitions,
    ) -> None:
        self.words = words
        self.repetition = repetition
        self.resources = resources
        self._windows = windows
        self._ambiguous = np.empty(0, np.uint64)

    @staticmethod
    @contextmanager
    def of(words: Ragged, repetition: Repetition, resources: Resources) -> Iterator[WindowSearch]:
        """Open a search, whose temporary files are removed afterwards."""
        with ExitStack() as opened:
            windows = _candidates(words, repetition, resources, opened)
            yield WindowSearch(words, repetition, resources, windows)

    def spans(self, dropped: Mask | None = None) -> RepeatedSpans:
        """Return the spans of words that came before.

        dropped: documents whose windows are no first occurrences, shape (documents,). They have
        spans of the documents before them, and their windows count.
        """
        while True:
            with ExitStack() as opened:
                repeats, frequent = self._repeats(dropped, opened)
                collisions = list[U64]()
                rows = mapped(self.resources.folder, self._joined(repeats, collisions))
            if not collisions:
                return RepeatedSpans(rows[:, 0], rows[:, 1], rows[:, 2], frequent)
            # Windows of these hashes are compared by their words in the next round, which is final.
            self._ambiguous = np.unique(np.concatenate([self._ambiguous, *collisions]))

    def shared(self, dropped: Mask, undecided: Mask) -> SharedWindows:
        """Return the windows that several undecided documents have, unless one that stays has them.

        Only those that it has before. `spans` must have compared the windows of equal hashes.

        dropped: all documents that may not stay, the undecided ones too, shape (documents,).
        undecided: some of these, shape (documents,).
        """
        with ExitStack() as opened:
            windows = Partitions.of(self._windows.rows, self.resources, opened)
            different = 0
            for groups in self._matched():
                positions, counts = groups.positions, np.diff(groups.offsets)
                firsts = np.repeat(self._firsts(groups, dropped), counts)
                chosen = undecided[self._documents_of(positions)] & (positions < firsts)
                members = np.diff(offsets_of(chosen)[groups.offsets])
                is_shared = (counts > self.repetition.most) & (members > 1)
                numbers = different + np.repeat(np.cumsum(is_shared) - 1, counts)
                chosen &= np.repeat(is_shared, counts)
                self._add_by_position(windows, positions[chosen], numbers[chosen])
                different += int(is_shared.sum())

            def rows() -> Iterator[I64]:
                yield np.empty((0, 2), np.int64)
                for keys, numbers in windows.all():
                    order = np.argsort(keys)
                    yield np.stack([keys[order].view(np.int64), numbers[order]], axis=1)

            start, number = mapped(self.resources.folder, rows()).T
        return SharedWindows(
            start, number, mapped_zeros(self.resources.folder, (different,), np.bool_)
        )

    def _matched(self) -> Iterator[_Groups]:
        """Yield the groups of equal windows of each partition."""
        for number, (hashes, positions) in enumerate(self._windows.all(), 1):
            yield self._groups(hashes, positions)
            # In documents, as all steps are.
            matched = number * len(self.words) // len(self._windows)
            release(self.words.hashes)
            self.resources.on_step("Matching", matched, len(self.words))

    def _firsts(self, groups: _Groups, dropped: Mask | None) -> I64:
        """Return the first position of each group, the number of all words if all are dropped."""
        candidates = groups.positions
        if dropped is not None:
            is_dropped = dropped[self._documents_of(candidates)]
            candidates = np.where(is_dropped, self.words.hashes.size, candidates)
        if not candidates.size:
            return candidates
        firsts: I64 = np.minimum.reduceat(candidates, groups.offsets[:-1])
        return firsts

    def _add_by_position(self, partitions: Partitions, positions: I64, numbers: I64) -> None:
        """Add windows to partitions of their positions: those of a document are in one, or in two.

        numbers: of each window.
        """
        partition = positions * len(partitions) // max(1, self.words.hashes.size)
        partitions.add(partition, positions.view(np.uint64), numbers)

    def _repeats(
        self, dropped: Mask | None, opened: ExitStack
    ) -> tuple[Partitions, FrequentWindows]:
        """Return the windows whose first occurrence is another, by position, and the frequent ones.

        Of each group of equal hashes that cuts any: also the windows that stay all the same, as
        those of earlier documents.
        """
        words, repetition = self.words, self.repetition
        repeats = Partitions.of(self._windows.rows, self.resources, opened)
        frequent = FrequentWindows.none()
        first_later = int(words.offsets[repetition.earlier])
        for groups in self._matched():
            positions, counts = groups.positions, np.diff(groups.offsets)
            firsts = self._firsts(groups, dropped)
            is_repeated = counts > repetition.most
            if repetition.only_between:
                is_repeated &= firsts < first_later
            originals = np.repeat(firsts, counts)
            chosen = np.repeat(is_repeated, counts) & self._can_lose(positions, originals)
            if positions.size:
                is_repeated = np.logical_or.reduceat(chosen, groups.offsets[:-1])
            frequent = frequent.with_others(firsts[is_repeated], counts[is_repeated])
            # Windows that stay are compared too: what they count must not be another window.
            compared = np.repeat(is_repeated, counts) & (positions != originals)
            self._add_by_position(repeats, positions[compared], originals[compared])
        return repeats, frequent

    def _can_lose(self, positions: I64, originals: I64) -> Mask:
        """Mark windows that can lose words: of later documents, behind the first occurrence."""
        first_later = int(self.words.offsets[self.repetition.earlier])
        can_lose: Mask = (positions > originals) & (positions >= first_later)
        return can_lose

    def _documents_of(self, positions: I64) -> I64:
        """Return the documents of words."""
        return np.searchsorted(self.words.offsets, positions, "right") - 1

    def _groups(self, hashes: U64, positions: I64) -> _Groups:
        """Return windows of equal hashes, and of equal words for hashes that several share."""
        groups = _Groups.of(hashes, positions)
        if not self._ambiguous.size:
            return groups
        is_ambiguous = np.isin(hashes, self._ambiguous)
        if not is_ambiguous.any():
            return groups
        groups = _Groups.of(hashes[~is_ambiguous], positions[~is_ambiguous])
        by_words: dict[bytes, list[int]] = {}
        size = self.repetition.size
        for position in positions[is_ambiguous].tolist():
            window = self.words.hashes[position : position + size].tobytes()
            by_words.setdefault(window, []).append(position)
        compared = np.array([*itertools.chain(*by_words.values())], np.int64)
        counts = np.array([*map(len, by_words.values())], np.int64)
        return groups.joined(compared, counts)

    def _joined(self, repeats: Partitions, collisions: list[U64]) -> Iterator[I64]:
        """Yield spans as rows of start, original and number of words.

        collisions: gets the hashes of windows whose words differ from those of the first one.
        """
        size = self.repetition.size
        pending = np.empty((0, 3), np.int64)
        for keys, originals in repeats.all():
            order = np.argsort(keys)
            positions, originals = keys[order].view(np.int64), originals[order]
            begins = self._begins(positions, originals)
            starts = np.flatnonzero(begins)
            counts = np.diff(np.append(starts, positions.size))
            rows = np.stack([positions[starts], originals[starts], counts + size - 1], axis=1)
            self._verify(rows, collisions)
            rows = rows[self._can_lose(rows[:, 0], rows[:, 1])]
            if pending.size and rows.size and self._continues(pending[-1], rows[0]):
                rows[0] = [*pending[-1, :2], pending[-1, 2] + rows[0, 2] - size + 1]
                pending = pending[:-1]
            yield pending
            pending = rows if rows.size else np.empty((0, 3), np.int64)
        yield pending

    def _begins(self, positions: I64, originals: I64) -> Mask:
        """Mark windows that do not go on where the one before ends, shape (n,)."""
        begins = np.ones(positions.size, np.bool_)
        begins[1:] = (np.diff(positions) != 1) | (np.diff(originals) != 1)
        if self.repetition.size == 1:
            # Only windows of one word are side by side in different documents.
            offsets = self.words.offsets
            begins |= np.isin(positions, offsets) | np.isin(originals, offsets)
        return begins

    def _continues(self, span: I64, next_span: I64) -> bool:
        """Return whether a span goes on with another, which a partition separates."""
        windows = span[2] - self.repetition.size + 1
        pair = np.stack([span[:2] + windows - 1, next_span[:2]])
        return not self._begins(pair[:, 0], pair[:, 1])[1]

    def _verify(self, rows: I64, collisions: list[U64]) -> None:
        """Compare the words of spans with those of their originals."""
        words, size = self.words.hashes, self.repetition.size
        # Originals are anywhere, so that each of them maps pages of its own.
        sizes = rows[:, 2] * _BYTES_A_VERIFIED_WORD + _MAPPED_BYTES
        for block in blocks(sizes, self.resources.memory // 4):
            release(words)
            start, original, counts = rows[block].T
            positions = ranges(start, counts)
            differs = words[positions] != words[ranges(original, counts)]
            if not differs.any():
                continue
            # A window collides if one of its words differs.
            differing = offsets_of(differs)
            windows = ranges(offsets_of(counts)[:-1], counts - size + 1)
            collides = differing[windows + size] > differing[windows]
            for position in positions[windows[collides]].tolist():
                hashes = window_hashes(words[position : position + size], size)
                collisions.append(hashes & np.uint64(self.repetition.hash_mask))


@dataclass(frozen=True)
class _Groups:
    """Positions of equal windows: group i is positions[offsets[i]:offsets[i + 1]].

    positions: of all windows, shape (n,).
    offsets: where each group starts, and the end, shape (groups + 1,).
    """

    positions: I64
    offsets: I64

    @staticmethod
    def of(hashes: U64, positions: I64) -> _Groups:
        """Return windows of equal hashes."""
        order = np.argsort(hashes)
        starts = np.flatnonzero(run_starts(hashes[order]))
        return _Groups(positions[order], np.append(starts, positions.size))

    def joined(self, positions: I64, counts: I64) -> _Groups:
        """Return these groups and others. positions: of these. counts: of each group."""
        offsets = self.offsets[-1] + offsets_of(counts)[1:]
        return _Groups(
            np.concatenate([self.positions, positions]), np.concatenate([self.offsets, offsets])
        )


def _candidates(
    words: Ragged, repetition: Repetition, resources: Resources, opened: ExitStack
) -> Partitions:
    """Return the windows whose anchors repeat, by their hashes."""
    size, total = repetition.size, len(words)
    number_of_windows = int(np.maximum(words.counts - size + 1, 0).sum())
    # Winnowing chooses two of each `size - inner + 2` hashes on average.
    expected = 2 * number_of_windows // (size // 2 + 2) + 1
    with ExitStack() as opened_anchors:
        anchors = Partitions.of(expected, resources, opened_anchors)

        def places() -> Iterator[I64]:
            yield np.empty((0, 2), np.int64)
            for block in blocks(words.counts, repetition.words_at_once):
                in_block = anchors_of(words.slice(block.start, block.stop), size)
                numbers = anchors.rows + np.arange(in_block.hashes.size)
                anchors.add_by_hash(in_block.hashes, numbers)
                starts = in_block.starts + words.offsets[block.start]
                release(words.hashes)
                yield np.stack([starts, in_block.counts], axis=1)
                resources.on_step("Finding anchors", block.stop, total)

        places_of_anchors = mapped(resources.folder, places())
        repeats = np.zeros(len(places_of_anchors), np.bool_)
        for hashes, numbers in anchors.all():
            groups = _Groups.of(hashes, numbers)
            counts = np.diff(groups.offsets)
            repeats[groups.positions[np.repeat(counts > repetition.most, counts)]] = True
    count = 0
    for start in range(0, len(places_of_anchors), repetition.words_at_once):
        places_of_block = slice(start, start + repetition.words_at_once)
        count += int(places_of_anchors[places_of_block, 1][repeats[places_of_block]].sum())
        release(places_of_anchors)
    windows = Partitions.of(count, resources, opened)
    for block in blocks(words.counts, repetition.words_at_once):
        first, last = (int(words.offsets[edge]) for edge in (block.start, block.stop))
        edges = np.searchsorted(places_of_anchors[:, 0], [first, last])
        rows = slice(*edges.tolist())
        starts, counts = places_of_anchors[rows][repeats[rows]].T
        if starts.size:
            hashes = window_hashes(words.hashes[first:last], size)
            hashes &= np.uint64(repetition.hash_mask)
            positions = ranges(starts, counts)
            windows.add_by_hash(hashes[positions - first], positions)
        release(words.hashes, places_of_anchors)
        resources.on_step("Comparing anchors", block.stop, total)
    return windows
