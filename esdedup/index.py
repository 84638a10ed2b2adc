"""An index of documents with their tokens, and all that a program does with it."""

import itertools
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self, Unpack, get_args

from esdedup import analysis, removal
from esdedup.analysis.weighing import Weighing, WeighingSettings, texts_of, weigh
from esdedup.arguments import accepts, check_list, check_names, check_type, from_settings
from esdedup.compare.pairs import SimilarPairs, similar_pairs
from esdedup.compare.source import shown_texts_in
from esdedup.exceptions import EsdedupError, IndexNotFound, RecordError, StoreError, UsageError
from esdedup.groups.groups import Grouping, GroupingSettings, Groups, find_groups, regroup
from esdedup.groups.marks import GroupReport, mark_groups, require_settled
from esdedup.ingest.ingest import DEFAULT_SETTINGS, IngestReport, IngestSettings, ingest
from esdedup.ingest.policies import DuplicatePolicy, PolicyAction
from esdedup.ingest.renew import fields_to_read, renew
from esdedup.models import Document, Fields, Match, Query, Result, Statistics
from esdedup.records.dead_letters import DeadLetter
from esdedup.records.documents import partial_document
from esdedup.records.files import BadRecord, Chunk, Record, chunks_of_records
from esdedup.records.merge import Merge
from esdedup.records.query_files import (
    RecordQuery,
    leaving_out_themselves,
    queries_in_files,
    text_in_file,
)
from esdedup.runs.run import OnStep, Run
from esdedup.search.hot_buckets import HotBuckets, hot_buckets
from esdedup.search.scopes import query_scope, scope_paths, warning_of_query
from esdedup.search.similar import NEEDS_FIELDS, request_body, similar, verified
from esdedup.search.warnings import BLANK_QUERY, missing_matches, too_short
from esdedup.sketch.comparisons import JaccardSimilarity
from esdedup.sketch.limits import Limits, PairSettings, QuerySettings
from esdedup.sketch.scheme import Scheme, require_scheme
from esdedup.sketch.sketch import shingle_sets
from esdedup.sketch.within import Within
from esdedup.stores import BulkPolicy, Store, changes, stored_meta, waits_of
from esdedup.stores.connection import (
    Connection,
    ConnectionSettings,
    check_file_name,
    connection_to,
)
from esdedup.stores.elastic.bodies import Body, Hit
from esdedup.stores.elastic.client_connection import Client, connection_through, is_client
from esdedup.stores.elastic.queries import candidates_of_hits
from esdedup.stores.fields import parts_of, text_at, text_in, text_of, value_at
from esdedup.stores.judgements import PREFIX, StoredJudgements, checked_id
from esdedup.stores.location import IndexLocation
from esdedup.stores.mapping import IndexMeta, TextFields, names_of
from esdedup.stores.private_files import file_name
from esdedup.stores.stop_list import StopList
from esdedup.text.characters import count
from esdedup.text.weights import Weights

DEFAULT_FILE = "esdedup.db"
DEFAULT_INDEX = "documents"
_EXAMPLES = 4
"""Ids that a message names."""
_EXAMPLE_TEXTS = 20
"""Documents whose length is that of a usual one."""
_SECONDS_TO_SHOW = 2.0
"""Timeout of the requests that count the documents for `repr`."""


