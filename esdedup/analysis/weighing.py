"""Weights of words from a corpus: inverse document frequencies.

Inverse document frequency: Spärck Jones, "A statistical interpretation of term specificity and its
application in retrieval", 1972. The weight of a word that df of N documents have is

    ln((1 + N) / (1 + df))

Counters are bounded as by Misra and Gries, "Finding repeated elements", 1982, with many decrements
at a time (Agarwal et al., "Mergeable summaries", PODS 2012, section 3).
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from esdedup.arguments import accepts, check_fields, check_list, from_settings, setting
from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.scheme import Scheme, require_scheme
from esdedup.text.characters import is_unicode
from esdedup.text.normalise import normalise
from esdedup.text.shingles import Shingling
from esdedup.text.weights import MOST_TENTHS, TENTHS, Weights
from esdedup.text.words import spell

_BATCH = 500
"""Texts that are split at once."""


COUNTERS = 1 << 20
"""Words that are counted at the same time, in about 200 MB."""


@dataclass(frozen=True)
class Weighing:
    """Which words a table of weights has.

    most: number of words, the most frequent ones. The others get the weight of the first one that
        is left out.
    least: documents that must have a word.
    counters: words that are counted at the same time, about 200 bytes each.
    stop_words: words of weight 0, besides.
    Raises UsageError for values out of range.
    """

    most: int = setting(20_000, "Maximum number of words.", min=1)
    least: int = setting(2, "Leave out words that fewer documents have.", min=1)
    counters: int = setting(COUNTERS, "Words to count at the same time.", min=2, rare=True)
    stop_words: Sequence[str] = setting((), "Words of weight 0.")

    def __post_init__(self) -> None:
        check_fields(self)
        for name, lowest in (("most", 1), ("least", 1), ("counters", 2)):
            if (value := getattr(self, name)) < lowest:
                raise UsageError(f"{name} {value}: use at least {lowest}")
        check_list("stop_words", self.stop_words)


@dataclass(frozen=True)
class DocumentFrequencies:
    """The number of documents that have each word.

    documents: number of them. counts: documents of each word. error: by how much a count can be too
    high; words in at most as many documents can be missing. 0 if all words were counted.
    """

    documents: int
    counts: dict[str, int]
    error: int

    def weight(self, count: int) -> float:
        """Return the weight of a word that `count` documents have, in tenths, at most 25.5."""
        weight = math.log((1 + self.documents) / (1 + count))
        return min(MOST_TENTHS, round(TENTHS * weight)) / TENTHS

    def weights(self, weighing: Weighing) -> Weights:
        """Return the table of weights. Raises UsageError if there are no documents."""
        if not self.documents:
            raise UsageError("no document has a text: there is nothing to weigh words by")
        least = max(weighing.least, 2 * self.error + 1)
        # By falling count, then by word, so that a tie is always cut at the same place.
        ranked = sorted(
            (-count, word)
            for word, count in self.counts.items()
            # Others can't be written to a file.
            if count >= least and is_unicode(word)
        )
        cut = -ranked[weighing.most][0] if len(ranked) > weighing.most else least - 1
        words = {word: self.weight(-count) for count, word in ranked[: weighing.most]}
        return Weights({**words, **dict.fromkeys(weighing.stop_words, 0.0)}, self.weight(cut))


def document_frequencies(
    texts: Iterable[str], scheme: Scheme, size: int, counters: int = COUNTERS
) -> DocumentFrequencies:
    """Count the documents of each feature of `size` words, in one pass.

    counters: features that are counted at the same time.
    """
    counts: dict[str, int] = {}
    documents = dropped = 0
    rest = iter(texts)
    while batch := list(itertools.islice(rest, _BATCH)):
        documents += len(batch)
        for words in spell(normalise(batch, scheme.normalisation), scheme.shingling):
            for feature in features(words, size, scheme.shingling):
                counts[feature] = counts.get(feature, 0) + 1
        if len(counts) > counters:
            # What is subtracted from every count is added to every count at the end. So the count
            # of a word that was never dropped is exact.
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
    return {between.join(words[at : at + size]) for at in range(len(words) - size + 1)}


def feature_size(scheme: Scheme) -> int:
    """Return the words of a feature of the first SimHash of a scheme. Raises UsageError."""
    for sketch in scheme.sketches:
        if isinstance(sketch, SimHash):
            return sketch.feature_size
    raise UsageError("the scheme has no SimHash, whose features have weights")


@accepts(Weighing)
def weights(texts: Iterable[str], *, scheme: Scheme | None = None, **options: Any) -> Weights:
    """Return weights of words by their inverse document frequencies, for `SimHash(weights=...)`.

    texts: read once. scheme: how texts become words, `Scheme()` by default; its first SimHash has
    the size of a feature. options: of `Weighing`.
    Raises UsageError for wrong arguments, and without texts.
    """
    check_list("texts", texts)
    require_scheme(scheme)
    scheme = scheme or Scheme()
    weighing = from_settings(Weighing, options)
    size = feature_size(scheme)
    return document_frequencies(texts, scheme, size, weighing.counters).weights(weighing)
