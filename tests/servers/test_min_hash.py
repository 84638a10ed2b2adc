"""The chain of `min_hash` on Elasticsearch makes the tokens that it makes on OpenSearch.

The jars of OpenSearch have their makers' own module analysis-common. Those of Elasticsearch have a
module of ours in its place (elasticsearch/MinHashAnalysis.java).
"""

import random
from typing import Any

import pytest

from esdedup import Server
from tests.helpers.commands import call

TEXTS = 10_000
BATCH = 150
"""Texts of one request, which a server refuses above 10,000 tokens."""

SKETCH = Server()
CHAIN: list[Any] = ["lowercase", *SKETCH.analysis(words=3)["filter"].values()]

# Letters, with marks and digits, by script, and what stands between two words.
SCRIPTS = {
    "Latin": ("az AZ 09 À\u024f \u0300\u036f", " "),
    "Cyrillic": ("\u0400\u045f а\u044f \u0483\u0487", " "),
    "Chinese": ("一\u9fa5 㐀\u4db5 \U00020000\U0002a6d6", ""),
    "Japanese": ("ぁ\u3096 ァ\u30fa 一\u9fa5 ｦ\uff9d", ""),
    "Thai": ("ก\u0e30 เ\u0e46 \u0e31\u0e3a ๐\u0e59", ""),
    "Arabic": ("\u0620\u064a \u064b\u0652 \u0660\u0669 \u0671\u06d3", " "),
}
# One, several code points, a flag, and outside the plane of 16 bits or not.
EMOJI = ["\u2600", "😀", "👍🏽", "👩\u200d🚀", "🇩🇪", "1\ufe0f\u20e3"]
BETWEEN = [", ", ". ", "。", "、", "\n", "\u200b", "-", "'", "\u00a0"]

OTHER_SETTINGS = [
    {"type": "min_hash"},
    {"type": "min_hash", "hash_count": 2, "bucket_count": 3, "hash_set_size": 4},
    {"type": "min_hash", "bucket_count": 8, "with_rotation": False},
    {"type": "length", "min": 4, "max": 6},
    {"type": "pattern_replace", "pattern": "[a-m]"},
    {"type": "pattern_replace", "pattern": "[a-m]", "replacement": "<$0>", "all": False},
    {"type": "pattern_replace", "pattern": "[A-M]", "flags": "CASE_INSENSITIVE"},
]


@pytest.fixture(params=["elasticsearch", "elasticsearch8"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.mark.parametrize("script", SCRIPTS)
def test_tokens_are_those_of_opensearch(url: str, opensearch_url: str, script: str) -> None:
    texts = texts_in(script, TEXTS // len(SCRIPTS) + 1)
    for first in range(0, len(texts), BATCH):
        batch = texts[first : first + BATCH]
        expected = analyzed(opensearch_url, CHAIN, batch)
        assert analyzed(url, CHAIN, batch) == expected
        assert len({token["token"] for token in expected}) > len(batch)
        # Hardly a value is two characters, which the chain drops; none is half of one.
        assert 0.999 < len(expected) / (len(batch) * SKETCH.tokens) <= 1.0
        "".join(token["token"] for token in expected).encode()


@pytest.mark.parametrize("filter", OTHER_SETTINGS, ids=str)
def test_other_settings_and_defaults(url: str, opensearch_url: str, filter: dict[str, Any]) -> None:
    texts = texts_in("Latin", 10)
    expected = analyzed(opensearch_url, [filter], texts)
    assert analyzed(url, [filter], texts) == expected
    assert expected != analyzed(opensearch_url, [], texts)


def texts_in(script: str, count: int) -> list[str]:
    """Return texts of 1, 2, 3 or up to 60 words in random order."""
    rng = random.Random(script)
    ranges, space = SCRIPTS[script]
    letters = [[*map(chr, range(ord(ends[0]), ord(ends[1]) + 1))] for ends in ranges.split()]

    def word() -> str:
        # A mark alone is no token, and the first range has letters only.
        more = (rng.choice(rng.choice(letters)) for _ in range(rng.randint(0, 7)))
        return rng.choice(letters[0]) + "".join(more)

    def text() -> str:
        parts = [word()]
        for _ in range(rng.choice([1, 2, 3, rng.randint(4, 60)]) - 1):
            parts.append(rng.choice(BETWEEN) if rng.random() < 0.1 else space)
            parts.append(rng.choice(EMOJI) if rng.random() < 0.05 else word())
        return "".join(parts)

    return [text() for _ in range(count)]


def analyzed(url: str, filters: list[Any], texts: list[str]) -> list[dict[str, Any]]:
    """Return the tokens of all texts, with their places and types."""
    body = {"tokenizer": "standard", "filter": filters, "text": texts}
    tokens: list[dict[str, Any]] = call(url, "POST", "/_analyze", body)["tokens"]
    return tokens
