"""The tables of rights on the page are those of the module."""

from __future__ import annotations

from esdedup.admin.roles import ROLES, Grant, Right
from tools.docs import ROOT

PAGE = ROOT / "docs" / "how-to" / "least-privilege.md"


def test_the_page_has_each_role_and_each_right() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    roles, rights = "| role | rights on the index |", "| right | Elasticsearch |"
    rows = [line for line in lines if line.startswith("| ")]
    assert [row for row in rows if not row.startswith((roles, rights))] == [
        *rows_of_roles(),
        *rows_of_rights(),
    ]


def rows_of_roles() -> list[str]:
    return [
        f"| `{name}` | {_named(needs.index)} | {_named(needs.other)} | {_named(needs.judgements)} |"
        for name, needs in ROLES.items()
    ]


def rows_of_rights() -> list[str]:
    every = [right for needs in ROLES.values() for right in (*needs.index, *needs.other)]
    return [
        f"| {right.name} | {_granted(right.elasticsearch)} | {_granted(right.opensearch)} |"
        for right in dict.fromkeys(every)
    ]


def _named(rights: tuple[Right, ...]) -> str:
    return "; ".join(right.name for right in rights)


def _granted(grant: Grant) -> str:
    cluster = f"cluster: {_listed(grant.cluster)}" if grant.cluster else ""
    return "; ".join(filter(None, (_listed(grant.index), cluster)))


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
