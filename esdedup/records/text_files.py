"""Text files, and standard input: open, unpack and decode them, and yield their lines.

A file that ends too soon is an error, and so is one that can't be unpacked.
"""

import bz2
import codecs
import errno
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, BinaryIO

import zstandard

from esdedup.exceptions import InputError, UsageError
from esdedup.records.locations import SpooledPipe, is_address, open_file

STDIN = "-"
COMPRESSED = (".gz", ".zst", ".bz2", ".xz")
"""The endings of compressed files."""
LONGEST = 64_000_000
"""Default of the characters of the longest line. It is in memory several times while it is read,
and servers reject requests of more than 100 MB."""

_HEAD = 1_000
"""Bytes that show the encoding, and characters of a `TruncatedLine`."""
_PACKED_BYTES = 2 << 10
"""Bytes of a .zst that are unpacked at a time. They may become 64 MB."""
_INVALID = "esdedup.invalid"
_OF_OUTPUT = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of writing, of a caller that copies what it reads to standard output."""
_FAULTS = (zlib.error, zstandard.ZstdError, lzma.LZMAError)
"""What is wrong with the content of a compressed file, besides OSError."""
codecs.register_error(_INVALID, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


class TruncatedLine(str):
    """The beginning of a line that is too long."""


@contextmanager
def opened(path: str, encoding: str | None = None) -> Iterator[tuple[BinaryIO, io.TextIOWrapper]]:
    """Open a file, or standard input for "-": return it and its text.

    encoding: a name that Python knows, None for UTF-8. Bytes that are not valid in it become lone
    surrogates. Raises UsageError if the file can't be opened or has another encoding, InputError if
    it breaks off.
    """
    check_encoding(encoding)
    file: Any = standard_input() if path == STDIN else open_file(path)
    shown = name_of(path) if isinstance(path, SpooledPipe) else path
    suffix = PurePath(name_of(path)).suffix.lower()
    stream, text = file, None
    try:
        if suffix in COMPRESSED and not file.peek(1):
            raise EOFError("it is empty")
        if suffix in COMPRESSED:
            stream = _UNPACKED_BY[suffix](file)
        elif not hasattr(file, "peek"):
            stream = io.BufferedReader(file)
        if encoding is None and (detected := _other_encoding(stream.peek(_HEAD))):
            raise UsageError(f"{shown}: it is {detected.upper()}, not UTF-8: `encoding` {detected}")
        errors = "surrogateescape" if encoding is None else _INVALID
        # A file that is only a part of the byte order mark would be read as empty.
        part = encoding is None and stream.peek(1) in (b"\xef", b"\xef\xbb")
        name = encoding or ("utf-8" if part else "utf-8-sig")
        text = io.TextIOWrapper(stream, name, errors, newline="\n")
        yield file, text
    except (*_FAULTS, OSError, EOFError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno in _OF_OUTPUT:
            raise
        raise InputError(
            f"{shown} can't be read to its end: {error}. Replace the file, or leave it out"
        ) from error
    finally:
        if text is not None:
            text.detach()  # It would close standard input.
        if path != STDIN:
            file.close()


def standard_input() -> BinaryIO:
    """Return standard input. Raise UsageError if it is closed."""
    if sys.stdin is None:
        raise UsageError("standard input is closed: name a file")
    return sys.stdin.buffer


def name_of(path: str) -> str:
    """Return a path as records have it: with forward slashes, and valid Unicode.

    An address is without its query, which may be a signature. A file that holds what a pipe has
    sent has the name of the pipe.
    """
    if path == STDIN:
        return "stdin"
    if isinstance(path, SpooledPipe):
        return path.name
    path = path.partition("?")[0] if is_address(path) else PurePath(path).as_posix()
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def check_encoding(encoding: str | None) -> None:
    """Raise UsageError if Python does not know the name of a text encoding."""
    try:
        # This knows which of Python's codecs are of text.
        io.TextIOWrapper(io.BytesIO(), encoding or "utf-8")
    except (LookupError, UnicodeError) as error:
        raise UsageError(
            f"`encoding` {encoding}: use a name such as utf-16, latin-1, cp1252, gb18030 or big5"
        ) from error


def begins_with(stream: io.TextIOWrapper, character: str) -> bool:
    """Return whether a text that was not read yet begins with a character, after spaces."""
    # A file with an invalid byte before the character begins with that byte.
    head = stream.buffer.peek(_HEAD).decode(stream.encoding, "replace")  # type: ignore[attr-defined]
    return bool(head.lstrip("\ufeff \t\r\n")[:1] == character)


def lines_of(stream: io.TextIOBase, longest: int = LONGEST) -> Iterator[str]:
    """Yield lines with their ends. Of a line of more than `longest` characters, only the
    beginning, a `TruncatedLine`.
    """
    while line := stream.readline(longest + 1):
        if len(line) > longest and line[-1] != "\n":
            while (piece := stream.readline(longest)) and piece[-1] != "\n":
                pass
            line = TruncatedLine(line[:_HEAD])
        yield line


def _other_encoding(head: bytes) -> str | None:
    """Return the encoding of a file that begins with these bytes, if it can't be UTF-8."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Without a byte order mark, every other byte of plain letters is zero.
    for first, name in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) >= 8 and not any(head[first::2]) and all(head[1 - first :: 2]):
            return name
    return None


class _Unpacked(io.RawIOBase):
    """The content of a .zst file of any number of frames. The library accepts truncated ones."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame: Any = None  # None before the first one.
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = b""
        # Frames may be short, and the beginning of a text shows what it is.
        while not self._ready and len(data) < _HEAD:
            ended = self._frame is None or self._frame.eof
            packed = (self._frame.unused_data if self._frame and ended else b"") or (
                self._file.read(_PACKED_BYTES)
            )
            if not packed:
                if not ended and not data:
                    raise EOFError("it ends within a frame")
                break
            if ended:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            data += self._frame.decompress(packed)
        self._ready = self._ready or memoryview(data)
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


class _Filled(io.RawIOBase):
    """A stream whose reads are short at its end only: parts of a file may be a few bytes long.

    What comes before a fault is returned, and the next read raises it.
    """

    def __init__(self, stream: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> None:
        self._stream = stream
        self._fault: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._fault is not None:
            raise self._fault
        size = 0
        try:
            while size < len(buffer) and (data := self._stream.read1(len(buffer) - size)):
                buffer[size : size + len(data)] = data
                size += len(data)
        except (*_FAULTS, OSError, EOFError) as fault:
            if not size:
                raise
            self._fault = fault
        return size


def _filled(stream: gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile) -> BinaryIO:
    return io.BufferedReader(_Filled(stream), 1 << 16)


_UNPACKED_BY: dict[str, Callable[[BinaryIO], Any]] = {
    ".gz": lambda file: _filled(gzip.GzipFile(fileobj=file)),
    ".zst": lambda file: io.BufferedReader(_Unpacked(file)),
    ".bz2": lambda file: _filled(bz2.BZ2File(file)),
    ".xz": lambda file: _filled(lzma.LZMAFile(file)),  # noqa: SIM115
}
"""What returns the content of a compressed file, by its ending."""
