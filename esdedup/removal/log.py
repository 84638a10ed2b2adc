"""A write-ahead log of a run that removes or marks duplicates, from which it can be undone.

Lines of JSON: the run, then for each page of documents the plan, with whole documents, and the
result, which may follow the plans of other pages. The plan of a page is on the disk before any of
its documents is changed, so a killed run can be undone. The last line is a digest of all lines
before it; it is missing if the run was killed or the log is truncated.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import RLock
from types import NoneType
from typing import Any, BinaryIO, Literal, Self

import xxhash
import zstandard

from esdedup.arguments import check_fields
from esdedup.exceptions import StoreError, UsageError, json_fault
from esdedup.models import Document, Failure, StoredDocument
from esdedup.stores.json_text import EXACT, VALUES, exact_json, value_of
from esdedup.stores.private_files import create_private, sync_folder
from esdedup.text.characters import count

Action = Literal["delete", "mark", "move"]
IN_THE_PAST: Mapping[Action, str] = {"delete": "deleted", "mark": "marked", "move": "moved"}

_KIND = "esdedup dedup"
_VERSION, _VERSION_OF_MERGES, _READABLE = 3, 4, (1, 2, 3, 4)
"""Since 3, documents are texts, which hold their JSON byte for byte. Version 4 is that of runs in
which documents that stay take values from their duplicates. A document is restored by its `index`
and `id`; `full_id`, which names both, is that of an id that several indices have."""
_BLOCK = 1 << 20
_COMPRESSED = ".zst"


@dataclass(frozen=True)
class RunHeader:
    """The first line of a log: the run.

    index: the name of the index.
    address: a file, or addresses joined by ", ".
    scheme: id of the index's scheme.
    field: of our tokens.
    action: what happens to the duplicates.
    to: the index that documents were moved to, or None.
    grouping: how duplicates were found.
    began: when, by ISO 8601.
    merge: fields that documents that stay take from their duplicates, by setting; None for none.
    Raises UsageError for a value of another type.
    """

    index: str
    address: str
    scheme: str
    field: str
    action: Action
    to: str | None
    grouping: Mapping[str, object]
    began: str
    merge: Mapping[str, object] | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def in_the_past(self) -> str:
        """The action as done, such as "deleted"."""
        done = IN_THE_PAST[self.action]
        return f"{done} or merged" if self.merge else done

    def line(self) -> str:
        """Return the line of the log."""
        values = asdict(self)
        if not self.merge:
            del values["merge"]
        version = _VERSION_OF_MERGES if self.merge else _VERSION
        return json.dumps({"log": _KIND, "version": version, **values})


@dataclass(frozen=True)
class Entry:
    """A document to change.

    stored: the document as it was read: whole, only its id for one to mark, or to merge into.
    original: the id of its representative, None for a representative.
    value: similarity, or Hamming distance.
    marks: the values to write below our field.
    former: the values that these, or merged ones, replace.
    present: the index to move it to has the same document already, and keeps it when the run is
        undone.
    merged: the fields that a document that stays takes from its duplicates.
    """

    stored: StoredDocument
    original: str | None
    value: float | None
    marks: Mapping[str, object] = field(default_factory=dict)
    former: Mapping[str, object] = field(default_factory=dict)
    present: bool = False
    merged: Mapping[str, object] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The document's id."""
        return self.stored.id

    def line(self) -> str:
        """Return a line of the log. Raises RecordError if JSON can't hold the document."""
        stored = self.stored
        planned: dict[str, object] = {
            "id": stored.id_in_index,
            "version": stored.version,
            "index": stored.index,
            "routing": stored.routing,
        }
        if stored.plain_id is not None:
            planned["full_id"] = self.id
        if stored.number is not None:
            planned["number"] = stored.number
        planned |= {"original": self.original, "value": self.value}
        if self.merged:
            planned |= {"merged": self.merged, "former": self.former}
        elif self.marks:
            planned |= {"marks": self.marks, "former": self.former}
        else:
            planned["source"] = stored.raw or stored.source
        if self.present:
            planned["present"] = True
        return exact_json({"planned": planned}, f"document {self.id!r}")

    @staticmethod
    def from_json(planned: Mapping[str, Any]) -> Entry:
        """The inverse of `line`. Raises KeyError, TypeError or ValueError for another form."""
        id, version = planned["id"], planned["version"]
        index, routing, original = planned["index"], planned["routing"], planned["original"]
        if not all(isinstance(text, str) for text in (id, version)) or not all(
            isinstance(text, str | None) for text in (index, routing, original)
        ):
            raise ValueError("an id, a version or a place is not text")
        full_id = planned.get("full_id", id)
        if not isinstance(full_id, str):
            raise ValueError("an id with its index is not text")
        source, raw = planned.get("source", {}), None
        if isinstance(source, str):
            raw, source = source, value_of(source, VALUES)[0]
        marks, former = planned.get("marks", {}), planned.get("former", {})
        merged = planned.get("merged", {})
        if not all(isinstance(value, dict) for value in (source, marks, former, merged)):
            raise ValueError("a document is not a JSON object")
        number = planned.get("number")
        if type(number) not in (int, NoneType):
            raise ValueError("a number of a version is not whole")
        return Entry(
            StoredDocument(
                Document(full_id, source, raw),
                version,
                index,
                routing,
                number,
                plain_id=None if full_id == id else id,
            ),
            original,
            planned["value"],
            marks,
            former,
            present=planned.get("present") is True,
            merged=merged,
        )


