"""Requests to a cluster: what a product's client must do, and what is built on it for both."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from esdedup.exceptions import StoreError, StoreUnavailable
from esdedup.models import WriteReport
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.bulk import Action, write_actions
from esdedup.stores.elastic.errors import error_of, reason_of
from esdedup.stores.elastic.retry import BulkPolicy, retrying
from esdedup.stores.to_json import to_json

_KEEP_ALIVE = "10m"
NEEDS_ROUTING = "routing_missing_exception"
"""Without its routing, a document is not found."""


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


class Cluster:
    """A cluster that is asked again while it is not ready."""

    def __init__(
        self, client: Client, connection: Connection, policy: BulkPolicy | None = None
    ) -> None:
        self.client = client
        self.connection = connection
        self.policy = policy or BulkPolicy()

    def ask(self, *request: Any, **options: Any) -> tuple[int, Any]:
        """A request, as `Client.request`, that may be sent twice without harm."""
        return retrying(functools.partial(self.client.request, *request, **options), self.policy)

    def count(self, path: str, query: Mapping[str, Any] | None = None) -> int:
        """The number of documents of an index that match."""
        body = {"query": query} if query else {}
        return retrying(lambda: self._count(path, body), self.policy)

    def _count(self, path: str, body: Mapping[str, Any]) -> int:
        _, answer = self.client.request("POST", f"{path}/_count", body)
        shards = answer["_shards"]
        # OpenSearch does not count a shard that is nowhere as one that failed.
        missing = shards["total"] - shards["successful"]
        if missing:
            why = [f": {reason_of(each['reason'])}" for each in shards.get("failures", ())]
            raise StoreUnavailable(
                f"{self.client.shown}: {path[1:]}: {missing} of {shards['total']} shards did not"
                f" answer{''.join(why[:1])}"
            )
        return int(answer["count"])

    def get_many(
        self, body: Mapping[str, Any], path: str = "", params: Mapping[str, str] | None = None
    ) -> list[Mapping[str, Any]]:
        """The documents of a multi-get that are there, asked for again while a shard is not."""

        def get() -> list[Mapping[str, Any]]:
            _, answer = self.client.request("POST", f"{path}/_mget", body, params)
            for item in answer["docs"]:
                if "error" in item and item["error"].get("type") != NEEDS_ROUTING:
                    # An item has no status; a shard that is moving is no deleted document.
                    status = 404 if "index_not_found" in reason_of(item) else 503
                    raise error_of(status, item, self.client.shown)
            return [item for item in answer["docs"] if item.get("found")]

        return retrying(get, self.policy)

    @contextmanager
    def point_in_time(self, path: str) -> Iterator[str]:
        """A point in time over an index, given back at the end."""
        point = retrying(lambda: self.client.open_point_in_time(path, _KEEP_ALIVE), self.policy)
        try:
            yield point
        finally:
            # It ends by itself after a while, and what was read from it stays good.
            with suppress(StoreError):
                self.client.close_point_in_time(point)

    def pages(self, point: str, body: Mapping[str, Any]) -> Iterator[list[dict[str, Any]]]:
        """The hits of a search over a point in time, page by page.

        body: with a sort; its `size` may be changed between two pages.
        """
        after: list[Any] | None = None
        while True:
            search = {**body, "pit": {"id": point, "keep_alive": _KEEP_ALIVE}}
            if after is not None:
                search["search_after"] = after
            # A part of the shards would be a silent truncation.
            partial = {"allow_partial_search_results": "false"}
            _, answer = self.ask("POST", "/_search", search, partial)
            point = answer["pit_id"]
            hits: list[dict[str, Any]] = answer["hits"]["hits"]
            if not hits:
                return
            after = hits[-1]["sort"]
            yield hits

    def bulk(self, actions: Sequence[Action], where: str, path: str = "") -> WriteReport:
        """Sends bulk actions until each is written or failed; see `write_actions`."""

        def send(body: bytes) -> Mapping[str, Any]:
            _, answer = self.client.request("POST", f"{path}/_bulk", body)
            found: Mapping[str, Any] = answer
            return found

        return write_actions(actions, send, self.policy, where)


def line(value: Any, of: str = "a request") -> bytes:
    """A value as a line of JSON. Raises RecordError, naming `of`, for what is none."""
    return to_json(value, of).encode() + b"\n"
