"""The names of the package: few, importable one by one, and without private types."""

import ast
import contextlib
import dataclasses
import inspect
import re
import subprocess
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
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
HEAVY = ("elasticsearch", "jinja2", "numpy", "pyarrow", "rich", "sqlite3")


def test_exported_names_are_few_sorted_and_there() -> None:
    assert len(esdedup.__all__) <= 35
    for module in MODULES:
        assert list(module.__all__) == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
    assert {*esdedup.__all__, "admin", "__version__"} <= {*dir(esdedup)}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = esdedup.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_types_of_public_calls_are_public(module: ModuleType, name: str) -> None:
    for where, annotated in annotated_parts(getattr(module, name)):
        with contextlib.suppress(NameError):  # Imported for type checkers only.
            hints = repr(typing.get_type_hints(annotated))
            assert not re.findall(r"esdedup[\w.]*\._\w+", hints), where


@pytest.mark.parametrize(
    "program",
    [
        "import esdedup; esdedup.UsageError, esdedup.__version__",
        "import esdedup.cli; sys.argv[1:] = []; esdedup.cli.main()",
    ],
)
def test_heavy_modules_are_imported_when_they_are_used(program: str) -> None:
    code = f"import sys\n{program}\nprint([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_class_name_exists_once() -> None:
    names = Counter(
        node.name
        for path in Path(esdedup.__path__[0]).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert {name for name, count in names.items() if count > 1} == set()


def test_a_folder_has_at_most_fifteen_modules() -> None:
    folders = Counter(path.parent for path in Path(esdedup.__path__[0]).rglob("[!_]*.py"))
    assert {str(folder): many for folder, many in folders.items() if many > 15} == {}


def annotated_parts(exported: Any) -> Iterator[tuple[str, Any]]:
    if not inspect.isclass(exported):
        if inspect.isfunction(exported):
            yield exported.__name__, exported
        return
    if dataclasses.is_dataclass(exported):
        yield exported.__name__, exported
    if exported in OPAQUE:
        return
    for name, member in inspect.getmembers(exported):
        function = member.fget if isinstance(member, property) else member
        public = not name.startswith("_") or name in ("__init__", "__iter__")
        if public and inspect.isroutine(function) and hasattr(function, "__annotations__"):
            yield f"{exported.__name__}.{name}", function
