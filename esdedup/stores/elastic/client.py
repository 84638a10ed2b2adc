"""Send requests to a cluster, retry them while it is not ready, and read pages of searches."""

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import xxhash

from esdedup.exceptions import (
    AuthenticationFailed,
    EsdedupError,
    IndexNotFound,
    PermissionDenied,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from esdedup.models import Share, WriteReport
from esdedup.stores.base import QUERIES_AT_ONCE
from esdedup.stores.concurrency import Window
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.answers import Action, AnswerReader
from esdedup.stores.elastic.bodies import Body, Hit, Query, ServerAnswer
from esdedup.stores.elastic.bulk import BulkPolicy, has_refused, line, search_line, write_actions
from esdedup.stores.elastic.errors import (
    RETRIED,
    DocumentUnreadable,
    NotReached,
    PageTooLarge,
    PointInTimeLost,
    error_of,
    is_transient,
    item_error,
    reason_of,
    unreadable,
)
from esdedup.stores.elastic.queries import Slice
from esdedup.stores.elastic.retry import Attempts, Retries
from esdedup.text.arrays import U64

log = logging.getLogger("esdedup")
Value = TypeVar("Value")

_KEEP_ALIVE = "10m"
_INTERVAL = "index.refresh_interval"
_UNITS = {"nanos": 1e-9, "micros": 1e-6, "ms": 1e-3, "s": 1.0}
_SECONDS = re.compile(rf"(\d+(?:\.\d+)?)({'|'.join(_UNITS)})")
# Answers from a part of the shards would silently lack documents.
_WHOLE = {"allow_partial_search_results": "false"}
_ITEM = ("status", "error", "result", "_index", "_id")
_BULK = {
    "filter_path": ",".join(["error", "errors", "status", *(f"items.*.{name}" for name in _ITEM)])
}
"""Leaves unread values, two thirds of the bytes, out of answers."""


def refreshes_soon(interval: str) -> bool:
    """Return whether an index refreshes itself within a second.

    interval: its index.refresh_interval; "" for the default.
    """
    value = _SECONDS.fullmatch(interval)
    return not interval or (value is not None and 0 < float(value[1]) * _UNITS[value[2]] <= 1)


class Cluster:
    """A cluster, whose product is detected first. Requests are retried while it is not ready.

    retries_connecting: whether NotReached is retried, as of one that has answered before.

    Raises StoreUnavailable, AuthenticationFailed or UsageError if it can't be reached.
    """

    def __init__(
        self,
        connection: Connection,
        policy: BulkPolicy | None = None,
        *,
        retries_connecting: bool = False,
    ) -> None:
        # Imported here, because the client takes longer to load than all the rest.
        from esdedup.stores.elastic.transport import Link

        self.connection = connection
        self.policy = policy or BulkPolicy()
        self.retries = Retries(connection.retry_for)
        self._link = Link(connection)
        self.window = Window(connection.requests)
        self._may_not_refresh = False
        self._unrefreshed: set[str] = set()
        self._remembered: dict[Hashable, tuple[float, Any]] = {}
        self._remembering = threading.Lock()
        try:
            but_not = () if retries_connecting else (NotReached,)
            name, version = self.retries.until_answered(self._identify, but_not)
        except BaseException:
            self.close()
            raise
        self.product = f"{name} {version}".strip()
        self.is_opensearch = name == "OpenSearch"

    def close(self) -> None:
        """Close the connections, and end the threads of the window."""
        self.window.close()
        self._link.close()

    def _identify(self) -> tuple[str, str]:
        """Return the product, and its version or ""."""
        # Try each address once, because any node may be down.
        other_nodes = max(0, len(self.connection.addresses) - 1)
        meta, body = self._link.send("GET", "/", other_nodes=other_nodes)
        if meta.status == 401 or is_transient(meta.status, body):
            raise self._error(meta.status, body, meta.headers)
        version = body.get("version") if isinstance(body, Mapping) else None
        version = version if isinstance(version, Mapping) else {}
        number = str(version.get("number", ""))
        # A user may lack the privilege for `GET /`, and still have others.
        if meta.headers.get("x-elastic-product") == "Elasticsearch":
            return "Elasticsearch", number
        if version.get("distribution") == "opensearch" or meta.status == 403:
            return "OpenSearch", number
        answers = "" if meta.status == 200 else f": GET / returns {meta.status}: {reason_of(body)}"
        shown = self.connection.shown
        raise UsageError(f"{shown} is neither Elasticsearch nor OpenSearch{answers}")

    def request(
        self,
        method: str,
        path: str,
        body: Body | bytes | None = None,
        params: Mapping[str, str] | None = None,
        allowed: frozenset[int] = frozenset(),
        *,
        raw: bool = False,
    ) -> ServerAnswer:
        """Send a request once.

        body: an object, sent as JSON, or bytes, sent as lines of JSON.
        allowed: error statuses to return.
        raw: keep the JSON of whole documents.

        Raises the errors of `errors.error_of`, and StoreUnavailable if no answer came.
        """
        size = len(body) if isinstance(body, bytes) else 0
        with self.window.request(size) as settle:
            meta, answer = self._link.send(method, path, body, params, raw=raw)
            is_object = isinstance(answer, Mapping)
            settle(meta.status in RETRIED or (is_object and has_refused(answer)))
        if meta.status >= 300 and not (meta.status in allowed and is_object):
            raise self._error(meta.status, answer, meta.headers)
        if not is_object:
            raise StoreError(
                f"{self.connection.shown}: the answer to {method} {path} is not a JSON object:"
                f" {reason_of(answer)}"
            )
        return ServerAnswer(meta.status, answer)

    def _error(self, status: int, body: object, headers: Mapping[str, str]) -> EsdedupError:
        if status == 401 and not self._link.has_credentials:
            return AuthenticationFailed(
                f"{self.connection.shown}: the server requires credentials (401), and none are"
                " given. Set a user name and password, an API key or a bearer token"
            )
        error = error_of(status, body, self.connection.shown)
        if isinstance(error, StoreUnavailable):
            error.retry_after = self._link.seconds(headers.get("retry-after"))
        return error

    def remembered(self, key: Hashable, read: Callable[[], Value]) -> Value:
        """Return what `read` returns, such as a setting, again after `Waits.mapping` seconds."""
        # Threads that start together read it once.
        with self._remembering:
            read_at, value = self._remembered.get(key, (-math.inf, None))
            if time.monotonic() - read_at > self.connection.waits.mapping:
                read_at, value = time.monotonic(), read()
                self._remembered[key] = read_at, value
        remembered: Value = value
        return remembered

    def ask(
        self,
        method: str,
        path: str,
        body: Body | bytes | None = None,
        params: Mapping[str, str] | None = None,
        allowed: frozenset[int] = frozenset(),
        *,
        raw: bool = False,
    ) -> ServerAnswer:
        """Send a request, as `request`, that may be sent twice without harm."""
        return self.retries.until_answered(
            lambda: self.request(method, path, body, params, allowed, raw=raw)
        )

    def search(self, path: str, body: Body, *, raw: bool = False) -> tuple[list[Hit], int]:
        """Return the hits of one search, and the number of all documents that match.

        raw: keep the JSON of whole documents. Raises PageTooLarge if the index does not return as
        many hits at once.
        """
        answer = self._searched(path, {"track_total_hits": True, **body}, raw=raw)
        return list(answer["hits"]["hits"]), int(answer["hits"]["total"]["value"])

    def _searched(self, path: str, body: Body, *, raw: bool = False) -> Body:
        """Return the answer to a search. Raises DocumentUnreadable, naming the documents.

        raw: keep the JSON of whole documents.
        """
        try:
            return self.ask("POST", f"{path}/_search", body, _WHOLE, raw=raw).body
        except StoreError as error:
            if (named := self._naming_documents(path, body, error)) is error:
                raise
            raise named from error

    def _naming_documents(self, path: str, body: Body, error: StoreError) -> StoreError:
        """Return the error of a search, or one that names documents that can't be returned.

        Elasticsearch stores JSON that begins with a comment, and fails to filter it: a search
        fails because of one document, of which its error says nothing.
        """
        if type(error) is not StoreError or not body.get("_source", True):
            return error
        with suppress(StoreError):
            _, answer = self.ask("POST", f"{path}/_search", {**body, "_source": False}, _WHOLE)
            hits = answer["hits"]["hits"]
            targets = [{"_index": hit["_index"], "_id": hit["_id"]} for hit in hits]
            return self._unreadable_among(targets) or error
        return error

    def _unreadable_among(
        self, targets: Sequence[Body], path: str = ""
    ) -> DocumentUnreadable | None:
        """Return the error that names those of the documents that can't be returned, if any."""
        if not targets:
            return None
        # An error of the filter is one of the item; without a filter, the connection breaks off.
        filtered = [{**target, "_source": ["_nothing"]} for target in targets]
        _, answer = self.request("POST", f"{path}/_mget", {"docs": filtered})
        errors = ((item, item_error(item, self.connection.shown)) for item in answer["docs"])
        failed = [item for item, error in errors if isinstance(error, DocumentUnreadable)]
        return unreadable(failed, self.connection.shown) if failed else None

    def count(self, path: str, query: Query | None = None) -> int:
        """Return the number of documents that match."""
        return self.search(path, {"size": 0, **({"query": query} if query else {})})[1]

    def searches(
        self, path: str, bodies: Iterable[Body], where: str, unread: Sequence[str] = ()
    ) -> Iterator[Body]:
        """Yield the answers to searches, in order.

        where: the index, for messages.
        unread: patterns of paths to leave out of the documents.
        """
        remaining = iter(bodies)
        # In `_source` of each search, these would take the servers 0.1 to 1 ms more a search.
        paths = ",".join(f"-responses.hits.hits._source.{pattern}" for pattern in unread)
        params = {"filter_path": paths} if unread else None
        header = line({"allow_partial_search_results": False})

        def search(batch: list[Body]) -> list[Body]:
            lines = b"".join(header + search_line(body) for body in batch)
            _, answer = self.request("POST", f"{path}/_msearch", lines, params)
            for body, response in zip(batch, answer["responses"], strict=True):
                if "error" in response:
                    error = error_of(response.get("status", 500), response, where)
                    if isinstance(error, StoreError):
                        error = self._naming_documents(path, body, error)
                    raise error
            return list(answer["responses"])

        while batch := [*islice(remaining, QUERIES_AT_ONCE)]:
            yield from self.retries.until_answered(partial(search, batch))

    def get_many(self, targets: Sequence[Body], path: str = "", *, raw: bool = False) -> list[Hit]:
        """Return the documents of a multi-get that exist; retry while a shard is away.

        raw: keep the JSON of whole documents.
        """

        def get() -> list[Hit]:
            try:
                _, answer = self.request("POST", f"{path}/_mget", {"docs": targets}, raw=raw)
            except StoreUnavailable as error:
                named = None
                with suppress(StoreError):
                    named = self._unreadable_among(targets, path)
                if named is None:
                    raise
                raise named from error
            for item in answer["docs"]:
                if (refusal := item_error(item, self.connection.shown)) is not None:
                    raise refusal
            return [item for item in answer["docs"] if item.get("found")]

        return self.retries.until_answered(get) if targets else []

    def open_point(self, path: str, keep_alive: str = _KEEP_ALIVE) -> str:
        """Open a point in time over an index, of all documents that were written before.

        keep_alive: time from its last use until it ends.
        """
        self.show(path)
        points, params = "/_pit", {"keep_alive": keep_alive}
        if self.is_opensearch:
            points = "/_search/point_in_time"
            # By default OpenSearch silently leaves out a shard that is away.
            params["allow_partial_pit_creation"] = "false"
        _, answer = self.ask("POST", f"{path}{points}", params=params)
        return str(answer["pit_id" if self.is_opensearch else "id"])

    def close_point(self, point: str) -> None:
        """Close a point in time, if it is still open."""
        # It ends by itself after a while, so an error here does no harm.
        with suppress(StoreError):
            if self.is_opensearch:
                self.request("DELETE", "/_search/point_in_time", {"pit_id": [point]})
            else:
                self.request("DELETE", "/_pit", {"id": point})

    @contextmanager
    def point_in_time(self, path: str) -> Iterator[str]:
        """Open a point in time, and close it at the end."""
        point = self.open_point(path)
        try:
            yield point
        finally:
            self.close_point(point)

    def hits(self, path: str, body: Body, share: Share | None = None) -> Generator[list[Hit]]:
        """Yield the hits of a search in a new point in time, as `pages`.

        If the point in time is lost, another one is opened, and hits of documents that were
        yielded are left out. So each document is yielded once, but those after that may be newer.
        """
        attempts, yielded = Attempts(self.retries), list[U64]()
        while True:
            try:
                with self.point_in_time(path) as point:
                    yielded_before = np.sort(np.concatenate(yielded)) if yielded else None
                    for page in self.pages(point, body, share):
                        names = [f"{hit['_index']}\0{hit['_id']}".encode() for hit in page]
                        keys = np.array([*map(xxhash.xxh3_64_intdigest, names)], np.uint64)
                        if yielded_before is not None:
                            is_new = ~np.isin(keys, yielded_before)
                            page = [page[row] for row in np.flatnonzero(is_new)]
                            keys = keys[is_new]
                        yielded.append(keys)
                        attempts = Attempts(self.retries)
                        if page:
                            yield page
                return
            except PointInTimeLost as error:
                if not attempts.wait(error):
                    raise

    def matches(self, path: str, body: Body, *, raw: bool = False) -> list[Hit]:
        """Return all hits of a search for few documents, by a single request if it can be.

        raw: keep the JSON of whole documents. Raises PageTooLarge if the search names more ids than
        the index allows.
        """
        try:
            hits, total = self.search(path, body, raw=raw)
        except PageTooLarge as error:
            body = {**body, "size": error.most, "sort": [{"_shard_doc": "asc"}]}
            with (
                self.point_in_time(path) as point,
                closing(self.pages(point, body, raw=raw)) as pages,
            ):
                return [hit for page in pages for hit in page]
        if len(hits) < total:
            raise StoreError(
                f"{self.connection.shown}: {path[1:]}: several indices have the same ids: {total:,}"
                f" documents, of which {len(hits):,} can be read"
            )
        return hits

    def refresh(self, path: str) -> None:
        """Make all documents of an index visible to searches; without the right to, warn."""
        try:
            self.ask("POST", f"{path}/_refresh")
        except PermissionDenied as error:
            if not self._may_not_refresh:
                log.warning(
                    "%s. Documents that were just written are found when the index refreshes"
                    " itself (index.refresh_interval)",
                    error,
                )
            self._may_not_refresh = True

    def show(self, path: str) -> None:
        """Make all documents of an index visible to a reader of all of them.

        If the index can't be refreshed, such as without the right to, log a warning if it does not
        refresh itself every second.
        """
        try:
            self.ask("POST", f"{path}/_refresh")
        except (AuthenticationFailed, IndexNotFound, StoreUnavailable):
            raise
        except StoreError as error:
            if path not in self._unrefreshed:
                self._warn_of_unseen(path, error)
            self._unrefreshed.add(path)

    def _warn_of_unseen(self, path: str, error: StoreError) -> None:
        params = {"flat_settings": "true"}
        try:
            _, answer = self.ask("GET", f"{path}/_settings/{_INTERVAL}", params=params)
        except StoreError:
            # The search that follows has a better reason, such as that the index is closed.
            return
        for index, state in answer.items():
            interval = str(state["settings"].get(_INTERVAL, ""))
            if not refreshes_soon(interval):
                log.warning(
                    "index %r: %s is %s, and it can't be refreshed (%s). Documents that were"
                    " written since its last refresh are not read",
                    index,
                    _INTERVAL,
                    interval,
                    error,
                )

    def pages(
        self,
        point: str,
        body: Body,
        share: Share | None = None,
        *,
        raw: bool = False,
    ) -> Generator[list[Hit]]:
        """Yield the hits of a search in a point in time, page by page.

        body: with a size and a sort.
        share: the hits of this share, in any order; None for all, in order.
        raw: keep the JSON of whole documents.

        The next pages are read while the caller works on the last ones.
        """
        search = Slice(point, body, raw=raw)
        slices: Iterable[Slice] = [search]
        if share is not None and share.of == 1:
            # The hits after a page are the same, in slices or not.
            hits, following = self.page(search)
            if hits:
                yield hits
            slices = [] if following is None else following.slices_of(share, self.is_opensearch)
        elif share is not None:
            slices = search.slices_of(share, self.is_opensearch)
        with closing(self.window.in_pieces(self.page, slices)) as pages:
            yield from filter(None, pages)

    def page(self, slice: Slice) -> tuple[list[Hit], Slice | None]:
        """Return the hits of one page, and the slice from the next page on; None at its end.

        A page is smaller than requested if the index does not return as many hits at once.
        """
        search = {**slice.body, "pit": {"id": slice.point, "keep_alive": _KEEP_ALIVE}}
        try:
            answer = self._searched("", search, raw=slice.raw)
        except PageTooLarge as error:
            if error.most >= slice.body["size"]:
                raise
            return self.page(slice.with_size(error.most))
        hits = list(answer["hits"]["hits"])
        if len(hits) < slice.body["size"]:
            return hits, None
        after = {**slice.body, "search_after": hits[-1]["sort"]}
        return hits, slice._replace(
            point=answer["pit_id"], body=after, shards=answer["_shards"]["total"]
        )

    def bulk(self, actions: Sequence[Action], reader: AnswerReader, path: str = "") -> WriteReport:
        """Send bulk actions until each is written or has failed; see `write_actions`."""

        def send(body: bytes) -> Body:
            return self.request("POST", f"{path}/_bulk", body, _BULK).body

        return write_actions(actions, send, self.policy, self.retries, reader, self.window)
