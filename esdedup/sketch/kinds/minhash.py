"""MinHash: the bands of a signature as tokens, verified by exact Jaccard similarity."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from esdedup.exceptions import UsageError
from esdedup.sketch.banding import choose_banding
from esdedup.sketch.kinds.bands import MOST_PERMUTATIONS, Banded
from esdedup.sketch.limits import Limits

_PERMUTATIONS_FOR_TEXTS = 160


@dataclass(frozen=True)
class MinHash(Banded):
    """MinHash parameters.

    permutations: length k of a full signature, 1 to 4096. A similarity estimated from two
        signatures has the standard error sqrt(J (1 - J) / k).
    bands, rows: the first bands * rows values of a signature become `bands` tokens.
    token_bits: bits of a band's hash that its token keeps, 12 to 60, a multiple of 6.
    Raises UsageError for values out of range.
    """

    permutations: int = 128
    bands: int = 12
    rows: int = 3
    token_bits: int = 30

    kind = "minhash"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.permutations <= MOST_PERMUTATIONS:
            raise UsageError(f"permutations {self.permutations}: use 1 to {MOST_PERMUTATIONS}")
        if self.bands < 1 or self.rows < 1:
            raise UsageError(f"bands {self.bands}, rows {self.rows}: both must be at least 1")
        if self.length > self.permutations:
            raise UsageError(
                f"{self.bands} bands of {self.rows} rows need {self.length}"
                f" permutations, but there are {self.permutations}"
            )
        if not 12 <= self.token_bits <= 60 or self.token_bits % 6:
            raise UsageError(f"token bits {self.token_bits}: use a multiple of 6 from 12 to 60")

    def wide(self, permutations: int) -> Self:
        return type(self)(permutations, 1, 1, self.token_bits, name=self.name)

    @property
    def token_bytes(self) -> float:
        return 15.06 + (self.token_bits - 30) / 6 * 2.0

    def for_texts(self, limits: Limits) -> Self:
        """Return bands that reach the recall at the threshold without swaps.

        More rows a band take longer to sketch, and fewer leave more candidates to verify.
        """
        if limits.least_similarity == 1.0:
            return self
        for permutations in (_PERMUTATIONS_FOR_TEXTS, MOST_PERMUTATIONS):
            with suppress(UsageError):
                bands, rows = choose_banding(
                    limits.least_similarity, limits.wanted_recall, permutations, 0
                )
                return type(self)(permutations, bands, rows, name=self.name)
        return self

    def describe(self) -> str:
        return (
            f"{self.bands} bands of {self.rows} rows of {self.permutations} permutations;"
            f" steepest at {(1 / self.bands) ** (1 / self.rows):.2f}"
        )
