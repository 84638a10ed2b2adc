"""Removes duplicates and restores them from a log.

`Index` uses these names, which import at their first use: a search needs none of them.
"""

from typing import TYPE_CHECKING

from esdedup.lazy import import_name

if TYPE_CHECKING:
    from esdedup.removal.log import Action, LogReader, require_new
    from esdedup.removal.remove import Dedup
    from esdedup.removal.undo import (
        UndoReport,
        changed_by,
        require_apart,
        require_indices,
        undo_removal,
    )

__all__ = [
    "Action",
    "Dedup",
    "LogReader",
    "UndoReport",
    "changed_by",
    "require_apart",
    "require_indices",
    "require_new",
    "undo_removal",
]

_MODULES = {
    "removal.log": "Action LogReader require_new",
    "removal.remove": "Dedup",
    "removal.undo": "UndoReport changed_by require_apart require_indices undo_removal",
}


if not TYPE_CHECKING:  # Type checkers would take any name.

    def __getattr__(name: str) -> object:
        return import_name(name, __name__, _MODULES)
