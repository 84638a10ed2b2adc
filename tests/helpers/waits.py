"""Shorter waits for other clients."""

from collections.abc import Iterator
from contextlib import contextmanager

from esdedup.stores.waits import WAITS, Waits


@contextmanager
def waits(shorter: Waits) -> Iterator[None]:
    """Give the connections that this thread opens other waits."""
    token = WAITS.set(shorter)
    try:
        yield
    finally:
        WAITS.reset(token)
