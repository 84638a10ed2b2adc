"""Write the digest and the tokens of a document in few bytes, and read them.

A document is its digest, in 16 bytes, and, if its text has shingles, its tokens: of each sketch of
the scheme the values of `Sketch.token_values`, little-endian, or their number if it varies; then
the values of those whose number varies, in the fewest bytes. A local file stores these bytes.
"""

import functools
import itertools
from collections.abc import Mapping, Sequence
from itertools import compress

import numpy as np

from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import Sketches, read_digests, written_digests
from esdedup.text.arrays import Mask, Ragged, Values, offsets_of, ranges

DIGEST_BYTES = 16


def is_wordless(packed: bytes) -> bool:
    """Return whether a document has no tokens, because its text has no shingle."""
    return len(packed) == DIGEST_BYTES


@functools.lru_cache(8)
def layout(scheme: Scheme) -> np.dtype[np.void]:
    """Return the type of a document with tokens: "digest", and the values of each `Sketch.key`.

    Of sketches whose number of tokens varies only that number.
    """
    tokens = [
        (sketch.key, "<u4", ())
        if sketch.varies
        else (
            sketch.key,
            np.min_scalar_type((1 << sketch.bits) - 1).newbyteorder("<"),
            (sketch.tokens,),
        )
        for sketch in scheme.sketches
    ]
    return np.dtype([("digest", np.void, DIGEST_BYTES), *tokens])


def pack(sketches: Sketches, scheme: Scheme) -> list[bytes]:
    """Return the digest and the tokens of each text in bytes."""
    digests = read_digests(sketches.digests)
    filled = np.flatnonzero(sketches.filled)
    values = {
        sketch.key: sketch.token_values(sketches.values[sketch.name][filled])
        for sketch in scheme.sketches
    }
    for row, tokens in zip(filled.tolist(), pack_values(values, filled.size, scheme), strict=True):
        digests[row] += tokens
    return digests


def pack_values(values: Mapping[str, Values], count: int, scheme: Scheme) -> list[bytes]:
    """Return the bytes behind the digest of `count` documents.

    values: by `Sketch.key`.
    """
    rows = np.zeros(count, layout(scheme))
    for key, array in values.items():
        rows[key] = array.counts if isinstance(array, Ragged) else array
    content, size = rows.tobytes(), rows.itemsize
    packed = [
        content[start + DIGEST_BYTES : start + size] for start in range(0, len(content), size)
    ]
    for sketch in scheme.sketches:
        array = values[sketch.key]
        if isinstance(array, Ragged):
            width = -(-sketch.bits // 8)
            octets = np.ascontiguousarray(array.hashes, "<u8").view(np.uint8).reshape(-1, 8)
            content = octets[:, :width].tobytes()
            bounds = itertools.pairwise((array.offsets * width).tolist())
            packed = [
                head + content[start:end] for head, (start, end) in zip(packed, bounds, strict=True)
            ]
    return packed


def records(rows: Sequence[bytes], scheme: Scheme) -> tuple[dict[str, Values], Mask]:
    """Return the tokens of the documents that have any, by `Sketch.key`, and which ones they are.

    The mask has shape (n,). Raises ValueError for bytes of another length.
    """
    row_type = layout(scheme)
    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    filled = sizes != DIGEST_BYTES
    filled_rows, remaining = [*compress(rows, filled)], sizes[filled] - row_type.itemsize
    wrong = ValueError(f"tokens of {DIGEST_BYTES} or {row_type.itemsize} bytes are expected")
    if (remaining < 0).any():
        raise wrong
    heads = np.frombuffer(b"".join([row[: row_type.itemsize] for row in filled_rows]), row_type)
    tails = np.frombuffer(b"".join([row[row_type.itemsize :] for row in filled_rows]), np.uint8)
    starts, tokens = offsets_of(remaining)[:-1], dict[str, Values]()
    for sketch in scheme.sketches:
        column = heads[sketch.key].astype(np.uint64)
        if not sketch.varies:
            tokens[sketch.key] = column
            continue
        # The column holds the number of tokens of each row; they follow in its tail.
        width, counts = -(-sketch.bits // 8), column.astype(np.int64)
        remaining = remaining - counts * width
        if (remaining < 0).any():
            raise wrong
        octets = np.zeros((counts.sum(), 8), np.uint8)
        octets[:, :width] = tails[ranges(starts, counts * width)].reshape(-1, width)
        tokens[sketch.key] = Ragged(octets.view("<u8")[:, 0], offsets_of(counts))
        starts = starts + counts * width
    if remaining.any():
        raise wrong
    return tokens, filled


def unpack(rows: Sequence[bytes], scheme: Scheme) -> Sketches:
    """Return the sketches that `pack` wrote. Raises ValueError for bytes of another length."""
    tokens, filled = records(rows, scheme)
    values: dict[str, Values] = {}
    for sketch in scheme.sketches:
        array = sketch.stored_values(tokens[sketch.key])
        if isinstance(array, Ragged):
            counts = np.zeros(len(rows), np.int64)
            counts[filled] = array.counts
            values[sketch.name] = Ragged(array.hashes, offsets_of(counts))
        else:
            matrix = np.zeros((len(rows), sketch.width), np.uint64)
            matrix[filled] = array
            values[sketch.name] = matrix
    return Sketches(written_digests([row[:DIGEST_BYTES] for row in rows]), filled, values)
