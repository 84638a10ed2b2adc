"""Write files again without the documents that duplicate others: one file for each, or one of all.

Each file is written as a whole, or not at all. A run that is killed resumes with the first file
that is missing.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import xxhash

from esdedup.exceptions import InputError, UsageError
from esdedup.records.files import Format, format_of
from esdedup.records.locations import folder_of, is_address, look_up, open_file, stamp, written
from esdedup.records.paths import ABOUT
from esdedup.records.rewrite import KeptRecords, rewrite
from esdedup.records.streams import STDIN, name_of


def is_one_file(out: str) -> bool:
    """Return whether an output is a file or standard output, and not a folder."""
    if out == STDIN:
        return True
    try:
        format_of(out)
    except UsageError:
        return False
    return not _is_folder(out)


def targets_of(
    arguments: Sequence[str], files: Sequence[str], out: str, format: Format | None
) -> list[str]:
    """Return the file to write for each file. arguments: those that named the files.

    Raises UsageError if the output is one file that can't hold the records of all.
    """
    if is_one_file(out):
        kinds = {format or format_of(each) for each in files}
        if format is None and out != STDIN:
            kinds.add(format_of(out))
        if format == "file" or len(kinds) > 1:
            of = " and ".join(sorted(kinds))
            raise UsageError(f"--output {out}: name a folder; one file can't hold {of}")
        return [out] * len(files)
    names = [name_of(each) if is_address(each) else each for each in files]
    folder = arguments[0] if len(arguments) == 1 and _is_folder(arguments[0]) else None
    base = folder or os.path.commonpath([str(Path(each).absolute().parent) for each in names])
    out = out.rstrip("/") or out
    return [f"{out}/{PurePath(os.path.relpath(name, base)).as_posix()}" for name in names]


def _is_folder(path: str) -> bool:
    found = look_up(path)
    return found is not None and found.is_folder


def check_absent(out: str) -> None:
    """Raise UsageError if a file or folder to write exists. An empty folder may."""
    found = None if out == STDIN else look_up(out)
    if found is not None and found.is_folder and not is_address(out):
        empty = all(each.name.startswith(".") for each in Path(out).iterdir())
        found = None if empty else found
    if found is not None:
        raise UsageError(f"{out} exists: name another --output, or remove it")


def digest_of(value: object) -> str:
    """Return a short name of a value of JSON, such as the stamps of many files."""
    return xxhash.xxh3_64_hexdigest(json.dumps(value).encode())


def write_shards(
    shares: Iterable[tuple[Any, ...]],
    files: Sequence[str],
    targets: Sequence[str],
    stamps: Sequence[str],
    format: Format | None,
    encoding: str | None,
) -> Iterator[int]:
    """Write the files that are missing, and yield the number of records of each when it is there.

    shares: of each file, what `KeptRecords` has after its path, as of `Corpus.shares`.
    stamps: of the files before they were read. Raises InputError if a file has changed since.
    """
    every = zip(files, stamps, targets, shares, strict=True)
    for target, some in itertools.groupby(every, lambda each: each[2]):
        sources, before = [], {}
        for path, found, _, share in some:
            sources.append(KeptRecords(path, *share))
            before[path] = found
        # After a power cut, files that were not synced may be there and empty.
        if target == STDIN or format == "file" or look_up(target) is None:
            if target != STDIN and not is_address(target):
                Path(target).parent.mkdir(parents=True, exist_ok=True)
            _check(before)
            rewrite(sources, target, format, encoding, partial(_check, before))
        yield sum(each.starts.size for each in sources)
    if format == "file" and hasattr(os, "sync"):
        os.sync()


def copy_about(files: Sequence[str], targets: Sequence[str], out: str) -> None:
    """Copy what `datasets.Dataset.save_to_disk` writes beside files, so that the new ones load."""
    folders = {
        (folder_of(file), folder_of(target))
        for file, target in zip(files, targets, strict=True)
        if file.endswith(".arrow")
    }
    # A dictionary of datasets has a folder for each.
    folders |= {(folder_of(folder), folder_of(target)) for folder, target in folders}
    for folder, target in folders:
        for name in ABOUT:
            described = f"{folder}/{name}"
            is_within = f"{target}/".startswith(folder_of(f"{out}/any") + "/")
            if is_within and look_up(described) is not None:
                with open_file(described) as file:
                    about = file.read()
                if name == "state.json":
                    # The library keeps results of functions under this name.
                    state = json.loads(about)
                    state["_fingerprint"] = digest_of([state, [*map(stamp, targets)]])
                    about = json.dumps(state, indent=2).encode()
                with written(f"{target}/{name}", described) as copied:
                    copied.write(about)


def _check(stamps: Mapping[str, str]) -> None:
    for path, before in stamps.items():
        if stamp(path) != before:
            raise InputError(
                f"{path} has changed since it was read: run this again with a new --output"
            )
