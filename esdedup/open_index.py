"""Opens an index by where it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from esdedup.exceptions import UsageError
from esdedup.index import Index
from esdedup.sketch.scheme import Scheme
from esdedup.stores import BulkPolicy, LocalStore, open_cluster
from esdedup.stores.connection import Connection, connection_to

DEFAULT_FILE = "esdedup.db"
DEFAULT_INDEX = "documents"


def open(
    target: str | Path | Connection = DEFAULT_FILE,
    index: str = DEFAULT_INDEX,
    *,
    scheme: Scheme | None = None,
    text_field: str | None = None,
    policy: BulkPolicy | None = None,
    **credentials: Any,
) -> Index:
    """An index in a local file, or in a cluster.

    target: a file's path; or an http(s) URL of Elasticsearch or OpenSearch; or a Connection.
    index: its name. scheme, text_field: for an index to be made, by default `Scheme()` and
    "text"; an index that exists brings its own, and other ones are an error.
    credentials: for a URL, see `connection_to`: username, password, api_key, bearer_token,
    ca_certs, fingerprint, cloud_id, timeout.

    Raises UsageError for wrong arguments, StoreError where the cluster can't be reached.
    """
    if isinstance(target, str) and (target.startswith(("http://", "https://")) or not target):
        target = connection_to(target or None, **credentials)
    elif credentials:
        raise UsageError(f"{sorted(credentials)[0]} goes with the URL of a cluster")
    if isinstance(target, Connection):
        return Index(open_cluster(target, index, policy), scheme, text_field)
    return Index(LocalStore(target, index), scheme, text_field)
