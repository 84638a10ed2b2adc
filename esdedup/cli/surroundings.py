"""What a command uses of the program that runs it, besides its arguments."""

from __future__ import annotations

from dataclasses import dataclass

from esdedup.cli.command import CONTEXT
from esdedup.runs.run import OnStep
from esdedup.runs.shares import ShareSizes


@dataclass(frozen=True)
class Surroundings:
    """What a command uses of the program that runs it.

    on_step: called with each step of a job whose progress is shown.
    seconds_a_line: between lines of progress without a terminal.
    sizes: of the shares of a run.
    """

    on_step: OnStep = lambda *_: None
    seconds_a_line: float = 30.0
    sizes: ShareSizes = ShareSizes()  # noqa: RUF009


def surroundings() -> Surroundings:
    """Return those of the command that runs."""
    surroundings: Surroundings | None = CONTEXT.get().obj
    return surroundings or Surroundings()
