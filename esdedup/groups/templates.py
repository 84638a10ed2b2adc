"""Find the template that documents follow, and separate those that fill it differently.

Invoices, notices and changelogs share nearly all of their words: by these, two documents that
differ in a name and a number are as similar as a document and its copy with two misprints. But
misprints are anywhere, and documents of a template differ in the same places. The pairs of words
that more than half of the texts have are the template. A run of other words between the same two of
these pairs, in more than half of the texts, is a place. A repeated phrase fills its place several
times. Documents are duplicates if they agree in their places and in their numbers, wherever these
are, except in a header or footer. One can lack a number of the other, as a copy without a sentence
does.
"""

import difflib
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

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
"""Words before and behind a place, by which it is known."""
_NUMBER = re.compile(r"\S*\d\S*")
_ALIKE = 0.75
"""Similarity of two words, by `difflib`, from which on one counts as a misprint of the other."""
_SAMPLED, _SHOWING = 1_000, 200
"""Texts of a group that are looked at for templates, and of these the texts that show one."""
_PIVOTS = 50
"""Texts of a sample that similar ones are looked up for."""
_BY_CHANCE = 8
"""Documents that are expected to agree with another by chance, in the places where it does."""
_OPTIONAL = 1
"""The same, but fewer, if one lacks what documents of the template may lack: a clause with a number
that most do not have, or one of the times that a place comes."""
_LEADERS = 64
"""Documents with the same words in a place that a document is compared with."""
_AT_ONCE = 2_000
"""Documents whose texts are held at once."""

_Key = tuple[int, str]
"""A place and words in it, or _NUMBERS and all numbers of a document."""
_NUMBERS = -1
_Where = tuple[int, int]
"""The hashes of the pairs of words before and behind a place, or _EDGE for an end of the text."""
_EDGE = 0
_Runs = tuple[tuple[str, ...], ...]
"""The words between two common pairs, each time that they come."""
TextsOf = Callable[[I64], Sequence[str]]


@dataclass(frozen=True, eq=False)
class Paired:
    """A normalised text. words: of it. pairs: hashes of any two words in a row."""

    words: list[str]
    pairs: list[int]


@dataclass(frozen=True, eq=False)
class Filling:
    """The words of a document that distinguish it from others of its template.

    places: the words in each place of a template, each time that it comes; none if the words around
    it differ too. numbers: in the order of the text, those of a header or footer left out. around:
    the words before and behind each number, or "" at an end of the text.
    optional: numbers among words that most documents have not, and that are in no place.
    """

    places: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...]
    around: tuple[tuple[str, str], ...]
    optional: frozenset[str]

    def entries(self) -> set[_Key]:
        """Return all entries. Documents that agree share one, except for misprints."""
        filled = {(at, words) for at, found in enumerate(self.places) for words in found}
        return {*filled, (_NUMBERS, " ".join(self.numbers))}


@dataclass(frozen=True, eq=False)
class Pattern:
    """A template.

    common: hashes of the pairs of words that more than half of the texts have.
    before, behind: of each of these pairs, the words before its first time and behind its last that
    nine of ten texts have. Words that are farther out are a header or a footer.
    places: each with the words that are compared there.
    """

    common: Set[int]
    before: Mapping[int, int]
    behind: Mapping[int, int]
    places: Mapping[_Where, slice]

    def filling(self, text: Paired) -> Filling | None:
        """Return how a text fills the template; None if it lacks half of the common pairs."""
        if not _mostly_in(self.common, text):
            return None
        runs = _runs(text, self.common)
        places = [
            tuple(" ".join(words[compared]) for words in runs.get(where, ()))
            for where, compared in self.places.items()
        ]
        others = [runs[where] for where in runs if where not in self.places and _EDGE not in where]
        optional = [number for found in others for words in found for number in _numbers(words)[0]]
        return Filling(tuple(places), *_numbers(self._body(text)), frozenset(optional))

    def _body(self, text: Paired) -> list[str]:
        """Return the words of a text without a header and a footer."""
        at = [row for row, pair in enumerate(text.pairs) if pair in self.common]
        if not at:
            return text.words
        first = at[0] - self.before[text.pairs[at[0]]]
        end = at[-1] + _CONTEXT + self.behind[text.pairs[at[-1]]]
        return text.words[max(first, 0) : end]


