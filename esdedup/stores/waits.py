"""How long clients of an index wait for each other."""

from contextvars import ContextVar
from dataclasses import dataclass

MAPPING_SECONDS = 10.0


@dataclass(frozen=True)
class Waits:
    """Seconds that a client waits for the other clients of an index.

    mapping: after which an open index reads its `IndexMeta` again, because others may change it.
    settle: from putting a mapping until it is read again. Longer than a client takes from reading a
    mapping to putting its own: 0.06 seconds on a server that is not busy.
    switch: until every reader and writer sees a step of a switch.
    """

    mapping: float = MAPPING_SECONDS
    settle: float = 3.0
    switch: float = MAPPING_SECONDS + 2.0


WAITS: ContextVar[Waits] = ContextVar("waits", default=Waits())  # noqa: B039
"""The waits of new connections. Set shorter ones only if no other client changes the index."""
