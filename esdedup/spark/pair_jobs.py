"""Finds all similar pairs of a DataFrame of documents, with exact similarity."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, Unpack

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from esdedup.arguments import accepts, check_settings, from_settings
from esdedup.compare.keep_rule import KeepRule, Unordered
from esdedup.compare.plan import Basis, Plan
from esdedup.exceptions import UsageError
from esdedup.search.buckets import Capped
from esdedup.search.scopes import warning_of_missing
from esdedup.search.warnings import missing_pairs
from esdedup.sketch.limits import Limits, PairSettings
from esdedup.sketch.scheme import Scheme
from esdedup.spark.candidates import (
    Buckets,
    Placed,
    candidate_pairs,
    placed_in,
    sharing,
    verified,
)
from esdedup.spark.documents import SparkDocuments, field_of, numbered, require_of_spark
from esdedup.spark.tables import JobTables, remove_folder
from esdedup.stores.mapping import IndexMeta, TextFields, names_of
from esdedup.stores.stop_list import stopped_tokens

_KEY = "esdedup"
"""The metadata of a column of texts that has the scheme of its index."""


@dataclass(frozen=True)
class SparkReport:
    """The counts of a job.

    documents: that were compared.
    left_out: rows without an id or a text, which `dedup` keeps.
    repeated: rows with an id of another row, which stays.
    without_words: documents that are only compared for equality.
    capped: buckets of which not all pairs were compared.
    recall: expected fraction found of the pairs at the threshold, None if buckets are stopped or
    truncated.
    basis: of the comparison.
    unordered: documents that the keep rule can't compare.
    unscoped: documents that lack a value of the scope, and are duplicates of none.
    """

    documents: int
    left_out: int
    repeated: int
    without_words: int
    capped: Capped
    recall: float | None
    basis: Basis
    unordered: Unordered = Unordered()  # noqa: RUF009
    unscoped: int = 0


@dataclass(frozen=True)
class SparkResult:
    """The result of a job, in a folder of its own.

    table: reads from the folder.
    report: counts.
    folder: a path or a URI, until `close`, or the end of a `with`.
    """

    table: DataFrame
    report: SparkReport
    folder: str

    def close(self) -> None:
        """Remove the folder, from which the table can't be read any more."""
        remove_folder(self.table.sparkSession, self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@accepts(Limits, "pairs")
def pairs(
    df: DataFrame,
    text: TextFields = "text",
    *,
    id: str = "id",
    scheme: Scheme | IndexMeta | None = None,
    work: str | None = None,
    limits: Limits | None = None,
    **settings: Unpack[PairSettings],
) -> SparkResult:
    """Run a job that finds all pairs of similar documents, each once, as `esdedup pairs` does.

    df: a row for each document. text: the column or columns of the text (strings, or arrays of
    them), also nested, such as "doc.body". id: the column of the ids (strings or whole numbers).
    scheme: a Scheme is used unchanged; for an IndexMeta documents are compared as those of its
    index. None uses the index that `read_index` read, or else as many bands as the recall needs.
    work: a folder for intermediate tables that all executors reach; None for Spark's checkpoint
    folder, or on one machine for a temporary one. Memory does not grow with the pairs; if they are
    many, a warning estimates their number before they are computed.
    limits: how to compare, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.5 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".

    The table has the columns left, right (string), similarity (double), equal (boolean: the texts
    are equal). By a sketch of fingerprints, distance (int) is in place of the similarity; by
    passages there are of_left and of_right too (double), as in `Pair`. A
    document whose text several earlier ones have is paired with the first of them only. Losses
    raise warnings.

    Raises UsageError for wrong arguments.
    """
    require_of_spark(df)
    check_settings(pairs, settings)
    limits = from_settings(Limits, settings, limits, "pairs")
    names = names_of(text)
    plan = plan_of(scheme or index_of(df, names), limits)
    with JobTables.of(df.sparkSession, work, "pairs") as tables:
        documents = numbered(df, plan, tables, id, names)
        edges, placed, report = compare(documents, plan, tables, either=True)
        if placed.meetings > placed.meetings_of_block:
            sample = tables.pairing_sizes.sample
            sampled = edges("sample", "true", f"pmod(xxhash64(number), {sample}) = 0").count()
            warnings.warn(
                f"about {sampled * sample:,} pairs are similar, as many texts resemble each other:"
                " groups compares fewer, and returns one row per document",
                stacklevel=3,
            )
        copies = documents.copies.select(
            F.col("first").alias("left"), F.col("number").alias("right"),
            F.lit(plan.nearest).alias("similarity"), F.lit(True).alias("equal"),
        )  # fmt: skip
        table, sides = edges("all").withColumn("equal", F.lit(False)), list[str]()
        if plan.measure.directed:
            sides = ["of_left", "of_right"]
            larger = F.greatest("similarity", "of_left")
            table = table.withColumns({"of_right": F.col("similarity"), "similarity": larger})
            copies = copies.withColumns(dict.fromkeys(sides, F.lit(plan.nearest)))
        table = table.unionByName(copies)
        for side in ("left", "right"):
            digest = F.col("digest").alias(f"digest of {side}")
            named = documents.table.select(
                F.col("number").alias(side), F.col("id").alias("own"), digest
            )
            table = table.join(named, side).drop(side).withColumnRenamed("own", side)
        if plan.within.windows:
            # Documents of equal text with other times are no copies.
            equal = F.col("digest of left") == F.col("digest of right")
            table = table.withColumn("equal", equal)
        table = table.select("left", "right", *measured(plan), "equal", *sides)
        table = tables.once_table("pairs", table)
    warn(report, plan)
    return SparkResult(table, report, tables.place)


def of_index(df: DataFrame, meta: IndexMeta) -> DataFrame:
    """Return documents whose column of texts carries the scheme of their index."""
    return df.withMetadata("text", {_KEY: json.dumps(meta.to_json())})


def index_of(df: DataFrame, text_fields: Sequence[str]) -> IndexMeta | None:
    """Return the index whose scheme the column of texts carries, or None."""
    if len(text_fields) > 1:
        return None
    meta = field_of(df, text_fields[0]).metadata.get(_KEY)
    return IndexMeta.from_json(json.loads(meta)) if meta else None


def plan_of(
    scheme: Scheme | IndexMeta | None,
    limits: Limits,
    keep: KeepRule = KeepRule(),  # noqa: B008
    *,
    exact: bool = False,
) -> Plan:
    """Return how documents are compared; those of an index as the index compares them.

    exact: as of `Plan.of_index`. Raises UsageError for another type of scheme.
    """
    if not isinstance(scheme, Scheme | IndexMeta | None):
        raise UsageError(f"scheme: use a Scheme or an IndexMeta, not {type(scheme).__name__}")
    if isinstance(scheme, IndexMeta):
        if not exact:
            return Plan.of_index(scheme, limits, keep)
        scheme = scheme.scheme
    if scheme is not None:
        # The texts are columns, whatever fields the sketch is of.
        scheme = scheme.only(replace(scheme.for_pairs(limits), fields=()))
    return Plan.of_texts(scheme, limits, keep, exact=exact)


def compare(
    documents: SparkDocuments,
    plan: Plan,
    tables: JobTables,
    *,
    either: bool = False,
) -> tuple[Callable[..., DataFrame], Placed, SparkReport]:
    """Return a function that returns similar pairs of documents, their buckets, and counts.

    The function accepts a name for its tables, and conditions as `candidate_pairs`. The pairs are
    of different texts, by the first document of each, left < right; their columns, and `either`,
    are those of `verified`.
    """
    sketch = plan.sketch
    assert sketch is not None
    unswapped = replace(plan.limits, swaps=0)
    least = sketch.least(unswapped, sketch.tokens)
    recall = sketch.recall(unswapped, sketch.tokens, least)
    pair_filter = sketch.pair_filter(unswapped, recall)
    buckets = Buckets.of(plan)
    placed = placed_in(documents.compared(), buckets, plan.limits.max_per_bucket, tables)

    def edges(name: str, *conditions: Any) -> DataFrame:
        pairs = tables.once_table(f"candidates-{name}", candidate_pairs(placed, *conditions))
        if least > 1 or pair_filter is not None:
            sharing_pairs = sharing(pairs, documents, buckets, least, pair_filter)
            pairs = tables.once_table(f"sharing-{name}", sharing_pairs)
        similar = verified(pairs, documents, buckets, plan.least, either=either)
        return tables.once_table(f"edges-{name}", similar)

    if placed.capped.buckets or stopped_tokens(plan.meta.stop, sketch.key):
        recall = None
    elif recall is None:
        recall = 1.0
    elif pair_filter is not None:
        recall -= pair_filter.lost
    counts: Any = {**documents.counts, "capped": placed.capped, "recall": recall}
    counts["unordered"] = documents.unordered
    return edges, placed, SparkReport(**counts, basis=plan.basis)


def measured(plan: Plan) -> list[Column]:
    """Return the column of the measure: of `similarity`, or of a distance from the nearness."""
    measure = plan.measure
    value = F.col("similarity") if measure.sign > 0 else -F.col("similarity")
    return [(value.cast("int") if measure.whole_numbers else value).alias(measure.column)]


def warn(
    report: SparkReport,
    plan: Plan,
    *,
    of_rows: bool = True,
) -> None:
    """Warn of what a job has lost. of_rows: the rows that are left out, too."""
    left_out, repeated = report.left_out * of_rows, report.repeated
    for loss in (
        *missing_pairs(report.recall, report.capped, plan.limits),
        report.unordered.warning(plan.keep),
        warning_of_missing(plan.within, report.unscoped),
        left_out and f"{left_out:,} rows without an id or a text are left out",
        repeated
        and f"{repeated:,} rows have an id that another row has, which stays: use unique ids",
    ):
        if loss:
            warnings.warn(loss, stacklevel=4)
