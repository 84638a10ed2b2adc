"""The file of records that were not indexed, with the reason of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Self, TextIO

from esdedup.cli.output import message
from esdedup.exceptions import StoreError
from esdedup.ingest.files import BadRecord

_SHOWN = 5


class DeadLetterFile:
    """Appends bad records as JSON lines; made when the first one comes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __call__(self, record: BadRecord) -> None:
        line = {
            "file": record.file,
            "line": record.line,
            "reason": record.reason,
            "record": record.raw,
        }
        try:
            if self._file is None:
                self._file = self.path.open("a", encoding="utf-8", errors="backslashreplace")
            self._file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._file.flush()
        except OSError as error:
            raise StoreError(f"dead-letter file {self.path}: {error.strerror}") from error
        self.count += 1
        if self.count <= _SHOWN:
            message(f"{record.file}:{record.line}: {record.reason}")
        elif self.count == _SHOWN + 1:
            message(f"... more in {self.path}")
