"""The ids of records that have none: the file and the line, in the spelling that the index has."""

import itertools
import os
import re
from collections.abc import Sequence
from pathlib import Path

from esdedup.exceptions import UsageError
from esdedup.records.documents import PATH
from esdedup.records.locations import is_address
from esdedup.stores.base import Store

_SAMPLE = 100
_PLACE = re.compile(r".+:\d+", re.DOTALL)
_PROBES = 20
"""Records of a file that are looked up under each spelling. The first ones may have been skipped
as near-duplicates."""


class Places:
    """Places as ids: the path of a file, which has several spellings, and the line.

    An object is created before a run writes.

    store: the index, which may not exist.
    accepted: records without an id may come beside documents with ids of their own, which another
        program may have written. Such a program also fills an attached index, which may still be
        empty.
    count: number of records whose id is their place.
    """

    def __init__(self, store: Store, accepted: bool) -> None:
        ids = store.some_ids(_SAMPLE)
        self.count, self._has_begun = 0, False
        self._store, self._is_new = store, not ids
        meta = store.meta()
        self._conflict: str | None = None
        if not accepted and not all(map(_PLACE.fullmatch, ids)):
            self._conflict = f"the documents of {store.where} have ids of their own"
        elif not accepted and meta is not None and meta.attached:
            self._conflict = (
                f"{store.where} was attached, so its owner gives the documents their ids"
            )
        self._spelling = dict[str, str]()

    def settle(
        self, ids: list[str], has_own_id: Sequence[bool]
    ) -> tuple[list[str], dict[int, str]]:
        """Return the ids of the next records, and the reasons why some rows are not written.

        has_own_id: of each record, whether its id is not its place.

        Raises UsageError if no record can be written, before any was.
        """
        rows = [row for row, is_own in enumerate(has_own_id) if not is_own]
        if not rows:
            self._has_begun = True
            return ids, {}
        placed = {row: ids[row].rpartition(":") for row in rows}
        files: dict[str, list[str]] = {}
        for file, _, line in placed.values():
            files.setdefault(file, []).append(line)
        for file, lines in files.items():
            if file not in self._spelling:
                self._spelling[file] = self._spelled(file, lines[:_PROBES])
        settled = [*ids]
        for row, (file, _, line) in placed.items():
            settled[row] = f"{self._spelling[file]}:{line}"
        reasons: dict[int, str] = {}
        if self._conflict is not None:
            names = [settled[row] for row in rows]
            stored_ids = {document.id for document in self._store.get(names, ["_"])}
            reason = (
                f"it has no id, and {self._conflict}: name the field of the id (`id_field`), or use"
                f" places as ids (`id_field` {PATH})"
            )
            reasons = {row: reason for row in rows if settled[row] not in stored_ids}
        if len(reasons) == len(ids) and not self._has_begun:
            raise UsageError(
                f"none of the first {len(ids):,} records has an id, and {self._conflict}: name the"
                f" field of the id (`id_field`), or use `id_field` {PATH} to add the records under"
                f" their places, such as {settled[0]!r}"
            )
        self.count, self._has_begun = self.count + len(rows), True
        return settled, reasons

    def _spelled(self, file: str, lines: Sequence[str]) -> str:
        """Return the spelling of a path by which the index has its first lines, or a plain one."""
        spellings = _spellings(file)
        if len(spellings) == 1 or self._is_new:
            return spellings[-1]
        ids = {spelling: {f"{spelling}:{line}" for line in lines} for spelling in spellings}
        all_ids = [*itertools.chain.from_iterable(ids.values())]
        stored_ids = {document.id for document in self._store.get(all_ids, ["_"])}
        used = (spelling for spelling in spellings if not stored_ids.isdisjoint(ids[spelling]))
        return next(used, spellings[-1])


def _spellings(file: str) -> list[str]:
    """Return the spellings of a path: the given one first, and last the one of a new file.

    The latter is without links, and relative if the given one is.
    """
    if is_address(file):
        return [file]
    absolute, real = os.path.normpath(Path.cwd() / file), os.path.realpath(file)
    new_spelling = real if Path(file).is_absolute() else os.path.relpath(real)
    candidates = [file, absolute, os.path.relpath(absolute), real, os.path.relpath(real)]
    names = [Path(candidate).as_posix() for candidate in [*candidates, new_spelling]]
    return [*dict.fromkeys(candidate for candidate in names if candidate != names[-1]), names[-1]]
