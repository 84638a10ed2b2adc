"""Plain-Python versions of the algorithms, slow and obvious, to hold the numpy ones against."""

from __future__ import annotations

import unicodedata

import xxhash

from esdedup.text.characters import IGNORED, MARK, OTHER, SINGLE, character_classes

MASK = 2**64 - 1


def normalise(text: str) -> str:
    once = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", once)


def words(text: str) -> list[str]:
    found: list[str] = []
    inside = OTHER
    for character in text:
        kind = int(character_classes()[ord(character)])
        if kind == IGNORED:
            continue
        if kind == MARK:
            if inside != OTHER:
                found[-1] += character
            continue
        if kind != OTHER and kind == inside and kind != SINGLE:
            found[-1] += character
        elif kind != OTHER:
            found.append(character)
        inside = kind
    return found


def token_hash(token: str, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(token.encode("utf-8", "surrogatepass"), seed)


def avalanche(h: int) -> int:
    h = ((h ^ h >> 33) * 0xC2B2AE3D27D4EB4F) & MASK
    h = ((h ^ h >> 29) * 0x165667B19E3779F9) & MASK
    return h ^ h >> 32


def fold(values: list[int]) -> int:
    h = 0
    for value in values:
        h = (h * 0x9E3779B185EBCA87 + value) & MASK
    return avalanche(h)


def shingles(tokens: list[str], size: int, seed: int) -> list[int]:
    hashes = [token_hash(token, seed) for token in tokens]
    if not hashes:
        return []
    if len(hashes) <= size:
        return [fold(hashes)]
    return [fold(hashes[i : i + size]) for i in range(len(hashes) - size + 1)]


def key(purpose: str, position: int, seed: int) -> int:
    return xxhash.xxh3_64_intdigest(f"{purpose}:{position}".encode(), seed)


def signature(hashes: list[int], permutations: int, seed: int) -> list[int]:
    made = []
    for i in range(permutations):
        a = key("minhash-multiplier", i, seed) % 2**32 | 1
        b = key("minhash-addend", i, seed) % 2**32
        made.append(min((a * (h >> 32) + b) % 2**32 for h in hashes))
    return made


def fingerprint(hashes: list[int], weights: list[int] | None = None) -> int:
    made = 0
    counts = weights or [1] * len(hashes)
    for bit in range(64):
        ones = sum(count for h, count in zip(hashes, counts, strict=True) if h >> bit & 1)
        made |= (2 * ones > sum(counts)) << bit
    return made


def jaccard(left: set[int], right: set[int]) -> float:
    union = len(left | right)
    return len(left & right) / union if union else 0.0
