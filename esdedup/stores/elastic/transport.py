"""Send requests through the transport of `elasticsearch`, which chooses a node and parses JSON.

The transport does not check product or version, so that it serves OpenSearch too.
"""

import base64
import gzip
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from elastic_transport import (
    ConnectionTimeout,
    SerializationError,
    SerializerCollection,
    TlsError,
    TransportApiResponse,
    TransportError,
)
from elastic_transport.client_utils import basic_auth_to_header, url_to_node_config
from elasticsearch import Elasticsearch
from urllib3.exceptions import InvalidHeader, NewConnectionError
from urllib3.util import Retry

from esdedup.exceptions import StoreError, StoreUnavailable, UsageError
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.errors import NotReached
from esdedup.stores.elastic.raw import with_raw

_SHOWN_BYTES = 2_000
"""Bytes kept of an answer that is not JSON, for messages."""


class Link:
    """Sends requests to the nodes of a cluster. Raises UsageError for a wrong address."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        credentials = _credentials(connection)
        self.has_credentials = bool(credentials)
        self._headers = {"accept": "application/json", **credentials}
        if connection.compress:
            self._headers["accept-encoding"] = "gzip"
        self._transport = _client(connection).transport
        self._serializers = _Bodies(self._transport.serializers.serializers)
        self._transport.serializers = self._serializers
        self.close = self._transport.close

    def send(
        self,
        method: str,
        path: str,
        body: Body | bytes | None = None,
        params: Mapping[str, str] | None = None,
        *,
        other_nodes: int = 0,
        raw: bool = False,
    ) -> TransportApiResponse:
        """Return the answer, whatever its status.

        body: an object, sent as JSON, or bytes, sent as lines of JSON.
        other_nodes: number of nodes to try if one does not answer.
        raw: keep the JSON of documents (`raw.with_raw`).

        Raises StoreUnavailable if no answer came.
        """
        headers = self._headers
        try:
            if body is not None:
                kind = f"application/{'x-ndjson' if isinstance(body, bytes) else 'json'}"
                headers = {**headers, "content-type": kind}
                if self._connection.compress:
                    # Higher levels take five times as long for a twentieth less.
                    body = gzip.compress(self._transport.serializers.dumps(body, kind), 1)
                    headers["content-encoding"] = "gzip"
            meta, answer = self._transport.perform_request(
                method,
                f"{path}?{urlencode(params, safe=',*')}" if params else path,
                body=body,
                headers=headers,
                request_timeout=self._connection.timeout,
                # The transport would retry without a wait; `retry` backs off.
                max_retries=other_nodes,
                retry_on_timeout=other_nodes > 0,
            )
            return TransportApiResponse(meta, self._serializers.parsed(answer, meta.mimetype, raw))
        except TransportError as error:
            raise _unanswered(error, self._connection.shown) from error
        except ValueError as error:
            # A host name that the client can't read.
            raise UsageError(f"connection to {self._connection.shown}: {error}") from error

    def seconds(self, retry_after: str | None) -> float | None:
        """Parse a header Retry-After, of seconds or a date; None if it is neither."""
        with suppress(InvalidHeader):
            return Retry().parse_retry_after(retry_after) if retry_after else None
        return None


class _Bodies(SerializerCollection):
    """Parses bodies as JSON, or else keeps the beginning of the text, as of a load balancer."""

    def dumps(self, data: Any, mimetype: str | None = None) -> bytes:
        return data if isinstance(data, bytes) else super().dumps(data, mimetype)

    def loads(self, data: bytes, mimetype: str | None = None) -> Any:
        """Return the bytes: only `Link.send` knows how to parse them."""
        return data

    def parsed(self, data: bytes, mimetype: str | None, raw: bool) -> Any:
        try:
            return with_raw(data) if raw else super().loads(data, mimetype)
        except (SerializationError, RecursionError, ValueError, IndexError):
            return data[:_SHOWN_BYTES].decode("utf-8", "replace")


def _client(connection: Connection) -> Elasticsearch:
    options: dict[str, Any] = {"connections_per_node": connection.requests}
    if connection.ca_certs is not None:
        options["ca_certs"] = connection.ca_certs
    if connection.fingerprint is not None:
        options["ssl_assert_fingerprint"] = connection.fingerprint
        options |= {"verify_certs": False, "ssl_show_warn": False}
    try:
        if connection.cloud_id:
            options["cloud_id"] = connection.cloud_id
        else:
            options["hosts"] = [url_to_node_config(url, True) for url in connection.addresses]
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
    """Return the error for a request that got no answer."""
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
            "Name the authority that signed the certificate (`ca_certs`) or the certificate's"
            " fingerprint (`fingerprint`)"
        )
    reason = error.message.rstrip(".")
    return StoreError(f"{shown}: no secure connection: {reason}. {advice}")
