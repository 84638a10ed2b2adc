"""Numbers documents in their order of precedence, and sketches them.

A number takes 8 bytes where ids would be shuffled.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from esdedup.exceptions import UsageError
from esdedup.pairing.comparison import Reading
from esdedup.pairing.file_pairs import ReadChunk, read_chunk
from esdedup.pairing.keep_rule import ABSENT, KeepRule, sort_keys
from esdedup.pairing.strings import Strings
from esdedup.records.columnar import rows_of
from esdedup.records.files import BadRecord, Chunk, Record
from esdedup.sketch.sketch import NO_TEXT, written_digests
from esdedup.spark.tables import Batches, JobTables, mapped

SKETCHED = pa.schema(
    {
        "key": pa.binary(),
        "keyed": pa.bool_(),
        "id": pa.string(),
        "text": pa.string(),
        "digest": pa.string(),
        "filled": pa.bool_(),
        "bands": pa.binary(),
        "words": pa.int64(),
        "file": pa.int64(),
        "line": pa.int64(),
        "own_id": pa.string(),
        "bad": pa.string(),
    }
)
"""Documents, and records that are none, of which the last column has the reason and the record.

Of files, the id is the number of the file and the line, and own_id is that of the record.
"""


@dataclass(frozen=True)
class Documents:
    """Documents, each once.

    table: number (bigint), id, text, digest (strings), filled (boolean: it has words), bands
    (binary: its band hashes, 4 or 8 bytes each).
    copies: number, first (bigint): documents of the text of an earlier one, and the first of it.
    whole: the table with the rows that are no documents, whose digest is null.
    counts: of `SparkReport`, by name.
    """

    table: DataFrame
    copies: DataFrame
    whole: DataFrame
    counts: dict[str, int]

    def compared(self, column: str) -> DataFrame:
        """Return the number and a column of documents with words, the first of their text."""
        filled = self.table.where("filled").select("number", column)
        return filled.join(self.copies.select("number"), "number", "left_anti")


def numbered(
    df: DataFrame, reading: Reading, tables: JobTables, id_field: str, text_fields: Sequence[str]
) -> Documents:
    """Sketch documents and number them. Raises UsageError for columns that can't be used."""
    keep = reading.keep
    # A sketch reads values of any type, or strings.
    any_type = reading.sketch is not None and reading.sketch.reads_values
    _check_columns(df, id_field, text_fields, keep, any_type)
    # mapInArrow accepts no names with dots.
    own = {"id": id_field, **{f"text {at}": name for at, name in enumerate(text_fields)}}
    if keep.field is not None:
        own["keep"] = keep.field
    chosen = [_column(df, name).alias(to) for to, name in own.items()]
    meta = replace(reading.meta, text_fields=(*(name for name in own if name.startswith("text")),))
    named = replace(reading, meta=meta, keep=replace(keep, field=keep.field and "keep"))
    rows = mapped(df.select(*chosen), partial(_sketched, named), from_arrow_schema(SKETCHED))
    return in_precedence(rows, keep, tables)


def _column(df: DataFrame, name: str) -> Column:
    """Return a column. Times become numbers, since their texts do not sort by time."""
    column = df[f"`{name.replace('`', '``')}`"]
    return (
        F.unix_micros(column) if isinstance(df.schema[name].dataType, T.TimestampType) else column
    )


