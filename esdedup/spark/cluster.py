"""Reads an index of a cluster in Spark's executors, and writes groups back from them.

The executors use our own store, so that Elasticsearch and OpenSearch are read and written alike and
no connector is needed. esdedup must be installed where they run. Credentials travel in the code of
the tasks, which neither plans nor Spark's pages show.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from math import ceil
from pydoc import locate
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from esdedup.arguments import check_list
from esdedup.exceptions import EsdedupError, IndexNotFound, StoreError, UsageError
from esdedup.groups.marks import (
    DOCUMENTS_AT_ONCE,
    NO_MARKS,
    Wanted,
    mark_paths,
    require_settled,
    write_marks,
)
from esdedup.models import MOST_SLICES, Document, Failure, Share
from esdedup.pairing.keep_rule import KeepRule, sort_key
from esdedup.spark.pairs import of_index
from esdedup.spark.tables import Batches, mapped
from esdedup.stores import Cluster
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection, connection_to
from esdedup.stores.elastic.errors import PointInTimeLost
from esdedup.stores.elastic.indices import path_of
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.fields import text_at, value_at
from esdedup.stores.mapping import IndexMeta

KEEP_ALIVE = "1h"
WRITERS = 32
_DOCUMENTS_A_SLICE = 50_000
_MOST_NUMBERS = 2_000_000
"""16 MB, which is more than the 10 MB that Spark sends whole by default."""
_REASONS = 1_000
"""Most failures whose reasons are kept."""
_GROUPED = ("id", "digest", "group", "original", "similarity")
_INTEGERS = ("byte", "short", "integer", "long")
_FLOATS = ("half_float", "float", "double", "scaled_float", "unsigned_long")
_TYPES = {"long": pa.int64(), "double": pa.float64(), "binary": pa.binary()}
_MOST_INTEGER = 1 << 63
_SURROGATES = re.compile("[\ud800-\udfff]")
_RAISED = re.compile(r"^(esdedup\.[\w.]+): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Snapshot:
    """A point in time of an index, which any process can read.

    Several readers of one point in time see the same documents, and a slice that is read again is
    the same again.
    """

    connection: Connection
    index: str
    meta: IndexMeta
    bytes: int
    slices: int
    point: str

    def read(
        self,
        spark: SparkSession,
        batch_of: Callable[[Sequence[Document]], pa.RecordBatch],
        schema: str | StructType,
        paths: Sequence[str],
        *,
        marked: bool = False,
    ) -> DataFrame:
        """A DataFrame of the documents, a partition a slice.

        batch_of: makes a batch of the given schema of documents. paths: dotted names of the fields
        to read. marked: only documents with a group.
        """
        # Spark estimates the size of the result by that of the numbers, and would send a small one
        # whole to each executor that joins it. The first number of each slice stands for it.
        width = ceil(min(self.bytes / 8, _MOST_NUMBERS) / self.slices) or 1
        numbers = spark.range(0, width * self.slices, 1, self.slices)
        read = partial(_slices, self, width, batch_of, list(paths), marked)
        return mapped(numbers, read, schema)


def read_index(
    spark: SparkSession,
    target: str | Connection,
    index: str,
    *,
    fields: Sequence[str] = (),
    slices: int | None = None,
    keep_alive: str = KEEP_ALIVE,
    **credentials: Any,
) -> DataFrame:
    """The documents of an index that have tokens: columns id, text, and the given fields.

    `similar_pairs` and `groups` compare them as those of the index: the column of texts carries its
    scheme. The driver opens a point in time, and each task reads one slice of it. All uses of the
    result see the same documents. The text is that of the index's text fields; empty if it was
    taken away. Half a pair of surrogates, which Spark's strings can't hold, is replaced by U+FFFD.

    target: the URL of a cluster, or a Connection.
    fields: dotted names of other fields. A number in the index's mapping is a bigint or a double,
    null if the document holds another value or a list. Anything else is a string: a text as it is,
    a number in a field of dates as ISO 8601, and other values as JSON.
    slices: number of partitions, 1 to 1,024; by default one for 50,000 documents, and at least as
    many as Spark's default parallelism.
    keep_alive: time after its last use at which the servers may close the point in time.
    credentials: as of `esdedup.open`. A file of authorities (ca_certs) must be where the executors
    run, under the same name.

    Raises UsageError for wrong arguments, IndexNotFound, and the errors of the store. A task raises
    StoreError if the point in time is gone.
    """
    check_list("fields", fields)
    if taken := {"id", "text"} & {*fields}:
        raise UsageError(f"fields: the column {min(taken)!r} is there already")
    with opened(_connection(target, credentials), index) as store:
        kinds = kinds_of(store, fields)
        snapshot = snapshot_of(spark, store, meta_of(store), keep_alive, slices)
    df = documents_of(spark, snapshot, {name: Column(name, kinds[name]) for name in fields})
    return of_index(df, snapshot.meta)


def write_groups(
    df: DataFrame,
    target: str | Connection,
    index: str,
    *,
    collapse_ready: bool = False,
    writers: int = WRITERS,
    **credentials: Any,
) -> ChangeReport:
    """Return documents in groups of two or more their group, and take old marks from all others.

    The executors write, as `esdedup group` does: only documents whose marks differ are read again,
    and a document is written only if it still has the text that it was grouped by. The same call
    again completes one that failed. What a task wrote before it was lost counts as unchanged.

    df: of `groups`: columns id, digest, group, original and similarity, each id once.
    collapse_ready: a document that is alone gets its own id as its group.
    writers: most tasks that write at the same time.

    Returns counts that add up to the rows of `df`, with the reasons of at most 1,000 failures.
    Raises UsageError if a column is missing, StoreError while the index is changing its scheme, and
    the errors of the store.
    """
    if missing := [name for name in _GROUPED if name not in df.columns]:
        raise UsageError(f"there is no column {missing[0]!r}: give the result of groups")
    connection = _connection(target, credentials)
    wanted = df.select(*_GROUPED)
    if collapse_ready:
        wanted = wanted.withColumn("group", F.coalesce("group", "id"))
    with opened(connection, index) as store:
        meta = meta_of(store)
        require_settled(store, meta)
        write = partial(_written, connection, index, meta.field)
        attempts = store.cluster.retries.attempts()
        while True:
            # A run that was stopped may have written marks just before.
            store.refresh()
            snapshot = snapshot_of(df.sparkSession, store, meta)
            try:
                marked = snapshot.read(
                    df.sparkSession,
                    _marks_of,
                    "id string, held string",
                    mark_paths(meta.field),
                    marked=True,
                )
                todo = wanted.join(marked, "id", "left").coalesce(writers)
                with executors_errors():
                    rows = mapped(todo, write, "report string").collect()
                break
            except PointInTimeLost as error:
                if not attempts.wait(error):
                    raise
            finally:
                store.cluster.close_point(snapshot.point)
        store.refresh()
    report = ChangeReport()
    for row in rows:
        report = (report + _report_in(row["report"])).telling(_REASONS)
    return report


@contextmanager
def executors_errors() -> Iterator[None]:
    """Raise our own error if that is what failed a job of Spark, else the first line of its error.

    Raises EsdedupError in place of the errors of PySpark, and of the JVM.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = str(error)
        for name, message in reversed(_RAISED.findall(said)):
            kind = locate(name)
            if isinstance(kind, type) and issubclass(kind, EsdedupError):
                raise kind(message) from None
        if "No module named 'esdedup'" in said:
            raise UsageError("install esdedup where the executors run: it is missing") from None
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        raise EsdedupError(f"Spark failed: {' '.join(lines[:2])[:1_000]}") from error


