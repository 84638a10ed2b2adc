"""Check the files that a command is to write: none that it reads, and none that holds something."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import PurePath

from esdedup.exceptions import UsageError
from esdedup.records.files import Format
from esdedup.records.locations import canonical, identity, look_up, open_file
from esdedup.records.paths import is_data
from esdedup.records.text_files import STDIN

TABLES = (".parquet", ".arrow", ".jsonl", ".jsonl.gz", ".jsonl.zst")
"""The endings of a file for a table of results."""


def check_targets(targets: Mapping[str, Sequence[str | None]], inputs: Iterable[str]) -> None:
    """Raise UsageError for a file to write that the command reads, or writes as another one too.

    A file is recognised by whatever path, also a link.

    targets: paths and addresses by the setting that names them, None for none.
    inputs: the files that are read.
    """
    readers = dict.fromkeys(identity(path) for path in inputs if path != STDIN)
    writers = dict[str, str]()
    for setting, paths in targets.items():
        for path in dict.fromkeys(paths):
            if path is None or path == STDIN:
                continue
            file = identity(path)
            if file in readers:
                raise UsageError(f"{setting} {path}: the command reads this file: name another")
            if (first_setting := writers.setdefault(file, setting)) != setting:
                raise UsageError(
                    f"{setting} {path}: {first_setting} names this file too: name another"
                )


def check_new(setting: str, path: str, begins: bytes = b"") -> None:
    """Raise UsageError if a file to write exists and has content.

    begins: how an earlier result begins that may be replaced; empty for none.
    """
    located = look_up(path, refresh=True)
    if located is None or (located.size == 0 and not located.is_folder):
        return
    if located.is_folder:
        raise UsageError(f"{setting} {path}: Is a directory")
    if begins:
        with open_file(path) as file:
            if file.read(len(begins)) == begins:
                return
    reason = "the file exists and holds something else" if begins else "the file exists"
    raise UsageError(f"{setting} {path}: {reason}: remove it, or name another")


def check_table(setting: str, path: str) -> None:
    """Raise UsageError if the ending of a file is not that of a table of results."""
    if not path.endswith(TABLES):
        endings = f"{', '.join(TABLES[:-1])} or {TABLES[-1]}"
        raise UsageError(f"{setting} {path}: end the name in {endings}")


def check_outside(
    setting: str,
    path: str,
    files: Iterable[str],
    arguments: Iterable[str],
    format: Format | None = None,
) -> None:
    """Raise UsageError if a folder or a pattern that is read names what is written.

    The next run would read it as data.

    setting: names the path, in messages.
    path: the file or folder that the setting names.
    files: the files to write.
    arguments: name what is read.
    format: of the files that are read.
    """
    for argument in arguments:
        if path == STDIN or argument == STDIN:
            continue
        if has_magic(argument):
            pattern = PurePath(canonical(argument)).parts
            is_read = any(_matches(PurePath(canonical(file)).parts, pattern) for file in files)
        elif (located := look_up(argument)) is not None and located.is_folder:
            folder, place = canonical(argument).rstrip("/"), canonical(path)
            below = PurePath(place.removeprefix(f"{folder}/")).parts
            is_read = place.startswith(f"{folder}/") and all(
                is_data(part, format) for part in below
            )
        else:
            continue
        if is_read:
            later = f"it is in {argument}, so that the next run would read it: name a place outside"
            raise UsageError(f"{setting} {path}: {later}")


def _matches(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether a pattern names a path; "**" is any number of folders."""
    if not pattern:
        return not names
    if pattern[0] == "**" and _matches(names, pattern[1:]):
        return True
    is_next = bool(names) and (pattern[0] == "**" or fnmatchcase(names[0], pattern[0]))
    return is_next and _matches(names[1:], pattern if pattern[0] == "**" else pattern[1:])
