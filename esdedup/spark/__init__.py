"""All pairs and groups on Spark, of DataFrames and of files: the extra `esdedup[spark]`."""

from esdedup.exceptions import MissingExtra

try:
    # PySpark requires pandas for mapInArrow.
    import pandas as _  # noqa: F401

    from esdedup.spark.clean import dedup_files
    from esdedup.spark.cluster import read_index, write_groups
    from esdedup.spark.groups import dedup, groups
    from esdedup.spark.pairs import SparkReport, SparkResult, similar_pairs
except ModuleNotFoundError as error:
    raise MissingExtra(
        f"Spark needs {error.name}: pip install 'esdedup[spark]', and the pyspark of your cluster"
    ) from error

__all__ = [
    "SparkReport", "SparkResult", "dedup", "dedup_files", "groups", "read_index", "similar_pairs",
    "write_groups",
]  # fmt: skip
