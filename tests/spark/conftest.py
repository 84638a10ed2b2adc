"""Spark in several processes: two executors of one core each, as on a cluster."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on `local-cluster`, whose executors are processes of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("SPARK_WORKER_DIR", str(tmp_path_factory.mktemp("spark-work")))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        # Halves the processor time of the JVM, which compiles code for each query.
        java_options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        settings = {
            "spark.driver.extraJavaOptions": java_options,
            "spark.executor.extraJavaOptions": java_options,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark")),
            "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
        }
        if (other := SparkSession.getActiveSession()) is not None:
            # An example of the docs made it.
            other.stop()
        builder = SparkSession.builder.master("local-cluster[2,1,4096]").appName("esdedup tests")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
