"""A store in a cluster, by the REST calls that Elasticsearch and OpenSearch share.

In one index a document is found by its id immediately, even before searches see it. Behind an alias
or a data stream, and for a document with a routing, only a search finds its index and shard.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from esdedup.exceptions import IndexNotFound, StoreError, UsageError
from esdedup.models import (
    FIELD,
    WHOLE,
    CandidateQuery,
    Candidates,
    Change,
    Document,
    Failure,
    Held,
    Share,
    Statistics,
    TimeField,
    WriteReport,
    check_sample,
)
from esdedup.stores.base import KEPT
from esdedup.stores.changes import CHANGED
from esdedup.stores.elastic import indices
from esdedup.stores.elastic.answers import Action, AnswerReader
from esdedup.stores.elastic.bulk import (
    NO_WRITE_INDEX,
    document_lines,
)
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.errors import PageTooLarge, SeveralIndices
from esdedup.stores.elastic.queries import (
    MOST_TERMS,
    candidates_body,
    candidates_of,
    documents_of,
    grouped,
    held_body,
    held_of,
    other_scheme,
    random_order,
    scan_body,
    sketched,
    unread_paths,
    with_times,
)
from esdedup.stores.elastic.rewriting import (
    Rules,
    lines_to_change,
    lines_to_create,
    place_of,
    rules_of,
)
from esdedup.stores.elastic.templates import replace_meta
from esdedup.stores.encoded_documents import EncodedDocuments
from esdedup.stores.mapping import (
    IndexMeta,
    analysis_of,
    common_meta,
    fields_of,
    meta_of,
    without_tokens,
)
from esdedup.stores.to_json import to_json

_PAGE = 2_000
_MOST_HITS = 10_000
"""Maximum hits of one search, the servers' default limit."""
_FEW = 100
_NOTHING = ["_nothing"]
"""No field of `_source`. With False, Elasticsearch would leave out the routing too."""
_MISSED = ("document_missing_exception", "not_found")
"""Prefixes of the reasons of failures of documents that are gone."""


