"""Change the `IndexMeta` of indices, and detect concurrent changes.

The servers put a mapping unconditionally, and the last one wins. So each client reads the mapping
just before it puts its own, and again when every other client that had read before has put. Of two
clients, either the later one sees the change of the earlier one before it puts, or the earlier one
sees afterwards that its change was replaced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from esdedup.exceptions import PermissionDenied, StoreError
from esdedup.stores.elastic.client import Cluster
from esdedup.stores.elastic.indices import mappings_of, path_of
from esdedup.stores.mapping import IndexMeta, index_mapping, meta_of

SETTLE_SECONDS = 3.0
"""Longer than a client takes from reading a mapping to putting its own: 0.06 seconds on a server
that is not busy."""
_SLOW = 3.0

log = logging.getLogger("esdedup")


def put_metas(cluster: Cluster, changes: Mapping[str, tuple[IndexMeta | None, IndexMeta]]) -> None:
    """Put our fields and `_meta` into the mappings of indices.

    changes: by index, its `IndexMeta` now, None if it has none, and the one to put. Raises
    StoreError if an index has another one, before or afterwards, and the server's refusal with an
    explanation.
    """
    put: dict[str, IndexMeta] = {}
    longest = 0.0
    for index, (before, after) in changes.items():
        began = time.monotonic()
        mapping = mappings_of(cluster, [index])[index]
        found = meta_of(mapping)
        if found == after:
            continue
        if found != before:
            raise _changed(index, found)
        _put(cluster, index, index_mapping(after, mapping.get("_meta")))
        put[index] = after
        longest = max(longest, time.monotonic() - began)
    if longest > _SLOW:
        log.warning(
            "Changing the mapping took %.0f s. If another client changed it at the same time, that"
            " client may not notice that its change was replaced",
            longest,
        )
    # Other clients are as slow if the cluster is.
    time.sleep(max(SETTLE_SECONDS, 2 * longest) if put else 0.0)
    for index, mapping in mappings_of(cluster, [*put]).items():
        if (found := meta_of(mapping)) != put[index]:
            raise _changed(index, found)


def _changed(index: str, found: IndexMeta | None) -> StoreError:
    says = "no esdedup fields" if found is None else f"scheme {found.scheme.id}"
    return StoreError(
        f"index {index!r} was changed by another client at the same time, and has {says} now: look"
        " at it (esdedup check), and try again"
    )


def _put(cluster: Cluster, index: str, mapping: Mapping[str, Any]) -> None:
    try:
        cluster.ask("PUT", f"{path_of(index)}/_mapping", mapping)
    except PermissionDenied as error:
        raise PermissionDenied(
            f"{error}. To change the mapping takes the index privilege 'manage' (Elasticsearch), or"
            " the action indices:admin/mapping/put (both products). On Elasticsearch 'write' allows"
            " it for indices alone, not for data streams, and is deprecated for that"
        ) from error
    except StoreError as error:
        reason = str(error)
        if "Limit of total fields" in reason:
            reason = f"the mapping has no room ({error}): raise index.mapping.total_fields.limit"
        elif "synthetic source" in reason:
            reason = f"this version takes no such fields beside a synthetic _source ({error})"
        raise type(error)(f"index {index!r}: {reason}") from error
