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
from esdedup.text.words import place as place_words

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
_Place = tuple[int, int]
"""The hashes of the pairs of words before and behind a place, or _EDGE for an end of the text."""
_EDGE = 0
_Runs = tuple[tuple[str, ...], ...]
"""The words between two common pairs, each time that they come."""
TextsOf = Callable[[I64], Sequence[str]]


@dataclass(frozen=True, eq=False)
class Paired:
    """A normalised text.

    words: of it.
    pairs: hashes of any two words in a row.
    """

    words: list[str]
    pairs: list[int]


@dataclass(frozen=True, eq=False)
class Filling:
    """The words of a document that distinguish it from others of its template.

    places: the words in each place of a template, each time that it comes; none if the words around
        it differ too.
    numbers: in the order of the text, those of a header or footer left out.
    around: the words before and behind each number, or "" at an end of the text.
    optional: numbers among words that most documents have not, and that are in no place.
    """

    places: tuple[tuple[str, ...], ...]
    numbers: tuple[str, ...]
    around: tuple[tuple[str, str], ...]
    optional: frozenset[str]

    def entries(self) -> set[_Key]:
        """Return all entries. Documents that agree share one, except for misprints."""
        entries = {(number, words) for number, runs in enumerate(self.places) for words in runs}
        return {*entries, (_NUMBERS, " ".join(self.numbers))}


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
    places: Mapping[_Place, slice]

    def filling(self, text: Paired) -> Filling | None:
        """Return how a text fills the template; None if it lacks half of the common pairs."""
        if not _mostly_in(self.common, text):
            return None
        runs = _runs(text, self.common)
        places = [
            tuple(" ".join(words[compared]) for words in runs.get(place, ()))
            for place, compared in self.places.items()
        ]
        optional = [
            number
            for place, runs_of_words in runs.items()
            if place not in self.places and _EDGE not in place
            for words in runs_of_words
            for number in _numbers(words)[0]
        ]
        return Filling(tuple(places), *_numbers(self._body(text)), frozenset(optional))

    def _body(self, text: Paired) -> list[str]:
        """Return the words of a text without a header and a footer."""
        positions = [number for number, pair in enumerate(text.pairs) if pair in self.common]
        if not positions:
            return text.words
        first_pair, last_pair = text.pairs[positions[0]], text.pairs[positions[-1]]
        start = positions[0] - self.before[first_pair]
        end = positions[-1] + _CONTEXT + self.behind[last_pair]
        return text.words[max(start, 0) : end]


def paired(texts: Sequence[str], scheme: Scheme) -> Iterator[Paired]:
    """Yield texts as patterns compare them."""
    splitting = replace(_SPLITTING, version=scheme.version)
    for text in normalise(texts, scheme.normalisation):
        hashes, starts, ends = place_words(text, splitting, scheme.seed)
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        words = [text[start:end] for start, end in spans]
        pairs = shingle(Ragged(hashes, np.array([0, hashes.size])), _CONTEXT).hashes
        yield Paired(words, pairs.tolist())


def pattern_of(texts: Sequence[Paired]) -> Pattern | None:
    """Return the template of texts, or None if they are too few or do not differ in places."""
    texts = list({tuple(text.words): text for text in texts}.values())
    if len(texts) < FEWEST:
        return None
    counts = Counter(pair for text in texts for pair in {*text.pairs})
    common = {pair for pair, count in counts.items() if 2 * count > len(texts)}
    runs_at: dict[_Place, list[_Runs]] = defaultdict(list)
    for text in texts:
        for place, runs in _runs(text, common).items():
            runs_at[place].append(runs)
    frequent = {place: runs for place, runs in runs_at.items() if 2 * len(runs) > len(texts)}
    inside = [runs for place, runs in frequent.items() if _is_inside(place, runs, len(texts))]
    if max((len({*runs}) for runs in inside), default=0) < _VARIOUS * len(texts):
        return None
    before, behind = _outside(texts, common)
    places = {place: _compared(place, runs) for place, runs in frequent.items()}
    return Pattern(common, before, behind, places)


