"""Files of documents on the command line: their options, checks, and the dead-letter file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from esdedup.cli import options
from esdedup.cli.command import setting
from esdedup.cli.output import count, message
from esdedup.cli.setting_names import with_options
from esdedup.files import (
    MOST_PROCESSES,
    PATH,
    BadRecord,
    Chunk,
    DeadLetterFile,
    Format,
    Reading,
    Record,
    RepeatedIds,
    check_targets,
    dead_letter_path,
    number_of_processes,
    total_bytes,
)

_SHOWN = 5
FORMATS = (
    "JSON lines or an array, CSV, TSV, plain text with one text per line (also .gz, .zst, .bz2,"
    " .xz), Parquet or Arrow; also folders and patterns of one format. - is standard input."
)


@dataclass(frozen=True, kw_only=True)
class FileOptions(options.SchemeOptions):
    """The options of a command that reads files of documents."""

    format: Format | None = setting(
        None, "Format; file: each file is one document.", show_default="by the file's ending"
    )
    encoding: str | None = setting(
        None,
        "Encoding of the files, such as utf-16 or gb18030.",
        show_default="UTF-8",
        metavar="NAME",
    )
    delimiter: str | None = options.delimiter()
    id_field: str | None = setting(
        None,
        "Field with the document's id, or path.",
        show_default="id, else path:line",
        metavar="FIELD",
    )
    dead_letter: Path | None = options.dead_letter(
        show_default="INDEX.dead-letter.jsonl; without an index COMMAND.dead-letter.jsonl"
    )
    workers: int | None = setting(
        None,
        "Processes on this machine.",
        bounds=(1, None),
        show_default=f"one per core for large files, at most {MOST_PROCESSES}",
    )

    def processes(self, files: list[str], cores: int | None = None) -> int:
        """Return the number of processes that read files. cores: None for those of this process."""
        if self.workers is not None:
            return self.workers
        return number_of_processes(total_bytes(files) or 0, cores)

    def named(self, arguments: list[str], columns: Sequence[str] = ()) -> list[str]:
        """Return the files that arguments name. columns: those that each must have, as a table."""
        return self.reading(("text",)).files(arguments, columns)

    def reading(self, text_fields: Sequence[str]) -> Reading:
        """Return how the records are read. text_fields: of these."""
        return Reading(
            self.format, self.encoding, text_fields, self.id_field, delimiter=self.delimiter
        )

    def chunks(
        self,
        files: list[str],
        text_fields: Sequence[str],
        advance: Callable[[int], None],
        columns: Sequence[str] | None = None,
        all_files: list[str] | None = None,
    ) -> Iterator[Chunk]:
        """Return the records of all files in chunks, with the errors of `Reading.chunks`.

        columns: of tables, to read with those of the text and the id; None for all.
        all_files: those whose first records are checked, if `files` are a part of them.
        """
        return self.reading(text_fields).chunks(files, advance, columns, all_files)


def warn_of_records(
    ids: RepeatedIds, without_words: int, placed: int = 0, *, leaves_out: bool = False
) -> None:
    """Warn of records whose id an earlier record had, and of documents without words.

    placed: number of records without an id, whose place is their id.
    leaves_out: whether some records may not have been written, for a policy.
    """
    if placed:
        have = count(placed, "record has no id", "records have no id")
        message(
            f"{have}: it is made from the file and the line; if a field identifies them, name it by"
            f" --id-field, or pass --id-field {PATH} to hide this"
        )
    if ids.first is not None:
        have = count(ids.count, "record has", "records have")
        unless = ", unless it was left out as a near-duplicate" if leaves_out else ""
        message(f"{have} the id of an earlier record, and replaced it{unless}: first {ids.first}")
    if without_words:
        have = count(without_words, "document has", "documents have")
        message(f"{have} no words: only exact copies of these can be found")


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
