"""How much work jobs of a session do at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def pairing_sizes(spark: SparkSession, **sizes: int) -> Iterator[None]:
    """Set some of the fields of `PairingSizes` for the jobs of a session."""
    for name, size in sizes.items():
        spark.conf.set(f"spark.esdedup.{name}", str(size))
    try:
        yield
    finally:
        for name in sizes:
            spark.conf.unset(f"spark.esdedup.{name}")
