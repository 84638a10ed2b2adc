"""Whose turn it is, among items that are worked at side by side and are not to overtake others."""

from __future__ import annotations

from dataclasses import dataclass, field

from esdedup.hashing import U64


@dataclass
class _Item:
    """One that is worked at. before: earlier ones that it may not overtake, as far as is known."""

    before: set[int]
    keys: frozenset[int] | None = None
    waits: bool = field(default=False)


class Turns:
    """Items in the order of their numbers, of which two that share a key keep it."""

    def __init__(self) -> None:
        self._items: dict[int, _Item] = {}

    def begin(self, number: int) -> None:
        """An item is begun, later than all before."""
        self._items[number] = _Item(set(self._items))

    def claim(self, number: int, keys: U64) -> None:
        """What an item is about."""
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
        del self._items[number]
        for item in self._items.values():
            item.before.discard(number)

    def come(self) -> list[int]:
        """Those that waited for their turn, which has come."""
        found = [number for number, item in self._items.items() if item.waits and not item.before]
        for number in found:
            self._items[number].waits = False
        return found
