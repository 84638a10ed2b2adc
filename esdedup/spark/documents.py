"""Numbers documents in their order of precedence, and sketches them.

A number takes 8 bytes where ids would be shuffled. Texts are written once, and stay where they are:
only those of candidate pairs are shuffled.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from esdedup.compare.keep_rule import (
    ABSENT,
    EXAMPLES,
    KeepRule,
    Unordered,
    kind_of_key,
    sort_keys,
    text_of_key,
)
from esdedup.compare.plan import Plan
from esdedup.compare.source import ReadChunk, read_chunk
from esdedup.exceptions import UsageError
from esdedup.records.columnar import rows_of
from esdedup.records.files import BadRecord, Chunk, Record
from esdedup.sketch.sketch import NO_TEXT, written_digests
from esdedup.sketch.sketch import sketch as sketched
from esdedup.spark.tables import Batches, JobTables, mapped
from esdedup.text.strings import Strings

SKETCHED = pa.schema(
    {
        "key": pa.binary(),
        "keyed": pa.bool_(),
        "kind": pa.string(),
        "unordered": pa.string(),
        "id": pa.string(),
        "text": pa.string(),
        "digest": pa.string(),
        "filled": pa.bool_(),
        "bands": pa.binary(),
        "bytes": pa.int64(),
        "words": pa.int64(),
        "file": pa.int64(),
        "line": pa.int64(),
        "own_id": pa.string(),
        "bad": pa.string(),
    }
)
"""Documents, and records that are none, of which the last column has the reason and the record.

Of files, the id is the number of the file and the line, and own_id is that of the record. By the
keep rule, a document is keyed, has a kind of time, or a value that can't be compared.
"""


@dataclass(frozen=True)
class Documents:
    """Documents, each once.

    table: number, row (bigint), id, digest (strings), filled (boolean: it has words), bands
    (binary: its band hashes, 4 or 8 bytes each), bytes (bigint: of its text).
    texts: row (bigint), text (string).
    copies: number, first (bigint): documents of the text of an earlier one, and the first of it.
    whole: the table with the rows that are no documents, whose digest is null.
    counts: of `SparkReport`, by name. bytes: of all texts. unordered: by the keep rule.
    """

    table: DataFrame
    texts: DataFrame
    copies: DataFrame
    whole: DataFrame
    counts: dict[str, int]
    bytes: int
    unordered: Unordered

    def compared(self) -> DataFrame:
        """Return the number and the bands of documents with words, the first of their text."""
        filled = self.table.where("filled").select("number", "bands")
        return filled.join(self.copies.select("number"), "number", "left_anti")

    def with_texts(self, wanted: DataFrame, few: bool) -> DataFrame:
        """Return rows with the texts of their documents, of which no others are shuffled.

        wanted: number, and any columns. few: each executor has memory for all of these rows.
        """
        wanted, texts = wanted.join(self.table.select("number", "row"), "number"), self.texts
        if few:
            return F.broadcast(wanted).join(texts, "row").drop("row")
        texts = chosen(texts, wanted, "row", "left_semi")
        return wanted.join(texts, "row").drop("row")


def chosen(
    table: DataFrame, rows: DataFrame, row: str, how: Literal["left_semi", "left_anti"]
) -> DataFrame:
    """Return the rows of a table that are among `rows`, or are not; none of them is shuffled.

    row: a column of both (bigint, not negative). Each executor holds one bit for each value.
    """
    at, block = F.bitmap_bit_position(row), F.bitmap_bucket_number(row).alias("block of esdedup")
    bits = rows.groupBy(block).agg(F.bitmap_construct_agg(at).alias("bits of esdedup"))
    at_sql = f"bitmap_bit_position(`{row}`)"
    byte = f"int(conv(hex(substring(`bits of esdedup`, int({at_sql} div 8) + 1, 1)), 16, 10))"
    held = F.expr(f"{byte} & shiftleft(1, int({at_sql} % 8)) != 0")
    same = F.expr(f"bitmap_bucket_number(`{row}`) = `block of esdedup`")
    return table.join(F.broadcast(bits), same & held, how)


def numbered(
    df: DataFrame, plan: Plan, tables: JobTables, id: str, texts: Sequence[str]
) -> Documents:
    """Sketch documents and number them. Raises UsageError for columns that can't be used."""
    keep = plan.keep
    # A sketch reads values of any type, or strings.
    any_type = plan.sketch is not None and plan.sketch.reads_values
    if not isinstance(field_of(df, id).dataType, (T.StringType, T.IntegralType)):
        raise UsageError(f"column {id!r}: use ids that are strings or whole numbers")
    for name in texts:
        kind = whole = field_of(df, name).dataType
        kind = kind.elementType if isinstance(kind, T.ArrayType) else kind
        if not (any_type or isinstance(kind, T.StringType)):
            raise UsageError(f"column {name!r} is {whole.simpleString()}: use strings")
    # mapInArrow accepts no names with dots.
    own = {"id": id, **{f"text {at}": name for at, name in enumerate(texts)}}
    columns = [_column(df, name).alias(to) for to, name in own.items()]
    if keep.field is not None:
        column = _column(df, keep.field)
        is_time = isinstance(field_of(df, keep.field).dataType, T.TimestampType)
        if is_time and keep.compared != "time":
            # Texts of times do not sort by time.
            column = F.unix_micros(column)
        columns.append(column.alias("keep"))
    meta = replace(plan.meta, text_fields=(*(name for name in own if name.startswith("text")),))
    named = replace(plan, meta=meta, keep=replace(keep, field=keep.field and "keep"))
    rows = mapped(df.select(*columns), partial(_sketched, named), from_arrow_schema(SKETCHED))
    return in_precedence(rows, keep, tables)


