"""Sketch the records of files into a run, from which any number of processes can go on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from esdedup.cleaning.removals import Corpus
from esdedup.compare.source import FileSource, ReadChunk
from esdedup.index import Index
from esdedup.records.files import Chunk, Record
from esdedup.runs.shares import Shares
from esdedup.stores.fields import text_at, value_at

SKETCHED = "sketched.json"
"""The file of a run with which its documents are sketched."""
RECORDS = "records"


@dataclass(frozen=True)
class StoredRecords:
    """The records of files that earlier runs have read.

    lines: of all records, as bytes.
    counts: the number of records of each file.
    """

    lines: Iterable[bytes] = ()
    counts: Sequence[int] = ()


def chunks_of(index: Index, text_field: str, other_fields: Sequence[str]) -> Iterator[Chunk]:
    """Yield the documents of an index in chunks: their ids, and their texts in a field.

    other_fields: that they have too.
    """
    text_fields, total = index.meta.text_fields, 0
    for batch in index.store.scan([*dict.fromkeys([*text_fields, *other_fields])], index.meta):
        records = [
            Record(
                index.store.where,
                line,
                {
                    **{name: value_at(document.source, name) for name in other_fields},
                    text_field: text_at(document.source, text_fields),
                },
                document.id,
            )
            for line, document in enumerate(batch, total + 1)
        ]
        yield Chunk(partial(list, records))
        total += len(batch)


def sketch_into(
    shares: Shares,
    source: FileSource,
    names: Sequence[str],
    on_read: Callable[[int], None],
    before: StoredRecords = StoredRecords(),
) -> None:
    """Write the sketches of files to the shares of a run, unless an earlier run has done so.

    names: of the files of the source. on_read: called with the number of records so far. before:
    the records of the shares that come before.
    """
    run = shares.run
    if run.has(SKETCHED):
        return
    counts = dict.fromkeys(names, 0)
    with run.writing(RECORDS) as records:
        for lines in before.lines:
            records.write(lines)

        def on_chunk(chunk: ReadChunk) -> None:
            records.write(chunk.lines.tobytes())
            for name, number in chunk.files:
                counts[name] += number
            on_read(records.tell() // chunk.lines.itemsize)

        shares.write_all(replace(source, on_chunk=on_chunk).parts())
    run.save_value(SKETCHED, {"counts": [*before.counts, *counts.values()]})


def corpus_of(shares: Shares, names: Sequence[str], earlier: int) -> Corpus:
    """Return the records that a run has sketched.

    names: of all files, of which the first `earlier` ones are only compared with.
    """
    counts = np.array(shares.run.value_of(SKETCHED)["counts"], np.int64)
    file = shares.run.folder / RECORDS
    # An empty file can't be mapped.
    lines = np.memmap(file, np.int64, "r") if file.stat().st_size else np.empty(0, np.int64)
    return Corpus(shares, names, earlier, counts, lines)
