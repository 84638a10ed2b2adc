"""Files that hold the results of a command (--output): Parquet, Arrow or JSON lines."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from esdedup.arguments import setting
from esdedup.cli.output import check_page
from esdedup.exceptions import StoreError, UsageError
from esdedup.stores.private_files import open_private, sync_folder
from esdedup.tabular import TableFormat, require_pyarrow, write_table
from esdedup.text.characters import JSON_ESCAPES

_ROWS_AT_ONCE = 1 << 16
_FORMATS: dict[str, TableFormat | None] = {".parquet": "parquet", ".arrow": "arrow", ".jsonl": None}


@dataclass(frozen=True)
class ResultFile:
    """The option that names a file for the results, in place of standard output."""

    output: Path | None = setting(
        None, "Write the results to this file: .parquet, .arrow or .jsonl.", "-o"
    )

    def check(self, inputs: Iterable[str] = ()) -> None:
        """Raise UsageError if the file can't be written, before any work.

        inputs: files that the command reads.
        """
        if (path := self.output) is None:
            return
        check_page("--output", path)
        if _format_of(path) is not None:
            require_pyarrow()
        if path.exists() and not path.is_file():
            raise UsageError(f"--output {path}: it is not a plain file")
        if path.resolve() in [Path(each).resolve() for each in inputs]:
            raise UsageError(f"--output {path}: the command reads this file: name another")


def write_rows(path: Path, columns: Mapping[str, type], rows: Iterable[tuple[Any, ...]]) -> int:
    """Write rows to a file as a whole, and return their number.

    They are written to a file beside it, which replaces it at the end. A new file is readable
    by its owner only. columns: types by names: str, float, int or bool. Raises StoreError if the
    file can't be written; an existing one stays as it is then.
    """
    path = path.resolve()
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    written = 0

    def batches() -> Iterable[Sequence[tuple[Any, ...]]]:
        nonlocal written
        waiting = iter(rows)
        while some := list(itertools.islice(waiting, _ROWS_AT_ONCE)):
            written += len(some)
            yield some

    try:
        try:
            with open_private(beside, "xb") as file:
                if path.exists():
                    shutil.copymode(path, beside)
                _write(file, _format_of(path), columns, batches())
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
            sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise
    except OSError as error:
        raise StoreError(f"--output {path}: {error.strerror or error}") from error
    return written


def _write(
    file: IO[bytes],
    kind: TableFormat | None,
    columns: Mapping[str, type],
    batches: Iterable[Sequence[tuple[Any, ...]]],
) -> None:
    if kind is not None:
        write_table(file, kind, columns, batches)
        return
    encode = json.JSONEncoder(ensure_ascii=False).encode
    for rows in batches:
        lines = (encode(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
        file.write("".join(lines).translate(JSON_ESCAPES).encode())


def _format_of(path: Path) -> TableFormat | None:
    """Return the format by the ending of the name, None for JSON lines."""
    if (suffix := path.suffix.lower()) not in _FORMATS:
        raise UsageError(f"--output {path}: end the name in .parquet, .arrow or .jsonl")
    return _FORMATS[suffix]
