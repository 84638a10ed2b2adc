"""The documentation and the program agree."""

import ast
import re
from pathlib import Path

import pytest

import esdedup
import esdedup.files
from tests.helpers.packages import GROUPS, imported
from tools.commands import COMMANDS, OPTIONS
from tools.docs import (
    REFERENCE,
    ROOT,
    Block,
    ExampleFailed,
    blocks_of,
    check_command,
    esdedup_commands,
    needs_cluster,
    needs_engines,
    pages,
    rewritten,
    shown,
    with_commands,
)

NAMES = {str(path.relative_to(ROOT)): path for path in pages()}
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
SCRIPTS = sorted((ROOT / "benchmarks").rglob("*.py"))


def runs(page: str) -> bool:
    return any(block.runs for block in blocks_of(page))


def marks(page: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a page: several have an index of the same name in the cluster.

    Each command on Spark starts a JVM; tests/spark runs the same without.
    """
    on_spark = [pytest.mark.nightly] if "pyspark" in page else []
    return on_spark + ([pytest.mark.xdist_group("examples")] if needs_cluster(page) else [])


PAGES = {name: path.read_text("utf-8") for name, path in NAMES.items()}


def require_packages(page: str, engines: bool = False) -> None:
    """Skip a test of a page whose examples import a package of a dependency group without it.

    engines: it runs the examples that need Ray and Daft.
    """
    run = (block for block in blocks_of(page) if block.runs)
    bodies = [block.body for block in run if engines or block.mark != "engines"]
    lines = re.findall(r"^(?:import|from) (.+)$", "\n".join(bodies), re.MULTILINE)
    for package in {word for line in lines for word in re.findall(r"\w+", line)} & GROUPS.keys():
        imported(package)


@pytest.fixture(params=[pytest.param(n, marks=marks(p)) for n, p in PAGES.items() if runs(p)])
def example_page(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    """A page with examples, and the cluster that it needs, if it does."""
    page = PAGES[request.param]
    require_packages(page)
    if "pyspark" in page:
        request.getfixturevalue("java")
    return page, request.getfixturevalue("elasticsearch_url") if needs_cluster(page) else None


def test_examples_print_what_the_page_shows(example_page: tuple[str, str | None]) -> None:
    page, url = example_page
    assert rewritten(page, url) == page


# Ray and Daft are large, and Ray warns of its own names.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if needs_engines(page)])
def test_examples_on_engines_print_what_the_page_shows(name: str) -> None:
    require_packages(PAGES[name], engines=True)
    assert rewritten(PAGES[name], engines=True) == PAGES[name]


def test_the_reference_of_commands_is_made_from_the_program() -> None:
    page = REFERENCE.read_text("utf-8")
    assert with_commands(page) == page, "run python -m tools.docs"


@pytest.mark.parametrize("name", NAMES)
def test_commands_are_ones_that_the_program_takes(name: str) -> None:
    page = NAMES[name].read_text("utf-8")
    for block in blocks_of(page):
        for command in esdedup_commands(block):
            check_command(command)
    for code in INLINE.findall(re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)):
        check_mention(code)


def test_docstrings_and_messages_name_commands_that_exist() -> None:
    for path in sorted((ROOT / "esdedup").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for code in INLINE.findall(node.value):
                    check_mention(code)
                for line in re.findall(r"^\s*\$? ?(esdedup [a-z]+ .*)$", node.value, re.MULTILINE):
                    check_mention(line)


def check_mention(code: str) -> None:
    """Check the command and the options that inline code names; values may be left out."""
    first, *words = code.split()
    # Of `--json/--table` and `--threshold=0.8`, the names.
    options = re.findall(r"(?<![\w-])--[a-z][\w-]*", " ".join([first, *words]))
    if first == "esdedup":
        name = next((word for word in words if re.fullmatch("[a-z]+", word)), None)
        assert name is None or name in COMMANDS, code
        known = options_of(name) if name else OPTIONS
    elif first in COMMANDS and options:
        known = options_of(first)
    elif first.startswith("--"):
        known = set().union(*(options_of(name) for name in COMMANDS))
        known |= {found for path in SCRIPTS for found in re.findall(r'"(--[\w-]+)"', text(path))}
    else:
        return
    assert set(options) <= known, code


def options_of(command: str) -> set[str]:
    found = COMMANDS[command].params
    return {name for each in found for name in (*each.opts, *each.secondary_opts)} | {"--help"}


def text(path: Path) -> str:
    return path.read_text("utf-8")


def test_scripts_that_figures_come_from_exist() -> None:
    # Deleted ones are named with the commit that has them.
    named = re.compile(r"`(?:python -m )?(benchmarks[\w./]+)[^`]*`(?! at\scommit)")
    results = {str(path): text(path) for path in (ROOT / "benchmarks/results").glob("*.md")}
    for page, written in {**PAGES, **results}.items():
        for name in named.findall(written):
            module = name.replace(".", "/")
            paths = [ROOT / each for each in (name, module, f"{module}.py")]
            assert any(path.exists() for path in paths), (page, name)


def test_every_public_name_is_in_the_reference() -> None:
    page = "\n".join(text(path) for path in sorted((ROOT / "docs/reference/python").glob("*.md")))
    for module in (esdedup, esdedup.files, esdedup.results):
        shown = re.findall(rf"^::: {module.__name__}\.(\w+)$", page, re.MULTILINE)
        assert sorted(shown) == sorted(module.__all__)


def test_every_page_is_in_the_navigation() -> None:
    navigation = text(ROOT / "mkdocs.yml")
    for name in NAMES:
        assert not name.startswith("docs/") or name.removeprefix("docs/") in navigation, name


# The checks themselves find differences.


def test_output_that_differs_is_found() -> None:
    assert '"seed": 7' in rewritten("```console\n$ esdedup scheme --seed 7 --json\n{}\n```\n")
    page = "```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n"
    assert rewritten(page) == page.replace("41", "42")
    with pytest.raises(ExampleFailed, match="status 2"):
        rewritten("```console\n$ esdedup index nothing.jsonl\n```\n")


def test_dots_stand_for_anything_but_what_is_around_them_must_be_there() -> None:
    assert shown("one\ntwo\nthree\n", "one\n...\n") == "one\n...\n"
    with pytest.raises(ExampleFailed, match="two"):
        shown("one\ntwo\nthree\n", "...\nfour\n")


@pytest.mark.parametrize(
    "command", ["esdedup cluster", "esdedup dedup --undo x", "esdedup similar --threshold much"]
)
def test_commands_that_do_not_exist_are_found(command: str) -> None:
    block = Block("sh", f"{command}\n", None, None, "")
    with pytest.raises(ExampleFailed, match=command):
        check_command(*esdedup_commands(block))
