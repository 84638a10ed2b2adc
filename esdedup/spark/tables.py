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
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from esdedup.exceptions import UsageError

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Tables:
    """The tables of one job. folder: its own, a path or URI of the cluster's file system."""

    spark: SparkSession
    folder: str

    @staticmethod
    def of(spark: SparkSession, work: str | None) -> Tables:
        """The tables of a new job, in a new folder within `work`.

        work: None for Spark's checkpoint folder, or for a temporary one if Spark runs on this
        machine. Raises UsageError if there is none.
        """
        parent = work or _checkpoint_folder(spark)
        if parent is None:
            if not (spark.conf.get("spark.master", "") or "").startswith("local"):
                raise UsageError(
                    "name a folder for intermediate tables that all executors reach, such as"
                    " hdfs:///tmp or s3a://bucket/tmp: work (--work), or SparkContext's"
                    " setCheckpointDir"
                )
            parent = tempfile.mkdtemp(prefix="esdedup-")
            atexit.register(shutil.rmtree, parent, ignore_errors=True)
        return Tables(spark, f"{parent.rstrip('/')}/esdedup-{uuid.uuid4().hex}")

    def kept(self, name: str, table: DataFrame) -> DataFrame:
        """Writes a table, and returns it as read from there. Spark's pages show the name."""
        path = f"{self.folder}/{name}"
        self.spark.sparkContext.setJobDescription(f"esdedup: {name}")
        table.write.parquet(path)
        self.spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]
        return self.spark.read.schema(table.schema).parquet(path)

    def remove(self, name: str = "") -> None:
        """Removes a table, or the folder with all tables."""
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(f"{self.folder}/{name}")
        files = path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration())
        files.delete(path, True)


def mapped(
    table: DataFrame, over: Callable[[Iterable[pa.RecordBatch]], Batches], schema: str | StructType
) -> DataFrame:
    """A table that a function makes of the record batches of each partition."""
    return table.mapInArrow(cast("Callable[[Batches], Batches]", over), schema)


def _checkpoint_folder(spark: SparkSession) -> str | None:
    try:
        return spark.sparkContext.getCheckpointDir()
    except PySparkException:
        # Spark Connect has no context.
        return None
