"""Files that only their owner may read, because they hold documents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any


def open_private(path: Path, mode: str, *, follow: bool = True, **options: Any) -> IO[Any]:
    """Opens a file as `open` does; a new one gets mode 0600, an existing one keeps its own.

    follow: False raises OSError for a symbolic link. options: those of `open`.
    """
    more = getattr(os, "O_CLOEXEC", 0) | (0 if follow else getattr(os, "O_NOFOLLOW", 0))

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | more, 0o600)

    return open(path, mode, opener=opener, **options)
