"""Stores, and the choice between them."""

from __future__ import annotations

from esdedup.exceptions import MissingExtra
from esdedup.stores.base import Store
from esdedup.stores.connection import Connection
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.retry import BulkPolicy
from esdedup.stores.sqlite.store import LocalStore

__all__ = ["BulkPolicy", "Cluster", "LocalStore", "Store", "connect", "open_cluster"]


def open_cluster(connection: Connection, index: str, policy: BulkPolicy | None = None) -> Store:
    """The store for an index of a cluster; raises what `connect` raises."""
    from esdedup.stores.elastic.store import ClusterStore

    return ClusterStore(connect(connection, policy), index)


def connect(connection: Connection, policy: BulkPolicy | None = None) -> Cluster:
    """A cluster to send requests to; which product it runs is found out by asking it.

    Raises StoreUnavailable, AuthenticationFailed or UsageError where it can't be reached, and
    MissingExtra where its client is not installed.
    """
    # Imported here, because the clients take longer to load than all the rest.
    from esdedup.stores.elastic.elasticsearch import ElasticsearchClient, identify

    product, version = identify(connection)
    if product == "elasticsearch":
        return Cluster(ElasticsearchClient(connection, version), policy)
    try:
        from esdedup.stores.elastic.opensearch import OpenSearchClient
    except ImportError as error:
        raise MissingExtra(
            f"{connection.shown} runs OpenSearch: pip install 'esdedup[opensearch]'"
        ) from error
    return Cluster(OpenSearchClient(connection, version), policy)
