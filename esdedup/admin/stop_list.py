"""Puts a stop list into an index, and into the template that makes its next indices."""

from __future__ import annotations

from collections.abc import Sequence

from esdedup.admin.templates import renew_template
from esdedup.stores.base import Store
from esdedup.stores.elastic.indices import resolve
from esdedup.stores.elastic.store import ClusterStore
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stop_entries


def put_stop_list(store: Store, meta: IndexMeta, tokens: Sequence[str]) -> tuple[str, ...]:
    """Makes tokens the stop list of an index, in place of the one it has; the list as it is kept.

    meta: what the index says now. Also in the component template of an alias or a data stream, for
    the indices made next. Raises what `stop_entries` and `Store.put_stop` raise.
    """
    stop = stop_entries(tokens, meta.scheme)
    store.put_stop(meta, stop)
    if isinstance(store, ClusterStore):
        named = resolve(store.cluster, store.index)
        if named.kind != "index":
            current = store.meta()
            assert current is not None
            renew_template(store.cluster, named, current)
    return stop