@dataclass(frozen=True)
class Column:
    """A column of a field: its path in documents, and its type in the index's mapping."""

    path: str
    kind: str

    @property
    def type(self) -> str:
        """The type of the column in Spark."""
        if self.kind in _INTEGERS:
            return "long"
        return "double" if self.kind in _FLOATS else "string"

    def value(self, document: Document) -> int | float | str | None:
        """The value of a document."""
        found = value_at(document.source, self.path)
        if self.type == "string":
            return None if found is None else self._text(found)
        with suppress(TypeError, ValueError, OverflowError):
            # Servers take "12" and 12.7 for a whole number too.
            number = float(found) if self.type == "double" else int(found)
            return number if self.type == "double" or abs(number) < _MOST_INTEGER else None
        return None

    def _text(self, found: Any) -> str:
        if isinstance(found, str):
            return found
        if self.kind == "date" and isinstance(found, (int, float)):
            with suppress(ValueError, OverflowError, OSError):
                return datetime.fromtimestamp(found / 1000, UTC).isoformat(timespec="milliseconds")
        return json.dumps(found, ensure_ascii=False)


@dataclass(frozen=True)
class KeepKey:
    """A column of the bytes that a keep rule orders documents by. path: of its field."""

    path: str
    rule: KeepRule
    type: str = "binary"

    def value(self, document: Document) -> bytes:
        """The bytes of a document."""
        return sort_key(self.rule.key(document, ()), self.rule.last)


