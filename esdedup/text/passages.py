"""Passages that texts share: runs of equal words, and few hashes that find them.

Winnowing: Schleimer, Wilkerson, Aiken, "Winnowing: local algorithms for document fingerprinting",
SIGMOD 2003, section 3. Of each window of w successive runs of k words the smallest hash is kept. If
two texts share k + w - 1 words in a row, they share a window, and so its smallest hash.

A text of fewer words than a run has one run of all of them, so that equal short texts meet.
"""

import numpy as np

from esdedup.text.arrays import (
    I64,
    U64,
    Mask,
    Ragged,
    blocks,
    offsets_of,
    ranges,
    run_starts,
    spanned,
)
from esdedup.text.hashing import PRIME64_1
from esdedup.text.shingles import distinct, shingle

_WORDS_AT_ONCE = 1 << 17


def winnow(words: Ragged, run: int, window: int, bits: int = 64) -> Ragged:
    """Return the hashes that winnowing keeps, of each text sorted and without repetitions.

    words: hashed words of texts.
    run: words of a run.
    window: runs of a window; a text with fewer runs has one window of all of them.
    bits: low bits of a hash to return. They are independent of its size, by which the smallest are
        chosen.
    """
    runs = shingle(words, run)
    smallest = _smallest_of_windows(runs.hashes, window)
    full_windows = np.maximum(runs.counts - window + 1, 0)
    short_texts = np.flatnonzero((runs.counts > 0) & (full_windows == 0))
    minima = np.empty(full_windows.sum() + short_texts.size, np.uint64)
    offsets = offsets_of(np.maximum(full_windows, np.minimum(runs.counts, 1)))
    # Windows that begin in one text and end in another are left out.
    minima[ranges(offsets[:-1], full_windows)] = smallest[ranges(runs.offsets[:-1], full_windows)]
    if short_texts.size:
        short_rows = runs.of(short_texts)
        minima_of_short = np.minimum.reduceat(short_rows.hashes, short_rows.offsets[:-1])
        minima[offsets[short_texts]] = minima_of_short
    # Successive windows of a text share their smallest hash most of the time.
    differs = run_starts(minima)
    differs[offsets[:-1][np.diff(offsets) > 0]] = True
    rows = Ragged(minima, offsets).only(differs)
    return distinct(Ragged(rows.hashes & np.uint64((1 << bits) - 1), rows.offsets))


def _smallest_of_windows(hashes: U64, window: int) -> U64:
    """Return the smallest of each `window` successive hashes, by their start."""
    # Two windows that overlap or touch make a wider one: a window of 20 takes 5 steps.
    smallest, width = hashes, 1
    while width < window:
        step = min(width, window - width)
        smallest, width = np.minimum(smallest[:-step], smallest[step:]), width + step
    return smallest


def shared_runs(left: U64, right: U64, least: int) -> tuple[I64, I64, I64]:
    """Return the longest shared runs of at least `least` words: starts in both, and lengths.

    Each of shape (runs,), ordered by the start in left, then in right. No run can be extended in
    either direction. Two equal texts of fewer words share all of them. Time and memory grow with
    the words and the runs found, also if a text repeats itself.

    left, right: hashed words.
    """
    left_runs, right_runs = _numbered(
        shingle(Ragged.of_rows([left]), least).hashes,
        shingle(Ragged.of_rows([right]), least).hashes,
    )
    left_words, right_words = _numbered(left, right)
    # The ends of two texts, 0 and 1, differ from each other and from every word.
    left_words, right_words = left_words + 2, right_words + 2
    # A shared run begins where the words before it differ, and ends where those after it do.
    left_starts, right_starts = _edges(
        left_runs, right_runs, np.append(0, left_words), np.append(1, right_words)
    )
    left_ends, _ = _edges(
        left_runs, right_runs, np.append(left_words[least:], 0), np.append(right_words[least:], 1)
    )
    # Both are ordered by diagonal, on which starts and ends take turns: the n-th start belongs to
    # the n-th end.
    lengths = left_ends - left_starts + min(least, left.size)
    order = np.lexsort((right_starts, left_starts))
    return left_starts[order], right_starts[order], lengths[order]


def covered(left: Ragged, right: Ragged, least: int) -> tuple[Mask, Mask]:
    """Mark the words in the runs that `shared_runs` returns for row i of left and row i of right.

    Returns one mask for the words of left, and one for those of right, each of shape (words,).
    """
    left_runs, right_runs = shingle(left, least), shingle(right, least)
    left_keys, right_keys = _keys_by_row(left_runs), _keys_by_row(right_runs)
    return (
        _marked(left, left_runs.counts, _is_among(left_keys, right_keys), least),
        _marked(right, right_runs.counts, _is_among(right_keys, left_keys), least),
    )


