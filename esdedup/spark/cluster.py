"""Reads an index of a cluster in Spark's executors, and writes groups back from them.

The executors use our own store, so that Elasticsearch and OpenSearch are read and written the same
way without a connector. esdedup must be installed where they run. Credentials are sent with the
code of the tasks, which neither plans nor Spark's pages show.
"""

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import ceil
from typing import Any, Unpack

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from esdedup.arguments import check_list
from esdedup.exceptions import StoreError, UsageError
from esdedup.groups.marks import DOCUMENTS_AT_ONCE, NO_MARKS, Wanted, require_settled, write_marks
from esdedup.models import MOST_SLICES, Document, Failure, Share
from esdedup.spark.documents import require_of_spark
from esdedup.spark.pair_jobs import of_index
from esdedup.spark.tables import Batches, errors_of_tasks, is_remote, mapped
from esdedup.stores import Cluster, stored_meta
from esdedup.stores.changes import ChangeReport
from esdedup.stores.connection import Connection, ConnectionSettings, connection_to
from esdedup.stores.elastic.errors import PointInTimeLost
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.fields import text_at, value_at
from esdedup.stores.judgements import read_judgements
from esdedup.stores.mapping import IndexMeta

_DOCUMENTS_A_SLICE = 50_000
_REASONS = 1_000
"""Maximum number of failures whose reasons are kept."""
_GROUPED = ("id", "digest", "group", "original", "similarity")
_INDEX, _INDICES = "esdedup_index", "esdedup_indices"
"""Columns of the index of a document, and of the number of indices that have its id."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def read_index(
    spark: SparkSession,
    target: str | Connection,
    index: str,
    *,
    fields: Sequence[str] = (),
    slices: int | None = None,
    keep_alive: str = "1h",
    **credentials: Unpack[ConnectionSettings],
) -> DataFrame:
    """Return the documents of an index that have tokens: columns id, text, and the given fields.

    Where several indices behind the name have an id, it begins with the index: "INDEX/ID".

    `pairs` and `groups` compare them by the scheme of the index, which the column of texts
    carries. Each task reads one slice of a point in time, so that all uses of the result see the
    same documents. Half a pair of surrogates, which Spark can't hold, is replaced by U+FFFD.

    target: the URL of a cluster, or a Connection.
    fields: dotted names of other fields, as columns of strings: a text unchanged, any other value
    as JSON, null if it is missing. Cast them, for instance to `bigint`.
    slices: number of partitions, 1 to 1,024; by default one for 50,000 documents, and at least as
    many as Spark's default parallelism.
    keep_alive: time after its last use at which the servers may close the point in time. A task
    then raises StoreError.
    username, password: one of three ways to authenticate.
    api_key: another one: encoded, or "id:key".
    bearer_token: another one.
    ca_certs: a file of certificate authorities to trust.
    fingerprint: the SHA-256 of the server's certificate, which replaces verification.
    cloud_id: of a deployment in Elastic Cloud, in place of a URL.
    timeout: of one request, in seconds.
    retry_for: seconds in which a failed request is retried; 0 for never.
    requests: maximum number in flight.
    compress: gzip requests and answers.
    waits: for other clients, see `Connection`.

    Warns of indices behind the name that lack the fields, and are left out. Raises UsageError for
    wrong arguments, IndexNotFound, and the errors of the store.
    """
    check_list("fields", fields)
    if reserved := {"id", "text"} & {*fields}:
        raise UsageError(f"fields: the column {min(reserved)!r} is there already")
    connection = _connection(target, credentials)
    with _opened(connection, index) as store:
        meta = stored_meta(store)
        if slices is None:
            by_documents = ceil(store.statistics(meta).sketched / _DOCUMENTS_A_SLICE)
            cores = 1 if is_remote(spark) else spark.sparkContext.defaultParallelism
            slices = min(MOST_SLICES, max(cores, by_documents))
        Share(1, slices)
        point = store.open_point(keep_alive)
        has_several = store.write_index() is not None
        if (warning := store.unattached().warning) is not None:
            warnings.warn(warning, stacklevel=2)
    schema = StructType().add("id", "string", False)
    for name in ("text", *fields):
        schema.add(name, "string")
    numbers = spark.range(0, slices, 1, slices)
    documents = _Slices(connection, index, meta, [*fields], slices, point)
    if not has_several:
        return of_index(mapped(numbers, documents.read, schema), meta)
    placed = mapped(numbers, partial(documents.read, placed=True), schema.add(_INDEX, "string"))
    ids = mapped(numbers, replace(documents, fields=[]).read_ids, f"id string, {_INDEX} string")
    return of_index(_with_indices(placed, ids).select("id", "text", *map(_quoted, fields)), meta)


def write_groups(
    df: DataFrame,
    target: str | Connection,
    index: str,
    *,
    collapse_ready: bool = False,
    writers: int = 32,
    **credentials: Unpack[ConnectionSettings],
) -> ChangeReport:
    """Write the groups of documents into them, and remove old marks from all others.

    A document is written only if its marks differ and it still has the text that it was grouped by.
    The same call again completes one that failed. What a lost task wrote counts as unchanged.

    df: of `groups`: columns id, digest, group, original and similarity, each id once.
    target, index: as of `read_index`.
    collapse_ready: a document that is alone gets its own id as its group.
    writers: maximum number of tasks that write concurrently.
    username, password: one of three ways to authenticate.
    api_key: another one: encoded, or "id:key".
    bearer_token: another one.
    ca_certs: a file of certificate authorities to trust.
    fingerprint: the SHA-256 of the server's certificate, which replaces verification.
    cloud_id: of a deployment in Elastic Cloud, in place of a URL.
    timeout: of one request, in seconds.
    retry_for: seconds in which a failed request is retried; 0 for never.
    requests: maximum number in flight.
    compress: gzip requests and answers.
    waits: for other clients, see `Connection`.

    Returns counts that add up to the rows of `df`, with the reasons of at most 1,000 failures.
    Raises UsageError if a column is missing and for judged documents, StoreError while the index
    is changing its scheme, and the errors of the store.
    """
    require_of_spark(df)
    if missing := [name for name in _GROUPED if name not in df.columns]:
        raise UsageError(f"there is no column {missing[0]!r}: pass the table of groups")
    connection = _connection(target, credentials)
    grouped = df.select(*_GROUPED)
    if collapse_ready:
        grouped = grouped.withColumn("group", F.coalesce("group", "id"))
    with _opened(connection, index) as store:
        meta = stored_meta(store)
        if read_judgements(store, meta).acting:
            raise UsageError(
                f"{store.where} has judgements of esdedup review, which Spark does not apply:"
                " use esdedup group"
            )
        require_settled(store, meta)
        write = partial(_written, connection, index, meta)
        with errors_of_tasks():
            rows = mapped(grouped.coalesce(writers), write, "report string").collect()
        store.refresh()
    report = ChangeReport()
    for row in rows:
        counts = json.loads(row["report"])
        failures = [Failure(**failure) for failure in counts["failures"]]
        of_task = ChangeReport(**{**counts, "failures": failures})
        report = (report + of_task).telling(_REASONS)
    return report


@dataclass(frozen=True)
class _Slices:
    """The documents of an index in slices, which executors read.

    connection: to the cluster.
    index: its name.
    meta: the scheme, and the fields of the texts.
    fields: dotted names of other fields.
    count: number of slices.
    point: the point in time, as of `ClusterStore.open_point`.
    """

    connection: Connection
    index: str
    meta: IndexMeta
    fields: Sequence[str]
    count: int
    point: str

    def read(self, batches: Iterable[pa.RecordBatch], *, placed: bool = False) -> Batches:
        """Yield the documents of the slices of some numbers.

        batches: the numbers, from 0. placed: with the index of each document.
        """
        text_fields = self.meta.text_fields
        for page in self._pages(batches, [*dict.fromkeys([*text_fields, *self.fields])]):
            batch = _batch(page, text_fields, self.fields)
            yield batch.append_column(_INDEX, _indices_of(page)) if placed else batch

    def read_ids(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Yield the ids of these documents, and their indices."""
        for page in self._pages(batches, []):
            ids = pa.array([document.id for document in page], pa.string())
            yield pa.RecordBatch.from_pydict({"id": ids, _INDEX: _indices_of(page)})

    def _pages(
        self, batches: Iterable[pa.RecordBatch], paths: list[str]
    ) -> Iterator[list[Document]]:
        """Yield the documents of the slices of some numbers, with the fields of paths."""
        with _opened(self.connection, self.index, known=True) as store:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    share = Share(number + 1, self.count)
                    try:
                        yield from store.scan(paths, self.meta, share, point=self.point)
                    except PointInTimeLost as error:
                        raise StoreError(
                            f"{error}. Read the index again, with a longer keep_alive"
                        ) from error


