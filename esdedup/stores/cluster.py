"""An index in a cluster: the REST calls that Elasticsearch and OpenSearch share.

How requests travel, and the few calls that differ, is the part of a `Client`, one for each product.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import quote

from esdedup.datatypes import (
    Candidate,
    Candidates,
    Document,
    RecallQuery,
    Statistics,
    WriteReport,
)
from esdedup.exceptions import (
    IndexNotFound,
    SchemeMismatch,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from esdedup.queries import other_scheme_body, recall_body, scan_body, sketched_body
from esdedup.schema import TOKEN_PATHS, IndexMeta, index_mapping, meta_of
from esdedup.serialise import to_json
from esdedup.stores.bulk import Action, write_actions
from esdedup.stores.responses import RETRIED, reason_of
from esdedup.stores.retry import BulkPolicy, retrying

_QUERIES_A_REQUEST = 50
_SCAN_PAGE = 2_000
_KEEP_ALIVE = "5m"


class Client(Protocol):
    """How requests reach one product's cluster."""

    @property
    def product(self) -> str:
        """The product's name and version, for people."""
        ...

    @property
    def shown(self) -> str:
        """The addresses, without credentials."""
        ...

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        allowed: frozenset[int] = frozenset(),
    ) -> tuple[int, Any]:
        """The status and the body of the answer.

        body: an object, sent as JSON, or bytes, sent as lines of JSON. allowed: statuses to
        return although they are errors. Raises the errors of `responses.error_of`, and
        StoreUnavailable where no answer came.
        """
        ...

    def open_point_in_time(self, index: str, keep_alive: str) -> str:
        """The id of a new point in time."""
        ...

    def close_point_in_time(self, id: str) -> None:
        """Gives a point in time back."""
        ...

    def close(self) -> None:
        """Gives connections back."""
        ...


