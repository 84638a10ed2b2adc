"""A store in a cluster, by the REST calls that Elasticsearch and OpenSearch share.

In one index a document is found by its id immediately, even before searches see it. Behind an alias
or a data stream, and for a document with a routing, only a search finds its index and shard. If an
alias has a filter, only a search finds what is within it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.models import (
    FIELD,
    WHOLE,
    CandidateQuery,
    Candidates,
    Change,
    Document,
    Failure,
    Share,
    Statistics,
    StoredDocument,
    TimeField,
    Unattached,
    WriteReport,
    check_sample,
    id_with_place,
    natural,
)
from esdedup.stores.base import ALL_PATHS
from esdedup.stores.changes import CHANGED
from esdedup.stores.elastic import indices
from esdedup.stores.elastic.answers import Action, AnswerReader
from esdedup.stores.elastic.bodies import Body, Query, SourceFilter
from esdedup.stores.elastic.bulk import (
    NO_WRITE_INDEX,
    document_lines,
)
from esdedup.stores.elastic.bulk_changes import (
    Rules,
    lines_to_change,
    lines_to_create,
    place_of,
    rules_of,
)
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.component_templates import replace_meta
from esdedup.stores.elastic.errors import PageTooLarge, SeveralIndices
from esdedup.stores.elastic.indices import name_for_creates
from esdedup.stores.elastic.queries import (
    MOST_TERMS,
    as_requested,
    candidates_body,
    candidates_of,
    documents_of,
    full_text_body,
    grouped,
    ids_in_indices,
    other_scheme,
    random_order,
    scan_body,
    sketched,
    stored_of,
    unread_paths,
    versioned_body,
    with_former_ids,
    with_times,
)
from esdedup.stores.elastic.scope_filters import scope_filters, times_among
from esdedup.stores.elastic.strict_mappings import (
    REFUSED_FIELD,
    how_to_add,
    missing_fields,
    refused_fields,
)
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.mapping import (
    IndexMapping,
    IndexMeta,
    analysis_of,
    common_meta,
    holds_vectors,
    mapped_fields,
    meta_of,
    require_attached,
    unattached,
    without_tokens,
)
from esdedup.stores.to_json import to_json

_PAGE = 2_000
"""Maximum documents, or ids, of one request."""
_MOST_HITS = 10_000
"""Maximum hits of one search, the servers' default limit."""
_FEW = 100
"""Documents up to which some fields are read one by one, and not by a search."""
_NOTHING = ["_nothing"]
"""No field of `_source`. With False, Elasticsearch would leave out the routing too."""
_REASONS_IF_GONE = ("document_missing_exception", "not_found")
"""Prefixes of the reasons of failures of documents that are gone."""


