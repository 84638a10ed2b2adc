"""Starts and stops Spark for a command."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from esdedup.exceptions import UsageError

_LOG_LEVEL = "spark.log.level"


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
