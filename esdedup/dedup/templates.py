"""Finds the template that documents follow, and takes apart those that fill it differently.

Invoices, notices and changelogs share nearly all of their words. By these, two documents that
differ in a name and a number are as alike as a document and its copy with two misprints. But
misprints fall anywhere, and documents of a template differ in the same places. The pairs of words
that more than half of the texts have are the template. A run of other words that stands between the
same two of these pairs in more than half of the texts is a place. Documents are duplicates if they
agree in their places.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np

from esdedup.sketch.scheme import Scheme
from esdedup.text.arrays import I64, Ragged
from esdedup.text.normalise import normalise
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import place

FEWEST = 10
"""Different texts that show a template, at least."""
_VARIOUS = 0.5
"""Different words in a place of a template, at least, as a share of the different texts."""
_SPLITTING = Shingling()
"""Into words, whatever the scheme's shingles are of: a place is of whole words and numbers."""
_CONTEXT = 2
"""Words that tell a place from others, before it and behind it."""
_NUMBER = re.compile(r"\S*\d\S*")
_ALIKE = 0.75
"""Likeness of two words, by `difflib`, from which on one is taken for a misprint of the other."""
_SAMPLED, _SHOWING = 1_000, 200
"""Texts of a group that are looked at for templates, and of these the texts that show one."""
_PIVOTS = 50
"""Texts of a sample whose like are looked for."""
_BY_CHANCE = 8
"""Documents that are expected to agree with another by chance, in the places where it does."""
_LEADERS = 64
"""Documents with the same words in a place that a document is compared with."""
_AT_ONCE = 2_000
"""Documents whose texts are held at once."""

Slots = tuple[str | None, ...]
"""The words of a document in each place; None if its words around the place differ too."""
_Key = tuple[int, str | None]
"""A place, and words in it."""
_Where = tuple[int, int]
"""The hashes of the pairs of words before and behind a place, or _EDGE for an end of the text."""
_EDGE = 0
TextsOf = Callable[[I64], Sequence[str]]


@dataclass(frozen=True, eq=False)
class Paired:
    """A normalised text. words: of it. pairs: hashes of any two words in a row."""

    words: list[str]
    pairs: list[int]


@dataclass(frozen=True, eq=False)
class Pattern:
    """A template.

    common: hashes of the pairs of words that more than half of the texts have.
    places: each with the number of words that are compared there, or 0 for all.
    share: texts that have words in the fullest place.
    """

    common: Set[int]
    places: Mapping[_Where, int]
    share: float

    def slots(self, text: Paired) -> Slots | None:
        """The words of a text in the places; None if it lacks half of the common pairs."""
        if not _mostly_in(self.common, text):
            return None
        runs = _runs(text, self.common)
        return tuple(_cut(runs.get(where), where, most) for where, most in self.places.items())


