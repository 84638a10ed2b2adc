"""The tables of rights on the page are those of the module."""

from collections.abc import Mapping, Sequence

from esdedup.admin.roles import RIGHTS, ROLES
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
    named = [
        (name, [needs.get("index", ()), needs.get("other", ()), needs.get("judgements", ())])
        for name, needs in ROLES.items()
    ]
    return [f"| `{name}` | {' | '.join(map('; '.join, parts))} |" for name, parts in named]


def rows_of_rights() -> list[str]:
    used = [right for needs in ROLES.values() for rights in needs.values() for right in rights]
    return [
        f"| {right} | {' | '.join(map(_granted, RIGHTS[right].values()))} |"
        for right in dict.fromkeys(used)
    ]


def _granted(grant: Mapping[str, Sequence[str]]) -> str:
    listed = {part: ", ".join(f"`{name}`" for name in names) for part, names in grant.items()}
    if "cluster" in listed:
        listed["cluster"] = f"cluster: {listed['cluster']}"
    return "; ".join(listed.values())
