"""Find the files that an argument names: one path, a pattern, or a folder of one format."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from esdedup.exceptions import UsageError
from esdedup.models import natural
from esdedup.records.files import Format, format_of
from esdedup.records.locations import is_address, is_http, listed, look_up
from esdedup.records.text_files import COMPRESSED, STDIN

ABOUT = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json", "state.json")
"""Files of the library `datasets` that describe the documents, and hold none."""


def files_named(
    arguments: Sequence[str], format: Format | None = None
) -> tuple[list[str], list[str]]:
    """Return the files that arguments name, and the files of folders that have no known ending.

    A pattern such as "data/*.parquet" (also "**") and a folder stand for files in natural order of
    names, without those that hold no data (`is_data`).

    format: of all files, None to go by their endings.

    Raises UsageError for an argument without files, a folder with several formats, an unknown
    ending, and a file that is named twice.
    """
    files: list[str] = []
    left_out: list[str] = []
    for argument in arguments:
        located = None if argument == STDIN else look_up(argument)
        if located is not None and located.is_folder:
            files += _in_folder(argument, format, left_out)
        else:
            is_file = argument == STDIN or located is not None
            files += [argument] if is_file else _matching(argument, format)
    real_paths: set[str] = set()
    for path in files:
        real = path if path == STDIN or is_address(path) else str(Path(path).resolve())
        if real in real_paths:
            raise UsageError(f"{path}: name the same file, or standard input, only once")
        real_paths.add(real)
        if format is None:
            format_of(path)
    return files, sorted(left_out)


def _matching(pattern: str, format: Format | None) -> list[str]:
    """Return the files that match a pattern."""
    if is_address(pattern):
        paths = [] if is_http(pattern) else listed(pattern, is_folder=False)
    else:
        # `Path.glob` accepts no absolute patterns, and yields hidden files.
        matches = glob.glob(pattern, recursive=True)  # noqa: PTH207
        paths = [path for path in matches if Path(path).is_file()]
    paths = [path for path in paths if is_data(path, format)]
    if not paths:
        raise UsageError(f"{pattern[:200]}: there is no such file")
    return sorted(paths, key=_in_order)


def _in_order(path: str) -> list[Any]:
    """Return a key of natural order: "a2/x" before "a10/x"."""
    return [natural(part) for part in PurePath(path).parts]


def _in_folder(folder: str, format: Format | None, left_out: list[str]) -> list[str]:
    """Return the files of a folder. Add those without a known ending, and links, to left_out."""
    formats: dict[Format, list[str]] = {}
    for path in _below(folder, format, left_out):
        try:
            formats.setdefault(format or format_of(path), []).append(path)
        except UsageError:
            left_out.append(path)
    if not formats:
        advice = ""
        if left_out:
            named = f"that of {left_out[0]} and the others"
            advice = f". Name {named}, such as `format` file if each is a document"
        raise UsageError(f"{folder}: the folder has no files of a known format{advice}")
    if len(formats) > 1:
        examples = " and ".join(f"{kind} ({min(paths)})" for kind, paths in formats.items())
        raise UsageError(
            f"{folder}: it holds files of several formats, {examples}: name those of one format by"
            f" a pattern in quotes, such as '{_pattern_of(folder, formats)}'"
        )
    return sorted(*formats.values(), key=_in_order)


def _pattern_of(folder: str, formats: Mapping[Format, list[str]]) -> str:
    """Return a pattern for the files of the format that most have, by the ending of one."""
    paths = max(formats.values(), key=len)
    path = PurePath(min(paths))
    ending = PurePath(path.stem).suffix if path.suffix in COMPRESSED else path.suffix
    # Also those that are compressed.
    return f"{folder.rstrip('/')}/**/*{ending}*"


def _below(folder: str, format: Format | None, links: list[str]) -> Iterator[str]:
    """Yield the files with data in a folder, recursively. Add links to folders to `links`."""

    def fail(error: OSError) -> None:
        raise UsageError(f"{error.filename}: {error.strerror}") from error

    if is_address(folder):
        for path in listed(folder, is_folder=True):
            if all(is_data(part, format) for part in PurePath(path[len(folder) :]).parts):
                yield path
        return
    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = (name for name in folders if is_data(name, format))
        # Links may lead back to where they are.
        links += filter(os.path.islink, (str(PurePath(parent, name)) for name in folders))
        yield from (str(PurePath(parent, name)) for name in names if is_data(name, format))


def is_data(path: str, format: Format | None) -> bool:
    """Return whether a file holds data; programs such as Spark put other files beside it."""
    name = PurePath(path).name
    if format == "file":
        # Any name may be that of a text; one is that of a list of ours.
        return not name.startswith((".", "_removed.", "_conflicts."))
    about = name in ABOUT or name.partition(".")[0].upper() == "README"
    cache = name.startswith("cache-") and name.endswith(".arrow")
    ending = (".crc", ".dead-letter.jsonl")
    return not (about or cache or name.startswith((".", "_")) or name.endswith(ending))
