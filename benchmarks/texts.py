"""Made-up texts for the benchmarks: Zipf-distributed words, English-like or Chinese."""

from __future__ import annotations

import numpy as np


def english(documents: int, characters: int, seed: int = 1) -> list[str]:
    """Texts of about so many characters, of a vocabulary of 30,000 words."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlcumwfgypbvkjxqz"))
    weights = 1.0 / np.arange(2, 28)
    lengths = np.clip(rng.normal(7.0, 2.5, 30_000), 2, 15).astype(int)
    vocabulary = [
        "".join(rng.choice(letters, length, p=weights / weights.sum())) for length in lengths
    ]
    # Frequent words are short, as in any language.
    vocabulary[:400] = sorted(vocabulary, key=len)[:400]
    zipf = 1.0 / (np.arange(30_000) + 2.7)
    words_a_text = max(1, round(characters / 5.6))
    drawn = rng.choice(30_000, (documents, words_a_text), p=zipf / zipf.sum())
    return [_sentences([vocabulary[word] for word in row]) for row in drawn.tolist()]


def _sentences(words: list[str]) -> str:
    parts = [words[i : i + 12] for i in range(0, len(words), 12)]
    return " ".join(" ".join(part).capitalize() + "." for part in parts)


def chinese(documents: int, characters: int, seed: int = 1) -> list[str]:
    """Texts of about so many characters, of 3,500 Han characters."""
    rng = np.random.default_rng(seed)
    han = np.array([chr(point) for point in range(0x4E00, 0x4E00 + 3_500)])
    zipf = 1.0 / (np.arange(3_500) + 8.0)
    drawn = rng.choice(3_500, (documents, characters), p=zipf / zipf.sum())
    marks = [i for i in range(characters) if i % 17 == 16]
    texts = han[drawn]
    texts[:, marks] = "，"
    return ["".join(row) + "。" for row in texts.tolist()]
