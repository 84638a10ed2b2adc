"""Write the digest and the tokens of a document in few bytes, and read them.

A document is its digest, in 16 bytes, and, if its text has shingles, its tokens: of each sketch of
the scheme the values of `Sketch.token_values`, little-endian, or their number if it varies; then
the values of those whose number varies, in the fewest bytes. A local file stores these bytes.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import Sketches, read_digests, written_digests
from esdedup.text.arrays import Mask, Ragged, Values, offsets_of, ranges

DIGEST_BYTES = 16


def is_wordless(packed: bytes) -> bool:
    """Return whether a document has no tokens, because its text has no shingle."""
    return len(packed) == DIGEST_BYTES


@functools.lru_cache(8)
def layout(scheme: Scheme) -> np.dtype[Any]:
    """Return the type of a document with tokens: "digest", and the values of each `Sketch.key`.

    Of sketches whose number of tokens varies only that number.
    """
    tokens = [
        (each.key, "<u4", ())
        if each.varies
        else (each.key, np.min_scalar_type((1 << each.bits) - 1).newbyteorder("<"), (each.tokens,))
        for each in scheme.sketches
    ]
    return np.dtype([("digest", np.void, DIGEST_BYTES), *tokens])


def pack(sketches: Sketches, scheme: Scheme) -> list[bytes]:
    """Return the digest and the tokens of each text in bytes."""
    digests = read_digests(sketches.digests)
    filled = np.flatnonzero(sketches.filled)
    values = {
        each.key: each.token_values(sketches.values[each.name][filled]) for each in scheme.sketches
    }
    for row, tokens in zip(filled.tolist(), pack_values(values, filled.size, scheme), strict=True):
        digests[row] += tokens
    return digests


def pack_values(values: Mapping[str, Values], count: int, scheme: Scheme) -> list[bytes]:
    """Return the bytes behind the digest of `count` documents. values: by `Sketch.key`."""
    made = np.zeros(count, layout(scheme))
    for key, each in values.items():
        made[key] = each.counts if isinstance(each, Ragged) else each
    whole, size = made.tobytes(), made.itemsize
    found = [whole[at + DIGEST_BYTES : at + size] for at in range(0, len(whole), size)]
    for sketch in scheme.sketches:
        its = values[sketch.key]
        if isinstance(its, Ragged):
            width = -(-sketch.bits // 8)
            octets = np.ascontiguousarray(its.hashes, "<u8").view(np.uint8).reshape(-1, 8)
            tail = octets[:, :width].tobytes()
            bounds = itertools.pairwise((its.offsets * width).tolist())
            found = [head + tail[a:b] for head, (a, b) in zip(found, bounds, strict=True)]
    return found


def records(rows: Sequence[bytes], scheme: Scheme) -> tuple[dict[str, Values], Mask]:
    """Return the tokens of the documents that have any, by `Sketch.key`, and which ones they are.

    The mask has shape (n,). Raises ValueError for bytes of another length.
    """
    form, sizes = layout(scheme), np.fromiter(map(len, rows), np.int64, len(rows))
    filled, size = sizes != DIGEST_BYTES, form.itemsize
    kept, beyond = [*compress(rows, filled)], sizes[filled] - size
    wrong = ValueError(f"tokens of {DIGEST_BYTES} or {size} bytes are expected")
    if (beyond < 0).any():
        raise wrong
    heads = np.frombuffer(b"".join([row[:size] for row in kept]), form)
    tails = np.frombuffer(b"".join([row[size:] for row in kept]), np.uint8)
    starts, found = offsets_of(beyond)[:-1], dict[str, Values]()
    for each in scheme.sketches:
        found[each.key] = values = heads[each.key].astype(np.uint64)
        if each.varies:
            width, counts = -(-each.bits // 8), values.astype(np.int64)
            beyond = beyond - counts * width
            if (beyond < 0).any():
                raise wrong
            octets = np.zeros((counts.sum(), 8), np.uint8)
            octets[:, :width] = tails[ranges(starts, counts * width)].reshape(-1, width)
            found[each.key] = Ragged(octets.view("<u8")[:, 0], offsets_of(counts))
            starts = starts + counts * width
    if beyond.any():
        raise wrong
    return found, filled


def unpack(rows: Sequence[bytes], scheme: Scheme) -> Sketches:
    """Return the sketches that `pack` wrote. Raises ValueError for bytes of another length."""
    whole, filled = records(rows, scheme)
    values: dict[str, Values] = {}
    for each in scheme.sketches:
        read = each.stored_values(whole[each.key])
        if isinstance(read, Ragged):
            counts = np.zeros(len(rows), np.int64)
            counts[filled] = read.counts
            values[each.name] = Ragged(read.hashes, offsets_of(counts))
        else:
            whole_rows = np.zeros((len(rows), each.width), np.uint64)
            whole_rows[filled] = read
            values[each.name] = whole_rows
    return Sketches(written_digests([row[:DIGEST_BYTES] for row in rows]), filled, values)
