"""Find the files that an argument names: one path, a pattern, or a folder of one format."""

import glob
import itertools
import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, NoReturn

from esdedup.exceptions import UsageError
from esdedup.models import natural
from esdedup.records.files import Format, format_of
from esdedup.records.streams import STDIN, path_of, reached

ABOUT = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
"""Files of the library `datasets` that describe the documents, and hold none."""


def files_named(
    arguments: Sequence[str], format: Format | None = None
) -> tuple[list[str], list[str]]:
    """Return the files that arguments name, and the files of folders that have no known ending.

    A pattern such as "data/*.parquet" (also "**") and a folder stand for files in natural order of
    names, without those that hold no data (`_is_data`). format: of all files, None to go by their
    endings. Raises UsageError for an argument without files, a folder with several formats, an
    unknown ending, and a file that is named twice.
    """
    files: list[str] = []
    left_out: list[str] = []
    for path in itertools.chain.from_iterable(_matching(each, format) for each in arguments):
        if path != STDIN and "://" not in path and Path(path).is_dir():
            files += _in_folder(path, format, left_out)
        else:
            files.append(path)
    seen: set[str] = set()
    for path in files:
        real = path if path == STDIN or "://" in path else str(Path(path).resolve())
        if real in seen:
            raise UsageError(f"{path}: name the same file, or standard input, only once")
        seen.add(real)
        if format is None:
            format_of(path)
    return files, sorted(left_out)


def _matching(argument: str, format: Format | None) -> list[str]:
    """Return the path that an argument is, or the files that it matches as a pattern."""
    if "://" in argument:
        return _at_address(argument, format)
    # `Path.glob` accepts no absolute patterns, and yields hidden files.
    if argument == STDIN or glob.glob(glob.escape(argument)):  # noqa: PTH207
        return [argument]
    found = glob.glob(argument, recursive=True)  # noqa: PTH207
    found = [path for path in found if Path(path).is_file() and _is_data(path, format)]
    return sorted(found, key=_in_order) or _none(argument)


def _at_address(address: str, format: Format | None) -> list[str]:
    """Return the files of a folder or a pattern at an address, or the address of a file."""
    with reached(address):
        fs, inside = (found := path_of(address)).fs, found.path
        if glob.has_magic(inside):
            paths = fs.glob(inside)
        elif address.endswith("/") or (not address.startswith("http") and fs.isdir(inside)):
            paths = fs.find(inside)
        else:
            return [address] if fs.exists(inside) else _none(address)
        scheme = address.partition("://")[0]  # A file system may have several: s3 and s3a.
        every = [fs.unstrip_protocol(each) for each in paths if _is_data(each, format)]
        named = [f"{scheme}://{each.partition('://')[2]}" for each in every]
        return sorted(named, key=_in_order) or _none(address)


def _none(argument: str) -> NoReturn:
    raise UsageError(f"{argument[:200]}: there is no such file")


def _in_order(path: str) -> list[Any]:
    """Return a key of natural order: "a2/x" before "a10/x"."""
    return [natural(part) for part in PurePath(path).parts]


def _in_folder(folder: str, format: Format | None, left_out: list[str]) -> list[str]:
    """Return the files of a folder. Add those without a known ending, and links, to left_out."""

    def fail(error: OSError) -> None:
        raise UsageError(f"{error.filename}: {error.strerror}") from error

    formats: dict[Format, list[str]] = {}
    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = (each for each in folders if _is_data(each, format))
        # Links may lead back to where they are.
        left_out += filter(os.path.islink, (str(PurePath(parent, name)) for name in folders))
        for name in names:
            if not _is_data(name, format):
                continue
            path = str(PurePath(parent, name))
            try:
                formats.setdefault(format or format_of(path), []).append(path)
            except UsageError:
                left_out.append(path)
    if not formats:
        raise UsageError(f"{folder}: the folder has no files of a known format")
    if len(formats) > 1:
        some = " and ".join(f"{kind} ({min(paths)})" for kind, paths in formats.items())
        raise UsageError(f"{folder}: it holds files of several formats, {some}: name one kind")
    return sorted(*formats.values(), key=_in_order)


def _is_data(path: str, format: Format | None) -> bool:
    """Return whether a file holds data; programs such as Spark put other files beside it."""
    name = PurePath(path).name
    if format == "file":
        # Any name may be that of a text; one is that of a list of ours.
        return not name.startswith((".", "_removed."))
    about = name in ABOUT or name.partition(".")[0].upper() == "README"
    cache = name.startswith("cache-") and name.endswith(".arrow")
    ending = (".crc", ".dead-letter.jsonl")
    return not (about or cache or name.startswith((".", "_")) or name.endswith(ending))