class Index:
    """One index in a store. Use it as a context manager, or call `close`.

    Threads can share it. Calls of a closed index raise UsageError.
    """

    DEFAULT_FILE: ClassVar = DEFAULT_FILE
    """The file of `esdedup.open` if none is named."""
    DEFAULT_NAME: ClassVar = DEFAULT_INDEX
    """The name of an index in it if none is named."""

    def __init__(
        self,
        location: IndexLocation,
        scheme: Scheme | None = None,
        text_field: TextFields | None = None,
    ) -> None:
        require_scheme(scheme)
        self.location, self._store = location, location.store()
        self._scheme = scheme
        self._text_fields = None if text_field is None else names_of(text_field)
        self._meta: IndexMeta | None = None
        self._read_at = 0.0
        self._is_closed = False
        self._folder: TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, or the connections to the cluster."""
        self._is_closed = True
        self._store.close()
        if self._folder is not None:
            self._folder.cleanup()

    def __repr__(self) -> str:
        """Return the place of the index, and its number of documents now."""
        place = self.where.removeprefix("index ")
        return f"<Index {place}: {'closed' if self._is_closed else self._size()}>"

    @property
    def where(self) -> str:
        """The name and place of the index, for messages, also when it is closed."""
        return self._store.where

    @property
    def address(self) -> str:
        """The address of the cluster, or the path of the file, also when it is closed."""
        return self._store.address

    @property
    def store(self) -> Store:
        """The store of the index. Raises UsageError if the index is closed."""
        if self._is_closed:
            raise UsageError(f"{self.where} is closed: open it again")
        return self._store

    @store.setter
    def store(self, store: Store) -> None:
        self._store = store

    def _size(self) -> str:
        """Return the number of documents in words, without retrying requests."""
        location = self.location
        if isinstance(location.target, Connection):
            # Logs and debuggers show objects also while a cluster does not answer.
            once = replace(location.target, retry_for=0.0, timeout=_SECONDS_TO_SHOW)
            location = replace(location, target=once)
        try:
            with Index(location) as index:
                return count(index.statistics().documents, "document")
        except IndexNotFound:
            return "no documents yet"
        except EsdedupError:
            return "it can't be read now"

    @property
    def meta(self) -> IndexMeta:
        """The scheme and text fields that the index holds.

        Raises IndexNotFound if it does not exist, SchemeMismatch if it holds others than requested.
        """
        # Another thread may clear `_meta` meanwhile.
        meta = self._meta
        if meta is None or time.monotonic() > self._read_at + waits_of(self.store).mapping:
            self._read_at = time.monotonic()
            stored = stored_meta(self.store)
            if meta is None:
                # `esdedup switch` may change it later, while the index is open.
                stored.require(self._requested(stored), self.store.where)
            self._meta = meta = stored
        return meta

    @property
    def scheme(self) -> Scheme:
        """The scheme of the index."""
        return self.meta.full_scheme

    def planned_meta(self, stored: IndexMeta | None) -> IndexMeta:
        """Return the stored description of the tokens, or that which `create` will store.

        stored: as `store.meta()` returned it.
        """
        return stored or self._requested(IndexMeta(Scheme()))

    def meta_of(self, limits: Limits) -> IndexMeta:
        """Return the part of `meta` for a sketch."""
        return self.meta.of(limits.sketch)

    def create(self) -> int:
        """Create the index, or add the token fields to an existing one.

        Return the number of fields that the mapping of an existing index got, 0 for a new one. An
        index without documents, as a failed first try leaves it, gets the requested scheme and text
        fields. Raises SchemeMismatch if one with documents has others.
        """
        stored = self.store.meta()
        added_fields = 0
        if stored is None:
            added_fields = self.store.create(self._requested(IndexMeta(Scheme())))
        else:
            self.store.require_attached()
            if not stored.holds(requested := self._requested(stored)):
                renewed = replace(
                    IndexMeta(requested.scheme, requested.text_fields),
                    external_versions=stored.external_versions,
                    attached=stored.attached,
                )
                self.store.renew(stored, renewed)
        # Read back, because the stored parameters count.
        self._meta = None
        _ = self.meta
        return added_fields

    def add(
        self,
        documents: Iterable[Mapping[str, object] | str],
        *,
        id_field: str = "id",
        on_duplicate: PolicyAction | DuplicatePolicy = "keep",
        within: str | Sequence[str] = (),
        routing_field: str | None = None,
    ) -> IngestReport:
        """Write documents with their tokens, replacing those of the same id.

        The index is created if there is none. All documents are visible to searches afterwards. A
        document without an id gets a random one, and so does a text.

        documents: mappings of fields, or texts. on_duplicate: a DuplicatePolicy, or its action;
        "fail" raises RecordError. within: fields that duplicates agree in, or windows of time, such
        as "date:3d". routing_field: of what a cluster chooses the shard of a document by, for an
        index that requires a routing; None for the id.

        Raises RecordError, naming the document by number, if one has no text or no valid id, or if
        the store rejects it. Earlier documents may have been written. Raises StoreError if the
        mapping is strict and lacks fields of all the first documents, and UsageError for a single
        document.
        """
        if not isinstance(on_duplicate, DuplicatePolicy):
            on_duplicate = DuplicatePolicy(on_duplicate)
        if within:
            on_duplicate = on_duplicate.limited_to(within)
        check_type("id_field", id_field, "str")
        check_type("routing_field", routing_field, "str | None")
        check_list("documents", documents)
        if on_duplicate.sketch is not None:
            on_duplicate.check_sketch(self.planned_meta(self.store.meta()))
        self.create()
        field = self.meta.text_fields[0]
        sources = (
            {field: document} if isinstance(document, str) else document for document in documents
        )
        records = _records(sources, id_field)
        settings = IngestSettings(
            id_field=id_field, on_duplicate=on_duplicate, routing_field=routing_field
        )
        report = self.ingest(chunks_of_records(records), _raise, settings)
        self.store.refresh()
        return report

    def ingest(
        self,
        chunks: Iterable[Chunk],
        dead_letter: DeadLetter,
        settings: IngestSettings = DEFAULT_SETTINGS,
    ) -> IngestReport:
        """Write the records of files as `ingest.ingest`, without a refresh."""
        return ingest(self.store, lambda: self.meta, chunks, dead_letter, settings)

    def update(self, documents: Iterable[Mapping[str, object]], *, id_field: str = "id") -> int:
        """Merge fields into documents that exist, and return the number of documents.

        A document whose text is among the fields gets new tokens; a text that is null removes them.
        If the text is another one, the document loses its marks.

        Raises UsageError if several indices have an id; RecordError, after the others were written,
        if a document has no id or is missing.
        """
        check_type("id_field", id_field, "str")
        records, meta = _records(documents), self.meta
        self.store.require_attached()
        partial = [partial_document(record.source, id_field, meta) for record in records]
        self._require_unique([document.id for document, _ in partial])
        report = changes.update(self.store, [document for document, _ in partial], meta)
        failures = [*report.failures]
        self.store.refresh()
        if unfinished := list(dict.fromkeys(document.id for document, partly in partial if partly)):
            stored = self.store.hold(
                unfinished, fields_to_read(meta.sketched_with_next), to_change=True
            )
            failures += renew(self.store, stored, meta.sketched_with_next).failures
            self.store.refresh()
        if failures:
            failure = failures[0]
            raise RecordError(f"document {failure.id!r}: {failure.reason}")
        return report.updated

    def get(self, id: str) -> Document:
        """Return a document without its tokens.

        id: where several indices behind the name have it, "INDEX/ID".

        Raises StoreError if there is none, UsageError if several indices have the id.
        """
        self._require_unique([id])
        documents = self.store.get([checked_id(id)])
        if not documents:
            raise StoreError(f"{self.store.where} has no document {id!r}")
        return documents[0]

    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents with their tokens, and return the number that existed."""
        check_list("ids", ids)
        self._require_unique(ids)
        deleted = changes.delete(self.store, [checked_id(id) for id in ids])
        self.store.refresh()
        return deleted

    def _require_unique(self, ids: Sequence[str]) -> None:
        """Raise UsageError if several indices behind the name have a document of one of the ids."""
        full_ids = self.store.ids_with_indices([checked_id(id) for id in ids])
        if full_ids:
            raise UsageError(
                f"{self.store.where}: several indices have an id: name a document by its index too,"
                f" such as {' or '.join(full_ids[:_EXAMPLES])}"
            )

    @accepts(Limits, "query")
    def similar(
        self,
        text: str | Mapping[str, object] | None = None,
        *,
        id: str | None = None,
        filters: Sequence[Mapping[str, object]] = (),
        limits: Limits | None = None,
        **settings: Unpack[QuerySettings],
    ) -> Result:
        """Return the documents most similar to a text, or to a document of the index.

        text, id: either is needed. The text may be in the fields of a document. A document of the
        index doesn't match itself.
        filters: queries in the cluster's own language that a match must meet too.
        limits: how to compare, in place of the settings below.
        sketch: name of the sketch to compare by; None for the scheme's first.
        threshold: minimum Jaccard similarity, 0 to 1; 0.5 by default, None for the nearest.
        distance: maximum Hamming distance in bits, for a sketch of fingerprints.
        k: maximum number of matches.
        candidates: maximum number of documents to verify.
        recall: fraction of similar documents to find; 0.999 by default, or that of the scheme.
        cover: minimum share in passages, 0 to 1, for a sketch of these.
        words: minimum number of words of a passage.
        cosine: minimum cosine, 0 to 1, for a sketch of vectors.
        within: fields that matches agree in with the document, or windows of time.
        """
        limits = from_settings(Limits, settings, limits, "query")
        query = self.query(text, id, filters, limits.sketch, limits.within)
        return self.similar_many([query], limits)[0]

    def similar_many(self, queries: Sequence[Query], limits: Limits) -> list[Result]:
        """Return the results of many queries, in their order."""
        results = similar(self.store, self.meta_of(limits), queries, limits)
        unattached = self.store.unattached()
        return [
            replace(self._without_our_fields(result), unattached=unattached) for result in results
        ]

    def _without_our_fields(self, result: Result) -> Result:
        """Return the result, whose matches have the fields that the documents came with."""
        token_fields = {sketched.field for sketched in self.meta.sketched_with_next}
        hidden = {self.meta.marks_field, *token_fields}

        def without_our_fields(match: Match) -> Match:
            source = {name: value for name, value in match.source.items() if name not in hidden}
            return replace(match, source=source)

        return replace(result, matches=[without_our_fields(match) for match in result.matches])

    def query(
        self,
        text: str | Mapping[str, object] | None = None,
        id: str | None = None,
        filters: Sequence[Mapping[str, object]] = (),
        sketch: str | None = None,
        within: Within | str | Sequence[str] = (),
    ) -> Query:
        """Return a query by text, or by the id of a document, which its own matches leave out.

        text: also the fields of a document. sketch: name of the sketch to compare by, whose fields
        hold the document's text. within: fields that matches agree in with the document, or windows
        of time. Raises UsageError unless exactly one of text and id is given, and for a text
        without the fields of `within`.
        """
        if not isinstance(text, Mapping):
            check_type("text", text, "str | None")
        check_list("filters", filters)
        within = within if isinstance(within, Within) else Within.parse(within)
        if (text is None) == (id is None):
            raise UsageError("use either a text or the id of a document")
        names = self.meta.of(sketch).text_fields
        if isinstance(text, str):
            if within:
                raise UsageError(f"within {within}: {NEEDS_FIELDS}")
            return Query(text_in(text, names), filters=filters)
        source = (text or {}) if id is None else self.get(id).source
        scope = None
        try:
            text_of_document, parts = text_of(source, names), parts_of(source, names)
        except RecordError as error:
            if id is None:
                raise
            raise StoreError(f"document {id!r}: {error}") from error
        if within:
            if id is not None:
                # A server reads times by the format of their field.
                (stored,) = self.store.hold([id], scope_paths(within))
                source = stored.source
            scope = query_scope(within, source)
        exclude = None if id is None else checked_id(id)
        return Query(text_of_document, exclude, filters, parts=parts, scope=scope)

    def queries_in_files(
        self,
        files: Iterable[str],
        limits: Limits,
        filters: Sequence[Fields] = (),
        encoding: str | None = None,
        delimiter: str | None = None,
        *,
        other_set: bool = False,
    ) -> Iterator[list[RecordQuery]]:
        """Yield the queries of the records of files, many at once, for `similar_many`.

        A document that has the id and the text of a record is taken for the record itself, and is
        no match of it.

        limits: those of the search, whose sketch has the fields of the text.
        filters: as of `similar`. encoding: of the files, by default UTF-8. delimiter: of CSV files,
        by default a comma. other_set: no record is a document of the index, whatever its id is.
        """
        meta, within = self.meta_of(limits), limits.within
        batches = queries_in_files(files, meta.text_fields, filters, encoding, within, delimiter)
        if other_set:
            return batches
        return (leaving_out_themselves(batch, self.store, meta) for batch in batches)

    @staticmethod
    def text_in_file(file: str, encoding: str | None = None) -> str:
        """Return the text that a file holds, for `query`; "-" is standard input."""
        return text_in_file(file, encoding)

    def warnings(self, result: Result, limits: Limits, query: Query) -> list[str]:
        """Return warnings that matches of a query may be missing, as sentences."""
        scheme = self.scheme
        warnings = [*missing_matches(result, limits, scheme)]
        if query.scope is not None and query.scope.is_missing:
            return [warning_of_query(limits.within)]
        chosen = scheme.chosen(limits)
        if not result.matches and not chosen.reads_values:
            compared = chosen if query.exclude is None else None
            warnings += filter(None, [too_short(query.text, scheme, compared, self._sample_texts)])
        if not result.matches and chosen.reads_values and query.text == "":
            warnings.append(BLANK_QUERY)
        return warnings

    def _sample_texts(self) -> list[str]:
        """Return the texts of some documents, none if they can't be read."""
        text_fields = self.meta.text_fields
        try:
            documents = self.store.sample([*text_fields], self.meta, _EXAMPLE_TEXTS, seed=1)
        except StoreError:
            # The right to search is not that to read all documents.
            return []
        texts = (text_at(document.source, text_fields) for document in documents)
        return [text for text in texts if text is not None]

    def warnings_of_many(
        self, result: Result, limits: Limits, query: Query | None = None
    ) -> list[str]:
        """Return the warnings of one of many results, without numbers that differ between them."""
        if query is not None and query.scope is not None and query.scope.is_missing:
            return [warning_of_query(limits.within)]
        return [*missing_matches(result, limits, self.scheme, of_many=True)]

    @accepts(Limits, "query")
    def request_body(
        self,
        text: str | None = None,
        *,
        id: str | None = None,
        filters: Sequence[Mapping[str, object]] = (),
        collapse: bool = False,
        limits: Limits | None = None,
        **settings: Unpack[QuerySettings],
    ) -> dict[str, Any]:
        """Return the body of a `_search` for candidates, which `verify` compares.

        Any client can send it. Its hits share tokens with the text; how similar they are is known
        only after `verify`.

        text, id: either is needed. A document doesn't match itself.
        filters: queries in the cluster's own language that a hit must meet too.
        collapse: only the best of a group; documents without a group count as one group.
        limits: how to compare, in place of the settings below.
        sketch: name of the sketch to compare by; None for the scheme's first.
        threshold: minimum Jaccard similarity, 0 to 1; 0.5 by default, None for the nearest.
        distance: maximum Hamming distance in bits, for a sketch of fingerprints.
        k: maximum number of matches.
        candidates: maximum number of documents to verify.
        recall: fraction of similar documents to find; 0.999 by default, or that of the scheme.
        cover: minimum share in passages, 0 to 1, for a sketch of these.
        words: minimum number of words of a passage.
        cosine: minimum cosine, 0 to 1, for a sketch of vectors.
        within: refused with UsageError; add the values that hits must have to `filters`.
        """
        limits = from_settings(Limits, settings, limits, "query")
        query = self.query(text, id, filters, limits.sketch)
        return {**self.request_body_of(query, limits, collapse=collapse)}

    def request_body_of(self, query: Query, limits: Limits, *, collapse: bool = False) -> Body:
        """Return the body of a `_search` for candidates of a query.

        collapse: only the best of a group; documents without a group count as one group.
        """
        meta = self.meta_of(limits)
        fields = [sketched.field for sketched in self.meta.sketched_with_next]
        body = request_body(meta, query, limits, fields)
        return {**body, "collapse": {"field": f"{meta.marks_field}.group"}} if collapse else body

    @accepts(Limits, "query")
    def verify(
        self,
        text: str,
        hits: Body | Iterable[Hit],
        *,
        limits: Limits | None = None,
        **settings: Unpack[QuerySettings],
    ) -> Result:
        """Return those of the hits of a `request_body` that are similar to its text.

        It sends no search. Without a threshold, only the documents that the one search returned
        are compared, so `recall` may be lower than that of `similar`.

        text: as of `request_body`.
        hits: the answer to the search, or its hits alone, which don't report truncation. They need
        the text fields in `_source`.
        limits: as of `request_body`, in place of the settings below.
        sketch: name of the sketch to compare by; None for the scheme's first.
        threshold: minimum Jaccard similarity, 0 to 1; 0.5 by default, None for the nearest.
        distance: maximum Hamming distance in bits, for a sketch of fingerprints.
        k: maximum number of matches.
        candidates: maximum number of documents to verify.
        recall: fraction of similar documents to find; 0.999 by default, or that of the scheme.
        cover: minimum share in passages, 0 to 1, for a sketch of these.
        words: minimum number of words of a passage.
        cosine: minimum cosine, 0 to 1, for a sketch of vectors.
        within: refused with UsageError; add the values that hits must have to `filters`.

        Raises UsageError for hits without the fields that are compared.
        """
        limits = from_settings(Limits, settings, limits, "query")
        meta, query = self.meta_of(limits), self.query(text, sketch=limits.sketch)
        candidates = candidates_of_hits(hits, meta.text_fields)
        return self._without_our_fields(verified(self.store, meta, query, limits, candidates))

    @accepts(Limits, "pairs")
    def pairs(
        self,
        *,
        source: str | Sequence[str] = (),
        limits: Limits | None = None,
        on_step: OnStep | None = None,
        **settings: Unpack[PairSettings],
    ) -> SimilarPairs:
        """Return all pairs of similar documents, each once, the most similar first.

        source: the field or fields whose values each pair shows.
        limits: how to compare, in place of the settings below.
        on_step: as in `groups`.
        sketch: name of the sketch to compare by; None for the scheme's first.
        threshold: minimum Jaccard similarity, 0 to 1; 0.5 by default.
        distance: maximum Hamming distance in bits, for a sketch of fingerprints.
        recall: fraction of similar pairs to find; 0.999 by default, or that of the scheme.
        max_per_bucket: maximum number of comparisons of a document in a bucket.
        cover: minimum share in passages, 0 to 1, for a sketch of these.
        words: minimum number of words of a passage.
        cosine: minimum cosine, 0 to 1, for a sketch of vectors.
        within: fields that duplicates agree in, or windows of time, such as "date:3d".
        """
        limits = from_settings(Limits, settings, limits, "pairs")
        fields = names_of(source) if source else ()
        return similar_pairs(self.store, self.meta_of(limits), limits, fields, on_step)

    @accepts(Grouping)
    def groups(
        self,
        *,
        work: str | Path | None = None,
        on_step: OnStep | None = None,
        grouping: Grouping | None = None,
        **settings: Unpack[GroupingSettings],
    ) -> Groups:
        """Return the groups of similar documents, and change nothing.

        work: folder to work in. An interrupted run resumes from it; it is removed at the end.
        on_step: called with a step's name, the documents done, and those to do.
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
        keep: the document that represents a group, such as "newest:published"; "first" is by id.
        exact: group only equal texts, after normalisation.
        split_templates: separate documents that fill one template differently.
        conflict: a field; groups that differ in it are left whole: none of them is a duplicate.

        Raises UsageError if a setting is out of range, or the scheme lacks the tokens.
        """
        grouping = from_settings(Grouping, settings, grouping)
        meta = self.meta_of(grouping.limits)
        with _working(work) as folder:
            return find_groups(self.store, meta, grouping, folder, on_step)

    @accepts(Grouping)
    def group(
        self,
        *,
        collapse_ready: bool = False,
        work: str | Path | None = None,
        on_step: OnStep | None = None,
        grouping: Grouping | None = None,
        **settings: Unpack[GroupingSettings],
    ) -> GroupReport:
        """Find the groups of similar documents, and write them into their documents.

        A document that is similar to no other gets no group, and loses the one that it had.

        collapse_ready: it gets a group too, its own id, for searches that collapse on the group.
        work, on_step: as in `groups`.
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
        keep: the document that represents a group, such as "newest:published"; "first" is by id.
        exact: group only equal texts, after normalisation.
        split_templates: separate documents that fill one template differently.
        conflict: a field; groups that differ in it are left whole: none of them is a duplicate.

        Raises what `groups` raises, and StoreError while the index is changing its scheme. The same
        call again completes an interrupted run.
        """
        check_type("collapse_ready", collapse_ready, "bool")
        grouping = from_settings(Grouping, settings, grouping)
        require_settled(self.store, self.meta)
        meta = self.meta_of(grouping.limits)
        with _working(work) as folder:
            groups = find_groups(self.store, meta, grouping, folder, on_step)
            marks = mark_groups(self.store, meta, groups, on_step, collapse_ready)
        return GroupReport(groups, marks, self.missed(groups))

    def regroup(self, groups: Groups, ids: Sequence[str]) -> Groups:
        """Form the groups of some documents again, by the judgements as they are now.

        All other groups stay as they were. Raises UsageError if these groups have more than 1,000
        documents.
        """
        meta = self.meta_of(groups.grouping.limits)
        return regroup(self.store, meta, groups, [checked_id(id) for id in ids])

    def missed(self, groups: Groups) -> int:
        """Number of documents with readable tokens that groups don't hold."""
        meta = self.meta_of(groups.grouping.limits)
        sketched = self.store.statistics(meta).sketched
        return max(0, sketched - len(groups.ids) - groups.unreadable)

    def template_warnings(self, groups: Groups) -> list[str]:
        """Return a warning for each large group that looks like a template."""
        meta = self.meta_of(groups.grouping.limits)
        return [*analysis.template_warnings(self.store, meta, groups)]

    @accepts(Grouping)
    def dedup(
        self,
        action: "removal.Action",
        *,
        apply: bool = False,
        to: str | None = None,
        log: str | Path | None = None,
        groups: Groups | None = None,
        collect: str | Sequence[str] = (),
        fill: str | Sequence[str] = (),
        on_step: OnStep | None = None,
        grouping: Grouping | None = None,
        **settings: Unpack[GroupingSettings],
    ) -> "removal.Dedup":
        """Find duplicates; with `apply`, or by `Dedup.apply`, delete, mark or move them.

        action: "delete"; "mark" as `group` does; or "move" to the index `to`.
        log: a new file for `undo`, by default INDEX.dedup-TIME.jsonl.zst in the current folder.
        groups: the groups if they were found already; else they are found by the settings.
        collect: fields that become lists, to which a document that stays adds the distinct values
        of its duplicates before these are removed.
        fill: fields that a document that stays takes from its first duplicate with a value, if it
        has none itself.
        on_step: as in `groups`.
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
        keep: the document that represents a group, such as "newest:published"; "first" is by id.
        exact: group only equal texts, after normalisation.
        split_templates: separate documents that fill one template differently.
        conflict: a field; groups that differ in it are left whole: none of them is a duplicate.

        Warns of values that the keep rule can't compare before it changes anything. Raises
        UsageError if the arguments contradict each other, or if `collect` or `fill` would change a
        field that a sketch reads, or the scope of a document (`within`); and what `groups` and
        `Dedup.apply` raise.
        """
        if action not in get_args(removal.Action):
            raise UsageError(f"action {action!r}: use delete, mark or move")
        check_type("log", log, "str | Path | None")
        if log is not None:
            removal.require_new(Path(log))
        if (action == "move") != (to is not None):
            raise UsageError('action "move" and an index to move to (`to`) require each other')
        if to is not None:
            self.location.check_apart(to)
        merge = Merge.parse(collect, fill)
        time_of_run = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}Z"
        name = f"{file_name(self.location.index)}.dedup-{time_of_run}.jsonl.zst"
        if groups is not None and settings:
            raise UsageError(f"`{min(settings)}` can't be combined with `groups`")
        grouping = (
            from_settings(Grouping, settings, grouping) if groups is None else groups.grouping
        )
        # Before a search, which takes time.
        self._check_merge(merge, grouping.limits)
        if groups is None:
            groups = self.groups(on_step=on_step, grouping=grouping)
        index_meta = self.meta
        beside = None if to is None else self.store.beside(to)
        if merge and groups.outside:
            raise UsageError(f"`{merge.setting}` requires originals that are in the index")
        plan = removal.Dedup(
            self.store,
            index_meta,
            index_meta.full_scheme.id,
            groups,
            action,
            beside,
            Path(log or name),
            merge=merge,
        )
        if not apply:
            return plan
        if unordered := groups.unordered.warning(groups.grouping.keep):
            warnings.warn(unordered, stacklevel=3)
        return plan.apply()

    def _check_merge(self, merge: Merge, limits: Limits) -> None:
        """Raise UsageError for a field that a sketch reads, and for one that a scope is made of.

        A document that stays would have tokens of another text, or leave its scope.
        """
        for sketched in self.meta.sketched_with_next:
            merge.check([*sketched.text_fields, sketched.field, sketched.marks_field])
        merge.check_scope(limits.within)

    def undo(
        self,
        log: "str | Path | removal.LogReader",
        *,
        force: bool = False,
        successor: bool = False,
        on_report: "Callable[[removal.UndoReport], None] | None" = None,
    ) -> "removal.UndoReport":
        """Restore what a run of `dedup` deleted, marked or moved.

        A document that another client has changed since is skipped. force: also if the log is
        of an index at another address, or of another scheme. successor: into this index though the
        log is of another name. on_report: as in `Dedup.apply`.

        Copies in an index that is gone are not looked for. Raises UsageError if the log can't be
        read, is of another index, has documents of one that the name does not stand for now, or of
        ones that were moved to this index, and the errors of the store. The same call again
        resumes.
        """
        if not isinstance(log, removal.LogReader):
            check_type("log", log, "str | Path")
            log = removal.LogReader(Path(log))
        self.check_log(log, force=force, successor=successor)
        self.check_indices(log, successor=successor)
        to = None if log.header.to is None else self.store.beside(log.header.to)
        return removal.undo_removal(self.store, log, to, on_report, successor=successor)

    def check_log(
        self, log: "removal.LogReader", *, force: bool = False, successor: bool = False
    ) -> None:
        """Raise UsageError if a log is not of this index. force, successor: as in `undo`."""
        header, location = log.header, self.location
        if header.index != location.index and not successor:
            raise UsageError(
                f"log file {log.path} is of index {header.index!r}, not of {location.index!r}: use"
                f" `index` {header.index}, or `into` {location.index} to restore into its successor"
            )
        differing = []
        address = self.store.address
        if not {*header.address.split(", ")} & {*address.split(", ")}:
            differing.append(f"at {header.address}, not at {address}")
        if header.scheme != self.scheme.id:
            differing.append(f"of scheme {header.scheme}, not {self.scheme.id}")
        if differing and not force:
            raise UsageError(
                f"log file {log.path} is of an index {' and '.join(differing)}: if that is right,"
                " undo it with `force` set"
            )

    def check_indices(self, log: "removal.LogReader", *, successor: bool = False) -> None:
        """Raise UsageError if documents of a log can't be restored here.

        That is outside of this index's name, unless as `successor`, or where they were moved to.
        """
        removal.require_apart(self.location, log)
        # A file has no aliases, so that its log need not be read to the end first.
        if not successor and isinstance(self.location.target, Connection):
            removal.require_indices(self.store, log)

    def changed_by(self, log: "removal.LogReader") -> int:
        """Return the number of documents that the run of a log changed."""
        return removal.changed_by(self.store, log)

    def drop(self) -> None:
        """Delete the index with its documents and its judgements; nothing restores them.

        Raises IndexNotFound if it is missing, UsageError for an alias or a data stream.
        """
        self.store.drop()
        self.judgements.drop()

    @property
    def judgements(self) -> StoredJudgements:
        """The judgements about pairs of documents, and the representatives of groups."""
        return StoredJudgements(self.store, lambda: self.meta)

    @property
    def stop_list(self) -> StopList:
        """The tokens that searches leave out."""
        return StopList(self.store, lambda: self.meta, self._outdate_meta)

    @accepts(Grouping)
    def report(
        self,
        *,
        work: str | Path | None = None,
        on_step: OnStep | None = None,
        grouping: Grouping | None = None,
        **settings: Unpack[GroupingSettings],
    ) -> "analysis.Report":
        """Return the duplicates of the index in numbers, with examples, and change nothing.

        work, on_step: as in `groups`.
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
        keep: the document that represents a group, such as "newest:published"; "first" is by id.
        exact: group only equal texts, after normalisation.
        split_templates: separate documents that fill one template differently.
        conflict: a field; groups that differ in it are left whole: none of them is a duplicate.
        """
        groups = self.groups(work=work, on_step=on_step, grouping=grouping, **settings)
        return analysis.report_on(self.store, self.meta_of(groups.grouping.limits), groups)

    def explain(
        self, left: str, right: str, *, sketch: str | None = None
    ) -> "analysis.Explanation":
        """Return why two documents, given by id, are similar or not.

        sketch: name of one whose fields are compared, and passages marked; by default the first.
        """
        ids = checked_id(left), checked_id(right)
        self._require_unique(ids)
        return analysis.explain_pair(self.store, self.meta.of(sketch), *ids, sketch)

    @accepts(Weighing)
    def weights(
        self, *, scheme: Scheme | None = None, **settings: Unpack[WeighingSettings]
    ) -> Weights:
        """Return weights of words by how many documents have them, as `esdedup.weights`.

        scheme: how texts become words, by default that of the index.
        most: maximum number of words, the most frequent ones.
        least: number of documents that must have a word.
        features: number of words of a feature, by default that of the scheme's first SimHash.
        counters: number of words that are counted at the same time.
        """
        require_scheme(scheme)
        weighing = from_settings(Weighing, settings)
        return weigh(self.texts(), scheme or self.scheme, weighing).weights

    def texts(self) -> Iterator[str]:
        """Yield the texts of all documents that have one."""
        return texts_of(self.store, self.meta)

    def texts_of(self, limits: Limits) -> Callable[[list[str]], list[str]]:
        """Return a function that fetches the texts to show of documents, by id."""
        return shown_texts_in(self.store, self.meta_of(limits).text_fields)

    def statistics(self) -> Statistics:
        """Return numbers of documents and bytes."""
        return self.store.statistics(self.meta)

    def hot_buckets(
        self, count: int | None = 10, *, over: int = 1, sketches: Sequence[str] = ()
    ) -> HotBuckets:
        """Return the tokens that most documents hold.

        count: maximum number of buckets; None for all. over: only buckets of more documents.
        sketches: names of sketches; all by default.
        """
        meta = self.meta.of(next(iter(sketches), None))
        return hot_buckets(self.store, meta, count, over, sketches)

    def _outdate_meta(self) -> None:
        """Read `meta` again when it is used next."""
        self._meta = None

    def _requested(self, stored: IndexMeta) -> IndexMeta:
        """Return the stored parameters, replaced by the requested ones."""
        return replace(
            stored,
            scheme=self._scheme or stored.full_scheme,
            text_fields=self._text_fields or stored.text_fields,
            other_schemes=(),
        )


