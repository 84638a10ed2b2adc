"""Elasticsearch 8 and 9, through the `elasticsearch` client (8 or 9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

import elastic_transport
from elasticsearch import ApiError, Elasticsearch, UnsupportedProductError

from esdedup.exceptions import StoreUnavailable, UsageError
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.errors import error_of, no_secure_connection

_NDJSON = "application/x-ndjson"
_JSON = "application/json"


class _Transport(elastic_transport.Transport):
    """Asks for the REST API of version 8 with clients of versions 8 and 9.

    A client of version 9 asks for the API of version 9, which a server of version 8 refuses.
    Servers of both versions understand version 8.
    """

    def perform_request(  # type: ignore[no-untyped-def]
        self,
        method: str,
        target: str,
        *,
        headers: Any = elastic_transport.client_utils.DEFAULT,
        **options,
    ) -> Any:
        if isinstance(headers, Mapping):
            headers = {
                name: value.replace("compatible-with=9", "compatible-with=8")
                if isinstance(value, str)
                else value
                for name, value in headers.items()
            }
        return super().perform_request(method, target, headers=headers, **options)


class ElasticsearchClient:
    """Requests to an Elasticsearch cluster."""

    def __init__(self, connection: Connection, version: str = "") -> None:
        self._shown = connection.shown
        self.product = f"Elasticsearch {version}".strip()
        self._client = _connect(connection)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        allowed: frozenset[int] = frozenset(),
    ) -> tuple[int, Any]:
        headers = {"accept": _JSON}
        if body is not None:
            headers["content-type"] = _NDJSON if isinstance(body, bytes) else _JSON
        try:
            answer = self._client.perform_request(
                method, path, params=params, headers=headers, body=body
            )
        except elastic_transport.TransportError as error:
            raise _unreachable(error, self._shown) from error
        except ApiError as error:
            if error.meta.status in allowed:
                return error.meta.status, error.body
            raise error_of(error.meta.status, error.body, self._shown) from error
        return answer.meta.status, answer.body

    def open_point_in_time(self, index: str, keep_alive: str) -> str:
        _, answer = self.request("POST", f"{index}/_pit", params={"keep_alive": keep_alive})
        return str(answer["id"])

    def close_point_in_time(self, id: str) -> None:
        self.request("DELETE", "/_pit", {"id": id}, allowed=frozenset({404}))

    def close(self) -> None:
        self._client.close()


def identify(connection: Connection) -> tuple[Literal["elasticsearch", "opensearch"], str]:
    """Returns the product that answers, and its version, or "" if it does not say.

    Elasticsearch names itself in a header of every answer, OpenSearch in the body of `GET /`.
    """
    client = _connect(connection)
    try:
        # Each address is tried once, because any node may be down.
        each = client.options(max_retries=max(0, len(connection.urls) - 1), retry_on_timeout=True)
        answer = each.perform_request("GET", "/", headers={"accept": _JSON})
        return "elasticsearch", str(answer.body.get("version", {}).get("number", ""))
    except elastic_transport.TransportError as error:
        raise _unreachable(error, connection.shown) from error
    except (ApiError, UnsupportedProductError) as error:
        return _identify_refused(error, connection.shown)
    finally:
        client.close()


def _identify_refused(
    error: ApiError | UnsupportedProductError, shown: str
) -> tuple[Literal["elasticsearch", "opensearch"], str]:
    if error.meta.status == 401:
        raise error_of(401, error.body, shown) from error
    if error.meta.headers.get("x-elastic-product") == "Elasticsearch":
        # This user may lack the privilege for `GET /`, and still have others.
        return "elasticsearch", ""
    version = error.body.get("version", {}) if isinstance(error.body, Mapping) else {}
    if version.get("distribution") == "opensearch":
        return "opensearch", str(version.get("number", ""))
    if isinstance(error, ApiError) and error.meta.status == 403:
        return "opensearch", ""
    raise UsageError(f"{shown} is neither Elasticsearch nor OpenSearch") from error


def _connect(connection: Connection) -> Elasticsearch:
    options: dict[str, Any] = {
        "request_timeout": connection.timeout,
        "transport_class": _Transport,
        # The client would try again at once; `retry` waits before.
        "max_retries": 0,
    }
    if connection.cloud_id:
        options["cloud_id"] = connection.cloud_id
    else:
        options["hosts"] = [_with_port(url) for url in connection.urls]
    if connection.username is not None:
        options["basic_auth"] = (connection.username, connection.password)
    elif connection.api_key is not None:
        options["api_key"] = _api_key(connection.api_key)
    elif connection.bearer_token is not None:
        options["bearer_auth"] = connection.bearer_token
    if connection.ca_certs is not None:
        options["ca_certs"] = connection.ca_certs
    if connection.fingerprint is not None:
        options["ssl_assert_fingerprint"] = connection.fingerprint
        options["verify_certs"] = False
        options["ssl_show_warn"] = False
    try:
        return Elasticsearch(**options)
    except (OSError, ValueError) as error:
        raise UsageError(f"connection to {connection.shown}: {error}") from error


def _with_port(url: str) -> str:
    parts = urlsplit(url)
    if parts.port is not None:
        return url
    # The client needs a port: the usual one of http or https.
    port = 443 if parts.scheme == "https" else 80
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path}"


def _api_key(key: str) -> str | tuple[str, str]:
    name, colon, secret = key.partition(":")
    return (name, secret) if colon else key


def _unreachable(error: elastic_transport.TransportError, shown: str) -> StoreUnavailable:
    """The error for a request that got no answer."""
    if isinstance(error, elastic_transport.TlsError):
        return no_secure_connection(shown, error.message)
    if isinstance(error, elastic_transport.ConnectionTimeout):
        return StoreUnavailable(f"{shown}: no answer in time: {error.message}")
    return StoreUnavailable(f"{shown}: can't be reached: {error.message}")
