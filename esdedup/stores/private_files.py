"""Write files that only their owner may read, under safe names, as a whole or not at all."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal, TextIO

import xxhash

from esdedup.exceptions import StoreError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MOST_BYTES = 150
"""The longest part of a file's name; systems allow 255 bytes for a whole one."""


_open_private = partial(os.open, mode=0o600)


def open_private(path: Path, mode: Literal["a", "w"], errors: str) -> TextIO:
    """Open a file of UTF-8; a new one gets mode 0600, an existing one keeps its own.

    mode, errors: as of `open`.
    """
    return open(path, mode, opener=_open_private, encoding="utf-8", errors=errors)


def create_private(path: Path) -> io.FileIO:
    """Create a file of bytes with mode 0600, unbuffered. Raises FileExistsError."""
    return io.FileIO(path, "xb", opener=_open_private)


class _Written(io.BufferedWriter):
    """A file to write, whose errors differ from those of a file that is read meanwhile.

    target: its name when it is whole.
    """

    target: Path

    def write(self, data: Buffer) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise StoreError(f"{self.target}: {error.strerror or error}") from error


@contextmanager
def written_whole(
    path: Path, mode_of: Path | None = None, *, sync: bool = True
) -> Iterator[IO[bytes]]:
    """Open a private file to write, which gets its name when all of it is on the disk.

    mode_of: a file whose permissions it gets; by default those of the one that it replaces. sync:
    if False, `os.sync` must follow, which takes less time for many files. Raises StoreError if it
    can't be written.
    """
    beside = path.with_name(f".{path.name}.tmp")
    try:
        beside.unlink(missing_ok=True)
        with _Written(create_private(beside)) as file:
            file.target = path
            if (like := mode_of or path).exists():
                shutil.copymode(like, beside)
            yield file
            file.flush()
            if sync:
                os.fsync(file.fileno())
        beside.replace(path)
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink()


def sync_folder(folder: Path) -> None:
    """Make the names of new files durable, on systems that can."""
    if hasattr(os, "O_DIRECTORY"):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def file_name(text: str) -> str:
    """Return a text, such as the name of an index, as a part of a file's name.

    Characters that lead to other folders, or hide the file, are percent-encoded, and the end of a
    long text becomes a hash. Different texts have different names.
    """
    name = re.sub(r"^\.|[^\w.,=@+~ -]", _percent_encoded, text)
    if len(name.encode()) <= _MOST_BYTES:
        return name
    start = name.encode()[: _MOST_BYTES - 17].decode(errors="ignore")
    return f"{start}-{xxhash.xxh3_64_hexdigest(name.encode())}"


def _percent_encoded(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
