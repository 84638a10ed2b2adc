"""Connect through a client that the application has: Elasticsearch's, or OpenSearch's."""

import inspect
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard, Unpack

from esdedup.arguments import check_names
from esdedup.exceptions import UsageError
from esdedup.stores.connection import Connection, ConnectionSettings

_SETTINGS = ("timeout", "retry_for", "requests", "waits")
"""Settings that count beside a client, which has its own addresses and credentials."""


class Client(Protocol):
    """What `elasticsearch.Elasticsearch` and `opensearchpy.OpenSearch` share."""

    @property
    def transport(self) -> Any:
        """Sends the requests."""

    def close(self) -> None:
        """Close the connections. That of an asynchronous client returns a coroutine."""


@dataclass(frozen=True)
class ClientConnection(Connection):
    """A connection through a client of the application, which stays open when an index is closed.

    client: sends the requests, with its own nodes, credentials and certificates.
    """

    client: Client | None = field(default=None, repr=False)


def is_client(target: object) -> TypeGuard[Client]:
    """Return whether an object is a client of Elasticsearch or OpenSearch."""
    return hasattr(target, "transport") and hasattr(target, "close")


def connection_through(client: Client, **settings: Unpack[ConnectionSettings]) -> ClientConnection:
    """Return a connection through a client.

    settings: those of `Connection` but for addresses, credentials and compression.

    Raises UsageError for an asynchronous client, and for settings that the client has itself.
    """
    if inspect.iscoroutinefunction(client.close):
        raise UsageError(
            f"{type(client).__name__}: use the synchronous client, in a thread"
            " (`asyncio.to_thread`)"
        )
    own_settings = sorted(
        ConnectionSettings.__annotations__.keys() & settings.keys() - {*_SETTINGS}
    )
    if own_settings:
        raise UsageError(f"`{own_settings[0]}` can't be combined with a client, which has its own")
    check_names(settings, _SETTINGS)
    return ClientConnection(_addresses_of(client), client=client, **settings)


def _addresses_of(client: Client) -> tuple[str, ...]:
    """Return the addresses of the nodes that a client knows now."""
    transport = client.transport
    if hasattr(transport, "node_pool"):
        return tuple(sorted(node.base_url for node in transport.node_pool.all()))
    if hasattr(transport, "connection_pool"):
        return tuple(sorted(node.host for node in transport.connection_pool.connections))
    raise UsageError(
        f"{type(client).__name__}: use a client of the package elasticsearch or opensearch-py"
    )
