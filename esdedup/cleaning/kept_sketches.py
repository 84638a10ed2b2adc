"""Keep the sketches and texts of a corpus in a folder, so that the next files are compared with it.

A run adds shares of the documents that stay, and then a file that describes it, with which they
count: a run that is killed has added all of its documents or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, count
from typing import Any, Protocol

import numpy as np

from esdedup.cleaning.outputs import digest_of
from esdedup.cleaning.removals import Corpus
from esdedup.cleaning.sketching import RECORDS, StoredRecords
from esdedup.exceptions import StoreError, UsageError
from esdedup.records.locations import content_of, copy, is_address
from esdedup.runs.run import OnStep, Run, difference
from esdedup.runs.shares import Shares, StoredShare, share_name
from esdedup.text.arrays import Mask, offsets_of

SKETCHES = ".sketches"
"""The name of a folder of sketches ends in this."""


@dataclass(frozen=True)
class AddedDocuments:
    """The documents that a run has added.

    made: how all were sketched.
    job: digest of the run's parameters.
    folder: of the shares.
    files: the names of the files, as they were read.
    shares: number of shares.
    counts: number of documents of each file.
    """

    made: Mapping[str, Any]
    job: str
    folder: str
    files: Sequence[str]
    shares: int
    counts: Sequence[int]

    def share_names(self) -> Iterator[str]:
        """Yield the names of the shares in the folder of all runs."""
        for number in range(1, self.shares + 1):
            yield f"{self.folder}/{share_name(number)}"


class RetainedDocuments(Protocol):
    """The documents of a corpus that stay."""

    @property
    def corpus(self) -> Corpus:
        """All documents."""

    @property
    def retained(self) -> Mask:
        """Mark the later documents that stay, shape (documents of the corpus,)."""


@dataclass(frozen=True)
class KeptSketches:
    """The documents that stayed in earlier runs.

    folder: of all runs, at a path or an address.
    local: the same, or a temporary one for the shares of an address.
    made: how all were sketched.
    earlier: the runs whose documents are compared with.
    job: digest of the parameters of this run.
    is_added: this run has added its documents already, which are not among the earlier ones.
    """

    folder: Run
    local: Run
    made: Mapping[str, Any]
    earlier: Sequence[AddedDocuments]
    job: str
    is_added: bool

    @staticmethod
    @contextmanager
    def at(
        name: str,
        made: Mapping[str, Any],
        job: Mapping[str, Any],
        create: bool,
        is_shared: bool = False,
    ) -> Iterator[KeptSketches]:
        """Open a folder for one run at a time. made: how this run sketches. job: its parameters.

        create: the folder, if it is missing. is_shared: all tasks of the run read it at the same
        time, and none adds documents.

        Stores of objects have no locks: of two runs that overlap, one fails when it adds documents.
        Raises UsageError for another folder, and for one of other options; StoreUnavailable if
        another run is using it.
        """
        folder, digest = Run(name), digest_of(job)
        with ExitStack() as stack:
            local = folder
            if is_address(folder.place):
                local = stack.enter_context(Run.temporary())
            elif folder.folder.exists() and not folder.has_lock():
                raise UsageError(f"`against` {name}: it is no folder of sketches")
            elif (folder.folder.exists() or create) and not is_shared:
                stack.enter_context(folder.lock("wait for it"))
            earlier = _added_in(folder)
            if not earlier and not create:
                raise UsageError(f"`against` {name}: there is no such folder: `update` creates it")
            if earlier and (differing := difference(earlier[0].made, made)):
                raise UsageError(
                    f"`against` {name}: it has sketches of {differing}: use the options of the"
                    " earlier runs, or name another folder"
                )
            is_added = bool(earlier) and earlier[-1].job == digest
            if is_added:
                earlier = earlier[:-1]
            try:
                yield KeptSketches(folder, local, made, earlier, digest, is_added)
            finally:
                local.remove_empty()

    @property
    def place(self) -> str:
        """The path or address of the folder."""
        return self.folder.place

    @property
    def state(self) -> str:
        """Text that changes with the documents of earlier runs."""
        return digest_of([asdict(added) for added in self.earlier])

    def shares(self, step: OnStep) -> list[StoredShare]:
        """Return the shares of earlier runs, whose arrays are on this machine."""
        names = [*chain.from_iterable(added.share_names() for added in self.earlier)]
        shares = list[StoredShare]()
        for name in names:
            file, origin = self.local.folder / name, self.folder.path_of(name)
            if is_address(origin):
                file.parent.mkdir(exist_ok=True)
                copy(origin, str(file))
                step("Fetching sketches", len(shares) + 1, len(names))
            shares.append(StoredShare.of_earlier_run(file, origin, self.local.sizes))
        return shares

    @property
    def names(self) -> list[str]:
        """Return the names of all files, as they were read."""
        return [*chain.from_iterable(added.files for added in self.earlier)]

    @property
    def records(self) -> StoredRecords:
        """Return the records of all documents."""
        lines = (self.folder.read(f"{added.folder}/{RECORDS}") for added in self.earlier)
        return StoredRecords(lines, [*chain.from_iterable(a.counts for a in self.earlier)])

    def add(self, documents: RetainedDocuments) -> int:
        """Add the documents of a run that stay, unless it has done so, and return their number.

        Raises StoreError if another run has added documents meanwhile.
        """
        corpus = documents.corpus
        records = corpus.rows[documents.retained]
        if self.is_added:
            return records.size
        # Runs that overlap have different folders.
        name = f"{len(self.earlier):04d}-{self.job}"
        shares = Shares(Run(self.local.folder / name))
        shares.run.folder.mkdir(mode=0o700, exist_ok=True)
        number_of_shares = self._copy_retained(documents, shares)
        shares.run.write(RECORDS, corpus.lines[records].tobytes())
        if is_address(self.place):
            for file in shares.run.folder.iterdir():
                self.folder.put(file, f"{name}/{file.name}")
        ends = np.searchsorted(records, offsets_of(corpus.counts)[corpus.earlier :])
        files, counts = corpus.names[corpus.earlier :], np.diff(ends).tolist()
        self._describe(AddedDocuments(self.made, self.job, name, files, number_of_shares, counts))
        return records.size

    def _copy_retained(self, documents: RetainedDocuments, shares: Shares) -> int:
        """Write the documents of a run that stay, and return the number of their shares."""
        corpus, retained, numbers = documents.corpus, documents.retained, count(1)
        start = int(corpus.counts[: len(self.names)].sum())
        number = 0
        for share in corpus.shares.written():
            part = share.part()
            rows = np.flatnonzero(retained[start : start + len(part.ids)])
            start += len(part.ids)
            if rows.size:
                number = next(numbers)
                shares.write(number, [part.picked(rows)])
        return number

    def _describe(self, added: AddedDocuments) -> None:
        """Write the file with which the documents of a run count."""
        file = _name_of_run(len(self.earlier))
        is_new = self.folder.create(file, json.dumps(asdict(added)).encode())
        # A request that is retried finds its own file.
        if not is_new and _read_added(self.folder, file).job != self.job:
            raise StoreError(
                f"{self.place}: another run has added documents since this one began: remove the"
                " output and the work folder, and run this again"
            )


def _name_of_run(number: int) -> str:
    """Return the name of the file that describes what a run has added."""
    return f"run-{number:04d}.json"


def _added_in(folder: Run) -> list[AddedDocuments]:
    """Return what runs have added to a folder, in their order."""
    runs = list[AddedDocuments]()
    while folder.has(file := _name_of_run(len(runs))):
        runs.append(_read_added(folder, file))
    return runs


def _read_added(folder: Run, file: str) -> AddedDocuments:
    return AddedDocuments(**json.loads(content_of(folder.path_of(file))))
