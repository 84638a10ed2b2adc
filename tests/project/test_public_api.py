"""Everything that a public call takes or returns can be imported from the package."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import esdedup
import esdedup.admin
from esdedup.removal.log import LogReader
from esdedup.stores import Cluster, Store

MODULES = [esdedup, esdedup.admin]
OPAQUE = [Store, Cluster, LogReader]
"""Programs hand these on, and call nothing of them."""
NAMES = [(module, name) for module in MODULES for name in module.__all__]
EXPORTED = {id(getattr(module, name)) for module, name in NAMES} | {*map(id, OPAQUE)}


def test_exported_names_are_sorted_and_there() -> None:
    for module in MODULES:
        assert list(module.__all__) == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_types_of_public_calls_are_exported(module: ModuleType, name: str) -> None:
    missing = {
        f"{each.__module__}.{each.__name__}, of {where}"
        for where, each in types_of(getattr(module, name))
        if each.__module__.startswith("esdedup") and id(each) not in EXPORTED
    }
    assert not missing


def types_of(exported: Any) -> Iterator[tuple[str, type]]:
    """The classes in the annotations of a function, or of a class's methods and fields."""
    for where, annotated in annotated_parts(exported):
        for hint in typing.get_type_hints(annotated).values():
            yield from ((where, each) for each in classes_in(hint))


def annotated_parts(exported: Any) -> Iterator[tuple[str, Any]]:
    if not inspect.isclass(exported):
        if inspect.isfunction(exported):
            yield exported.__name__, exported
        return
    if dataclasses.is_dataclass(exported) or typing.is_typeddict(exported):
        yield exported.__name__, exported
    if exported in OPAQUE:
        return
    for name, member in inspect.getmembers(exported):
        function = member.fget if isinstance(member, property) else member
        public = not name.startswith("_") or name in ("__init__", "__iter__")
        if public and inspect.isroutine(function) and hasattr(function, "__annotations__"):
            yield f"{exported.__name__}.{name}", function


def classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    for argument in typing.get_args(hint):
        for each in argument if isinstance(argument, list) else [argument]:
            yield from classes_in(each)
