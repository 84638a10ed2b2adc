"""Describe a store, an index and the rights on it, for `esdedup doctor` and reports of bugs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from esdedup.admin.obstacles import obstacles_of
from esdedup.admin.roles import ROLES, Role, role
from esdedup.exceptions import EsdedupError
from esdedup.index import Index
from esdedup.index import open as open_index
from esdedup.stores import Cluster, ClusterStore
from esdedup.stores.connection import Connection

_PRIVILEGES = "/_security/user/_has_privileges"
_NO_SECURITY = frozenset({400, 403, 404, 405, 500, 501})
"""How a server without security, or without this request, answers it."""


@dataclass(frozen=True)
class Rights:
    """What the user of a connection may do with an index.

    allowed: names of roles (`roles.ROLES`) whose rights the user has.
    lacking: names of the other roles.
    """

    allowed: tuple[str, ...]
    lacking: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosis:
    """What an index is, without its documents, addresses and credentials.

    store: the product and its version, or the local file's library; None if it did not answer.
    connection: how it is reached: protocol, number of addresses, kind of credentials; None for a
        local file.
    scheme: the id of the index's scheme; None if the index was not read.
    sketches: the kinds of sketches that the scheme has.
    obstacles: their names (`obstacles.KINDS`), in the settings and the mapping.
    documents: number of all; as are `sketched` with tokens, and `bytes` on disk.
    rights: of the user; None where the server can't say.
    problem: why something was not read; None if all was.
    """

    store: str | None
    connection: str | None
    scheme: str | None = None
    sketches: tuple[str, ...] | None = None
    obstacles: tuple[str, ...] | None = None
    documents: int | None = None
    sketched: int | None = None
    bytes: int | None = None
    rights: Rights | None = None
    problem: str | None = None


def diagnose(target: Connection | Path, name: str) -> Diagnosis:
    """Return what the index of a name is; what can't be read is a problem of the result."""
    connection = _shown(target) if isinstance(target, Connection) else None
    diagnosis = Diagnosis(None, connection)
    try:
        with open_index(target, name) as index:
            if isinstance(index.store, ClusterStore):
                cluster = index.store.cluster
                diagnosis = replace(
                    diagnosis, store=cluster.product, rights=rights_of(cluster, name)
                )
            statistics = index.statistics()
            return replace(
                diagnosis,
                store=diagnosis.store or statistics.store,
                scheme=index.meta.full_scheme.id,
                sketches=tuple(sketch.kind for sketch in index.meta.full_scheme.sketches),
                obstacles=_names_of_obstacles(index),
                documents=statistics.documents,
                sketched=statistics.sketched,
                bytes=statistics.bytes,
            )
    except EsdedupError as error:
        return replace(diagnosis, problem=without_addresses(str(error), target))


def _names_of_obstacles(index: Index) -> tuple[str, ...]:
    names = (obstacle.name for obstacle in obstacles_of(index.store, index.meta))
    return tuple(dict.fromkeys(names))


def rights_of(cluster: Cluster, index: str) -> Rights | None:
    """Return which roles' rights the user has on an index, without using any of them.

    Only a secured Elasticsearch can say; the result is None elsewhere.
    """
    if cluster.is_opensearch:
        return None
    # A move needs rights on a second index, which nobody has named.
    roles = {
        name: role(name, "elasticsearch", index)
        for name, needs in ROLES.items()
        if "other" not in needs
    }
    body = {
        "cluster": sorted(
            {privilege for rights in roles.values() for privilege in _of_cluster(rights)}
        ),
        "index": [grant for rights in roles.values() for grant in _on_indices(rights)],
    }
    answer = cluster.ask("POST", _PRIVILEGES, body, allowed=_NO_SECURITY)
    if answer.status != 200:
        return None
    allowed = [name for name, rights in roles.items() if _has_all(answer.body, rights)]
    return Rights(tuple(allowed), tuple(name for name in roles if name not in allowed))


def _of_cluster(role: Role) -> list[str]:
    return cast(list[str], role["cluster"])


def _on_indices(role: Role) -> list[dict[str, list[str]]]:
    return cast(list[dict[str, list[str]]], role["indices"])


def _has_all(answer: Mapping[str, object], role: Role) -> bool:
    """Return whether an answer grants every right of a role."""
    cluster = cast(Mapping[str, bool], answer["cluster"])
    indices = cast(Mapping[str, Mapping[str, bool]], answer["index"])
    return all(cluster[privilege] for privilege in _of_cluster(role)) and all(
        indices[name][privilege]
        for grant in _on_indices(role)
        for name in grant["names"]
        for privilege in grant["privileges"]
    )


def _shown(connection: Connection) -> str:
    """Return how a cluster is reached, without its addresses and credentials."""
    protocols = sorted({address.partition("://")[0] for address in connection.addresses})
    place = "Elastic Cloud" if connection.cloud_id else f"{' and '.join(protocols)}"
    if len(connection.addresses) > 1:
        place += f", {len(connection.addresses)} addresses"
    kinds = {
        "user name and password": connection.username,
        "API key": connection.api_key,
        "bearer token": connection.bearer_token,
    }
    credentials = next((kind for kind, value in kinds.items() if value), "no credentials")
    trust = {"CA file": connection.ca_certs, "fingerprint": connection.fingerprint}
    return ", ".join([place, credentials, *(kind for kind, value in trust.items() if value)])


def without_addresses(message: str, target: Connection | Path) -> str:
    """Return a message with the addresses of a cluster hidden."""
    if not isinstance(target, Connection):
        return message
    for address in target.addresses:
        split = urlsplit(address)
        for part in (address, split.netloc, split.hostname):
            message = message.replace(part or address, "(address)")
    return message
