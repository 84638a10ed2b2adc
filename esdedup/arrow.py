"""Sketches the texts of Arrow record batches, for engines that hand these to Python.

Spark's `mapInArrow`, Polars, DuckDB, `map_batches` of Ray Data, `daft.func.batch`, and `map` of
Hugging Face `datasets` call the same function. Columns of the input are passed on and the new
columns are views of numpy arrays: neither is copied. Texts become Python's strings.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from esdedup.exceptions import MissingExtra, UsageError
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import sketch
from esdedup.sketch.tokens import flat, token_length, write_into
from esdedup.text.arrays import I64, Mask, Values, offsets_of

try:
    import pyarrow as pa
except ImportError as error:
    raise MissingExtra("Arrow needs pyarrow: pip install 'esdedup[parquet]'") from error

_Data = TypeVar("_Data", pa.RecordBatch, pa.Table)
_ROWS_AT_ONCE = 10_000
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def tokens(data: _Data, scheme: Scheme | None = None, text_field: str = "text") -> _Data:
    """Return a record batch or a table with the columns of `token_fields` behind its own.

    data: with a column of strings, or of what the sketch reads, whose rows may be null; anything
    else with Arrow's `__arrow_c_stream__`, such as a DataFrame of Polars, becomes a table. scheme:
    `Scheme()` by default.

    Raises UsageError for other data, if there is no such column, and if a new column is there
    already; RecordError for a value that the sketch can't read.
    """
    if not isinstance(data, pa.RecordBatch | pa.Table):
        if not hasattr(data, "__arrow_c_stream__"):
            raise UsageError(f"data: use Arrow data, not {type(data).__name__}")
        data = pa.table(data)
    scheme = scheme or Scheme()
    if scheme.by_server:
        raise UsageError(f"an index computes the tokens of {scheme.names[0]!r}: leave it out here")
    fields: list[pa.Field] = token_fields(scheme)
    if existing := [field.name for field in fields if field.name in data.schema.names]:
        raise UsageError(f"column {existing[0]!r} is there already: rename it")
    # Few rows at a time, whose sketches fit into memory; also of no rows, to check the column.
    steps = range(0, max(1, data.num_rows), _ROWS_AT_ONCE)
    blocks = (data.slice(first, _ROWS_AT_ONCE) for first in steps)
    columns_of_blocks = [_columns(texts_in(block, text_field, scheme), scheme) for block in blocks]
    for field, chunks in zip(fields, zip(*columns_of_blocks, strict=True), strict=True):
        column = pa.chunked_array(chunks, field.type)
        if isinstance(data, pa.RecordBatch):
            # Combining copies a single chunk too.
            column = chunks[0] if len(chunks) == 1 else column.combine_chunks()
        data = data.append_column(field, column)
    return data


def token_fields(scheme: Scheme) -> list[pa.Field]:
    """The columns that `tokens` adds.

    digest: string, of the normalised text. KEY: list of strings, the tokens of each sketch; null
    for a text without words. KEY_values: list of int64, the fingerprint, for each sketch that
    Hamming distance compares. All are null if the text is null.
    """
    lists: dict[str, pa.DataType] = {key: pa.list_(pa.string()) for key in scheme.keys}
    for stored in _stored(scheme):
        lists[f"{stored.key}_values"] = pa.list_(pa.int64())
    columns = {"digest": pa.string(), **lists}
    return [pa.field(name, kind) for name, kind in columns.items()]


def texts_in(batch: pa.RecordBatch | pa.Table, text_field: str, scheme: Scheme) -> list[str | None]:
    """Return the texts of a batch, shape (n,). Raises UsageError for a column of other values."""
    if batch.schema.names.count(text_field) > 1:
        raise UsageError(f"there are several columns {text_field!r}: rename all but one")
    if text_field not in batch.schema.names:
        listed = ", ".join(batch.schema.names)
        raise UsageError(f"there is no column {text_field!r}; there are: {listed}")
    column, first = batch.column(text_field), scheme.sketches[0]
    if first.reads_values:
        return [value if value is None else first.text(value) for value in column.to_pylist()]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not any(fits(kind) for fits in _TEXTS):
        raise UsageError(f"column {text_field!r} is of type {kind}: use one of strings")
    texts: list[str | None] = column.to_pylist()
    return texts


def _columns(texts: Sequence[str | None], scheme: Scheme) -> list[pa.Array]:
    has_text = np.array([text is not None for text in texts], np.bool_)
    rows = np.flatnonzero(has_text)
    sketches = sketch([text for text in texts if text is not None], scheme)
    digests = np.full(has_text.size, None, np.object_)
    digests[rows] = sketches.digests
    # Texts without words have only a digest.
    filled = np.zeros(has_text.size, np.bool_)
    filled[rows] = sketches.filled
    with_words = sketches.of(np.flatnonzero(sketches.filled))
    counts_and_values: list[tuple[I64 | int, pa.Array]] = [
        _tokens(kind.token_values(with_words.values[kind.name]), kind.bits)
        for kind in scheme.sketches
    ]
    for stored in _stored(scheme):
        fingerprints = np.ascontiguousarray(with_words.values[stored.name])
        values = pa.array(fingerprints.view(np.int64).reshape(-1))
        counts_and_values.append((stored.width, values))
    lists = [_lists(values, counts, filled) for counts, values in counts_and_values]
    return [pa.array(digests, pa.string()), *lists]


def _stored(scheme: Scheme) -> list[Sketch]:
    return [kind for kind in scheme.sketches if kind.measure.by_values]


def _tokens(values: Values, bits: int) -> tuple[I64, pa.Array]:
    token_values, counts = flat(values)
    width = token_length(token_values.shape[1], bits)
    text = np.empty((*token_values.shape, width), np.uint8)
    write_into(text, token_values, bits)
    ends = np.arange(0, text.size + 1, width, dtype=np.int32)
    buffers = pa.py_buffer(ends), pa.py_buffer(text)
    return counts, pa.StringArray.from_buffers(token_values.size, *buffers)


def _lists(values: pa.Array, counts: I64 | int, filled: Mask) -> pa.Array:
    sizes = np.zeros(filled.size, np.int64)
    sizes[filled] = counts
    offsets = offsets_of(sizes).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(~filled))