def _with_indices(documents: DataFrame, ids: DataFrame) -> DataFrame:
    """Return documents whose ids begin with their index, if several indices have the id.

    documents: with their indices. ids: of the same documents, likewise.
    """
    repeated = ids.groupBy("id").agg(F.countDistinct(_INDEX).alias(_INDICES))
    repeated = repeated.where(F.col(_INDICES) > 1)
    name = F.when(F.col(_INDICES).isNull(), F.col("id"))
    name = name.otherwise(F.concat_ws("/", _INDEX, "id"))
    return documents.join(repeated, "id", "left").withColumn("id", name)


def _quoted(name: str) -> str:
    """Return the name of a column for Spark, which would read dots as those of a nested field."""
    return f"`{name.replace('`', '``')}`"


def _indices_of(page: Sequence[Document]) -> pa.Array:
    return pa.array([document.index for document in page], pa.string())


def _batch(page: Sequence[Document], texts: Sequence[str], fields: Sequence[str]) -> pa.RecordBatch:
    sources = [document.source for document in page]
    columns = {
        "id": pa.array([document.id for document in page], pa.string()),
        # The text of a document with tokens may have been removed since.
        "text": _strings(text_at(source, texts) or "" for source in sources),
    }
    for name in fields:
        columns[name] = _strings(value_at(source, name) for source in sources)
    return pa.RecordBatch.from_pydict(columns)


