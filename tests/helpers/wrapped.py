"""Indices whose stores do something else in place of some calls."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import esdedup
from esdedup.stores import Store
from esdedup.stores.location import IndexLocation


class WrappedStore:
    """A store with other methods in place of some. methods: by name."""

    def __init__(self, store: Store, methods: dict[str, Callable[..., Any]]) -> None:
        self._store, self._methods = store, methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._store, name)


@dataclass(frozen=True)
class WrappedLocation(IndexLocation):
    """Where an index is whose store is wrapped. methods: those of `WrappedStore`."""

    methods: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def store(self) -> Store:
        store: Any = WrappedStore(super().store(), self.methods)
        return store  # type: ignore[no-any-return]


def wrapped(index: esdedup.Index, **methods: Callable[..., Any]) -> esdedup.Index:
    """Open an index once more, whose store has other methods in place of some."""
    place = index.location
    return esdedup.Index(WrappedLocation(place.target, place.index, place.policy, methods))
