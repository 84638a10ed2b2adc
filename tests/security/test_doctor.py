"""What `esdedup doctor` says of the rights of a user."""

from esdedup.admin.roles import role
from tests.security.users import Secured


def test_the_rights_of_a_user_are_shown(secured: Secured, name: str, filled_index: str) -> None:
    secured.make_user(name, role("pairs", secured.product, filled_index))
    ran = secured.run("doctor", "--index", filled_index, "--json", user=name, status=0)
    (described,) = ran.json
    rights = described["index"]["rights"]
    if secured.product == "opensearch":
        # It has no request that tells.
        assert rights is None
        return
    assert {"pairs", "similar", "explain", "stats"} <= set(rights["allowed"])
    assert {"group", "dedup-delete", "attach", "backfill"} <= set(rights["lacking"])
    assert not {*rights["allowed"]} & {*rights["lacking"]}