def paired(texts: Sequence[str], scheme: Scheme) -> Iterator[Paired]:
    """Yield texts as patterns compare them."""
    splitting = replace(_SPLITTING, version=scheme.version)
    for text in normalise(texts, scheme.normalisation):
        hashes, starts, ends = place(text, splitting, scheme.seed)
        words = [text[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        pairs = shingle(Ragged(hashes, np.array([0, hashes.size])), _CONTEXT).hashes
        yield Paired(words, pairs.tolist())


def pattern_of(texts: Sequence[Paired]) -> Pattern | None:
    """Return the template of texts, or None if they are too few or do not differ in places."""
    texts = list({tuple(text.words): text for text in texts}.values())
    if len(texts) < FEWEST:
        return None
    counts = Counter(pair for text in texts for pair in {*text.pairs})
    common = {pair for pair, count in counts.items() if 2 * count > len(texts)}
    seen: dict[_Where, list[_Runs]] = defaultdict(list)
    for text in texts:
        for where, words in _runs(text, common).items():
            seen[where].append(words)
    seen = {where: found for where, found in seen.items() if 2 * len(found) > len(texts)}
    own = [found for where, found in seen.items() if _is_inside(where, found, len(texts))]
    if max((len({*found}) for found in own), default=0) < _VARIOUS * len(texts):
        return None
    before, behind = _outside(texts, common)
    places = {where: _compared(where, found) for where, found in seen.items()}
    return Pattern(common, before, behind, places)


def _outside(texts: Sequence[Paired], common: Set[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return `before` and `behind` of a `Pattern`."""
    before: dict[int, list[int]] = defaultdict(list)
    behind: dict[int, list[int]] = defaultdict(list)
    for text in texts:
        last = {pair: row for row, pair in enumerate(text.pairs) if pair in common}
        first = {pair: row for row, pair in reversed([*enumerate(text.pairs)]) if pair in common}
        for pair in last:
            before[pair].append(first[pair])
            behind[pair].append(len(text.words) - _CONTEXT - last[pair])
    return (
        {pair: _in_nine_of_ten(found) for pair, found in before.items()},
        {pair: _in_nine_of_ten(found) for pair, found in behind.items()},
    )


def _in_nine_of_ten(counts: Sequence[int]) -> int:
    """Return the count that nine of ten reach."""
    return sorted(counts)[len(counts) // 10]


def _is_inside(where: _Where, found: Sequence[_Runs], texts: int) -> bool:
    """True unless a place is a header or footer: at an end, most texts have one outer word."""
    if _EDGE not in where:
        return True
    outer = Counter(words[0 if where[0] == _EDGE else -1] for (words,) in found)
    return 2 * outer.most_common(1)[0][1] > texts


def _compared(where: _Where, found: Sequence[_Runs]) -> slice:
    """Return the words of a place to compare: at an end of the text, those nine of ten have."""
    if _EDGE not in where:
        return slice(None)
    # Words that are farther out are a header or footer.
    most = _in_nine_of_ten([len(words) for (words,) in found])
    return slice(-most, None) if where[0] == _EDGE else slice(most)


def _mostly_in(pairs: Set[int], text: Paired) -> bool:
    """Return whether a text has at least half of some pairs of words."""
    return 2 * len(pairs & {*text.pairs}) >= len(pairs)


def _runs(text: Paired, common: Set[int]) -> dict[_Where, _Runs]:
    """Return the runs of words in no common pair, by the common pairs around them."""
    words, pairs = text.words, text.pairs
    at = [row for row, pair in enumerate(pairs) if pair in common]
    if not at:
        return {}
    found: dict[_Where, _Runs] = {}
    for before, behind in itertools.pairwise(at):
        if behind - before > _CONTEXT:
            where = pairs[before], pairs[behind]
            found[where] = (*found.get(where, ()), tuple(words[before + _CONTEXT : behind]))
    if at[0] > 0:
        found[_EDGE, pairs[at[0]]] = (tuple(words[: at[0]]),)
    if at[-1] + _CONTEXT < len(words):
        found[pairs[at[-1]], _EDGE] = (tuple(words[at[-1] + _CONTEXT :]),)
    return found


def _numbers(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The numbers among words, and the words around each. Numbers in a row are one: 1,200."""
    runs = itertools.groupby(words, lambda word: bool(_NUMBER.fullmatch(word)))
    parts = [(is_number, [*run]) for is_number, run in runs]
    inner = zip([(False, [""]), *parts], parts, [*parts[1:], (False, [""])], strict=False)
    found = [
        (" ".join(run), (before[-1], behind[0]))
        for (_, before), (is_number, run), (_, behind) in inner
        if is_number
    ]
    return tuple(number for number, _ in found), tuple(around for _, around in found)


def _agree(one: Filling, other: Filling, often: Counter[_Key], documents: int) -> bool:
    """Return whether documents agree in what both have, and few would do so by chance.

    often: documents with the words in a place.
    """
    is_lacking = False
    if one.numbers != other.numbers:
        less, full = sorted((one, other), key=lambda each: len(each.numbers))
        if not _has_numbers_of(full, less):
            return False
        lacked = Counter(full.numbers) - Counter(less.numbers)
        is_lacking = not full.optional.isdisjoint(lacked)
    by_chance = float(documents)
    said: list[tuple[str, str]] = []
    for at, places in enumerate(zip(one.places, other.places, strict=True)):
        fewer, more = sorted(places, key=len)
        found = list(_aligned(fewer, more))
        if len(found) < len(fewer):
            return False
        is_lacking |= 0 < len(fewer) < len(more)
        for left, right in found:
            by_chance *= max(often[at, left], often[at, right]) / documents
        said += found
    is_rare = by_chance < _OPTIONAL if is_lacking else by_chance <= _BY_CHANCE
    return is_rare and all(itertools.starmap(_says_the_same, said))


def _has_numbers_of(full: Filling, less: Filling) -> bool:
    """True if a document has all numbers of another in their order, each beside an equal word."""
    # Without the words between them, two numbers of one are a single number of the other.
    if " ".join(less.numbers) == " ".join(full.numbers):
        return True
    rest = zip(full.numbers, full.around, strict=True)
    return len(less.numbers) < len(full.numbers) and all(
        any(
            number == other and (around[0] == others[0] or around[1] == others[1])
            for other, others in rest
        )
        for number, around in zip(less.numbers, less.around, strict=True)
    )


def _aligned(fewer: Sequence[str], more: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each of `fewer` with one of `more`, in order, up to the first that has none."""
    if len(fewer) == len(more):
        yield from zip(fewer, more, strict=True)
        return
    rest = iter(more)
    for each in fewer:
        again = next((other for other in rest if _says_the_same(each, other)), None)
        if again is None:
            return
        yield each, again


def _says_the_same(one: str, other: str) -> bool:
    """Return whether two texts have the same numbers, and equal words except for misprints."""
    left, right = one.split(), other.split()
    return len(left) == len(right) and all(map(_is_misprint, left, right))


def _is_misprint(one: str, other: str) -> bool:
    """Return whether two words are equal, or similar and no numbers."""
    if one == other:
        return True
    is_number = _NUMBER.fullmatch(one) or _NUMBER.fullmatch(other)
    return not is_number and bool(difflib.get_close_matches(one, [other], 1, _ALIKE))


def split_templates(partition: I64, texts_of: TextsOf, scheme: Scheme) -> I64:
    """Return a partition in which documents of a template are together only if they agree.

    partition: the first row of each row's group, as in `union_find`. texts_of: texts of rows. Each
    group of `FEWEST` and more is looked at. A template of fewer than `FEWEST` different documents,
    or of less than about a hundredth of its group, can be missed: its documents stay together.
    """
    split = partition.copy()
    _, sizes = np.unique(partition, return_counts=True)
    by_head = np.argsort(partition, kind="stable")
    ends = np.cumsum(sizes)
    for group in np.flatnonzero(sizes >= FEWEST).tolist():
        rest = by_head[ends[group] - sizes[group] : ends[group]]
        while rest.size >= FEWEST and (pattern := _pattern_in(rest, texts_of, scheme)):
            found = [
                pattern.filling(text)
                for at in range(0, rest.size, _AT_ONCE)
                for text in paired(texts_of(rest[at : at + _AT_ONCE]), scheme)
            ]
            follows = np.array([each is not None for each in found])
            members, rest = rest[follows], rest[~follows]
            split[members] = members[_leaders([each for each in found if each is not None])]
        if rest.size:
            split[rest] = rest[0]
    return split


def _pattern_in(rows: I64, texts_of: TextsOf, scheme: Scheme) -> Pattern | None:
    """Return a template that some of the rows follow, or None if a sample shows none."""
    some = rows[np.unique(np.linspace(0, rows.size - 1, _SAMPLED).astype(np.int64))]
    sample = [text for text in paired(texts_of(some), scheme) if text.words]
    for _ in range(_PIVOTS):
        if len(sample) < FEWEST:
            return None
        pivot = {*sample[0].pairs}
        near = [text for text in sample if _mostly_in(pivot, text)]
        if pattern := pattern_of(near[:_SHOWING]):
            return pattern
        sample = [text for text in sample if not _mostly_in(pivot, text)]
    return None


def _leaders(fillings: Sequence[Filling]) -> list[int]:
    """Return for each document the position of the first of those that agree with it."""
    often = Counter(key for each in fillings for key in each.entries())
    leading: dict[_Key, list[int]] = defaultdict(list)
    leader = [*range(len(fillings))]
    # One that lacks words may agree with several. So those that lack the fewest lead.
    lacks = [(each.places.count(()), -len(each.numbers)) for each in fillings]
    for row in sorted(leader, key=lambda row: (lacks[row], row)):
        keys = [
            key
            for key in fillings[row].entries()
            if key[0] != _NUMBERS or often[key] <= _LEADERS  # Rare, or no help in finding.
        ]
        keys.sort(key=lambda key: (often[key], key))
        near = itertools.chain.from_iterable(leading[key][:_LEADERS] for key in keys)
        found = next(
            (each for each in near if _agree(fillings[each], fillings[row], often, len(fillings))),
            None,
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
