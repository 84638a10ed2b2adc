"""Numbers documents in their order of precedence, and sketches them.

A number takes 8 bytes where ids would be shuffled. Texts are written once, and stay where they are:
only those of candidate pairs are shuffled.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from esdedup.records.columnar import TableRows
from esdedup.records.files import BadRecord, Chunk, Record
from esdedup.records.record_columns import ReadByColumns, RecordColumns, RowsOfColumns
from esdedup.search.scopes import has_scopes, needed_values, scope_paths
from esdedup.sketch.sketch import NO_TEXT, written_digests
from esdedup.sketch.sketch import sketch as sketch_texts
from esdedup.sketch.within import Within
from esdedup.spark.pairing_sizes import PairingSizes
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
        "scope": pa.binary(),
        "bad": pa.string(),
    }
)
"""Documents, and records that are none, of which the last column has the reason and the record.

Of files, the id is the number of the file and the line, and own_id is that of the record. By the
keep rule, a document is keyed, has a kind of time, or a value that can't be compared. The scope is
that of `scope_words`, null without a scope.
"""


@dataclass(frozen=True)
class SparkDocuments:
    """Documents, each once.

    table: number, row (bigint), id, digest (strings), filled (boolean: it has words), bands
    (binary: its band hashes, 4 or 8 bytes each), bytes (bigint: of its text), scope (binary).
    texts: row (bigint), text (string).
    copies: number, first (bigint): documents of the text of an earlier one, and the first of it. In
    a scope, they have the same values and times.
    all_rows: the table with the rows that are no documents, whose digest is null.
    counts: of `SparkReport`, by name.
    bytes: of all texts.
    unordered: documents that the keep rule can't compare.
    sizes: how much work is done at once.
    within: the scope of similar documents.
    """

    table: DataFrame
    texts: DataFrame
    copies: DataFrame
    all_rows: DataFrame
    counts: dict[str, int]
    bytes: int
    unordered: Unordered
    sizes: PairingSizes
    within: Within

    def compared(self) -> DataFrame:
        """Return the documents that are compared: the first of their text, with words.

        Columns: number, bands, and in a scope also filled, digest and scope. With a window of time,
        texts without words are compared with equal ones of other times.
        """
        columns, compared = ["number", "bands"], self.table.where("filled")
        if self.within:
            columns += ["filled", "digest", "scope"]
            compared = compared.where("scope is not null")
        if self.within.windows:
            compared = self.table.where((F.col("digest") != NO_TEXT) & F.col("scope").isNotNull())
        compared = compared.select(*columns)
        return compared.join(self.copies.select("number"), "number", "left_anti")

    def with_texts(self, numbers: DataFrame, is_small: bool) -> DataFrame:
        """Return rows with the texts of their documents, of which no others are shuffled.

        numbers: number, and any columns. is_small: each executor has memory for all of these rows.
        """
        rows = numbers.join(self.table.select("number", "row"), "number")
        if is_small:
            return F.broadcast(rows).join(self.texts, "row").drop("row")
        texts = chosen(self.texts, rows, "row", "left_semi")
        return rows.join(texts, "row").drop("row")


def chosen(
    table: DataFrame, rows: DataFrame, row: str, join: Literal["left_semi", "left_anti"]
) -> DataFrame:
    """Return the rows of a table that are among `rows`, or are not; none of them is shuffled.

    row: a column of both (bigint, not negative). Each executor holds one bit for each value.
    """
    position = F.bitmap_bit_position(row)
    block = F.bitmap_bucket_number(row).alias("block of esdedup")
    bits = rows.groupBy(block).agg(F.bitmap_construct_agg(position).alias("bits of esdedup"))
    sql = f"bitmap_bit_position(`{row}`)"
    byte = f"int(conv(hex(substring(`bits of esdedup`, int({sql} div 8) + 1, 1)), 16, 10))"
    has_bit = F.expr(f"{byte} & shiftleft(1, int({sql} % 8)) != 0")
    is_in_block = F.expr(f"bitmap_bucket_number(`{row}`) = `block of esdedup`")
    return table.join(F.broadcast(bits), is_in_block & has_bit, join)


def numbered(
    df: DataFrame, plan: Plan, tables: JobTables, id: str, texts: Sequence[str]
) -> SparkDocuments:
    """Sketch documents and number them. Raises UsageError for columns that can't be used."""
    keep = plan.keep
    require_one_rule(keep)
    # A sketch reads values of any type, or strings.
    any_type = plan.sketch is not None and plan.sketch.reads_values
    if not isinstance(field_of(df, id).dataType, (T.StringType, T.IntegralType)):
        raise UsageError(f"column {id!r}: use ids that are strings or whole numbers")
    for name in texts:
        kind = field_of(df, name).dataType
        value = kind.elementType if isinstance(kind, T.ArrayType) else kind
        if not (any_type or isinstance(value, T.StringType)):
            raise UsageError(f"column {name!r} is {kind.simpleString()}: use strings")
    # mapInArrow accepts no names with dots.
    names = {"id": id, **{f"text {number}": name for number, name in enumerate(texts)}}
    columns = [column_of(df, name).alias(alias) for alias, name in names.items()]
    if keep.field is not None:
        column = column_of(df, keep.field)
        is_time = isinstance(field_of(df, keep.field).dataType, T.TimestampType)
        if is_time and keep.compared != "time":
            # Texts of times do not sort by time.
            column = F.unix_micros(column)
        columns.append(column.alias("keep"))
    scope_names = dict.fromkeys(scope_paths(plan.within))
    aliases = {str(name): f"scope {number}" for number, name in enumerate(scope_names)}
    for name, alias in aliases.items():
        field_of(df, name)
        columns.append(column_of(df, name).alias(alias))
    text_fields = (*(alias for alias in names if alias.startswith("text")),)
    renamed = plan.of_columns(text_fields, keep.field and "keep", plan.within.renamed(aliases))
    rows = mapped(df.select(*columns), partial(_sketched, renamed), from_arrow_schema(SKETCHED))
    return in_precedence(rows, plan, tables)


