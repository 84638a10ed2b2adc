"""Turn an answer with an error status into our errors, for both products."""

import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from esdedup import exceptions
from esdedup.stores.elastic.bodies import Body, Hit

RETRIED = frozenset({429, 502, 503, 504})
"""Statuses to retry: too many requests, or a server or proxy is not ready."""

# OpenSearch answers 500 until other nodes notice that a node has ended.
_NODE_GONE = ("node_not_connected_", "node_disconnected_", "node_closed_", "connect_transport_")

# Errors of one item of a multi-get, which has no status; 503 passes.
_AWAY = (
    *_NODE_GONE, "no_shard_available_", "shard_not_found_", "illegal_index_shard_state_",
    "unavailable_shards_", "receive_timeout_", "circuit_breaking_", "rejected_execution",
)  # fmt: skip
_ITEM_STATUSES = {"index_not_found": 404, "security_exception": 403, **dict.fromkeys(_AWAY, 503)}
_NAMED = 5
"""Documents that a message names."""
_SEVERAL = "has more than one ind"  # "index" or "indices"
NEEDS_ROUTING = "routing_missing_exception"
"""The error type for a document that is not found without its routing."""

# The first is of hits, the second of the ids in a query.
_WINDOW = re.compile(
    r"(?:from \+ size must be less than or equal to:|allowed max result window is) \[(\d+)\]"
)

# The first is of Elasticsearch after a node came back, the second of OpenSearch without the node.
_CONTEXT_GONE = ("search_context_missing", "no node found for id")


class TooLarge(exceptions.StoreError):
    """The request was larger than the server accepts (413)."""


class DocumentUnreadable(exceptions.StoreError):
    """The server stores documents that it can't return, and fails each request for their fields."""


class NotReached(exceptions.StoreUnavailable):
    """The host name is unknown, or the connection was refused."""


class SeveralIndices(exceptions.StoreError):
    """The name is of an alias that has several indices by now."""


class PointInTimeLost(exceptions.StoreError):
    """A node that held a part of a point in time is gone, or it was open for too long."""


class PageTooLarge(exceptions.StoreError):
    """A search requests more hits, or names more ids, than `index.max_result_window` allows.

    most: the number that it allows.
    """

    def __init__(self, message: str, most: int) -> None:
        super().__init__(message)
        self.most = most


def is_transient(status: int, body: object) -> bool:
    """Return whether the same request may succeed in a moment."""
    if status in RETRIED:
        return True
    return status == 500 and any(gone in reason_of(body) for gone in _NODE_GONE)


def error_of(status: int, body: object, where: str) -> exceptions.EsdedupError:
    """Return the error to raise for an answer with an error status."""
    reason, error = reason_of(body), body.get("error") if isinstance(body, Mapping) else None
    error = error if isinstance(error, Mapping) else {}
    cause = _deepest(error)
    # Names in a reason may look like types.
    types = str(error.get("type")), str(cause.get("type"))
    if status == 401:
        return exceptions.AuthenticationFailed(
            f"{where}: the server refused the credentials (401). Check the user name and password,"
            " the API key or the token"
        )
    # A block of an index (such as `cluster_block_exception`) does not mean a lack of privileges.
    if status == 403 and not types[0].endswith("_block_exception"):
        return exceptions.PermissionDenied(f"{where}: the user lacks a privilege (403): {reason}")
    if status == 404 and "index_not_found_exception" in types:
        name = error.get("index") or cause.get("index") or "?"
        return exceptions.IndexNotFound(f"{where}: there is no such index: {name}")
    if "index_closed_exception" in types:
        name = error.get("index") or cause.get("index") or "?"
        return exceptions.StoreError(
            f"{where}: the index {name!r} is closed: open it (POST /{name}/_open)"
        )
    if status == 413:
        return TooLarge(f"{where}: the request is larger than the server accepts (413)")
    if is_transient(status, body):
        return exceptions.StoreUnavailable(f"{where}: the server is not ready ({status}): {reason}")
    if any(gone in reason for gone in _CONTEXT_GONE):
        return PointInTimeLost(
            f"{where}: the point in time that was read is lost, with a node that held a part of it"
            f" or after a long pause: {reason}"
        )
    message = f"{where}: the server answered {status}: {reason}"
    if (window := _WINDOW.search(reason)) is not None:
        return PageTooLarge(message, int(window[1]))
    return exceptions.StoreError(message)


def item_error(item: Hit, where: str) -> exceptions.EsdedupError | None:
    """Return the error to raise for an item of a multi-get; None if it has none."""
    if "error" not in item or item["error"].get("type") == NEEDS_ROUTING:
        return None
    reason = reason_of(item)
    if _SEVERAL in reason:
        return SeveralIndices(f"{where}: {reason}")
    status = next((status for text, status in _ITEM_STATUSES.items() if text in reason), None)
    return unreadable([item], where) if status is None else error_of(status, item, where)


def unreadable(items: Sequence[Hit], where: str) -> DocumentUnreadable:
    """Return the error for documents that can't be returned. items: of a multi-get, with errors."""
    names = [f"{item.get('_id')!r} of index {item.get('_index')!r}" for item in items[:_NAMED]]
    unnamed = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    first = items[0]
    steps = (quote(str(step), safe="") for step in (first.get("_index"), first.get("_id")))
    return DocumentUnreadable(
        f"{where}: the server can't return {', '.join(names)}{unnamed}: {reason_of(first)}. Index"
        f" such documents again, or delete them (DELETE /{'/_doc/'.join(steps)}), and then run this"
        " again. Another client may have written them with a comment before the JSON"
    )


def reason_of(body: object) -> str:
    """Return the reason in an error body, with its type and its deepest cause."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping) or "type" not in error:
        reason = error.get("result", error) if isinstance(error, Mapping) else error
        return str(reason)[:500] or "no reason given"
    outer, cause = _shown(error), _shown(_deepest(error))
    return outer if cause == outer else f"{outer} ({cause})"


def _deepest(error: Body) -> Body:
    """Return the deepest cause of an error; of several shards, that of the first."""
    cause = error
    if not isinstance(error.get("caused_by"), Mapping):
        shards = [shard.get("reason") for shard in error.get("failed_shards") or ()]
        causes = (*shards, *(error.get("root_cause") or ()))
        cause = next((cause for cause in causes if cause and isinstance(cause, Mapping)), error)
    while isinstance(cause.get("caused_by"), Mapping):
        cause = cause["caused_by"]
    return cause


def _shown(error: Body) -> str:
    reason = error.get("reason")
    return f"{error.get('type')}: {reason}" if reason else str(error.get("type"))
