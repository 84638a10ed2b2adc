"""What a comparison uses of this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esdedup.runs.run import OnStep

DEFAULT_MEMORY = 2 << 30
"""Bytes to sort, or to compare, at once."""


def no_step(name: str, amount: int, total: int) -> None:
    """Ignore progress."""


def no_candidates(number: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True)
class Resources:
    """What a comparison uses of this machine.

    folder: for arrays that are mapped from files.
    on_step: called with the name of a step, the amount done, and the total.
    memory: bytes to sort, or to compare, at once; the result does not depend on it.
    workers: number of processes that verify; more than one requires texts that were read.
    on_candidates: called with the number of candidate pairs of each block that was compared.
    """

    folder: Path
    on_step: OnStep = no_step
    memory: int = DEFAULT_MEMORY
    workers: int = 1
    on_candidates: Callable[[int], None] = no_candidates