def require_of_spark(df: object) -> None:
    """Raise UsageError for a frame of another library."""
    if not hasattr(type(df), "sparkSession"):
        kind = type(df)
        raise UsageError(
            f"df: use a DataFrame of Spark, not {kind.__module__.partition('.')[0]}."
            f"{kind.__name__}: records in memory are for `esdedup.dedup`, `pairs` and `group`"
        )


def require_one_rule(keep: KeepRule) -> None:
    """Raise UsageError for several keep rules in a row."""
    if keep.tie_rule is not None:
        raise UsageError(f"keep {keep}: Spark accepts one rule")


def field_of(df: DataFrame, name: str) -> T.StructField:
    """Return the field of a column, also a nested one. Raises UsageError if there is none."""
    try:
        return df.select(column_of(df, name)).schema[0]
    except PySparkException as error:
        columns = ", ".join(df.columns)
        raise UsageError(f"there is no column {name!r}; there are: {columns}") from error


def column_of(df: DataFrame, name: str) -> Column:
    """Return a column by its name; a name with dots is of a column, or else of a nested field."""
    return F.col(f"`{name.replace('`', '``')}`" if name in df.columns else name)


def in_precedence(sketches: DataFrame, plan: Plan, tables: JobTables) -> SparkDocuments:
    """Number documents. sketches: columns of `SKETCHED`, and any others."""
    keep, within = plan.keep, plan.within
    require_one_rule(keep)
    sketches = tables.once_table(
        "sketched", sketches.withColumn("row", F.monotonically_increasing_id())
    )
    # Rows of one id and key come in the order of their texts, whatever order they are read in.
    rows = sketches.drop("text").sort("key", "digest").drop("key")
    all_rows = tables.once_table(
        "documents", rows.withColumn("number", F.monotonically_increasing_id())
    )
    wordless = F.count_if(F.expr("not filled"))
    figures = all_rows.agg(
        F.count("*"),
        F.count("digest"),
        F.countDistinct("id"),
        wordless,
        F.max("keyed"),
        F.sum("bytes"),
        F.count("scope"),
    ).first()
    assert figures is not None
    rows_read, usable_rows, count, without_words, keyed, size, in_scope = figures
    if within and usable_rows and not in_scope:
        raise UsageError(f"within {within}: no document has {needed_values(within)}")
    if count and keep.by == "field" and not keyed:
        raise UsageError(keep.nothing_to_compare())
    unordered = _unordered(all_rows, keep)
    usable = all_rows.where("digest is not null")
    if usable_rows > count:
        # Of rows with one id, the one that the keep rule prefers stays.
        by_id = Window.partitionBy("id").orderBy("number")
        usable = usable.withColumn("place", F.row_number().over(by_id)).where("place = 1")
        usable = tables.once_table("once", usable.drop("place"))
    # Documents whose text an earlier one has, except for texts without a character.
    texts = usable.where(F.col("digest") != NO_TEXT).select("number", "digest", "scope")
    equal_columns = ["digest"]
    if within:
        equal_columns.append("scope")
        texts = texts.where("scope is not null")
    first = F.min("number").over(Window.partitionBy(*equal_columns)).alias("first")
    copies = tables.once_table("copies", texts.select("number", first).where("number != first"))
    counts = {
        "documents": count,
        "left_out": rows_read - usable_rows,
        "repeated": usable_rows - count,
        "without_words": without_words,
        "unscoped": usable_rows - in_scope if within else 0,
    }
    texts = sketches.select("row", "text")
    return SparkDocuments(
        usable, texts, copies, all_rows, counts, size or 0, unordered, tables.pairing_sizes, within
    )


