"""Write files again without some of their records; the others stay as they came.

Records of text formats and the elements of a JSON array stay byte for byte, with everything before
the first one. In tables the rows, the schema and its metadata stay; the file is written anew.
"""

import codecs
import gzip
import io
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path, PurePath
from typing import IO, Any, NamedTuple

import zstandard

from esdedup.exceptions import InputError, StoreError, UsageError
from esdedup.records.columnar import copy_rows
from esdedup.records.files import Format, format_of
from esdedup.records.streams import STDIN, begins_with, opened
from esdedup.stores.private_files import written_whole
from esdedup.text.arrays import I64, Mask

_BLOCK = 1 << 16
_SPACE = re.compile(r"[\s,]*")


class KeptRecords(NamedTuple):
    """The records of a file that stay.

    starts: `Record.line` of all n records, ascending, shape (n,). kept: True for those that stay,
    shape (n,).
    """

    path: str
    starts: I64
    kept: Mask


def rewrite(
    sources: Sequence[KeptRecords],
    target: str,
    format: Format | None = None,
    encoding: str | None = None,
) -> None:
    """Write the records that stay of one or several files to one file, or "-", standard output.

    The file is packed as its ending says, and has its name when it is whole. Of several files with
    a header only the first keeps it. Raises UsageError if the headers or the columns of the files
    differ, or if one of several is a JSON array; InputError if a file can't be read or lacks a
    record; StoreError if the file can't be written.
    """
    kind = format or format_of(sources[0].path)
    with _target(target, sources[0].path) as out:
        if kind in ("parquet", "arrow"):
            copy_rows([(each.path, each.kept) for each in sources], kind, out)
            return
        suffix = PurePath(target).suffix.lower()
        if suffix == ".gz":
            packing: Any = gzip.GzipFile("", "wb", fileobj=out, mtime=0)
        elif suffix == ".zst":
            packing = zstandard.ZstdCompressor().stream_writer(out, closefd=False)
        else:
            packing = nullcontext(out)
        with packing as packed:
            header: bytes | None = None
            for source in sources:
                last = source is sources[-1]
                with opened(source.path, encoding) as (_, text):
                    if kind == "jsonl" and begins_with(text, "["):
                        if len(sources) > 1:
                            raise UsageError(
                                f"{source.path}: a JSON array can't be joined with other files:"
                                " name a folder to write to"
                            )
                        _copy_elements(source, text, packed)
                    else:
                        found = _copy_lines(source, text, packed, header, last)
                        header = found if kind in ("csv", "tsv") else None


class _Target(io.BufferedWriter):
    """A file to write, whose errors are not those of a file that is read meanwhile."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(io.FileIO(file.fileno(), "w", closefd=False), _BLOCK)
        self._called = name

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise StoreError(f"{self._called}: {error.strerror or error}") from error


@contextmanager
def _target(target: str, like: str) -> Iterator[IO[bytes]]:
    """Open a file to write, with the permissions of another; it gets its name when it is whole."""
    if target == STDIN:
        yield sys.stdout.buffer
        return
    try:
        with (
            written_whole(Path(target), Path(like)) as file,
            _Target(file, target) as out,
        ):
            yield out
    except OSError as error:
        raise StoreError(f"{target}: {error.strerror or error}") from error


def _copy_lines(
    source: KeptRecords,
    text: io.TextIOWrapper,
    out: IO[bytes],
    before: bytes | None,
    last: bool,
) -> bytes:
    """Copy the lines of records that stay, and return those before the first record.

    before: what an earlier file had there, None for the first file. last: of the files.
    """
    newline = "\n".encode(_codec(text))
    header, line, keeping, at = b"", newline, True, 0
    starts, kept = [*source.starts.tolist(), 0], [*source.kept.tolist(), False]
    for number, line in enumerate(_lines(text.buffer, newline), 1):
        if number == starts[at]:
            if at == 0 and before not in (None, header.removeprefix(codecs.BOM_UTF8)):
                raise UsageError(f"{source.path}: its header differs from that of the first file")
            keeping = kept[at]
            at += 1
        elif at == 0:
            header += line
            keeping = before is None
        if keeping:
            out.write(line)
    if at != source.starts.size:
        raise InputError(f"{source.path} has changed since it was read: it has fewer records")
    if keeping and not last and not line.endswith(newline):
        out.write(newline)
    return header.removeprefix(codecs.BOM_UTF8)


def _lines(stream: Any, newline: bytes) -> Iterator[bytes]:
    """Yield lines with their ends. A line feed begins at a multiple of its width."""
    if newline == b"\n":
        yield from stream
        return
    rest = b""
    while block := stream.read(_BLOCK):
        rest += block
        start, at = 0, rest.find(newline)
        while at >= 0:
            end = at + 1
            if at % len(newline) == 0:
                end = at + len(newline)
                yield rest[start:end]
                start = end
            at = rest.find(newline, end)
        rest = rest[start:]
    if rest:
        yield rest


def _codec(text: io.TextIOWrapper) -> str:
    """Return the codec of a text that was not read yet, with a byte order mark as a character."""
    name = codecs.lookup(text.encoding).name
    if name == "utf-8-sig":
        return "utf-8"
    if name in ("utf-16", "utf-32"):
        head = text.buffer.peek(4)  # type: ignore[attr-defined]
        big = head.startswith((codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE))
        return f"{name}-{'be' if big else 'le'}"
    return name


def _copy_elements(source: KeptRecords, text: io.TextIOWrapper, out: IO[bytes]) -> None:
    """Copy a JSON array with the elements that stay."""
    codec = _codec(text)
    stream: Any = text.buffer
    raw = stream.read().decode(codec, "surrogateescape")
    decoder, spans = json.JSONDecoder(), []
    end = raw.index("[") + 1
    while raw[start := _SPACE.match(raw, end).end()] != "]":  # type: ignore[union-attr]
        _, end = decoder.raw_decode(raw, start)
        spans.append((start, end))
    if len(spans) != source.starts.size:
        raise InputError(f"{source.path} has changed since it was read: it has other records")
    ends = [span_end for _, span_end in spans]
    first = spans[0][0] if spans else end
    written = [raw[:first]]
    for number in source.kept.nonzero()[0].tolist():
        separator = raw[ends[number - 1] : spans[number][0]] if len(written) > 1 else ""
        written.append(separator + raw[slice(*spans[number])])
    written.append(raw[end:])
    out.write("".join(written).encode(codec, "surrogateescape"))
