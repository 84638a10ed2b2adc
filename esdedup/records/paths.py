"""Find the files that an argument names: one path, a pattern, or a folder of one format.

A folder may be one that `datasets.Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote.
"""

from __future__ import annotations

import glob
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from esdedup.exceptions import UsageError
from esdedup.models import natural
from esdedup.records.files import Format, format_of
from esdedup.records.streams import STDIN

_STATE = "state.json"
_ABOUT = ("dataset_dict.json", "dataset_info.json", "dataset_infos.json")
"""Files of the library `datasets` that describe the documents, and hold none."""


@dataclass
class NamedFiles:
    """Files to read, in order, and those of folders that are left out: no format is known."""

    files: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def files_named(arguments: Sequence[str], format: Format | None = None) -> NamedFiles:
    """Return the files that arguments name, each once.

    A pattern such as "data/*.parquet" (also "**") and a folder stand for files in natural order of
    names. Hidden files, names that begin with "_", checksums, README files, our dead letters, and
    files that describe a data set are not among them. format: of all files, None to go by their
    endings.

    Raises UsageError for an argument without files, a folder with several formats, an unknown
    ending, and a file that is named twice.
    """
    named = NamedFiles()
    for path in itertools.chain.from_iterable(map(_matching, arguments)):
        if path != STDIN and Path(path).is_dir():
            _add_folder(named, path, format)
        else:
            named.files.append(path)
    seen: set[str] = set()
    for path in named.files:
        real = path if path == STDIN else str(Path(path).resolve())
        if real in seen and path == STDIN:
            raise UsageError("standard input (-) can be read only once")
        if real in seen:
            raise UsageError(f"{path}: name the same file only once")
        seen.add(real)
        if format is None:
            format_of(path)
    return named


def _matching(argument: str) -> list[str]:
    try:
        if argument == STDIN or Path(argument).exists():
            return [argument]
    except OSError as error:
        raise UsageError(f"{argument[:200]}: {error.strerror}") from error
    if not glob.has_magic(argument):
        raise UsageError(f"{argument}: there is no such file")
    # `Path.glob` accepts no absolute patterns, and yields hidden files.
    found = glob.glob(argument, recursive=True)  # noqa: PTH207
    # "**" matches folders too, whose files it matches already.
    found = [path for path in found if "**" not in argument or not Path(path).is_dir()]
    # Parts that begin with "_" count if they are named.
    named = {*PurePath(argument).parts}
    found = [path for path in found if all(map(_is_data, {*PurePath(path).parts} - named))]
    if not found:
        raise UsageError(f"{argument}: no file has such a name")
    return sorted(found, key=_in_order)


def _in_order(path: str) -> list[Any]:
    """Return a key of natural order: "a2/x" before "a10/x"."""
    return [natural(part) for part in PurePath(path).parts]


def _add_folder(named: NamedFiles, folder: str, format: Format | None) -> None:
    formats: dict[Format, str] = {}
    for path in sorted(_data_in(named, folder), key=_in_order):
        try:
            formats.setdefault(format or format_of(path), path)
            named.files.append(path)
        except UsageError:
            named.left_out.append(path)
    if not formats:
        raise UsageError(f"{folder}: the folder has no files of a known format")
    if len(formats) > 1:
        some = " and ".join(f"{kind} ({path})" for kind, path in formats.items())
        raise UsageError(f"{folder}: it holds files of several formats, {some}: name one kind")


def _data_in(named: NamedFiles, folder: str) -> Iterator[str]:
    """Yield the files of a folder, and add links to folders to those that are left out."""

    def fail(error: OSError) -> None:
        raise UsageError(f"{error.filename}: {error.strerror}") from error

    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = filter(_is_data, folders)
        # They may lead back to where they are.
        linked = (str(PurePath(parent, name)) for name in folders)
        named.left_out += filter(os.path.islink, linked)
        files = _listed(Path(parent, _STATE)) if _STATE in names else filter(_is_data, names)
        yield from (str(PurePath(parent, name)) for name in files)


def _is_data(path: str) -> bool:
    """Return whether a file holds data; programs such as Spark put other files beside it."""
    name = PurePath(path).name
    about = name.startswith((".", "_")) or name.partition(".")[0].upper() == "README"
    return not about and name not in _ABOUT and not name.endswith((".crc", ".dead-letter.jsonl"))


def _listed(state: Path) -> list[str]:
    """Return the files that the library `datasets` lists in a folder; others there are caches.

    Raises UsageError if the list is damaged, or if its rows are chosen by another file.
    """
    try:
        found = json.loads(state.read_bytes())
        names = [str(each["filename"]) for each in found["_data_files"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{state}: it is damaged, or of another program") from error
    if found.get("_indices_data_files"):
        raise UsageError(
            f"{state}: the data set has an index mapping: save it again after flatten_indices()"
        )
    if missing := [name for name in names if not (state.parent / name).is_file()]:
        raise UsageError(
            f"{state.parent / missing[0]}: {state} names it, but there is no such file"
        )
    return names
