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


@dataclass(frozen=True)
class JobTables:
    """The tables of one job.

    folder: its own, a path or URI of the cluster's file system. result: the name of the only table
    that stays.
    """

    spark: SparkSession
    folder: str
    result: str

    @staticmethod
    @contextmanager
    def of(
        spark: SparkSession, work: str | None, result: str, name: str | None = None
    ) -> Iterator[JobTables]:
        """Yield the tables of a job, in a new folder within `work`, removed if the job fails.

        work: None for Spark's checkpoint folder, or for a temporary one if Spark runs on this
        machine. name: of the folder, from which the same job resumes if it fails. Raises UsageError
        if there is no folder.
        """
        try:
            parent = work or spark.sparkContext.getCheckpointDir()
        except PySparkException as error:
            raise UsageError("Spark Connect can't do this: use a session of its own") from error
        if parent is None and not (spark.conf.get("spark.master", "") or "").startswith("local"):
            raise UsageError(
                "name a folder for intermediate tables that all executors reach, such as"
                " hdfs:///tmp: work (--work), or SparkContext's setCheckpointDir"
            )
        if parent is None:
            made = tempfile.mkdtemp(prefix="esdedup-")
            atexit.register(shutil.rmtree, made, ignore_errors=True)
            parent = Path(made).as_uri()
        folder = f"{parent.rstrip('/')}/{name or f'esdedup-{uuid.uuid4().hex}'}"
        tables = JobTables(spark, folder, result)
        try:
            yield tables
        except BaseException:
            if name is None:
                with suppress(PySparkException, Py4JError):
                    tables.remove("")
            raise
        tables.remove("tables")

    def kept(self, name: str, table: DataFrame) -> DataFrame:
        """Write a table, unless an earlier run has written it, and return it as read from there."""
        if self.saved(name) is None:
            table.write.mode("overwrite").parquet(self._path(name))
        return self.spark.read.schema(table.schema).parquet(self._path(name))

    def saved(self, name: str) -> DataFrame | None:
        """Return a table that is written as a whole, or else None."""
        fs, marker = self._file(f"{self._path(name)}/_SUCCESS")
        return self.spark.read.parquet(self._path(name)) if fs.exists(marker) else None

    def remove(self, name: str) -> None:
        """Remove a table, such as "tables/NAME", or a folder of them."""
        fs, path = self._file(f"{self.folder}/{name}")
        fs.delete(path, True)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name if name == self.result else f'tables/{name}'}"

    def _file(self, name: str) -> tuple[Any, Any]:
        """Return the file system of a file, and its path there."""
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None
        path = jvm.org.apache.hadoop.fs.Path(name)
        return path.getFileSystem(self.spark.sparkContext._jsc.hadoopConfiguration()), path


def mapped(
    table: DataFrame, over: Callable[[Iterable[pa.RecordBatch]], Batches], schema: str | StructType
) -> DataFrame:
    """Return a table that a function computes from the record batches of each partition."""
    return table.mapInArrow(cast("Callable[[Batches], Batches]", over), schema)
