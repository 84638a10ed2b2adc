"""The command that removes duplicates."""

from esdedup.removal.log import Action
from tests.helpers.commands import Ran
from tests.helpers.places import Place

ACTIONS: list[Action] = ["delete", "mark", "move"]


def dedup(place: Place, action: Action = "delete", *more: str, status: int | None = None) -> Ran:
    """Remove the duplicates of an index by an action, which moves them to the other index.

    status: as of `run_command`.
    """
    to = ["--to", f"{place.index}-others"] if action == "move" else []
    return place.run("dedup", "--apply", "--action", action, "--yes", *to, *more, status=status)
