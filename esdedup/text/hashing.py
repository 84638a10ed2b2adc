"""Hashes many short strings at once with XXH3-64, and mixes hashes.

XXH3-64 is specified in the xxHash project's `doc/xxhash_spec.md`, section "XXH3 Algorithm
Overview". Strings up to 32 bytes, nearly all words, take its first four forms. These are closed
formulas and run here over whole arrays. Longer strings go to the xxhash package one by one. Both
give the same numbers: `tests/unit/sketch/test_core.py` compares them.
"""

from collections.abc import Iterable

import numpy as np
import xxhash

from esdedup.text.arrays import I64, U64

PRIME64_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME64_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME64_3 = np.uint64(0x165667B19E3779F9)
_PRIME_MX1 = np.uint64(0x165667919E3779F9)
_PRIME_MX2 = np.uint64(0x9FB21C651E98DF25)
_LOW32 = np.uint64(0xFFFFFFFF)
_MASK64 = 0xFFFFFFFFFFFFFFFF

# The words of XXH3's default secret that the short forms use: bytes 0 to 55 of it.
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4"
    "b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
)
_FEW = 128
"""Number of slices that are hashed one by one in less time."""
PADDING = 8
"""Bytes that a buffer needs after the last string: eight bytes are read at a time."""


def _secret(start: int, end: int) -> int:
    return int.from_bytes(_SECRET[start:end], "little")


def xxh3(strings: Iterable[str], seed: int) -> U64:
    """XXH3-64 of the UTF-8 bytes of each string: shape (number of strings,)."""
    digest_of = xxhash.xxh3_64_intdigest
    return np.fromiter(
        (digest_of(string.encode("utf-8", "surrogatepass"), seed) for string in strings), np.uint64
    )


def xxh3_slices(data: bytes, starts: I64, lengths: I64, seed: int) -> U64:
    """XXH3-64 of many slices of one buffer: shape (n,).

    data: the buffer, with at least PADDING bytes after the last slice.
    starts, lengths: shape (n,), in bytes; every length is at least 1.
    """
    digest_of = xxhash.xxh3_64_intdigest
    if starts.size <= _FEW:
        spans = zip(starts.tolist(), (starts + lengths).tolist(), strict=True)
        digests = [digest_of(data[start:end], seed) for start, end in spans]
        return np.array(digests, np.uint64)
    # Eight bytes from every position, without copying: an overlapping view of the buffer. It is
    # indexed by brackets, because its method `take` would first copy all of it.
    words = np.ndarray((max(len(data) - 7, 0),), "<u8", data, strides=(1,))
    hashes = np.empty(starts.size, np.uint64)
    sizes = np.minimum(lengths, 0xFF).astype(np.uint8)  # Bytes are compared eight times as fast.
    for form, least, most in _FORMS:
        rows = np.flatnonzero((sizes >= least) & (sizes <= most))
        if rows.size:
            hashes[rows] = form(words, starts.take(rows), lengths.take(rows), seed)
    for row in np.flatnonzero(sizes > _FORMS[-1][2]).tolist():
        hashes[row] = digest_of(data[starts[row] : starts[row] + lengths[row]], seed)
    return hashes


def _hash_1_to_3(words: U64, starts: I64, lengths: I64, seed: int) -> U64:
    first, sizes = words[starts], lengths.view(np.uint64)
    byte, three = np.uint64(0xFF), np.uint64(3)
    h = (first & byte) << np.uint64(16)
    h |= ((first >> ((sizes >> np.uint64(1)) << three)) & byte) << np.uint64(24)
    h |= (first >> ((sizes - np.uint64(1)) << three)) & byte
    h |= sizes << np.uint64(8)
    h ^= np.uint64(((_secret(0, 4) ^ _secret(4, 8)) + seed) & _MASK64)
    return avalanche(h)


def _hash_4_to_8(words: U64, starts: I64, lengths: I64, seed: int) -> U64:
    first, sizes = words[starts], lengths.view(np.uint64)
    swapped = int.from_bytes((seed & 0xFFFFFFFF).to_bytes(4, "little"), "big")
    mixed_seed = seed ^ (swapped << 32)
    h = first >> ((sizes - np.uint64(4)) << np.uint64(3))
    h &= _LOW32
    h += first << np.uint64(32)
    h ^= np.uint64(((_secret(8, 16) ^ _secret(16, 24)) - mixed_seed) & _MASK64)
    h ^= _rotate(h, 49) ^ _rotate(h, 24)
    h *= _PRIME_MX2
    h ^= (h >> np.uint64(35)) + sizes
    h *= _PRIME_MX2
    h ^= h >> np.uint64(28)
    return h


def _hash_9_to_16(words: U64, starts: I64, lengths: I64, seed: int) -> U64:
    low = words[starts]
    high = words[starts + lengths - 8]
    low ^= np.uint64(((_secret(24, 32) ^ _secret(32, 40)) + seed) & _MASK64)
    high ^= np.uint64(((_secret(40, 48) ^ _secret(48, 56)) - seed) & _MASK64)
    return _end(lengths.view(np.uint64) + low.byteswap() + high + _multiply_fold(low, high))


def _hash_17_to_32(words: U64, starts: I64, lengths: I64, seed: int) -> U64:
    h = lengths.view(np.uint64) * PRIME64_1
    for positions, secret in ((starts, 0), (starts + lengths - 16, 16)):
        low, high = words[positions], words[positions + 8]
        low ^= np.uint64((_secret(secret, secret + 8) + seed) & _MASK64)
        high ^= np.uint64((_secret(secret + 8, secret + 16) - seed) & _MASK64)
        h += _multiply_fold(low, high)
    return _end(h)


_FORMS = (
    (_hash_1_to_3, 1, 3),
    (_hash_4_to_8, 4, 8),
    (_hash_9_to_16, 9, 16),
    (_hash_17_to_32, 17, 32),
)
"""The forms of XXH3-64, with the least and the most bytes of their strings."""


def _end(h: U64) -> U64:
    h ^= h >> np.uint64(37)
    h *= _PRIME_MX1
    h ^= h >> np.uint64(32)
    return h


def _rotate(h: U64, bits: int) -> U64:
    return (h << np.uint64(bits)) | (h >> np.uint64(64 - bits))


def _multiply_fold(a: U64, b: U64) -> U64:
    """Return the two halves of the 128-bit product, xored."""
    shift = np.uint64(32)
    a_low, a_high = a & _LOW32, a >> shift
    b_low, b_high = b & _LOW32, b >> shift
    low = a_low * b_low
    cross = a_high * b_low + (low >> shift)
    middle = a_low * b_high + (cross & _LOW32)
    upper = a_high * b_high + (cross >> shift) + (middle >> shift)
    folded: U64 = upper ^ ((middle << shift) | (low & _LOW32))
    return folded


def avalanche(h: U64) -> U64:
    """Mixes hashes in place as XXH64 ends (xxhash_spec.md, "XXH64", step 6). A bijection."""
    h ^= h >> np.uint64(33)
    h *= _PRIME64_2
    h ^= h >> np.uint64(29)
    h *= _PRIME64_3
    h ^= h >> np.uint64(32)
    return h


def keys(count: int, purpose: str, seed: int) -> U64:
    """Make `count` fixed numbers: XXH3-64 of "purpose:0", "purpose:1", ... with the seed."""
    return xxh3((f"{purpose}:{position}" for position in range(count)), seed)
