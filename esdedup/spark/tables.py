"""Keeps the intermediate tables of a job as Parquet, in a folder that all executors reach.

A table is written once and then read. Row numbers are thus fixed, and an executor that is lost
costs only the work since the last table.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from esdedup.exceptions import UsageError

Batches = Iterator[pa.RecordBatch]
_DESCRIPTION = "spark.job.description"


@dataclass(frozen=True)
class Tables:
    """The tables of one job. folder: its own, a path or URI of the cluster's file system."""

    spark: SparkSession
    folder: str

    @staticmethod
    @contextmanager
    def of(spark: SparkSession, work: str | None, result: str | None = None) -> Iterator[Tables]:
        """The tables of a new job, in a new folder within `work`.

        work: None for Spark's checkpoint folder, or for a temporary one if Spark runs on this
        machine. result: the only table that stays; None removes the folder. It is removed if the
        job fails.

        Raises UsageError if there is no folder.
        """
        tables = Tables(spark, f"{_parent(spark, work)}/esdedup-{uuid.uuid4().hex}")
        try:
            yield tables
        except BaseException:
            with suppress(PySparkException, Py4JError):
                tables.remove()
            raise
        for name in tables.names() if result else [""]:
            if name != result:
                tables.remove(name)

    def kept(self, name: str, table: DataFrame) -> DataFrame:
        """Write a table, and return it as read from there. Spark's pages show the name."""
        path = f"{self.folder}/{name}"
        context = self.spark.sparkContext
        described = context.getLocalProperty(_DESCRIPTION)
        context.setLocalProperty(_DESCRIPTION, f"esdedup: {name}")
        try:
            table.write.parquet(path)
        finally:
            context.setLocalProperty(_DESCRIPTION, described)  # type: ignore[arg-type]
        return self.spark.read.schema(table.schema).parquet(path)

    def remove(self, name: str = "") -> None:
        """Remove a table, or the folder with all tables."""
        files, path = self._files(name)
        files.delete(path, True)

    def names(self) -> list[str]:
        """The names of the tables that were written."""
        files, path = self._files()
        return [each.getPath().getName() for each in files.listStatus(path)]

    def _files(self, name: str = "") -> tuple[Any, Any]:
        """The file system, as Hadoop has it, and the path of a table in it."""
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(f"{self.folder}/{name}")
        return path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), path


def mapped(
    table: DataFrame, over: Callable[[Iterable[pa.RecordBatch]], Batches], schema: str | StructType
) -> DataFrame:
    """A table that a function makes of the record batches of each partition."""
    return table.mapInArrow(cast("Callable[[Batches], Batches]", over), schema)


def _parent(spark: SparkSession, work: str | None) -> str:
    try:
        checkpoints = spark.sparkContext.getCheckpointDir()
    except PySparkException as error:
        raise UsageError("Spark Connect can't do this: use a session of its own") from error
    if (parent := work or checkpoints) is not None:
        return parent.rstrip("/")
    if not (spark.conf.get("spark.master", "") or "").startswith("local"):
        raise UsageError(
            "name a folder for intermediate tables that all executors reach, such as hdfs:///tmp"
            " or s3a://bucket/tmp: work (--work), or SparkContext's setCheckpointDir"
        )
    made = tempfile.mkdtemp(prefix="esdedup-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made).as_uri()