def paired(texts: Sequence[str], scheme: Scheme) -> Iterator[Paired]:
    """Texts as patterns compare them."""
    for text in normalise(texts, scheme.normalisation):
        hashes, starts, ends = place(text, _SPLITTING, scheme.seed)
        words = [text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        pairs = shingle(Ragged(hashes, np.array([0, hashes.size])), _CONTEXT).hashes
        yield Paired(words, pairs.tolist())


def pattern_of(texts: Sequence[Paired]) -> Pattern | None:
    """The template that texts follow, or None if they are too few, or do not differ alike."""
    texts = list({tuple(text.words): text for text in texts}.values())
    if len(texts) < FEWEST:
        return None
    counts = Counter(pair for text in texts for pair in {*text.pairs})
    common = {pair for pair, count in counts.items() if 2 * count > len(texts)}
    seen: dict[_Where, list[list[str]]] = defaultdict(list)
    for text in texts:
        for where, words in _runs(text, common).items():
            seen[where].append(words)
    seen = {where: found for where, found in seen.items() if 2 * len(found) > len(texts)}
    own = [found for where, found in seen.items() if _is_inside(where, found, len(texts))]
    if max((len({*map(tuple, found)}) for found in own), default=0) < _VARIOUS * len(texts):
        return None
    places = {where: _compared(where, found) for where, found in seen.items()}
    return Pattern(common, places, max(map(len, own)) / len(texts))


def _is_inside(where: _Where, found: list[list[str]], texts: int) -> bool:
    """True unless a place is a header or footer: at an end, most texts have one outer word."""
    if _EDGE not in where:
        return True
    outer = Counter(words[0 if where[0] == _EDGE else -1] for words in found)
    return 2 * outer.most_common(1)[0][1] > texts


def _compared(where: _Where, found: list[list[str]]) -> int:
    """The number of words to compare in a place, or 0 for all.

    At an end of a text a header or footer may follow: as many words as nine of ten texts have.
    """
    return sorted(map(len, found))[len(found) // 10] if _EDGE in where else 0


def _mostly_in(pairs: Set[int], text: Paired) -> bool:
    """True if a text has at least half of some pairs of words."""
    return 2 * len(pairs & {*text.pairs}) >= len(pairs)


def _runs(text: Paired, common: Set[int]) -> dict[_Where, list[str]]:
    """The runs of words in no common pair, by the common pairs before and behind them."""
    words, pairs = text.words, text.pairs
    at = [row for row, pair in enumerate(pairs) if pair in common]
    if not at:
        return {}
    found: dict[_Where, list[str]] = {}
    for before, behind in itertools.pairwise(at):
        if behind - before > _CONTEXT:
            where = pairs[before], pairs[behind]
            found.setdefault(where, words[before + _CONTEXT : behind])
    if at[0] > 0:
        found[_EDGE, pairs[at[0]]] = words[: at[0]]
    if at[-1] + _CONTEXT < len(words):
        found[pairs[at[-1]], _EDGE] = words[at[-1] + _CONTEXT :]
    return found


def _cut(words: list[str] | None, where: _Where, most: int) -> str | None:
    if words is None:
        return None
    if most:
        words = words[-most:] if where[0] == _EDGE else words[:most]
    return " ".join(words)


def _agree(one: Slots, other: Slots, often: Counter[_Key], documents: int) -> bool:
    """True if documents agree in all places that both have, and few would do so by chance.

    Misprints of words do not count. A number is never one.
    often: documents with the words in a place.
    """
    by_chance = float(documents)
    differing = []
    for at, (left, right) in enumerate(zip(one, other, strict=True)):
        if left is None or right is None:
            continue
        if left != right:
            if _NUMBER.findall(left) != _NUMBER.findall(right):
                return False
            differing.append((left, right))
        by_chance *= max(often[at, left], often[at, right]) / documents
    return by_chance <= _BY_CHANCE and all(_misprinted(*each) for each in differing)


def _misprinted(one: str, other: str) -> bool:
    """True if two texts of the same numbers differ in misprints of words."""
    left, right = one.split(), other.split()
    return len(left) == len(right) and all(
        a == b or difflib.get_close_matches(a, [b], 1, _ALIKE)
        for a, b in zip(left, right, strict=True)
    )


def split_templates(partition: I64, texts_of: TextsOf, scheme: Scheme) -> I64:
    """A partition in which documents of a template are together only if they agree in its places.

    partition: the first row of each row's group, as in `union_find`. texts_of: texts of rows. Each
    group of `FEWEST` and more is looked at. A template of fewer than `FEWEST` different documents,
    or of less than about a hundredth of its group, may be missed, and its documents stay together.
    Holds the words in the places of one group.
    """
    split = partition.copy()
    _, sizes = np.unique(partition, return_counts=True)
    by_head = np.argsort(partition, kind="stable")
    ends = np.cumsum(sizes)
    for at in np.flatnonzero(sizes >= FEWEST).tolist():
        rest = by_head[ends[at] - sizes[at] : ends[at]]
        while rest.size >= FEWEST and (pattern := _pattern_in(rest, texts_of, scheme)):
            slots = list(_slots_of(pattern, rest, texts_of, scheme))
            follows = np.array([each is not None for each in slots])
            members, rest = rest[follows], rest[~follows]
            split[members] = members[_leaders([each for each in slots if each is not None])]
        if rest.size:
            split[rest] = rest[0]
    return split


def _pattern_in(rows: I64, texts_of: TextsOf, scheme: Scheme) -> Pattern | None:
    """A template that some of the rows follow, or None if a sample shows none."""
    some = rows[np.unique(np.linspace(0, rows.size - 1, _SAMPLED).astype(np.int64))]
    sample = [text for text in paired(texts_of(some), scheme) if text.words]
    for _ in range(_PIVOTS):
        if len(sample) < FEWEST:
            return None
        pivot = {*sample[0].pairs}
        alike = [_mostly_in(pivot, text) for text in sample]
        near = [text for text, is_alike in zip(sample, alike, strict=True) if is_alike]
        if pattern := pattern_of(near[:_SHOWING]):
            return pattern
        sample = [text for text, is_alike in zip(sample, alike, strict=True) if not is_alike]
    return None


def _slots_of(
    pattern: Pattern, rows: I64, texts_of: TextsOf, scheme: Scheme
) -> Iterator[Slots | None]:
    for first in range(0, rows.size, _AT_ONCE):
        yield from map(pattern.slots, paired(texts_of(rows[first : first + _AT_ONCE]), scheme))


def _leaders(slots: Sequence[Slots]) -> list[int]:
    """For each document, the position of the first of those that agree with it."""
    often = Counter(key for each in slots for key in enumerate(each))
    leading: dict[_Key, list[int]] = defaultdict(list)
    leader = [*range(len(slots))]
    # One that lacks words may agree with several. So those that lack the fewest lead.
    for row in sorted(leader, key=lambda row: (slots[row].count(None), row)):
        keys = [key for key in enumerate(slots[row]) if key[1] is not None]
        keys.sort(key=often.__getitem__)
        near = itertools.chain.from_iterable(leading[key][:_LEADERS] for key in keys)
        found = next(
            (each for each in near if _agree(slots[each], slots[row], often, len(slots))), None
        )
        if found is not None:
            leader[row] = found
            continue
        for key in keys:
            leading[key].append(row)
    first: dict[int, int] = {}
    for row, each in enumerate(leader):
        first.setdefault(each, row)
    return [first[each] for each in leader]
