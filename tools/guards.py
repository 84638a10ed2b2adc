"""Measure how readable the code is, and fail if a figure is worse than the one recorded here.

    python -m tools.guards              # print the figures, goals and recorded figures
    python -m tools.guards --places vague_names esdedup/index.py    # list what a figure counts
    python -m tools.guards --folder esdedup/search tests/search    # print those of some folders
    python -m tools.guards --record     # record better figures in this file

A figure is a place to look, not a verdict: a name that says what it holds is the goal, not a
synonym. Record a figure when it gets better. To record a worse one, edit `RECORDED` and say why in
the commit.
"""

from __future__ import annotations

import argparse
import ast
import functools
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import esdedup

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "esdedup"
TESTS = ROOT / "tests"
PUBLIC_PACKAGES = LIBRARY, LIBRARY / "admin", LIBRARY / "spark"

RECORDED = {
    "vague_names": 0.2,
    "parameters": 0,
    "keyword_catchalls": 0,
    "any": 214,
    "json_dicts": 31,
    "measure_branches": 0,
    "options_in_library": 0,
    "private_imports": 0,
    "patches": 9,
    "modules_in_folder": 18,
    "public_names": 30,
}

VAGUE = frozenset(
    """
    all_ asked at done each every few first_ found given held here how it kept known last_ left_
    made many more much near of one ones other others own parts rest same seen sent several some
    such taken than them then there these thing things those thus told wanted what which whole
    whole_
    """.split()  # noqa: SIM905
)
"""Pronouns, articles and participles that name no type."""
MOST_PARAMETERS = 6
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@dataclass(frozen=True)
class Place:
    """A place that a figure counts.

    module: the path of the file, from the root of the repository.
    line: its number, from 1.
    text: what is counted there.
    """

    module: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Module:
    """A parsed file.

    path: from the root of the repository.
    source: its text.
    tree: its syntax tree.
    """

    path: Path
    source: str
    tree: ast.Module

    @staticmethod
    def parse(file: Path) -> Module:
        """Parse a file."""
        source = file.read_text("utf-8")
        return Module(file.relative_to(ROOT), source, ast.parse(source))

    def place(self, node: ast.stmt | ast.expr | ast.arg, text: str) -> Place:
        """Return the place of a node."""
        return Place(self.path, node.lineno, text)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield all functions and methods."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def bound_names(module: Module) -> Iterator[Place]:
    """Yield all names that a module binds: parameters and variables."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.arg) and node.arg not in ("self", "cls"):
            yield module.place(node, node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield module.place(node, node.id)


def vague_names(module: Module) -> Iterator[Place]:
    """Yield the bound names that name no type."""
    return (place for place in bound_names(module) if place.text.strip("_") in VAGUE)


@functools.cache
def public_names() -> frozenset[str]:
    """Return the names that the packages for users export. Spark may not be installed."""
    names = set[str]()
    for package in PUBLIC_PACKAGES:
        for node in Module.parse(package / "__init__.py").tree.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names.update(ast.literal_eval(node.value))
    return frozenset(names)


def long_parameter_lists(module: Module) -> Iterator[Place]:
    """Yield functions with more than six parameters, but for commands and public functions."""
    if module.path.is_relative_to("esdedup/cli/commands"):
        return
    public = public_names()
    methods = {
        function
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and node.name in public
        for function in node.body
    }
    for function in module.functions():
        if function.name in public or function in methods:
            continue
        arguments = function.args
        names = [
            argument.arg
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            if argument.arg not in ("self", "cls")
        ]
        if len(names) > MOST_PARAMETERS:
            yield module.place(function, f"{function.name}: {len(names)} parameters")


def keyword_catchalls(module: Module) -> Iterator[Place]:
    """Yield functions that accept any keyword, not those that name the keywords by `Unpack`."""
    for function in module.functions():
        keywords = function.args.kwarg
        if keywords is None:
            continue
        if keywords.annotation is None or "Unpack[" not in ast.unparse(keywords.annotation):
            yield module.place(function, f"{function.name}(**{keywords.arg})")


def uses_of_any(module: Module) -> Iterator[Place]:
    """Yield the uses of `Any`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and node.id == "Any":
            yield module.place(node, "Any")


def json_dicts(module: Module) -> Iterator[Place]:
    """Yield the uses of `dict[str, Any]`."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node) == "dict[str, Any]":
            yield module.place(node, "dict[str, Any]")


def measure_branches(module: Module) -> Iterator[Place]:
    """Yield the lines outside `sketch` that branch on a measure."""
    if module.path.is_relative_to("esdedup/sketch"):
        return
    for number, line in enumerate(module.source.splitlines(), 1):
        if re.search(r'metric (==|!=)|metric in \(|by_distance|"cover"', line):
            yield Place(module.path, number, line.strip())


def options_in_library(module: Module) -> Iterator[Place]:
    """Yield the strings outside `cli` that name an option of the command line."""
    if module.path.is_relative_to("esdedup/cli"):
        return
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and (match := _OPTION.search(node.value)) is not None
        ):
            yield module.place(node, match[0])


PUBLIC = (
    "esdedup",
    "esdedup.admin",
    "esdedup.arrow",
    "esdedup.exceptions",
    "esdedup.files",
    "esdedup.results",
    "esdedup.spark",
)
SHARED = ("esdedup.arguments", "esdedup.text.characters")
"""What the command line shares with the library: how settings are declared, and how messages show
numbers and control characters."""


def private_imports(module: Module) -> Iterator[Place]:
    """Yield the imports of `cli` from modules of the library that are not public."""
    if not module.path.is_relative_to("esdedup/cli"):
        return
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        name = node.module
        is_ours = name.startswith("esdedup") and not name.startswith("esdedup.cli")
        if is_ours and name not in (*PUBLIC, *SHARED):
            yield module.place(node, name)
        elif name == "esdedup":
            for alias in node.names:
                if alias.name not in dir(esdedup) and alias.name != "cli":
                    yield module.place(node, f"{name}.{alias.name}")


def patches(module: Module) -> Iterator[Place]:
    """Yield the calls that replace an attribute of ours, in tests and their helpers."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called, call = ast.unparse(node.func), ast.unparse(node)
        # The attribute and its value may be one tuple: setattr(*page).
        sets = len(node.args) >= 2 or isinstance(node.args[0], ast.Starred)
        if sets and (called.split(".")[-1] == "setattr" or called.endswith("patch.object")):
            yield module.place(node, call[:90])


