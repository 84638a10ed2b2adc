"""A store in a cluster, by the REST calls that Elasticsearch and OpenSearch share.

The calls that differ are in a `Client`, one for each product.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from esdedup.exceptions import (
    SchemeMismatch,
    StoreError,
    UsageError,
)
from esdedup.models import (
    WHOLE,
    CandidateQuery,
    Candidates,
    Change,
    Document,
    Encoded,
    Failure,
    Held,
    Share,
    Statistics,
    WriteReport,
    check_sample,
)
from esdedup.stores.elastic.bulk import Action, CreatesOnly
from esdedup.stores.elastic.client import NEEDS_ROUTING, Cluster, line
from esdedup.stores.elastic.documents import (
    find_targets,
    get_again,
    get_held,
    restore_held,
    sample_documents,
    search_held,
    send_changes,
)
from esdedup.stores.elastic.errors import reason_of
from esdedup.stores.elastic.indices import check_name, path_of, put_stop, resolve, whole_source
from esdedup.stores.elastic.queries import (
    bucket_sizes,
    candidates,
    other_scheme,
    random_order,
    scan_body,
    sketched,
)
from esdedup.stores.elastic.templates import renew_template
from esdedup.stores.mapping import TOKEN_PATHS, IndexMeta, common_meta, index_mapping

_SCAN_PAGE = 2_000
_NO_TOKENS = {"excludes": TOKEN_PATHS}
_UPDATE = {"retry_on_conflict": 10}


class ClusterStore:
    """A store in one index of a cluster, or in all indices behind an alias or data stream.

    Documents are read, searched and deleted in all of these indices. New documents go to the write
    index.
    """

    def __init__(self, cluster: Cluster, index: str) -> None:
        check_name(index)
        self.cluster = cluster
        self._index = index
        self._path = path_of(index)
        self._several: bool | None = None
        self._whole: Any = None
        self._creates_only = False

    @property
    def index(self) -> str:
        """The name of the index, alias or data stream."""
        return self._index

    @property
    def where(self) -> str:
        return f"index {self._index!r} at {self.cluster.connection.shown}"

    def meta(self) -> IndexMeta | None:
        mappings = self._mappings()
        if mappings is None:
            return None
        return common_meta(mappings, self._index)

    def create(self, meta: IndexMeta) -> None:
        mappings = self._mappings()
        if mappings is None:
            status, answer = self.cluster.ask(
                "PUT", self._path, {"mappings": index_mapping(meta)}, allowed=frozenset({400})
            )
            if status == 200:
                return
            if "resource_already_exists_exception" not in json.dumps(answer):
                raise StoreError(f"{self.where}: {reason_of(answer)}")
            mappings = self._mappings() or {}
        stored = common_meta(mappings, self._index)
        if stored is None:
            self._attach(meta, mappings)
            # Another client may have put its own fields at the same time.
            stored = common_meta(self._mappings() or {}, self._index)
        if stored is None:
            raise SchemeMismatch(f"{self.where}: the scheme was not stored in the mapping")
        stored.require(meta, self.where)

    def _attach(self, meta: IndexMeta, mappings: Mapping[str, Any]) -> None:
        if len(mappings) > 1:
            raise UsageError(
                f"{self._index!r} names {len(mappings)} indices ({', '.join(sorted(mappings))})"
                f" without esdedup fields: esdedup attach --index {self._index}, or name one of"
                " them"
            )
        (mapping,) = mappings.values()
        put = index_mapping(meta, mapping.get("_meta"))
        self.cluster.ask("PUT", f"{self._path}/_mapping", put)

    @staticmethod
    def encode(document: Document) -> bytes:
        return line(document.source, f"document {document.id!r}")

    def write(
        self, documents: Sequence[Document | Encoded], *, create: bool = False
    ) -> WriteReport:
        verb = "create" if create or self._creates_only else "index"
        actions = [
            Action(
                each.id,
                line({verb: {"_id": each.id}})
                + (each.form if isinstance(each, Encoded) else self.encode(each)),
            )
            for each in documents
        ]
        try:
            return self.cluster.bulk(actions, self.where, self._path)
        except CreatesOnly:
            if verb == "create":
                raise
            self._creates_only = True
            return self.write(documents)

    def update(self, documents: Sequence[Document]) -> WriteReport:
        if self._is_several():
            return self._update_found(documents)
        report = self._update(documents, {document.id: {} for document in documents})
        missed = {failure.id for failure in report.failures if _is_missed(failure)}
        if not missed:
            return report
        others = [failure for failure in report.failures if failure.id not in missed]
        some = [document for document in documents if document.id in missed]
        return replace(report, failures=others) + self._update_found(some)

    def _update_found(self, documents: Sequence[Document]) -> WriteReport:
        targets = self._targets([document.id for document in documents])
        return self._update(documents, {target["_id"]: target for target in targets})

    def _update(
        self, documents: Sequence[Document], targets: Mapping[str, Mapping[str, Any]]
    ) -> WriteReport:
        absent = [
            Failure(d.id, "there is no such document") for d in documents if d.id not in targets
        ]
        # The server merges the fields, so that changes of other fields are not lost.
        actions = [
            Action(
                document.id,
                line({"update": {"_id": document.id, **targets[document.id], **_UPDATE}})
                + line({"doc": document.source}, f"document {document.id!r}"),
            )
            for document in documents
            if document.id in targets
        ]
        return self.cluster.bulk(actions, self.where, self._path) + WriteReport(failures=absent)

    def get(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Document]:
        fields = _NO_TOKENS if paths is None else {"includes": paths, "excludes": TOKEN_PATHS}
        return [one.document for one in self._read(ids, fields, self._is_several())]

    def hold(self, ids: Sequence[str], paths: list[str] | None = None) -> list[Held]:
        fields = self._whole_source() if paths is None else paths or False
        by_search = self._is_several() or isinstance(fields, dict)
        if by_search and ids:
            self.refresh()
        return self._read(ids, fields, by_search)

    def _read(self, ids: Sequence[str], fields: Any, by_search: bool) -> list[Held]:
        look = search_held if by_search else get_held
        found: dict[str, Held] = {}
        for first in range(0, len(ids), _SCAN_PAGE):
            some = look(self.cluster, self._path, list(ids[first : first + _SCAN_PAGE]), fields)
            found |= {one.document.id: one for one in some}
        return [found[id] for id in ids if id in found]

    def hold_again(self, held: Sequence[Held], paths: list[str] | None = None) -> list[Held]:
        fields = self._whole_source() if paths is None else paths or False
        if isinstance(fields, dict):
            return self.hold([one.document.id for one in held])
        return get_again(self.cluster, held, fields)

    def candidates(self, queries: Sequence[CandidateQuery], limit: int) -> list[Candidates]:
        return candidates(self.cluster, self._path, queries, limit, self.where)

    def change(self, changes: Sequence[Change]) -> WriteReport:
        return send_changes(self.cluster, changes, self.where)

    def restore(self, held: Sequence[Held]) -> WriteReport:
        return restore_held(self.cluster, self._path, held, self.where)

    def scan(
        self, paths: list[str], meta: IndexMeta, share: Share = WHOLE
    ) -> Iterator[list[Document]]:
        body = scan_body(sketched(meta), paths, _SCAN_PAGE)
        if share.of > 1:
            # By sequence number a document is in the same share for every client at any time.
            body["slice"] = {"field": "_seq_no", "id": share.number - 1, "max": share.of}
        with self.cluster.point_in_time(self._path) as point:
            for hits in self.cluster.pages(point, body):
                yield [Document(hit["_id"], hit.get("_source", {})) for hit in hits]

    def bucket_sizes(self, kind: str, tokens: Sequence[str], meta: IndexMeta) -> list[int]:
        return bucket_sizes(self.cluster, self._path, f"{meta.field}.{kind}", tokens)

    def put_stop(self, meta: IndexMeta, stop: tuple[str, ...]) -> None:
        put_stop(self.cluster, self._index, meta, stop)
        named = resolve(self.cluster, self._index)
        if named.kind != "index" and (stored := self.meta()) is not None:
            # For the indices that are made next behind the name.
            renew_template(self.cluster, named, stored)

    def sample(self, paths: list[str], meta: IndexMeta, count: int, seed: int) -> list[Document]:
        check_sample(count)
        query = random_order(sketched(meta), seed)
        return sample_documents(self.cluster, self._path, query, paths, count)

    def delete(self, ids: Sequence[str]) -> int:
        deleted, missed = 0, list(ids)
        if not self._is_several():
            deleted, missed = self._delete([{"_id": id} for id in ids])
        return deleted + self._delete(self._targets(missed))[0] if missed else deleted

    def _delete(self, targets: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
        """Returns the number of documents deleted, and the ids of those that were not there."""
        actions = [Action(target["_id"], line({"delete": target})) for target in targets]
        report = self.cluster.bulk(actions, self.where, self._path)
        for failure in report.failures:
            # A document that was not there answers 404, which does not count as a failure.
            if not _is_missed(failure):
                raise StoreError(f"{self.where}: {failure.id} was not deleted: {failure.reason}")
        return report.updated, [failure.id for failure in report.failures]

    def _targets(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """The targets of a bulk request for the documents that exist."""
        self.refresh()
        return find_targets(self.cluster, self._path, ids)

    def refresh(self) -> None:
        self.cluster.ask("POST", f"{self._path}/_refresh")

    def statistics(self, meta: IndexMeta) -> Statistics:
        documents = self.cluster.count(self._path)
        _, answer = self.cluster.ask("GET", f"{self._path}/_stats/store")
        return Statistics(
            documents,
            self.cluster.count(self._path, sketched(meta)),
            self.cluster.count(self._path, other_scheme(meta)),
            answer["_all"]["primaries"]["store"]["size_in_bytes"],
            self.cluster.client.product,
        )

    def close(self) -> None:
        self.cluster.client.close()

    def _mappings(self) -> dict[str, dict[str, Any]] | None:
        """The mappings of the indices behind the name, or None if it does not exist."""
        status, answer = self.cluster.ask("GET", f"{self._path}/_mapping", allowed=frozenset({404}))
        if status == 404 or not answer:
            return None
        self._several = len(answer) > 1 or any(name.startswith(".ds-") for name in answer)
        return {index: found["mappings"] for index, found in answer.items()}

    def _is_several(self) -> bool:
        """Tells whether the name may stand for several indices, as a data stream's always may."""
        if self._several is None:
            self._mappings()
        return bool(self._several)

    def _whole_source(self) -> Any:
        if self._whole is None:
            self._whole = whole_source(self.cluster, self._path, self._mappings() or {})
        return self._whole


def _is_missed(failure: Failure) -> bool:
    """Tells whether a document was not found by its id alone."""
    missed = ("document_missing_exception:", f"{NEEDS_ROUTING}:")
    return failure.reason == "not_found" or failure.reason.startswith(missed)