def _keys_by_row(runs: Ragged) -> U64:
    """Return a hash of each run that differs from that of an equal run of another row."""
    rows = np.repeat(np.arange(len(runs)), runs.counts)
    return runs.hashes + rows.view(np.uint64) * PRIME64_1


def _marked(words: Ragged, run_counts: I64, is_shared: Mask, least: int) -> Mask:
    """Mark the words in shared runs of rows: shape (words,).

    run_counts: the number of runs of each row, shape (rows,).
    is_shared: of each run, shape (runs,).
    """
    starts = ranges(words.offsets[:-1], run_counts)[is_shared]
    lengths = np.repeat(np.minimum(words.counts, least), run_counts)[is_shared]
    return spanned(starts, starts + lengths, words.hashes.size)


def covers(left: Ragged, left_rows: I64, right: Ragged, right_rows: I64, least: int) -> I64:
    """Return how many words of pairs of texts `covered` marks.

    left_rows, right_rows: the rows of each pair in left and in right, shape (pairs,).

    Shape (2, pairs): the words of the left text of each pair, and those of the right one.
    """
    counts = np.empty((2, left_rows.size), np.int64)
    for block in blocks(left.counts[left_rows] + right.counts[right_rows], _WORDS_AT_ONCE):
        left_words, right_words = left.of(left_rows[block]), right.of(right_rows[block])
        left_marked, right_marked = covered(left_words, right_words, least)
        counts[0, block] = np.diff(offsets_of(left_marked)[left_words.offsets])
        counts[1, block] = np.diff(offsets_of(right_marked)[right_words.offsets])
    return counts


def _is_among(hashes: U64, targets: U64) -> Mask:
    """Mark the hashes that are among the targets: shape (hashes,)."""
    # Few are: the upper bits rule out most of them without sorting.
    likely, likely_targets = _with_prefixes_of(hashes, targets), _with_prefixes_of(targets, hashes)
    is_among = np.zeros(hashes.size, np.bool_)
    is_among[likely] = np.isin(hashes[likely], targets[likely_targets])
    return is_among


def _with_prefixes_of(hashes: U64, targets: U64) -> I64:
    """Return the positions of hashes whose upper bits a target has."""
    has_prefix = np.zeros(1 << 20, np.bool_)
    has_prefix[targets >> np.uint64(44)] = True
    return np.flatnonzero(has_prefix[hashes >> np.uint64(44)])


def _numbered(left: U64, right: U64) -> tuple[I64, I64]:
    """Return numbers from 0 that are equal where the hashes are."""
    _, numbers = np.unique(np.concatenate([left, right]), return_inverse=True)
    return numbers[: left.size], numbers[left.size :]


def _edges(left: I64, right: I64, left_words: I64, right_words: I64) -> tuple[I64, I64]:
    """Return where equal runs are, left and right, next to which the words differ.

    They are ordered by diagonal, which is the position in right minus that in left, then by
    position.

    left, right: numbers of runs; equal ones have the same.
    left_words, right_words: the number of the word next to each run, and perhaps more.
    """
    # One number for a run and the word next to it: sorted, equal runs are together, by their words.
    base = int(max(left_words.max(), right_words.max())) + 1
    right_keys = right * base + right_words[: right.size]
    order = np.argsort(right_keys)
    right_keys = right_keys[order]
    run_keys = left * base
    left_keys = run_keys + left_words[: left.size]
    # Of the right runs that equal a left one: those with a smaller word than the left run's, then
    # those with the same, then those with a larger one.
    starts = np.searchsorted(right_keys, run_keys)
    same_starts = np.searchsorted(right_keys, left_keys)
    same_ends = np.searchsorted(right_keys, left_keys + 1)
    ends = np.searchsorted(right_keys, run_keys + base)
    smaller, larger = same_starts - starts, ends - same_ends
    left_positions = np.arange(left.size)
    left_edges = np.concatenate(
        [np.repeat(left_positions, smaller), np.repeat(left_positions, larger)]
    )
    right_edges = order[np.concatenate([ranges(starts, smaller), ranges(same_ends, larger)])]
    by_diagonal = np.lexsort((left_edges, right_edges - left_edges))
    return left_edges[by_diagonal], right_edges[by_diagonal]
