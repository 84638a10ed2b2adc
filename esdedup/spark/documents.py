"""Numbers documents in their order of precedence, and sketches them.

A number takes 8 bytes where ids would be shuffled.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.window import Window

from esdedup.exceptions import UsageError
from esdedup.pairing.comparison import Reading
from esdedup.pairing.keep_rule import ABSENT, KeepRule, sort_key, sort_keys
from esdedup.pairing.strings import Strings
from esdedup.sketch.sketch import NO_TEXT, normalised_digests, sketch
from esdedup.spark.tables import Batches, JobTables, mapped
from esdedup.stores.fields import text_at

_SKETCHED = pa.schema(
    {
        "key": pa.binary(),
        "keyed": pa.bool_(),
        "id": pa.string(),
        "text": pa.string(),
        "digest": pa.string(),
        "filled": pa.bool_(),
        "bands": pa.binary(),
    }
)


@dataclass(frozen=True)
class Documents:
    """Documents, each once.

    table: number (bigint), id, text, digest (strings), filled (boolean: it has words), bands
    (binary: its band hashes, 4 or 8 bytes each).
    copies: number, first (bigint): documents of the text of an earlier one, and the first of it.
    counts: of `SparkReport`, by name.
    """

    table: DataFrame
    copies: DataFrame
    counts: dict[str, int]

    @property
    def compared(self) -> DataFrame:
        """Return the documents with words that are the first of their text: number, bands."""
        filled = self.table.where("filled").select("number", "bands")
        return filled.join(self.copies.select("number"), "number", "left_anti")


def numbered(
    df: DataFrame, reading: Reading, tables: JobTables, id_field: str, text_fields: Sequence[str]
) -> Documents:
    """Sketch documents and number them. Raises UsageError for columns that can't be used."""
    keep = reading.keep
    _check_columns(df, id_field, text_fields, keep)
    # mapInArrow accepts no names with dots.
    own = {"id": id_field, **{f"text {at}": name for at, name in enumerate(text_fields)}}
    if keep.field is not None:
        own["keep"] = keep.field
    chosen = df.select(*(df[f"`{name.replace('`', '``')}`"].alias(to) for to, name in own.items()))
    made = partial(_sketched, reading, [name for name in own if name.startswith("text")])
    # Written before the sort: Spark samples the rows that it sorts, and would sketch them twice.
    sketches = tables.kept("sketched", mapped(chosen, made, from_arrow_schema(_SKETCHED)))
    # Rows of one id and key come in the order of their texts, whatever the order they were read in.
    ordered = sketches.sort("key", "digest").drop("key")
    whole = tables.kept("documents", ordered.withColumn("number", F.monotonically_increasing_id()))
    tables.remove("tables/sketched")
    wordless = F.count_if(F.expr("not filled"))
    figures = [F.count("*"), F.count("digest"), F.countDistinct("id"), wordless, F.max("keyed")]
    counted = whole.agg(*figures).first()
    assert counted is not None
    rows, found, count, without_words, keyed = counted
    if count and keep.by == "field" and not keyed:
        raise UsageError(f"keep {keep}: no document has a number or a text in that field")
    usable = whole.where("digest is not null")
    if found > count:
        by_id = Window.partitionBy("id").orderBy(F.desc("number"))
        usable = usable.withColumn("place", F.row_number().over(by_id)).where("place = 1")
        usable = tables.kept("once", usable)
    # Documents whose text an earlier one has, except for texts without a character.
    texts = usable.where(F.col("digest") != NO_TEXT).select("number", "digest")
    several = texts.groupBy("digest").agg(F.min("number").alias("first"), F.count("*").alias("of"))
    both = texts.join(several.where("of > 1").drop("of"), "digest")
    copies = tables.kept("copies", both.where("number != first").select("number", "first"))
    table = usable.select("number", "id", "text", "digest", "filled", "bands")
    counts = {"documents": count, "left_out": rows - found, "repeated": found - count}
    return Documents(table, copies, {**counts, "without_words": without_words})


def _check_columns(
    df: DataFrame, id_field: str, text_fields: Sequence[str], keep: KeepRule
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
        if not isinstance(kind, T.StringType):
            raise UsageError(f"column {name!r} is {kinds[name].simpleString()}: use strings")


def _sketched(
    reading: Reading, text_fields: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Batches:
    """Sketch the documents of record batches; those without id or text become nulls."""
    for batch in batches:
        rows = batch.to_pylist()
        found = [text_at(row, text_fields) for row in rows]
        usable = [
            (str(row["id"]), text, row)
            for row, text in zip(rows, found, strict=True)
            if text is not None and row["id"] not in (None, "")
        ]
        ids, texts = [id for id, _, _ in usable], [text for _, text, _ in usable]
        keys = [_keep_key(reading.keep, row.get("keep"), text) for _, text, row in usable]
        scheme = reading.compared.scheme
        if reading.sketch is None:
            digests = normalised_digests(texts, scheme.normalisation)[1]
            filled, bands = [True] * len(texts), [b""] * len(texts)
        else:
            sketches = sketch(texts, scheme)
            digests, filled = sketches.digests, sketches.filled.tolist()
            values = sketches.values[reading.sketch.name].astype(reading.dtype)
            bands = [row.tobytes() for row in values]
        columns = {
            "key": sort_keys(reading.keep, Strings.of(ids), keys),
            "keyed": [key != ABSENT for key in keys],
            "id": ids,
            "text": texts,
            "digest": digests,
            "filled": filled,
            "bands": bands,
        }
        yield pa.RecordBatch.from_pydict(columns, schema=_SKETCHED)
        lost = [pa.nulls(len(rows) - len(usable), field.type) for field in _SKETCHED]
        yield pa.RecordBatch.from_arrays(lost, schema=_SKETCHED)


def _keep_key(keep: KeepRule, value: Any, text: str) -> bytes:
    """Return the bytes to order a document by. value: of the rule's field."""
    if keep.by == "length":
        value = len(text)
    elif isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).isoformat()
    elif isinstance(value, date):
        value = value.isoformat()
    elif isinstance(value, Decimal):
        value = float(value)
    return sort_key(value, keep.last)
