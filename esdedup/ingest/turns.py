"""Whose turn it is, among items that are worked at side by side and are not to overtake others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from esdedup.text.hashing import U64


@dataclass(frozen=True)
class Claim:
    """Keys (uint64) that no two items may be at in another order than that in which they came."""

    keys: U64


Turn = Literal["turn"]
TURN: Turn = "turn"
"""What waits until no earlier item that shares a key, or may do so, is still worked at."""


@dataclass
class _Item:
    """One that is worked at. before: earlier ones that it may not overtake, as far as is known."""

    before: set[int]
    keys: frozenset[int] | None = None
    waits: bool = False


class Turns:
    """Items, numbered from 0 in the order in which they begin, that two with a shared key keep."""

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}
        self._begun = 0

    def claim(self, number: int, keys: U64) -> None:
        """What an item is about."""
        self._begin(number)
        mine = self._items[number]
        mine.keys = frozenset(keys.tolist())
        for other, item in self._items.items():
            if other != number and item.keys is not None and item.keys.isdisjoint(mine.keys):
                later = self._items[max(other, number)]
                later.before.discard(min(other, number))

    def wait(self, number: int) -> None:
        """An item goes no further before it is its turn."""
        self._items[number].waits = True

    def end(self, number: int) -> None:
        """An item is done with."""
        self._begin(number)
        del self._items[number]
        for item in self._items.values():
            item.before.discard(number)

    def granted(self) -> list[int]:
        """Those that waited for their turn, which has come; each once."""
        found = [number for number, item in self._items.items() if item.waits and not item.before]
        for number in found:
            self._items[number].waits = False
        return found

    def _begin(self, number: int) -> None:
        """One that is heard of is begun, and so are all before it."""
        for each in range(self._begun, number + 1):
            self._items[each] = _Item(set(self._items))
        self._begun = max(self._begun, number + 1)