@dataclass(frozen=True)
class Figure:
    """A figure: the places that it counts, and what it should be at most.

    title: what it counts, in words.
    goal: the highest value that the project aims at.
    folder: whose modules are read.
    places: returns the places of a module.
    of: returns all places of which `places` is a share in percent; None to count.
    """

    title: str
    goal: float
    folder: Path
    places: Callable[[Module], Iterator[Place]]
    of: Callable[[Module], Iterator[Place]] | None = None

    def value(self, modules: list[Module]) -> float:
        """Return the figure of some modules."""
        count = sum(1 for module in modules for _ in self.places(module))
        if self.of is None:
            return count
        total = sum(1 for module in modules for _ in self.of(module))
        return round(100 * count / max(1, total), 1)


FIGURES = {
    "vague_names": Figure("names that say nothing, %", 2, LIBRARY, vague_names, bound_names),
    "parameters": Figure("functions with over 6 parameters", 0, LIBRARY, long_parameter_lists),
    "keyword_catchalls": Figure("functions with **keywords", 0, LIBRARY, keyword_catchalls),
    "any": Figure("uses of Any", 300, LIBRARY, uses_of_any),
    "json_dicts": Figure("uses of dict[str, Any]", 40, LIBRARY, json_dicts),
    "measure_branches": Figure(
        "branches on a measure outside sketch", 5, LIBRARY, measure_branches
    ),
    "options_in_library": Figure("options named outside cli", 0, LIBRARY, options_in_library),
    "private_imports": Figure("private modules imported by cli", 0, LIBRARY, private_imports),
    "patches": Figure("attributes that tests replace", 10, TESTS, patches),
}


def modules_of(folder: Path) -> list[Module]:
    """Parse all modules below a folder, or a file."""
    files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
    return [Module.parse(file) for file in files]


def modules_in_largest_folder() -> int:
    """Return the number of modules of the folder that has most."""
    folders = {file.parent for file in LIBRARY.rglob("*.py")}
    return max(sum(1 for _ in folder.glob("*.py")) for folder in folders)


def measured() -> dict[str, float]:
    """Return all figures by name."""
    parsed = {folder: modules_of(folder) for folder in (LIBRARY, TESTS)}
    values = {name: figure.value(parsed[figure.folder]) for name, figure in FIGURES.items()}
    values["modules_in_folder"] = modules_in_largest_folder()
    values["public_names"] = len(esdedup.__all__)
    return values


def figures_of(folders: list[Path]) -> dict[str, float]:
    """Return the figures of some folders or files. Those of tests count in `tests` alone."""
    modules = [module for folder in folders for module in modules_of(folder)]
    return {
        name: figure.value(
            [module for module in modules if (ROOT / module.path).is_relative_to(figure.folder)]
        )
        for name, figure in FIGURES.items()
    }


TITLES = {name: (figure.title, figure.goal) for name, figure in FIGURES.items()} | {
    "modules_in_folder": ("modules in the largest folder", 25),
    "public_names": ("public names", 36),
}


def record(values: dict[str, float]) -> None:
    """Write better figures into this file."""
    file = Path(__file__)
    source = file.read_text("utf-8")
    for name, value in values.items():
        if value < RECORDED[name]:
            source = re.sub(rf'("{name}": )[\d.]+', rf"\g<1>{value:g}", source, count=1)
    file.write_text(source, "utf-8")


def main() -> int:
    """Run the program. Return 1 if a figure is worse than the recorded one."""
    parser = argparse.ArgumentParser(description="Measure how readable the code is.")
    parser.add_argument("--record", action="store_true", help="record better figures")
    parser.add_argument(
        "--folder", nargs="+", type=Path, help="print the figures of some folders or files"
    )
    parser.add_argument(
        "--places", nargs="+", metavar=("FIGURE", "FOLDER"), help="list what a figure counts"
    )
    arguments = parser.parse_args()
    if arguments.places:
        figure, *names = arguments.places
        folders = [Path(name).resolve() for name in names] or [FIGURES[figure].folder]
        for module in itertools.chain.from_iterable(map(modules_of, folders)):
            for place in FIGURES[figure].places(module):
                print(place)
        return 0
    if arguments.folder:
        for name, value in figures_of([folder.resolve() for folder in arguments.folder]).items():
            title, goal = TITLES[name]
            print(f"{value:7g}  {title} (goal {goal:g})")
        return 0
    values = measured()
    if arguments.record:
        record(values)
    worse = []
    for name, value in values.items():
        title, goal = TITLES[name]
        print(f"{value:7g}  {title} (goal {goal:g}, recorded {RECORDED[name]:g})")
        if value > RECORDED[name]:
            worse.append(f"{title}: {value:g}, {RECORDED[name]:g} before (--places {name})")
    for line in worse:
        print(f"WORSE: {line}", file=sys.stderr)
    return int(bool(worse))


if __name__ == "__main__":
    sys.exit(main())
