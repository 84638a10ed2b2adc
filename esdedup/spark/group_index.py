"""Finds the groups of a whole index on Spark, and writes them: `esdedup group --engine spark`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping
from esdedup.groups.marks import require_settled
from esdedup.spark.cluster import (
    KEEP_COLUMN,
    documents_of,
    executors_errors,
    meta_of,
    opened,
    snapshot_of,
    write_groups,
)
from esdedup.spark.groups import find_groups
from esdedup.spark.pairs import SparkReport
from esdedup.spark.tables import Tables
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection
from esdedup.stores.judgements import read_judgements

_LOG_LEVEL = "spark.log.level"
_NAMED = 20
"""Maximum number of duplicates of a group that are named."""


@dataclass(frozen=True)
class IndexGroups:
    """The groups of an index, in numbers.

    compared: the numbers of the comparison. sizes: numbers of groups, by their number of documents.
    largest: of the largest groups the number of documents, the representative, and the ids of at
    most 20 duplicates. marks: the counts of the write; None for a dry run. missed: as in
    `GroupReport`.
    """

    compared: SparkReport
    sizes: Mapping[int, int]
    largest: Sequence[tuple[int, str, Sequence[str]]]
    marks: ChangeReport | None
    missed: int


def group_index(
    spark: SparkSession,
    connection: Connection,
    index: str,
    grouping: Grouping,
    *,
    write: bool = True,
    collapse_ready: bool = False,
    largest: int = 0,
    work: str | None = None,
) -> IndexGroups:
    """Find the groups of the documents of an index, and write them into the documents.

    write: False to change nothing. collapse_ready: as of `write_groups`. largest: number of groups
    to name. work: a folder for intermediate tables that all executors reach.

    Raises UsageError for groupings that Spark does not support and for judged documents, StoreError
    while the index is changing its scheme, the errors of the store, and EsdedupError if Spark
    fails.
    """
    keep = grouping.keep
    with ExitStack() as stack:
        store = stack.enter_context(opened(connection, index))
        meta = meta_of(store)
        if read_judgements(store, meta).acting:
            raise UsageError(
                f"{store.where} has judgements of esdedup review, which Spark does not apply:"
                " use --engine local"
            )
        if write:
            require_settled(store, meta)
        stack.enter_context(executors_errors())
        tables = stack.enter_context(Tables.of(spark, work))
        snapshot = snapshot_of(spark, store, meta)
        stack.callback(store.cluster.close_point, snapshot.point)
        # The executors, which have the whole value, make the bytes to sort by.
        documents = documents_of(spark, snapshot, (), keep if keep.field is not None else None)
        if keep.field is not None:
            grouping = replace(grouping, keep=replace(keep, field=KEEP_COLUMN))
        found, compared = find_groups(documents, grouping, meta, tables, "id", ("text",))
        sizes, named = _sizes(found), _largest(found, largest)
        marks = None
        if write:
            marks = write_groups(found, connection, index, collapse_ready=collapse_ready)
        missed = max(0, store.statistics(meta).sketched - compared.documents)
        return IndexGroups(compared, sizes, named, marks, missed)


def _sizes(found: DataFrame) -> dict[int, int]:
    """Return the numbers of groups, by their number of documents."""
    duplicates = found.where("original is not null").groupBy("original").count()
    rows = duplicates.groupBy("count").agg(F.count("*").alias("groups")).collect()
    return {row["count"] + 1: row["groups"] for row in rows}


def _largest(found: DataFrame, most: int) -> list[tuple[int, str, list[str]]]:
    """Return the largest groups: number of documents, representative, and some duplicates."""
    if not most:
        return []
    duplicates = found.where("original is not null")
    order = F.desc("count"), "original"
    largest = duplicates.groupBy("original").count().orderBy(*order).limit(most)
    number = F.row_number().over(Window.partitionBy("original").orderBy("id"))
    members = duplicates.join(F.broadcast(largest), "original").withColumn("number", number)
    some = members.where(F.col("number") <= _NAMED).groupBy("original", "count")
    rows = some.agg(F.sort_array(F.collect_list("id")).alias("ids")).orderBy(*order).collect()
    return [(row["count"] + 1, row["original"], row["ids"]) for row in rows]


@contextmanager
def started(name: str, master: str | None = None) -> Iterator[SparkSession]:
    """Start Spark for the time of a `with`; an active session is used and stays.

    Spark's own messages go to standard error, only errors by default. name: of the application.
    master: its address; None for the one of `spark-submit`.

    Raises UsageError without a master or without Java.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        yield active
        return
    # Without a master Spark would run on this machine without a warning.
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        raise UsageError(
            "Spark has no master: pass --master (such as local[*], spark://host:7077 or yarn), or"
            " run this with spark-submit"
        )
    # Otherwise it logs a traceback of Ctrl-C.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(name)
    builder = builder.config("spark.ui.showConsoleProgress", sys.stderr.isatty())
    try:
        with _output_to_standard_error():
            spark = (builder if master is None else builder.master(master)).getOrCreate()
    except PySparkRuntimeError as error:
        raise UsageError(
            "Spark did not start: it needs Java 17 or later. Install it and set JAVA_HOME, or see"
            " the messages above"
        ) from error
    except Py4JError as error:
        raise UsageError("Spark did not start: see the messages above") from error
    try:
        if not spark.sparkContext.getConf().contains(_LOG_LEVEL):
            spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


@contextmanager
def _output_to_standard_error() -> Iterator[None]:
    """Send what processes write to standard output, which is for results, to standard error."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(output, 1)
        os.close(output)
