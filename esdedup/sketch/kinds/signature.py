"""Single values of a MinHash signature as tokens, which find the nearest at any similarity.

A document at Jaccard similarity s shares each value with probability s, so that no band of several
rows has to be met. `search.similar` looks values up after bands.
"""

from dataclasses import dataclass

from esdedup.exceptions import UsageError
from esdedup.sketch.kinds.bands import Banded
from esdedup.sketch.limits import Limits
from esdedup.sketch.tokens import MAX_TOKENS


@dataclass(frozen=True)
class Signature(Banded):
    """The first values of a MinHash signature, each a band of one row.

    bands: number of values, 1 to 4096. Raises UsageError for others.
    """

    bands: int = 128

    kind = "signature"
    stoppable = False
    rows = 1
    # Documents meet in single values by similarity far more often than by the chance of 1 in 2**18.
    # A longer token would only take more room.
    token_bits = 18
    token_bytes = 10.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.bands <= MAX_TOKENS:
            raise UsageError(f"signature {self.bands}: use 1 to {MAX_TOKENS} values")

    def swaps(self, limits: Limits) -> int:
        """Return 0: documents meet in single values often enough."""
        return 0

    def describe(self) -> str:
        return f"{self.bands} single values"
