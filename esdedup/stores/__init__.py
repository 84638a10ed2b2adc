"""Store documents and their tokens in a cluster, or in a local SQLite file.

`base.Store` is the protocol of all stores. `admin`, `proxy` and the bodies of searches work on
clusters only. CONTRIBUTING.md describes how to add a store.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from esdedup.exceptions import IndexNotFound
from esdedup.stores.base import Store
from esdedup.stores.connection import Connection, connection_to
from esdedup.stores.elastic.bulk import BulkPolicy
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.sqlite.store import LocalStore
from esdedup.stores.waits import Waits

__all__ = [
    "BulkPolicy", "Cluster", "ClusterStore", "LocalStore", "Store", "Target", "connected",
    "stored_meta", "waits_of",
]  # fmt: skip

Target = str | Connection | Cluster
"""A cluster: its URL, a connection, or one that is already connected."""


@contextmanager
def connected(target: Target, policy: BulkPolicy | None = None) -> Iterator[Cluster]:
    """Connect to a cluster for the time of a `with`; one that is connected stays so."""
    if isinstance(target, Cluster):
        yield target
        return
    cluster = Cluster(connection_to(target) if isinstance(target, str) else target, policy)
    try:
        yield cluster
    finally:
        cluster.close()


def waits_of(store: Store) -> Waits:
    """Return how long clients of a store wait for each other."""
    return store.cluster.connection.waits if isinstance(store, ClusterStore) else Waits()


def stored_meta(store: Store) -> IndexMeta:
    """Return an index's own description of its tokens. Raises IndexNotFound without one."""
    if (meta := store.meta()) is None:
        if isinstance(store, LocalStore) and (file := store.missing_file):
            raise IndexNotFound(f"there is no file {file}: index documents first")
        advice = f"{store.where} does not exist or holds no esdedup tokens: index documents first"
        if not isinstance(store, LocalStore):
            named = f"-i {store.index}"
            commands = f"`esdedup attach {named}` and `esdedup backfill {named}`"
            advice += f". If other programs write to it, run {commands}"
        raise IndexNotFound(advice)
    return meta
