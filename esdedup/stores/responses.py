"""What a server's refusal means: HTTP status and body to our errors, the same for both products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esdedup.exceptions import (
    AuthenticationFailed,
    EsdedupError,
    IndexNotFound,
    PermissionDenied,
    StoreError,
    StoreUnavailable,
)

RETRIED = frozenset({429, 502, 503, 504})
"""Statuses that pass by themselves: too many requests, and a server or proxy that is not ready."""

# Between the end of a node and the moment that the others know of it; OpenSearch answers 500 then.
_NODE_GONE = ("node_not_connected_", "node_disconnected_", "node_closed_", "connect_transport_")

# Elasticsearch and a node that came back; OpenSearch without the node.
_CONTEXT_GONE = ("search_context_missing", "no node found for id")


class TooLarge(StoreError):
    """The request was larger than the server takes (413)."""


class PointInTimeLost(StoreError):
    """A node that held a part of a point in time has gone, or it was open for too long."""


def passes(status: int, body: Any) -> bool:
    """Whether the same request may succeed in a moment."""
    if status in RETRIED:
        return True
    return status == 500 and any(gone in reason_of(body) for gone in _NODE_GONE)


def error_of(status: int, body: Any, where: str) -> EsdedupError:
    """The error to raise for an answer that is no success."""
    reason = reason_of(body)
    if status == 401:
        return AuthenticationFailed(
            f"{where}: the server refused the credentials (401). Check the user name and password,"
            " the API key or the token"
        )
    if status == 403 and "block" not in reason:
        return PermissionDenied(f"{where}: the user lacks a privilege (403): {reason}")
    if status == 404 and "index_not_found" in reason:
        return IndexNotFound(f"{where}: there is no such index: {_index_in(body)}")
    if status == 413:
        return TooLarge(f"{where}: the request is larger than the server takes (413)")
    if passes(status, body):
        return StoreUnavailable(f"{where}: the server is not ready ({status}): {reason}")
    if any(gone in reason for gone in _CONTEXT_GONE):
        return PointInTimeLost(
            f"{where}: the point in time that was read is lost, with a node that held a part of it"
            f" or after a long pause: {reason}"
        )
    return StoreError(f"{where}: the server answered {status}: {reason}")


def _index_in(body: Any) -> str:
    error = body.get("error") if isinstance(body, Mapping) else None
    return str(error.get("index", "?")) if isinstance(error, Mapping) else "?"


def no_secure_connection(shown: str, reason: str) -> StoreUnavailable:
    """The error for a TLS connection that failed, with what to do about it."""
    if "WRONG_VERSION_NUMBER" in reason:
        advice = "The server does not speak TLS there: try http://"
    else:
        advice = (
            "Name the authority that signed the certificate (--ca-certs) or the certificate's"
            " fingerprint (--cert-fingerprint)"
        )
    return StoreUnavailable(f"{shown}: no secure connection: {reason}. {advice}")


def reason_of(body: Any) -> str:
    """The reason in an error body, with its type and its deepest cause."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping) or "type" not in error:
        found = error.get("result", error) if isinstance(error, Mapping) else error
        return str(found)[:500] or "no reason given"
    cause = _cause_of(error)
    text = f"{error.get('type')}: {error.get('reason')}"
    if cause is not error:
        text += f" ({cause.get('type')}: {cause.get('reason')})"
    return text


def _cause_of(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """The deepest cause; what failed in single shards stands in a list of its own."""
    while True:
        (shard, *_) = error.get("failed_shards") or [{}]
        inner = error.get("caused_by") or shard.get("reason")
        if not isinstance(inner, Mapping):
            return error
        error = inner
