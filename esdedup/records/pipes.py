"""Pipes, such as standard input and `<(...)` of a shell, as files that can be read twice."""

import shutil
import stat
from collections.abc import Iterable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import IO

import xxhash

from esdedup.exceptions import UsageError
from esdedup.records.locations import SpooledPipe, is_address, open_file
from esdedup.records.text_files import STDIN, name_of, standard_input


def is_pipe(path: str) -> bool:
    """Return whether a path is standard input, or a pipe with a name, which can be read once."""
    if path == STDIN:
        return True
    if is_address(path):
        return False
    try:
        return stat.S_ISFIFO(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False


def with_spooled_pipes(paths: Iterable[str], folder: Path) -> list[str]:
    """Return paths to read, with a file in a folder in place of each pipe, which is read whole.

    Raises UsageError for a pipe that comes twice.
    """
    spooled = list[str]()
    pipes = set[str]()
    for path in paths:
        if not is_pipe(path):
            spooled.append(path)
            continue
        if path in pipes:
            raise UsageError(f"{path}: name the same pipe, or standard input, only once")
        pipes.add(path)
        spooled.append(_spooled(path, folder / f"pipe-{len(pipes)}"))
    return spooled


def _spooled(pipe: str, file: Path) -> SpooledPipe:
    """Write what a pipe sends to a file, and return that."""
    opened = nullcontext(standard_input()) if pipe == STDIN else closing(open_file(pipe))
    with opened as source, file.open("wb") as out:
        hashed = _HashedFile(out)
        shutil.copyfileobj(source, hashed)
    # The same content resumes a run that was killed.
    return SpooledPipe.of(file, name_of(pipe), hashed.digest.hexdigest())


class _HashedFile:
    """A file to write, and the digest of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.digest = file, xxhash.xxh3_128()

    def write(self, data: bytes) -> int:
        """Write data."""
        self.digest.update(data)
        return self._file.write(data)
