"""Write files again without the documents that duplicate others: one file for each, or one of all.

Each file is written as a whole, or not at all. A run that is killed resumes with the first file
that is missing.
"""

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePath
from typing import Any

import xxhash

from esdedup.exceptions import InputError, UsageError
from esdedup.records.files import Format, format_of
from esdedup.records.locations import (
    content_of,
    folder_of,
    identity,
    is_address,
    look_up,
    stamp,
    written,
)
from esdedup.records.paths import ABOUT
from esdedup.records.rewrite import KeptRecords, rewrite
from esdedup.records.streams import STDIN, name_of
from esdedup.records.targets import check_outside


@dataclass(frozen=True)
class Shards:
    """The files that arguments name, and how they are written again.

    others: files that are only compared with. out: a folder, a file, "-" for standard output, or
    None to write nothing. Raises UsageError for a file that is one of both, and for an output that
    is one file which can't hold the records of all.
    """

    arguments: Sequence[str]
    files: list[str]
    others: list[str]
    out: str | None
    format: Format | None
    encoding: str | None
    text_fields: Sequence[str]
    id_field: str | None

    def __post_init__(self) -> None:
        if STDIN in [*self.files, *self.others]:
            raise UsageError("standard input can't be read twice: name a file")
        if self.others:
            others = {identity(path) for path in self.others}
            if both := sorted(path for path in self.files if identity(path) in others):
                raise UsageError(f"{both[0]}: it is named in --against too")
        if self.out is not None:
            check_outside("--output", self.out, self.targets, self.arguments, self.format)
        assert len(self.targets) <= len(self.stamps)  # Both are computed before files are read.

    @cached_property
    def stamps(self) -> dict[str, str]:
        """Text by path that changes with each file."""
        return {path: stamp(path) for path in [*self.others, *self.files]}

    @cached_property
    def targets(self) -> list[str]:
        """The file to write for each file."""
        out = self.out
        if out is None:
            return []
        if is_one_file(out):
            kinds = {self.format or format_of(each) for each in self.files}
            if self.format is None and out != STDIN:
                kinds.add(format_of(out))
            if self.format == "file" or len(kinds) > 1:
                of = " and ".join(sorted(kinds))
                raise UsageError(f"--output {out}: name a folder; one file can't hold {of}")
            return [out] * len(self.files)
        names = [name_of(each) if is_address(each) else each for each in self.files]
        first, *more = self.arguments
        folder = first if not more and _is_folder(first) else None
        base = folder or os.path.commonpath([str(Path(each).absolute().parent) for each in names])
        out = out.rstrip("/") or out
        return [f"{out}/{PurePath(os.path.relpath(name, base)).as_posix()}" for name in names]

    @property
    def job(self) -> dict[str, object]:
        """The parameters that a run resumes by."""
        states = {f"state of {path}": found for path, found in self.stamps.items()}
        names = ("format", "encoding", "text_fields", "id_field")
        how = {name.replace("_", " "): getattr(self, name) for name in names}
        return {**how, "output": self.out, **states, "list of files": digest_of(self.files)}

    def check_absent(self) -> None:
        """Raise UsageError if the file or folder to write exists. An empty folder may."""
        if self.out is None or self.out == STDIN or (found := look_up(self.out)) is None:
            return
        here = Path(self.out).iterdir() if found.is_folder and not is_address(self.out) else None
        if here is None or not all(each.name.startswith(".") for each in here):
            raise UsageError(f"{self.out} exists: name another --output, or remove it")

    def check_changeable(self, option: str) -> None:
        """Raise UsageError if texts of the files can't be changed, as an option requires."""
        if len(self.text_fields) > 1:
            raise UsageError(f"{option} requires one --text-field")
        if self.out == STDIN or len({*self.targets}) < len(self.targets):
            raise UsageError(f"{option} requires a folder to write to")
        for path in self.files:
            if (kind := self.format or format_of(path)) in ("csv", "tsv"):
                raise UsageError(
                    f"{path}: {option} requires JSON lines, text or tables, not {kind}"
                )

    def write(self, shares: Iterable[tuple[Any, ...]], first: int = 0) -> Iterator[int]:
        """Write the files that are missing, and yield the number of records of each.

        shares: of the files from number `first` on, what `KeptRecords` has after its path. Raises
        InputError if a file has changed since it was read.
        """
        every = zip(self.targets[first:], self.files[first:], shares, strict=False)
        for target, some in itertools.groupby(every, lambda each: each[0]):
            sources = [KeptRecords(path, *share) for _, path, share in some]
            # After a power cut, files that were not synced may be there and empty.
            if target == STDIN or self.format == "file" or look_up(target) is None:
                if target != STDIN and not is_address(target):
                    Path(target).parent.mkdir(parents=True, exist_ok=True)
                check = partial(self._check, sources)
                check()
                rewrite(sources, target, self.format, self.encoding, check)
            yield sum(each.starts.size for each in sources)
        if self.format == "file" and hasattr(os, "sync"):
            os.sync()

    def _check(self, sources: Sequence[KeptRecords]) -> None:
        for each in sources:
            if stamp(each.path) != self.stamps[each.path]:
                raise InputError(
                    f"{each.path} has changed since it was read: run this again with a new --output"
                )

    def copy_about(self) -> None:
        """Copy what `datasets.Dataset.save_to_disk` writes beside files: the new ones load."""
        folders = {
            (folder_of(file), folder_of(target))
            for file, target in zip(self.files, self.targets, strict=False)
            if file.endswith(".arrow")
        }
        # A dictionary of datasets has a folder for each.
        folders |= {(folder_of(folder), folder_of(target)) for folder, target in folders}
        for folder, target in folders:
            for name in ABOUT:
                described = f"{folder}/{name}"
                is_within = f"{target}/".startswith(folder_of(f"{self.out}/any") + "/")
                if is_within and look_up(described) is not None:
                    about = content_of(described)
                    if name == "state.json":
                        # The library keeps results of functions under this name.
                        state = json.loads(about)
                        state["_fingerprint"] = digest_of([state, [*map(stamp, self.targets)]])
                        about = json.dumps(state, indent=2).encode()
                    with written(f"{target}/{name}", described) as copied:
                        copied.write(about)


def is_one_file(out: str) -> bool:
    """Return whether an output is a file or standard output, and not a folder."""
    if out == STDIN:
        return True
    try:
        format_of(out)
    except UsageError:
        return False
    return not _is_folder(out)


def _is_folder(path: str) -> bool:
    found = look_up(path)
    return found is not None and found.is_folder


def digest_of(value: object) -> str:
    """Return a short name of a value of JSON."""
    return xxhash.xxh3_64_hexdigest(json.dumps(value).encode())