def _unordered(all_rows: DataFrame, keep: KeepRule) -> Unordered:
    """Return the documents that the rule can't compare. Raises UsageError for times of two kinds.

    all_rows: with the columns of `SKETCHED`.
    """
    if keep.compared == "value":
        return Unordered()
    name = F.coalesce("own_id", "id")
    kinds = (
        all_rows.where("kind is not null").groupBy("kind").agg(F.min(name)).sort("kind").collect()
    )
    if message := keep.several_kinds(dict(kinds)):
        raise UsageError(message)
    wrong = all_rows.where("unordered is not null").sort("number").select(name, "unordered")
    examples = wrong.limit(EXAMPLES).collect()
    return Unordered(wrong.count(), [(id, value) for id, value in examples])


def _sketched(plan: Plan, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Sketch the rows of record batches."""
    for batch in batches:
        chunk = read_chunk(plan, "id", Chunk(_RowsOfBatch(TableRows("", 1, batch))))
        yield from sketched_records(chunk, plan)


@dataclass(frozen=True)
class _RowsOfBatch(ReadByColumns):
    """Rows of a record batch, whose ids are in the column `id`. They have no place in a file.

    rows: the batch.
    """

    rows: TableRows

    def __call__(self) -> list[Record | BadRecord]:
        """Return the records."""
        return [
            Record("", line, row)
            if isinstance(row, dict) and row["id"] not in (None, "")
            else BadRecord("", line, "", "it can't be read, or has no id")
            for line, row in enumerate(self.rows, 1)
        ]

    def columns(self, *, with_json: bool) -> RecordColumns | None:
        """Return the records by columns; None if one of them may be bad."""
        assert not with_json  # Rows are not stored.
        columns = self.rows.columns()
        if columns is None or not {None, ""}.isdisjoint(columns["id"]):
            return None
        return RecordColumns("", range(1, len(columns["id"]) + 1), RowsOfColumns(columns))


def sketched_records(
    chunk: ReadChunk, plan: Plan, file: int | None = None, first: bytes = b""
) -> Batches:
    """Yield records as `SKETCHED`. file: their number. first: begins the sort keys."""
    part, lines = chunk.part, chunk.lines[chunk.lines > 0]
    assert part.texts is not None
    texts, bands, sketch = [*part.texts], [*part.values], plan.sketch
    if sketch is not None and sketch.varies:
        # A part has no values of such a sketch, whose candidates are found by the texts.
        values = sketch_texts(texts, plan.scheme).values[sketch.name]
        tokens = sketch.token_values(values)
        hashes = tokens.hashes.astype(plan.dtype)
        bands = [hashes[start:end] for start, end in pairwise(tokens.offsets)]
    keys = [*part.keys.encoded()] or [ABSENT] * lines.size
    by_time = plan.keep.compared == "time"
    ids = part.ids if file is None else Strings.of(f"{file}:{line}" for line in lines.tolist())
    scopes: list[bytes | None] = [None] * lines.size
    if part.scopes is not None:
        has_scope = has_scopes(part.scopes).tolist()
        words = [row.tobytes() for row in part.scopes]
        scopes = [row if has else None for row, has in zip(words, has_scope, strict=True)]
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
        "scope": scopes,
        "bad": pa.nulls(lines.size),
    }
    yield pa.RecordBatch.from_pydict(columns, schema=SKETCHED)
    rows = [
        {"file": file, "line": record.line, "bad": json.dumps([record.reason, record.raw])}
        for record in chunk.bad
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=SKETCHED)
