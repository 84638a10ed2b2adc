"""The least rights of each command on a secured server, as a role of either product.

The rights were found by running each command as a user with one of them taken away, on
Elasticsearch 9.5.3 and OpenSearch 3.4.0 (`tests/security`). On Elasticsearch they are its named
privileges, and actions only if a named one would allow much more, such as `manage` to delete the
index. OpenSearch's named groups are wider, so that there they are actions. The actions that read
are given together: which of them a command uses depends on the size of the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from esdedup.exceptions import UsageError
from esdedup.stores.judgements import PREFIX

Product = Literal["elasticsearch", "opensearch"]
ROLES_PATHS: Mapping[Product, str] = {
    "elasticsearch": "_security/role",
    "opensearch": "_plugins/_security/api/roles",
}
"""The path below which each product takes a role, by its name."""


@dataclass(frozen=True)
class Grant:
    """Privileges or actions on an index, and in the whole cluster."""

    index: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()


@dataclass(frozen=True)
class Right:
    """One thing that a user may do, as each product grants it. name: in short, for people."""

    name: str
    elasticsearch: Grant
    opensearch: Grant


_BULK = "indices:data/write/bulk"

SEE = Right(
    "see mapping",
    Grant(("view_index_metadata",)),
    Grant(
        (
            "indices:admin/mappings/get",
            "indices:admin/resolve/index",
            "indices:monitor/settings/get",
        )
    ),
)
READ = Right(
    "read",
    Grant(("read",)),
    Grant(
        (
            "indices:data/read/mget*",
            "indices:data/read/msearch",
            "indices:data/read/point_in_time/create",
            "indices:data/read/point_in_time/delete",
            "indices:data/read/search*",
        ),
        ("indices:data/read/mget", "indices:data/read/msearch"),
    ),
)
WRITE = Right(
    "write",
    Grant(("index",)),
    Grant(
        (f"{_BULK}*", "indices:data/write/index", "indices:data/write/update"),
        (_BULK,),
    ),
)
GROW = Right(
    "new fields",
    Grant(("index",)),
    Grant(("indices:admin/mapping/put",)),
)
DELETE = Right(
    "delete",
    Grant(("delete",)),
    Grant((f"{_BULK}*", "indices:data/write/delete"), (_BULK,)),
)
REFRESH = Right("refresh", Grant(("maintenance",)), Grant(("indices:admin/refresh*",)))
MEASURE = Right("see size", Grant(("monitor",)), Grant(("indices:monitor/stats",)))
CREATE = Right("create", Grant(("create_index",)), Grant(("indices:admin/create",)))
MAP = Right(
    "change mapping",
    Grant(("indices:admin/mapping/put",)),
    Grant(("indices:admin/mapping/put",)),
)
TEMPLATES = Right(
    "templates",
    Grant(cluster=("manage_index_templates",)),
    Grant(
        ("indices:admin/data_stream/get",),
        (
            "cluster:admin/component_template/get",
            "cluster:admin/component_template/put",
            "indices:admin/index_template/get",
            "indices:admin/index_template/simulate",
        ),
    ),
)
LOOK_UP = Right(
    "look up",
    Grant(("view_index_metadata",)),
    Grant(("indices:admin/get", "indices:monitor/settings/get")),
)
BEGIN = Right(
    "create by a document",
    Grant(("auto_configure",)),
    Grant(("indices:admin/create",)),
)
SIMULATE = Right(
    "simulate template",
    Grant(cluster=("indices:admin/index_template/simulate_index",)),
    Grant(cluster=("indices:admin/index_template/simulate_index",)),
)


@dataclass(frozen=True)
class Needs:
    """The rights of a command, on its index, on a second one, and on the index of judgements."""

    index: tuple[Right, ...]
    other: tuple[Right, ...] = ()
    judgements: tuple[Right, ...] = ()


_LOOK = Needs((SEE, READ))
_COMPARE = Needs((SEE, READ, MEASURE))
_JUDGED = (SEE, READ)
_GROUP = Needs((SEE, READ, MEASURE), judgements=_JUDGED)
_CHANGE = Needs((SEE, READ, MEASURE, WRITE, REFRESH), judgements=_JUDGED)

ROLES: Mapping[str, Needs] = {
    "index": Needs((SEE, READ, WRITE, GROW, REFRESH), judgements=_JUDGED),
    "index-new": Needs((SEE, READ, WRITE, GROW, REFRESH, CREATE), judgements=_JUDGED),
    "similar": _LOOK,
    "query": Needs((SEE,)),
    "explain": _LOOK,
    "pairs": _COMPARE,
    "stats": _COMPARE,
    "report": _GROUP,
    "tune": _COMPARE,
    "scheme": _COMPARE,
    "group": _CHANGE,
    "dedup": _GROUP,
    "dedup-mark": _CHANGE,
    "dedup-delete": Needs((SEE, READ, MEASURE, DELETE, REFRESH), judgements=_JUDGED),
    "dedup-move": Needs(
        (SEE, READ, MEASURE, DELETE, REFRESH), (SEE, READ, CREATE, MAP, WRITE, REFRESH), _JUDGED
    ),
    "review": _GROUP,
    "review-write": Needs(
        (SEE, READ, MEASURE, WRITE, DELETE, REFRESH),
        judgements=(SEE, READ, CREATE, WRITE, GROW, DELETE, REFRESH),
    ),
    "undo": Needs((SEE, READ, WRITE, REFRESH)),
    "undo-move": Needs((SEE, READ, WRITE, REFRESH), (SEE, READ, DELETE, REFRESH)),
    "stop": Needs((SEE, READ, MEASURE, MAP)),
    "attach": Needs((SEE, MAP)),
    "template": Needs((SEE, TEMPLATES)),
    "backfill": Needs((SEE, READ, WRITE, REFRESH)),
    "switch": Needs((SEE, READ, WRITE, REFRESH, MAP)),
    "check": _LOOK,
    "proxy": Needs((LOOK_UP, WRITE, GROW)),
    "proxy-new": Needs((LOOK_UP, WRITE, GROW, BEGIN, SIMULATE)),
}
"""The roles, by the command, and for some by the command and one of its options."""


def role(name: str, product: Product, index: str, other: str | None = None) -> dict[str, Any]:
    """Return a role, as `PUT _security/role/NAME` of Elasticsearch and
    `PUT _plugins/_security/api/roles/NAME` of OpenSearch take it.

    name: one of `ROLES`. index: a name, or a pattern such as logs-*. other: the target of a move.
    Raises UsageError for an unknown role, and if it needs another index and none is given, or the
    reverse.
    """
    if name not in ROLES:
        raise UsageError(f"there is no role {name!r}: name one of {', '.join(ROLES)}")
    needs = ROLES[name]
    if bool(needs.other) != (other is not None):
        does = "is for one index" if other else "is for two indices"
        raise UsageError(f"the role {name!r} {does}: {'leave out' if other else 'give'} --to")
    return role_of(needs, product, index, other)


def role_of(needs: Needs, product: Product, index: str, other: str | None) -> dict[str, Any]:
    """Return a role of the rights, in the form of the product's API; as `role`."""
    parts = [(index, _granted(needs.index, product))]
    if other is not None:
        parts.append((other, _granted(needs.other, product)))
    parts.append((f"{PREFIX}{index}", _granted(needs.judgements, product)))
    cluster = _sorted(name for _, grant in parts for name in grant.cluster)
    names, actions = "index_patterns", "allowed_actions"
    if product == "elasticsearch":
        names, actions = "names", "privileges"
    indices = [{names: [on], actions: list(grant.index)} for on, grant in parts if grant.index]
    if product == "elasticsearch":
        return {"cluster": cluster, "indices": indices}
    return {"cluster_permissions": cluster, "index_permissions": indices}


def roles_of(command: str) -> list[str]:
    """Return the names of a command's roles, as in `ROLES`."""
    return [name for name in ROLES if name == command or name.startswith(f"{command}-")]


def _granted(rights: tuple[Right, ...], product: Product) -> Grant:
    grants = [
        each.elasticsearch if product == "elasticsearch" else each.opensearch for each in rights
    ]
    index = _sorted(name for grant in grants for name in grant.index)
    cluster = _sorted(name for grant in grants for name in grant.cluster)
    return Grant(tuple(index), tuple(cluster))


def _sorted(names: Any) -> list[str]:
    return sorted(set(names))
