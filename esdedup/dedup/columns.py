"""Reads the tokens of all documents of an index, once, into columns: one array a field.

Each share of the documents is one file, written whole or not at all, so that a run that was killed
reads only the shares that are missing. Tokens are mapped from a file and not held in memory.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.representative import KeepRule
from esdedup.exceptions import StoreError
from esdedup.models import Document, Metric, Share
from esdedup.search.limits import require_minhash, require_simhash
from esdedup.sketch.simhash import from_hex
from esdedup.sketch.tokens import decode
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import U64, Mask


@dataclass(frozen=True)
class Columns:
    """Documents as rows, in their order of precedence.

    ids: of n documents. digests: of their texts, shape (n,).
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
        """The dotted names of the fields to read."""
        field = self.meta.field
        # With digests alone, the shortest tokens show whether a text has any shingle.
        short = self.metric is None and self.meta.scheme.simhash is not None
        tokens = "fingerprint" if short or self.metric == "hamming" else "minhash"
        wanted = [f"{field}.digest", f"{field}.{tokens}"]
        return wanted + self.keep.paths(self.meta.text_field)

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


def read_share(
    store: Store, reading: Reading, share: Share, file: Path, on_read: Callable[[int], None]
) -> None:
    """Reads one share of the documents into a file, unless the file exists."""
    if file.exists():
        return
    ids: list[str] = []
    keys: list[Any] = []
    digests: list[U64] = [np.empty(0, np.uint64)]
    filled: list[Mask] = [np.empty(0, np.bool_)]
    values: list[U64] = [np.empty((reading.width, 0), np.uint64)]
    for batch in store.scan(reading.paths, reading.meta, share):
        ids += [document.id for document in batch]
        keys += [reading.keep.key(document, reading.meta.text_field) for document in batch]
        digests.append(_digests(store, batch, reading.meta.field))
        has, row_values = _values(store, batch, reading)
        filled.append(has)
        values.append(row_values.T)
        on_read(len(batch))
    with written_whole(file) as out:
        np.savez(
            out,
            names=np.frombuffer(json.dumps({"ids": ids, "keys": keys}).encode(), np.uint8),
            digests=np.concatenate(digests),
            filled=np.concatenate(filled),
            values=np.concatenate(values, axis=1).astype(reading.kind),
        )


@contextmanager
def written_whole(file: Path) -> Iterator[BinaryIO]:
    """Opens a file to write, which gets its name only when all of it is written."""
    unfinished = file.with_suffix(".tmp")
    with unfinished.open("wb") as out:
        yield out
    unfinished.replace(file)


def read_columns(files: Sequence[Path], reading: Reading, folder: Path) -> Columns:
    """The columns of all shares, each document once, in the order of the keep rule.

    folder: takes the file that the values are mapped from.

    Raises UsageError if the rule names a field that no document has.
    """
    ids: list[str] = []
    keys: list[Any] = []
    digests, filled, ends = [], [], [0]
    for file in files:
        with file.open("rb") as raw, np.load(raw) as part:
            names = json.loads(part["names"].tobytes())
            digests.append(part["digests"])
            filled.append(part["filled"])
        ids += names["ids"]
        keys += names["keys"]
        ends.append(len(ids))
    # A document that others wrote while shares were read may be in two of them.
    rows = list({id: row for row, id in enumerate(ids)}.values())
    order = np.array(reading.keep.order(ids, keys, rows), np.int64)
    shape = (reading.width, order.size)
    values: NDArray[Any] = np.empty(shape, np.uint64)
    if values.size:
        values = np.lib.format.open_memmap(folder / "values.npy", "w+", reading.kind, shape)
        place = np.full(len(ids), -1, np.int64)
        place[order] = np.arange(order.size)
        for file, (start, end) in zip(files, itertools.pairwise(ends), strict=True):
            kept = place[start:end] >= 0
            with file.open("rb") as raw, np.load(raw) as part:
                values[:, place[start:end][kept]] = part["values"][:, kept]
    return Columns(
        [ids[row] for row in order.tolist()],
        np.concatenate(digests)[order],
        np.concatenate(filled)[order],
        values,
    )


def _digests(store: Store, batch: Sequence[Document], field: str) -> U64:
    found = []
    for document in batch:
        digest = value_at(document.source, f"{field}.digest")
        try:
            found.append(int(digest, 16))
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{store.where}: document {document.id!r} has tokens, but no valid digest: others"
                " may have changed it. Index it again, or run esdedup backfill --stale"
            ) from error
    return np.array(found, np.uint64)


def _values(store: Store, batch: Sequence[Document], reading: Reading) -> tuple[Mask, U64]:
    """True for each document with tokens, and the values of all, shape (documents, width)."""
    path = reading.paths[1]
    found = [value_at(document.source, path) for document in batch]
    has = np.array([value is not None for value in found], np.bool_)
    values = np.zeros((len(batch), reading.width), np.uint64)
    if reading.metric is None or not has.any():
        return has, values
    tokens = [value for value in found if value is not None]
    try:
        if reading.metric == "jaccard":
            minhash = require_minhash(reading.meta.scheme)
            values[has] = decode(tokens, minhash.bands, minhash.token_bits)
        else:
            values[has] = from_hex(tokens)
    except ValueError as error:
        raise StoreError(f"{store.where}: tokens do not fit the index's scheme: {error}") from error
    return has, values
