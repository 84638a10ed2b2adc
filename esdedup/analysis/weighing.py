"""Weights of words from a corpus: inverse document frequencies.

Inverse document frequency: Spärck Jones, "A statistical interpretation of term specificity and its
application in retrieval", 1972. The weight of a word that df of N documents have is

    ln((1 + N) / (1 + df))

Counters are bounded as by Misra and Gries, "Finding repeated elements", 1982, with many decrements
at a time (Agarwal et al., "Mergeable summaries", PODS 2012, section 3).
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict, Unpack

from esdedup.arguments import accepts, check_fields, check_list, check_type, from_settings, setting
from esdedup.exceptions import UsageError
from esdedup.sketch.scheme import Scheme, require_scheme
from esdedup.stores import Store
from esdedup.stores.fields import text_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.characters import is_unicode
from esdedup.text.normalise import normalise
from esdedup.text.shingles import Shingling
from esdedup.text.weights import MOST_TENTHS, TENTHS, Weights, weight_table
from esdedup.text.words import spell

_BATCH = 500
"""Texts that are split at once."""
COUNTERS = 1 << 20
"""Words that are counted at the same time, in about 200 MB."""


class WeighingSettings(TypedDict, total=False):
    """The settings of `Weighing`, as keywords of a call."""

    most: int
    least: int
    features: int | None
    counters: int


@dataclass(frozen=True)
class Weighing:
    """The choice of words for a table of weights.

    most: number of words, the most frequent ones. The others get the weight of the first one that
        is left out.
    least: documents that must have a word.
    features: words of a feature; None for those of the scheme's.
    counters: words that are counted at the same time, about 200 bytes each.
    Raises UsageError for values out of range.
    """

    most: int = setting(20_000, "Maximum number of words.", bounds=(1, None))
    least: int = setting(2, "Leave out words that fewer documents have.", bounds=(1, None))
    features: int | None = setting(
        None, "Weigh features of this many words.", bounds=(1, 64), show_default="the scheme's"
    )
    counters: int = setting(
        COUNTERS, "Words to count at the same time.", bounds=(2, None), rare=True
    )

    def __post_init__(self) -> None:
        check_fields(self)
        for name, lowest in (("most", 1), ("least", 1), ("features", 1), ("counters", 2)):
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise UsageError(f"{name} {value}: use at least {lowest}")

    def feature_size(self, scheme: Scheme) -> int:
        """Return the words of a feature. Raises UsageError if the scheme has none."""
        return scheme.feature_size if self.features is None else self.features


@dataclass(frozen=True)
class Weighed:
    """A table of weights, and what it was computed from.

    weights: of words.
    documents: number of documents with words.
    words: number of different words that were counted.
    """

    weights: Weights
    documents: int
    words: int


@dataclass(frozen=True)
class DocumentFrequencies:
    """The number of documents that have each word.

    documents: number of those with words.
    counts: documents of each word.
    error: by how much a count can be too high. Words in at most as many documents can be missing. 0
        if all words were counted.
    """

    documents: int
    counts: dict[str, int]
    error: int

    def weight(self, count: int) -> float:
        """Return the weight of a word that `count` documents have, in tenths, at most 25.5."""
        weight = math.log((1 + self.documents) / (1 + count))
        return max(0, min(MOST_TENTHS, round(TENTHS * weight))) / TENTHS

    def ranked(self, least: int) -> list[tuple[str, int]]:
        """Return the words of `least` documents or more, the most frequent first."""
        least = max(least, 2 * self.error + 1)
        frequent = ((word, count) for word, count in self.counts.items() if count >= least)
        # By word too, so that a tie is always cut at the same place.
        return sorted(frequent, key=lambda row: (-row[1], row[0]))


def document_frequencies(
    texts: Iterable[str], scheme: Scheme, size: int, counters: int = COUNTERS
) -> DocumentFrequencies:
    """Count the documents of each feature of `size` words, in one pass.

    counters: features that are counted at the same time.
    """
    counts: dict[str, int] = {}
    documents = dropped = 0
    iterator = iter(texts)
    while batch := list(itertools.islice(iterator, _BATCH)):
        for words in spell(normalise(batch, scheme.normalisation), scheme.shingling):
            documents += bool(words)
            for feature in features(words, size, scheme.shingling):
                counts[feature] = counts.get(feature, 0) + 1
        if len(counts) > counters:
            # The same number is added to every count at the end, so that the count of a word that
            # was never dropped is exact.
            least = sorted(counts.values())[-(counters // 2) - 1]
            counts = {word: count - least for word, count in counts.items() if count > least}
            dropped += least
    return DocumentFrequencies(
        documents, {word: count + dropped for word, count in counts.items()}, dropped
    )


def features(words: Sequence[str], size: int, shingling: Shingling) -> set[str]:
    """Return the features of `size` words of a text, as a table of weights names them."""
    if size == 1:
        return {*words}
    between = "" if shingling.unit == "char" else " "
    return {between.join(words[start : start + size]) for start in range(len(words) - size + 1)}


def weigh(texts: Iterable[str], scheme: Scheme, weighing: Weighing) -> Weighed:
    """Return the weights of words by how many texts have them. Raises UsageError for too few."""
    size = weighing.feature_size(scheme)
    frequencies = document_frequencies(texts, scheme, size, weighing.counters)
    ranked = frequencies.ranked(weighing.least)
    chosen, following = ranked[: weighing.most], ranked[weighing.most : weighing.most + 1]
    # A word without its ignored characters may compose further, and others can't be in a file.
    normalised = normalise([word for word, _ in chosen], scheme.normalisation)
    words = {
        word: frequencies.weight(count)
        for (word, count), form in zip(chosen, normalised, strict=True)
        if word == form and is_unicode(word)
    }
    rarer = following[0][1] if following else max(1, weighing.least - 1)
    if not (default := frequencies.weight(rarer)):
        raise UsageError(
            f"{frequencies.documents:,} documents with words are too few to weigh words by"
        )
    weights = Weights(words, default)
    weight_table(weights, scheme.normalisation, scheme.shingling, scheme.seed, size)
    return Weighed(weights, frequencies.documents, len(frequencies.counts))


@accepts(Weighing)
def weights(
    texts: Iterable[str], *, scheme: Scheme | None = None, **settings: Unpack[WeighingSettings]
) -> Weights:
    """Return weights of words by how many of the texts have them, for `SimHash(weights=...)`.

    The weight of a word is its inverse document frequency, `ln((1 + texts) / (1 + texts with it))`.

    texts: read once.
    scheme: how texts become words, `Scheme()` by default.
    most: maximum number of words, the most frequent ones.
    least: number of texts that must have a word.
    features: number of words of a feature, by default that of the scheme's first SimHash.
    counters: number of words that are counted at the same time.

    Raises UsageError for wrong arguments, and for too few texts.
    """
    check_list("texts", texts)
    require_scheme(scheme)
    return weigh(_checked(texts), scheme or Scheme(), from_settings(Weighing, settings)).weights


def texts_of(store: Store, meta: IndexMeta) -> Iterator[str]:
    """Yield the texts of an index."""
    for documents in store.scan([*meta.text_fields], meta):
        for document in documents:
            if (text := text_at(document.source, meta.text_fields)) is not None:
                yield text


def _checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts. Raises UsageError for one that is no text."""
    for text in texts:
        check_type("text", text, "str")
        yield text
