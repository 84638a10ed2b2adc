"""All pairs and groups on Spark, of DataFrames and of files: the extra `esdedup[spark]`."""

from esdedup.exceptions import MissingExtra

try:
    # PySpark requires pandas for mapInArrow.
    import pandas as _  # noqa: F401

    from esdedup.spark.cluster import read_index, write_groups
    from esdedup.spark.file_jobs import clean
    from esdedup.spark.group_jobs import dedup, groups
    from esdedup.spark.pair_jobs import SparkReport, SparkResult, pairs
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"Spark needs {error.name}: pip install 'esdedup[spark]', and the pyspark of your cluster"
    ) from error

__all__ = [
    "SparkReport", "SparkResult", "clean", "dedup", "groups", "pairs", "read_index", "write_groups",
]  # fmt: skip
