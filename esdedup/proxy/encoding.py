"""Compressed bodies: unpacked while they come, and packed again for the upstream."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator

_STEP = 1 << 20
_DETECT = zlib.MAX_WBITS | 32
"""For zlib: gzip or zlib, whichever the header says."""

READABLE = ("", "identity", "gzip", "x-gzip", "deflate")
"""Content encodings that can be unpacked here."""


class BadEncoding(Exception):
    """The body is not what its content-encoding says."""


async def unpacked(chunks: AsyncIterable[bytes], encoding: str) -> AsyncIterator[bytes]:
    """The bytes of a body, in pieces of bounded size. Raises BadEncoding."""
    if encoding in ("", "identity"):
        async for chunk in chunks:
            yield chunk
        return
    unpacker = _Unpacker()
    async for chunk in chunks:
        for piece in unpacker.feed(chunk):
            yield piece
    unpacker.finish()


def packed(body: bytes) -> bytes:
    """The body with content-encoding gzip; lightly, as it goes no further than the upstream."""
    return gzip.compress(body, 1, mtime=0)


class _Unpacker:
    """Unpacks gzip, of several members too, and zlib or bare deflate."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_DETECT)
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        piece = b""
        # After a full piece there may be more, though all input is taken in.
        while chunk or len(piece) == _STEP:
            if self._stream.eof:
                self._stream = zlib.decompressobj(_DETECT)
            piece = self._decompress(chunk)
            self._begun = True
            chunk = self._stream.unconsumed_tail or self._stream.unused_data
            if piece:
                yield piece

    def finish(self) -> None:
        if self._begun and not self._stream.eof:
            raise BadEncoding("the compressed body breaks off")

    def _decompress(self, chunk: bytes) -> bytes:
        try:
            return self._stream.decompress(chunk, _STEP)
        except zlib.error as error:
            if self._begun:
                raise BadEncoding(f"the compressed body can't be unpacked: {error}") from error
        # Many mean bare deflate, without zlib's header, by "deflate".
        self._begun = True
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._decompress(chunk)
