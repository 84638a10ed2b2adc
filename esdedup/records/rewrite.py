"""Write files again without some of their records; the others stay as they came.

Records of text formats and the elements of a JSON array stay byte for byte, with the byte order
mark, the header and empty lines. A file that loses nothing is copied. Otherwise what packs the
records is written anew: .gz, .zst, .bz2 and .xz, with the level that is the library's default, and
tables (Parquet, Arrow), of which the values and the schema stay.
"""

import bz2
import codecs
import csv
import gzip
import io
import itertools
import json
import lzma
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import PurePath
from types import MappingProxyType
from typing import IO, Any, NamedTuple, cast

import zstandard

from esdedup.exceptions import InputError, RecordError, UsageError
from esdedup.records.columnar import RetainedRows, copy_rows
from esdedup.records.csv_rows import with_field
from esdedup.records.files import Format, elements_of, format_of
from esdedup.records.locations import open_file, written
from esdedup.records.merge import NO_MERGE, Merge
from esdedup.records.text_files import COMPRESSED, STDIN, begins_with, name_of, opened
from esdedup.stores.fields import value_at
from esdedup.stores.json_text import EXACT, members
from esdedup.text.arrays import I64, Mask

_MARKS = {
    "utf-8-sig": {"utf-8": codecs.BOM_UTF8},
    "utf-16": {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE},
    "utf-32": {"utf-32-le": codecs.BOM_UTF32_LE, "utf-32-be": codecs.BOM_UTF32_BE},
}
"""The byte order marks of encodings that have one, by the encoding of the text after it."""

_NO_START = (-1, True)
"""The line of a record after the last one, and whether it stays."""


class RetainedFile(NamedTuple):
    """A file, and which of its records stay.

    path: of the file.
    starts: `Record.line` of all n records, ascending, shape (n,).
    stays: True for the records that stay, shape (n,).
    field: the field of the text, if texts change.
    changed: by line the new texts of some records that stay.
    merge: the fields that records take from others, of JSON and tables.
    new_values: by line the new values of fields of some records that stay, as JSON by path.
    """

    path: str
    starts: I64
    stays: Mask
    field: str = ""
    changed: Mapping[int, str] = MappingProxyType({})
    merge: Merge = NO_MERGE
    new_values: Mapping[int, str] = MappingProxyType({})

    @property
    def is_copied(self) -> bool:
        """Whether all records stay as they are."""
        is_changed = self.changed or self.new_values or self.merge.collect
        return bool(self.stays.all()) and not is_changed


def rewrite(
    sources: Sequence[RetainedFile],
    target: str,
    format: Format | None = None,
    encoding: str | None = None,
    check: Callable[[], None] = lambda: None,
    delimiter: str = ",",
) -> None:
    """Write the records that stay of one or several files to one file, or "-", standard output.

    check: called when all is written, before the file has its name. If it raises, there is none.
    delimiter: of CSV.

    The file is packed as its ending requests, and has its name when it is whole. Of several files
    with a header or a byte order mark only the first keeps it, and a last line without a line feed
    gets one. Of the format "file" there is one source, which is written if it stays, and then not
    synced to the disk. Raises UsageError if the headers or columns of the files differ, or if one
    of several is a JSON array; InputError if a file can't be read or lacks a record, or its
    encoding doesn't allow removing lines; StoreError if the target can't be written.
    """
    first = sources[0]
    format = format or format_of(first.path)
    if format == "file" and not first.stays.all():
        return
    if target == STDIN:
        opened_target: AbstractContextManager[IO[bytes]] = nullcontext(sys.stdout.buffer)
    else:
        opened_target = written(target, first.path, sync=format != "file")
    with opened_target as out:
        is_copy = len(sources) == 1 and first.is_copied
        if is_copy and _packing(first.path) == _packing(target):
            with open_file(first.path) as file:
                shutil.copyfileobj(file, out)
        elif format == "parquet" or format == "arrow":
            rows = [
                RetainedRows(source.path, source.stays, source.changed, source.new_values)
                for source in sources
            ]
            copy_rows(rows, format, out, first.field, first.merge)
        else:
            with packed(out, target) as content:
                if format == "file":
                    content.write(first.changed[1].encode(encoding or "utf-8"))
                else:
                    separator = "\t" if format == "tsv" else delimiter
                    _copy_texts(sources, format, encoding, separator, content)
        check()


def _packing(path: str) -> str | None:
    """Return the ending of a compressed file, None for another file."""
    suffix = PurePath(name_of(path)).suffix.lower()
    return suffix if suffix in COMPRESSED else None


