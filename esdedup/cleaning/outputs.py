"""Write files again without the documents that duplicate others: one file for each, or one of all.

Each file is written as a whole, or not at all. A run that is killed resumes with the first file
that is missing.
"""

import itertools
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path, PurePath

import numpy as np
import xxhash

from esdedup.exceptions import InputError, UsageError
from esdedup.records.columnar import check_merge, check_text_column
from esdedup.records.files import Delimited, Format, format_of
from esdedup.records.inputs import Reading
from esdedup.records.locations import (
    SpooledPipe,
    content_of,
    folder_of,
    identity,
    is_address,
    look_up,
    stamp,
    written,
)
from esdedup.records.merge import NO_MERGE, Merge
from esdedup.records.paths import ABOUT
from esdedup.records.pipes import is_pipe
from esdedup.records.rewrite import RetainedFile, rewrite
from esdedup.records.table_files import check_result
from esdedup.records.targets import check_new, check_outside, check_table, check_targets
from esdedup.records.text_files import STDIN, name_of
from esdedup.runs.run import LISTED_FILES
from esdedup.text.arrays import I64, Mask

_REPORT_BEGINS = b'{\n  "documents": '
"""How `CleanReport.save` begins a file, which a later run may replace."""


@dataclass(frozen=True)
class RetainedRecords:
    """The records of a file that stay.

    lines: `Record.line` of all n records, ascending, shape (n,).
    is_retained: True for those that stay, shape (n,).
    changed: the new texts of some records that stay, by line.
    new_values: the new values of fields of some records that stay, as JSON by line.
    """

    lines: I64
    is_retained: Mask
    changed: Mapping[int, str] = field(default_factory=dict)
    new_values: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CleanFiles:
    """The files that arguments name, and how they are written again.

    arguments: files, folders and patterns, as they were named.
    files: the files to write again.
    against: files that are only compared with.
    output: a folder, a file, "-" for standard output, or None to write nothing.
    reading: how their records are read.
    removed: file for the list of what is removed, or None for one in the output.
    is_private: the files are compared with an index, or with kept sketches, too.
    merge: the fields that records that stay take from those that are removed.

    Raises UsageError for a file that is one of both, and for an output that is one file which can't
    hold the records of all.
    """

    arguments: Sequence[str]
    files: list[str]
    against: list[str]
    output: str | None
    reading: Reading
    removed: str | None = None
    is_private: bool = False
    merge: Merge = NO_MERGE

    def __post_init__(self) -> None:
        if pipe := next(filter(is_pipe, self.inputs), None):
            name = "standard input" if pipe == STDIN else pipe
            raise UsageError(f"{name} can't be read twice: name a file")
        if self.against:
            identities = {identity(path) for path in self.against}
            in_both = sorted(path for path in self.files if identity(path) in identities)
            if in_both:
                raise UsageError(f"{in_both[0]}: it is named in `against` too")
        if self.output is not None:
            check_outside("`output`", self.output, self.targets, self.arguments, self.format)
        assert len(self.targets) <= len(self.stamps)  # Both are computed before files are read.

    @property
    def listed(self) -> str | None:
        """The file for the list of what is removed; None without an output."""
        return list_file(self.output, self.removed)

    @property
    def left_whole(self) -> str | None:
        """The file for the list of groups that are left whole; None without a place for it."""
        return None if self.output in (None, STDIN) else left_whole_file(str(self.output))

    @property
    def report(self) -> str | None:
        """The file for the report; None without an output."""
        return None if self.output in (None, STDIN) else report_file(str(self.output))

    @property
    def _described_in(self) -> list[tuple[str, str | None]]:
        """The files that describe the output, each with its name in messages."""
        return [
            ("`removed`", self.listed),
            ("the list of groups beside `output`,", self.left_whole),
            ("the report beside `output`,", self.report),
        ]

    @cached_property
    def most_private(self) -> str | None:
        """The input whose permissions the files have that describe all inputs: the fewest.

        None if these files are for their owner alone, as after a comparison with an index.
        """
        if self.is_private or any(map(is_address, self.inputs)):
            return None
        try:
            modes = {path: stat.S_IMODE(Path(path).stat().st_mode) for path in self.inputs}
        except OSError:
            return None
        return min(modes, key=lambda path: modes[path].bit_count(), default=None)

    @property
    def format(self) -> Format | None:
        """The format of all files, or None to read it from their names."""
        return self.reading.format

    @property
    def inputs(self) -> list[str]:
        """The files that are read, of which the first ones are only compared with."""
        return self.against + self.files

    @cached_property
    def stamps(self) -> dict[str, str]:
        """Text by path that changes with each file."""
        return {path: stamp(path) for path in self.inputs}

    @cached_property
    def targets(self) -> list[str]:
        """The file to write for each file."""
        output = self.output
        if output is None:
            return []
        if is_one_file(output):
            formats = {self.format or format_of(path) for path in self.files}
            if self.format is None and output != STDIN:
                formats.add(format_of(output))
            if self.format == "file" or len(formats) > 1:
                names = " and ".join(sorted(formats))
                raise UsageError(f"`output` {output}: name a folder; one file can't hold {names}")
            return [output] * len(self.files)
        on_disk = [path for path in self.files if not isinstance(path, SpooledPipe)]
        folder = self._common_folder([*map(_place, on_disk)]) if on_disk else ""
        output = output.rstrip("/") or output
        targets = [f"{output}/{self._relative(path, folder)}" for path in self.files]
        if len(on_disk) < len(targets) and len({*targets}) < len(targets):
            raise UsageError(f"`output` {output}: a file and a pipe have one name there")
        return targets

    def _relative(self, path: str, folder: str) -> str:
        """Return the path of a file in the output. folder: the one that all files are in."""
        if not isinstance(path, SpooledPipe):
            return PurePath(os.path.relpath(_place(path), folder)).as_posix()
        name = PurePath(path.name).name
        has_ending = self.format == "file" or PurePath(name).suffix != ""
        ending = "txt" if self.format == "text" else self.format or "jsonl"
        return name if has_ending else f"{name}.{ending}"

    def _common_folder(self, names: Sequence[str]) -> str:
        """Return the folder that all files are in: the only argument, or the deepest one."""
        if len(self.arguments) == 1 and _is_folder(self.arguments[0]):
            return self.arguments[0]
        return os.path.commonpath([str(Path(name).absolute().parent) for name in names])

    @property
    def job(self) -> dict[str, object]:
        """The parameters that a run resumes by."""
        return {
            "format": self.format,
            "encoding": self.reading.encoding,
            **({"delimiter": self.reading.delimiter} if self.reading.delimiter else {}),
            "text fields": [*self.reading.text_fields],
            "id field": self.reading.id_field,
            "output": self.output,
            **(self.merge.to_json() if self.merge else {}),
            **{f"state of {_described(path)}": stamp for path, stamp in self.stamps.items()},
            LISTED_FILES: digest_of([*map(_described, self.files)]),
        }

    def check_absent(self) -> None:
        """Raise UsageError if a file or folder to write exists. An empty folder may."""
        output = self.output
        if output is None or output == STDIN:
            return
        if (located := look_up(output)) is not None:
            is_local_folder = located.is_folder and not is_address(output)
            names = [path.name for path in Path(output).iterdir()] if is_local_folder else []
            if not is_local_folder or not all(name.startswith(".") for name in names):
                raise UsageError(f"{output} exists: name another `output`, or remove it")
        for setting, path in self._described_in:
            if path is not None and path != self.removed:
                check_new(setting, path, _REPORT_BEGINS if path == self.report else b"")

    def check_targets(self, dead_letter: str | None) -> None:
        """Raise UsageError if a file to write is read too, or has two uses.

        dead_letter: the file for records that can't be read, or None.
        """
        targets: dict[str, Sequence[str | None]] = {
            "`output`": self.targets,
            **{setting: [path] for setting, path in self._described_in},
            "`dead_letter`": [dead_letter],
        }
        check_targets(targets, self.inputs)
        for setting, path in (("`removed`", self.removed), ("`dead_letter`", dead_letter)):
            if path is not None:
                check_outside(setting, path, [path], self.arguments, self.format)

    def check_removed(self, is_new: bool) -> None:
        """Raise UsageError if the list of what is removed can't be written.

        is_new: the run did not begin before, so that the file is not its own.
        """
        if self.removed is not None:
            (check_result if is_new else check_table)("`removed`", self.removed)

    def check_changeable(self, setting: str) -> None:
        """Raise UsageError if texts of the files can't be changed, as a setting requires."""
        if len(self.reading.text_fields) > 1:
            raise UsageError(f"`{setting}` requires one `text_field`")
        if self.output == STDIN or len({*self.targets}) < len(self.targets):
            raise UsageError(f"`{setting}` requires a folder to write to")
        (text_field,) = self.reading.text_fields
        for path in self.files:
            kind = self.format or format_of(path)
            if kind == "parquet" or kind == "arrow":
                check_text_column(path, kind, setting, text_field)

    def check_merge(self) -> None:
        """Raise UsageError if records of the files can't take values from others."""
        merge, setting = self.merge, f"`{self.merge.setting}`"
        merge.check(self.reading.text_fields)
        for path in self.files:
            kind = self.format or format_of(path)
            if kind == "parquet" or kind == "arrow":
                check_merge(path, kind, merge)
            elif kind != "jsonl":
                raise UsageError(f"{path}: {setting} requires JSON lines or tables, not {kind}")

    def write(self, files: Iterable[RetainedRecords], first: int = 0) -> Iterator[int]:
        """Write the files that are missing, and yield the number of records of each.

        files: the records that stay of the files from number `first` on. Raises InputError if a
        file has changed since it was read.
        """
        rewritten = zip(self.targets[first:], self.files[first:], files, strict=False)
        for target, group in itertools.groupby(rewritten, itemgetter(0)):
            sources = [self._retained_file(path, records) for _, path, records in group]
            # After a power cut, files that were not synced may be there and empty.
            if target == STDIN or self.format == "file" or look_up(target) is None:
                if target != STDIN and not is_address(target):
                    Path(target).parent.mkdir(parents=True, exist_ok=True)
                check = partial(self._check_unchanged, sources)
                check()
                named = self.reading.delimiter
                delimiter = "," if named is None else Delimited.named(named).delimiter
                rewrite(sources, target, self.format, self.reading.encoding, check, delimiter)
            yield sum(source.starts.size for source in sources)
        if self.format == "file" and hasattr(os, "sync"):
            os.sync()

    def _retained_file(self, path: str, records: RetainedRecords) -> RetainedFile:
        return RetainedFile(
            path,
            records.lines,
            records.is_retained,
            self.reading.text_fields[0],
            records.changed,
            self.merge,
            records.new_values,
        )

    def _check_unchanged(self, sources: Sequence[RetainedFile]) -> None:
        for source in sources:
            if stamp(source.path) != self.stamps[source.path]:
                raise InputError(
                    f"{source.path} has changed since it was read: run this again with a new"
                    " `output`"
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
        output = folder_of(f"{self.output}/any") + "/"
        for folder, target in folders:
            if f"{target}/".startswith(output):
                for name in ABOUT:
                    self._copy_description(f"{folder}/{name}", f"{target}/{name}")

    def _copy_description(self, described: str, target: str) -> None:
        """Copy a file that describes a dataset, if it is there."""
        if look_up(described) is None:
            return
        content = content_of(described)
        if described.endswith("/state.json"):
            # The library keeps results of functions under this name.
            state = json.loads(content)
            state["_fingerprint"] = digest_of([state, [*map(stamp, self.targets)]])
            content = json.dumps(state, indent=2).encode()
        with written(target, described) as copied:
            copied.write(content)


def save_retained(file: Path, retained: Iterable[RetainedRecords]) -> None:
    """Save the records of files that stay, in 8 bytes per record."""
    files = [*retained]
    changed = json.dumps([[*records.changed.items()] for records in files]).encode()
    signed = [np.where(records.is_retained, records.lines, -records.lines) for records in files]
    with file.open("wb") as out:
        np.savez(out, np.frombuffer(changed, np.uint8), *signed)


def load_retained(file: Path) -> list[RetainedRecords]:
    """Return what `save_retained` has saved."""
    with np.load(file) as saved:
        changed, *signed = saved.values()
    texts_by_line = json.loads(changed.tobytes())
    return [
        RetainedRecords(np.abs(lines), lines > 0, dict(texts))
        for lines, texts in zip(signed, texts_by_line, strict=True)
    ]


def list_file(output: str | None, removed: str | None) -> str | None:
    """Return the file for the list of what is removed, or None. removed: as it is named."""
    if output is None or removed is not None or output == STDIN:
        return None if output is None else removed
    return f"{_beside(output)}.jsonl.zst"


def left_whole_file(output: str) -> str:
    """Return the file for the list of groups that are left whole."""
    return f"{_beside(output, 'conflicts')}.jsonl.zst"


def report_file(output: str) -> str:
    """Return the file for the report on an output."""
    return f"{_beside(output)}.report.json"


def _beside(output: str, subject: str = "removed") -> str:
    """Return how the names of files on a subject begin: in a folder, or beside a file."""
    return output.rstrip("/") + (f".{subject}" if is_one_file(output) else f"/_{subject}")


def is_one_file(output: str) -> bool:
    """Return whether an output is a file or standard output, and not a folder."""
    if output == STDIN:
        return True
    try:
        format_of(output)
    except UsageError:
        return False
    return not _is_folder(output)


def _is_folder(path: str) -> bool:
    located = look_up(path)
    return located is not None and located.is_folder


def _place(path: str) -> str:
    """Return a path, or an address without its query."""
    return name_of(path) if is_address(path) else path


def _described(path: str) -> str:
    """Return a path as runs resume by it: of a pipe its name, and not that of its file."""
    return name_of(path) if isinstance(path, SpooledPipe) else path


def digest_of(value: object) -> str:
    """Return a short name of a value of JSON."""
    return xxhash.xxh3_64_hexdigest(json.dumps(value).encode())
