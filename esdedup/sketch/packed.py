"""Write the digest and the tokens of a document in few bytes, and read them.

A document is its digest, in 16 bytes, and, if its text has shingles, its tokens: of each sketch of
the scheme the values of `Sketch.token_values`, little-endian. A local file stores these bytes.
"""

import functools
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import Sketches, read_digests, written_digests
from esdedup.text.arrays import U64, Mask

DIGEST_BYTES = 16


class Packed(NamedTuple):
    """A document's digest and tokens, as `pack` writes them."""

    scheme: Scheme
    data: bytes

    @property
    def is_wordless(self) -> bool:
        """Return whether there are no tokens, because the text has no shingle."""
        return len(self.data) == DIGEST_BYTES


@functools.lru_cache(8)
def layout(scheme: Scheme) -> np.dtype[Any]:
    """Return the type of a document with tokens: "digest", and the values of each `Sketch.key`."""
    tokens = [
        (each.key, np.min_scalar_type((1 << each.bits) - 1).newbyteorder("<"), (each.tokens,))
        for each in scheme.sketches
    ]
    return np.dtype([("digest", np.void, DIGEST_BYTES), *tokens])


def pack(sketches: Sketches, scheme: Scheme) -> list[bytes]:
    """Return the digest and the tokens of each text in bytes."""
    digests = read_digests(sketches.digests)
    filled = np.flatnonzero(sketches.filled)
    made = np.empty(filled.size, layout(scheme))
    for each in scheme.sketches:
        made[each.key] = each.token_values(sketches.values[each.name][filled])
    whole, size = made.tobytes(), made.itemsize
    for at, row in enumerate(filled.tolist()):
        digests[row] += whole[at * size + DIGEST_BYTES : (at + 1) * size]
    return digests


def records(rows: Sequence[bytes], scheme: Scheme) -> tuple[NDArray[Any], Mask]:
    """Return the documents with tokens, of `layout`, and which ones they are: shape (n,).

    Raises ValueError for bytes of another length.
    """
    form, sizes = layout(scheme), np.fromiter(map(len, rows), np.int64, len(rows))
    filled = sizes != DIGEST_BYTES
    if (sizes[filled] != form.itemsize).any():
        raise ValueError(f"tokens of {DIGEST_BYTES} or {form.itemsize} bytes are expected")
    return np.frombuffer(b"".join(compress(rows, filled)), form), filled


def unpack(rows: Sequence[bytes], scheme: Scheme) -> Sketches:
    """Return the sketches that `pack` wrote. Raises ValueError for bytes of another length."""
    whole, filled = records(rows, scheme)
    values: dict[str, U64] = {}
    for each in scheme.sketches:
        values[each.name] = np.zeros((len(rows), each.width), np.uint64)
        values[each.name][filled] = each.stored_values(whole[each.key].astype(np.uint64))
    return Sketches(written_digests([row[:DIGEST_BYTES] for row in rows]), filled, values)
