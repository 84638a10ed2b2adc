"""Names that a public module exports, and imports when a program first uses them."""

import sys
from collections.abc import Mapping
from importlib import import_module


def import_name(name: str, exporter: str, modules: Mapping[str, str]) -> object:
    """Import a name from the module that defines it, so that `exporter` has it from now on.

    name: what the program uses.
    exporter: the module that exports it, such as "esdedup.results".
    modules: the names that a module of esdedup defines, separated by spaces, by module.

    Raises AttributeError if no module defines the name.
    """
    for module, names in modules.items():
        if name in names.split():
            value: object = getattr(import_module(f"esdedup.{module}"), name)
            setattr(sys.modules[exporter], name, value)
            return value
    raise AttributeError(f"module {exporter!r} has no attribute {name!r}")