def packed(out: IO[bytes], path: str) -> AbstractContextManager[Any]:
    """Return what packs the content of a file as its ending requests."""
    if (packing := _packing(path)) == ".gz":
        return gzip.GzipFile("", "wb", fileobj=out, mtime=0)
    if packing == ".zst":
        return zstandard.ZstdCompressor().stream_writer(out, closefd=False)
    if packing == ".bz2":
        return bz2.BZ2File(out, "wb")
    if packing == ".xz":
        return lzma.LZMAFile(out, "wb")
    return nullcontext(out)


def _copy_texts(
    sources: Sequence[RetainedFile],
    format: Format,
    encoding: str | None,
    delimiter: str,
    out: IO[bytes],
) -> None:
    """Copy the records that stay of files of lines, or of one JSON array.

    delimiter: of rows of CSV and TSV.
    """
    first_codec: str | None = None
    first_header, last_line = "", b""
    for source in sources:
        with opened(source.path, encoding) as (_, text):
            is_array = format == "jsonl" and begins_with(text, "[")
            codec, mark = _begin(text)
            if is_array:
                if len(sources) > 1:
                    reason = "it is a JSON array: name a folder to write to"
                    raise UsageError(f"{source.path}: {reason}")
                array = cast(IO[bytes], text.buffer).read()
                out.write(mark + _elements(array, codec, source))
                return
            lines, newline = _lines(source.path, text, codec), "\n".encode(codec)
            starts = source.starts
            header = b"".join(itertools.islice(lines, starts[0] - 1 if starts.size else None))
            # Of files without records, the whole content.
            header_text = header.decode(codec, "replace").strip("\r\n")
            if len(sources) > 1 and not header_text and not starts.size:
                continue
            if first_codec is None:
                first_codec, first_header, last_line = codec, header_text, header
                out.write(mark + header)
            elif (codec, header_text) != (first_codec, first_header):
                differs = "its header or its encoding differs from that of the first file"
                raise UsageError(f"{source.path}: {differs}: name a folder to write to")
            elif last_line and not last_line.endswith(newline):
                last_line = newline
                out.write(newline)
            if source.changed and format in ("csv", "tsv"):
                retained = _retained_rows(source, lines, codec, header_text, delimiter)
            else:
                field = None if format == "text" else source.field
                retained = _retained_lines(source, lines, codec, field)
            for line in retained:
                last_line = line
                out.write(line)


def _retained_lines(
    source: RetainedFile, lines: Iterator[bytes], codec: str, field: str | None
) -> Iterator[bytes]:
    """Yield the lines of the records that stay, with their new texts.

    lines: those after the header.
    field: of the text in a line of JSON; None if the line is the text.
    """
    # Ascending, so that no dictionary of all records is in memory.
    starts = zip(map(int, source.starts), map(bool, source.stays), strict=True)
    next_start, next_stays = next(starts, _NO_START)
    stays = True
    for number, line in enumerate(lines, max(next_start, 0)):
        # A line at which no record starts is of the record before it.
        while number == next_start:
            stays = next_stays
            next_start, next_stays = next(starts, _NO_START)
        if stays and (number in source.changed or source.merge):
            line = _with_changes(source, number, line.decode(codec), field).encode(codec)
        if stays:
            yield line
    if (next_start, next_stays) != _NO_START:
        raise InputError(f"{source.path} has changed since it was read: it has fewer records")


def _retained_rows(
    source: RetainedFile, lines: Iterator[bytes], codec: str, header: str, delimiter: str
) -> Iterator[bytes]:
    """Yield the rows of CSV that stay, with their new texts; a row may have several lines.

    lines: those after the header.
    """
    names = next(csv.reader(io.StringIO(header, newline=""), delimiter=delimiter), [])
    if source.field not in names:
        raise InputError(f"{source.path} has changed since it was read: no column {source.field!r}")
    column, starts = names.index(source.field), source.starts.tolist()
    counts: Iterator[int | None] = (end - start for start, end in itertools.pairwise(starts))
    counts = itertools.chain(counts, [None])
    for start, stays, count in zip(starts, source.stays.tolist(), counts, strict=True):
        row = b"".join(itertools.islice(lines, count))
        if not row:
            raise InputError(f"{source.path} has changed since it was read: it has fewer records")
        if stays and start in source.changed:
            text = source.changed[start]
            row = with_field(row.decode(codec), column, delimiter, text).encode(codec)
        if stays:
            yield row


def _with_changes(source: RetainedFile, number: int, line: str, field: str | None) -> str:
    """Return a record that stays with its new text, and with the values that it takes from others.

    number: of the record.
    field: of the text in JSON; None if the line is the text. Raises InputError if a value can't be
    written.
    """
    if number in source.changed:
        try:
            line = _with_text(line, field, source.changed[number])
        except ValueError as error:
            reason = f"it has no string {source.field!r}, whose text could be changed"
            raise InputError(f"{source.path}, line {number}: {reason}") from error
    return _with_new_values(source, number, line)


