"""Keep the intermediate tables of a job as Parquet, in a folder that all executors reach.

A table is written once and then read. Row numbers are thus fixed, and an executor that is lost
costs only the work since the last table.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from esdedup import exceptions
from esdedup.exceptions import EsdedupError, MissingExtra, UsageError
from esdedup.records.locations import look_up, remove
from esdedup.runs.run import Run
from esdedup.spark.pairing_sizes import PairingSizes

Batches = Iterator[pa.RecordBatch]

_OF_A_TASK = re.compile(r"^esdedup\.exceptions\.(\w+): (.+)$", re.MULTILINE)
"""The error of esdedup that ended a task, in the traceback of its Python process."""
_NO_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '([\w.]+)'")
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\] ([^,\n]+)")


class JobTables(Run):
    """The tables of one job, in a folder of its own, at a path or URI of the cluster's file system.

    spark: the session.
    result: the name of the only table that stays, or None.
    resumes: the folder may have tables of an earlier run.
    pairing_sizes: how much work is done at once, by the settings of the session.
    """

    def __init__(
        self, spark: SparkSession, place: str, result: str | None, *, resumes: bool
    ) -> None:
        super().__init__(place)
        self.spark = spark
        self.result = result
        self.resumes = resumes
        self.pairing_sizes = PairingSizes.of(spark)

    @staticmethod
    @contextmanager
    def of(
        spark: SparkSession, work: str | None, result: str | None, name: str | None = None
    ) -> Iterator[JobTables]:
        """Yield the tables of a job, in a new folder within `work`, removed if the job fails.

        work: None for Spark's checkpoint folder, or for a temporary one if Spark runs on this
        machine. name: of the folder, from which the same job resumes if it fails. Raises UsageError
        without a folder, and the errors of `errors_of_tasks`.
        """
        folder = f"{_parent_of(spark, work)}/{name or f'esdedup-{uuid.uuid4().hex}'}"
        tables = JobTables(spark, folder, result, resumes=name is not None)
        try:
            with errors_of_tasks():
                yield tables
        except BaseException:
            if name is None:
                with suppress(Exception):
                    tables.remove("")
            raise
        tables.remove("tables" if result else "")

    def once_table(self, name: str, table: DataFrame) -> DataFrame:
        """Write a table, unless an earlier run has written it, and return it as read from there."""
        if not self.has_table(name):
            table.write.mode("overwrite").parquet(self._path_of_table(name))
        return self.spark.read.schema(table.schema).parquet(self._path_of_table(name))

    def has_table(self, name: str) -> bool:
        """Return whether an earlier run has written a table as a whole."""
        marker = "_SUCCESS"
        return self.resumes and self.has(f"{self._name_of_table(name)}/{marker}")

    def has(self, name: str) -> bool:
        """Return whether a file is there, which a session of Spark Connect may not reach."""
        path = self.path_of(name)
        if not is_remote(self.spark):
            return bool(on_hadoop(self.spark, "exists", path))
        try:
            return look_up(path.removeprefix("file://")) is not None
        except (OSError, EsdedupError):
            return False

    def remove(self, name: str) -> None:
        """Remove a table, such as "tables/NAME", or a folder of them."""
        remove_folder(self.spark, self.path_of(name))

    def _path_of_table(self, name: str) -> str:
        return self.path_of(self._name_of_table(name))

    def _name_of_table(self, name: str) -> str:
        return name if name == self.result else f"tables/{name}"


@contextmanager
def errors_of_tasks() -> Iterator[None]:
    """Raise the error of esdedup that ended a task, in place of Spark's with a traceback of Java.

    Raises MissingExtra if the Python of the tasks lacks a package, and UsageError if it has another
    version.
    """
    try:
        yield
    except PySparkException as error:
        text = str(error)
        if match := _OF_A_TASK.search(text):
            kind: type[EsdedupError] = getattr(exceptions, match[1])
            where = ""
            if kind is MissingExtra:
                where = ", in the Python of Spark's workers, which PYSPARK_PYTHON names"
            raise kind(f"{match[2]}{where}") from error
        if match := _OTHER_PYTHON.search(text):
            hint = "set PYSPARK_PYTHON to a Python of the driver's version"
            raise UsageError(f"{match[1]}: {hint}") from error
        if match := _NO_MODULE.search(text):
            package = match[1].partition(".")[0]
            raise MissingExtra(
                f"the Python of Spark's workers has no {package}: set PYSPARK_PYTHON to one where"
                " you ran `pip install 'esdedup[spark]'`, on every machine"
            ) from error
        raise


def _parent_of(spark: SparkSession, work: str | None) -> str:
    """Return the folder for the folders of jobs, without a slash at the end."""
    if work is not None:
        return work.rstrip("/")
    checkpoints = None if is_remote(spark) else spark.sparkContext.getCheckpointDir()
    if checkpoints is not None:
        return checkpoints.rstrip("/")
    if not (spark.conf.get("spark.master", "") or "").startswith("local"):
        raise UsageError(
            "name a folder for intermediate tables that all executors reach, such as hdfs:///tmp:"
            " `work`, or SparkContext's setCheckpointDir"
        )
    temporary = tempfile.mkdtemp(prefix="esdedup-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    return Path(temporary).as_uri()


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


def on_hadoop(spark: SparkSession, method: str, name: str, *arguments: Any) -> Any:
    """Call a method of the file system of a file with its path.

    Raises UsageError if Spark can't use the file system.
    """
    from py4j.protocol import Py4JJavaError

    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        path = jvm.org.apache.hadoop.fs.Path(name)
        system = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        return getattr(system, method)(path, *arguments)
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