def open(
    target: str | Path | Connection | Client = DEFAULT_FILE,
    index: str = DEFAULT_INDEX,
    *,
    scheme: Scheme | None = None,
    text_field: TextFields | None = None,
    policy: BulkPolicy | None = None,
    **credentials: Unpack[ConnectionSettings],
) -> Index:
    """Open an index in a local file, or in a cluster.

    target: the path of a file, or ":memory:" for one that is removed at the end; an http(s) URL of
    Elasticsearch or OpenSearch; a Connection; or an `elasticsearch.Elasticsearch` or
    `opensearchpy.OpenSearch` of the application, which stays open when the index is closed. Beside
    a client, only timeout, retry_for, requests and waits can be set.
    index: its name.
    scheme, text_field: of a new index, by default `Scheme()` and "text". Several fields are joined
    to one text, in the given order. An index that exists has its own, and others are an error.
    policy: sizes of bulk requests.
    username, password: one of three ways to authenticate.
    api_key: another one: encoded, or "id:key".
    bearer_token: another one.
    ca_certs: a file of certificate authorities to trust.
    fingerprint: the SHA-256 of the server's certificate, which replaces verification.
    cloud_id: of a deployment in Elastic Cloud, in place of a URL: `open("", index, cloud_id=...)`.
    timeout: of one request, in seconds.
    retry_for: seconds in which a failed request is retried; 0 for never.
    requests: maximum number in flight.
    compress: gzip requests and answers.
    waits: for other clients, see `Connection`.

    Raises UsageError for wrong arguments, StoreError if the cluster can't be reached.
    """
    names = [setting.name for setting in fields(Connection) if setting.name != "urls"]
    check_names(credentials, names)
    if isinstance(target, str) and (target.startswith(("http://", "https://")) or not target):
        target = connection_to(target or None, **credentials)
    elif is_client(target):
        target = connection_through(target, **credentials)
    elif credentials:
        raise UsageError(f"{sorted(credentials)[0]} requires the URL of a cluster")
    elif not isinstance(target, Connection):
        check_type("target", target, "str | Path")
        check_file_name(str(target))
    check_type("index", index, "str")
    folder = None
    if target == ":memory:":
        folder = TemporaryDirectory(prefix="esdedup-")
        target = Path(folder.name) / "memory.db"
    location = IndexLocation(
        target if isinstance(target, Connection) else Path(str(target)), index, policy
    )
    opened = Index(location, scheme, text_field)
    opened._folder = folder
    return opened


