"""An index of documents and their tokens: the few calls that most programs need.

Opens an index by where it is.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from esdedup.admin.stop_list import put_stop_list
from esdedup.analysis.explain import Explanation, explain
from esdedup.dedup.groups import Grouping, Groups, OnStep, find_groups
from esdedup.dedup.pairs import SimilarPairs, similar_pairs
from esdedup.exceptions import IndexNotFound, RecordError, StoreError, UsageError
from esdedup.ingest.documents import partial_document
from esdedup.ingest.files import BadRecord, Record
from esdedup.ingest.ingest import IngestReport, ingest
from esdedup.ingest.near_duplicates import DuplicatePolicy
from esdedup.models import Document, Metric, Query, Result, Statistics
from esdedup.search.hot_buckets import HotBuckets, hot_buckets
from esdedup.search.limits import LOOKING, MAX_PER_BUCKET, RECALL, Limits
from esdedup.search.nearest import nearest
from esdedup.search.similar import request_body, similar
from esdedup.sketch.scheme import Scheme
from esdedup.stores import BulkPolicy, LocalStore, Store, open_cluster
from esdedup.stores.connection import Connection, connection_to
from esdedup.stores.fields import text_of
from esdedup.stores.mapping import META_SECONDS, IndexMeta


class Index:
    """One index in a store.

    Use it as a context manager, or call `close`.
    """

    def __init__(
        self, store: Store, scheme: Scheme | None = None, text_field: str | None = None
    ) -> None:
        self.store = store
        self._scheme = scheme
        self._text_field = text_field
        self._meta: IndexMeta | None = None
        self._read_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives connections back."""
        self.store.close()

    @property
    def meta(self) -> IndexMeta:
        """The scheme and text field that the index holds.

        Raises IndexNotFound where there is none, SchemeMismatch where others were asked for.
        """
        if self._meta is None or time.monotonic() > self._read_at + META_SECONDS:
            self._read_at = time.monotonic()
            stored = self.store.meta()
            if stored is None:
                raise IndexNotFound(
                    f"{self.store.where} does not exist or holds no esdedup tokens:"
                    " index documents first"
                )
            if self._meta is None:
                # Later it may be changed, by `esdedup switch`, under whoever has it open.
                stored.require(self._wanted(stored), self.store.where)
            self._meta = stored
        return self._meta

    @property
    def scheme(self) -> Scheme:
        """The scheme of the index."""
        return self.meta.scheme

    def create(self) -> None:
        """Makes the index, or adds the token fields to an existing one; nothing else changes.

        Raises SchemeMismatch where the index holds another scheme or text field.
        """
        stored = self.store.meta()
        if stored is None:
            self.store.create(self._wanted(IndexMeta(Scheme())))
        # Read back, because the index says what holds.
        self._meta = None
        _ = self.meta

    def add(
        self,
        documents: Iterable[Mapping[str, Any]],
        *,
        id_field: str = "id",
        on_duplicate: DuplicatePolicy | None = None,
    ) -> IngestReport:
        """Writes documents with their tokens, replacing those of the same id.

        The index is made if there is none. All are visible to searches afterwards.

        on_duplicate: what to do with near-duplicates of earlier documents; with "fail" they raise
        RecordError.

        Raises RecordError, naming the document by number, for one without text or id, or that the
        store refuses; what came before it may have been written.
        """
        self.create()
        report = ingest(
            self.store,
            self.meta,
            (Record("document", number, source) for number, source in enumerate(documents, 1)),
            _raise,
            id_field=id_field,
            on_duplicate=on_duplicate,
            fresh=lambda: self.meta,
        )
        self.store.refresh()
        return report

    def update(self, documents: Iterable[Mapping[str, Any]], *, id_field: str = "id") -> int:
        """Merges fields into documents that exist, with new tokens where the text is among them.

        A text that is null takes the tokens away. Returns the number of documents; raises
        RecordError for one without an id, or that does not exist, after the others were written.
        """
        partial = [partial_document(fields, id_field, self.meta) for fields in documents]
        report = self.store.update(partial)
        self.store.refresh()
        if report.failures:
            failure = report.failures[0]
            raise RecordError(f"document {failure.id!r}: {failure.reason}")
        return report.updated

    def get(self, id: str) -> Document:
        """A document, without its tokens. Raises StoreError where there is none."""
        found = self.store.get([id])
        if not found:
            raise StoreError(f"{self.store.where} has no document {id!r}")
        return found[0]

    def delete(self, ids: Sequence[str]) -> int:
        """Deletes documents with their tokens; the number that existed."""
        deleted = self.store.delete(ids)
        self.store.refresh()
        return deleted

    def similar(
        self,
        text: str | None = None,
        *,
        id: str | None = None,
        metric: Metric = "jaccard",
        threshold: float | None = LOOKING,
        distance: int | None = None,
        k: int = 10,
        candidates: int = 1_000,
        recall: float = 0.999,
        filters: Sequence[Mapping[str, Any]] = (),
        max_bucket: int | None = None,
    ) -> Result:
        """The documents most similar to a text, or to a document of the index.

        metric: "jaccard", with the least similarity `threshold` (None: the k nearest, however
        unlike), or "hamming", with the most differing bits `distance` (None: what the segments
        guarantee by equality alone).
        k: at most so many matches. candidates: to verify, at most; the result tells if there were
        more. recall: share of the documents just at the threshold that shall be found; the result
        tells what is expected. filters: queries in the cluster's own language that a match must
        meet too. max_bucket: leave out buckets of more documents than that; the result tells how
        many.
        """
        limits = Limits(metric, threshold, distance, k, candidates, recall, max_bucket)
        return self.similar_many([self.query(text, id, filters)], limits)[0]

    def request_body(
        self, query: Query, limits: Limits, *, collapse: bool = False
    ) -> dict[str, Any]:
        """The body of the `_search` that finds the candidates of a query, for any client to send.

        collapse: only the best of each group, of documents that have one.
        """
        body = request_body(self.meta, query, limits)
        return {**body, "collapse": {"field": f"{self.meta.field}.group"}} if collapse else body

    def similar_many(self, queries: Sequence[Query], limits: Limits) -> list[Result]:
        """The results of many queries, in order."""
        search = nearest if limits.threshold is None else similar
        return search(self.store, self.meta, queries, limits)

    def query(
        self,
        text: str | None = None,
        id: str | None = None,
        filters: Sequence[Mapping[str, Any]] = (),
    ) -> Query:
        """A query by text, or by the id of a document, which it then leaves out.

        Raises UsageError unless exactly one of them is given.
        """
        if (text is None) == (id is None):
            raise UsageError("give either a text or the id of a document")
        if text is not None:
            return Query(text, filters=filters)
        assert id is not None
        try:
            return Query(text_of(self.get(id).source, self.meta.text_field), id, filters)
        except RecordError as error:
            raise StoreError(f"document {id!r}: {error}") from error

    def pairs(
        self,
        *,
        metric: Metric = "jaccard",
        threshold: float = LOOKING,
        distance: int | None = None,
        recall: float = RECALL,
        max_per_bucket: int = MAX_PER_BUCKET,
        on_step: OnStep | None = None,
    ) -> SimilarPairs:
        """All pairs of similar documents, each once, the most similar first.

        max_per_bucket: compare a document with at most this many others of each bucket;
        the result tells where that cut something off.
        """
        limits = Limits(metric, threshold, distance, recall=recall, max_per_bucket=max_per_bucket)
        return similar_pairs(self.store, self.meta, limits, on_step)

    def groups(self, grouping: Grouping | None = None) -> Groups:
        """The groups of similar documents; nothing is changed."""
        return find_groups(self.store, self.meta, grouping or Grouping())

    def explain(self, left: str, right: str) -> Explanation:
        """Why two documents, given by id, are similar or not: what they share, and what met."""
        return explain(self.store, self.meta, left, right)

    def statistics(self) -> Statistics:
        """Numbers of the index."""
        return self.store.statistics(self.meta)

    def hot_buckets(self, count: int | None = 10, **options: Any) -> HotBuckets:
        """The tokens that most documents hold, as `hot.hot_buckets` finds them."""
        return hot_buckets(self.store, self.meta, count, **options)

    def stop(self, tokens: Sequence[str]) -> tuple[str, ...]:
        """Makes tokens the index's stop list, in place of the one it has; the list as it is kept.

        Searches by whoever has the index open leave them out within 10 seconds. Raises UsageError
        for what is no token of its scheme.
        """
        self._meta = None
        kept = put_stop_list(self.store, self.meta, tokens)
        self._meta = None
        return kept

    def _wanted(self, stored: IndexMeta) -> IndexMeta:
        """What was asked for, completed with what is stored."""
        return replace(
            stored,
            scheme=self._scheme or stored.scheme,
            text_field=self._text_field or stored.text_field,
        )


