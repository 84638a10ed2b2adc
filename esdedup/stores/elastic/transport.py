"""Send requests to Elasticsearch or OpenSearch, which accept the same ones except a few.

The `elasticsearch` client connects, chooses a node, and parses JSON. Requests go to its transport,
which does not check product or version.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

from elastic_transport import (
    ApiResponseMeta,
    ConnectionTimeout,
    SerializationError,
    SerializerCollection,
    TlsError,
    TransportApiResponse,
    TransportError,
)
from elastic_transport.client_utils import basic_auth_to_header, url_to_node_config
from elasticsearch import Elasticsearch
from urllib3.exceptions import NewConnectionError

from esdedup.exceptions import (
    AuthenticationFailed,
    EsdedupError,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.errors import error_of, passes, reason_of
from esdedup.stores.elastic.retry import Retries

_SHOWN_BYTES = 2_000
"""Bytes kept of an answer that is not JSON, for messages."""


class NotReached(StoreUnavailable):
    """The host name is unknown, or the connection was refused."""


class Client:
    """Sends requests to a cluster, after detecting its product.

    known: the cluster has answered before; otherwise NotReached is not retried. product: the
    product's name and version, for messages. Raises StoreUnavailable, AuthenticationFailed or
    UsageError if the cluster can't be reached.
    """

    def __init__(self, connection: Connection, *, known: bool = False) -> None:
        self._shown = connection.shown
        self._headers = {"accept": "application/json", **_credentials(connection)}
        self._timeout = connection.timeout
        self._transport = _connect(connection).transport
        self._transport.serializers = _Bodies(self._transport.serializers.serializers)
        self.retries = Retries(connection.retry_for)
        others = max(0, len(connection.urls) - 1)
        try:
            name, version = self.retries.until_answered(
                lambda: self._identify(others), but_not=() if known else (NotReached,)
            )
        except BaseException:
            self.close()
            raise
        self.product = f"{name} {version}".strip()
        self.is_opensearch = name == "OpenSearch"

    def _identify(self, others: int) -> tuple[str, str]:
        """Return the product, and its version or "".

        Elasticsearch names itself in a header of every answer, OpenSearch in the body of `GET /`.
        """
        # Try each address once, because any node may be down.
        meta, body = self._perform("GET", "/", others=others)
        if meta.status == 401 or passes(meta.status, body):
            raise self._error(meta, body)
        version = body.get("version") if isinstance(body, Mapping) else None
        version = version if isinstance(version, Mapping) else {}
        number = str(version.get("number", ""))
        # A user may lack the privilege for `GET /`, and still have others.
        if meta.headers.get("x-elastic-product") == "Elasticsearch":
            return "Elasticsearch", number
        if version.get("distribution") == "opensearch" or meta.status == 403:
            return "OpenSearch", number
        answers = "" if meta.status == 200 else f": GET / returns {meta.status}: {reason_of(body)}"
        raise UsageError(f"{self._shown} is neither Elasticsearch nor OpenSearch{answers}")

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        allowed: frozenset[int] = frozenset(),
    ) -> tuple[int, Any]:
        """Return the status and the body of the answer.

        body: an object, sent as JSON, or bytes, sent as lines of JSON. allowed: error statuses to
        return. Raises the errors of `errors.error_of`, StoreUnavailable if no answer came, and
        StoreError if it is not a JSON object, or later if an entry is missing.
        """
        target = f"{path}?{urlencode(params, safe=',*')}" if params else path
        meta, answer = self._perform(method, target, body)
        is_object = isinstance(answer, Mapping)
        if meta.status >= 300 and not (meta.status in allowed and is_object):
            raise self._error(meta, answer)
        if not is_object:
            raise StoreError(
                f"{self._shown}: the answer to {method} {path} is not a JSON object:"
                f" {reason_of(answer)}"
            )
        return meta.status, _Object(answer, f"{self._shown}: the answer to {method} {path}")

    def _error(self, meta: ApiResponseMeta, body: Any) -> EsdedupError:
        if meta.status == 401 and "authorization" not in self._headers:
            return AuthenticationFailed(
                f"{self._shown}: the server requires credentials (401), and none are given. Set a"
                " user name and password, an API key or a bearer token"
            )
        error = error_of(meta.status, body, self._shown)
        if isinstance(error, StoreUnavailable):
            error.retry_after = _seconds(meta.headers.get("retry-after"))
        return error

    def close(self) -> None:
        """Close connections."""
        self._transport.close()

    def _perform(
        self, method: str, target: str, body: Any = None, *, others: int = 0
    ) -> TransportApiResponse:
        """Send a request. others: the number of other nodes to try if one does not answer."""
        headers = self._headers
        if body is not None:
            kind = "x-ndjson" if isinstance(body, bytes) else "json"
            headers = {**headers, "content-type": f"application/{kind}"}
        try:
            return self._transport.perform_request(
                method,
                target,
                body=body,
                headers=headers,
                request_timeout=self._timeout,
                # The transport would retry without a wait; `retry` backs off.
                max_retries=others,
                retry_on_timeout=others > 0,
            )
        except TransportError as error:
            raise _unanswered(error, self._shown) from error
        except ValueError as error:
            # A host name that the client can't read.
            raise UsageError(f"connection to {self._shown}: {error}") from error


class _Bodies(SerializerCollection):
    """Parses bodies as JSON, or else keeps the beginning of the text, whatever its type.

    Load balancers answer with pages of HTML, and a status that matters more.
    """

    def loads(self, data: bytes, mimetype: str | None = None) -> Any:
        try:
            return super().loads(data, mimetype)
        except (SerializationError, RecursionError):
            return data[:_SHOWN_BYTES].decode("utf-8", "replace")


class _Object(dict[str, Any]):
    """An answer. Raises StoreError in place of KeyError."""

    def __init__(self, answer: Mapping[str, Any], of: str) -> None:
        super().__init__(answer)
        self._of = of

    def __missing__(self, name: str) -> Any:
        raise StoreError(f"{self._of} has no {name!r}")


def _seconds(retry_after: str | None) -> float | None:
    """Parse a header Retry-After: a number of seconds, or a date (RFC 9110, 10.2.3)."""
    if retry_after is None:
        return None
    if retry_after.strip().isdigit():
        return float(retry_after)
    try:
        return (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds()
    except (TypeError, ValueError):
        return None


def _connect(connection: Connection) -> Elasticsearch:
    options: dict[str, Any] = {}
    if connection.ca_certs is not None:
        options["ca_certs"] = connection.ca_certs
    if connection.fingerprint is not None:
        options["ssl_assert_fingerprint"] = connection.fingerprint
        options |= {"verify_certs": False, "ssl_show_warn": False}
    try:
        if connection.cloud_id:
            options["cloud_id"] = connection.cloud_id
        else:
            options["hosts"] = [url_to_node_config(url, True) for url in connection.urls]
        return Elasticsearch(meta_header=False, **options)
    except (OSError, ValueError) as error:
        raise UsageError(f"connection to {connection.shown}: {error}") from error


def _credentials(connection: Connection) -> dict[str, str]:
    if connection.username is not None:
        basic = basic_auth_to_header((connection.username, connection.password or ""))
        return {"authorization": basic}
    if (key := connection.api_key) is not None:
        encoded = base64.b64encode(key.encode()).decode() if ":" in key else key
        return {"authorization": f"ApiKey {encoded}"}
    if connection.bearer_token is not None:
        return {"authorization": f"Bearer {connection.bearer_token}"}
    return {}


def _unanswered(error: TransportError, shown: str) -> StoreError:
    """The error for a request that got no answer."""
    if isinstance(error, SerializationError):
        return StoreError(f"{shown}: the request can't be sent: {error.message}")
    if isinstance(error, ConnectionTimeout):
        return StoreUnavailable(f"{shown}: no answer in time: {error.message}")
    if not isinstance(error, TlsError):
        kind = NotReached if isinstance(error.__cause__, NewConnectionError) else StoreUnavailable
        return kind(f"{shown}: can't be reached: {error.message}")
    if "WRONG_VERSION_NUMBER" in error.message:
        advice = "The server does not speak TLS there: try http://"
    else:
        advice = (
            "Name the authority that signed the certificate (--ca-certs) or the certificate's"
            " fingerprint (--cert-fingerprint)"
        )
    reason = error.message.rstrip(".")
    return StoreError(f"{shown}: no secure connection: {reason}. {advice}")