@dataclass(frozen=True)
class ListedIndex:
    """An index of a file or a cluster.

    name: of the index.
    documents: their number; None if this esdedup can't read the index.
    scheme: its id; None if this esdedup can't read the index.
    """

    name: str
    documents: int | None
    scheme: str | None


def indices(
    target: str | Path | Connection = DEFAULT_FILE, **credentials: Unpack[ConnectionSettings]
) -> list[ListedIndex]:
    """Return the indices of a file or a cluster that have esdedup's fields, by name.

    target: as of `open`, with the settings of a connection to a URL:
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
    """
    listed = []
    with open(target, **credentials) as opened:
        for name in opened.store.indices():
            if name.startswith(PREFIX):
                continue
            documents = scheme = None
            # It may be of another version, or deleted meanwhile.
            with suppress(UsageError, IndexNotFound):
                store = opened.store.beside(name)
                if (meta := store.meta()) is not None:
                    documents, scheme = store.statistics(meta).documents, meta.full_scheme.id
            listed.append(ListedIndex(name, documents, scheme))
    return listed


def sample_neighbours(
    index: Index,
    sample: int,
    *,
    sketch: str | None = None,
    on_drawn: Callable[[int, int], None] | None = None,
) -> "analysis.Sample":
    """Draw documents of an index at random, and find their neighbours.

    sample: number of documents, 2 to `Sample.most`.
    sketch: name of the sketch whose field is compared; None for the first.
    on_drawn: called with the number of documents queried for so far, and of all.

    Raises UsageError if the field has neither a sketch with bands nor one of vectors.
    """
    return analysis.draw_sample(index.store, index.meta.of(sketch), sample, on_drawn=on_drawn)


