"""Keep the records that can't be used, with the reasons, in a file of JSON lines."""

import json
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from esdedup.exceptions import StoreError, UsageError
from esdedup.records.files import BadRecord
from esdedup.stores.private_files import file_name, open_private

DeadLetter = Callable[[BadRecord], None]
_BEGIN = b'{"file": "'


def dead_letter_path(index: str) -> Path:
    """Return the default dead-letter file of an index, in the current folder."""
    return Path(f"{file_name(index)}.dead-letter.jsonl")


class DeadLetterFile(ExitStack):
    """Appends bad records to a file, which is created for the first one.

    on_record: called after each record is written.
    shown: returns a reason as the file has it, such as with options in place of settings.

    Raises UsageError if the file has other content, StoreError if it can't be written.
    """

    def __init__(
        self,
        path: Path,
        on_record: DeadLetter,
        shown: Callable[[str], str] = lambda reason: reason,
    ) -> None:
        super().__init__()
        begin = b""
        if path.is_file():
            with suppress(OSError), path.open("rb") as file:
                begin = file.read(len(_BEGIN))
        if begin not in (b"", _BEGIN):
            raise UsageError(f"dead-letter file {path} holds something else: name another")
        self.path = path
        self._on_record, self._shown = on_record, shown
        self._file: IO[str] | None = None

    def reject(self, id: str, reason: str) -> None:
        """Append a document of the index that can't be written."""
        self(BadRecord(id, 0, "", reason))

    def __call__(self, record: BadRecord) -> None:
        where = {"file": record.file, "line": record.line}
        line = {**where, "reason": self._shown(record.reason), "record": record.raw}
        try:
            if self._file is None:
                opened = open_private(self.path, "a", errors="backslashreplace")
                self._file = self.enter_context(opened)
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise StoreError(f"dead-letter file {self.path}: {error.strerror}") from error
        self._on_record(record)
