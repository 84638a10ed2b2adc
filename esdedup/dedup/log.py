"""A write-ahead log of a run that removes or marks duplicates, from which it can be undone.

It is lines of JSON: first the run, then for each page of documents the plan, with whole documents,
and afterwards the result. The plan of a page is on the disk before any of its documents is changed,
so that a run can be undone even if it was killed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, Self

import zstandard

from esdedup.exceptions import StoreError, UsageError
from esdedup.models import Document, Failure, Held
from esdedup.stores.to_json import to_json

Action = Literal["delete", "mark", "move"]

_KIND = "esdedup dedup"
_VERSION = 1
_BLOCK = 1 << 20


@dataclass(frozen=True)
class RunHeader:
    """The first line of a log: the run.

    index: its name. address: a file, or addresses with ", " between them. scheme: its id. field: of
    our tokens. to: the index that documents were moved to. grouping: how duplicates were found.
    began: ISO 8601.
    """

    index: str
    address: str
    scheme: str
    field: str
    action: Action
    to: str | None
    grouping: Mapping[str, Any]
    began: str


@dataclass(frozen=True)
class Entry:
    """A document to change.

    held: as it was, whole; for a document to mark, the log only has the id. original: the id of its
    representative, None for a representative. value: similarity, or Hamming distance. marks: the
    values to write below our field. former: the values that these replace.
    """

    held: Held
    original: str | None
    value: float | None
    marks: Mapping[str, Any] = field(default_factory=dict)
    former: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The document's id."""
        return self.held.document.id

    def line(self) -> str:
        """Returns a line of the log. Raises RecordError if JSON can't hold the document."""
        held = self.held
        where = {"version": held.version, "index": held.index, "routing": held.routing}
        planned = {"id": self.id, **where, "original": self.original, "value": self.value}
        more = {"source": held.document.source}
        if self.marks:
            more = {"marks": self.marks, "former": self.former}
        return to_json({"planned": planned | more}, f"document {self.id!r}")

    @staticmethod
    def from_json(planned: Mapping[str, Any]) -> Entry:
        """The inverse of `line`. Raises KeyError for another form."""
        document = Document(planned["id"], planned.get("source", {}))
        held = Held(document, planned["version"], planned["index"], planned["routing"])
        marks = planned.get("marks", {}), planned.get("former", {})
        return Entry(held, planned["original"], planned["value"], *marks)


class LogWriter:
    """Writes a new log.

    A file whose name ends in .zst is compressed, each page by itself. Raises UsageError if the file
    exists or can't be made, StoreError if it can't be written to.
    """

    def __init__(self, path: Path, header: RunHeader) -> None:
        self.path = path
        try:
            self._file: BinaryIO = path.open("xb")
        except FileExistsError as error:
            raise UsageError(
                f"log file {path}: it exists, and may be needed to restore documents: name"
                " another (--log)"
            ) from error
        except OSError as error:
            raise UsageError(f"log file {path}: {error.strerror}: name another (--log)") from error
        self._write([json.dumps({"log": _KIND, "version": _VERSION, **asdict(header)})])
        # Without this, a power failure may lose the file's name. Not every system can do it.
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def plan(self, lines: Sequence[str]) -> None:
        """Writes the lines of a page; they are on the disk when this returns."""
        self._write(lines)

    def settle(self, done: Sequence[str], failures: Sequence[Failure]) -> None:
        """Writes the result of the page."""
        left = [{"id": each.id, "reason": each.reason} for each in failures]
        self._write([json.dumps({"done": list(done), "left": left}, ensure_ascii=False)])

    def _write(self, lines: Sequence[str]) -> None:
        block = "".join(line + "\n" for line in lines).encode()
        if _is_packed(self.path):
            block = zstandard.ZstdCompressor().compress(block)
        try:
            self._file.write(block)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StoreError(
                f"log file {self.path}: {error.strerror}: documents that could not be logged were"
                " left as they are"
            ) from error


class LogReader:
    """Reads a log up to its end or to its first damage.

    damage: after `pages`, a message about the part that could not be read, or None. A cut-off last
    line is not damage. Raises UsageError if the file can't be read or is not such a log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        try:
            found = next(self._lines(), None)
        except OSError as error:
            raise UsageError(f"log file {path}: {error.strerror}") from error
        if not isinstance(found, dict) or found.pop("log", None) != _KIND:
            raise UsageError(f"log file {path}: it is not a log of esdedup dedup")
        if found.pop("version", None) != _VERSION:
            raise UsageError(f"log file {path}: it is of another version of esdedup")
        try:
            self.header = RunHeader(**found)
        except TypeError as error:
            raise UsageError(f"log file {path}: its first line is damaged") from error

    def pages(self) -> Iterator[list[Entry]]:
        """Pages of planned documents that were changed, or may have been if the run was killed."""
        planned: list[Entry] = []
        lines = self._lines()
        next(lines)
        for number, found in enumerate(lines, 1):
            try:
                if "done" not in found:
                    planned.append(Entry.from_json(found["planned"]))
                    continue
                done = frozenset(found["done"])
            except (KeyError, TypeError, AttributeError):
                self._damaged(number, "a line is of another form")
                break
            yield [each for each in planned if each.id in done]
            planned = []
        if planned:
            yield planned

    def _damaged(self, read: int, why: object) -> None:
        self.damage = f"log file {self.path}: it is damaged after line {read}: {why}"

    def _lines(self) -> Iterator[Any]:
        read, rest = 0, b""
        with self.path.open("rb") as raw:
            try:
                for block in _unpacked(self.path, raw):
                    # A kill may have cut off the last line.
                    *lines, rest = (rest + block).split(b"\n")
                    for line in lines:
                        yield json.loads(line)
                        read += 1
            except (ValueError, zstandard.ZstdError) as error:
                self._damaged(read, error)


def _unpacked(path: Path, raw: BinaryIO) -> Iterator[bytes]:
    if not _is_packed(path):
        while block := raw.read(_BLOCK):
            yield block
        return
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    while block := raw.read(_BLOCK):
        # Frame by frame, so that nothing before a damaged frame is lost. The last may be cut off.
        while block:
            yield unpacker.decompress(block)
            block = unpacker.unused_data
            if unpacker.eof:
                unpacker = zstandard.ZstdDecompressor().decompressobj()


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".zst"
