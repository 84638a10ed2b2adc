"""Tokens that the index computes: the values of one-permutation hashing, by filters of the servers.

One permutation hashing: Li, Owen, Zhang, "One permutation hashing", NIPS 2012, section 2. Rotation
fills an empty bucket with the value of the next one: Shrivastava, Li, "Densifying one permutation
hashing via rotation for fast near neighbor search", ICML 2014, section 4. The filter `min_hash` of
Lucene does both, with 128 bits of MurmurHash3 of each shingle.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from esdedup.exceptions import UsageError
from esdedup.sketch.banding import most_required
from esdedup.sketch.kinds.base import Analysis, Block, Sketch
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.limits import Limits
from esdedup.sketch.measures import JACCARD
from esdedup.text.arrays import U64

MOST_BUCKETS = 512
_MANY = 1_000_000
"""Shingles of a text that has many more than there are buckets."""
_LIKE_HALF = 0.2
"""Chance that a document at half the threshold is a candidate, for which buckets are chosen."""


@dataclass(frozen=True)
class Server(Sketch):
    """Parameters of tokens that the index computes when any client writes a document.

    buckets: the smallest hash of the shingles in each is a token, 16 bits of it, 8 to 512.
    tokenizer: of the servers, such as icu_tokenizer, if its plugin is installed. Searches find as
        much as is promised if its words are about those of esdedup.
    Raises UsageError for values out of range.
    """

    buckets: int = 64
    tokenizer: str = "standard"

    kind = "server"
    measure = JACCARD
    stoppable = False
    nearest = "`esdedup scheme` with `server` and `threshold` 0.2"
    by_server = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 8 <= self.buckets <= MOST_BUCKETS:
            raise UsageError(f"buckets {self.buckets}: use 8 to {MOST_BUCKETS}")

    @staticmethod
    def for_threshold(threshold: float, recall: float) -> "Server":
        """Return the fewest buckets with which few documents at half the threshold are candidates.

        Raises UsageError for values out of range.
        """
        Limits(threshold=threshold, recall=recall)
        for buckets in range(8, MOST_BUCKETS, 8):
            least = _least(threshold, recall, buckets, _MANY)
            if expected_recall(threshold / 2, buckets, least, _MANY) <= _LIKE_HALF:
                return Server(buckets)
        return Server(MOST_BUCKETS)

    @property
    def tokens(self) -> int:
        return self.buckets

    @property
    def bits(self) -> int:
        return 16

    @property
    def token_bytes(self) -> float:
        return 1.6

    def analysis(self, words: int) -> Analysis:
        suffix = "" if self.tokenizer == "standard" else f"_{self.tokenizer}"
        name = f"esdedup_{words}_{self.buckets}{suffix}"

        filters: dict[str, dict[str, str | int | bool]] = {
            f"{name}_shingles": {
                "type": "shingle",
                "min_shingle_size": words,
                "max_shingle_size": words,
                "output_unigrams": False,
                "output_unigrams_if_no_shingles": True,
            },
            f"{name}_min_hash": {
                "type": "min_hash",
                "hash_count": 1,
                "bucket_count": self.buckets,
                "hash_set_size": 1,
                "with_rotation": True,
            },
            # The first character holds the bucket, and little else: a minimum is small. Half of a
            # surrogate pair would be no character in the index.
            f"{name}_value": {
                "type": "pattern_replace",
                "pattern": r"(?s)^.[\p{Cs}\x{10000}-\x{10FFFF}]*(.).*",
                "replacement": "$1",
            },
            # Every value stood at one place. Only at places of their own does a query count them.
            f"{name}_places": {
                "type": "shingle",
                "min_shingle_size": 2,
                "max_shingle_size": 2,
                "token_separator": "",
            },
            f"{name}_values": {"type": "length", "max": 1},
        }
        if words == 1:
            del filters[f"{name}_shingles"]
        chain = {"type": "custom", "tokenizer": self.tokenizer, "filter": ["lowercase", *filters]}
        return {"filter": filters, "analyzer": {name: chain}}

    def values(self, block: Block) -> U64:
        """Return nothing of each text, shape (n, 0): the index computes all of it."""
        return np.zeros((len(block.texts), 0), np.uint64)

    def query(self, block: Block, limits: Limits) -> tuple[U64, None]:
        return self.values(block), None

    def least(self, limits: Limits, groups: int, similarity: float | None = None) -> int:
        target = limits.threshold if similarity is None else similarity
        if limits.least is not None or target is None:
            return limits.least or 1
        return _least(target, limits.wanted_recall, self.buckets, groups)

    def recall(
        self, limits: Limits, groups: int, least: int, similarity: float | None = None
    ) -> float | None:
        target = limits.least_similarity if similarity is None else similarity
        return expected_recall(target, self.buckets, least, groups)

    def for_texts(self, limits: Limits) -> MinHash:
        return MinHash(name=self.name, fields=self.fields).for_texts(limits)

    def describe(self) -> str:
        return f"computed by the index: {self.buckets} buckets of one permutation"

    def costs(self, documents: float) -> list[tuple[str, str]]:
        effects = []
        for threshold in (0.3, 0.5, 0.7, 0.8, 0.9):
            least = self.least(Limits(threshold=threshold), _MANY)
            half = expected_recall(threshold / 2, self.buckets, least, _MANY)
            effects.append(f"{least} at {threshold} ({100 * half:.2g}% of documents at half of it)")
        return [("equal values to require for 99.9%", ", ".join(effects))]


def expected_recall(similarity: float, buckets: int, least: int, shingles: int) -> float:
    """Return the chance that at least `least` values of two texts are equal.

    shingles: number of those in either text. With many more than buckets, each value is equal with
    the chance `similarity`, apart from the others: Binomial(buckets, similarity). Rotation makes
    values of few shingles equal. On a circle of all hashes, a value is of the next shingle, and the
    arcs that end at the shared ones cover a share of the circle that is distributed as
    Beta(similarity * n, (1 - similarity) * n). So the number of equal values is beta-binomial. As
    the buckets are at equal distances, it differs less from its mean than that.
    """
    if not 0.0 < similarity < 1.0:
        return similarity
    return max(0.0, 1.0 - math.fsum(_chances(similarity, buckets, shingles)[:least]))


@functools.lru_cache(1024)
def _chances(similarity: float, buckets: int, shingles: int) -> list[float]:
    """Return the chances of each number of equal values, from 0 on."""
    # The two texts share one shingle at least.
    total = max(shingles, 1.0 / similarity)
    shared, apart = similarity * total, (1.0 - similarity) * total
    log_total = _log_beta(shared, apart)
    return [
        math.comb(buckets, equal)
        * math.exp(_log_beta(shared + equal, apart + buckets - equal) - log_total)
        for equal in range(buckets + 1)
    ]


def _log_beta(alpha: float, beta: float) -> float:
    return math.lgamma(alpha) + math.lgamma(beta) - math.lgamma(alpha + beta)


def _least(similarity: float, recall: float, buckets: int, shingles: int) -> int:
    """Return the most equal values to require that still reach a recall; at least 1."""
    return most_required(
        recall, buckets, lambda least: expected_recall(similarity, buckets, least, shingles)
    )
