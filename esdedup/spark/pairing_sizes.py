"""How much work a job on Spark does at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from esdedup.exceptions import UsageError

_SETTING = "spark.esdedup."
"""The beginning of the names of the session's settings."""


@dataclass(frozen=True)
class PairingSizes:
    """How much work is done at once. A session may set each, such as spark.esdedup.pairs.

    small_bucket: documents of a bucket whose pairs are brought together.
    pairs: that a task compares at once, about.
    bytes: of texts that a task compares at once, at most.
    broadcast: pairs whose numbers each executor can hold: about 200 MB.
    slice: documents of a bucket that one task pairs with the first ones of the bucket.
    meetings_of_task: pairs, once for each bucket, that a task forms. Those beyond its memory go to
    files, which Spark merges with buffers that it does not count as memory: 370 MB by two tasks,
    and 27 million pairs of one template.
    meetings: pairs that one block of documents may have. A further block costs a few seconds for
    the jobs of Spark.
    meetings_of_row: the same for each row of a bucket.
    growth: documents of a block for each document before it.
    sample: to estimate the number of many pairs, one document in `sample` is compared first.
    """

    small_bucket: int = 256
    pairs: int = 50_000
    bytes: int = 16 << 20
    broadcast: int = 1 << 20
    slice: int = 10_000
    meetings_of_task: int = 1 << 24
    meetings: int = 1 << 20
    meetings_of_row: int = 4
    growth: int = 16
    sample: int = 256

    @staticmethod
    def of(spark: SparkSession) -> PairingSizes:
        """Return the sizes of a session. Raises UsageError for one that is not a whole number."""
        values = {}
        for size in fields(PairingSizes):
            try:
                text = spark.conf.get(f"{_SETTING}{size.name}", None)
            except PySparkException:
                # Serverless sessions refuse names that they do not know.
                text = None
            if text is None:
                continue
            if not text.isdecimal():
                raise UsageError(f"{_SETTING}{size.name} {text!r}: use a whole number")
            values[size.name] = int(text)
        return PairingSizes(**values)
