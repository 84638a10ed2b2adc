"""Arrays mapped from temporary files, which the system can drop from memory and read again."""

import math
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import StoreError

Scalar = TypeVar("Scalar", bound=np.generic)
DType = type[Scalar] | np.dtype[Scalar]


def mapped(folder: Path, arrays: Iterable[NDArray[Scalar]]) -> NDArray[Scalar]:
    """Return arrays joined to one, at least one array, mapped from a temporary file.

    Raises StoreError if they can't be written.
    """
    with _temporary(folder) as file:
        rows = 0
        for array in arrays:
            file.write(np.ascontiguousarray(array).data)
            rows += len(array)
        file.flush()
        return _of_file(file, (rows, *array.shape[1:]), array.dtype)


def mapped_zeros(folder: Path, shape: tuple[int, ...], dtype: DType[Scalar]) -> NDArray[Scalar]:
    """Return zeros mapped from a temporary file. Raises StoreError if the disk has no room."""
    with _temporary(folder) as file:
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size and hasattr(os, "posix_fallocate"):
            # Else a full disk ends the process when a page is written.
            os.posix_fallocate(file.fileno(), 0, size)
        return _of_file(file, shape, dtype)


def release(*arrays: NDArray[np.generic]) -> None:
    """Drop the pages of mapped arrays from the memory of the process; the files keep them.

    Other arrays stay. Pages that are read again are mapped again.
    """
    for array in arrays:
        base: object = array
        while isinstance(base, np.ndarray):
            base = base.base
        # Windows has no such call, and drops pages when memory gets short.
        if isinstance(base, mmap.mmap) and hasattr(base, "madvise"):
            base.madvise(mmap.MADV_DONTNEED)


def _of_file(file: IO[bytes], shape: tuple[int, ...], dtype: DType[Scalar]) -> NDArray[Scalar]:
    # An empty file can't be mapped.
    return np.memmap(file, dtype, "r+", shape=shape) if all(shape) else np.empty(shape, dtype)


@contextmanager
def _temporary(folder: Path) -> Iterator[IO[bytes]]:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            yield file
    except OSError as error:
        raise StoreError(f"work folder {folder}: {error.strerror or error}") from error
