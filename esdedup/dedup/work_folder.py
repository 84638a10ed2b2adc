"""Reads the tokens of all documents of an index into a folder, from which a killed run can go on.

Each share of the documents is one file, written whole or not at all, so that a run that was killed
reads only the shares that are missing. The columns of all shares are mapped from a file and not
held in memory. The folder also holds a checkpoint: the groups found so far.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.representative import KeepRule
from esdedup.dedup.union_find import singletons
from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.models import Document, Metric, Share
from esdedup.search.limits import require_minhash, require_simhash
from esdedup.sketch.segments import fingerprints_of
from esdedup.sketch.sketch import digest_words
from esdedup.sketch.tokens import decode
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.own_files import open_private
from esdedup.stores.sqlite.database import held_alone
from esdedup.text.arrays import F64, I64, U64, Mask, run_starts

_JOB, _STATE, _VALUES, _LOCK = "job.json", "state.npz", "values", "lock"
_OURS = re.compile(r"(job\.json|state\.npz|values|share-\d{4}\.npz)(\.tmp)?|lock(-journal)?")
_DOCUMENTS_A_SHARE = 100_000
_MOST_SHARES = 1024
_SECONDS_BETWEEN = 10.0
"""Time between checkpoints: a kill loses at most this much work."""

OnStep = Callable[[str, int, int], None]
"""Called with the name of a step, the amount done, and the total."""


@dataclass(frozen=True)
class Columns:
    """Documents as rows, in their order of precedence.

    ids: of n documents. digests: of their texts, as `digest_words` gives them, shape (n, 2).
    filled: True for a document with tokens, shape (n,).
    values: band hashes, shape (bands, n), or words of fingerprints, shape (words, n).
    """

    ids: list[str]
    digests: U64
    filled: Mask
    values: NDArray[Any]


@dataclass(frozen=True)
class Reading:
    """Says what to read of each document.

    metric: its tokens are read; None for digests alone.
    keep: the fields that it orders documents by are read too.
    """

    meta: IndexMeta
    metric: Metric | None
    keep: KeepRule

    @property
    def paths(self) -> list[str]:
        """The dotted names of the fields to read: digest, tokens, then those of the keep rule."""
        field = self.meta.field
        tokens = {"jaccard": "minhash", "hamming": "simhash", None: "wordless"}[self.metric]
        return [f"{field}.digest", f"{field}.{tokens}", *self.keep.paths(self.meta.text_fields)]

    @property
    def width(self) -> int:
        """The number of values of a document."""
        if self.metric is None:
            return 0
        scheme, by_bands = self.meta.scheme, self.metric == "jaccard"
        return require_minhash(scheme).bands if by_bands else require_simhash(scheme).bits // 64

    @property
    def kind(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest type that holds a document's values."""
        by_bands, scheme = self.metric == "jaccard", self.meta.scheme
        return np.uint32 if by_bands and require_minhash(scheme).token_bits <= 32 else np.uint64


@dataclass(frozen=True)
class Checkpoint:
    """The groups found so far.

    partition: the first row of each row's group, as in `union_find`, shape (n,).
    partner: the first row that was found similar to each row, its own row if none, shape (n,).
    value: similarity to the partner, shape (n,).
    rows: number of rows that are done.
    """

    partition: I64
    partner: I64
    value: F64
    rows: int = 0

    def note(self, left: I64, right: I64, value: F64) -> None:
        """Keeps the values of similar pairs, sorted by right and then left, in place."""
        first = np.flatnonzero(run_starts(right))
        fresh = first[left[first] < self.partner[right[first]]]
        self.partner[right[fresh]] = left[fresh]
        self.value[right[fresh]] = value[fresh]


