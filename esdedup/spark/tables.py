"""Keeps the intermediate tables of a job as Parquet, in a folder that all executors reach.

A table is written once and then read. Row numbers are thus fixed, and an executor that is lost
costs only the work since the last table.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from esdedup.exceptions import EsdedupError, UsageError
from esdedup.records.locations import look_up, remove

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class JobTables:
    """The tables of one job.

    folder: its own, a path or URI of the cluster's file system. result: the name of the only table
    that stays, if any. resumes: the folder may have tables of an earlier run.
    """

    spark: SparkSession
    folder: str
    result: str | None
    resumes: bool

    @staticmethod
    @contextmanager
    def of(
        spark: SparkSession, work: str | None, result: str | None, name: str | None = None
    ) -> Iterator[JobTables]:
        """Yield the tables of a job, in a new folder within `work`, removed if the job fails.

        work: None for Spark's checkpoint folder, or for a temporary one if Spark runs on this
        machine. name: of the folder, from which the same job resumes if it fails. Raises UsageError
        if there is no folder.
        """
        parent = work
        if parent is None and not is_remote(spark):
            parent = spark.sparkContext.getCheckpointDir()
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
        tables = JobTables(spark, folder, result, name is not None)
        try:
            yield tables
        except BaseException:
            if name is None:
                with suppress(Exception):
                    tables.remove("")
            raise
        tables.remove("tables" if result else "")

    def kept(self, name: str, table: DataFrame) -> DataFrame:
        """Write a table, unless an earlier run has written it, and return it as read from there."""
        if self.saved(name) is None:
            table.write.mode("overwrite").parquet(self._path(name))
        return self.spark.read.schema(table.schema).parquet(self._path(name))

    def saved(self, name: str) -> DataFrame | None:
        """Return a table that is written as a whole, or else None."""
        marker, written = f"{self._path(name)}/_SUCCESS", False
        if self.resumes and is_remote(self.spark):
            with suppress(OSError, EsdedupError):
                written = look_up(marker.removeprefix("file://")) is not None
        elif self.resumes:
            written = on_hadoop(self.spark, "exists", marker)
        return self.spark.read.parquet(self._path(name)) if written else None

    def remove(self, name: str) -> None:
        """Remove a table, such as "tables/NAME", or a folder of them."""
        remove_folder(self.spark, f"{self.folder}/{name}")

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name if name == self.result else f'tables/{name}'}"


def is_remote(spark: SparkSession) -> bool:
    """Return whether a session is of Spark Connect, which has no JVM here."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def remove_folder(spark: SparkSession, folder: str) -> None:
    """Remove a folder. Warns if Spark Connect can't, because only the executors reach it."""
    if not is_remote(spark):
        on_hadoop(spark, "delete", folder, True)
        return
    try:
        remove(folder.removeprefix("file://"))
    except EsdedupError as error:
        warnings.warn(f"remove {folder} yourself: Spark Connect can't: {error}", stacklevel=3)


def on_hadoop(spark: SparkSession, method: str, name: str, *more: Any) -> Any:
    """Call a method of the file system of a file with its path.

    Raises UsageError if Spark can't use the file system.
    """
    from py4j.protocol import Py4JJavaError

    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        path = jvm.org.apache.hadoop.fs.Path(name)
        system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        return getattr(system, method)(path, *more)
    except Py4JJavaError as error:
        reason = str(error.java_exception).splitlines()[0]
        raise UsageError(
            f"Spark can't use {name}: {reason}: check the package and the credentials of this file"
            " system in Spark's settings, or name another folder"
        ) from error


def mapped(
    table: DataFrame, over: Callable[[Iterable[pa.RecordBatch]], Batches], schema: str | StructType
) -> DataFrame:
    """Return a table that a function computes from the record batches of each partition."""
    return table.mapInArrow(cast("Callable[[Batches], Batches]", over), schema)