def _with_new_values(source: RetainedFile, number: int, text: str) -> str:
    """Return the JSON of a record that stays, with the values that it takes from others.

    number: of the record. Raises InputError if its fields can't be written.
    """
    new_values = EXACT.decode(source.new_values.get(number, "{}"))
    if not (new_values or source.merge.collect):
        return text
    place = f"{source.path}, line {number}"
    try:
        return source.merge.new_text(text, new_values, "its new values")
    except RecordError as error:
        raise InputError(f"{place}: {error}") from error
    except RecursionError as error:
        raise InputError(f"{place}: nested too deeply to take values") from error


def _with_text(line: str, field: str | None, text: str) -> str:
    """Return a line with another text; all else stays as it came.

    field: of a JSON object, which holds the text; None if the line is the text. Raises ValueError
    if the field does not hold a string.
    """
    if field is None:
        return text + line[len(line.rstrip("\r\n")) :]
    start, end = _place_of(line, line.index("{"), field)
    return line[:start] + json.dumps(text, ensure_ascii=False) + line[end:]


def _place_of(text: str, start: int, path: str) -> tuple[int, int]:
    """Return where the string of a field is in an object that begins at `start`.

    path: as in `value_at`. Raises ValueError if there is no string.
    """
    # Of a repeated key the last value counts.
    by_key = {member.key: member for member in members(text, start)}
    if path in by_key:
        if not isinstance(by_key[path].value, str):
            raise ValueError
        return by_key[path].start, by_key[path].end
    for cut, character in enumerate(path):
        if character == "." and path[:cut] in by_key:
            member = by_key[path[:cut]]
            if value_at({path[:cut]: member.value}, path) is None:
                continue
            if not isinstance(member.value, dict):
                # The strings of a list of objects are several.
                raise ValueError
            return _place_of(text, member.start, path[cut + 1 :])
    raise ValueError


def _begin(text: io.TextIOWrapper) -> tuple[str, bytes]:
    """Read the byte order mark of a text that was not read yet: return the codec after it, and it.

    Without one, text is read as UTF-8, or in the byte order of nearly all machines.
    """
    name = codecs.lookup(text.encoding).name
    marks = _MARKS.get(name, {name: b""})
    head = text.buffer.peek(4)  # type: ignore[attr-defined]
    for codec, mark in marks.items():
        if head.startswith(mark):
            text.buffer.read(len(mark))
            return codec, mark
    return next(iter(marks)), b""


def _lines(path: str, text: io.TextIOWrapper, codec: str) -> Iterator[bytes]:
    """Yield the lines after the byte order mark, with their ends.

    Raises InputError if lines can't be read without those before them, as of UTF-7.
    """
    newline, stream, line = "\n".encode(codec), cast(IO[bytes], text.buffer), bytearray()
    if codec == "utf-8":
        yield from stream
        return
    decoder = codecs.getincrementaldecoder(codec)(text.errors or "strict")
    state = decoder.getstate()
    for piece in itertools.chain(stream, [b""]):
        line += piece
        # A line feed begins at a multiple of its width.
        line += stream.read(-len(line) % len(newline))
        has_end = line.endswith(newline)
        if piece and not has_end:
            continue
        # A line must decode to one line, and leave nothing behind for the next one.
        line_feeds = decoder.decode(line).count("\n")
        if line_feeds != has_end or (has_end and decoder.getstate() != state):
            depend = f"its lines depend on each other in the encoding {text.encoding}"
            raise InputError(f"{path}: {depend}: convert it to UTF-8")
        if line:
            yield bytes(line)
        line.clear()


def _elements(data: bytes, codec: str, source: RetainedFile) -> bytes:
    """Return a JSON array with the elements that stay, of which some change."""
    path, stays = source.path, source.stays
    array = data.decode(codec, "surrogateescape")
    spans = [*elements_of(array)]
    starts = [start for start, _ in spans]
    ends = [array.index("[") + 1, *(end for _, end in spans)]
    if len(starts) != stays.size:
        raise InputError(f"{path} has changed since it was read: it has other records")
    if array.encode(codec, "surrogateescape") != data:
        raise InputError(f"{path}: text in {codec} can't be copied exactly: convert it to UTF-8")
    texts = [array[: starts[0] if starts else ends[0]]]
    for number in stays.nonzero()[0].tolist():
        # An element has the separator before it, unless it is the first.
        separator = "" if len(texts) == 1 else array[ends[number] : starts[number]]
        element = array[starts[number] : ends[number + 1]]
        element = _with_changes(source, number + 1, element, source.field)
        texts.append(separator + element)
    return "".join([*texts, array[ends[-1] :]]).encode(codec, "surrogateescape")