@contextmanager
def _working(path: str | Path | None) -> Iterator[Run | None]:
    check_type("work", path, "str | Path | None")
    if path is None:
        yield None
        return
    with Run.at(Path(path)) as run:
        try:
            yield run
        except UsageError:
            # The same call can't finish this work.
            if run.claimed:
                run.clear()
            raise
        run.clear()


def _records(
    documents: Iterable[Mapping[str, object]], id_field: str | None = None
) -> Iterator[Record]:
    """Yield the records of documents. id_field: without this field, the id is random."""
    check_list("documents", documents)

    def record(number: int, source: Mapping[str, object]) -> Record:
        if not isinstance(source, Mapping):
            raise RecordError(
                f"document {number}: use a mapping or text, not {type(source).__name__}"
            )
        absent = id_field is not None and value_at(source, id_field) in (None, "")
        return Record("document", number, source, uuid.uuid4().hex if absent else None)

    return itertools.starmap(record, enumerate(documents, 1))


def _raise(record: BadRecord) -> None:
    raise RecordError(f"{record.file} {record.line}: {record.reason}")


def similarity(left: str, right: str, *, scheme: Scheme | None = None) -> float:
    """Return the exact Jaccard similarity of two texts, 0 to 1.

    scheme: how texts become shingles, `Scheme()` by default. Two texts without words are 0.
    """
    check_type("left", left, "str")
    check_type("right", right, "str")
    sets = shingle_sets([left, right], scheme or Scheme())
    return float(JaccardSimilarity().nearness_to(sets[0], sets)[0, 1])