class ClusterStore:
    """A store in one index of a cluster, or in all indices behind an alias or data stream."""

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
        # The ids that this store changed, and that searches may not see so; None for any.
        self._unseen: set[str] | None = None
        # The most hits that the index returns at once, once it has refused more.
        self._most_hits: int | None = None
        # Another object after each change.
        self._noted: object = None

    @property
    def where(self) -> str:
        return f"index {self.index!r} at {self.address}"

    @property
    def address(self) -> str:
        return self.cluster.connection.shown

    def meta(self) -> IndexMeta | None:
        mappings = self._mappings()
        return None if mappings is None else common_meta(mappings, self.index)

    def create(self, meta: IndexMeta, *, mapped: bool = True) -> None:
        mappings = self._mappings()
        if mappings is None:
            dynamic = {} if mapped else {"dynamic": False}
            analysis = analysis_of(meta)
            settings = {"settings": {"analysis": analysis}} if analysis else {}

            def put(mapping: Mapping[str, Any]) -> None:
                body = {**settings, "mappings": {**dynamic, **mapping}}
                self.cluster.ask("PUT", self._path, body)

            try:
                indices.put_fields(put, meta)
            except StoreError as error:
                if "resource_already_exists_exception" not in str(error):
                    raise type(error)(f"index {self.index!r}: {error}") from error
                mappings = self._mappings() or {}
            else:
                return
        stored = common_meta(mappings, self.index)
        if stored is None:
            if len(mappings) > 1:
                raise UsageError(
                    f"{self.index!r} names {len(mappings)} indices"
                    f" ({', '.join(sorted(mappings))}) without esdedup fields: run `esdedup attach"
                    f" -i {self.index}`, or name one of them"
                )
            indices.put_metas(self.cluster, dict.fromkeys(mappings, (None, meta)))
        else:
            stored.require(meta, self.where)

    def renew(self, stored: IndexMeta, meta: IndexMeta) -> None:
        if stored.next is not None:
            raise UsageError(
                f"{self.index!r} is changing its scheme: finish that first (esdedup switch)"
            )
        named, found, now = indices.attached(self.cluster, self.index)
        if now != stored:
            raise StoreError(f"{self.where} was changed by another client: try again")
        if not stored.holds(meta):
            self.refresh()
            if len(found) > 1 or self.cluster.count(self._path):
                stored.require(meta, self.where)
        replace_meta(self.cluster, named, found, stored, meta)

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

    def has_pipeline(self) -> bool:
        path, params = f"{self._path}/_settings", {"flat_settings": "true"}
        names = "index.default_pipeline,index.final_pipeline"
        unknown = frozenset({403, 404})
        status, answer = self.cluster.ask("GET", f"{path}/{names}", params=params, allowed=unknown)
        if status != 200:
            return status == 403
        settings = (state["settings"].values() for state in answer.values())
        return any(name != "_none" for names in settings for name in names)

    def write(
        self, documents: Sequence[Document] | EncodedDocuments, *, create: bool = False
    ) -> WriteReport:
        verb = "create" if create else "index"
        actions = [
            Action(
                id,
                id,
                self.index,
                f'{{"{verb}":{{"_id":{to_json(id, "an id")}}}}}\n'.encode() + line,
            )
            for id, line in document_lines(documents)
        ]
        try:
            report = self.cluster.bulk(actions, self._reader, self._path)
        finally:
            self._note(None)
        if any(NO_WRITE_INDEX in each.reason for each in report.failures):
            raise UsageError(
                f"{self.where} is an alias of several indices, none of which is its write index:"
                " name one of them, or give the alias a write index (is_write_index)"
            )
        return report

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        if paths is not None:
            return [one.document for one in self._read(ids, paths, refreshed=False)]
        # For each document, the servers would compile the paths to leave out.
        found = [one.document for one in self._read(ids, True, refreshed=False)]
        return [Document(each.id, without_tokens(each.source)) for each in found]

    def hold(
        self, ids: Sequence[str], paths: list[str] | None = None, *, to_change: bool = False
    ) -> list[Held]:
        if times := self._times(paths or ()):
            # Only a search returns them.
            by_id = {held.id: held for held in self._search_held(ids, paths, times=times)}
            return [by_id[id] for id in ids if id in by_id]
        return self._read(ids, self._fields(None if to_change else paths))

    def _times(self, paths: Sequence[str]) -> list[str]:
        """Return those of some fields that are to be read as times, and that are mapped as such."""
        wanted = [path for path in paths if isinstance(path, TimeField)]
        mappings = (self._mappings() or {}).values() if wanted else ()
        mapped = [
            {**mapping.get("runtime", {}), **dict(fields_of(mapping))} for mapping in mappings
        ]
        kinds = {path: {fields.get(path, {}).get("type") for fields in mapped} for path in wanted}
        return [path for path in wanted if kinds[path] and kinds[path] <= {"date", "date_nanos"}]

    def hold_again(self, held: Sequence[Held], paths: list[str] | None = None) -> list[Held]:
        fields = self._fields(paths)
        if isinstance(fields, dict):
            return self._read([one.id for one in held], fields)
        return self._get([place_of(one) for one in held], fields)

    def _fields(self, paths: list[str] | None) -> Any:
        """Return the `_source` to request: an object if only a search can."""
        if paths not in (None, KEPT):
            return paths or _NOTHING
        try:
            return self._whole_source
        except StoreError:
            if paths is None:
                raise
            return KEPT

    def _read(self, ids: Sequence[str], fields: Any, *, refreshed: bool = True) -> list[Held]:
        """Return the documents that exist. refreshed: a search must see this store's writes."""
        found: list[Held] | None = None
        by_search = isinstance(fields, dict) and refreshed
        if not (by_search or self._is_several()):
            try:
                found = self._get_held(ids, fields, refreshed=refreshed)
            except SeveralIndices:
                # The alias got another index since.
                self._several = True
        if found is None:
            found = self._search_held(ids, fields, refreshed=refreshed)
        by_id = {one.id: one for one in found}
        return [by_id[id] for id in ids if id in by_id]

    def _search_held(
        self,
        ids: Sequence[str],
        fields: Any,
        *,
        refreshed: bool = True,
        times: Sequence[str] = (),
    ) -> list[Held]:
        """Return documents of all indices behind the name. times: fields as of `with_times`."""
        if refreshed and ids and not self._finds(ids):
            self.refresh()
        # Servers refuse empty ids.
        wanted = [id for id in ids if id]
        found: list[Held] = []
        for first in range(0, len(wanted), size := min(_PAGE, self._most_hits or _PAGE)):
            query = {"ids": {"values": wanted[first : first + size]}}
            # An id may be in several indices.
            body = {"query": query, "size": _MOST_HITS, "sort": "_doc", "_source": fields or False}
            body = held_body(with_times(body, times))
            try:
                hits = self.cluster.matches(self._path, body, raw=_is_whole(fields))
            except PageTooLarge as error:
                self._most_hits = error.most
                return found + self._search_held(
                    wanted[first:], fields, refreshed=refreshed, times=times
                )
            found += map(held_of, hits)
        return found

    def _get_held(self, ids: Sequence[str], fields: Any, *, refreshed: bool) -> list[Held]:
        """Read documents of one index as they are now, before searches see them.

        Some fields of many documents are read by a search, for which the servers compile the names
        once and not for each document. Another client's change may be seen later then.
        """
        found: list[Held] = []
        ready = refreshed or self._noted is None or self._finds(ids)
        if isinstance(fields, list) and len(ids) > _FEW and ready:
            found = self._search_held(ids, fields, refreshed=refreshed)
        known = {one.id for one in found}
        found += self._get(
            [{"_id": id} for id in ids if id and id not in known], fields, self._path
        )
        missed = set(ids) - {one.id for one in found}
        # Only a search finds a document with a routing, because its id does not name the shard.
        unrefreshed = self._search_held(list(missed), False, refreshed=False)
        routed = [place_of(one) for one in unrefreshed if one.routing]
        return found + self._get(routed, fields, self._path)

    def _get(self, targets: Sequence[Mapping[str, Any]], fields: Any, path: str = "") -> list[Held]:
        found: list[Held] = []
        for first in range(0, len(targets), _PAGE):
            wanted = [{**each, "_source": fields} for each in targets[first : first + _PAGE]]
            found += map(held_of, self.cluster.get_many(wanted, path, raw=_is_whole(fields)))
        return found

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        most = min(limit, self._most_hits or limit)
        # Nearly all groups are of one token.
        longest = max((len(group) for query in queries for group in query.groups), default=1)
        terms = self._most_terms if longest > 1 else MOST_TERMS
        bodies = (candidates_body(query, most, terms) for query in queries)
        unread = unread_paths(queries)
        try:
            answers = self.cluster.searches(self._path, bodies, self.where, unread)
            return list(map(candidates_of, answers))
        except PageTooLarge as error:
            # What more candidates there are is reported as truncation.
            self._most_hits = error.most
            return self.candidates(queries, limit)

    @functools.cached_property
    def _most_terms(self) -> int:
        """The maximum length of a list of terms, in every index behind the name."""
        name, params = "index.max_terms_count", {"flat_settings": "true"}
        _, answer = self.cluster.ask("GET", f"{self._path}/_settings/{name}", params=params)
        found = (each["settings"].get(name) for each in answer.values())
        return min((int(each) for each in found if each is not None), default=MOST_TERMS)

    def change(self, changes: Sequence[Change]) -> WriteReport:
        changes, failures = self._with_raw(changes)
        actions = list[Action]()
        for row, change in enumerate(changes):
            index = change.held.index
            lines = lines_to_change(change, self._rules(index))
            if isinstance(lines, Failure):
                failures.append(lines)
            else:
                actions.append(Action(str(row), change.held.id, index or self.index, lines))
        try:
            report = self.cluster.bulk(actions, self._reader)
        finally:
            self._note([change.held.id for change in changes])
        for each in report.failures:
            conflict = each.conflict or each.reason.startswith(_MISSED)
            reason = CHANGED if conflict else each.reason
            id = changes[int(each.id)].held.id
            failures.append(replace(each, id=id, reason=reason, conflict=conflict, index=None))
        return WriteReport(updated=report.created + report.updated, failures=failures)

    def _rules(self, index: str | None) -> Rules:
        return Rules() if index is None else rules_of(self.cluster, index)

    def _with_raw(self, changes: Sequence[Change]) -> tuple[list[Change], list[Failure]]:
        """Return changes of documents that were read whole, and conflicts of those that changed."""
        lacking = [
            change.held
            for change in changes
            if change.fields is not None and not change.whole and change.held.document.raw is None
        ]
        if not lacking:
            return list(changes), []
        fields = self._whole_source
        if isinstance(fields, dict):
            found = self._search_held([held.id for held in lacking], fields)
        else:
            found = self._get([place_of(held) for held in lacking], fields)
        now = {(held.index, held.id): held for held in found}
        ready, failures, sought = list[Change](), list[Failure](), {id(held) for held in lacking}
        for change in changes:
            held = change.held
            if id(held) not in sought:
                ready.append(change)
            elif (read := now.get((held.index, held.id))) and read.version == held.version:
                ready.append(replace(change, held=read))
            else:
                failures.append(Failure(held.id, CHANGED, conflict=True))
        return ready, failures

    def restore(self, held: Sequence[Held]) -> WriteReport:
        # A create checks only the shard that it goes to. The id may just have been taken.
        self._unseen = None
        ids = [one.id for one in held]
        taken = {one.id for one in self._search_held(ids, False)}
        failures = [Failure(id, "the id is taken", conflict=True) for id in ids if id in taken]
        places = {one.index for one in held}
        names = {index: indices.takes_creates(self.cluster, index) for index in places}
        external = any(one.number is not None for one in held) and self._has_external_versions()
        actions = [
            Action(
                one.id,
                one.id,
                names[one.index] or self.index,
                lines_to_create(one, names[one.index], external),
            )
            for one in held
            if one.id not in taken
        ]
        report = self.cluster.bulk(actions, self._reader, self._path)
        self._note(None)
        return report + WriteReport(failures=failures)

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
        with contextlib.closing(pages):
            yield from map(documents_of, pages)

    def open_point(self, keep_alive: str) -> str:
        """Open a point in time for several clients, as `Cluster.open_point`."""
        return self.cluster.open_point(self._path, keep_alive)

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        check_sample(count)
        body = scan_body(random_order(sketched(meta), seed), paths, min(count, _PAGE))
        body["sort"] = [{"_score": "desc"}, *body["sort"]]
        pages = self.cluster.hits(self._path, body)
        with contextlib.closing(pages):
            hits = itertools.islice(itertools.chain.from_iterable(pages), count)
            return documents_of(hits)

    def some_ids(self, count: int) -> list[str]:
        if self._mappings() is None:
            return []
        self.refresh()
        query: Any = {"function_score": {"query": {"match_all": {}}, "random_score": {}}}
        hits, _ = self.cluster.search(self._path, {"size": count, "_source": False, "query": query})
        return [hit["_id"] for hit in hits]

    def analyzed(self, field: str, texts: Sequence[str]) -> list[list[str]]:
        path = f"{indices.path_of(next(iter(self._mappings() or ())))}/_analyze"
        bodies = ({"field": field, "text": text} for text in texts)
        answers = [self.cluster.ask("POST", path, body)[1] for body in bodies]
        return [[each["token"] for each in answer["tokens"]] for answer in answers]

    def bucket_sizes(self, key: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        queries = ({"term": {f"{meta.field}.{key}": token}} for token in tokens)
        bodies = ({"size": 0, "track_total_hits": True, "query": each} for each in queries)
        answers = self.cluster.searches(self._path, bodies, self.where)
        return [int(answer["hits"]["total"]["value"]) for answer in answers]

    def refresh(self) -> None:
        noted = self._noted
        self.cluster.refresh(self._path)
        # Searches may not see the changes of calls that ran beside the refresh.
        if self._noted is noted:
            self._unseen = set()

    def _finds(self, ids: Sequence[str]) -> bool:
        """Return whether searches see what this store changed of these documents."""
        return self._unseen is not None and self._unseen.isdisjoint(ids)

    def _note(self, changed: Sequence[str] | None) -> None:
        """Remember ids that were changed; None for any."""
        self._noted, unseen = object(), self._unseen
        if changed is None:
            self._unseen = None
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
        return sorted(name for name, found in answer.items() if FIELD in found["mappings"]["_meta"])

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

    def _mappings(self) -> dict[str, dict[str, Any]] | None:
        """Return the mappings of the indices behind the name, or None if it does not exist."""
        status, answer = self.cluster.ask("GET", f"{self._path}/_mapping", allowed=frozenset({404}))
        if status == 404 or not answer:
            return None
        self._several = len(answer) > 1 or any(name.startswith(".ds-") for name in answer)
        return {index: found["mappings"] for index, found in answer.items()}

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

    def _is_several(self) -> bool:
        """Return whether the name may stand for several indices, as a data stream's always may."""
        if self._several is None:
            self._mappings()
        return bool(self._several)

    def _has_external_versions(self) -> bool:
        metas = map(meta_of, (self._mappings() or {}).values())
        return any(meta is not None and meta.external_versions for meta in metas)

    @functools.cached_property
    def _whole_source(self) -> Any:
        return indices.whole_source(self.cluster, self._path, self._mappings() or {})


def _is_whole(fields: Any) -> bool:
    """Return whether a value of `_source` requests whole documents."""
    return fields is True or isinstance(fields, dict)
