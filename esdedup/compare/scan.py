"""Read all documents of an index into a folder, from which a killed run resumes.

Each share of the documents is one file, written whole or not at all, so that a resumed run reads
only the missing shares. Columns are mapped from a file. Texts are kept too: reading one again takes
2 microseconds, and fetching it 23 and a request.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from esdedup.compare.keep_rule import Unordered, before_others
from esdedup.compare.plan import Plan
from esdedup.compare.strings import Numbers, Strings, natural_order
from esdedup.exceptions import EsdedupError, StoreError, UsageError
from esdedup.models import Document, Share, value_in
from esdedup.records.locations import folder_of, open_file
from esdedup.sketch.sketch import digest_words, hashed_words, is_digest, sketch, stored_values
from esdedup.stores.base import Store
from esdedup.stores.fields import text_at
from esdedup.stores.memory_mapped import mapped, mapped_zeros
from esdedup.stores.private_files import written_whole
from esdedup.stores.sqlite.database import held_alone
from esdedup.text.arrays import I64, U64, Mask, offsets_of
from esdedup.text.characters import count
from esdedup.text.hashing import xxh3
from esdedup.text.shingles import distinct

_JOB, _STATE, _LOCK = "job.json", "state.json", "lock"
_OURS = re.compile(
    r"\.?((job|state)\.json|values|records|decisions|share-\d{4,}\.npz|texts-\d{4,})(\.tmp)?|lock(-journal)?"
)
JUDGEMENTS = "set of judgements"
"""The parameter of a job that holds the digest of the judgements."""
DOCUMENTS_A_SHARE = 100_000
_BYTES_A_SHARE = 64 << 20
"""Texts of a share, which is in memory until it is written."""
_MOST_SHARES = 1024
_HELD_AT_ONCE = 1_000
_NAMED = 5
"""Documents that a message names."""
_TEXTS_AHEAD = 1 << 20
"""Bytes of texts at an address that one request fetches."""

log = logging.getLogger("esdedup")

OnStep = Callable[[str, int, int], None]
"""Called with the name of a step, the amount done, and the total."""
TextsOf = Callable[[I64], Callable[[], list[str]]]
"""Return a function that reads the texts of rows, shape (m,), or waits for them; one that reads
texts of a folder may be sent to another process."""


@dataclass(frozen=True)
class Part:
    """Some documents, as they were read.

    ids: of n documents. digests: of their texts, as `digest_words` returns them, shape (n, 2).
    filled: True for a document with tokens, shape (n,).
    values: band hashes, shape (n, bands), or words of fingerprints, shape (n, words).
    texts: if they were read. words: their numbers of words, shape (n,), if they were sketched.
    keys: of the keep rule, in bytes; none to order by ids alone.
    """

    ids: Strings
    digests: U64
    filled: Mask
    values: NDArray[Any]
    texts: Strings | None = None
    keys: Strings = Strings.of_bytes(())  # noqa: RUF009
    words: I64 | None = None

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
        )


@dataclass(frozen=True)
class ScanColumns:
    """Documents as rows, in their order of precedence.

    ids: of n documents. digests: of their texts, shape (n, 2).
    filled: True for a document with tokens, shape (n,).
    values: as of a part, but one value of all documents after another: shape (width, n).
    texts_of: returns the texts of rows. unordered: by the keep rule.
    unreadable: number of documents that were left out, as their digest or tokens can't be read.
    """

    ids: Sequence[str]
    digests: U64
    filled: Mask
    values: NDArray[Any]
    texts_of: TextsOf
    unordered: Unordered = Unordered()  # noqa: RUF009
    unreadable: int = 0

    @staticmethod
    def of(part: Part, texts: Sequence[str]) -> ScanColumns:
        """Return the documents of one part, in its order. texts: of all of them."""

        def texts_of(rows: I64) -> Callable[[], list[str]]:
            return lambda: [texts[row] for row in rows.tolist()]

        return ScanColumns(part.ids, part.digests, part.filled, part.values.T, texts_of)


@dataclass(frozen=True)
class FolderTexts:
    """The texts of rows, which are read in the order in which a folder's shares hold them.

    order: for each row its document, in the order read, shape (n,). ends: of the documents of all
    shares, shape (shares + 1,). offsets: of the texts of each share, one share after another.
    """

    folder: WorkFolder
    order: I64
    ends: I64
    offsets: I64

    def __call__(self, rows: I64) -> Callable[[], list[str]]:
        """Return a function that returns the texts of rows, shape (m,)."""
        return self.held(rows)(np.arange(rows.size))

    def sizes(self, rows: I64) -> I64:
        """Return the bytes of the texts of rows, shape (m,)."""
        at = self._places(rows)
        return self.offsets[at + 1] - self.offsets[at]

    def held(self, rows: I64) -> TextsOf:
        """Read texts into memory. The function has them by position among the rows."""
        places = self._places(rows)
        order = np.argsort(places)
        places = places[order]
        starts, sizes = self.offsets[places], self.sizes(rows[order])
        texts = Strings(np.empty(int(sizes.sum()), np.uint8), offsets_of(sizes))
        shares = np.searchsorted(places, self.ends + np.arange(self.ends.size))
        ranges = itertools.pairwise(shares.tolist())
        for share, (first, end) in zip(self.folder.shares(), ranges, strict=True):
            if first < end:
                parts = zip(starts[first:end].tolist(), sizes[first:end].tolist(), strict=True)
                read = self.folder.texts_at(share, parts)
                texts.raw[slice(*texts.offsets[[first, end]])] = np.frombuffer(read, np.uint8)
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        return lambda at: partial(list, texts.picked(position[at]))

    def _places(self, rows: I64) -> I64:
        """Return the positions of the texts in `offsets`."""
        documents = self.order[rows]
        return documents + np.searchsorted(self.ends, documents, "right") - 1


def texts_in(store: Store, text_fields: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """Return the texts of a store's documents; an empty one if a document or its text is gone."""

    def texts_of(ids: list[str]) -> list[str]:
        found = {document.id: document.source for document in store.get(ids, [*text_fields])}
        return [text_at(found.get(id, {}), text_fields) or "" for id in ids]

    return texts_of


