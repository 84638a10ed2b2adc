"""Passages: few hashes of runs of words, by which texts that share a passage always meet.

Schleimer, Wilkerson, Aiken, "Winnowing: local algorithms for document fingerprinting", SIGMOD 2003.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from esdedup.exceptions import UsageError
from esdedup.sketch.comparisons import SharedPassages
from esdedup.sketch.kinds.base import Block, Sketch
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import COVER
from esdedup.sketch.tokens import decode_any
from esdedup.text.arrays import Ragged
from esdedup.text.passages import winnow


@dataclass(frozen=True)
class Passages(Sketch):
    """Parameters of passages.

    words: words of a run; characters, if shingles are of those.
    window: successive runs of which the smallest hash becomes a token. Two texts that share
        words + window - 1 words in a row share a token.
    token_bits: bits of a hash that its token keeps, 12 to 60, a multiple of 6.
    Raises UsageError for values out of range.
    """

    words: int = 5
    window: int = 8
    token_bits: int = 36

    kind = "passages"
    measure = COVER
    varies = True

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("words", "window"):
            if not 1 <= (value := getattr(self, name)) <= 64:
                raise UsageError(f"{name} {value}: use 1 to 64")
        if not 12 <= self.token_bits <= 60 or self.token_bits % 6:
            raise UsageError(f"token bits {self.token_bits}: use a multiple of 6 from 12 to 60")

    @property
    def passage(self) -> int:
        return self.words + self.window - 1

    @property
    def tokens(self) -> int:
        return 1

    @property
    def bits(self) -> int:
        return self.token_bits

    @property
    def size_in_words(self) -> str:
        # Winnowing keeps a hash of 2 / (window + 1) of the runs.
        return f"about {2 * self.token_bytes / (self.window + 1):.1f} bytes per word"

    def values(self, block: Block) -> Ragged:
        """Return the tokens of each text, in no position."""
        return winnow(block.words, self.words, self.window, self.token_bits)

    def decode(self, tokens: Sequence[Sequence[str]]) -> Ragged:
        return decode_any(tokens, self.bits)

    def query(self, block: Block, limits: Limits) -> tuple[Ragged, None]:
        # A document has one of the runs of a shorter passage by chance, and may have any.
        shorter = limits.words is not None and limits.words < self.passage
        return (replace(self, window=1) if shorter else self).values(block), None

    def comparison(self, limits: Limits) -> SharedPassages:
        return SharedPassages(limits.words or self.passage)

    def describe(self) -> str:
        return (
            f"the smallest hash of {self.window} successive runs of {self.words} words; passages of"
            f" {self.passage} words always meet"
        )
