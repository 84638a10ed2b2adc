"""Stores, and the choice between them."""

from __future__ import annotations

from esdedup.connection import Connection
from esdedup.exceptions import MissingExtra
from esdedup.stores.base import Store
from esdedup.stores.local import LocalStore
from esdedup.stores.retry import BulkPolicy

__all__ = ["BulkPolicy", "LocalStore", "Store", "open_cluster"]


def open_cluster(connection: Connection, index: str, policy: BulkPolicy | None = None) -> Store:
    """The store for an index of a cluster; which product it runs is found out by asking it.

    Raises StoreUnavailable, AuthenticationFailed or UsageError where it can't be reached, and
    MissingExtra where its client is not installed.
    """
    # Imported here, because the clients take longer to load than all the rest.
    from esdedup.stores.cluster import ClusterStore
    from esdedup.stores.elasticsearch import ElasticsearchClient, identify

    product, version = identify(connection)
    if product == "elasticsearch":
        return ClusterStore(ElasticsearchClient(connection, version), index, policy)
    try:
        from esdedup.stores.opensearch import OpenSearchClient
    except ImportError as error:
        raise MissingExtra(
            f"{connection.shown} runs OpenSearch: pip install 'esdedup[opensearch]'"
        ) from error
    return ClusterStore(OpenSearchClient(connection, version), index, policy)
