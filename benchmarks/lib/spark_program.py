"""esdedup on Spark as a program, from Parquet to Parquet, for benchmarks.lib.spark.run.

    python -m benchmarks.lib.spark_program pairs|groups IN OUT THRESHOLD

IN has the columns id and text.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import esdedup.spark


def main(job: str, source: str, out: str, threshold: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    frame = spark.read.parquet(source).select("id", "text")
    made = getattr(esdedup.spark, job)(frame, float(threshold))
    made.write.parquet(out)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
