"""Send requests to a cluster, retry them while it is not ready, and read pages of searches."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from esdedup.exceptions import EsdedupError, StoreError, StoreUnavailable
from esdedup.models import WriteReport
from esdedup.stores.base import QUERIES_AT_ONCE
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.bulk import Action, BulkPolicy, line, write_actions
from esdedup.stores.elastic.errors import error_of, reason_of

if TYPE_CHECKING:
    from esdedup.stores.elastic.transport import Client

_KEEP_ALIVE = "10m"
_ITEM = ("status", "error", "result", "_index")
_BULK = {"filter_path": ",".join(["error", "status", *(f"items.*.{name}" for name in _ITEM)])}
"""Leaves unread values, two thirds of the bytes, out of answers."""
NEEDS_ROUTING = "routing_missing_exception"
"""The error type for a document that is not found without its routing."""


class Cluster:
    """A cluster. Requests are retried while it is not ready."""

    def __init__(
        self, client: Client, connection: Connection, policy: BulkPolicy | None = None
    ) -> None:
        self.client = client
        self.connection = connection
        self.policy = policy or BulkPolicy()
        self.retries = client.retries

    def ask(self, *request: Any, **options: Any) -> tuple[int, Any]:
        """Send a request, as `Client.request`, that may be sent twice without harm."""
        call = functools.partial(self.client.request, *request, **options)
        return self.retries.until_answered(call)

    def count(self, path: str, query: Mapping[str, Any] | None = None) -> int:
        """Return the number of documents that match."""

        def count() -> int:
            body = {"query": query} if query else {}
            _, answer = self.client.request("POST", f"{path}/_count", body)
            with self.reading():
                shards = answer["_shards"]
                # OpenSearch does not count a shard without a node as failed.
                if missing := shards["total"] - shards["successful"]:
                    why = [f": {reason_of(each['reason'])}" for each in shards.get("failures", ())]
                    raise StoreUnavailable(
                        f"{self.connection.shown}: {path[1:]}: {missing} of {shards['total']}"
                        f" shards did not answer{''.join(why[:1])}"
                    )
                return int(answer["count"])

        return self.retries.until_answered(count)

    def searches(
        self, path: str, bodies: Iterable[Mapping[str, Any]], where: str
    ) -> Iterator[Mapping[str, Any]]:
        """Yield the answers to searches, in order. where: the index, for messages."""
        waiting = iter(bodies)
        # Answers from a part of the shards would silently lack documents.
        header = line({"allow_partial_search_results": False})

        def search() -> list[Mapping[str, Any]]:
            _, answer = self.client.request("POST", f"{path}/_msearch", b"".join(some))
            with self.reading():
                for each in answer["responses"]:
                    if "error" in each:
                        raise error_of(each.get("status", 500), each, where)
                if len(answer["responses"]) != len(some):
                    raise ValueError(f"{len(answer['responses'])} answers to {len(some)} searches")
                return list(answer["responses"])

        while some := [header + line(body) for body in islice(waiting, QUERIES_AT_ONCE)]:
            yield from self.retries.until_answered(search)

    def get_many(
        self, body: Mapping[str, Any], path: str = "", params: Mapping[str, str] | None = None
    ) -> list[Mapping[str, Any]]:
        """Return the documents of a multi-get that exist; retry while a shard is away."""

        def get() -> list[Mapping[str, Any]]:
            _, answer = self.client.request("POST", f"{path}/_mget", body, params)
            with self.reading():
                for item in answer["docs"]:
                    if "error" in item and item["error"].get("type") != NEEDS_ROUTING:
                        raise error_of(_status_of(item), item, self.connection.shown)
                return [item for item in answer["docs"] if item.get("found")]

        return self.retries.until_answered(get)

    def open_point(self, path: str, keep_alive: str = _KEEP_ALIVE) -> str:
        """Open a point in time over an index. keep_alive: time from its last use until it ends."""
        points, params = "/_pit", {"keep_alive": keep_alive}
        if self.client.is_opensearch:
            points = "/_search/point_in_time"
            # By default OpenSearch silently leaves out a shard that is away.
            params["allow_partial_pit_creation"] = "false"
        _, answer = self.ask("POST", f"{path}{points}", params=params)
        return str(answer["pit_id" if self.client.is_opensearch else "id"])

    def close_point(self, point: str) -> None:
        """Close a point in time, if it is still open."""
        by_opensearch = self.client.is_opensearch
        points = "/_search/point_in_time" if by_opensearch else "/_pit"
        # It ends by itself after a while, so an error here does no harm.
        with suppress(StoreError):
            closing = {"pit_id": [point]} if by_opensearch else {"id": point}
            self.client.request("DELETE", points, closing)

    @contextmanager
    def point_in_time(self, path: str, keep_alive: str = _KEEP_ALIVE) -> Iterator[str]:
        """Open a point in time over an index for the time of a `with`, as `open_point`."""
        point = self.open_point(path, keep_alive)
        try:
            yield point
        finally:
            self.close_point(point)

    def pages(self, point: str, body: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
        """Yield the hits of a search over a point in time, page by page. body: with a sort."""
        hits, point = self.page(point, body)
        while hits:
            yield hits
            hits, point = self.page(point, {**body, "search_after": hits[-1]["sort"]})

    def page(self, point: str, body: Mapping[str, Any]) -> tuple[list[dict[str, Any]], str]:
        """Return the hits of one page, and the point in time of the next page."""
        search = {**body, "pit": {"id": point, "keep_alive": _KEEP_ALIVE}}
        # Answers from a part of the shards would silently lack documents.
        partial = {"allow_partial_search_results": "false"}
        _, answer = self.ask("POST", "/_search", search, partial)
        with self.reading():
            return list(answer["hits"]["hits"]), answer["pit_id"]

    def bulk(self, actions: Sequence[Action], where: str, path: str = "") -> WriteReport:
        """Send bulk actions until each is written or has failed; see `write_actions`."""

        def send(body: bytes) -> Mapping[str, Any]:
            return dict(self.client.request("POST", f"{path}/_bulk", body, _BULK)[1])

        with self.reading():
            return write_actions(actions, send, self.policy, self.retries, where)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise StoreError if an answer has another form than these servers' answers."""
        try:
            yield
        except EsdedupError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{self.connection.shown}: an answer has not the form of Elasticsearch's or"
                f" OpenSearch's: {type(error).__name__}: {error}"
            ) from error


def _status_of(item: Mapping[str, Any]) -> int:
    """Return the status of an item of a multi-get. A shard that moves is no missing document."""
    reason = reason_of(item)
    if "security_exception" in reason:
        return 403
    return 404 if "index_not_found" in reason else 503