class WorkFolder:
    """A folder that holds the columns of one run.

    claimed: the folder holds the work of this run, and not of another. before: files of shares that
    precede its own, each with the path or address at which it is kept beside its texts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.claimed = False
        self.before: Mapping[Path, str] = {}

    @staticmethod
    @contextmanager
    def at(path: Path) -> Iterator[WorkFolder]:
        """Open a folder for one run at a time; it stays if an error ends the run.

        Raises UsageError if it can't be used, StoreUnavailable if another run is using it.
        """
        try:
            with suppress(FileExistsError):
                path.mkdir(0o700)
            if path.is_symlink():
                raise UsageError(
                    f"work folder {path}: it is a symbolic link: name a folder (--work)"
                )
            for entry in path.iterdir():
                if not _OURS.fullmatch(entry.name) or entry.is_symlink() or not entry.is_file():
                    raise UsageError(
                        f"work folder {path}: it holds {entry.name}, which esdedup did not write:"
                        " remove that, or name another folder (--work)"
                    )
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
        """Open a folder that is removed afterwards."""
        with tempfile.TemporaryDirectory(prefix="esdedup-") as path:
            yield WorkFolder(Path(path))

    def read(self, store: Store, plan: Plan, job: Mapping[str, Any], step: OnStep) -> ScanColumns:
        """Return the columns of all documents, reading the shares that are missing.

        job: parameters of the run; only a run with the same ones resumes.

        Documents whose tokens can't be read are left out, with a warning that names them. Raises
        UsageError if the folder belongs to another run, or if the keep rule names a field that no
        document has.
        """
        meta = plan.meta
        documents = store.statistics(meta).sketched
        index = {
            "index": store.where,
            "address": store.address,
            "scheme": meta.scheme.id,
            "field": meta.field,
        }
        whole = {**index, "stop": list(meta.stop), "reading": str(plan.basis), **job}
        resumed = (self.path / _JOB).exists()
        wanted = max(1, min(_MOST_SHARES, -(-documents // DOCUMENTS_A_SHARE)))
        shares = self.claim(whole, wanted)
        unreadable = _Unreadable()
        done = 0

        def on_read(count: int) -> None:
            nonlocal done
            done += count
            step(f"Reading {plan.basis.read}", min(done, documents), documents)

        for number in range(1, shares + 1):
            if not self._share(number).exists():
                batches = store.scan(plan.paths, meta, Share(number, shares))
                self.write_share(number, _parts(plan, batches, unreadable, on_read))
        if resumed:
            self._add_arrivals(store, plan, unreadable)
        unreadable.warn(store.where)
        columns = replace(self.columns(plan), unreadable=len(unreadable))
        if plan.sketching is not None:
            return columns
        of_ids = texts_in(store, meta.text_fields)
        return replace(
            columns,
            texts_of=lambda rows: store.window.begin(
                of_ids, [columns.ids[row] for row in rows.tolist()]
            ),
        )

    def _add_arrivals(self, store: Store, plan: Plan, unreadable: _Unreadable) -> None:
        """Read the documents that came after their share was read, by an earlier run."""
        known = [np.empty(0, np.uint64)]
        known += [xxh3(self._ids(path), 0) for path in self.shares()]
        present = Strings.joined([_ids(batch) for batch in [[], *store.scan([], plan.meta)]])
        new = np.flatnonzero(~np.isin(xxh3(present, 0), np.concatenate(known)))
        if not new.size:
            return
        some = (new[at : at + _HELD_AT_ONCE] for at in range(0, new.size, _HELD_AT_ONCE))
        held = (store.hold([*present.picked(rows)], plan.paths) for rows in some)
        batches = ([one.document for one in each] for each in held)
        self.write_share(len(self.shares()) + 1, _parts(plan, batches, unreadable))

    def write_shares(self, parts: Iterable[Part]) -> None:
        """Write documents with texts, at least one part of them, to as many shares as needed."""
        number, waiting, documents, texts = 0, list[Part](), 0, 0
        for part in parts:
            waiting.append(part)
            documents += part.filled.size
            texts += 0 if part.texts is None else part.texts.raw.size
            if documents >= DOCUMENTS_A_SHARE or texts >= _BYTES_A_SHARE:
                number += 1
                self.write_share(number, waiting)
                waiting, documents, texts = [], 0, 0
        if waiting:
            self.write_share(number + 1, waiting)

    def write_share(self, number: int, parts: Iterable[Part]) -> None:
        """Write the documents of a share, from 1, whole or not at all; at least one part."""
        kept: list[Part] = []
        nothing = np.empty(0, np.int64)
        lengths = [nothing]
        with self._naming():
            with written_whole(_texts_of(self._share(number))) as out:
                for part in parts:
                    if part.texts is not None:
                        out.write(part.texts.raw.data)
                        lengths.append(part.texts.counts)
                    kept.append(replace(part, texts=None))
            ids = Strings.joined([part.ids for part in kept])
            keys = Strings.joined([part.keys for part in kept])
            words = [part.words for part in kept if part.words is not None]
            with written_whole(self._share(number)) as out:
                np.savez(
                    out,
                    ids=ids.raw,
                    id_offsets=ids.offsets,
                    keys=keys.raw,
                    key_offsets=keys.offsets,
                    text_offsets=offsets_of(np.concatenate(lengths)),
                    digests=np.concatenate([part.digests for part in kept]),
                    filled=np.concatenate([part.filled for part in kept]),
                    values=np.concatenate([part.values for part in kept]).T,
                    words=np.concatenate([nothing, *words]),
                )

    def columns(self, plan: Plan) -> ScanColumns:
        """Return the columns of all shares; of several documents of one id the last one stays.

        Numbered documents all stay. Raises UsageError if the keep rule names a field that no
        document has.
        """
        paths = self.shares()
        of_shares = [self._arrays(path, "keys", "key_offsets", "filled") for path in paths]
        keys = Strings.joined([Strings(*each[:2]) for each in of_shares])
        ends = offsets_of(np.array([each[2].size for each in of_shares]))
        ids: Sequence[str]
        unordered = plan.keep.unordered(keys, self.ids_of)
        if plan.numbered:
            order = plan.keep.order(np.arange(ends[-1]), keys)
            early = order < plan.earlier
            order = np.concatenate([order[early], order[~early]])
            order = mapped(self.path, [order])
            ids = Numbers(order)
        else:
            every = Strings.joined([*map(self._ids, paths)])
            by_id, first = natural_order(every)
            last = np.append(first[1:], True)[: first.size]
            order = plan.keep.order(by_id[last], keys)
            order = before_others(order, every, plan.first)
            ids = every.picked(order)
        offsets = mapped(self.path, (self._arrays(path, "text_offsets")[0] for path in paths))
        texts = FolderTexts(self, order, ends, offsets)
        return ScanColumns(ids, *self._ordered(order, ends, plan), texts, unordered)

    def _ordered(self, order: I64, ends: I64, plan: Plan) -> tuple[U64, Mask, NDArray[Any]]:
        """Return the digests, `filled` and values of rows in an order. ends: of all shares.

        Rows are in several ranges, so that one fits into memory where a file is written at random.
        """
        rows = order.size
        digests: U64 = mapped_zeros(self.path, (rows, 2), np.uint64)
        filled = np.empty(rows, np.bool_)
        values = mapped_zeros(self.path, (plan.width, rows), plan.dtype)
        place = np.full(ends[-1], -1, np.int64)
        place[order] = np.arange(rows)
        most = max(1, plan.memory // (32 + 2 * values.itemsize * plan.width))
        for low in range(0, rows, most):
            for path, (start, end) in zip(self.shares(), itertools.pairwise(ends), strict=True):
                kept = (place[start:end] >= low) & (place[start:end] < low + most)
                if kept.any():
                    here = place[start:end][kept]
                    of = self._arrays(path, "digests", "filled", "values")
                    digests[here], filled[here], values[:, here] = (
                        of[0][kept],
                        of[1][kept],
                        of[2][:, kept],
                    )
        return digests, filled, values

    def ids_of(self, documents: I64) -> list[str]:
        """Return the ids of documents by their numbers in the order read, shape (m,)."""
        found, start = [""] * documents.size, 0
        for path in self.shares():
            ids = self._ids(path)
            here = np.flatnonzero((documents >= start) & (documents < start + len(ids)))
            for at, row in zip(here.tolist(), (documents[here] - start).tolist(), strict=True):
                found[at] = ids[row]
            start += len(ids)
        return found

    def text_sizes(self) -> Iterator[I64]:
        """Yield the bytes and the words of the texts of each share, shape (2, n)."""
        for path in self.shares():
            offsets, words = self._arrays(path, "text_offsets", "words")
            yield np.stack([np.diff(offsets), words])

    def part(self, share: Path) -> Part:
        """Return the documents of a share."""
        with self._loaded(share) as of:
            ids, keys = Strings(of["ids"], of["id_offsets"]), Strings(of["keys"], of["key_offsets"])
            texts = Strings(np.fromfile(_texts_of(share), np.uint8), of["text_offsets"])
            values = of["values"].T
            return Part(ids, of["digests"], of["filled"], values, texts, keys, of["words"])

    def texts_at(self, share: Path, parts: Iterable[tuple[int, int]]) -> bytes:
        """Return texts of a share, joined. parts: (position, bytes) of each, ascending."""
        path, texts = str(_texts_of(share)), list[bytes]()
        if kept := self.before.get(share):
            path = f"{folder_of(kept)}/{_texts_of(share).name}"
        with self._naming(share), open_file(path, _TEXTS_AHEAD) as file:
            for at, size in parts:
                file.seek(at)
                texts.append(file.read(size))
                if len(texts[-1]) < size:
                    raise EOFError(f"{path} ends too early")
        return b"".join(texts)

    def state(self) -> dict[str, Any] | None:
        """Return what `save_state` saved last, None at first."""
        file = self.path / _STATE
        with self._naming():
            return json.loads(file.read_bytes()) if file.exists() else None

    def save_state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Save how far the job is, as JSON, and return it."""
        with self.writing(_STATE) as out:
            out.write(json.dumps(state).encode())
        return state

    @contextmanager
    def writing(self, name: str) -> Iterator[IO[bytes]]:
        """Open a file of the folder to write, which gets its name when all of it is written."""
        with self._naming(), written_whole(self.path / name) as out:
            yield out

    @contextmanager
    def _loaded(self, share: Path) -> Iterator[Any]:
        with self._naming(share), share.open("rb") as raw, np.load(raw) as arrays:
            yield arrays

    def _arrays(self, share: Path, *names: str) -> list[NDArray[Any]]:
        with self._loaded(share) as arrays:
            return [arrays[name] for name in names]

    def _ids(self, share: Path) -> Strings:
        return Strings(*self._arrays(share, "ids", "id_offsets"))

    @contextmanager
    def _naming(self, share: Path | None = None) -> Iterator[None]:
        """Name the folder, or a share that precedes its own, in errors of reading and writing."""
        kept = self.before.get(share or self.path)
        try:
            yield
        except EsdedupError:
            raise
        except (zipfile.BadZipFile, KeyError, EOFError, ValueError, RuntimeError) as error:
            mend = (
                "it is damaged: restore a copy" if kept else "a file is damaged: remove the folder"
            )
            raise StoreError(f"{kept or self.path}: {mend} ({error})") from error
        except OSError as error:
            name = kept or f"work folder {self.path}"
            raise StoreError(f"{name}: {error.strerror or error}") from error

    def files(self) -> list[Path]:
        """Return the files of all shares, and of the records."""
        return [*self.path.glob("share-*"), *self.path.glob("texts-*"), self.path / "records"]

    def _share(self, number: int) -> Path:
        return self.path / f"share-{number:04d}.npz"

    def shares(self) -> list[Path]:
        """Return the files of the shares, in the order of the documents."""
        own = sorted(self.path.glob("share-*.npz"), key=lambda file: int(file.stem[6:]))
        return [*self.before, *own]

    def claim(self, job: Mapping[str, Any], shares: int, again: bool = False) -> int:
        """Claim the folder for a job, and return its number of shares: `shares` for a new one.

        again: replace another job on files. Raises UsageError if the folder belongs to a job with
        other parameters.
        """
        file = self.path / _JOB
        if not file.exists():
            self.remove()  # A kill in `remove` leaves files of a job that is done.
            with self._naming(), written_whole(file) as out:
                out.write(json.dumps({**job, "shares": shares}).encode())
            self.claimed = True
            return shares
        try:
            held = json.loads(file.read_bytes())
            shares = int(held["shares"])
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise UsageError(
                f"{file} can't be read, or esdedup did not write it: remove the folder, or name"
                " another one (--work)"
            ) from error
        if differing := difference(held, job):
            if again and "list of files" in held:
                (self.path / _JOB).unlink()
                return self.claim(job, shares)
            raise UsageError(
                f"{self.path} belongs to an unfinished run with {differing}: finish that, remove"
                " the folder, or name another one (--work)"
            )
        self.claimed = True
        return shares

    def remove(self) -> None:
        """Remove our files. The folder itself goes at the end, if nothing else is in it."""
        with self._naming():
            (self.path / _JOB).unlink(missing_ok=True)  # First: the others count only with it.
            for file in [*self.path.iterdir()]:
                if _OURS.fullmatch(file.name) and not file.name.startswith(_LOCK):
                    file.unlink()