class WorkFolder:
    """A folder that holds the columns and the checkpoint of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept_at = time.monotonic()

    @staticmethod
    @contextmanager
    def at(path: Path) -> Iterator[WorkFolder]:
        """A folder for one run at a time, which stays if an error ends the run.

        Raises UsageError if it can't be used, StoreUnavailable if another run is using it.
        """
        try:
            with suppress(FileExistsError):
                path.mkdir(0o700)
            _require_ours(path)
        except OSError as error:
            raise UsageError(
                f"work folder {path}: {error.strerror}: name another one (--work)"
            ) from error
        with held_alone(path / _LOCK, "wait for it, or name another folder (--work)"):
            try:
                yield WorkFolder(path)
            finally:
                # The folder is removed with its lock, unless work is left in it.
                if not (path / _JOB).exists():
                    with suppress(OSError):
                        (path / _LOCK).unlink()
                        path.rmdir()

    @staticmethod
    @contextmanager
    def temporary() -> Iterator[WorkFolder]:
        """A folder that is removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="esdedup-") as path:
            yield WorkFolder(Path(path))

    def read(self, store: Store, reading: Reading, job: Mapping[str, Any], step: OnStep) -> Columns:
        """The columns of all documents. Reads the shares that are not in the folder yet.

        job: parameters that tell the run from others: only a run with the same ones goes on.

        Raises UsageError if the folder holds the work of another run, or if the keep rule names a
        field that no document has.
        """
        meta = reading.meta
        documents = store.statistics(meta).sketched
        index = {
            "index": store.where,
            "address": store.address,
            "scheme": meta.scheme.id,
            "field": meta.field,
        }
        whole = {**index, "stop": list(meta.stop), **job}
        wanted = max(1, min(_MOST_SHARES, -(-documents // _DOCUMENTS_A_SHARE)))
        shares = self._claimed_shares(whole, wanted)
        files = [self.path / f"share-{number:04d}.npz" for number in range(1, shares + 1)]
        done = 0

        def on_read(count: int) -> None:
            nonlocal done
            done += count
            step("Reading tokens", min(done, documents), documents)

        with _naming(self.path):
            for number, file in enumerate(files, 1):
                if not file.exists():
                    _read_share(store, reading, Share(number, shares), file, on_read)
            return _read_columns(files, reading, self.path / _VALUES)

    def _claimed_shares(self, job: Mapping[str, Any], shares: int) -> int:
        """The number of shares of a job, for which it claims the folder: `shares` for a new one."""
        file = self.path / _JOB
        if not file.exists():
            with _naming(self.path), _written_whole(file) as out:
                out.write(json.dumps({**job, "shares": shares}).encode())
            return shares
        try:
            with _read(file) as raw:
                held = json.load(raw)
            shares = int(held["shares"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f"{file} can't be read, or esdedup did not write it: remove the folder, or name"
                " another one (--work)"
            ) from error
        for name, value in job.items():
            if held.get(name) != value:
                raise UsageError(
                    f"{self.path} holds unfinished work of another {name} ({held.get(name)}, not"
                    f" {value}): finish that, remove the folder, or name another one (--work)"
                )
        return shares

    def checkpoint(self, rows: int) -> Checkpoint:
        """The last checkpoint, or the state before any of `rows` rows is done."""
        file = self.path / _STATE
        if not file.exists():
            return Checkpoint(singletons(rows), singletons(rows), np.zeros(rows))
        with _naming(self.path), _read(file) as raw, np.load(raw) as state:
            partition, partner, value = (state[name] for name in ("partition", "partner", "value"))
            found = Checkpoint(partition, partner, value, int(state["rows"]))
        if found.partition.size != rows:
            raise StoreError(f"{self.path}: the files do not belong together: remove the folder")
        return found

    def keep(self, found: Checkpoint, rows: int) -> Checkpoint:
        """The checkpoint with `rows` rows done; writes it from time to time."""
        found = replace(found, rows=rows)
        if time.monotonic() - self._kept_at > _SECONDS_BETWEEN:
            with _naming(self.path), _written_whole(self.path / _STATE) as out:
                np.savez(out, **vars(found))
            self._kept_at = time.monotonic()
        return found

    def remove(self) -> None:
        """Removes our files. The folder itself goes at the end, if nothing else is in it."""
        with _naming(self.path):
            for file in [*self.path.iterdir()]:
                if _OURS.fullmatch(file.name) and not file.name.startswith(_LOCK):
                    file.unlink()


def _require_ours(path: Path) -> None:
    """Raises UsageError if a folder is a link, or holds anything that is not a file of ours."""
    if path.is_symlink():
        raise UsageError(f"work folder {path}: it is a symbolic link: name a folder (--work)")
    with os.scandir(path) as entries:
        for entry in entries:
            if not _OURS.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                raise UsageError(
                    f"work folder {path}: it holds {entry.name}, which esdedup did not write: take"
                    " that out, or name another folder (--work)"
                )


def _read(file: Path) -> IO[bytes]:
    return open_private(file, "rb", follow=False)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Names the folder in errors of reading and writing its files."""
    try:
        yield
    except EsdedupError:
        raise
    except (zipfile.BadZipFile, KeyError, EOFError, ValueError) as error:
        raise StoreError(f"{path}: a file is damaged: remove the folder ({error})") from error
    except OSError as error:
        raise StoreError(f"work folder {path}: {error.strerror or error}") from error


def _made(file: Path, mode: str) -> IO[bytes]:
    """Makes a file in place of one that a killed run left, or of a link, which stays unread."""
    file.unlink(missing_ok=True)
    return open_private(file, mode)


@contextmanager
def _written_whole(file: Path) -> Iterator[IO[bytes]]:
    """Opens a file to write, which gets its name only when all of it is written."""
    unfinished = file.with_name(f"{file.name}.tmp")
    with _made(unfinished, "xb") as out:
        yield out
    unfinished.replace(file)


def _read_share(
    store: Store, reading: Reading, share: Share, file: Path, on_read: Callable[[int], None]
) -> None:
    ids: list[str] = []
    keys: list[Any] = []
    parts = [_columns(store, [], reading)]
    for batch in store.scan(reading.paths, reading.meta, share):
        ids += [document.id for document in batch]
        keys += [reading.keep.key(document, reading.meta.text_fields) for document in batch]
        parts.append(_columns(store, batch, reading))
        on_read(len(batch))
    digests, filled, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    names = np.frombuffer(json.dumps({"ids": ids, "keys": keys}).encode(), np.uint8)
    with _written_whole(file) as out:
        np.savez(out, names=names, digests=digests, filled=filled, values=values.T)


def _columns(
    store: Store, batch: Sequence[Document], reading: Reading
) -> tuple[U64, Mask, NDArray[Any]]:
    """Digests, shape (n, 2), True for documents with tokens, (n,), and values, (n, width)."""
    digest_path, tokens_path, *_ = reading.paths
    written = [value_at(document.source, digest_path) for document in batch]
    try:
        digests = digest_words(written)
    except ValueError as error:
        raise StoreError(
            f"{store.where}: a document has tokens, but {error}: others may have changed it."
            " Index it again, or run esdedup backfill --stale"
        ) from error
    found = [value_at(document.source, tokens_path) for document in batch]
    tokens = [value for value in found if value is not None]
    # With digests alone, only texts without words have something to read.
    filled = np.array([(value is None) == (reading.metric is None) for value in found], np.bool_)
    values = np.zeros((len(batch), reading.width), reading.kind)
    try:
        if tokens and reading.metric == "jaccard":
            minhash = require_minhash(reading.meta.scheme)
            values[filled] = decode(tokens, minhash.bands, minhash.token_bits)
        elif tokens and reading.metric == "hamming":
            layout = require_simhash(reading.meta.scheme)
            segments = decode(tokens, len(layout.widths), layout.segment_bits)
            values[filled] = fingerprints_of(segments, layout)
    except ValueError as error:
        raise StoreError(f"{store.where}: tokens do not fit the index's scheme: {error}") from error
    return digests, filled, values


def _read_columns(files: Sequence[Path], reading: Reading, mapped: Path) -> Columns:
    """The columns of all shares, each document once, sorted. mapped: file to map values from."""
    ids: list[str] = []
    keys: list[Any] = []
    digests, filled, ends = [], [], [0]
    for file in files:
        with _read(file) as raw, np.load(raw) as part:
            read = json.loads(part["names"].tobytes())
            digests.append(part["digests"])
            filled.append(part["filled"])
        ids += read["ids"]
        keys += read["keys"]
        ends.append(len(ids))
    # A document that others wrote while shares were read may be in two of them.
    rows = list({id: row for row, id in enumerate(ids)}.values())
    order = np.array(reading.keep.order(ids, keys, rows), np.int64)
    values: NDArray[Any] = np.empty((reading.width, order.size), reading.kind)
    if values.size:
        with _made(mapped, "x+b") as out:
            values = np.memmap(out, values.dtype, "w+", shape=values.shape)
        place = np.full(len(ids), -1, np.int64)
        place[order] = np.arange(order.size)
        for file, (start, end) in zip(files, itertools.pairwise(ends), strict=True):
            kept = place[start:end] >= 0
            with _read(file) as raw, np.load(raw) as part:
                values[:, place[start:end][kept]] = part["values"][:, kept]
    names = [ids[row] for row in order.tolist()]
    return Columns(names, np.concatenate(digests)[order], np.concatenate(filled)[order], values)
