"""Opens files as streams of UTF-8: unpacks them, and decodes other encodings.

A file that ends too soon is an error, and so is one that can't be unpacked.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TypeVar

import zstandard

from esdedup.exceptions import InputError, UsageError

STDIN = "-"
COMPRESSED = (".gz", ".zst")
MOST_BYTES = 64 << 20
"""The longest line. It is in memory several times while it is read, and servers reject requests of
more than 100 MB."""

Each = TypeVar("Each")
_HEAD_BYTES = 1_000
_PACKED_BYTES = 2 << 10
"""Bytes of a .zst that are unpacked at a time. They may become 64 MB."""
_BLOCK_BYTES = 1 << 16
_INVALID = "esdedup.invalid"
codecs.register_error(_INVALID, lambda error: ("\udcff", error.end))  # type: ignore[attr-defined]


class Head(bytes):
    """The beginning of a line of more than MOST_BYTES."""


@contextmanager
def opened(path: str, encoding: str | None = None) -> Iterator[tuple[BinaryIO, io.BufferedReader]]:
    """Return a file, or standard input for "-", and its text as UTF-8.

    encoding: a name that Python knows, None for UTF-8. Text that is not valid in it becomes bytes
    that are not valid UTF-8. Raises UsageError if the file can't be opened or has another encoding,
    InputError if it breaks off.
    """
    check_encoding(encoding)
    try:
        file: Any = standard_input() if path == STDIN else Path(path).open("rb")  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    suffix = PurePath(path).suffix.lower()
    stream = file
    try:
        if suffix in COMPRESSED and not file.peek(1):
            raise EOFError("it is empty")
        if suffix == ".gz":
            stream = gzip.GzipFile(fileobj=file)
        elif suffix == ".zst":
            stream = io.BufferedReader(_Unpacked(file))
        if encoding is not None:
            stream = io.BufferedReader(_Transcoded(stream, encoding))
        elif not hasattr(stream, "peek"):
            stream = io.BufferedReader(stream)
        if encoding is None and (found := _other_encoding(stream.peek(_HEAD_BYTES))):
            raise UsageError(f"{path}: it is {found.upper()}, not UTF-8: --encoding {found}")
        yield file, stream
    except (OSError, EOFError, UnicodeError, zlib.error, zstandard.ZstdError) as error:
        raise InputError(f"{path} can't be read to its end: {error}") from error
    finally:
        if path != STDIN:
            file.close()


def standard_input() -> BinaryIO:
    """Standard input. Raises UsageError if it is closed."""
    if sys.stdin is None:
        raise UsageError("standard input is closed: name a file")
    return sys.stdin.buffer


def name_of(path: str) -> str:
    """Return a path as records have it: with forward slashes, and valid Unicode."""
    if path == STDIN:
        return "stdin"
    return os.fsencode(PurePath(path).as_posix()).decode("utf-8", "backslashreplace")


def check_encoding(encoding: str | None) -> None:
    """Raise UsageError if Python does not know the name of a text encoding."""
    try:
        # This knows which of Python's codecs are of text.
        io.TextIOWrapper(io.BytesIO(), encoding or "utf-8")
    except (LookupError, UnicodeError) as error:
        raise UsageError(
            f"--encoding {encoding}: use a name such as utf-16, latin-1, cp1252, gb18030 or big5"
        ) from error


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines with their ends. Of a line of more than MOST_BYTES, only the Head."""
    while line := stream.readline(MOST_BYTES + 1):
        yield _ended(line, stream)


def blocks_of_lines(stream: io.BufferedReader, size: int, most: int) -> Iterator[bytes]:
    """Yield the lines of `lines_of` together; a Head comes alone.

    A block ends after `most` lines, or `size` bytes and a few more, as the stream gives them. If
    the stream breaks off, the error comes after all whole lines.
    """
    block, lines = bytearray(), 0
    # Less than three of these are read before a line is cut.
    size = min(size, MOST_BYTES // 3)

    def taken(end: int) -> bytes:
        some = bytes(block[:end])
        del block[:end]
        return some

    try:
        while more := stream.read1(min(size, _BLOCK_BYTES)):
            block += more
            lines += more.count(b"\n")
            while lines > most:
                yield taken(_after_lines(block, most))
                lines -= most
            if len(block) < size and lines < most:
                continue
            if lines:
                yield taken(block.rfind(b"\n") + 1)
            else:
                begun = taken(len(block))
                yield _ended(begun + stream.readline(MOST_BYTES + 1 - len(begun)), stream)
            lines = 0
    except Exception:
        if lines:
            yield taken(block.rfind(b"\n") + 1)
        raise
    if block:
        yield taken(len(block))


def grouped(
    items: Iterable[Each], weigh: Callable[[Each], tuple[int, int]], size: int, most: int
) -> Iterator[list[Each]]:
    """Yield items in groups of at most a total size and number of documents, or one item each.

    weigh: returns the size of an item and its number of documents. If the items break off, the
    error comes after the last group.
    """
    group: list[Each] = []
    held = documents = 0
    try:
        for item in items:
            more, count = weigh(item)
            if group and (held + more > size or documents + count > most):
                yield group
                group, held, documents = [], 0, 0
            group.append(item)
            held, documents = held + more, documents + count
    except Exception:
        if group:
            yield group
        raise
    if group:
        yield group


def _after_lines(block: bytearray, lines: int) -> int:
    """Return the place after the first lines of a block."""
    end = 0
    for _ in range(lines):
        end = block.index(b"\n", end) + 1
    return end


def _ended(line: bytes, stream: BinaryIO) -> bytes:
    """Return a line, or its Head after reading the rest of it."""
    if len(line) <= MOST_BYTES or line.endswith(b"\n"):
        return line
    while (rest := stream.readline(_BLOCK_BYTES)) and not rest.endswith(b"\n"):
        pass
    return Head(line[:_HEAD_BYTES])


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


class _Made(io.RawIOBase):
    """A stream of blocks that `_more` makes of another stream; an empty one is the last."""

    def __init__(self) -> None:
        self._ready = memoryview(b"")

    def _more(self) -> bytes:
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._ready = self._ready or memoryview(self._more())
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


class _Unpacked(_Made):
    """The content of a .zst file of any number of frames. The library accepts truncated ones."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._begun = False

    def _more(self) -> bytes:
        block = b""
        while not block:
            packed = self._frame.unused_data if self._frame.eof else b""
            packed = packed or self._file.read(_PACKED_BYTES)
            if not packed:
                if self._begun and not self._frame.eof:
                    raise EOFError("it ends within a frame")
                return b""
            if self._frame.eof:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._begun = True
            block = self._frame.decompress(packed)
        return block


class _Transcoded(_Made):
    """A stream of another encoding, as UTF-8."""

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        super().__init__()
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)(_INVALID)
        self._ended = False

    def _more(self) -> bytes:
        text = ""
        while not text and not self._ended:
            block = self._stream.read(_BLOCK_BYTES)
            self._ended = not block
            text = self._decoder.decode(block, final=self._ended)
        return text.encode("utf-8", "surrogatepass")