class ClusterStore:
    """A store in one index of a cluster."""

    def __init__(self, client: Client, index: str, policy: BulkPolicy | None = None) -> None:
        if not index or any(character in index for character in '*,?"<>| \\/#'):
            raise UsageError(f"index name {index!r}: name one index")
        self._client = client
        self._index = index
        self._path = f"/{quote(index, safe='')}"
        self._policy = policy or BulkPolicy()

    @property
    def where(self) -> str:
        return f"index {self._index!r} at {self._client.shown}"

    def meta(self) -> IndexMeta | None:
        mapping = self._mapping()
        return None if mapping is None else meta_of(mapping)

    def create(self, meta: IndexMeta) -> None:
        mapping = self._mapping()
        if mapping is None:
            status, answer = self._ask(
                "PUT", self._path, {"mappings": index_mapping(meta)}, allowed=frozenset({400})
            )
            if status == 200:
                return
            if "resource_already_exists_exception" not in json.dumps(answer):
                raise StoreError(f"{self.where}: {answer['error']['reason']}")
            mapping = self._mapping() or {}
        stored = meta_of(mapping)
        if stored is None:
            put = index_mapping(meta, mapping.get("_meta"))
            self._ask("PUT", f"{self._path}/_mapping", put)
            # Another client may have put its own between our look and our put.
            stored = meta_of(self._mapping() or {})
        if stored is None:
            raise SchemeMismatch(f"{self.where}: the scheme was not stored in the mapping")
        stored.require(meta, self.where)

    def write(self, documents: Sequence[Document], *, create: bool = False) -> WriteReport:
        verb = "create" if create else "index"
        actions = [
            Action(
                document.id,
                _line({verb: {"_id": document.id}})
                + _line(document.source, f"document {document.id!r}"),
            )
            for document in documents
        ]
        return write_actions(actions, self._send_bulk, self._policy, self.where)

    def get(self, ids: Sequence[str]) -> list[Document]:
        found: list[Document] = []
        for first in range(0, len(ids), _SCAN_PAGE):
            _, answer = self._ask(
                "POST",
                f"{self._path}/_mget",
                {"ids": list(ids[first : first + _SCAN_PAGE])},
                {"_source_excludes": ",".join(TOKEN_PATHS)},
            )
            for item in answer["docs"]:
                if "error" in item:
                    raise self._item_error(item["error"])
                if item["found"]:
                    found.append(Document(item["_id"], item.get("_source", {})))
        return found

    def recall(self, queries: Sequence[RecallQuery], limit: int) -> list[Candidates]:
        answers: list[Candidates] = []
        for first in range(0, len(queries), _QUERIES_A_REQUEST):
            some = queries[first : first + _QUERIES_A_REQUEST]
            # A part of the shards would be a silent truncation.
            header = _line({"allow_partial_search_results": False})
            body = b"".join(header + _line(recall_body(query, limit)) for query in some)
            answers += retrying(functools.partial(self._search, body), self._policy)
        return answers

    def scan(self, paths: list[str], scheme_id: str) -> Iterator[list[Document]]:
        point = self._client.open_point_in_time(self._path, _KEEP_ALIVE)
        body = scan_body(paths, _SCAN_PAGE, scheme_id)
        body["sort"] = [{"_shard_doc": "asc"}]
        try:
            while True:
                body["pit"] = {"id": point, "keep_alive": _KEEP_ALIVE}
                _, answer = self._ask(
                    "POST", "/_search", body, {"allow_partial_search_results": "false"}
                )
                point = answer["pit_id"]
                hits = answer["hits"]["hits"]
                if not hits:
                    return
                body["search_after"] = hits[-1]["sort"]
                yield [Document(hit["_id"], hit.get("_source", {})) for hit in hits]
        finally:
            self._client.close_point_in_time(point)

    def delete(self, ids: Sequence[str]) -> int:
        actions = [Action(id, _line({"delete": {"_id": id}})) for id in ids]
        report = write_actions(actions, self._send_bulk, self._policy, self.where)
        # A document that was not there answers 404, which is no failure to delete it.
        broken = [failure for failure in report.failures if "not_found" not in failure.reason]
        if broken:
            raise StoreError(f"{self.where}: {broken[0].id} was not deleted: {broken[0].reason}")
        return report.updated

    def refresh(self) -> None:
        self._ask("POST", f"{self._path}/_refresh")

    def statistics(self, scheme_id: str) -> Statistics:
        documents = self._count({})
        _, answer = self._ask("GET", f"{self._path}/_stats/store")
        return Statistics(
            documents,
            self._count(sketched_body(scheme_id)),
            self._count(other_scheme_body(scheme_id)),
            answer["_all"]["primaries"]["store"]["size_in_bytes"],
            self._client.product,
        )

    def close(self) -> None:
        self._client.close()

    def _mapping(self) -> dict[str, Any] | None:
        """The index's mapping, or None where there is no such index."""
        status, answer = self._ask("GET", f"{self._path}/_mapping", allowed=frozenset({404}))
        if status == 404:
            return None
        if len(answer) > 1:
            raise UsageError(
                f"{self._index!r} names {len(answer)} indices ({', '.join(sorted(answer))}):"
                " name one of them"
            )
        mapping: dict[str, Any] = next(iter(answer.values()))["mappings"]
        return mapping

    def _ask(self, *request: Any, **options: Any) -> tuple[int, Any]:
        """A request that may be sent again without harm, and is while the server is not ready."""
        return retrying(functools.partial(self._client.request, *request, **options), self._policy)

    def _search(self, body: bytes) -> list[Candidates]:
        _, answer = self._client.request("POST", f"{self._path}/_msearch", body)
        return [self._candidates(response) for response in answer["responses"]]

    def _send_bulk(self, body: bytes) -> Mapping[str, Any]:
        _, answer = self._client.request("POST", f"{self._path}/_bulk", body)
        found: Mapping[str, Any] = answer
        return found

    def _count(self, body: dict[str, Any]) -> int:
        _, answer = self._ask("POST", f"{self._path}/_count", body)
        return int(answer["count"])

    def _candidates(self, response: Mapping[str, Any]) -> Candidates:
        if "error" in response:
            if response.get("status") in RETRIED:
                raise StoreUnavailable(f"{self.where}: {reason_of(response)}")
            raise self._item_error(response["error"])
        hits, total = response["hits"]["hits"], response["hits"]["total"]
        found = [
            Candidate(Document(hit["_id"], hit.get("_source", {})), round(hit["_score"]))
            for hit in hits
        ]
        return Candidates(found, total["relation"] != "eq" or total["value"] > len(found))

    def _item_error(self, error: Mapping[str, Any]) -> StoreError:
        if error.get("type") == "index_not_found_exception":
            return IndexNotFound(f"there is no {self.where}")
        return StoreError(f"{self.where}: {error.get('type')}: {error.get('reason')}")


def _line(value: Any, of: str = "a request") -> bytes:
    return to_json(value, of).encode() + b"\n"
