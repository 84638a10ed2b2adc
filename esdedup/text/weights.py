"""Weights of words: how much each one counts in a fingerprint.

A table has one form wherever it is stored: lines of a word, a tab and its weight. A line without a
word has the weight of all other words. Weights are whole tenths, so that a fingerprint is the same
on every machine; with 8 bits for each, sums need no more than lanes of 16 bits.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from esdedup.arguments import check_type
from esdedup.exceptions import UsageError
from esdedup.text.arrays import U64, Ragged, offsets_of, run_starts
from esdedup.text.hashing import xxh3
from esdedup.text.normalise import Normalisation, normalise
from esdedup.text.shingles import Shingling, shingle
from esdedup.text.words import tokenise

U8 = NDArray[np.uint8]

TENTHS = 10
"""Steps of a weight of 1."""
MOST_TENTHS = 255
"""The largest weight, 25.5: an inverse document frequency is at most 22 for 2**32 documents."""
MOST_PACKED = 1_000_000
"""Maximum bytes of a compressed table, which each node of a cluster has in memory."""
_MOST_UNPACKED = 64 * MOST_PACKED


@dataclass(frozen=True, eq=False, repr=False)
class Weights:
    """A frozen table of weights of words, or of shingles.

    words: weight of each, 0 to 25.5, rounded to tenths. A word of weight 0 does not count. A
        shingle is its words with a space between; characters of a shingle follow one another.
    default: weight of every other word.
    Raises UsageError for other weights, and for a table of more than 1 MB when it is compressed.
    """

    words: Mapping[str, float]
    default: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.words, Mapping):
            raise UsageError(f"weights: use a mapping, not {type(self.words).__name__}")
        object.__setattr__(self, "words", {**self.words})
        for word in self.words:
            check_type("word", word, "str")
            if not word or {*word} & {"\t", "\n", "\r"}:
                raise UsageError(f"weights: {word!r} is not a word")
        if not self.default_tenths and not any(self.tenths.values()):
            raise UsageError("weights: a word must weigh more than 0")
        if len(self._compressed) > MOST_PACKED:
            raise UsageError(
                f"weights of {len(self.words):,} words have {len(self._compressed):,} bytes when"
                f" they are compressed: use at most {MOST_PACKED:,} bytes. Leave out rare words,"
                " which then have the default weight"
            )

    def words_of_a_feature(self, shingling: Shingling) -> int | None:
        """Return the number of words of a feature; None for a table without words."""
        return next((len(_words_of(entry, shingling)) for entry in self.words), None)

    @functools.cached_property
    def tenths(self) -> dict[str, int]:
        """The weight of each word in tenths."""
        return {word: _tenths_of(weight, word) for word, weight in self.words.items()}

    @functools.cached_property
    def default_tenths(self) -> int:
        """The weight of every other word in tenths."""
        return _tenths_of(self.default, "other words")

    @functools.cached_property
    def text(self) -> str:
        """The table as text, the lightest words first."""
        rows = sorted(self.tenths.items(), key=lambda row: (row[1], row[0]))
        lines = [f"{word}\t{tenths / TENTHS}\n" for word, tenths in rows]
        return "".join([f"\t{self.default_tenths / TENTHS}\n", *lines])

    @functools.cached_property
    def digest(self) -> str:
        """The digest of `text`, 22 characters: BLAKE2b of 128 bits in base64url."""
        hashed = hashlib.blake2b(_encoded(self.text), digest_size=16).digest()
        return base64.urlsafe_b64encode(hashed).decode("ascii").rstrip("=")

    @functools.cached_property
    def _compressed(self) -> bytes:
        return zlib.compress(_encoded(self.text), 9)

    @functools.cached_property
    def packed(self) -> str:
        """`text`, compressed by zlib, in base64."""
        return base64.b64encode(self._compressed).decode("ascii")

    def of(self, word: str) -> float:
        """Return the weight of a word, or of a shingle."""
        return self.tenths.get(word, self.default_tenths) / TENTHS

    def write(self, path: str | Path) -> None:
        """Write the table to a file."""
        Path(path).write_text(self.text, "utf-8", newline="\n")

    @staticmethod
    def read(path: str | Path) -> Weights:
        """Return the table in a file. Raises UsageError, naming the line, for another form."""
        try:
            return Weights.of_text(Path(path).read_text("utf-8-sig"))
        except OSError as error:
            raise UsageError(f"weights {path}: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"weights {path}: {error}") from error

    @staticmethod
    def of_text(text: str) -> Weights:
        """Return the table in a text: the inverse of `text`. Raises UsageError."""
        weights: dict[str, float] = {}
        for number, line in enumerate(text.split("\n"), 1):
            if not (line := line.rstrip("\r")):
                continue
            word, tab, weight = line.partition("\t")
            try:
                value = float(weight)
            except ValueError:
                tab = ""
            if not tab:
                raise UsageError(f"line {number}: use a word, a tab and its weight, not {line!r}")
            if word in weights:
                raise UsageError(f"line {number}: {word!r} has a weight already")
            weights[word] = value
        default = weights.pop("", 1.0)
        return Weights(weights, default)

    @staticmethod
    def unpacked(packed: str) -> Weights:
        """Return the table that `packed` holds. Raises UsageError for another value."""
        check_type("a table of weights", packed, "str")
        return _unpacked(packed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weights) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"<Weights {self.digest}: {len(self.words):,} words, others {self.default:g}>"

    def __reduce__(self) -> tuple[object, ...]:
        # Short, and a process that has read the table before has it in its cache.
        return _unpacked, (self.packed,)


@functools.lru_cache(8)
def _unpacked(packed: str) -> Weights:
    try:
        unpacking = zlib.decompressobj()
        raw = unpacking.decompress(base64.b64decode(packed, validate=True), _MOST_UNPACKED)
        if not unpacking.eof:
            raise ValueError("it is truncated or too long")
        text = raw.decode("utf-8", "surrogatepass")
    except (ValueError, zlib.error) as error:
        raise UsageError(f"a table of weights can't be unpacked: {error}") from error
    return Weights.of_text(text)


def stored_weights(digest: str, tables: object) -> Weights:
    """Return the table of a digest among stored ones.

    tables: packed tables by their digests.

    Raises UsageError, naming both digests, if it is missing or another one.
    """
    stored = tables if isinstance(tables, Mapping) else {}
    if digest not in stored:
        digests = ", ".join(map(str, stored)) or "none"
        raise UsageError(
            f"the scheme's weights of words have the digest {digest}, and their table is missing;"
            f" stored: {digests}. Restore the table, or use a file of `esdedup scheme`, which"
            " contains it"
        )
    weights = Weights.unpacked(stored[digest])
    if weights.digest != digest:
        raise UsageError(
            f"the scheme's weights of words have the digest {digest}, but the stored table has"
            f" {weights.digest}: it was changed since. Restore it, or index the documents again"
        )
    return weights


def _tenths_of(weight: object, word: str) -> int:
    """Return a weight in tenths. Raises UsageError if it is out of range."""
    check_type(f"weight of {word!r}", weight, "int | float")
    assert isinstance(weight, (int, float))
    tenths = round(weight * TENTHS) if math.isfinite(weight) else -1
    if not 0 <= tenths <= MOST_TENTHS or (weight and not tenths):
        raise UsageError(f"weight {weight} of {word!r}: use 0, or 0.1 to {MOST_TENTHS / TENTHS}")
    return tenths


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True)
class WeightTable:
    """Weights by the hashes of features, to look up many at a time.

    hashes: ascending, with the last one repeated, shape (n + 1,).
    tenths: weight of each hash, shape (n + 1,).
    default: weight of all others, in tenths.
    starts: the first hash of each prefix of bits, and the end, shape (prefixes + 1,).
    shift: bits of a hash after the prefix.
    most: maximum number of hashes of one prefix.
    """

    hashes: U64
    tenths: U8
    default: int
    starts: NDArray[np.int32]
    shift: np.uint64
    most: int

    @staticmethod
    def of(hashes: U64, tenths: U8, default: int) -> WeightTable:
        """Return the table of hashes, ascending, and their weights, each of shape (n,)."""
        # With four times as many prefixes as hashes, nearly every prefix has at most one.
        bits = max(2, hashes.size.bit_length() + 2)
        shift = np.uint64(64 - bits)
        prefixes = np.arange(1 << bits, dtype=np.uint64) << shift
        starts = np.append(np.searchsorted(hashes, prefixes), hashes.size).astype(np.int32)
        most = int(np.diff(starts).max(initial=0))
        if hashes.size:
            hashes, tenths = np.append(hashes, hashes[-1]), np.append(tenths, tenths[-1])
        return WeightTable(hashes, tenths, default, starts, shift, most)

    def tenths_of(self, hashes: U64) -> U8:
        """Return the weight of each feature in tenths, in the shape of `hashes`."""
        tenths = np.full(hashes.size, self.default, np.uint8)
        if not self.most:
            return tenths
        prefixes = (hashes >> self.shift).view(np.int64)
        # Compare with the first hash of the prefix, which is nearly always the only one.
        positions = self.starts.take(prefixes)
        is_equal = self.hashes.take(positions) == hashes
        np.copyto(tenths, self.tenths.take(positions), where=is_equal)
        # Then with the next one, as long as there is one of the prefix.
        rows = np.flatnonzero(~is_equal)
        positions, ends = positions.take(rows) + 1, self.starts.take(prefixes.take(rows) + 1)
        for _ in range(1, self.most):
            has_next = positions < ends
            rows, positions, ends = rows[has_next], positions[has_next], ends[has_next]
            is_equal = self.hashes.take(positions) == hashes.take(rows)
            tenths[rows[is_equal]] = self.tenths.take(positions[is_equal])
            positions += 1
        return tenths


@functools.lru_cache(8)
def weight_table(
    weights: Weights, normalisation: Normalisation, shingling: Shingling, seed: int, size: int
) -> WeightTable:
    """Return the weights by the hashes of features of `size` words.

    Raises UsageError for an entry that is not of `size` words, and for two entries of one feature
    with different weights.
    """
    entries = list(weights.tenths)
    rows = [_words_of(entry, shingling) for entry in normalise(entries, normalisation)]
    for entry, row in zip(entries, rows, strict=True):
        if len(row) != size or not all(row):
            units = "characters" if shingling.unit == "char" else "words"
            raise UsageError(
                f"weights: {entry!r} has {len(list(filter(None, row)))} {units}, and a feature"
                f" has {size}: write features of {size}, or use another feature_size"
            )
    words = list(dict.fromkeys(itertools.chain.from_iterable(rows)))
    hashes = dict(zip(words, _hashes_of(words, shingling, seed), strict=True))
    joined = np.array([hashes[word] for row in rows for word in row], np.uint64)
    offsets = offsets_of(np.full(len(rows), size, np.int64))
    features = shingle(Ragged(joined, offsets), size).hashes
    order = np.argsort(features, kind="stable")
    features = features[order]
    tenths = np.array([*weights.tenths.values()], np.uint8)[order]
    first = run_starts(features)
    for place in np.flatnonzero(~first & (tenths != np.roll(tenths, 1))).tolist():
        pair = [entries[order[place - 1]], entries[order[place]]]
        raise UsageError(f"weights: {pair[0]!r} and {pair[1]!r} are the same in texts: use one")
    return WeightTable.of(features[first], tenths[first], weights.default_tenths)


def _words_of(entry: str, shingling: Shingling) -> list[str]:
    return list(entry) if shingling.unit == "char" else entry.split(" ")


def _hashes_of(words: Sequence[str], shingling: Shingling, seed: int) -> Iterable[np.uint64]:
    """Return the hash of each word as a token of a text. Raises UsageError if it is several."""
    hashes = xxh3(words, seed)
    if shingling.unit == "word":
        tokens = tokenise(words, replace(shingling, stop_words=()), seed)
        for place in np.flatnonzero(tokens.counts > 1)[:1].tolist():
            raise UsageError(
                f"weights: {words[place]!r} is {tokens.counts[place]} words in texts: write spaces"
                " between the words of a feature"
            )
        # A hyphen is a word only before a number.
        alone = tokens.counts == 1
        hashes[alone] = tokens.hashes
    return hashes
