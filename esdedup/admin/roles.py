"""The least rights of each command on a secured server, as a role of either product.

`roles.json` lists the rights, and those that each command needs, found by running it as a user with
one missing, on Elasticsearch 9.5.3 and OpenSearch 3.4.0 (`tests/security`). On Elasticsearch they
are named privileges, and actions only where a named one would allow much more, such as `manage` to
delete the index; on OpenSearch, whose named groups are wider, they are actions.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Literal

from esdedup.exceptions import UsageError
from esdedup.stores.judgements import PREFIX

Product = Literal["elasticsearch", "opensearch"]
Role = dict[str, object]
"""A role in the form of a product's API."""
Needs = Mapping[Literal["index", "other", "judgements"], Sequence[str]]
"""Names of rights on a command's index, on a second one, and on the index of judgements."""

ROLES_PATHS: Mapping[Product, str] = {
    "elasticsearch": "_security/role",
    "opensearch": "_plugins/_security/api/roles",
}
"""The path of each product's roles, by name."""

_TABLES = json.loads(files("esdedup.admin").joinpath("roles.json").read_text("utf-8"))
RIGHTS: Mapping[str, Mapping[Product, Mapping[str, Sequence[str]]]] = _TABLES["rights"]
"""By right and product, the privileges or actions on the "index" and in the whole "cluster"."""
ROLES: Mapping[str, Needs] = _TABLES["roles"]
"""The rights by command, and for some commands by one of its options too."""


def role(name: str | Sequence[str], product: Product, index: str, to: str | None = None) -> Role:
    """Return a role, as `PUT _security/role/NAME` of Elasticsearch and
    `PUT _plugins/_security/api/roles/NAME` of OpenSearch accept it.

    name: one of `ROLES`, or several, whose rights are merged.
    product: whose form it has.
    index: a name, or a pattern such as logs-*.
    to: the target of a move.

    Raises UsageError for an unknown role, if `to` is missing, and if the role has no use for it.
    """
    names = [name] if isinstance(name, str) else list(name)
    needs: dict[Literal["index", "other", "judgements"], list[str]] = {}
    for known in names:
        if known not in ROLES:
            advice = "repeat `role` for several" if "," in known else "name one"
            raise UsageError(f"there is no role {known!r}: {advice} of {', '.join(ROLES)}")
        for part, rights in ROLES[known].items():
            needs.setdefault(part, []).extend(rights)
    if ("other" in needs) != (to is not None):
        is_one = len(names) == 1
        subject = f"the role {names[0]!r} is" if is_one else f"roles {', '.join(names)} are"
        number = "one index: leave out" if to else "two indices: give"
        raise UsageError(f"{subject} for {number} `to`")
    return role_of(needs, product, index, to)


def role_of(needs: Needs, product: Product, index: str, to: str | None) -> Role:
    """Return a role with the given rights, in the form of the product's API; as `role`."""
    names, actions = "index_patterns", "allowed_actions"
    if product == "elasticsearch":
        names, actions = "names", "privileges"
    cluster: set[str] = set()
    indices = []
    patterns = {"index": index, "other": to, "judgements": f"{PREFIX}{index}"}
    for part, rights in needs.items():
        grants = [RIGHTS[right][product] for right in rights]
        cluster.update(*(grant.get("cluster", ()) for grant in grants))
        if allowed := {action for grant in grants for action in grant.get("index", ())}:
            indices.append({names: [patterns[part]], actions: sorted(allowed)})
    if product == "elasticsearch":
        return {"cluster": sorted(cluster), "indices": indices}
    return {"cluster_permissions": sorted(cluster), "index_permissions": indices}


def roles_path(product: Product) -> str:
    """Return the path of a product's roles in its API."""
    return ROLES_PATHS[product]


def roles_of(command: str) -> list[str]:
    """Return the names of a command's roles, as in `ROLES`."""
    return [name for name in ROLES if name == command or name.startswith(f"{command}-")]
