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

    words: hashed words of texts. run: words of a run. window: runs of a window; a text with fewer
    runs has one window of all of them. bits: low bits of a hash to return; those are independent of
    its size, by which the smallest are chosen.
    """
    runs = shingle(words, run)
    least, width, counts = runs.hashes, 1, runs.counts
    while width < window:
        step = min(width, window - width)
        least, width = np.minimum(least[:-step], least[step:]), width + step
    whole = np.maximum(counts - window + 1, 0)
    short = np.flatnonzero((counts > 0) & (whole == 0))
    kept = np.empty(whole.sum() + short.size, np.uint64)
    offsets = offsets_of(np.maximum(whole, np.minimum(counts, 1)))
    kept[ranges(offsets[:-1], whole)] = least[ranges(runs.offsets[:-1], whole)]
    if short.size:
        some = runs.of(short)
        kept[offsets[short]] = np.minimum.reduceat(some.hashes, some.offsets[:-1])
    new = run_starts(kept)
    new[offsets[:-1][np.diff(offsets) > 0]] = True
    rows = Ragged(kept, offsets).only(new)
    return distinct(Ragged(rows.hashes & np.uint64((1 << bits) - 1), rows.offsets))


def shared_runs(left: U64, right: U64, least: int) -> tuple[I64, I64, I64]:
    """Return the longest shared runs of at least `least` words: starts in both, and lengths.

    Each of shape (runs,), ordered by the start in left, then in right. No run can be extended in
    either direction. Two equal texts of fewer words share all of them. left, right: hashed words.
    Time and memory grow with the words and the runs found, also if a text repeats itself.
    """
    runs = _numbered(*(shingle(Ragged.of_rows([each]), least).hashes for each in (left, right)))
    words = [each + 2 for each in _numbered(left, right)]
    # The ends of two texts, 0 and 1, differ from each other and from every word.
    starts, behind = _edges(*runs, *(np.append(end, each) for end, each in enumerate(words)))
    ends, _ = _edges(*runs, *(np.append(each[least:], end) for end, each in enumerate(words)))
    # On a diagonal the first start belongs to the first end.
    order = np.lexsort((behind, starts))
    lengths = ends - starts + min(least, left.size)
    return starts[order], behind[order], lengths[order]


def covered(left: Ragged, right: Ragged, least: int) -> tuple[Mask, Mask]:
    """Mark the words of row i of each that are in a run that `shared_runs` returns for rows i.

    Each of shape (words,), of left and of right.
    """
    runs = [shingle(each, least) for each in (left, right)]
    # Equal runs of different rows differ.
    keyed = [
        each.hashes + np.repeat(np.arange(len(each)), each.counts).view(np.uint64) * PRIME64_1
        for each in runs
    ]
    found = []
    for words, each, own, other in zip((left, right), runs, keyed, keyed[::-1], strict=True):
        first = ranges(words.offsets[:-1], each.counts)[shared := _shared(own, other)]
        lengths = np.repeat(np.minimum(words.counts, least), each.counts)[shared]
        found.append(spanned(first, first + lengths, words.hashes.size))
    return found[0], found[1]


def covers(left: Ragged, i: I64, right: Ragged, j: I64, least: int) -> I64:
    """Return how many words of pairs of texts `covered` marks: of the left and of the right ones.

    i, j: rows of left and right, shape (pairs,). Shape (2, pairs).
    """
    found = np.empty((2, i.size), np.int64)
    for block in blocks(left.counts[i] + right.counts[j], _WORDS_AT_ONCE):
        sides = left.of(i[block]), right.of(j[block])
        for at, (side, marked) in enumerate(zip(sides, covered(*sides, least), strict=True)):
            found[at, block] = np.diff(offsets_of(marked)[side.offsets])
    return found


def _shared(own: U64, other: U64) -> Mask:
    """Return which of some hashes are among others: shape (own,)."""
    # Few are: the upper bits rule out most of them without sorting.
    kept = []
    for each, those in ((own, other), (other, own)):
        known = np.zeros(1 << 20, np.bool_)
        known[those >> np.uint64(44)] = True
        kept.append(np.flatnonzero(known[each >> np.uint64(44)]))
    shared = np.zeros(own.size, np.bool_)
    shared[kept[0]] = np.isin(own[kept[0]], other[kept[1]])
    return shared


def _numbered(left: U64, right: U64) -> tuple[I64, I64]:
    """Return numbers from 0 that are equal where the hashes are."""
    _, numbers = np.unique(np.concatenate([left, right]), return_inverse=True)
    return numbers[: left.size], numbers[left.size :]


def _edges(left: I64, right: I64, left_near: I64, right_near: I64) -> tuple[I64, I64]:
    """Return the positions of equal runs next to which the words differ, by diagonal, in order.

    left, right: runs. left_near, right_near: the word next to each, and perhaps more.
    """
    base = int(max(left_near.max(), right_near.max())) + 1
    keys = right * base + right_near[: right.size]
    order = np.argsort(keys)
    keys = keys[order]
    first, own = left * base, left * base + left_near[: left.size]
    # In order: other words before the equal ones, the equal ones, other words after them.
    bounds = [np.searchsorted(keys, each) for each in (first, own, own + 1, first + base)]
    before, after = bounds[1] - bounds[0], bounds[3] - bounds[2]
    i = np.concatenate([np.repeat(np.arange(left.size), each) for each in (before, after)])
    j = order[np.concatenate([ranges(bounds[0], before), ranges(bounds[2], after)])]
    sort = np.lexsort((i, j - i))
    return i[sort], j[sort]
