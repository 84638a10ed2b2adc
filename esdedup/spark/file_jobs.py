"""Clean files on Spark, as `esdedup clean` does on one machine.

Each file is read by one task and written by another, with the reader and the writer of one machine,
so that the shards are the same. Only pairs and groups are found by Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from esdedup.arguments import accepts, check_settings, from_settings
from esdedup.cleaning.outputs import CleanFiles, RetainedRecords, digest_of, is_one_file
from esdedup.cleaning.removals import DuplicatesTable
from esdedup.cleaning.report import CleanReport
from esdedup.compare.plan import Plan
from esdedup.compare.source import read_chunk
from esdedup.exceptions import UsageError
from esdedup.groups.groups import Grouping, GroupingSettings
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.files import BadRecord, Format, chunks_of_file
from esdedup.records.inputs import Reading
from esdedup.records.locations import is_address
from esdedup.records.paths import files_named
from esdedup.records.text_files import name_of
from esdedup.sketch.scheme import Scheme
from esdedup.spark.documents import SKETCHED, SparkDocuments, in_precedence, sketched_records
from esdedup.spark.group_jobs import members_of, require_supported
from esdedup.spark.pair_jobs import SparkReport, measured
from esdedup.spark.tables import Batches, JobTables, is_remote, mapped, on_hadoop
from esdedup.stores.mapping import TextFields, names_of

_NEVER = 1 << 62
"""A number that no document has."""
_Path = str | os.PathLike[str]
_Paths = _Path | Iterable[_Path]


@dataclass(frozen=True)
class _Tasks:
    """How the tasks of a job read and write files."""

    files: CleanFiles
    plan: Plan

    def numbers(self, spark: SparkSession, start: int = 0) -> DataFrame:
        """Return the numbers of the files from `start`, as `file`, each in a task of its own."""
        end = len(self.files.inputs)
        numbers = spark.range(start, end, 1, end - start)
        return numbers.withColumnRenamed("id", "file")

    def read(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield the records of the files of some numbers, as `SKETCHED`."""
        files, texts = self.files, self.plan.meta.text_fields
        reading = files.reading
        id_field, encoding = reading.id_field, reading.encoding
        columns = [*texts, id_field or "id", *self.plan.columns]
        for batch in batches:
            for number in batch.column("file").to_pylist():
                # Documents to compare with precede all others.
                first = bytes([number >= len(files.against)])
                path = files.inputs[number]
                for chunk in chunks_of_file(path, reading.file_format, None, encoding, columns):
                    read = read_chunk(self.plan, id_field, chunk, is_numbered=True)
                    yield from sketched_records(read, self.plan, number, first)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Write files, and yield their numbers. batches: file, and signed lines of its records."""
        for batch in batches:
            numbers = batch.column("file").to_pylist()
            for file, signed in zip(numbers, batch.column("lines"), strict=True):
                lines = np.array(signed.values if signed.is_valid else [], np.int64)
                lines = lines[np.argsort(np.abs(lines))]
                records = RetainedRecords(np.abs(lines), lines > 0)
                for _ in self.files.write([records], file - len(self.files.against)):
                    yield batch.select(["file"])


@accepts(Grouping)
def clean(
    spark: SparkSession | None,
    files: _Paths,
    output: _Path | None,
    *,
    against: _Paths = (),
    format: Format | None = None,
    encoding: str | None = None,
    delimiter: str | None = None,
    text_field: TextFields = "text",
    id_field: str | None = None,
    scheme: Scheme | None = None,
    work: _Path | None = None,
    dead_letter: DeadLetter = lambda record: None,
    grouping: Grouping | None = None,
    **settings: Unpack[GroupingSettings],
) -> CleanReport:
    """Write files again without duplicates, each under its name in the folder `output`.

    The documents that are removed are in `output`/_removed.parquet. The same call again resumes
    one that failed. All executors must reach the files.

    spark: None for the session of `spark-submit`.
    files: paths, folders, patterns or addresses.
    output: a folder; None to write nothing.
    against: files to compare with.
    format, encoding, delimiter, text_field, id_field, scheme: as of `esdedup.clean`.
    work: the folder of the intermediate tables' folder, by default that of `output`.
    dead_letter: called on the driver with each record that can't be used.
    grouping: how to group, in place of the settings below.
    sketch: name of the sketch to compare by; None for the scheme's first.
    threshold: minimum Jaccard similarity, 0 to 1; 0.8 by default.
    distance: maximum Hamming distance in bits, for a sketch of fingerprints.
    recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
    max_per_bucket: maximum number of comparisons of a document in a bucket.
    cover: minimum share in passages, 0 to 1, for a sketch of these.
    words: minimum number of words of a passage.
    cosine: minimum cosine, 0 to 1, for a sketch of vectors.
    within: fields that duplicates agree in, or windows of time, such as "date:3d".
    method: "leader", or "components" to join all documents of a chain of similar ones.
    keep: the document that represents a group, such as "newest:published"; a field is
        one of the records.
    exact: group only equal texts, after normalisation.
    split_templates, conflict: not supported on Spark.

    Raises UsageError for wrong arguments and for files that exist, InputError for files that can't
    be read or that change meanwhile, and the errors of Spark.
    """
    check_settings(clean, settings)
    grouping, texts = from_settings(Grouping, settings, grouping), names_of(text_field)
    plan = Plan.of_texts(scheme, grouping.limits, grouping.keep, texts, exact=grouping.exact)
    grouping = grouping.by(plan)
    require_supported(grouping)
    spark = spark or SparkSession.builder.appName("esdedup dedup").getOrCreate()
    if spark.conf.get("spark.speculation", "false") == "true":
        raise UsageError("two tasks may write one file: set spark.speculation to false")
    out = None if output is None else os.fspath(output)
    if out is not None and is_one_file(out):
        raise UsageError(f"{out}: Spark writes a file for each file: name a folder")
    arguments, compared_arguments = _arguments(files), _arguments(against)
    compared = files_named(compared_arguments, format)[0] if compared_arguments else []
    paths = files_named(arguments, format)[0]
    out = out if out is None else _absolute(out).rstrip("/")
    reading = Reading(format, encoding, texts, id_field, delimiter=delimiter)
    clean_files = CleanFiles(arguments, paths, compared, out, reading)
    tasks, name = _Tasks(clean_files, plan), None
    parent = None if work is None else os.fspath(work)
    if out is not None:
        folder, _, last = out.rpartition("/")
        job = [grouping.to_json(), plan.meta.scheme.id, compared, clean_files.job]
        name = f"{last}.work-{digest_of(job)}"
        parent = folder if parent is None else parent
        if not is_remote(spark):
            # Fail before any work, not when the files are written.
            on_hadoop(spark, "exists", _address(out))
    with JobTables.of(spark, parent and _address(parent), None, name) as tables:
        if out is not None and not tables.has_table("shards"):
            clean_files.check_absent()
        stages = _Stages(tasks, grouping, tables)
        sketched = stages.sketch(spark)
        decisions = stages.decide(sketched)
        if out is not None:
            stages.write(spark, decisions)
            clean_files.copy_about()
            stages.list_removed(sketched, decisions, out)
        for record in stages.bad_records(sketched):
            dead_letter(record)
        report = stages.report(sketched, decisions)
        if clean_files.report is not None:
            report.save(clean_files.report, clean_files.most_private)
        return report


@dataclass(frozen=True)
class _Decisions:
    """What stays of each file, and the documents that do not.

    members: the documents of groups.
    by_file: the signed lines of the records of each file, and their counts.
    removed: the members that are removed.
    pairs: the report on the comparison.
    """

    members: DataFrame
    by_file: DataFrame
    removed: DataFrame
    pairs: SparkReport


@dataclass(frozen=True)
class _Stages:
    """The stages of a job on files, of which each is the work of many tasks.

    tasks: how these read and write files.
    grouping: which documents duplicate others.
    tables: the folder of the job.
    """

    tasks: _Tasks
    grouping: Grouping
    tables: JobTables

    def sketch(self, spark: SparkSession) -> SparkDocuments:
        """Read the files, and sketch their documents."""
        read = mapped(self.tasks.numbers(spark), self.tasks.read, from_arrow_schema(SKETCHED))
        return in_precedence(read, self.tasks.plan, self.tables)

    def decide(self, documents: SparkDocuments) -> _Decisions:
        """Find the documents to remove."""
        later = documents.table.where(self._is_later())
        ((first,),) = later.agg(F.min("number")).collect()
        first = _NEVER if first is None else first
        plan, tables = self.tasks.plan, self.tables
        members, report = members_of(documents, plan, self.grouping, tables, first)
        members = tables.once_table("grouped", members)
        records = documents.all_rows.join(members.select("number", "head"), "number", "left")
        by_file = tables.once_table("shards", records.groupBy("file").agg(*_figures()))
        return _Decisions(members, by_file, members.where(F.col("number") >= first), report)

    def write(self, spark: SparkSession, decisions: _Decisions) -> None:
        """Write the files again that are missing."""
        files = self.tasks.files
        numbers = self.tasks.numbers(spark, len(files.against))
        written = numbers.join(decisions.by_file, "file", "left").select("file", "lines")
        written = written.repartition(len(files.files))
        mapped(written, self.tasks.write, "file bigint").collect()

    def list_removed(self, documents: SparkDocuments, decisions: _Decisions, out: str) -> None:
        """Write the list of the removed documents."""
        removed = decisions.removed.select("number", "head", *measured(self.tasks.plan))
        listed = _listed(removed, documents, self.tasks.files.inputs)
        listed.write.mode("overwrite").parquet(_address(f"{out}/_removed.parquet"))

    def bad_records(self, documents: SparkDocuments) -> Iterator[BadRecord]:
        """Yield the records that are no documents."""
        bad = documents.all_rows.where("bad is not null").select("file", "line", "bad")
        for file, line, reason_and_raw in bad.sort("file", "line").toLocalIterator():
            reason, raw = json.loads(reason_and_raw)
            yield BadRecord(name_of(self.tasks.files.inputs[file]), line, raw, reason)

    def report(self, documents: SparkDocuments, decisions: _Decisions) -> CleanReport:
        """Return the counts."""
        by_file, is_later = decisions.by_file, self._is_later()
        sums = [
            F.sum(F.col(column) * is_later.cast("int")).alias(column)
            for column in by_file.columns[3:]
        ]
        (total,) = by_file.agg(F.sum("failed").alias("failed"), *sums).collect()
        counts: dict[str, Any] = {name: value or 0 for name, value in total.asDict().items()}
        earlier = documents.table.where(~is_later).select(F.col("number").alias("head"))
        return CleanReport(
            documents=counts["kept"] + counts["removed"],
            **counts,
            against=decisions.removed.join(earlier, "head").count(),
            groups=decisions.members.select("head").distinct().count(),
            recall=decisions.pairs.recall,
            capped=decisions.pairs.capped,
            unordered=decisions.pairs.unordered,
            unscoped=decisions.pairs.unscoped,
        )

    def _is_later(self) -> Column:
        """Return whether a row is of a file to write, and not only compared with."""
        return F.col("file") >= len(self.tasks.files.against)


def _figures() -> list[Column]:
    """Return the signed lines of the records of a file, and their counts."""
    is_document, is_removed = F.col("digest").isNotNull(), F.col("head").isNotNull()
    line, stays = F.col("line"), is_document & ~is_removed
    figures = [F.collect_list(F.when(stays, line).otherwise(-line)).alias("lines")]
    figures.append(F.count_if(~is_document).alias("failed"))
    sizes = {"": F.lit(1), "bytes_": F.col("bytes"), "words_": F.col("words")}
    for name, condition in (("kept", stays), ("removed", is_removed)):
        for prefix, size in sizes.items():
            total = F.sum(F.when(condition, size).otherwise(0))
            figures.append(total.alias(prefix + name))
    return figures


def _listed(removed: DataFrame, documents: SparkDocuments, files: Sequence[str]) -> DataFrame:
    """Return the columns of `DuplicatesTable`. removed: number, head, similarity or distance."""
    names = [*enumerate(map(name_of, files))]
    named = removed.sparkSession.createDataFrame(names, ["file", "name"])
    named = documents.table.join(named, "file")
    place = {"file": "at", "name": "file", "line": "line", "own_id": "id"}
    for key, prefix in (("number", ""), ("head", "original_")):
        columns = [F.col(name).alias(prefix + alias) for name, alias in place.items()]
        removed = removed.join(named.select(F.col("number").alias(key), *columns), key)
    for name, kind in (("similarity", "double"), ("distance", "bigint")):
        value = F.col(name) if name in removed.columns else F.lit(None)
        removed = removed.withColumn(name, value.cast(kind))
    return removed.sort("at", "line").select(*DuplicatesTable.columns)


def _arguments(paths: _Paths) -> list[str]:
    """Return one path, or several, as texts that are valid in other folders."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    return [_absolute(os.fspath(path)) for path in paths]


def _absolute(path: str) -> str:
    """Return a path that is valid in other folders."""
    return path if is_address(path) else str(Path(path).absolute())


def _address(path: str) -> str:
    """Return a path that is valid whatever file system Spark uses by default."""
    return path if is_address(path) else f"file://{_absolute(path)}"
