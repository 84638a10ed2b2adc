"""`esdedup.spark` as a program, from Parquet to Parquet, for the benchmarks.

    python -m benchmarks.lib.spark_program IN OUT THRESHOLD METHOD

IN has the columns id and text. METHOD: of groups, or `pairs` for the similar pairs.
"""

import sys
from typing import Any

from pyspark.sql import SparkSession

from esdedup.spark import groups, pairs


def main(source: str, out: str, threshold: str, method: Any) -> None:
    spark = SparkSession.builder.getOrCreate()
    frame, least = spark.read.parquet(source).select("id", "text"), float(threshold)
    if method == "pairs":
        found = pairs(frame, threshold=least)
    else:
        found = groups(frame, threshold=least, method=method)
    found.table.write.parquet(out)
    spark.stop()


if __name__ == "__main__":
    _, *arguments = sys.argv
    main(*arguments)
