"""`esdedup.spark.groups` as a program, from Parquet to Parquet, for benchmarks.own.spark.

    python -m benchmarks.lib.spark_program IN OUT THRESHOLD METHOD

IN has the columns id and text.
"""

import sys
from typing import cast

from pyspark.sql import SparkSession

from esdedup.groups.groups import Method
from esdedup.spark import groups


def main(source: str, out: str, threshold: str, method: Method) -> None:
    spark = SparkSession.builder.getOrCreate()
    frame = spark.read.parquet(source).select("id", "text")
    groups(frame, threshold=float(threshold), method=method).table.write.parquet(out)
    spark.stop()


if __name__ == "__main__":
    _, source, out, threshold, method = sys.argv
    main(source, out, threshold, cast("Method", method))
