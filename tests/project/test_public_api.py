"""The names of the package: few, and importable one by one."""

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import esdedup
import esdedup.admin
import esdedup.files
import esdedup.results

MODULES = [esdedup, esdedup.admin, esdedup.files, esdedup.results]
HEAVY = ("elasticsearch", "jinja2", "numpy", "pyarrow", "rich", "sqlite3")


def _constants_first(name: str) -> tuple[bool, str]:
    return not name.isupper(), name


def test_exported_names_are_few_sorted_and_there() -> None:
    assert len(esdedup.__all__) <= 36
    for module in MODULES:
        assert list(module.__all__) == sorted(module.__all__, key=_constants_first)
        assert all(hasattr(module, name) for name in module.__all__)
    assert {*esdedup.__all__, "admin", "results", "__version__"} <= {*dir(esdedup)}
    for module in MODULES:
        assert {*module.__all__} <= {*dir(module)}
        with pytest.raises(AttributeError, match=f"'{module.__name__}' has no attribute 'nothing'"):
            _ = module.nothing
    assert {*esdedup.__all__}.isdisjoint(esdedup.results.__all__)


@pytest.mark.parametrize(
    "program",
    [
        "import esdedup; esdedup.UsageError, esdedup.__version__",
        "import esdedup.results; dir(esdedup.results)",
        "import esdedup.files; dir(esdedup.files)",
        "from esdedup import admin; dir(admin)",
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


def test_a_folder_has_at_most_twenty_modules() -> None:
    folders = Counter(path.parent for path in Path(esdedup.__path__[0]).rglob("[!_]*.py"))
    assert {str(folder): many for folder, many in folders.items() if many > 20} == {}