def documents_of(
    spark: SparkSession, snapshot: Snapshot, columns: Mapping[str, Column | KeepKey]
) -> DataFrame:
    """The documents of a snapshot: columns id, text, and those of `columns`, by name."""
    schema = StructType().add("id", "string", False).add("text", "string", False)
    for name, column in columns.items():
        schema.add(name, column.type)
    text_fields = snapshot.meta.text_fields
    batch_of = partial(_texts_of, text_fields, columns)
    paths = [*dict.fromkeys([*text_fields, *(column.path for column in columns.values())])]
    return snapshot.read(spark, batch_of, schema, paths)


def _texts_of(
    text_fields: Sequence[str],
    columns: Mapping[str, Column | KeepKey],
    documents: Sequence[Document],
) -> pa.RecordBatch:
    # The text of a document with tokens may have been taken away since.
    arrays = {
        "id": _strings([document.id for document in documents]),
        "text": _strings([text_at(each.source, text_fields) or "" for each in documents]),
    }
    for name, column in columns.items():
        values = [column.value(document) for document in documents]
        if column.type == "string":
            arrays[name] = _strings(values)
        else:
            arrays[name] = pa.array(values, _TYPES[column.type])
    return pa.RecordBatch.from_arrays([*arrays.values()], names=[*arrays])


