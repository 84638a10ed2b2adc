"""What a command uses of the program that runs it, besides its arguments."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esdedup.cli.command import CONTEXT

if TYPE_CHECKING:
    from esdedup.files import Evidence, ShareSizes, Waiting


@dataclass(frozen=True)
class Surroundings:
    """What a command uses of the program that runs it.

    on_step: called with the title of each step that a job shows, the amount done, and the total.
    seconds_a_line: between lines of progress without a terminal.
    clock: returns the time in seconds.
    sizes: of the shares of a run, or None for the usual.
    evidence: which shingles show that a document of a file contains an item, or None for the usual.
    waiting: how often a task looks for the others, or None for the usual.
    """

    on_step: Callable[[str, int, int], None] = lambda *_: None
    seconds_a_line: float = 30.0
    clock: Callable[[], float] = time.monotonic
    sizes: ShareSizes | None = None
    evidence: Evidence | None = None
    waiting: Waiting | None = None


def surroundings() -> Surroundings:
    """Return those of the command that runs."""
    surroundings: Surroundings | None = CONTEXT.get().obj
    return surroundings or Surroundings()
