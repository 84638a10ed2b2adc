"""Made-up texts for the benchmarks: Zipf-distributed words, English-like or Chinese."""

from collections.abc import Iterator

import numpy as np

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
