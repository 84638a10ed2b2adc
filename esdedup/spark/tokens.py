"""Adds the columns of tokens to a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from esdedup import arrow
from esdedup.exceptions import UsageError
from esdedup.sketch.scheme import Scheme
from esdedup.spark.tables import Batches, mapped


def tokens(df: DataFrame, scheme: Scheme | None = None, text_field: str = "text") -> DataFrame:
    """A DataFrame with the columns of `esdedup.arrow.token_fields` behind its own.

    scheme: `Scheme()` by default. Raises UsageError if there is no such column of strings, or if a
    new column is there already.
    """
    scheme = scheme or Scheme()
    added = from_arrow_schema(pa.schema(arrow.token_fields(scheme)))
    kinds = {field.name: field.dataType for field in df.schema}
    if not isinstance(kinds.get(text_field), T.StringType):
        listed = ", ".join(kinds)
        raise UsageError(f"{text_field!r} is not a column of strings; there are: {listed}")
    if taken := [name for name in added.names if name in kinds]:
        raise UsageError(f"column {taken[0]!r} is there already: rename it")
    if dotted := [name for name in kinds if "." in name]:
        raise UsageError(f"column {dotted[0]!r}: PySpark hands on no names with dots: rename it")
    schema = T.StructType([*df.schema, *added])
    return mapped(df, partial(_sketched, scheme, text_field), schema)


def _sketched(scheme: Scheme, text_field: str, batches: Iterable[pa.RecordBatch]) -> Batches:
    return (arrow.tokens(batch, scheme, text_field) for batch in batches)
