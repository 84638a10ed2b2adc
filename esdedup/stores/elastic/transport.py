"""Send requests through the transport of `elasticsearch`, which chooses a node and parses JSON.

The transport does not check product or version, so that it serves OpenSearch too.
"""

import base64
import copy
import gzip
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from elastic_transport import (
    ApiResponseMeta,
    BaseNode,
    ConnectionTimeout,
    HttpHeaders,
    NodePool,
    SerializationError,
    SerializerCollection,
    TlsError,
    Transport,
    TransportApiResponse,
    TransportError,
)
from elastic_transport import ConnectionError as TransportConnectionError
from elastic_transport.client_utils import basic_auth_to_header, url_to_node_config
from elasticsearch import Elasticsearch
from elasticsearch.serializer import DEFAULT_SERIALIZERS
from urllib3.exceptions import InvalidHeader, NewConnectionError
from urllib3.util import Retry

from esdedup.exceptions import StoreError, StoreUnavailable, UsageError
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.bodies import Body
from esdedup.stores.elastic.client_connection import Client, ClientConnection
from esdedup.stores.elastic.errors import NotReached
from esdedup.stores.elastic.raw import with_raw

_SHOWN_BYTES = 2_000
"""Bytes kept of an answer that is not JSON, for messages."""
_ERRORS = range(300, 600)
"""Statuses that are returned, not raised."""
_ATTEMPTS = 100
"""Number of times to choose a node while other threads lose one or get it back."""


class Link:
    """Sends requests to the nodes of a cluster. Raises UsageError for a wrong address."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transport: Transport | _OpenSearchTransport
        client = connection.client if isinstance(connection, ClientConnection) else None
        if client is None:
            credentials = _credentials(connection)
            self.has_credentials = bool(credentials)
            self._transport = _client(connection).transport
        else:
            # It may have them in certificates, or in what signs its requests.
            self.has_credentials = True
            self._transport, credentials = _transport_of(client)
        if isinstance(self._transport, Transport):
            nodes = self._transport.node_pool
            # A pool of a class of the application keeps its own way to choose.
            if type(nodes) is NodePool:
                self._transport.node_pool = _SharedNodes(nodes)
        self._closes = client is None
        self._headers = {"accept": "application/json", **credentials}
        if connection.compress:
            self._headers["accept-encoding"] = "gzip"
        self._serializers = _Bodies(self._transport.serializers.serializers)
        self._transport.serializers = self._serializers
        # With `max_retries` only, which is 0 but for the first request.
        self._transport.retry_on_timeout = True

    def close(self) -> None:
        """Close the connections, but not those of a client of the application."""
        if self._closes:
            self._transport.close()

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


class _SharedNodes(NodePool):
    """Choose among the nodes of another pool, also while threads mark some as dead or alive.

    `NodePool.get` iterates without a lock over a dictionary that these threads change, and Python
    then raises RuntimeError. No request has been sent at that time.
    """

    def __init__(self, pool: NodePool) -> None:
        # Nodes that a client of the application loses are lost here too, and the reverse.
        self.__dict__ = pool.__dict__

    def get(self) -> BaseNode:
        """Return the node for the next request."""
        for _ in range(_ATTEMPTS):
            with suppress(RuntimeError):
                return super().get()
        return super().get()


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


class _OpenSearchTransport:
    """Sends requests through OpenSearch's client, as the transport of `elasticsearch` does.

    Its own retries, and its parsing of answers, which would lose digits, are not used.
    """

    def __init__(self, client: Client) -> None:
        self._transport = client.transport
        self.retry_on_timeout = True
        self.serializers = SerializerCollection(DEFAULT_SERIALIZERS)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def perform_request(
        self,
        method: str,
        target: str,
        *,
        body: Any = None,
        headers: Mapping[str, str],
        request_timeout: float,
        max_retries: int,
    ) -> TransportApiResponse:
        """Return the answer, whatever its status. Raises the errors of `elastic_transport`."""
        data = None if body is None else self.serializers.dumps(body, headers["content-type"])
        for _ in range(max_retries):
            with suppress(TransportError):
                return self._send(method, target, data, headers, request_timeout)
        return self._send(method, target, data, headers, request_timeout)

    def _send(
        self,
        method: str,
        target: str,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> TransportApiResponse:
        from opensearchpy import exceptions

        node = self._transport.get_connection()
        try:
            status, answer_headers, text = node.perform_request(
                method, target, body=data, timeout=timeout, ignore=_ERRORS, headers=headers
            )
        except exceptions.ConnectionError as error:
            self._transport.mark_dead(node)
            message = str(error.error)
            # What `urllib3` raised.
            cause: Any = error.info
            if isinstance(error, exceptions.ConnectionTimeout):
                raise ConnectionTimeout(message) from cause
            if isinstance(error, exceptions.SSLError):
                raise TlsError(message) from cause
            raise TransportConnectionError(message) from cause
        self._transport.connection_pool.mark_live(node)
        answer = text.encode("utf-8", "surrogatepass")
        meta = ApiResponseMeta(
            status=status,
            http_version="1.1",
            headers=HttpHeaders(dict(answer_headers)),
            duration=0.0,
            node=url_to_node_config(node.host, True),
        )
        return TransportApiResponse(meta, answer)


def _transport_of(client: Client) -> tuple[Transport | _OpenSearchTransport, dict[str, str]]:
    """Return what sends requests through a client, and its headers with the credentials."""
    if not isinstance(client, Elasticsearch):
        return _OpenSearchTransport(client), {}
    # It shares the connections of the client, which keeps its way to parse bodies.
    return copy.copy(client.transport), dict(client._headers)


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
