"""Align two sequences of words: long ones by the passages that they share, the rest word by word.

Word by word means Levenshtein's distance (RapidFuzz, bit by bit in parallel after Hyyrö, 2003),
whose time grows with the square of the length. Passages that are once in each of two long sequences
belong together (Bram Cohen's patience diff, with passages in place of lines), and what is between
them is short. Two texts of 300,000 characters take 0.2 seconds, Chinese ones 0.6.
"""

import bisect
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rapidfuzz.distance import Levenshtein

from esdedup.text.arrays import U64

_MOST_AT_ONCE = 10_000
"""Words of a sequence that are aligned word by word: two such sequences take 0.04 seconds."""
_PASSAGE = 8
"""Words of a passage."""
_FACTOR = 0x9E3779B97F4A7C15
"""An odd number whose powers weight the words of a passage."""


class Region(NamedTuple):
    """Words of the left sequence in place of which the right sequence has others.

    left_start, left_end: rows of the words of the left sequence.
    right_start, right_end: rows of those of the right sequence.
    """

    left_start: int
    left_end: int
    right_start: int
    right_end: int

    def moved(self, left: int, right: int) -> "Region":
        """Return the region in sequences that begin earlier by some words."""
        return Region(
            self.left_start + left,
            self.left_end + left,
            self.right_start + right,
            self.right_end + right,
        )


def aligned(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[Region, bool]]:
    """Yield the regions of two sequences in order, and whether their words are equal."""
    if max(len(left), len(right)) <= _MOST_AT_ONCE:
        yield from _word_by_word(left, right)
        return
    left_end = right_end = 0
    end = Region(len(left), len(left), len(right), len(right))
    for passage in [*_shared(left, right), end]:
        between = left[left_end : passage.left_start], right[right_end : passage.right_start]
        for region, is_equal in _between(*between):
            yield region.moved(left_end, right_end), is_equal
        if passage.left_start < passage.left_end:
            yield passage, True
        left_end, right_end = passage.left_end, passage.right_end


def _between(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[Region, bool]]:
    """Yield the regions of what is between two shared passages."""
    if max(len(left), len(right)) <= _MOST_AT_ONCE:
        yield from _word_by_word(left, right)
    else:
        # Nothing of it occurs once in each: it is repetitive, or all of it is other text.
        yield Region(0, len(left), 0, len(right)), False


def _word_by_word(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[Region, bool]]:
    for step in Levenshtein.opcodes(left, right):
        region = Region(step.src_start, step.src_end, step.dest_start, step.dest_end)
        yield region, step.tag == "equal"


def _shared(left: Sequence[str], right: Sequence[str]) -> Iterator[Region]:
    """Yield the passages that are once in both sequences, as many words as are in one order."""
    row_by_word: dict[str, int] = {}
    left_words, right_words = (
        np.array([row_by_word.setdefault(word, len(row_by_word)) for word in words], np.uint64)
        for words in (left, right)
    )
    left_end = right_end = 0
    for passage in _in_order(_once_in_both(left_words, right_words)):
        overlap = max(0, left_end - passage.left_start, right_end - passage.right_start)
        if overlap < passage.left_end - passage.left_start:
            yield passage._replace(
                left_start=passage.left_start + overlap, right_start=passage.right_start + overlap
            )
            left_end, right_end = passage.left_end, passage.right_end


def _once_in_both(left: U64, right: U64) -> list[Region]:
    """Return the passages that are once in each sequence, by the left start; those in a row as one.

    left, right: a number for each word.
    """
    hashes_and_starts = []
    for words in (left, right):
        hashes, starts, counts = np.unique(_hashes(words), return_index=True, return_counts=True)
        hashes_and_starts.append((hashes[counts == 1], starts[counts == 1]))
    (left_hashes, left_starts), (right_hashes, right_starts) = hashes_and_starts
    _, left_rows, right_rows = np.intersect1d(
        left_hashes, right_hashes, assume_unique=True, return_indices=True
    )
    order = np.argsort(left_starts[left_rows])
    left_starts = left_starts[left_rows][order]
    right_starts = right_starts[right_rows][order]
    continues = (np.diff(left_starts) == 1) & (np.diff(right_starts) == 1)
    first = np.flatnonzero(np.concatenate(([True], ~continues))[: left_starts.size])
    last = np.flatnonzero(np.concatenate((~continues, [True]))[: left_starts.size])
    columns = (
        left_starts[first],
        left_starts[last] + _PASSAGE,
        right_starts[first],
        right_starts[last] + _PASSAGE,
    )
    return [Region(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _hashes(words: U64) -> U64:
    """Return the hash of the passage that begins at each word, shape (n - 7,)."""
    count = max(0, words.size - _PASSAGE + 1)
    hashes, factor = np.zeros(count, np.uint64), 1
    for offset in range(_PASSAGE):
        factor = factor * _FACTOR % (1 << 64)
        hashes += (words[offset : offset + count] + np.uint64(1)) * np.uint64(factor)
    return hashes


def _in_order(passages: Sequence[Region]) -> list[Region]:
    """Return passages with the most words of which each begins behind the one before it in both.

    passages: by the left start. The heaviest increasing subsequence of their right starts.
    """
    # Right starts at which a chain of passages may end, ascending, with the words of the heaviest
    # one that ends there or before, and its last passage.
    ends: list[int] = []
    words: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for row, passage in enumerate(passages):
        place = bisect.bisect_left(ends, passage.right_start)
        before.append(last[place - 1] if place else -1)
        heaviest = (words[place - 1] if place else 0) + passage.left_end - passage.left_start
        # Chains that end later with fewer words are of no use.
        worse_end = place
        while worse_end < len(ends) and words[worse_end] <= heaviest:
            worse_end += 1
        ends[place:worse_end] = [passage.right_start]
        words[place:worse_end] = [heaviest]
        last[place:worse_end] = [row]
    chain: list[Region] = []
    row = last[-1] if last else -1
    while row >= 0:
        chain.append(passages[row])
        row = before[row]
    return chain[::-1]
