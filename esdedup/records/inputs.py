"""The files that a job reads: which they are, how large, and whether they have the named fields."""

import itertools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from esdedup.exceptions import UsageError
from esdedup.records.documents import PATH
from esdedup.records.files import (
    Chunk,
    Delimited,
    Format,
    Record,
    check_file,
    chunks_of_files,
)
from esdedup.records.locations import look_up
from esdedup.records.paths import files_named
from esdedup.records.text_files import STDIN, check_encoding
from esdedup.stores.fields import quoted, text_at, value_at
from esdedup.text.characters import count

_NAMES = 20
_ENOUGH = 1_000
"""Records without a text, after which the name of the field must be wrong."""

log = logging.getLogger("esdedup")


def total_bytes(files: Sequence[str]) -> int | None:
    """Return the size of the files, or None if that of one is not known."""
    entries = [None if file == STDIN else look_up(file) for file in files]
    sizes = [entry.size for entry in entries if entry is not None and entry.size is not None]
    return sum(sizes) if len(sizes) == len(files) else None


def files_to_read(
    arguments: Sequence[str],
    format: Format | None,
    encoding: str | None,
    columns: Sequence[str] = (),
) -> list[str]:
    """Return the files that arguments name, with a warning of those that are skipped.

    columns: those that each file must have, as a table. Raises UsageError for a file that can't be
    read.
    """
    check_encoding(encoding)
    files, left_out = files_named(arguments, format)
    for file in files:
        check_file(file, format, encoding, columns)
    if left_out:
        files_are = count(len(left_out), "file is", "files are")
        log.warning(
            "%s skipped, a link or of unknown ending: first %s. If each file is one document, name"
            " `format` file",
            files_are,
            left_out[0],
        )
    return files


@dataclass(frozen=True)
class Reading:
    """How the records of files are read.

    format: of all files, or None to read it from their names.
    encoding: of all files, or None to detect it.
    text_fields: of the records.
    id_field: of the records, or None.
    advice: what to do if no record has a text.
    delimiter: of CSV files, one character; None for a comma.
    """

    format: Format | None = None
    encoding: str | None = None
    text_fields: Sequence[str] = ("text",)
    id_field: str | None = None
    advice: str = (
        "name the field of the text (`text_field`), of fingerprints (`bits`), or of vectors"
        " (`vectors`)"
    )
    delimiter: str | None = None

    @property
    def file_format(self) -> Format | Delimited | None:
        """The format of all files, with their delimiter, or None to go by their names."""
        if self.delimiter is None:
            return self.format
        return Delimited.named(self.delimiter, self.format)

    def files(self, arguments: Sequence[str], columns: Sequence[str] = ()) -> list[str]:
        """Return the files that arguments name, as `files_to_read`.

        Raises UsageError, also for a delimiter that can't be one.
        """
        _ = self.file_format
        return files_to_read(arguments, self.format, self.encoding, columns)

    def chunks(
        self,
        files: Sequence[str],
        advance: Callable[[int], None] = lambda _: None,
        columns: Sequence[str] | None = None,
        all_files: Sequence[str] | None = None,
    ) -> Iterator[Chunk]:
        """Return the records of all files in chunks, after a check of the names of fields.

        advance: called with the number of bytes that were read.
        columns: of tables, to read with those of the text and the id; None for all.
        all_files: those whose first records are checked, if `files` are a part of them.
        """
        if columns is not None:
            columns = [*self.text_fields, self.id_field or "id", *columns]
        chunks = chunks_of_files([*files], self.file_format, advance, self.encoding, columns)
        if all_files is None or [*all_files] == [*files]:
            return with_checked_fields(chunks, self.text_fields, self.id_field, self.advice)
        self.chunks(all_files, columns=columns)
        return chunks

    def texts(
        self, files: Sequence[str], advance: Callable[[int], None] = lambda _: None
    ) -> Iterator[str | None]:
        """Yield the text of each record of files, None for one without.

        advance: called with the number of bytes that were read.
        """
        for chunk in self.chunks(files, advance, columns=()):
            for record in chunk.records():
                yield (
                    text_at(record.source, self.text_fields) if isinstance(record, Record) else None
                )


def with_checked_fields(
    chunks: Iterator[Chunk], text_fields: Sequence[str], id_field: str | None, advice: str
) -> Iterator[Chunk]:
    """Return the same chunks after a check of the names of fields by the first records.

    advice: how to name the field of the text.
    """
    begun: list[Chunk] = []
    names: dict[str, None] = {}
    # Without a field of this name, the id is the path and the line.
    missing = {*text_fields, *([id_field] if id_field and id_field != PATH else [])}
    read, files = 0, dict[str, None]()

    def records() -> Iterator[Record]:
        for chunk in chunks:
            begun.append(chunk)
            names.update(dict.fromkeys(chunk.fields))
            yield from (record for record in chunk.records() if isinstance(record, Record))

    for record in itertools.islice(records(), _ENOUGH):
        read += 1
        files[record.file] = None
        missing = {name for name in missing if value_at(record.source, name) is None}
        if not missing:
            break
        names |= dict.fromkeys(record.source)
    if read and missing:
        listed = ", ".join(itertools.islice(names, _NAMES)) + (", ..." * (len(names) > _NAMES))
        present = f"There are: {listed or 'none'}"
        if any(mark in name for name in names for mark in ";|\t"):
            present += ". The files may have another `delimiter` than a comma"
        first, *others = files
        among = first if not others else f"{first} and {count(len(others), 'more file')}"
        lacking = f"one of the first {count(read, 'record')} has"
        texts = [name for name in text_fields if name in missing]
        if len(texts) == len(text_fields):
            raise UsageError(f"{among}: n{lacking} {quoted(texts)}; {advice}. {present}")
        if id_field in missing:
            raise UsageError(
                f"{among}: n{lacking} the id field {id_field!r}; name it by `id_field`. {present}"
            )
        log.warning("%s: n%s %s. %s", among, lacking, quoted(texts), present)
    return itertools.chain(begun, chunks)
