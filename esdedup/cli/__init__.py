"""The command line."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esdedup.cli.surroundings import Surroundings


def main(arguments: Sequence[str] | None = None, surroundings: Surroundings | None = None) -> None:
    """Run the command line. arguments: by default those of the process, without its name."""
    # As `be_a_program` does. Modules have few cycles: searching them takes a tenth of the start.
    gc.set_threshold(100_000, 20, 20)
    # Imported here, because worker processes import this module and need nothing else of it.
    from esdedup.cli.app import main as run

    run(arguments, surroundings)