def _texts_of(share: Path) -> Path:
    return share.with_name(f"texts-{share.stem[6:]}")


def difference(held: Mapping[str, Any], wanted: Mapping[str, Any]) -> str | None:
    """Return the first of some wanted parameters that differs from those held, as words."""
    for name, value in wanted.items():
        if held.get(name) != value:
            return f"another {name} ({held.get(name)}, not {value})"
    return None


def _parts(
    plan: Plan,
    batches: Iterable[Sequence[Document]],
    unreadable: _Unreadable,
    on_read: Callable[[int], None] = lambda _: None,
) -> Iterator[Part]:
    fields = plan.meta.text_fields
    for batch in itertools.chain([[]], batches):
        if plan.sketching is None:
            yield _tokens(batch, plan, unreadable)
        else:
            # The text of a document with tokens can have been removed since.
            texts = [text_at(document.source, fields) or "" for document in batch]
            yield sketched(_ids(batch), texts, plan, plan.keep.keys(batch, fields))
        on_read(len(batch))


def sketched(
    ids: Strings,
    texts: Sequence[str],
    plan: Plan,
    keys: Strings = Strings.of_bytes(()),  # noqa: B008
) -> Part:
    """Return documents with the tokens of their texts. keys: of the keep rule, unless by words."""
    by_words = plan.keep.by == "words"
    sketches = sketch(texts, plan.compared.scheme, with_vocabulary=by_words)
    if sketches.vocabulary is not None and sketches.words is not None:
        keys = plan.keep.keys_by_words(sketches.vocabulary, sketches.words)
    values = np.zeros((len(texts), 0), np.uint64)
    if plan.sketch is not None and plan.width:
        values = sketches.values[plan.sketch.name]
    digests, kept = digest_words(sketches.digests), Strings.of(texts)
    values = values.astype(plan.dtype)
    return Part(ids, digests, sketches.filled, values, kept, keys, sketches.words)