def _raise(record: BadRecord) -> None:
    raise RecordError(f"{record.file} {record.line}: {record.reason}")


DEFAULT_FILE = "esdedup.db"
DEFAULT_INDEX = "documents"


def open(
    target: str | Path | Connection = DEFAULT_FILE,
    index: str = DEFAULT_INDEX,
    *,
    scheme: Scheme | None = None,
    text_field: str | None = None,
    policy: BulkPolicy | None = None,
    **credentials: Any,
) -> Index:
    """An index in a local file, or in a cluster.

    target: a file's path; or an http(s) URL of Elasticsearch or OpenSearch; or a Connection.
    index: its name. scheme, text_field: for an index to be made, by default `Scheme()` and
    "text"; an index that exists brings its own, and other ones are an error.
    credentials: for a URL, see `connection_to`: username, password, api_key, bearer_token,
    ca_certs, fingerprint, cloud_id, timeout.

    Raises UsageError for wrong arguments, StoreError where the cluster can't be reached.
    """
    if isinstance(target, str) and (target.startswith(("http://", "https://")) or not target):
        target = connection_to(target or None, **credentials)
    elif credentials:
        raise UsageError(f"{sorted(credentials)[0]} goes with the URL of a cluster")
    if isinstance(target, Connection):
        return Index(open_cluster(target, index, policy), scheme, text_field)
    return Index(LocalStore(target, index), scheme, text_field)
