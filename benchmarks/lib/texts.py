"""Made-up texts for the benchmarks: Zipf-distributed words, English-like or Chinese."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

WORDS = 30_000
CHUNK = 1_000


LATIN = "etaoinshrdlcumwfgypbvkjxqz"


def english(documents: int, characters: int, seed: int = 1) -> list[str]:
    """Texts of about a given length, of a vocabulary of 30,000 words."""
    rng = np.random.default_rng(seed)
    words = _vocabulary(rng)
    return [_sentences(drawn) for drawn in _draw(rng, words, documents, characters)]


class Growing:
    """English-like texts without end, any of which can be made alone, by its number.

    Every tenth is a copy of the one before it with one to ten words replaced.
    """

    def __init__(self, characters: int, seed: int = 1) -> None:
        self._characters = characters
        self._seed = seed
        self._words = _vocabulary(np.random.default_rng(seed))

    def chunk(self, number: int) -> list[str]:
        """The texts from `number * CHUNK` on, CHUNK of them."""
        rng = np.random.default_rng([self._seed, number])
        drawn = list(_draw(rng, self._words, CHUNK, self._characters))
        for row in range(10, CHUNK, 10):
            drawn[row] = self._edited(drawn[row - 1], rng)
        return [_sentences(words) for words in drawn]

    def copy(self, text: str, rng: np.random.Generator) -> str:
        """A copy with one to ten words replaced."""
        return " ".join(self._edited(text.split(" "), rng))

    def _edited(self, words: list[str], rng: np.random.Generator) -> list[str]:
        edited = list(words)
        for at in rng.integers(0, len(words), rng.integers(1, 11)).tolist():
            edited[at] = self._words[int(rng.integers(0, WORDS))]
        return edited


def short(documents: int, seed: int = 7) -> Iterator[str]:
    """Texts of 14 to 25 words, about 145 characters, drawn evenly from a large vocabulary.

    Every tenth is a copy of an earlier one, with up to two words replaced.
    """
    rng = np.random.default_rng(seed)
    syllables = [first + then for first in "bcdfghjklmnprstvz" for then in "aeiou"]
    words = sorted({"".join(rng.choice(syllables, rng.integers(1, 5))) for _ in range(60_000)})
    rng.shuffle(words)
    vocabulary = np.array(words, np.object_)
    recent: list[NDArray[np.int64]] = []
    for first in range(0, documents, 50_000):
        count = min(50_000, documents - first)
        lengths, drawn = rng.integers(14, 26, count), rng.integers(0, len(words), (count, 26))
        kinds, made = rng.random(count), []
        for row in range(count):
            text = drawn[row, : lengths[row]]
            if kinds[row] < 0.1 and recent:
                text = recent[rng.integers(len(recent))].copy()
                for _ in range(rng.integers(0, 3)):
                    text[rng.integers(text.size)] = drawn[row, 0]
            made.append(text)
            yield " ".join(vocabulary[text])
        recent = (recent + made[::5])[-200_000:]


def _vocabulary(rng: np.random.Generator) -> list[str]:
    letters = np.array(list(LATIN))
    weights = 1.0 / np.arange(2, letters.size + 2)
    lengths = np.clip(rng.normal(7.0, 2.5, WORDS), 2, 15).astype(int)
    words = ["".join(rng.choice(letters, length, p=weights / weights.sum())) for length in lengths]
    # Frequent words are short, as in any language.
    words[:400] = sorted(words, key=len)[:400]
    return words


def _draw(
    rng: np.random.Generator, vocabulary: list[str], documents: int, characters: int
) -> Iterator[list[str]]:
    """The words of texts."""
    zipf = 1.0 / (np.arange(WORDS) + 2.7)
    words_a_text = max(1, round(characters / 5.6))
    drawn = rng.choice(WORDS, (documents, words_a_text), p=zipf / zipf.sum())
    return ([vocabulary[word] for word in row] for row in drawn.tolist())


def _sentences(words: list[str]) -> str:
    parts = [words[i : i + 12] for i in range(0, len(words), 12)]
    return " ".join(" ".join(part).capitalize() + "." for part in parts)


def chinese(documents: int, characters: int, seed: int = 1) -> list[str]:
    """Texts of about a given length, of 3,500 Han characters."""
    rng = np.random.default_rng(seed)
    han = np.array([chr(point) for point in range(0x4E00, 0x4E00 + 3_500)])
    zipf = 1.0 / (np.arange(3_500) + 8.0)
    drawn = rng.choice(3_500, (documents, characters), p=zipf / zipf.sum())
    marks = [i for i in range(characters) if i % 17 == 16]
    texts = han[drawn]
    texts[:, marks] = "，"
    return ["".join(row) + "。" for row in texts.tolist()]