def in_precedence(sketches: DataFrame, keep: KeepRule, tables: JobTables) -> Documents:
    """Number documents. sketches: columns of `SKETCHED`, and any others."""
    if (whole := tables.saved("documents")) is None:
        # Written before the sort: Spark samples the rows that it sorts, and would sketch them
        # twice.
        sketches = tables.kept("sketched", sketches)
        # Rows of one id and key come in the order of their texts, whatever order they are read in.
        rows = sketches.sort("key", "digest").drop("key")
        whole = tables.kept("documents", rows.withColumn("number", F.monotonically_increasing_id()))
        tables.remove("tables/sketched")
    wordless = F.count_if(F.expr("not filled"))
    figures = [F.count("*"), F.count("digest"), F.countDistinct("id"), wordless, F.max("keyed")]
    counted = whole.agg(*figures).first()
    assert counted is not None
    rows_read, found, count, without_words, keyed = counted
    if count and keep.by == "field" and not keyed:
        raise UsageError(f"keep {keep}: no document has a number or a text in that field")
    usable = whole.where("digest is not null")
    if found > count:
        by_id = Window.partitionBy("id").orderBy(F.desc("number"))
        usable = usable.withColumn("place", F.row_number().over(by_id)).where("place = 1")
        usable = tables.kept("once", usable.drop("place"))
    # Documents whose text an earlier one has, except for texts without a character.
    texts = usable.where(F.col("digest") != NO_TEXT).select("number", "digest")
    several = texts.groupBy("digest").agg(F.min("number").alias("first"), F.count("*").alias("of"))
    both = texts.join(several.where("of > 1").drop("of"), "digest")
    copies = tables.kept("copies", both.where("number != first").select("number", "first"))
    counts = {"documents": count, "left_out": rows_read - found, "repeated": found - count}
    return Documents(usable, copies, whole, {**counts, "without_words": without_words})


def _check_columns(
    df: DataFrame, id_field: str, text_fields: Sequence[str], keep: KeepRule, any_type: bool
) -> None:
    kinds = {field.name: field.dataType for field in df.schema}
    for name in [id_field, *text_fields, *([keep.field] if keep.field else [])]:
        if name not in kinds:
            raise UsageError(f"there is no column {name!r}; there are: {', '.join(kinds)}")
    if not isinstance(kinds[id_field], (T.StringType, T.IntegralType)):
        raise UsageError(f"column {id_field!r}: use ids that are strings or whole numbers")
    for name in text_fields:
        kind = kinds[name]
        kind = kind.elementType if isinstance(kind, T.ArrayType) else kind
        if not (any_type or isinstance(kind, T.StringType)):
            raise UsageError(f"column {name!r} is {kinds[name].simpleString()}: use strings")


def _sketched(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Sketch the rows of record batches."""
    for batch in batches:
        records = [
            Record("", line, row)
            if isinstance(row, dict) and row["id"] not in (None, "")
            else BadRecord("", line, "", "it can't be read, or has no id")  # Rows have no place.
            for line, row in enumerate(rows_of(batch), 1)
        ]
        found = read_chunk(reading, "id", Chunk(partial(list, records)))
        yield from sketched_records(found, reading.keep)


def sketched_records(
    found: ReadChunk, keep: KeepRule, file: int | None = None, first: bytes = b""
) -> Batches:
    """Yield records as `SKETCHED`. file: their number. first: begins the keys of the keep rule."""
    part, lines = found.part, found.lines[found.lines > 0]
    assert part.texts is not None
    keys = [*part.keys.encoded()] or [ABSENT] * lines.size
    ids = part.ids if file is None else Strings.of(f"{file}:{line}" for line in lines.tolist())
    columns = {
        "key": [first + key for key in sort_keys(keep, ids, keys)],
        "keyed": [key != ABSENT for key in keys],
        "id": [*ids],
        "text": [*part.texts],
        "digest": written_digests([row.tobytes() for row in part.digests]),
        "filled": part.filled,
        "bands": [row.tobytes() for row in part.values],
        "words": part.words,
        "file": [file] * lines.size,
        "line": lines,
        "own_id": [None if file is None else id for id in part.ids],
        "bad": pa.nulls(lines.size),
    }
    yield pa.RecordBatch.from_pydict(columns, schema=SKETCHED)
    bad = ((each.line, json.dumps([each.reason, each.raw])) for each in found.bad)
    rows = [{"file": file, "line": line, "bad": written} for line, written in bad]
    yield pa.RecordBatch.from_pylist(rows, schema=SKETCHED)
