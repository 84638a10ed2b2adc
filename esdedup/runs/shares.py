"""Documents that a run stores in shares, each of which is whole or missing.

A resumed run reads only the missing shares. The arrays of a share are in one file, its texts in
another: reading one again takes 2 microseconds, and fetching it from a server 23 and a request.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import StoreError
from esdedup.records.locations import folder_of, open_file
from esdedup.runs.places import PlacedIds, PlacesOfDocuments
from esdedup.runs.run import Arrays, Run, ShareSizes, array_names, load_arrays, reported
from esdedup.text.arrays import I64, U64, Mask, offsets_of
from esdedup.text.strings import Strings

TextsOf = Callable[[I64], Callable[[], list[str]]]
"""Called with rows, shape (m,). Returns a function without arguments that returns their texts.

In between, texts of a server are being fetched, and texts of a folder are not read yet, so that
another process may call the function."""

_SHARE, _TEXTS = "share-", "texts-"
"""Beginnings of the names of files. The number of the share follows."""
_SCOPES = "scopes"
"""The array of the scopes of documents, in the shares of runs whose plan has a scope."""
_LABELS = "labels", "label_offsets"
"""The arrays of the labels of documents, in the shares of runs whose plan has fields of these."""
_JUDGED = "judged"
"""The array of digests of judged texts, in the shares of runs whose plan has fields of these."""
_PLACES, _PLACE_NAMES, _PLACE_OFFSETS = "places", "place_names", "place_offsets"
"""The arrays of the places of documents, in the shares of runs that read several places."""


@dataclass(frozen=True)
class Part:
    """Some documents, as they were read.

    ids: of n documents.
    digests: of their texts, as `digest_words` returns them, shape (n, 2).
    filled: True for a document with tokens, shape (n,).
    values: band hashes, shape (n, bands), or words of fingerprints, shape (n, words).
    texts: if they were read.
    keys: of the keep rule, in bytes; none to order by ids alone.
    words: numbers of words of the texts, shape (n,), if they were sketched.
    scopes: as `scope_words` returns them, shape (n, words), if the plan has a scope.
    labels: as `labels_of` returns them, if the plan has fields of these.
    places: the files or indices that they are in, where several can have an id.
    judged: digests of the texts that judgements are of, zeros without one, shape (n, 2), if the
        plan has fields of these.
    """

    ids: Strings
    digests: U64
    filled: Mask
    values: NDArray[Any]
    texts: Strings | None = None
    keys: Strings = Strings.of_bytes(())  # noqa: RUF009
    words: I64 | None = None
    scopes: U64 | None = None
    labels: Strings | None = None
    places: PlacesOfDocuments | None = None
    judged: U64 | None = None

    def picked(self, rows: I64) -> Part:
        """Return some documents."""
        return Part(
            self.ids.picked(rows),
            self.digests[rows],
            self.filled[rows],
            self.values[rows],
            None if self.texts is None else self.texts.picked(rows),
            self.keys.picked(rows) if len(self.keys) else self.keys,
            None if self.words is None else self.words[rows],
            None if self.scopes is None else self.scopes[rows],
            None if self.labels is None else self.labels.picked(rows),
            None if self.places is None else self.places.picked(rows),
            None if self.judged is None else self.judged[rows],
        )


@dataclass(frozen=True)
class StoredShare:
    """The documents of one share.

    file: its arrays, on this machine.
    texts: the path or address of its texts.
    name: of the folder or file, in errors.
    advice: what to do if it is damaged.
    sizes: of what is fetched at once.
    """

    file: Path
    texts: str
    name: str
    advice: str
    sizes: ShareSizes

    @staticmethod
    def of_earlier_run(file: Path, origin: str, sizes: ShareSizes) -> StoredShare:
        """Return a share of an earlier run. origin: where it is stored, beside its texts."""
        texts = f"{folder_of(origin)}/{texts_name(number_of(file))}"
        return StoredShare(file, texts, origin, "it is damaged: restore a copy", sizes)

    def arrays(self, *names: str) -> Arrays:
        """Return some of the arrays, by default all."""
        with self._reporting_errors(), self.file.open("rb") as file:
            return load_arrays(file, *names)

    def strings(self, name: str, offsets: str) -> Strings:
        """Return strings that are stored as two arrays."""
        arrays = self.arrays(name, offsets)
        return Strings(arrays[name], arrays[offsets])

    def ids(self) -> Strings:
        """Return the ids of the documents."""
        return self.strings("ids", "id_offsets")

    def full_ids(self) -> Strings:
        """Return the ids of the documents, with their places if the run stored these."""
        ids, places = self.ids(), self.places()
        if places is None:
            return ids
        return Strings.of(PlacedIds(ids, places.numbers, places.names))

    def scopes(self) -> U64:
        """Return the scopes of the documents, of a run whose plan has a scope."""
        words: U64 = self.arrays(_SCOPES)[_SCOPES].T
        return words

    def labels(self) -> Strings:
        """Return the labels of the documents, of a run whose plan has fields of these."""
        return self.strings(*_LABELS)

    def judged(self) -> U64:
        """Return the digests of the judged texts, of a run whose plan has fields of these."""
        words: U64 = self.arrays(_JUDGED)[_JUDGED]
        return words

    def places(self) -> PlacesOfDocuments | None:
        """Return the places of the documents, if the run stored them."""
        with self._reporting_errors(), self.file.open("rb") as file:
            if _PLACES not in array_names(file):
                return None
        arrays = self.arrays(_PLACES, _PLACE_NAMES, _PLACE_OFFSETS)
        names = Strings(arrays[_PLACE_NAMES], arrays[_PLACE_OFFSETS])
        return PlacesOfDocuments(tuple(names), arrays[_PLACES])

    def part(self) -> Part:
        """Return the documents, of a share whose texts are on this machine."""
        arrays = self.arrays()
        with self._reporting_errors():
            raw = np.fromfile(self.texts, np.uint8)
        return Part(
            Strings(arrays["ids"], arrays["id_offsets"]),
            arrays["digests"],
            arrays["filled"],
            arrays["values"].T,
            Strings(raw, arrays["text_offsets"]),
            Strings(arrays["keys"], arrays["key_offsets"]),
            arrays["words"],
            arrays[_SCOPES].T if _SCOPES in arrays else None,
            Strings(*(arrays[name] for name in _LABELS)) if _LABELS[0] in arrays else None,
        )

    def read_texts(self, ranges: Iterable[tuple[int, int]]) -> bytes:
        """Return some texts, joined. ranges: (position, bytes) of each, ascending."""
        texts = list[bytes]()
        with self._reporting_errors(), open_file(self.texts, self.sizes.ahead) as file:
            for position, size in ranges:
                file.seek(position)
                text = file.read(size)
                if len(text) < size:
                    raise EOFError(f"{self.texts} ends too early")
                texts.append(text)
        return b"".join(texts)

    def _reporting_errors(self) -> AbstractContextManager[None]:
        return reported(self.name, self.advice)


@dataclass(frozen=True)
class TextSizes:
    """The sizes of the texts of a share.

    bytes: of each text, shape (n,).
    words: of each text, shape (n,).
    """

    bytes: I64
    words: I64


@dataclass(frozen=True)
class Shares:
    """The shares of a run on this machine.

    run: whose folder they are in.
    earlier: shares of earlier runs, which precede its own.
    """

    run: Run
    earlier: Sequence[StoredShare] = ()

    @property
    def sizes(self) -> ShareSizes:
        """The sizes of the run."""
        return self.run.sizes

    def all(self) -> list[StoredShare]:
        """Return the shares, in the order of their documents."""
        return [*self.earlier, *self.written()]

    def written(self) -> list[StoredShare]:
        """Return the shares that the run itself has written."""
        name, advice = f"work folder {self.run.place}", "a file is damaged: remove the folder"
        shares: list[StoredShare] = []
        for file in sorted(self.run.folder.glob(f"{_SHARE}*.npz"), key=number_of):
            texts = file.with_name(texts_name(number_of(file)))
            shares.append(StoredShare(file, str(texts), name, advice, self.sizes))
        return shares

    def files(self) -> list[Path]:
        """Return the files of the shares that the run has written, arrays and texts."""
        return [file for share in self.written() for file in (share.file, Path(share.texts))]

    def has(self, number: int) -> bool:
        """Return whether a share of this number, from 1, is written."""
        return self.run.has(share_name(number))

    def write_all(self, parts: Iterable[Part]) -> None:
        """Write documents with texts, at least one part of them, to as many shares as needed."""
        number, unwritten = 1, list[Part]()
        number_of_documents, bytes_of_texts = 0, 0
        for part in parts:
            unwritten.append(part)
            number_of_documents += part.filled.size
            if part.texts is not None:
                bytes_of_texts += part.texts.raw.size
            is_full = number_of_documents >= self.sizes.documents
            if is_full or bytes_of_texts >= self.sizes.bytes:
                self.write(number, unwritten)
                number, unwritten = number + 1, []
                number_of_documents, bytes_of_texts = 0, 0
        if unwritten:
            self.write(number, unwritten)

    def write(self, number: int, parts: Iterable[Part]) -> None:
        """Write the documents of a share, from 1, whole or not at all; at least one part."""
        without_texts: list[Part] = []
        no_numbers = np.empty(0, np.int64)
        text_sizes = [no_numbers]
        with self.run.writing(texts_name(number)) as out:
            for part in parts:
                if part.texts is not None:
                    out.write(part.texts.raw.data)
                    text_sizes.append(part.texts.counts)
                without_texts.append(replace(part, texts=None))
        ids = Strings.joined([part.ids for part in without_texts])
        keys = Strings.joined([part.keys for part in without_texts])
        words = [part.words for part in without_texts if part.words is not None]
        arrays = {
            "ids": ids.raw,
            "id_offsets": ids.offsets,
            "keys": keys.raw,
            "key_offsets": keys.offsets,
            "text_offsets": offsets_of(np.concatenate(text_sizes)),
            "digests": np.concatenate([part.digests for part in without_texts]),
            "filled": np.concatenate([part.filled for part in without_texts]),
            "values": np.concatenate([part.values for part in without_texts]).T,
            "words": np.concatenate([no_numbers, *words]),
        }
        scopes = [part.scopes for part in without_texts if part.scopes is not None]
        if scopes:
            arrays[_SCOPES] = np.concatenate(scopes).T
        labels = [part.labels for part in without_texts if part.labels is not None]
        if labels:
            label_strings = Strings.joined(labels)
            arrays.update(zip(_LABELS, (label_strings.raw, label_strings.offsets), strict=True))
        judged = [part.judged for part in without_texts if part.judged is not None]
        if judged:
            arrays[_JUDGED] = np.concatenate(judged)
        places = [part.places for part in without_texts if part.places is not None]
        if places:
            joined = PlacesOfDocuments.joined(places)
            names = Strings.of(joined.names)
            arrays[_PLACES] = joined.numbers
            arrays |= {_PLACE_NAMES: names.raw, _PLACE_OFFSETS: names.offsets}
        self.run.save(share_name(number), arrays)

    def places(self) -> PlacesOfDocuments | None:
        """Return the places of all documents, if the run stored them."""
        places = [share.places() for share in self.all()]
        stored = [places_of_share for places_of_share in places if places_of_share is not None]
        if not stored:
            return None
        documents = sum(places_of_share.numbers.size for places_of_share in stored)
        if documents != sum(share.arrays("filled")["filled"].size for share in self.all()):
            raise StoreError(
                f"work folder {self.run.place}: the name stands for several indices now, and for"
                " one when other documents were read: remove the folder"
            )
        return PlacesOfDocuments.joined(stored)

    def ids_of(self, numbers: I64) -> list[str]:
        """Return the ids of documents by their numbers in the order read, shape (m,)."""
        ids, start = [""] * numbers.size, 0
        for share in self.all():
            share_ids = share.ids()
            end = start + len(share_ids)
            positions = np.flatnonzero((numbers >= start) & (numbers < end))
            rows = numbers[positions] - start
            for position, row in zip(positions.tolist(), rows.tolist(), strict=True):
                ids[position] = share_ids[row]
            start = end
        return ids

    def text_sizes(self) -> Iterator[TextSizes]:
        """Yield the sizes of the texts of each share."""
        for share in self.all():
            arrays = share.arrays("text_offsets", "words")
            yield TextSizes(np.diff(arrays["text_offsets"]), arrays["words"])


@dataclass(frozen=True)
class StoredTexts:
    """The texts of rows, which are read in the order in which shares store them.

    shares: that have them.
    order: for each row the number of its document, in the order read, shape (n,).
    ends: number of the first document of each share, and of all documents, shape (shares + 1,).
    offsets: where each text starts in the file of its share, and where the last one of the share
        ends, one share after another, shape (documents + shares,).
    """

    shares: Shares
    order: I64
    ends: I64
    offsets: I64

    def __call__(self, rows: I64) -> Callable[[], list[str]]:
        """Return a function that returns the texts of rows, shape (m,)."""
        return self.in_memory(rows)(np.arange(rows.size))

    def sizes(self, rows: I64) -> I64:
        """Return the bytes of the texts of rows, shape (m,)."""
        positions = self._positions(rows)
        return self.offsets[positions + 1] - self.offsets[positions]

    def in_memory(self, rows: I64) -> TextsOf:
        """Read the texts of rows; return a function of positions among the rows, not of rows."""
        positions = self._positions(rows)
        # Each file is read from its beginning to its end.
        reading_order = np.argsort(positions)
        texts = self._read(positions[reading_order])
        read_at = np.empty_like(reading_order)
        read_at[reading_order] = np.arange(reading_order.size)
        return lambda chosen: partial(list, texts.picked(read_at[chosen]))

    def _read(self, positions: I64) -> Strings:
        """Return texts by their positions in `offsets`, ascending, shape (m,)."""
        starts = self.offsets[positions]
        sizes = self.offsets[positions + 1] - starts
        texts = Strings(np.empty(int(sizes.sum()), np.uint8), offsets_of(sizes))
        first_positions = self.ends + np.arange(self.ends.size)
        bounds = np.searchsorted(positions, first_positions).tolist()
        for share, (first, end) in zip(self.shares.all(), itertools.pairwise(bounds), strict=True):
            if first < end:
                ranges = zip(starts[first:end].tolist(), sizes[first:end].tolist(), strict=True)
                raw = np.frombuffer(share.read_texts(ranges), np.uint8)
                texts.raw[texts.offsets[first] : texts.offsets[end]] = raw
        return texts

    def _positions(self, rows: I64) -> I64:
        """Return the positions of the texts of rows in `offsets`, shape (m,)."""
        numbers = self.order[rows]
        # Each share before a document's own has one offset more than documents.
        shares_before = np.searchsorted(self.ends, numbers, "right") - 1
        return numbers + shares_before


def share_name(number: int) -> str:
    """Return the name of the arrays of a share, from 1."""
    return f"{_SHARE}{number:04d}.npz"


def texts_name(number: int) -> str:
    """Return the name of the texts of a share, from 1."""
    return f"{_TEXTS}{number:04d}"


def number_of(file: Path) -> int:
    """Return the number of a share by the file of its arrays."""
    return int(file.stem.removeprefix(_SHARE))