def _strings(values: Iterable[Any]) -> pa.Array:
    """Return texts unchanged but for half pairs of surrogates, and other values as JSON."""
    texts = (
        value if isinstance(value, str | None) else json.dumps(value, ensure_ascii=False)
        for value in values
    )
    return pa.array([text and _SURROGATES.sub("\ufffd", text) for text in texts], pa.string())


def _written(
    connection: Connection, index: str, meta: IndexMeta, batches: Iterable[pa.RecordBatch]
) -> Batches:
    """Write the marks that documents lack, and yield one report; in an executor."""
    report = ChangeReport()
    with _opened(connection, index, known=True) as store:
        for batch in batches:
            for first in range(0, batch.num_rows, DOCUMENTS_AT_ONCE):
                rows = batch.slice(first, DOCUMENTS_AT_ONCE).to_pylist()
                marks = {row["id"]: _marks_of(row) for row in rows}
                report = (report + write_marks(store, meta, marks)).telling(_REASONS)
    yield pa.RecordBatch.from_pydict({"report": [json.dumps(asdict(report))]})


def _marks_of(row: Mapping[str, Any]) -> Wanted:
    """Return the marks of a row of `groups`."""
    return Wanted(row["digest"], {**NO_MARKS, **{name: row[name] for name in _GROUPED[2:]}})


def _connection(target: str | Connection, credentials: ConnectionSettings) -> Connection:
    if not isinstance(target, Connection):
        return connection_to(target, **credentials)
    if credentials:
        raise UsageError(f"{min(credentials)} can't be combined with a Connection")
    return target


def _opened(connection: Connection, index: str, *, known: bool = False) -> closing[ClusterStore]:
    """Open an index for the time of a `with`. known: as of `Cluster`."""
    return closing(ClusterStore(Cluster(connection, retries_connecting=known), index))
