"""A session of Spark, which the tests of this folder share.

It runs in one JVM with two tasks at a time, whose Python processes are separate, and Spark
interprets queries. With --all, it compiles them to Java as usual, and two executors are processes
too, as on a cluster: each is a JVM that loads and compiles Spark's code again, which doubles the
processor time of all tests.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
# A task that fails runs again, up to four times, as on a cluster.
ONE_PROCESS, EXECUTORS = "local[2,4]", "local-cluster[2,1,4096]"


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session; with --all, its executors are processes of their own."""
    from pyspark.sql import SparkSession

    has_executors = request.config.getoption("--all")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_WORKER_DIR", str(tmp_path_factory.mktemp("spark-work")))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        # Halves the processor time of the JVM, which compiles code for each query.
        java_options = (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
            " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
        )
        settings = {
            "spark.driver.extraJavaOptions": java_options,
            "spark.executor.extraJavaOptions": java_options,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            # An example of the docs may have started the JVM without SPARK_LOCAL_IP. Executors
            # would then look for it at another address than the one it listens at.
            "spark.driver.host": "127.0.0.1",
            # Executors work in other folders, where Python does not find the modules of the tests.
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(
                [str(ROOT), os.environ.get("PYTHONPATH", "")]
            ),
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark")),
            "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
        }
        if not has_executors:
            # Queries of few rows are planned once, with fewer tasks.
            settings["spark.sql.adaptive.enabled"] = "false"
            settings["spark.sql.shuffle.partitions"] = "2"
            # Few rows are interpreted in less time than Java code for a query is compiled.
            settings["spark.sql.codegen.wholeStage"] = "false"
            settings["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
        if (other := SparkSession.getActiveSession()) is not None:
            # An example of the docs made it.
            other.stop()
        master = EXECUTORS if has_executors else ONE_PROCESS
        builder = SparkSession.builder.master(master).appName("esdedup tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