def _outside(texts: Sequence[Paired], common: Set[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return `before` and `behind` of a `Pattern`."""
    before: dict[int, list[int]] = defaultdict(list)
    behind: dict[int, list[int]] = defaultdict(list)
    for text in texts:
        numbered = [(number, pair) for number, pair in enumerate(text.pairs) if pair in common]
        last = {pair: number for number, pair in numbered}
        first = {pair: number for number, pair in reversed(numbered)}
        for pair in last:
            before[pair].append(first[pair])
            behind[pair].append(len(text.words) - _CONTEXT - last[pair])
    return (
        {pair: _in_nine_of_ten(counts) for pair, counts in before.items()},
        {pair: _in_nine_of_ten(counts) for pair, counts in behind.items()},
    )


def _in_nine_of_ten(counts: Sequence[int]) -> int:
    """Return the count that nine of ten reach."""
    return sorted(counts)[len(counts) // 10]


def _is_inside(place: _Place, runs: Sequence[_Runs], texts: int) -> bool:
    """True unless a place is a header or footer: at an end, most texts have one outer word."""
    if _EDGE not in place:
        return True
    outer_words = Counter(words[0 if place[0] == _EDGE else -1] for (words,) in runs)
    return 2 * outer_words.most_common(1)[0][1] > texts


def _compared(place: _Place, runs: Sequence[_Runs]) -> slice:
    """Return the words of a place to compare: at an end of the text, those nine of ten have."""
    if _EDGE not in place:
        return slice(None)
    # Words that are farther out are a header or footer.
    count = _in_nine_of_ten([len(words) for (words,) in runs])
    return slice(-count, None) if place[0] == _EDGE else slice(count)


def _mostly_in(pairs: Set[int], text: Paired) -> bool:
    """Return whether a text has at least half of some pairs of words."""
    return 2 * len(pairs & {*text.pairs}) >= len(pairs)


def _runs(text: Paired, common: Set[int]) -> dict[_Place, _Runs]:
    """Return the runs of words in no common pair, by the common pairs around them."""
    words, pairs = text.words, text.pairs
    positions = [number for number, pair in enumerate(pairs) if pair in common]
    if not positions:
        return {}
    runs: dict[_Place, _Runs] = {}
    for before, behind in itertools.pairwise(positions):
        if behind - before > _CONTEXT:
            place = pairs[before], pairs[behind]
            runs[place] = (*runs.get(place, ()), tuple(words[before + _CONTEXT : behind]))
    first, last = positions[0], positions[-1]
    if first > 0:
        runs[_EDGE, pairs[first]] = (tuple(words[:first]),)
    if last + _CONTEXT < len(words):
        runs[pairs[last], _EDGE] = (tuple(words[last + _CONTEXT :]),)
    return runs


def _numbers(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the numbers among words, and the words around each. 1,200 is one number."""
    grouped = itertools.groupby(words, lambda word: bool(_NUMBER.fullmatch(word)))
    runs = [(is_number, [*run]) for is_number, run in grouped]
    edge = (False, [""])
    neighbours = zip([edge, *runs], runs, [*runs[1:], edge], strict=False)
    numbers = [
        (" ".join(run), (before[-1], behind[0]))
        for (_, before), (is_number, run), (_, behind) in neighbours
        if is_number
    ]
    return tuple(number for number, _ in numbers), tuple(around for _, around in numbers)


def _agree(left: Filling, right: Filling, frequency: Counter[_Key], documents: int) -> bool:
    """Return whether documents agree in what both have, and few would do so by chance.

    frequency: number of documents with the words in a place.
    """
    is_lacking = False
    if left.numbers != right.numbers:
        less, full = sorted((left, right), key=lambda filling: len(filling.numbers))
        if not _has_numbers_of(full, less):
            return False
        lacked = Counter(full.numbers) - Counter(less.numbers)
        is_lacking = not full.optional.isdisjoint(lacked)
    by_chance = float(documents)
    aligned: list[tuple[str, str]] = []
    for place, runs in enumerate(zip(left.places, right.places, strict=True)):
        shorter, longer = sorted(runs, key=len)
        aligned_here = list(_aligned(shorter, longer))
        if len(aligned_here) < len(shorter):
            return False
        is_lacking |= 0 < len(shorter) < len(longer)
        for left_words, right_words in aligned_here:
            most = max(frequency[place, left_words], frequency[place, right_words])
            by_chance *= most / documents
        aligned += aligned_here
    is_rare = by_chance < _OPTIONAL if is_lacking else by_chance <= _BY_CHANCE
    return is_rare and all(itertools.starmap(_says_the_same, aligned))


def _has_numbers_of(full: Filling, less: Filling) -> bool:
    """True if a document has all numbers of another in their order, each beside an equal word."""
    # Without the words between them, two numbers of one are a single number of the other.
    if " ".join(less.numbers) == " ".join(full.numbers):
        return True
    # The iterator goes on where the last number was, so that the order counts.
    candidates = zip(full.numbers, full.around, strict=True)
    return len(less.numbers) < len(full.numbers) and all(
        any(
            number == candidate and (before == before_candidate or behind == behind_candidate)
            for candidate, (before_candidate, behind_candidate) in candidates
        )
        for number, (before, behind) in zip(less.numbers, less.around, strict=True)
    )


def _aligned(shorter: Sequence[str], longer: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the words of `shorter` with those of `longer`, in order, up to the first without."""
    if len(shorter) == len(longer):
        yield from zip(shorter, longer, strict=True)
        return
    candidates = iter(longer)
    for words in shorter:
        partner = next(
            (candidate for candidate in candidates if _says_the_same(words, candidate)), None
        )
        if partner is None:
            return
        yield words, partner


def _says_the_same(left: str, right: str) -> bool:
    """Return whether two texts have the same numbers, and equal words except for misprints."""
    left_words, right_words = left.split(), right.split()
    if len(left_words) != len(right_words):
        return False
    return all(map(_is_misprint, left_words, right_words))


def _is_misprint(left: str, right: str) -> bool:
    """Return whether two words are equal, or similar and no numbers."""
    if left == right:
        return True
    is_number = _NUMBER.fullmatch(left) or _NUMBER.fullmatch(right)
    return not is_number and bool(difflib.get_close_matches(left, [right], 1, _ALIKE))


def split_templates(partition: I64, texts_of: TextsOf, scheme: Scheme) -> I64:
    """Return a partition in which documents of a template are together only if they agree.

    partition: the first row of each row's group, as in `union_find`.
    texts_of: returns the texts of rows.

    Each group of `FEWEST` and more is looked at. A template of fewer than `FEWEST` different
    documents, or of less than about a hundredth of its group, can be missed: its documents stay
    together.
    """
    split = partition.copy()
    _, sizes = np.unique(partition, return_counts=True)
    by_head = np.argsort(partition, kind="stable")
    ends = np.cumsum(sizes)
    for group in np.flatnonzero(sizes >= FEWEST).tolist():
        rows = by_head[ends[group] - sizes[group] : ends[group]]
        while rows.size >= FEWEST and (pattern := _pattern_in(rows, texts_of, scheme)):
            fillings = [
                pattern.filling(text)
                for start in range(0, rows.size, _AT_ONCE)
                for text in paired(texts_of(rows[start : start + _AT_ONCE]), scheme)
            ]
            follows = np.array([filling is not None for filling in fillings])
            members, rows = rows[follows], rows[~follows]
            leaders = _leaders([filling for filling in fillings if filling is not None])
            split[members] = members[leaders]
        if rows.size:
            split[rows] = rows[0]
    return split


def _pattern_in(rows: I64, texts_of: TextsOf, scheme: Scheme) -> Pattern | None:
    """Return a template that some of the rows follow, or None if a sample shows none."""
    sampled = rows[np.unique(np.linspace(0, rows.size - 1, _SAMPLED).astype(np.int64))]
    sample = [text for text in paired(texts_of(sampled), scheme) if text.words]
    for _ in range(_PIVOTS):
        if len(sample) < FEWEST:
            return None
        pivot = {*sample[0].pairs}
        similar = [text for text in sample if _mostly_in(pivot, text)]
        if pattern := pattern_of(similar[:_SHOWING]):
            return pattern
        sample = [text for text in sample if not _mostly_in(pivot, text)]
    return None


def _leaders(fillings: Sequence[Filling]) -> list[int]:
    """Return for each document the position of the first of those that agree with it."""
    frequency = Counter(key for filling in fillings for key in filling.entries())
    leaders_with: dict[_Key, list[int]] = defaultdict(list)
    leader_of = [*range(len(fillings))]
    # One that lacks words may agree with several. So those that lack the fewest lead.
    lacks = [(filling.places.count(()), -len(filling.numbers)) for filling in fillings]
    for row in sorted(leader_of, key=lambda row: (lacks[row], row)):
        filling = fillings[row]
        keys = [
            key
            for key in filling.entries()
            if key[0] != _NUMBERS or frequency[key] <= _LEADERS  # Rare, or no help in finding.
        ]
        keys.sort(key=lambda key: (frequency[key], key))
        candidates = itertools.chain.from_iterable(leaders_with[key][:_LEADERS] for key in keys)
        for leader in candidates:
            if _agree(fillings[leader], filling, frequency, len(fillings)):
                leader_of[row] = leader
                break
        else:
            for key in keys:
                leaders_with[key].append(row)
    first_of: dict[int, int] = {}
    for row, leader in enumerate(leader_of):
        first_of.setdefault(leader, row)
    return [first_of[leader] for leader in leader_of]
