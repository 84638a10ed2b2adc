"""All pairs and groups on Spark, from DataFrame to DataFrame: the extra `esdedup[spark]`."""

from importlib.util import find_spec

from esdedup.exceptions import MissingExtra

for _package in ("pyspark", "pyarrow", "pandas"):
    if find_spec(_package) is None:
        raise MissingExtra(f"Spark needs {_package}: pip install 'esdedup[spark]'")

from esdedup.spark.groups import groups
from esdedup.spark.pairs import SparkReport, report_of, similar_pairs
from esdedup.spark.tokens import tokens

__all__ = ["SparkReport", "groups", "report_of", "similar_pairs", "tokens"]
