"""OpenSearch, through the `opensearch-py` client, an optional package."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from opensearchpy import OpenSearch
from opensearchpy.exceptions import ConnectionError as OpenSearchConnectionError
from opensearchpy.exceptions import ConnectionTimeout, SSLError, TransportError

from esdedup.exceptions import StoreUnavailable, UsageError
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.errors import error_of, no_secure_connection


class OpenSearchClient:
    """Requests to an OpenSearch cluster."""

    def __init__(self, connection: Connection, version: str = "") -> None:
        self._shown = connection.shown
        self.product = f"OpenSearch {version}".strip()
        self._client = _connect(connection)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        allowed: frozenset[int] = frozenset(),
    ) -> tuple[int, Any]:
        lines = isinstance(body, bytes)
        headers = {"content-type": "application/x-ndjson" if lines else "application/json"}
        try:
            answer = self._client.transport.perform_request(
                method, path, params=params, headers=headers, body=body
            )
        except OpenSearchConnectionError as error:
            raise _unreachable(error, self._shown) from error
        except TransportError as error:
            status, found = int(error.status_code), error.info
            if status in allowed:
                return status, found
            raise error_of(status, found, self._shown) from error
        return 200, answer

    def open_point_in_time(self, index: str, keep_alive: str) -> str:
        # By default a shard that is away is left out without telling.
        params = {"keep_alive": keep_alive, "allow_partial_pit_creation": "false"}
        _, answer = self.request("POST", f"{index}/_search/point_in_time", params=params)
        return str(answer["pit_id"])

    def close_point_in_time(self, id: str) -> None:
        self.request("DELETE", "/_search/point_in_time", {"pit_id": [id]}, allowed=frozenset({404}))

    def close(self) -> None:
        self._client.close()


def _connect(connection: Connection) -> OpenSearch:
    options: dict[str, Any] = {"timeout": connection.timeout, "max_retries": 0}
    if connection.cloud_id:
        raise UsageError("a cloud id names an Elasticsearch deployment; give OpenSearch's URL")
    if connection.username is not None:
        options["http_auth"] = (connection.username, connection.password)
    elif connection.api_key is not None:
        options["headers"] = {"authorization": f"ApiKey {_encoded(connection.api_key)}"}
    elif connection.bearer_token is not None:
        options["headers"] = {"authorization": f"Bearer {connection.bearer_token}"}
    if connection.ca_certs is not None:
        options["ca_certs"] = connection.ca_certs
    if connection.fingerprint is not None:
        options |= {
            "ssl_assert_fingerprint": connection.fingerprint,
            "verify_certs": False,
            "ssl_show_warn": False,
        }
    try:
        return OpenSearch(list(connection.urls), **options)
    except (OSError, ValueError) as error:
        raise UsageError(f"connection to {connection.shown}: {error}") from error


def _encoded(api_key: str) -> str:
    return base64.b64encode(api_key.encode()).decode("ascii") if ":" in api_key else api_key


def _unreachable(error: OpenSearchConnectionError, shown: str) -> StoreUnavailable:
    if isinstance(error, SSLError):
        return no_secure_connection(shown, str(error.error))
    if isinstance(error, ConnectionTimeout):
        return StoreUnavailable(f"{shown}: no answer in time: {error.error}")
    return StoreUnavailable(f"{shown}: can't be reached: {error.error}")
