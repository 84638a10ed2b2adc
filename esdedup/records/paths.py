"""Finds the files that an argument names: one path, a pattern, or a folder of one format.

A folder may be one that `datasets.Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote.
"""

from __future__ import annotations

import glob
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

_SPLITS, _STATE = "dataset_dict.json", "state.json"
_ABOUT = (_SPLITS, _STATE, "dataset_info.json", "dataset_infos.json")
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
    seen: set[Path] = set()
    for argument in arguments:
        for path in _matching(argument):
            if path != STDIN and Path(path).is_dir():
                _add_folder(named, path, format)
            else:
                named.files.append(path)
    for path in named.files:
        if path != STDIN and (real := Path(path).resolve()) in seen:
            raise UsageError(f"{path}: name the same file only once")
        if path != STDIN:
            seen.add(real)
        if format is None:
            format_of(path)
    if named.files.count(STDIN) > 1:
        raise UsageError("standard input (-) can be read only once")
    return named


def _matching(argument: str) -> list[str]:
    try:
        if argument == STDIN or Path(argument).exists():
            return [argument]
    except OSError as error:
        raise UsageError(f"{argument[:200]}: {error.strerror}") from error
    if not glob.has_magic(argument):
        raise UsageError(f"{argument}: there is no such file")
    # `Path.glob` takes no absolute patterns, and gives hidden files.
    found = glob.glob(argument, recursive=True)  # noqa: PTH207
    if "**" in argument:
        # It matches folders too, whose files it matches already.
        found = [path for path in found if not Path(path).is_dir()]
    # Folders that begin with "_" count if they are named.
    named = {*PurePath(argument).parts}
    found = [path for path in found if all(map(_is_data, {*PurePath(path).parts[:-1]} - named))]
    found = sorted(filter(_is_data, found), key=_in_order)
    if not found:
        raise UsageError(f"{argument}: no file has such a name")
    return found


def _in_order(path: str) -> list[Any]:
    """Return a key of natural order: "a2/x" before "a10/x"."""
    return [natural(part) for part in PurePath(path).parts]


def _add_folder(named: NamedFiles, folder: str, format: Format | None) -> None:
    splits, state = (_described(Path(folder, name)) for name in (_SPLITS, _STATE))
    if splits is not None:
        for split in splits:
            _add_folder(named, str(PurePath(folder, split)), format)
        return
    if state is not None:
        shards = [str(PurePath(folder, name)) for name in state]
        if missing := [path for path in shards if not Path(path).is_file()]:
            raise UsageError(f"{missing[0]}: {folder}/{_STATE} names it, but there is no such file")
        named.files += shards
        return
    formats: dict[Format, str] = {}
    for path in sorted(_data_in(named, folder), key=_in_order):
        if Path(path).is_dir():
            formats.setdefault("arrow", path)
            _add_folder(named, path, format)
            continue
        try:
            formats.setdefault(format or format_of(path), path)
            named.files.append(path)
        except UsageError:
            named.left_out.append(path)
    if not formats:
        raise UsageError(f"{folder}: the folder has no files of a known format")
    if len(formats) > 1:
        listed = " and ".join(f"{kind} ({path})" for kind, path in formats.items())
        raise UsageError(f"{folder}: it holds files of several formats, {listed}: name one kind")


def _data_in(named: NamedFiles, folder: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise UsageError(f"{error.filename}: {error.strerror}") from error

    for parent, folders, names in os.walk(folder, onerror=fail):
        folders[:] = filter(_is_data, folders)
        # They may lead back to where they are.
        linked = (str(PurePath(parent, name)) for name in folders)
        named.left_out += filter(os.path.islink, linked)
        if parent != folder and any(_described(Path(parent, name)) for name in (_SPLITS, _STATE)):
            folders.clear()
            yield parent
            continue
        yield from (str(PurePath(parent, name)) for name in names if _is_data(name))


def _is_data(path: str) -> bool:
    """Return whether a file holds data; programs such as Spark put other files beside it."""
    name = PurePath(path).name
    about = name.startswith((".", "_")) or name.partition(".")[0].upper() == "README"
    return not about and name not in _ABOUT and not name.endswith((".crc", ".dead-letter.jsonl"))


def _described(path: Path) -> list[str] | None:
    """Return the names in a file of the library `datasets`, None if there is none such.

    Raises UsageError if it is damaged, or if its rows are chosen by another file.
    """
    try:
        found = json.loads(path.read_bytes())
        if path.name == _STATE and found.get("_indices_data_files"):
            raise UsageError(
                f"{path}: the data set has an index mapping: save it again after flatten_indices()"
            )
        if path.name == _SPLITS:
            names = list(found["splits"])
        else:
            names = [each["filename"] for each in found["_data_files"]]
    except (OSError, KeyError):
        return None
    except UsageError:
        raise
    except (ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: it is damaged, so that the files can't be told") from error
    return names if all(isinstance(name, str) for name in names) else None
