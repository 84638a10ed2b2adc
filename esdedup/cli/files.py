"""Files of documents on the command line: their options, checks, and the dead-letter file."""

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from esdedup import UsageError
from esdedup.cli import options
from esdedup.cli.command import setting
from esdedup.cli.output import count, message
from esdedup.cli.setting_names import with_options
from esdedup.records.dead_letters import DeadLetterFile, dead_letter_path
from esdedup.records.documents import PATH, RepeatedIds
from esdedup.records.files import BadRecord, Chunk, Format, Record, check_file, chunks_of_files
from esdedup.records.locations import look_up
from esdedup.records.paths import files_named
from esdedup.records.streams import STDIN, check_encoding
from esdedup.records.targets import check_targets
from esdedup.stores.fields import quoted, value_at

_SHOWN = 5
_NAMES = 20
FORMATS = (
    "JSON lines or an array, CSV, TSV, plain text with one text a line (also .gz, .zst), Parquet or"
    " Arrow; also folders and patterns of one format. - is standard input."
)
_MOST_PROCESSES, _BYTES_OF_PROCESS = 4, 1 << 24
"""A process starts in 0.2 s, in which another one sketches some 2 MB."""
_ENOUGH = 1_000
"""Records without a text, after which the name of the field must be wrong."""


def total_bytes(files: list[str]) -> int | None:
    """Return the size of the files, or None if that of one is not known."""
    entries = [None if file == STDIN else look_up(file) for file in files]
    sizes = [entry.size for entry in entries if entry is not None and entry.size is not None]
    return sum(sizes) if len(sizes) == len(files) else None


@dataclass(frozen=True, kw_only=True)
class FileOptions(options.SchemeOptions):
    """The options of a command that reads files of documents."""

    format: Format | None = setting(
        None, "Format; file: each file is one document.", show_default="by the file's ending"
    )
    encoding: str | None = setting(
        None, "Encoding of the files, such as utf-16 or gb18030.", show_default="UTF-8"
    )
    id_field: str | None = setting(
        None, "Field with the document's id, or path.", show_default="id, else path:line"
    )
    dead_letter: Path | None = options.dead_letter()
    workers: int | None = setting(
        None,
        "Processes on this machine.",
        bounds=(1, None),
        show_default=f"one a core for large files, at most {_MOST_PROCESSES}",
    )

    def processes(self, files: list[str], cores: int | None = None) -> int:
        """Return the number of processes that read files. cores: None for those of this process."""
        if self.workers is not None:
            return self.workers
        if cores is None:
            cores = os.cpu_count() or 1
            if hasattr(os, "sched_getaffinity"):
                cores = len(os.sched_getaffinity(0))
        return max(1, min(_MOST_PROCESSES, cores, (total_bytes(files) or 0) // _BYTES_OF_PROCESS))

    def named(self, arguments: list[str], columns: Sequence[str] = ()) -> list[str]:
        """Return the files that arguments name. columns: those that each must have, as a table."""
        check_encoding(self.encoding)
        files, left_out = files_named(arguments, self.format)
        for file in files:
            check_file(file, self.format, self.encoding, columns)
        if left_out:
            files_are = count(len(left_out), "file is", "files are")
            message(f"{files_are} skipped, a link or of unknown ending: first {left_out[0]}")
        return files

    def chunks(
        self,
        files: list[str],
        text_fields: Sequence[str],
        advance: Callable[[int], None],
        columns: Sequence[str] | None = None,
        all_files: list[str] | None = None,
    ) -> Iterator[Chunk]:
        """Return the records of all files in chunks, with the errors of `checked`.

        columns: of tables, to read with those of the text and the id; None for all.
        all_files: those whose first records are checked, if `files` are a part of them.
        """
        if columns is not None:
            columns = [*text_fields, self.id_field or "id", *columns]
        chunks = chunks_of_files(files, self.format, advance, self.encoding, columns)
        if all_files is None or all_files == files:
            return checked(chunks, text_fields, self.id_field)
        self.chunks(all_files, text_fields, lambda _: None, columns)
        return chunks


def warn_of_records(ids: RepeatedIds, without_words: int, placed: int = 0) -> None:
    """Warn of records whose id an earlier record had, and of documents without words.

    placed: number of records without an id, whose place is their id.
    """
    if placed:
        have = count(placed, "record has no id", "records have no id")
        message(
            f"{have}: it is made from the file and the line; if a field identifies them, name it by"
            f" --id-field, or pass --id-field {PATH} to hide this"
        )
    if ids.first is not None:
        have = count(ids.count, "record has", "records have")
        message(f"{have} the id of an earlier record, and replaced it: first {ids.first}")
    if without_words:
        have = count(without_words, "document has", "documents have")
        message(f"{have} no words: only exact copies of these can be found")


def checked(
    chunks: Iterator[Chunk], text_fields: Sequence[str], id_field: str | None
) -> Iterator[Chunk]:
    """Return the same chunks after a check of the names of fields by the first records."""
    begun: list[Chunk] = []
    names: dict[str, None] = {}
    # Without a field of this name, the id is the path and the line.
    missing = {*text_fields, *([id_field] if id_field and id_field != PATH else [])}
    read = 0

    def records() -> Iterator[Record]:
        for chunk in chunks:
            begun.append(chunk)
            names.update(dict.fromkeys(chunk.fields))
            yield from (record for record in chunk.records() if isinstance(record, Record))

    for record in itertools.islice(records(), _ENOUGH):
        read += 1
        missing = {name for name in missing if value_at(record.source, name) is None}
        if not missing:
            break
        names |= dict.fromkeys(record.source)
    if read and missing:
        listed = ", ".join(itertools.islice(names, _NAMES)) + (", ..." * (len(names) > _NAMES))
        present = f"There are: {listed or 'none'}"
        lacking = f"one of the first {count(read, 'record')} has"
        texts = [name for name in text_fields if name in missing]
        if len(texts) == len(text_fields):
            advice = "name the field of the text (--text-field), or of fingerprints (--bits)"
            raise UsageError(f"n{lacking} {quoted(texts)}; {advice}. {present}")
        if id_field in missing:
            raise UsageError(
                f"n{lacking} the id field {id_field!r}; name it by --id-field. {present}"
            )
        message(f"N{lacking} {quoted(texts)}. {present}")
    return itertools.chain(begun, chunks)


class Reasons:
    """Report why records were skipped, for the first few. last: the message after these."""

    def __init__(self, last: str) -> None:
        self.count, self._last = 0, last

    def show(self, record: Record | BadRecord, reason: str) -> None:
        """Report the reason of the next record."""
        self.count += 1
        if self.count <= _SHOWN + 1:
            shown = f"{record.file}:{record.line}: {reason}"
            message(shown if self.count <= _SHOWN else self._last)


def dead_letters(
    path: Path | None,
    index: str,
    inputs: Iterable[str] = (),
    outputs: Mapping[str, Sequence[str | None]] = MappingProxyType({}),
) -> DeadLetterFile:
    """Return a dead-letter file, by default that of an index, that shows the first reasons.

    inputs, outputs: the files that the command reads, and those that it writes too, as of
    `check_targets`. Raises UsageError if a file to write is read too, or has two uses.
    """
    path = path or dead_letter_path(index)
    check_targets({**outputs, "--dead-letter": [str(path)]}, inputs)
    reasons = Reasons(f"... more in {path}")
    return DeadLetterFile(path, lambda record: reasons.show(record, record.reason), with_options)