class ClusterStore:
    """A store in one index of a cluster, or in all indices behind an alias or data stream."""

    has_routings = True

    def __init__(self, cluster: Cluster, index: str) -> None:
        indices.check_name(index)
        self.cluster = cluster
        self.window = cluster.window
        self.index = index
        self._path = indices.path_of(index)
        self._reader = AnswerReader(self.where, self._is_behind)
        # The indices that names of aliases and data streams have stood for.
        self._behind: dict[str, frozenset[str]] = {}
        self._several: bool | None = None
        # Whether all indices behind the name require a routing.
        self._needs_routing: bool | None = None
        # Those behind the name, when its mappings were last read.
        self._indices: frozenset[str] = frozenset()
        # Those without our fields, when `meta` last read them.
        self._unattached: Unattached | None = None
        # Whether a field of these holds vectors; None if a write may have mapped one since.
        self._maps_vectors: bool | None = None
        # The ids that this store changed, and that searches may not see so; None for any.
        self._unseen: set[str] | None = None
        # The most hits that the index returns at once, once it has refused more.
        self._most_hits: int | None = None
        # Another object after each change, None before the first one.
        self._last_change: object = None

    @property
    def where(self) -> str:
        return f"index {self.index!r} at {self.address}"

    @property
    def address(self) -> str:
        return self.cluster.connection.shown

    def meta(self) -> IndexMeta | None:
        mappings = self._mappings() or {}
        self._unattached = Unattached(self.index, tuple(unattached(mappings)))
        return common_meta(mappings, self.index)

    def unattached(self) -> Unattached:
        if self._unattached is None:
            self.meta()
        return self._unattached or Unattached()

    def require_attached(self) -> None:
        if self.unattached():
            require_attached(self._mappings() or {}, self.index)

    def create(self, meta: IndexMeta, *, mapped: bool = True) -> int:
        mappings = self._mappings()
        if mappings is None:
            dynamic = {} if mapped else {"dynamic": False}
            analysis = analysis_of(meta)
            settings = {"analysis": analysis} if analysis else {}
            with_vectors = holds_vectors(meta.sketched)

            def put(mapping: IndexMapping) -> None:
                body = {"mappings": {**dynamic, **mapping}}
                indices.create(self.cluster, self._path, body, settings, with_vectors)

            try:
                indices.put_fields(put, meta)
            except StoreError as error:
                if "resource_already_exists_exception" not in str(error):
                    raise type(error)(f"index {self.index!r}: {error}") from error
                mappings = self._mappings() or {}
            else:
                return 0
        stored = common_meta(mappings, self.index)
        if stored is None:
            if len(mappings) > 1:
                raise UsageError(
                    f"{self.index!r} names {len(mappings)} indices"
                    f" ({', '.join(sorted(mappings))}) without esdedup fields: run `esdedup attach"
                    f" -i {self.index}`, or name one of them"
                )
            indices.put_metas(self.cluster, dict.fromkeys(mappings, (None, meta)))
            return len(mapped_fields(self._mappings() or {}) - mapped_fields(mappings))
        require_attached(mappings, self.index)
        stored.require(meta, self.where)
        return 0

    def renew(self, stored: IndexMeta, meta: IndexMeta) -> None:
        if stored.next is not None:
            raise UsageError(
                f"{self.index!r} is changing its scheme: finish that first (`esdedup switch -i"
                f" {self.index}`)"
            )
        named, states, current = indices.attached(self.cluster, self.index)
        if current != stored:
            raise StoreError(f"{self.where} was changed by another client: try again")
        if not stored.holds(meta):
            self.refresh()
            if len(states) > 1 or self.cluster.count(self._path):
                stored.require(meta, self.where)
        replace_meta(self.cluster, named, states, stored, meta)

    def why_not_new(self) -> str | None:
        mappings = self._mappings()
        if mappings is None:
            return None
        if self.index not in mappings:
            return f"{self.index!r} is a name of {', '.join(sorted(mappings))}"
        self.cluster.show(self._path)
        return f"{self.index!r} has documents" if self.cluster.count(self._path) else None

    @contextlib.contextmanager
    def loading(self, fast: bool) -> Iterator[None]:
        if not fast:
            yield
            # An earlier run may have been killed.
            indices.resume(self.cluster, self.index)
            return
        indices.suspend(self.cluster, self.index)
        try:
            yield
        finally:
            indices.resume(self.cluster, self.index)

    def write_index(self) -> str | None:
        return indices.write_index(self.cluster, self.index) if self._has_several() else None

    def requires_routing(self) -> bool:
        if self._needs_routing is None:
            self._mappings()
        return bool(self._needs_routing)

    def has_pipeline(self) -> bool:
        path, params = f"{self._path}/_settings", {"flat_settings": "true"}
        names = "index.default_pipeline,index.final_pipeline"
        unknown = frozenset({403, 404})
        status, answer = self.cluster.ask("GET", f"{path}/{names}", params=params, allowed=unknown)
        if status != 200:
            return status == 403
        pipelines_of_indices = (state["settings"].values() for state in answer.values())
        return any(name != "_none" for pipelines in pipelines_of_indices for name in pipelines)

    def why_refused(self, fields: Collection[str], reasons: Collection[str]) -> str | None:
        if not all(reason.startswith(REFUSED_FIELD) for reason in reasons):
            return None
        lacking = missing_fields((self._mappings() or {}).values(), fields)
        missing = sorted(refused_fields(reasons).union(lacking))
        if not missing:
            return None
        noun, pronoun = ("field", "it") if len(missing) == 1 else ("fields", "them")
        return (
            f"the mapping of {self.where} is strict, and has no {noun}"
            f" {', '.join(map(repr, missing))}. Add {pronoun}"
            f" ({how_to_add(self.index, missing)}), or write documents without {pronoun}"
        )

    def write(
        self, documents: Sequence[Document] | EncodedDocuments, *, create: bool = False
    ) -> WriteReport:
        operation = "create" if create else "index"
        actions: list[Action] = []
        routings = documents.routings if isinstance(documents, EncodedDocuments) else ()
        lines = itertools.zip_longest(document_lines(documents), routings)
        for (id, document_line), routing in lines:
            target = f'"_id":{to_json(id, "an id")}'
            if routing is not None:
                target += f',"routing":{to_json(routing, "a routing")}'
            action_line = f'{{"{operation}":{{{target}}}}}\n'
            actions.append(Action(id, id, self.index, action_line.encode() + document_line))
        try:
            report = self.cluster.bulk(actions, self._reader, self._path)
        finally:
            self._note(None)
        if any(NO_WRITE_INDEX in failure.reason for failure in report.failures):
            raise UsageError(
                f"{self.where} is an alias of several indices, none of which is its write index:"
                " name one of them, or give the alias a write index (is_write_index)"
            )
        return report

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        if paths is not None:
            documents = self._read(ids, paths, refreshed=False)
            return [document.document for document in documents]
        if self._maps_vectors is None:
            self._mappings()
        # For each document, the servers would compile the paths to leave out. Without any path,
        # Elasticsearch leaves out vectors since 9.2.
        fields: SourceFilter = ALL_PATHS if self._maps_vectors else True
        documents = self._read(ids, fields, refreshed=False)
        return [Document(document.id, without_tokens(document.source)) for document in documents]

    def hold(
        self, ids: Sequence[str], paths: list[str] | None = None, *, to_change: bool = False
    ) -> list[StoredDocument]:
        times = self._times(paths or ())
        if paths and times:
            # Only a search returns them.
            indices_behind = self._indices_behind()
            plain_ids = ids_in_indices(ids, indices_behind)
            return as_requested(ids, self._search(plain_ids, paths, times=times), indices_behind)
        return self._read(ids, self._fields(None if to_change else paths))

    def _times(self, paths: Sequence[str]) -> list[str]:
        """Return those of some fields that are to be read as times, and that are mapped as such."""
        times = [path for path in paths if isinstance(path, TimeField)]
        return times_among(times, (self._mappings() or {}).values()) if times else []

    def hold_now(self, ids: Sequence[str], paths: list[str]) -> list[StoredDocument]:
        # A search may show what another client has changed since, until the index refreshes.
        current, outdated = self._by_currency(self.hold(ids, paths))
        if outdated:
            self.refresh()
            again, _ = self._by_currency(self.hold([document.id for document in outdated], paths))
            current += again
        return current

    def _by_currency(
        self, documents: Sequence[StoredDocument]
    ) -> tuple[list[StoredDocument], list[StoredDocument]]:
        """Return the documents that are as they were read, and those that changed or are gone."""
        places = [place_of(document) for document in documents]
        # An index may have an id once for each routing.
        versions = {
            (stored.index, stored.id_in_index, stored.routing): stored.version
            for stored in self._get(places, _NOTHING)
        }
        current, outdated = list[StoredDocument](), list[StoredDocument]()
        for document in documents:
            place = document.index, document.id_in_index, document.routing
            is_current = versions.get(place) == document.version
            (current if is_current else outdated).append(document)
        return current, outdated

    def hold_again(
        self, documents: Sequence[StoredDocument], paths: list[str] | None = None
    ) -> list[StoredDocument]:
        fields, behind = self._fields(paths), self._indices_behind() or {self.index}
        is_missing = any(document.index not in behind for document in documents)
        if isinstance(fields, dict) or self._is_filtered or is_missing:
            return self._read_in_places(documents, fields)
        places = [place_of(document) for document in documents]
        return with_former_ids(self._get(places, fields), documents)

    def _read_in_places(
        self, documents: Sequence[StoredDocument], fields: SourceFilter
    ) -> list[StoredDocument]:
        """Return documents as they are now, each in its own index if it is behind the name."""
        former_ids, behind = dict[str, str](), self._indices_behind()
        for document in documents:
            index = document.index if document.index in behind else None
            former_ids[id_with_place(index, document.id_in_index)] = document.id
        stored = self._read([*former_ids], fields)
        return [document.requested_as(former_ids[document.id]) for document in stored]

    def _fields(self, paths: list[str] | None) -> SourceFilter:
        """Return the `_source` to request: an object if only a search can."""
        if paths not in (None, ALL_PATHS):
            return paths or _NOTHING
        try:
            return self._whole_source
        except StoreError:
            if paths is None:
                raise
            return ALL_PATHS

    def _read(
        self, ids: Sequence[str], fields: SourceFilter, *, refreshed: bool = True
    ) -> list[StoredDocument]:
        """Return the documents that exist. refreshed: a search must see this store's writes."""
        documents: list[StoredDocument] | None = None
        indices_behind = self._indices_behind()
        plain_ids = ids_in_indices(ids, indices_behind) if indices_behind else ids
        by_search = isinstance(fields, dict) and refreshed
        if not (by_search or self._has_several() or self._is_filtered):
            try:
                documents = self._get_by_id(plain_ids, fields, refreshed=refreshed)
            except SeveralIndices:
                # The alias got another index since.
                self._mappings()
                self._several = True
                indices_behind = self._indices_behind()
                plain_ids = ids_in_indices(ids, indices_behind)
        if documents is None:
            documents = self._search(plain_ids, fields, refreshed=refreshed)
        return as_requested(ids, documents, indices_behind)

    def _search(
        self,
        ids: Sequence[str],
        fields: SourceFilter,
        *,
        refreshed: bool = True,
        times: Sequence[str] = (),
    ) -> list[StoredDocument]:
        """Return documents of all indices behind the name. times: fields as of `with_times`."""
        if refreshed and ids and not self._finds(ids):
            self.refresh()
        # Servers refuse empty ids.
        ids = [id for id in ids if id]
        documents: list[StoredDocument] = []
        page_size = min(_PAGE, self._most_hits or _PAGE)
        for first in range(0, len(ids), page_size):
            query = {"ids": {"values": ids[first : first + page_size]}}
            # An id may be in several indices.
            body: Body = {
                "query": query,
                "size": _MOST_HITS,
                "sort": "_doc",
                "_source": fields or False,
            }
            body = versioned_body(with_times(body, times))
            try:
                hits = self.cluster.matches(self._path, body, raw=_is_whole(fields))
            except PageTooLarge as error:
                self._most_hits = error.most
                return documents + self._search(
                    ids[first:], fields, refreshed=refreshed, times=times
                )
            documents += map(stored_of, hits)
        return documents

    def _get_by_id(
        self, ids: Sequence[str], fields: SourceFilter, *, refreshed: bool
    ) -> list[StoredDocument]:
        """Read documents of one index as they are now, before searches see them.

        Some fields of many documents are read by a search, for which the servers compile the names
        once and not for each document. Another client's change may be seen later then.
        """
        documents: list[StoredDocument] = []
        # Without a refresh, only if searches see what this store changed.
        may_search = refreshed or self._last_change is None or self._finds(ids)
        if isinstance(fields, list) and len(ids) > _FEW and may_search:
            documents = self._search(ids, fields, refreshed=refreshed)
        ids_of_search = {document.id for document in documents}
        targets = [{"_id": id} for id in ids if id and id not in ids_of_search]
        documents += self._get(targets, fields, self._path)
        missing_ids = set(ids) - {document.id for document in documents}
        # Only a search finds a document with a routing, because its id does not name the shard. The
        # search shows the routing, and the document is read as it is now.
        unrefreshed = self._search(list(missing_ids), False, refreshed=False)
        routed = [place_of(document) for document in unrefreshed if document.routing]
        return documents + self._get(routed, fields, self._path)

    def _get(
        self, targets: Sequence[Body], fields: SourceFilter, path: str = ""
    ) -> list[StoredDocument]:
        documents: list[StoredDocument] = []
        for first in range(0, len(targets), _PAGE):
            page = [{**target, "_source": fields} for target in targets[first : first + _PAGE]]
            documents += map(stored_of, self.cluster.get_many(page, path, raw=_is_whole(fields)))
        return documents

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        size = min(limit, self._most_hits or limit)
        # Nearly all groups are of one token.
        longest = max((len(group) for query in queries for group in query.groups), default=1)
        terms = self._most_terms if longest > 1 else MOST_TERMS
        scopes, behind = [query.scope for query in queries], self._indices_behind()
        bodies: Iterable[Body] = (
            candidates_body(query, size, terms, indices=behind) for query in queries
        )
        if any(scopes):
            bodies = self._bodies_in_scope(queries, size, terms)
        unread, with_indices = unread_paths(queries), self._has_several()
        try:
            answers = self.cluster.searches(self._path, bodies, self.where, unread)
            return [
                candidates_of(answer, scope, with_indices=with_indices)
                for answer, scope in zip(answers, scopes, strict=True)
            ]
        except PageTooLarge as error:
            # What more candidates there are is reported as truncation.
            self._most_hits = error.most
            return self.candidates(queries, limit)

    def _bodies_in_scope(
        self, queries: Sequence[CandidateQuery], size: int, terms: int
    ) -> Iterator[Body]:
        """Yield the searches for the candidates of queries of which some have scopes."""
        mappings = (self._mappings() or {}).values()
        names = {name for query in queries if query.scope is not None for name in query.scope.times}
        times = times_among(sorted(names), mappings)
        for query in queries:
            filters = [] if query.scope is None else scope_filters(query.scope, mappings)
            body = candidates_body(query, size, terms, filters, self._indices_behind())
            yield body if query.scope is None else with_times(body, times)

    @functools.cached_property
    def _most_terms(self) -> int:
        """The maximum length of a list of terms, in every index behind the name."""
        name, params = "index.max_terms_count", {"flat_settings": "true"}
        _, answer = self.cluster.ask("GET", f"{self._path}/_settings/{name}", params=params)
        limits = (state["settings"].get(name) for state in answer.values())
        return min((int(limit) for limit in limits if limit is not None), default=MOST_TERMS)

    def change(self, changes: Sequence[Change]) -> WriteReport:
        changes, failures = self._with_raw(changes)
        actions = list[Action]()
        for row, change in enumerate(changes):
            index = change.stored.index
            lines = lines_to_change(change, self._rules(index))
            if isinstance(lines, Failure):
                failures.append(lines)
            else:
                id = change.stored.id_in_index
                actions.append(Action(str(row), id, index or self.index, lines))
        try:
            report = self.cluster.bulk(actions, self._reader)
        finally:
            self._note([change.stored.id_in_index for change in changes])
        for failure in report.failures:
            conflict = failure.conflict or failure.reason.startswith(_REASONS_IF_GONE)
            reason = CHANGED if conflict else failure.reason
            id = changes[int(failure.id)].stored.id
            failures.append(replace(failure, id=id, reason=reason, conflict=conflict, index=None))
        return WriteReport(updated=report.created + report.updated, failures=failures)

    def _rules(self, index: str | None) -> Rules:
        return Rules() if index is None else rules_of(self.cluster, index)

    def _with_raw(self, changes: Sequence[Change]) -> tuple[list[Change], list[Failure]]:
        """Return changes of documents that were read whole, and conflicts of those that changed."""

        def lacks_raw(change: Change) -> bool:
            """Return whether fields are merged into a document of which only some were read."""
            is_merged = change.fields is not None and not change.whole
            return is_merged and change.stored.raw is None

        lacking = [change.stored for change in changes if lacks_raw(change)]
        if not lacking:
            return list(changes), []
        fields = self._whole_source
        if isinstance(fields, dict):
            documents = self._search([document.id_in_index for document in lacking], fields)
        else:
            documents = self._get([place_of(document) for document in lacking], fields)
        documents = with_former_ids(documents, lacking)
        current_of = {(document.index, document.id): document for document in documents}
        complete_changes, failures = list[Change](), list[Failure]()
        for change in changes:
            document = change.stored
            current = current_of.get((document.index, document.id))
            if not lacks_raw(change):
                complete_changes.append(change)
            elif current is not None and current.version == document.version:
                complete_changes.append(replace(change, stored=current))
            else:
                failures.append(Failure(document.id, CHANGED, conflict=True))
        return complete_changes, failures

    def restore(self, documents: Sequence[StoredDocument]) -> WriteReport:
        # A create checks only the shard that it goes to. The id may just have been taken.
        self._unseen = None
        stored = self._search([document.id_in_index for document in documents], False)
        existing_ids = {document.id for document in stored}
        existing = {(document.index, document.id) for document in stored}

        def is_taken(document: StoredDocument) -> bool:
            """Return whether the id is taken: in its own index, if the document goes there."""
            if document.plain_id is None and name_for[document.index] != document.index:
                return document.id in existing_ids
            return (document.index, document.id_in_index) in existing

        name_for = {
            index: name_for_creates(self.cluster, index)
            for index in {document.index for document in documents}
        }
        taken = {document.id for document in documents if is_taken(document)}
        failures = [
            Failure(document.id, "the id is taken", conflict=True)
            for document in documents
            if document.id in taken
        ]
        has_numbers = any(document.number is not None for document in documents)
        external = has_numbers and self._has_external_versions()
        actions = [
            Action(
                document.id,
                document.id_in_index,
                name_for[document.index] or self.index,
                lines_to_create(document, name_for[document.index], external),
            )
            for document in documents
            if document.id not in taken
        ]
        report = self.cluster.bulk(actions, self._reader, self._path)
        self._note(None)
        return report + WriteReport(failures=failures)

    def outside(self, indices: Collection[str]) -> list[str]:
        others = set(indices).difference(self._mappings() or {})
        return sorted(index for index in others if name_for_creates(self.cluster, index))

    def scan(
        self,
        paths: list[str],
        meta: IndexMeta,
        share: Share = WHOLE,
        *,
        marked: bool = False,
        point: str | None = None,
    ) -> Iterator[list[Document]]:
        """Return documents as `Store.scan`. point: the point in time; None for a new one."""
        query, times = grouped(meta) if marked else sketched(meta), self._times(paths)
        body = scan_body(query, paths, _PAGE, times)
        cluster = self.cluster
        if point is None:
            pages = cluster.hits(self._path, body, share)
        else:
            pages = cluster.pages(point, body, share)
        with_indices = self.has_places()
        with contextlib.closing(pages):
            for hits in pages:
                documents = documents_of(hits, with_indices=with_indices)
                if with_indices:
                    # The name may have got another one since.
                    self._indices = self._indices.union(hit["_index"] for hit in hits)
                yield documents

    def open_point(self, keep_alive: str) -> str:
        """Open a point in time for several clients, as `Cluster.open_point`."""
        return self.cluster.open_point(self._path, keep_alive)

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        check_sample(count)
        body = scan_body(random_order(sketched(meta), seed), paths, min(count, _PAGE))
        order = [{"_score": "desc"}, *body["sort"]]
        pages = self.cluster.hits(self._path, {**body, "sort": order})
        with contextlib.closing(pages):
            hits = itertools.islice(itertools.chain.from_iterable(pages), count)
            return documents_of(hits, with_indices=self.has_places())

    def has_read_texts(self) -> bool:
        return True

    def read_texts(self, meta: IndexMeta, on_read: Callable[[int], None]) -> None:
        """Do nothing, because the cluster has an index of the texts."""

    def full_text(self, words: str, meta: IndexMeta, limit: int) -> tuple[list[str], int]:
        body = full_text_body(words, meta.text_fields, limit)
        hits, total = self.cluster.search(self._path, body)
        documents = documents_of(hits, with_indices=self.has_places())
        return [
            document.id if document.index is None else id_with_place(document.index, document.id)
            for document in documents
        ], total

    def some_ids(self, count: int) -> list[str]:
        if self._mappings() is None:
            return []
        self.refresh()
        query: Query = {"function_score": {"query": {"match_all": {}}, "random_score": {}}}
        hits, _ = self.cluster.search(self._path, {"size": count, "_source": False, "query": query})
        return [hit["_id"] for hit in hits]

    def analyzed(self, field: str, texts: Sequence[str]) -> list[list[str]]:
        attached = (self._mappings() or {}).keys() - self.unattached().indices
        path = f"{indices.path_of(min(attached))}/_analyze"
        bodies = ({"field": field, "text": text} for text in texts)
        answers = [self.cluster.ask("POST", path, body)[1] for body in bodies]
        return [[token["token"] for token in answer["tokens"]] for answer in answers]

    def bucket_sizes(self, key: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        queries = ({"term": {f"{meta.field}.{key}": token}} for token in tokens)
        bodies = ({"size": 0, "track_total_hits": True, "query": query} for query in queries)
        answers = self.cluster.searches(self._path, bodies, self.where)
        return [int(answer["hits"]["total"]["value"]) for answer in answers]

    def ids_with_indices(self, ids: Sequence[str]) -> list[str]:
        if not self._has_several():
            return []
        documents = self._search(ids, False, refreshed=False)
        number_of = Counter(document.id for document in documents)
        repeated = [document for document in documents if number_of[document.id] > 1]
        repeated_ids = [id_with_place(document.index, document.id) for document in repeated]
        return sorted(repeated_ids, key=natural)

    def refresh(self) -> None:
        last_change = self._last_change
        self.cluster.refresh(self._path)
        # Searches may not see the changes of calls that ran beside the refresh.
        if self._last_change is last_change:
            self._unseen = set()

    def _finds(self, ids: Sequence[str]) -> bool:
        """Return whether searches see what this store changed of these documents."""
        return self._unseen is not None and self._unseen.isdisjoint(ids)

    def _note(self, changed: Sequence[str] | None) -> None:
        """Remember ids that were changed; None for any."""
        self._last_change, unseen = object(), self._unseen
        if changed is None:
            self._unseen = None
            self._maps_vectors = self._maps_vectors or None
        elif unseen is not None:
            unseen.update(changed)

    def statistics(self, meta: IndexMeta) -> Statistics:
        self.cluster.show(self._path)
        documents = self.cluster.count(self._path)
        _, answer = self.cluster.ask("GET", f"{self._path}/_stats/store")
        return Statistics(
            documents,
            self.cluster.count(self._path, sketched(meta)),
            self.cluster.count(self._path, other_scheme(meta)),
            answer["_all"]["primaries"]["store"]["size_in_bytes"],
            self.cluster.product,
            self.unattached(),
        )

    def names(self) -> list[str]:
        try:
            named = indices.resolve(self.cluster, self.index)
        except IndexNotFound:
            return []
        return sorted({*named.indices, *named.aliases} - {self.index})

    def indices(self) -> list[str]:
        params = {"filter_path": "*.mappings._meta", "expand_wildcards": "open"}
        _, answer = self.cluster.ask("GET", "/_mapping", params=params)
        return sorted(
            name for name, described in answer.items() if FIELD in described["mappings"]["_meta"]
        )

    def drop(self) -> None:
        named = indices.resolve(self.cluster, self.index)
        if named.kind != "index":
            listed = ", ".join(named.indices)
            raise UsageError(f"{self.index!r} is an {named.kind} of {listed}: name an index")
        self.cluster.ask("DELETE", self._path)

    def beside(self, index: str) -> ClusterStore:
        return ClusterStore(self.cluster, index)

    def close(self) -> None:
        self.cluster.close()

    def _mappings(self) -> dict[str, IndexMapping] | None:
        """Return the mappings of the indices behind the name, or None if it does not exist."""
        status, answer = self.cluster.ask("GET", f"{self._path}/_mapping", allowed=frozenset({404}))
        if status == 404 or not answer:
            return None
        self._several = len(answer) > 1 or any(name.startswith(".ds-") for name in answer)
        self._indices = frozenset(answer)
        self._needs_routing = all(
            described["mappings"].get("_routing", {}).get("required", False)
            for described in answer.values()
        )
        mappings = (described["mappings"] for described in answer.values())
        self._maps_vectors = any(map(indices.maps_vectors, mappings))
        return {index: described["mappings"] for index, described in answer.items()}

    def _is_behind(self, name: str, index: str) -> bool:
        """Return whether a name stands for an index.

        An alias can get another index at any time. One that it has lost meanwhile was behind it
        when a document was sent.
        """
        if index not in self._behind.get(name, ()):
            path = f"{indices.path_of(name)}/_mapping"
            _, answer = self.cluster.ask("GET", path, allowed=frozenset({404}))
            self._behind[name] = self._behind.get(name, frozenset()) | answer.keys()
        return index in self._behind[name]

    def has_places(self) -> bool:
        # An alias of one index may get another one at any time.
        if self._several is None:
            self._mappings()
        return bool(self._indices) and self.index not in self._indices

    def _has_several(self) -> bool:
        """Return whether several indices are behind the name; a data stream may always get one."""
        if self._several is None:
            self._mappings()
        return bool(self._several)

    def _indices_behind(self) -> frozenset[str]:
        """Return the indices behind the name; none if it is itself that of an index."""
        return self._indices if self.has_places() else frozenset()

    @functools.cached_property
    def _is_filtered(self) -> bool:
        """Whether the name is an alias with a filter, outside of which no document is read."""
        mappings = self._mappings()
        if not mappings or self.index in mappings:
            return False
        return indices.has_filter(self.cluster, self.index)

    def _has_external_versions(self) -> bool:
        metas = map(meta_of, (self._mappings() or {}).values())
        return any(meta is not None and meta.external_versions for meta in metas)

    @functools.cached_property
    def _whole_source(self) -> SourceFilter:
        return indices.whole_source(self.cluster, self._path, self._mappings() or {})


def _is_whole(fields: SourceFilter) -> bool:
    """Return whether a value of `_source` requests whole documents."""
    return fields is True or isinstance(fields, dict)
