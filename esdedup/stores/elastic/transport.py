"""Sends requests to Elasticsearch or OpenSearch. Both products take the same ones, except a few.

The `elasticsearch` client connects, chooses a node, and reads JSON. Requests go to its transport,
which does not mind which product answers, nor of which version.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from elastic_transport import ConnectionTimeout, TlsError, TransportApiResponse, TransportError
from elastic_transport.client_utils import basic_auth_to_header, url_to_node_config
from elasticsearch import Elasticsearch

from esdedup.exceptions import StoreUnavailable, UsageError
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.errors import error_of


class Client:
    """Sends requests to a cluster, which is asked first which product it runs.

    product: the product's name and version, for messages.
    Raises StoreUnavailable, AuthenticationFailed or UsageError if it can't be reached.
    """

    def __init__(self, connection: Connection) -> None:
        self._shown = connection.shown
        self._headers = {"accept": "application/json", **_credentials(connection)}
        self._timeout = connection.timeout
        self._transport = _connect(connection).transport
        try:
            name, version = self._identify(others=max(0, len(connection.urls) - 1))
        except BaseException:
            self.close()
            raise
        self.product = f"{name} {version}".strip()
        self.is_opensearch = name == "OpenSearch"

    def _identify(self, others: int) -> tuple[str, str]:
        """The product that answers, and its version, or "" if it does not say.

        Elasticsearch names itself in a header of every answer, OpenSearch in the body of `GET /`.
        """
        # Each address is tried once, because any node may be down.
        meta, body = self._perform("GET", "/", others=others)
        if meta.status == 401:
            raise error_of(401, body, self._shown)
        version = body.get("version", {}) if isinstance(body, Mapping) else {}
        number = str(version.get("number", ""))
        # A user may lack the privilege for `GET /`, and still have others.
        if meta.headers.get("x-elastic-product") == "Elasticsearch":
            return "Elasticsearch", number
        if version.get("distribution") == "opensearch" or meta.status == 403:
            return "OpenSearch", number
        raise UsageError(f"{self._shown} is neither Elasticsearch nor OpenSearch")

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        allowed: frozenset[int] = frozenset(),
    ) -> tuple[int, Any]:
        """Returns the status and the body of the answer.

        body: an object, sent as JSON, or bytes, sent as lines of JSON. allowed: error statuses to
        return. Raises the errors of `errors.error_of`, and StoreUnavailable if no answer came.
        """
        target = f"{path}?{urlencode(params, safe=',*')}" if params else path
        meta, answer = self._perform(method, target, body)
        if meta.status >= 300 and meta.status not in allowed:
            raise error_of(meta.status, answer, self._shown)
        return meta.status, answer

    def close(self) -> None:
        """Closes connections."""
        self._transport.close()

    def _perform(
        self, method: str, target: str, body: Any = None, *, others: int = 0
    ) -> TransportApiResponse:
        """Sends a request. others: the number of other nodes to try if one does not answer."""
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
                # The transport would try again at once; `retry` waits before.
                max_retries=others,
                retry_on_timeout=others > 0,
            )
        except TransportError as error:
            raise _unreachable(error, self._shown) from error


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


def _unreachable(error: TransportError, shown: str) -> StoreUnavailable:
    """The error for a request that got no answer."""
    if isinstance(error, ConnectionTimeout):
        return StoreUnavailable(f"{shown}: no answer in time: {error.message}")
    if not isinstance(error, TlsError):
        return StoreUnavailable(f"{shown}: can't be reached: {error.message}")
    if "WRONG_VERSION_NUMBER" in error.message:
        advice = "The server does not speak TLS there: try http://"
    else:
        advice = (
            "Name the authority that signed the certificate (--ca-certs) or the certificate's"
            " fingerprint (--cert-fingerprint)"
        )
    return StoreUnavailable(f"{shown}: no secure connection: {error.message}. {advice}")