class _Unreadable:
    """The documents whose tokens can't be read."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, ids: Iterable[str]) -> None:
        self._ids |= dict.fromkeys(ids)

    def warn(self, where: str) -> None:
        """Log how many there are, the first ids, and how to go on. where: the store."""
        if not self._ids:
            return
        first = ", ".join(map(repr, itertools.islice(self._ids, _NAMED)))
        more = len(self._ids) - _NAMED
        log.warning(
            "%s: the digest or tokens of %s can't be read, and count as none: %s. Another client"
            " may have changed them: run esdedup backfill --stale, and index those documents again"
            " of which only the tokens are wrong",
            where,
            count(len(self._ids), "document"),
            f"{first} and {more:,} more" if more > 0 else first,
        )


def _tokens(documents: Sequence[Document], plan: Plan, unreadable: _Unreadable) -> Part:
    """Return documents with their stored tokens, without those that can't be read."""
    digest_path, tokens_path, *_ = plan.paths
    of = plan.sketch
    readable = np.array(
        [is_digest(value_in(document.source, digest_path)) for document in documents], np.bool_
    )
    stored = [value_in(document.source, tokens_path) for document in documents]
    # With digests alone, only texts without words have something to read.
    filled = np.array([(value is None) == (of is None) for value in stored], np.bool_)
    values = np.zeros((len(documents), plan.width), plan.dtype)
    if of is not None and filled.any():
        rows = np.flatnonzero(filled)
        decoded, are_tokens = stored_values([stored[row] for row in rows], of)
        readable[rows[~are_tokens]] = False
        values[rows[are_tokens]] = decoded
    unreadable.add(documents[row].id for row in np.flatnonzero(~readable).tolist())
    batch = [documents[row] for row in np.flatnonzero(readable).tolist()]
    digests = digest_words([value_in(document.source, digest_path) for document in batch])
    keys = _keys(batch, plan)
    return Part(_ids(batch), digests, filled[readable], values[readable], keys=keys)


def _keys(batch: Sequence[Document], plan: Plan) -> Strings:
    """Return the keys of documents whose texts are not sketched."""
    keep, meta = plan.keep, plan.meta
    if keep.by != "words":
        return keep.keys(batch, meta.text_fields)
    texts = [text_at(document.source, meta.text_fields) or "" for document in batch]
    _, words = hashed_words(texts, meta.scheme)
    return keep.keys_by_words(distinct(words).counts, words.counts)


def _ids(batch: Sequence[Document]) -> Strings:
    return Strings.of([document.id for document in batch])
