"""text-dedup's job on Spark, for spark_job.py; runs in its own environment.

    python inside/peer_spark.py PARTITIONS ARGUMENT...

The job is the module `text_dedup.minhash_spark` of the release on PyPI, unchanged, with its
arguments and a session of the settings in PYSPARK_SUBMIT_ARGS. It takes connected components from
GraphFrames, whose jar PySpark does not have. Spark's own GraphX takes its place here, which
GraphFrames offers too (`algorithm="graphx"`). PARTITIONS: of every shuffle and repartition; 0
leaves those of the job, 4,096 and 8,192, which are for a large cluster.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
import tempfile
import types
from typing import Any

from pyspark import SparkConf, StorageLevel
from pyspark.sql import DataFrame, functions
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame


class GraphFrame:
    """The one method of GraphFrames that the job calls."""

    def __init__(self, vertices: DataFrame, edges: DataFrame) -> None:
        self._edges = edges

    def connectedComponents(self) -> DataFrame:  # noqa: N802
        """Columns id and component, the least id of the component."""
        spark = self._edges.sparkSession
        folder = tempfile.mkdtemp(prefix="components-")
        lines = self._edges.select(functions.concat_ws(" ", "src", "dst"))
        lines.write.text(f"{folder}/edges")
        context = spark.sparkContext
        # GraphX warns of each partition in each round.
        context.setLogLevel("ERROR")
        jvm: Any = context._jvm
        level = context._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)
        graphx = jvm.org.apache.spark.graphx
        graph = graphx.GraphLoader.edgeListFile(
            context._jsc.sc(), f"{folder}/edges", False, -1, level, level
        )
        tag = jvm.scala.reflect.ClassTag.Int()
        found = graphx.lib.ConnectedComponents.run(graph, tag, tag)
        found.vertices().saveAsTextFile(f"{folder}/components")
        parts = functions.split(functions.translate("value", "()", ""), ",")
        return spark.read.text(f"{folder}/components").select(
            parts[0].cast("long").alias("id"), parts[1].cast("long").alias("component")
        )


def _with_partitions(count: int) -> None:
    """Let all that names a number of partitions take this one."""
    given, repartition = SparkConf.set, ClassicDataFrame.repartition

    def put(conf: SparkConf, key: str, value: str) -> SparkConf:
        many = key in ("spark.sql.shuffle.partitions", "spark.default.parallelism")
        return given(conf, key, str(count) if many else value)

    def parted(frame: ClassicDataFrame, _: int) -> DataFrame:
        return repartition(frame, count)

    SparkConf.set = put  # type: ignore[assignment, method-assign]
    ClassicDataFrame.repartition = parted  # type: ignore[assignment, method-assign]


def main(partitions: int, arguments: list[str]) -> None:
    stand_in = types.ModuleType("graphframes")
    stand_in.GraphFrame = GraphFrame  # type: ignore[attr-defined]
    sys.modules["graphframes"] = stand_in
    if partitions:
        _with_partitions(partitions)
    found = importlib.util.find_spec("text_dedup.minhash_spark")
    assert found is not None
    assert found.origin is not None
    sys.argv = [found.origin, *arguments]
    runpy.run_path(found.origin, run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
