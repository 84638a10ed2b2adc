"""What grouping needs of all documents of an index, read once and kept as columns in files.

Each share of the documents is one file, written whole or not at all, so that a run that was killed
goes on with the shares that it lacks. The columns are mapped into memory and not held in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.dedup.representative import KeepRule
from esdedup.exceptions import StoreError
from esdedup.models import Document, Metric, Share
from esdedup.sketch.simhash import from_hex
from esdedup.sketch.tokens import decode
from esdedup.stores.base import Store
from esdedup.stores.fields import value_at
from esdedup.stores.mapping import IndexMeta
from esdedup.text.arrays import I64, U64

_DOCUMENTS_A_SHARE = 100_000
_MOST_SHARES = 1024


@dataclass(frozen=True)
class Columns:
    """Documents as rows, in the order in which they take precedence.

    ids: of n documents. digests: shape (n,), uint64. filled: whether a document has tokens, shape
    (n,). values: band hashes, shape (bands, n), or words of fingerprints, shape (words, n).
    """

    ids: list[str]
    digests: U64
    filled: NDArray[np.bool_]
    values: NDArray[Any]


@dataclass(frozen=True)
class Reading:
    """What to read: the tokens of a metric, or None for digests alone; and what the rule needs."""

    meta: IndexMeta
    metric: Metric | None
    keep: KeepRule

    @property
    def paths(self) -> list[str]:
        """The fields."""
        field = self.meta.field
        # For digests alone, whatever tells at least cost whether a text has any shingle.
        short = self.metric is None and self.meta.scheme.simhash is not None
        tokens = "fingerprint" if short or self.metric == "hamming" else "minhash"
        wanted = [f"{field}.digest", f"{field}.{tokens}"]
        return wanted + self.keep.paths(self.meta.text_field)

    @property
    def width(self) -> int:
        """Values a document."""
        scheme = self.meta.scheme
        if self.metric == "jaccard" and scheme.minhash is not None:
            return scheme.minhash.bands
        if self.metric == "hamming" and scheme.simhash is not None:
            return scheme.simhash.layout.bits // 64
        return 0


def shares_of(documents: int) -> int:
    """How many shares so many documents are read in."""
    return max(1, min(_MOST_SHARES, -(-documents // _DOCUMENTS_A_SHARE)))


def read_share(
    store: Store, reading: Reading, share: Share, file: Path, on_read: Callable[[int], None]
) -> None:
    """Reads one share of the documents into a file, unless it is there."""
    if file.exists():
        return
    ids: list[str] = []
    keys: list[Any] = []
    digests: list[U64] = [np.empty(0, np.uint64)]
    filled: list[NDArray[np.bool_]] = [np.empty(0, np.bool_)]
    values: list[U64] = [np.empty((reading.width, 0), np.uint64)]
    for batch in store.scan(reading.paths, reading.meta, share):
        ids += [document.id for document in batch]
        keys += [reading.keep.key(document, reading.meta.text_field) for document in batch]
        digests.append(_digests(store, batch, reading.meta.field))
        has, row_values = _values(store, batch, reading)
        filled.append(has)
        values.append(row_values.T)
        on_read(len(batch))
    unfinished = file.with_suffix(".tmp")
    with unfinished.open("wb") as out:
        np.savez(
            out,
            names=_packed({"ids": ids, "keys": keys}),
            digests=np.concatenate(digests),
            filled=np.concatenate(filled),
            values=np.concatenate(values, axis=1).astype(value_type(reading)),
        )
    unfinished.replace(file)


def read_columns(files: Sequence[Path], reading: Reading, folder: Path) -> Columns:
    """The columns of all shares, each document once, in the order of the rule.

    folder: for the file that the values are mapped from. Raises UsageError where the rule names a
    field that no document has.
    """
    ids: list[str] = []
    keys: list[Any] = []
    digests, filled, sizes = [], [], []
    for file in files:
        with file.open("rb") as raw, np.load(raw) as part:
            names = json.loads(part["names"].tobytes())
            ids += names["ids"]
            keys += names["keys"]
            digests.append(part["digests"])
            filled.append(part["filled"])
            sizes.append(len(names["ids"]))
    # A document that somebody wrote while shares were read may be in two of them.
    rows = list({id: row for row, id in enumerate(ids)}.values())
    order = np.array(reading.keep.order(ids, keys, rows), np.int64)
    place = np.full(len(ids), -1, np.int64)
    place[order] = np.arange(order.size)
    return Columns(
        [ids[row] for row in order.tolist()],
        np.concatenate(digests)[order],
        np.concatenate(filled)[order],
        _mapped_values(files, sizes, place, reading, folder),
    )


def _mapped_values(
    files: Sequence[Path], sizes: Sequence[int], place: I64, reading: Reading, folder: Path
) -> NDArray[Any]:
    """The values in the order of their rows; place: the row of each document read, or -1."""
    shape = (reading.width, int((place >= 0).sum()))
    if not shape[0] or not shape[1]:
        return np.empty(shape, np.uint64)
    kind = value_type(reading)
    mapped = np.lib.format.open_memmap(folder / "values.npy", "w+", kind, shape)
    for file, places in zip(files, np.split(place, np.cumsum(sizes)[:-1]), strict=True):
        with file.open("rb") as raw, np.load(raw) as part:
            mapped[:, places[places >= 0]] = part["values"][:, places >= 0]
    values: NDArray[Any] = mapped
    return values


def value_type(reading: Reading) -> type[np.unsignedinteger[Any]]:
    """The type of a document's values: as narrow as they are."""
    minhash = reading.meta.scheme.minhash
    narrow = reading.metric == "jaccard" and minhash is not None and minhash.token_bits <= 32
    return np.uint32 if narrow else np.uint64


def _packed(document: Any) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(document).encode(), np.uint8)


def _digests(store: Store, batch: Sequence[Document], field: str) -> U64:
    found = []
    for document in batch:
        digest = value_at(document.source, f"{field}.digest")
        try:
            found.append(int(digest, 16))
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{store.where}: document {document.id!r} has tokens, and no digest of ours: was it"
                " changed by others? Index it anew, or esdedup backfill --stale"
            ) from error
    return np.array(found, np.uint64)


def _values(
    store: Store, batch: Sequence[Document], reading: Reading
) -> tuple[NDArray[np.bool_], U64]:
    """Which documents have tokens, and the values of all, shape (documents, width)."""
    path = reading.paths[1]
    found = [value_at(document.source, path) for document in batch]
    has = np.array([value is not None for value in found], np.bool_)
    values = np.zeros((len(batch), reading.width), np.uint64)
    if reading.metric is not None and has.any():
        values[has] = _decoded(store, [each for each in found if each is not None], reading)
    return has, values


def _decoded(store: Store, found: Sequence[Any], reading: Reading) -> U64:
    minhash = reading.meta.scheme.minhash
    try:
        if reading.metric == "jaccard" and minhash is not None:
            return decode(found, minhash.bands, minhash.token_bits)
        return from_hex(found)
    except ValueError as error:
        raise StoreError(f"{store.where}: tokens that are not of its scheme: {error}") from error
