"""Write files that only their owner may read, under safe names."""

import os
import re
from functools import partial
from pathlib import Path
from typing import IO, Any

import xxhash

_MOST_BYTES = 150
"""The longest part of a file's name; systems allow 255 bytes for a whole one."""


def open_private(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open a file as `open` does; a new one gets mode 0600, an existing one keeps its own."""
    return open(path, mode, opener=partial(os.open, mode=0o600), **options)


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
    kept = name.encode()[: _MOST_BYTES - 17].decode(errors="ignore")
    return f"{kept}-{xxhash.xxh3_64_hexdigest(name.encode())}"


def _percent_encoded(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))
