"""Starts Spark for a command, and ends it."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from esdedup.exceptions import UsageError

_LOG_LEVEL = "spark.log.level"


@contextmanager
def started(name: str, master: str | None = None) -> Iterator[SparkSession]:
    """Start Spark for the time of a `with`; a session that is there already stays.

    Spark's own messages, of errors only unless the configuration says otherwise, go to standard
    error. name: of the application. master: its address; None for the one that `spark-submit` or
    Spark's configuration names.

    Raises UsageError if no master is named, or without Java.
    """
    if (active := SparkSession.getActiveSession()) is not None:
        yield active
        return
    if master is None and not _master_is_named():
        raise UsageError(
            "Spark has no master: give --master (such as local[*], spark://host:7077 or yarn), or"
            " start this by spark-submit"
        )
    # It would log a traceback of Ctrl-C.
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
        raise UsageError(
            f"Spark did not start with the master {master or 'of its configuration'}: see the"
            " messages above"
        ) from error
    try:
        if not spark.sparkContext.getConf().contains(_LOG_LEVEL):
            spark.sparkContext.setLogLevel("ERROR")
        yield spark
    finally:
        spark.stop()


def _master_is_named() -> bool:
    """Tells if Spark finds a master. Without one it would take this machine without a word."""
    if "PYSPARK_GATEWAY_PORT" in os.environ or "MASTER" in os.environ:
        return True
    home = Path(os.environ.get("SPARK_HOME", "."))
    defaults = Path(os.environ.get("SPARK_CONF_DIR", home / "conf")) / "spark-defaults.conf"
    said = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    with suppress(OSError):
        said += f"\n{defaults.read_text('utf-8', 'replace')}"
    return "--master" in said or re.search(r"^\s*spark\.master[\s=:]", said, re.M) is not None


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