def field_of(df: DataFrame, name: str) -> T.StructField:
    """Return the field of a column, also a nested one. Raises UsageError if there is none."""
    try:
        return df.select(_column(df, name)).schema[0]
    except PySparkException as error:
        columns = ", ".join(df.columns)
        raise UsageError(f"there is no column {name!r}; there are: {columns}") from error


def _column(df: DataFrame, name: str) -> Column:
    """Return a column by its name; a name with dots is of a column, or else of a nested field."""
    return F.col(f"`{name.replace('`', '``')}`" if name in df.columns else name)


def in_precedence(sketches: DataFrame, keep: KeepRule, tables: JobTables) -> Documents:
    """Number documents. sketches: columns of `SKETCHED`, and any others."""
    sketches = tables.kept("sketched", sketches.withColumn("row", F.monotonically_increasing_id()))
    # Rows of one id and key come in the order of their texts, whatever order they are read in.
    rows = sketches.drop("text").sort("key", "digest").drop("key")
    whole = tables.kept("documents", rows.withColumn("number", F.monotonically_increasing_id()))
    wordless = F.count_if(F.expr("not filled"))
    figures = [F.count("*"), F.count("digest"), F.countDistinct("id"), wordless, F.max("keyed")]
    figures.append(F.sum("bytes"))
    counted = whole.agg(*figures).first()
    assert counted is not None
    rows_read, found, count, without_words, keyed, size = counted
    if count and keep.by == "field" and not keyed:
        raise UsageError(keep.nothing_to_compare())
    unordered = _unordered(whole, keep)
    usable = whole.where("digest is not null")
    if found > count:
        by_id = Window.partitionBy("id").orderBy(F.desc("number"))
        usable = usable.withColumn("place", F.row_number().over(by_id)).where("place = 1")
        usable = tables.kept("once", usable.drop("place"))
    # Documents whose text an earlier one has, except for texts without a character.
    texts = usable.where(F.col("digest") != NO_TEXT).select("number", "digest")
    first = F.min("number").over(Window.partitionBy("digest")).alias("first")
    copies = tables.kept("copies", texts.select("number", first).where("number != first"))
    counts = {"documents": count, "left_out": rows_read - found, "repeated": found - count}
    counts["without_words"] = without_words
    texts = sketches.select("row", "text")
    return Documents(usable, texts, copies, whole, counts, size or 0, unordered)


def _unordered(whole: DataFrame, keep: KeepRule) -> Unordered:
    """Return the documents that the rule can't compare. Raises UsageError for times of two kinds.

    whole: with the columns of `SKETCHED`.
    """
    if keep.compared == "value":
        return Unordered()
    name = F.coalesce("own_id", "id")
    kinds = whole.where("kind is not null").groupBy("kind").agg(F.min(name)).sort("kind").collect()
    if message := keep.several_kinds(dict(kinds)):
        raise UsageError(message)
    wrong = whole.where("unordered is not null").sort("number").select(name, "unordered")
    examples = wrong.limit(EXAMPLES).collect()
    return Unordered(wrong.count(), [(id, value) for id, value in examples])


def _sketched(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Sketch the rows of record batches."""
    for batch in batches:
        records = [
            Record("", line, row)
            if isinstance(row, dict) and row["id"] not in (None, "")
            else BadRecord("", line, "", "it can't be read, or has no id")  # Rows have no place.
            for line, row in enumerate(rows_of(batch), 1)
        ]
        found = read_chunk(plan, "id", Chunk(partial(list, records)))
        yield from sketched_records(found, plan)


def sketched_records(
    found: ReadChunk, plan: Plan, file: int | None = None, first: bytes = b""
) -> Batches:
    """Yield records as `SKETCHED`. file: their number. first: begins the sort keys."""
    part, lines = found.part, found.lines[found.lines > 0]
    assert part.texts is not None
    texts, bands = [*part.texts], [*part.values]
    if (sketch := plan.sketch) is not None and sketch.varies:
        values = sketched(texts, plan.compared.scheme).values[sketch.name]
        tokens = sketch.token_values(values)
        hashes = tokens.hashes.astype(plan.dtype)
        bands = [hashes[start:end] for start, end in pairwise(tokens.offsets)]
    keys = [*part.keys.encoded()] or [ABSENT] * lines.size
    by_time = plan.keep.compared == "time"
    ids = part.ids if file is None else Strings.of(f"{file}:{line}" for line in lines.tolist())
    columns = {
        "key": [first + key for key in sort_keys(plan.keep, ids, keys)],
        "keyed": [key < ABSENT for key in keys],
        "kind": [kind_of_key(key) if by_time else None for key in keys],
        "unordered": [*map(text_of_key, keys)],
        "id": [*ids],
        "text": texts,
        "digest": written_digests([row.tobytes() for row in part.digests]),
        "filled": part.filled,
        "bands": [row.tobytes() for row in bands],
        "bytes": part.texts.counts,
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
