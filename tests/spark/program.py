"""Pairs, groups and rows that stay, of a file of JSON lines, by the PySpark that is imported.

    python -m tests.spark.program FILE OUT [remote]

A program of its own, since a process imports one version of PySpark, and has one kind of session.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from esdedup.groups.groups import Method
from esdedup.spark import dedup, groups, pairs

THRESHOLD = 0.7
METHODS: tuple[Method, ...] = ("leader", "components")


def rows_of(table: DataFrame) -> list[list[Any]]:
    return sorted([*row] for row in table.collect())


def main(file: str, out: str, kind: str = "local") -> None:
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if kind == "remote" else builder.master("local[2]")
    for name in ("spark.sql.shuffle.partitions", "spark.default.parallelism"):
        builder = builder.config(name, "4")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    rows = [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()]
    made = [(row["id"], (row["text"],)) for row in rows]
    df = spark.createDataFrame(made, "id string, doc struct<body: string>").repartition(3)
    how: Any = {"threshold": THRESHOLD, "text": "DOC.body"}
    found: dict[str, Any] = {"version": pyspark.__version__}
    with pairs(df, **how) as similar:
        found["pairs"] = rows_of(similar.table)
    for method in METHODS:
        with groups(df, method=method, **how) as grouped:
            found[method] = rows_of(grouped.table.select("id", "group", "original", "similarity"))
    # The rows have no order that all versions share, on which leaders depend.
    with dedup(df, method="components", **how) as kept:
        found["kept"] = [[id, *doc] for id, doc in rows_of(kept.table)]
    found["left"] = Path(kept.folder.removeprefix("file:")).exists()
    Path(out).write_text(json.dumps(found), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