def _strings(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        whole = (each and _SURROGATES.sub("\ufffd", each) for each in values)
        return pa.array(whole, pa.string())


def _marks_of(documents: Sequence[Document]) -> pa.RecordBatch:
    ids = pa.array([document.id for document in documents], pa.string())
    held = pa.array([json.dumps(document.source) for document in documents], pa.string())
    return pa.RecordBatch.from_arrays([ids, held], names=["id", "held"])


def _slices(
    snapshot: Snapshot,
    width: int,
    batch_of: Callable[[Sequence[Document]], pa.RecordBatch],
    paths: list[str],
    marked: bool,
    batches: Iterable[pa.RecordBatch],
) -> Batches:
    """Read the slices whose first numbers come; in an executor."""
    for batch in batches:
        numbers = batch.column(0).to_numpy()
        for number in (numbers[numbers % width == 0] // width).tolist():
            share = Share(number + 1, snapshot.slices)
            with opened(snapshot.connection, snapshot.index, known=True) as store:
                meta, point = snapshot.meta, snapshot.point
                pages = store.scan(paths, meta, share, marked=marked, point=point)
                yield from map(batch_of, _whole(pages, marked))


def _whole(pages: Iterator[list[Document]], again: bool) -> Iterator[list[Document]]:
    """Yield pages. again: another point in time may take the place of one that is lost."""
    try:
        yield from pages
    except PointInTimeLost as error:
        if again:
            raise
        raise StoreError(f"{error}. Read the index again, with a longer keep_alive") from error


def _written(
    connection: Connection, index: str, field: str, batches: Iterable[pa.RecordBatch]
) -> Batches:
    """Write the marks that documents lack, and yield one report; in an executor."""
    report = ChangeReport()
    with opened(connection, index, known=True) as store:
        for batch in batches:
            # A document without a group that has none need not be looked at.
            looked = pc.or_(pc.is_valid(batch["group"]), pc.is_valid(batch["held"]))
            wanted = _wanted(batch.filter(looked), field)
            settled = batch.num_rows - len(wanted)
            report += ChangeReport(read=settled, unchanged=settled)
            ids = list(wanted)
            for first in range(0, len(ids), DOCUMENTS_AT_ONCE):
                some = {id: wanted[id] for id in ids[first : first + DOCUMENTS_AT_ONCE]}
                report = (report + write_marks(store, field, some)).telling(_REASONS)
    yield pa.RecordBatch.from_pydict({"report": [json.dumps(asdict(report))]})


def _wanted(batch: pa.RecordBatch, field: str) -> dict[str, Wanted]:
    """The marks of the documents that may lack them, by id."""
    found = {}
    for row in batch.to_pylist():
        marks = {**NO_MARKS, **{name: row[name] for name in _GROUPED[2:]}}
        wanted = Wanted(row["digest"], marks)
        if row["held"] is None or wanted.lacking(json.loads(row["held"]), field) != {}:
            found[row["id"]] = wanted
    return found


def _report_in(text: str) -> ChangeReport:
    found = json.loads(text)
    return ChangeReport(**{**found, "failures": [Failure(**each) for each in found["failures"]]})


def _connection(target: str | Connection, credentials: Mapping[str, Any]) -> Connection:
    if not isinstance(target, Connection):
        return connection_to(target, **credentials)
    if credentials:
        raise UsageError(f"{min(credentials)} goes with the URL of a cluster")
    return target


@contextmanager
def opened(connection: Connection, index: str, *, known: bool = False) -> Iterator[ClusterStore]:
    """Open an index for the time of a `with`. known: as of `Cluster`."""
    with closing(ClusterStore(Cluster(connection, known=known), index)) as store:
        yield store


def meta_of(store: ClusterStore) -> IndexMeta:
    """The scheme and text fields of an index. Raises IndexNotFound."""
    if (meta := store.meta()) is None:
        raise IndexNotFound(
            f"{store.where} does not exist or holds no esdedup tokens: index documents first"
        )
    return meta


def snapshot_of(
    spark: SparkSession,
    store: ClusterStore,
    meta: IndexMeta,
    keep_alive: str = KEEP_ALIVE,
    slices: int | None = None,
) -> Snapshot:
    """Open a point in time of an index. slices: None chooses by documents and cores."""
    size = store.statistics(meta)
    if slices is None:
        wanted = ceil(size.sketched / _DOCUMENTS_A_SLICE)
        slices = min(MOST_SLICES, max(spark.sparkContext.defaultParallelism, wanted))
    Share(1, slices)
    connection, point = store.cluster.connection, store.open_point(keep_alive)
    return Snapshot(connection, store.index, meta, size.bytes, slices, point)


def kinds_of(store: ClusterStore, fields: Sequence[str]) -> dict[str, str]:
    """The types of fields in the mapping; "" if there is none, or indices differ in it."""
    if not fields:
        return {}
    named = ",".join(quote(name, safe="") for name in fields)
    _, answer = store.cluster.ask("GET", f"{path_of(store.index)}/_mapping/field/{named}")
    kinds: dict[str, set[str]] = {name: set() for name in fields}
    with store.cluster.reading():
        for found in answer.values():
            for name, whole in found["mappings"].items():
                (mapping,) = whole["mapping"].values()
                kinds.setdefault(name, set()).add(mapping.get("type", ""))
    return {name: found.pop() if len(found) == 1 else "" for name, found in kinds.items()}
