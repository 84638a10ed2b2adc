"""Write files again without some of their records; the others stay as they came.

Records of text formats and the elements of a JSON array stay byte for byte, with the byte order
mark, the header and empty lines. A file that loses nothing is copied. Otherwise what packs the
records is written anew: .gz and .zst, with the level that is the library's default, and tables
(Parquet, Arrow), of which the values and the schema stay.
"""

import codecs
import gzip
import io
import itertools
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from types import MappingProxyType
from typing import IO, Any, NamedTuple, cast

import zstandard

from esdedup.exceptions import InputError, UsageError
from esdedup.records.columnar import copy_rows
from esdedup.records.files import Format, format_of
from esdedup.records.locations import open_file, written
from esdedup.records.streams import COMPRESSED, STDIN, begins_with, name_of, opened
from esdedup.text.arrays import I64, Mask

_BLOCK = 1 << 20
_SPACE = re.compile(r"[\s,]*")
_MARKS = {
    "utf-8-sig": {"utf-8": codecs.BOM_UTF8},
    "utf-16": {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE},
    "utf-32": {"utf-32-le": codecs.BOM_UTF32_LE, "utf-32-be": codecs.BOM_UTF32_BE},
}
"""The byte order marks of encodings that have one, by the encoding of the text after it."""


class KeptRecords(NamedTuple):
    """The records of a file that stay.

    starts: `Record.line` of all n records, ascending, shape (n,). kept: True for those that stay,
    shape (n,). field, changed: the field of the text, and by line the new texts of some records
    that stay, of JSON lines, tables, and files that are one document.
    """

    path: str
    starts: I64
    kept: Mask
    field: str = ""
    changed: Mapping[int, str] = MappingProxyType({})


