"""Describe a store, an index and the rights on it, for `esdedup doctor` and reports of bugs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from esdedup.admin.roles import RIGHTS, ROLES, Needs, Part
from esdedup.exceptions import EsdedupError
from esdedup.index import Index
from esdedup.index import open as open_index
from esdedup.stores import Cluster, ClusterStore
from esdedup.stores.connection import Connection
from esdedup.stores.judgements import PREFIX

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
    documents: number of all; as are `sketched` with tokens, and `bytes` on disk.
    rights: of the user; None where the server can't say.
    problem: why something was not read; None if all was.
    """

    store: str | None
    connection: str | None
    scheme: str | None = None
    documents: int | None = None
    sketched: int | None = None
    bytes: int | None = None
    rights: Rights | None = None
    problem: str | None = None


def diagnose(target: Connection | Path, name: str) -> Diagnosis:
    """Return what the index of a name is; what can't be read is a problem of the result."""
    connection = _shown(target) if isinstance(target, Connection) else None
    try:
        with open_index(target, name) as index:
            return _of_index(index, connection)
    except EsdedupError as error:
        return Diagnosis(None, connection, problem=without_addresses(str(error), target))


def _of_index(index: Index, connection: str | None) -> Diagnosis:
    store = index.store
    product, rights = None, None
    if isinstance(store, ClusterStore):
        product, rights = store.cluster.product, rights_of(store.cluster, store.index)
    try:
        statistics, scheme = index.statistics(), index.meta.full_scheme
    except EsdedupError as error:
        target = store.cluster.connection if isinstance(store, ClusterStore) else Path()
        problem = without_addresses(str(error), target)
        return Diagnosis(product, connection, rights=rights, problem=problem)
    return Diagnosis(
        product or statistics.store,
        connection,
        scheme=scheme.id,
        documents=statistics.documents,
        sketched=statistics.sketched,
        bytes=statistics.bytes,
        rights=rights,
    )


def rights_of(cluster: Cluster, index: str) -> Rights | None:
    """Return which roles' rights the user has on an index, without using any of them.

    Only a secured Elasticsearch can say; the result is None elsewhere.
    """
    if cluster.is_opensearch:
        return None
    patterns: dict[Part, str] = {"index": index, "judgements": f"{PREFIX}{index}"}
    grants = [RIGHTS[right]["elasticsearch"] for needs in ROLES.values() for right in _names(needs)]
    in_cluster = {privilege for grant in grants for privilege in grant.get("cluster", ())}
    on_index = {privilege for grant in grants for privilege in grant.get("index", ())}
    body = {
        "cluster": sorted(in_cluster),
        "index": [{"names": [*patterns.values()], "privileges": sorted(on_index)}],
    }
    answer = cluster.ask("POST", _PRIVILEGES, body, allowed=_NO_SECURITY)
    if answer.status != 200:
        return None
    # A move needs rights on a second index, which nobody has named.
    names = [name for name, needs in ROLES.items() if "other" not in needs]
    allowed = [name for name in names if _has_all(answer.body, ROLES[name], patterns)]
    return Rights(tuple(allowed), tuple(name for name in names if name not in allowed))


def _names(needs: Needs) -> list[str]:
    return [right for rights in needs.values() for right in rights]


def _has_all(answer: Mapping[str, object], needs: Needs, patterns: Mapping[Part, str]) -> bool:
    """Return whether an answer grants every right of a role."""
    cluster, indices = answer["cluster"], answer["index"]
    assert isinstance(cluster, Mapping)
    assert isinstance(indices, Mapping)
    for part, pattern in patterns.items():
        for right in needs.get(part, ()):
            grant = RIGHTS[right]["elasticsearch"]
            if not all(cluster[privilege] for privilege in grant.get("cluster", ())):
                return False
            if not all(indices[pattern][privilege] for privilege in grant.get("index", ())):
                return False
    return True


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