def require_new(path: Path) -> None:
    """Raise UsageError if a log can't be created there, before a search, which takes time."""
    if path.exists():
        raise _unusable(path, errno.EEXIST)
    if not path.parent.is_dir():
        raise _unusable(path, errno.ENOENT)


def _unusable(path: Path, number: int | None) -> UsageError:
    """number: of the error of the system."""
    if number == errno.EEXIST:
        fault = f"{path} exists, and may be needed to restore documents"
    else:
        fault = f"{path}: {os.strerror(number or errno.EIO)}"
    return UsageError(f"log file {fault}: name another (`log`)")


class LogWriter:
    """Writes a new log, which only its owner may read.

    A file whose name ends in .zst is compressed, each page by itself. Raises UsageError if the file
    exists or can't be created, StoreError if it can't be written to.
    """

    def __init__(self, path: Path, header: RunHeader) -> None:
        self.path = path
        self._digest = xxhash.xxh3_128()
        self._fault = ""
        self._is_whole = True
        self._lock = RLock()
        try:
            self._file = create_private(path)
        except OSError as error:
            raise _unusable(path, error.errno) from error
        try:
            self.append([header.line()])
        except StoreError:
            # Nothing was changed, and nothing can be read from this file.
            self._file.close()
            path.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the end, also after an error or Ctrl-C, and close the file."""
        with self._file, self._lock:
            if kind is None:
                self.append([self._end()])
            elif issubclass(kind, (Exception, KeyboardInterrupt)) and self._is_whole:
                with suppress(OSError):
                    self._write(f"{self._end()}\n".encode())
            # After Ctrl-C, threads may be about to write more.
            self._fault = f"log file {self.path}: the run has ended"

    def settle(self, ids: Sequence[str], failures: Sequence[Failure]) -> None:
        """Write the result of a page.

        ids: of the documents that were changed. failures: the others, with the reason. Those that
        are unsure are logged as changed too, so that an undo restores them.
        """
        done = [*ids, *(failure.id for failure in failures if failure.unsure)]
        unchanged = [{"id": failure.id, "reason": failure.reason} for failure in failures]
        self.append([json.dumps({"done": done, "left": unchanged}, ensure_ascii=False)])

    def _end(self) -> str:
        return json.dumps({"end": self._digest.hexdigest()})

    def append(self, lines: Sequence[str]) -> None:
        """Write lines, such as the plan of a page; they are on the disk when this returns.

        Several threads may write. Raises StoreError after the end of the run, or a failure.
        """
        block = "".join(line + "\n" for line in lines).encode()
        with self._lock:
            if not self._fault and not self._is_whole:
                # Ctrl-C interrupted a thread that wrote it. No line after it could be read.
                self._fault = f"log file {self.path}: its last line is not whole"
            if self._fault:
                raise StoreError(self._fault)
            try:
                self._write(block)
            except OSError as error:
                self._fault = (
                    f"log file {self.path}: {error.strerror}: documents that could not be logged"
                    " are unchanged"
                )
                raise StoreError(self._fault) from error

    def _write(self, block: bytes) -> None:
        """Write whole lines to the disk. Raises OSError, and leaves no line that is not whole.

        On a full disk, the end of the log still fits then, which shows that nothing follows.
        """
        data = block
        if self.path.suffix.lower() == _COMPRESSED:
            data = zstandard.ZstdCompressor(write_checksum=True).compress(block)
        size = self._file.tell()
        self._is_whole = False
        try:
            unwritten = memoryview(data)
            while unwritten:
                unwritten = unwritten[self._file.write(unwritten) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(size)
            self._file.seek(size)
            self._is_whole = True
            raise
        self._is_whole = True
        self._digest.update(block)


class LogReader:
    """Reads a log up to its end or its first damage.

    header: the run.
    damage: after `pages`, a message about the part that could not be read, or None. A log without
        an end is damaged.
    unsettled: after `pages`, the last page, if the run ended before it logged the result: any of
        these documents may be unchanged.
    removed_from: the indices that documents were deleted or moved from; read unless `pages` was.
    Raises UsageError if the file can't be read or is no such log, StoreError if its first line is
    damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage: str | None = None
        self.unsettled: list[Entry] = []
        self._fault: str | None = None
        self._removed_from: frozenset[str] | None = None
        self._digest = xxhash.xxh3_128()
        try:
            header = next(self._lines(), None)
        except OSError as error:
            raise UsageError(f"log file {path}: {error.strerror}") from error
        if header is None:
            raise StoreError(
                f"log file {path}: its first line can't be read: it is truncated, or not a log of"
                " esdedup dedup"
            )
        if not isinstance(header, dict) or header.pop("log", None) != _KIND:
            raise UsageError(f"log file {path} is not a log of esdedup dedup")
        if header.pop("version", None) not in _READABLE:
            raise UsageError(f"log file {path} is of another version of esdedup")
        try:
            self.header = RunHeader(**header)
        except (TypeError, UsageError) as error:
            raise StoreError(f"log file {path}: its first line is damaged: {error}") from error

    @property
    def removed_from(self) -> frozenset[str]:
        if self._removed_from is None:
            for _ in self.pages():
                pass
        return self._removed_from or frozenset()

    def pages(self) -> Iterator[list[Entry]]:
        """Yield pages of documents that were changed, or may have been if the run was killed."""
        removed_from = set[str]()
        for page in self._pages():
            if self.header.action != "mark":
                removed = (entry.stored for entry in page if not entry.merged)
                removed_from.update(stored.index for stored in removed if stored.index is not None)
            yield page
        self._removed_from = frozenset(removed_from)

    def _pages(self) -> Iterator[list[Entry]]:
        planned: dict[str, Entry] = {}
        self.unsettled = []
        documents_read, ended = 0, False
        lines = self._lines()
        next(lines)
        for number, line in enumerate(lines, 1):
            try:
                if ended:
                    raise ValueError("it follows the end")
                if "end" in line:
                    ended = True
                    if line["end"] != self._digest.hexdigest():
                        raise ValueError("an earlier line has changed")
                    continue
                if "done" not in line:
                    entry = Entry.from_json(line["planned"])
                    planned[entry.id] = entry
                    documents_read += 1
                    continue
                settled = [planned.pop(id, None) for id in line["done"]]
                for unchanged in line["left"]:
                    planned.pop(unchanged["id"], None)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                # The messages of the other errors are Python's.
                why = f": {error}" if isinstance(error, ValueError) else ""
                self._damaged(number, f"a line of another form{why}")
                break
            yield [entry for entry in settled if entry is not None]
        if planned:
            self.unsettled = [*planned.values()]
            yield self.unsettled
        if not ended and self._fault is None:
            self._fault = "it has no end: the run was killed, or the log is truncated"
        if self._fault is not None:
            records = count(documents_read, "record")
            self.damage = f"log file {self.path}: {self._fault}. {records} could be read"

    def _damaged(self, lines_read: int, why: object) -> None:
        self._fault = f"it is damaged after line {lines_read}: {why}"

    def _lines(self) -> Iterator[Any]:
        """Yield the lines; meanwhile the digest is that of all lines before the yielded one."""
        self._fault, self._digest = None, xxhash.xxh3_128()
        lines_read, partial_line = 0, b""
        with self.path.open("rb") as raw:
            try:
                for block in _decompressed(self.path, raw):
                    # The last line of a killed run may be incomplete.
                    *lines, partial_line = (partial_line + block).split(b"\n")
                    for line in lines:
                        yield _parsed(line)
                        self._digest.update(line + b"\n")
                        lines_read += 1
            except (ValueError, RecursionError, zstandard.ZstdError) as error:
                self._damaged(lines_read, json_fault(error))


def _parsed(line: bytes) -> object:
    """Parse a line of a log. Numbers that a document took, or had before, keep their digits."""
    value = json.loads(line)
    planned = value.get("planned") if isinstance(value, dict) else None
    is_merge = isinstance(planned, dict) and "merged" in planned
    return EXACT.decode(line.decode()) if is_merge else value


def _decompressed(path: Path, raw: BinaryIO) -> Iterator[bytes]:
    """Yield the content of a log in blocks."""
    # A page is a frame of its own: each before a damaged one is read whole.
    frame = None
    while block := raw.read(_BLOCK):
        if path.suffix.lower() != _COMPRESSED:
            yield block
            continue
        while block:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(block)
            block = frame.unused_data
            if frame.eof:
                frame = None