def rewrite(
    sources: Sequence[KeptRecords],
    target: str,
    format: Format | None = None,
    encoding: str | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write the records that stay of one or several files to one file, or "-", standard output.

    check: called when all is written, before the file has its name. If it raises, there is none.

    The file is packed as its ending requests, and has its name when it is whole. Of several files
    with a header or a byte order mark only the first keeps it, and a last line without a line feed
    gets one. Of the format "file" there is one source, which is written if it stays, and then not
    synced to the disk. Raises UsageError if the headers or columns of the files differ, or if one
    of several is a JSON array; InputError if a file can't be read or lacks a record, or its
    encoding doesn't allow removing lines; StoreError if the target can't be written.
    """
    first = sources[0].path
    kind = format or format_of(first)
    if kind == "file" and not sources[0].kept.all():
        return
    with _target(target, first, sync=kind != "file") as out:
        whole = len(sources) == 1 and sources[0].kept.all() and not sources[0].changed
        if whole and _packing(first) == _packing(target):
            with open_file(first) as file:
                shutil.copyfileobj(file, out)
        elif kind == "parquet" or kind == "arrow":
            rows = [(each.path, each.kept) for each in sources]
            copy_rows(rows, kind, out, sources[0].field, sources[0].changed)
        else:
            with _packed(out, _packing(target)) as packed:
                if kind == "file":
                    packed.write(sources[0].changed[1].encode(encoding or "utf-8"))
                else:
                    _copy_texts(sources, kind, encoding, packed)
        check()


@contextmanager
def _target(target: str, like: str, sync: bool) -> Iterator[IO[bytes]]:
    """Open the file to write, with the permissions of another, or standard output."""
    if target == STDIN:
        yield sys.stdout.buffer
        return
    with written(target, like, sync) as file:
        yield file


def _packing(path: str) -> str | None:
    suffix = PurePath(name_of(path)).suffix.lower()
    return suffix if suffix in COMPRESSED else None


@contextmanager
def _packed(out: IO[bytes], packing: str | None) -> Iterator[Any]:
    if packing == ".gz":
        with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
            yield packed
    elif packing == ".zst":
        with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as packed:
            yield packed
    else:
        yield out


def _copy_texts(
    sources: Sequence[KeptRecords], kind: Format, encoding: str | None, out: IO[bytes]
) -> None:
    """Copy the records that stay of files of lines, or of one JSON array."""
    begun: tuple[str, str] | None = None
    last = b""
    for path, starts, kept, field, changed in sources:
        with opened(path, encoding) as (_, text):
            is_array = kind == "jsonl" and begins_with(text, "[")
            codec, mark = _begin(text)
            if is_array:
                if changed:
                    raise UsageError(f"{path}: --unit can't be combined with a JSON array")
                if len(sources) > 1:
                    raise UsageError(
                        f"{path}: a JSON array can't be joined with other files: name a folder to"
                        " write to"
                    )
                out.write(mark + _elements(cast(IO[bytes], text.buffer).read(), codec, path, kept))
                return
            lines, newline = _lines(path, text, codec), "\n".encode(codec)
            header = b"".join(itertools.islice(lines, starts[0] - 1 if starts.size else None))
            names = header.decode(codec, "replace").strip("\r\n")
            if len(sources) > 1 and not names and not starts.size:
                continue
            if begun is None:
                begun, last = (codec, names), header
                out.write(mark + header)
            elif (codec, names) != begun:
                raise UsageError(
                    f"{path}: its header or its encoding differs from that of the first file: name"
                    " a folder to write to"
                )
            elif last and not last.endswith(newline):
                out.write(newline)
                last = newline
            keeping = dict(zip(starts.tolist(), kept.tolist(), strict=True))
            stays = True
            for number, line in enumerate(lines, min(keeping, default=0)):
                stays = keeping.pop(number, stays)
                if stays:
                    if number in changed:
                        line = _with_text(line.decode(codec), field, changed[number]).encode(codec)
                    out.write(line)
                    last = line
            if keeping:
                raise InputError(f"{path} has changed since it was read: it has fewer records")


def _with_text(line: str, field: str, text: str) -> str:
    """Return a line of a JSON object with another text in a field; all else stays as it came."""
    decoder, at = json.JSONDecoder(), line.index("{")
    while True:
        key, at = decoder.raw_decode(line, line.index('"', at))
        start = line.index(":", at) + 1
        start += len(line[start:]) - len(line[start:].lstrip(" \t"))
        _, at = decoder.raw_decode(line, start)
        if key == field:
            return line[:start] + json.dumps(text, ensure_ascii=False) + line[at:]


def _begin(text: io.TextIOWrapper) -> tuple[str, bytes]:
    """Read the byte order mark of a text that was not read yet: return the codec after it, and it.

    Without one, text is read as UTF-8, or in the byte order of this machine.
    """
    name = codecs.lookup(text.encoding).name
    head = text.buffer.peek(4)  # type: ignore[attr-defined]
    for codec, mark in _MARKS.get(name, {}).items():
        if head.startswith(mark):
            text.buffer.read(len(mark))
            return codec, mark
    if name in ("utf-16", "utf-32"):
        return f"{name}-{sys.byteorder[0]}e", b""
    return name.removesuffix("-sig"), b""


def _lines(path: str, text: io.TextIOWrapper, codec: str) -> Iterator[bytes]:
    """Yield the lines after the byte order mark, with their ends.

    Raises InputError if lines can't be read without those before them, as of UTF-7.
    """
    newline, stream = "\n".encode(codec), cast(IO[bytes], text.buffer)
    lines = stream if newline == b"\n" else _wide_lines(stream, newline)
    if codec == "utf-8":
        yield from lines
        return
    decoder = codecs.getincrementaldecoder(codec)(text.errors or "strict")
    state = decoder.getstate()
    for line in lines:
        ends = line.endswith(newline)
        if decoder.decode(line).count("\n") != ends or (ends and decoder.getstate() != state):
            raise InputError(
                f"{path}: its lines depend on each other in the encoding {text.encoding}: convert"
                " it to UTF-8"
            )
        yield line


def _wide_lines(stream: IO[bytes], newline: bytes) -> Iterator[bytes]:
    """Yield lines with their ends. A line feed begins at a multiple of its width."""
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


def _elements(data: bytes, codec: str, path: str, kept: Mask) -> bytes:
    """Return a JSON array with the elements that stay. kept: shape (elements,)."""
    array, decoder, spans = data.decode(codec, "surrogateescape"), json.JSONDecoder(), []
    end = array.index("[") + 1
    while array[start := _space_to(array, end)] != "]":
        _, end = decoder.raw_decode(array, start)
        spans.append((start, end))
    if len(spans) != kept.size:
        raise InputError(f"{path} has changed since it was read: it has other records")
    head = spans[0][0] if spans else end
    written = [array[:head]]
    for number in kept.nonzero()[0].tolist():
        # With the separator before it.
        before = spans[number - 1][1] if len(written) > 1 else spans[number][0]
        written.append(array[before : spans[number][1]])
    written.append(array[end:])
    if array.encode(codec, "surrogateescape") != data:
        raise InputError(f"{path}: text in {codec} can't be copied exactly: convert it to UTF-8")
    return "".join(written).encode(codec, "surrogateescape")


def _space_to(array: str, end: int) -> int:
    """Return the place after the comma and the spaces that follow an element."""
    found = _SPACE.match(array, end)
    assert found is not None
    return found.end()
