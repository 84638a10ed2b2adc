"""Keep the documentation in step with the program.

    python -m tools.docs [--check | --fill] [PAGE...]

Run the examples of the pages, and write their output and the reference of the commands into the
pages. With --check, change nothing and name each page that differs. With --fill, also write output
after commands that have none in the page. Examples that need a cluster run only if
ESDEDUP_TEST_ELASTICSEARCH_URL names one.

A page has these examples, which share one folder with a copy of `examples/`:

- A `console` block has commands after "$ ", each followed by its output. "# exit status N" behind a
  command says that it fails. A command without output in the page may print anything.
- A `python` block is a program. A `text` block directly after it has its output.
- A block with `title="NAME"` is a file of that name.
- An `sh` block is not run; its commands must be ones that the program has. After the mark
  `<!-- run -->` it is run, and a `text` block directly after it has its output.

`...` in an output stands for anything. The mark `<!-- cluster -->` before a block says that it
needs a cluster, `<!-- engines -->` that it needs Ray and Daft, `<!-- not run -->` that it is not
run.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import typer

from esdedup.cli import main as esdedup
from esdedup.exceptions import UsageError
from tools.commands import COMMANDS, OPTIONS, commands_page

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference" / "commands.md"
_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>cluster|engines|not run|run) -->\n)?"
    r'```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$',
    re.MULTILINE | re.DOTALL,
)
_GENERATED = re.compile(r"(<!-- commands -->\n).*(<!-- /commands -->)", re.DOTALL)
_FAILS = re.compile(r"\s+# exit status (\d+)$")
_INDEX = re.compile(r'(?:--index|-i|--to|open\(url,|index=)[ "]*([a-z][\w-]*)')
_INSTALLS = ("python -m pip ", "python -m pytest")
_TERMINAL = {"TERM": "dumb", "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}


class ExampleFailed(Exception):
    """An example of a page differs from the page."""


def pages() -> list[Path]:
    """Return every page of the documentation."""
    return sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("README*.md")])


@dataclass
class Block:
    """A fenced block of a page.

    before: the text between the block before it and this one.
    """

    kind: str
    body: str
    title: str | None
    mark: str | None
    before: str
    start: int = 0
    end: int = 0

    @property
    def runs(self) -> bool:
        return self.mark != "not run" and (
            self.kind in ("console", "python") or (self.kind, self.mark) == ("sh", "run")
        )


def blocks_of(page: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    found, last = [], 0
    for each in _BLOCK.finditer(page):
        before, last = page[last : each.start()], each.end()
        start, end = each.span("body")
        found.append(
            Block(each["kind"], each["body"], each["title"], each["mark"], before, start, end)
        )
    return found


def needs_cluster(page: str) -> bool:
    """Return whether a page has examples that need a cluster."""
    return any(block.mark == "cluster" for block in blocks_of(page))


def needs_engines(page: str) -> bool:
    """Return whether a page has examples that need Ray and Daft."""
    return any(block.mark == "engines" for block in blocks_of(page))


def rewritten(page: str, url: str | None = None, fill: bool = False, engines: bool = False) -> str:
    """Return the page with the output that its examples print now.

    url: a cluster for the examples that need one; without it, they stay as they are.
    fill: write output after commands that have none in the page too.
    engines: also run the examples that need Ray and Daft.

    Raises ExampleFailed if an example ends with another exit status than the page says.
    """
    parts, last = [], 0
    with tempfile.TemporaryDirectory() as folder, Runner(Path(folder), url, fill) as runner:
        runner.delete_indices(page)
        printed: str | None = None
        for block in blocks_of(page):
            body = block.body
            directly_after = printed is not None and not block.before.strip()
            if block.title is not None:
                runner.write(block.title, body)
            elif block.kind == "text" and directly_after:
                assert printed is not None
                body = shown(printed, body)
            printed = None
            missing = (block.mark == "cluster" and url is None) or (
                block.mark == "engines" and not engines
            )
            if block.runs and not missing:
                body, printed = runner.run(block)
            parts += [page[last : block.start], body]
            last = block.end
        runner.delete_indices(page)
    return "".join(parts) + page[last:]


def shown(printed: str, in_page: str) -> str:
    """Return the output for the page: the printed one, unless the page's `...` stands for it."""
    printed = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    if printed.split() == in_page.split():
        # Lines may be wrapped elsewhere, by the length of a server's address.
        return in_page
    if _pattern(in_page.strip()).fullmatch(printed.strip()) and "..." in in_page:
        return in_page
    partly = [line for line in in_page.splitlines() if "..." in line]
    if "..." in partly:
        raise ExampleFailed(f"the page shows\n{in_page}\nand the program prints\n{printed}")
    # Lines that the page shows in part stay so.
    lines = (
        next((p for p in partly if _pattern(p).fullmatch(line)), line)
        for line in printed.splitlines()
    )
    return "".join(f"{line}\n" for line in lines)


def _pattern(in_page: str) -> re.Pattern[str]:
    return re.compile(re.escape(in_page).replace(r"\.\.\.", ".*"), re.DOTALL)


@dataclass
class Runner:
    """Runs the examples of one page in a folder."""

    folder: Path
    url: str | None
    fill: bool
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})

    def __enter__(self) -> Runner:
        self._stack = contextlib.ExitStack()
        kept = {name: value for name, value in os.environ.items() if not _ours(name)}
        (self.folder / "bin").mkdir()
        program = self.folder / "bin" / "esdedup"
        program.write_text(
            f"#!{sys.executable}\nfrom esdedup.cli import main\nmain()\n", encoding="utf-8"
        )
        program.chmod(0o755)
        path = f"{program.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**kept, **_TERMINAL, "PATH": path}
        self._stack.enter_context(mock.patch.dict(os.environ, environment, clear=True))
        work = self.folder / "work"
        shutil.copytree(ROOT / "examples", work / "examples")
        self._stack.enter_context(contextlib.chdir(work))
        return self

    def __exit__(self, *_: object) -> None:
        if (ray := sys.modules.get("ray")) is not None:
            # Its processes would look for the files of the next page in the folder of this one.
            ray.shutdown()
        self._stack.close()

    def delete_indices(self, page: str) -> None:
        """Delete the indices of the cluster that a page names."""
        if self.url is None:
            return
        for name in set(_INDEX.findall(page)):
            request = urllib.request.Request(f"{self.url}/{name}", method="DELETE")
            with contextlib.suppress(urllib.error.HTTPError):
                urllib.request.urlopen(request).close()

    def write(self, name: str, text: str) -> None:
        """Write a file that the page shows."""
        Path(name).write_text(text, encoding="utf-8")

    def run(self, block: Block) -> tuple[str, str | None]:
        """Run a block, and return its body with new output, and the output for the next block."""
        place = {"ESDEDUP_URL": self.url} if block.mark == "cluster" and self.url else {}
        with mock.patch.dict(os.environ, place):
            if block.kind == "console":
                return "".join(self._console(block.body)), None
            if block.kind == "python":
                return block.body, self._python(block.body)
            return block.body, "".join(self._command(line) for line in _lines(block.body))

    def _python(self, program: str) -> str:
        with _terminal() as printed:
            try:
                exec(compile(program, "<example>", "exec"), self.names)
            except Exception as error:
                raise ExampleFailed(f"{program}\nraises {error!r}") from error
        return self._plain(printed.getvalue())

    def _console(self, body: str) -> Iterator[str]:
        for command, output in commands_in(body):
            printed = self._command(command)
            lines = "\n> ".join(command.split("\n"))
            yield f"$ {lines}\n"
            yield shown(printed, output) if output or self.fill else ""

    def _command(self, command: str) -> str:
        expected = _FAILS.search(command)
        printed, status = "", 0
        for step in _FAILS.sub("", command).split(" && "):
            if step.startswith(_INSTALLS):
                continue
            if step.startswith("esdedup ") and not re.search(r"[|<>$;]", _unquoted(step)):
                status, output = in_process(shlex.split(step.replace("\\\n", ""))[1:])
            else:
                done = subprocess.run(
                    ["bash", "-c", step],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                )
                status, output = done.returncode, done.stdout
            printed += output
            if status:
                break
        if status != (int(expected[1]) if expected else 0):
            raise ExampleFailed(f"{command}\nended with status {status}:\n{printed}")
        return self._plain(printed)

    def _plain(self, printed: str) -> str:
        """Return the printed text, with the server's address as readers have it."""
        return printed if self.url is None else printed.replace(self.url, "http://localhost:9200")


def commands_in(body: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with its output; "> " goes on with a line."""
    found: list[tuple[str, str]] = []
    for line in body.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:].rstrip("\n"), ""))
        elif line.startswith("> ") and found and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:].rstrip()}", "")
        elif found:
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def in_process(arguments: list[str]) -> tuple[int, str]:
    """Run a command as if on a terminal, and return its exit status and its output."""
    status: Any = 0
    with _terminal() as printed, mock.patch.object(sys, "argv", ["esdedup", *arguments]):
        try:
            esdedup()
        except SystemExit as exit:
            status = exit.code
    return int(status or 0), printed.getvalue()


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class _Messages(io.StringIO):
    """Standard error: not a terminal, so that no progress is drawn, but in the same output."""

    def __init__(self, output: io.StringIO) -> None:
        super().__init__()
        self._output = output

    def write(self, text: str) -> int:
        return self._output.write(text)


@contextlib.contextmanager
def _terminal() -> Iterator[io.StringIO]:
    printed = _Terminal()
    with (
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(_Messages(printed)),
    ):
        yield printed


def _ours(name: str) -> bool:
    return name.startswith("ESDEDUP_") or name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")


def _unquoted(command: str) -> str:
    return re.sub(r"'[^']*'|\"[^\"]*\"", "", command)


def _lines(body: str) -> list[str]:
    """Return the commands of an sh block: a line each, without comments."""
    joined = body.replace("\\\n", " ")
    lines = (re.sub(r"\s+#\s.*$", "", line).strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def esdedup_commands(block: Block) -> list[str]:
    """Return the `esdedup` commands of a console or sh block, without pipes and the like."""
    if block.kind == "console":
        lines = [command.replace("\n", " ") for command, _ in commands_in(block.body)]
    elif block.kind == "sh":
        lines = _lines(block.body)
    else:
        return []
    steps = [step.strip() for line in lines for step in re.split(r"&&|\||;|>", line)]
    return [_FAILS.sub("", step) for step in steps if re.match(r"esdedup\s", step)]


def check_command(command: str) -> None:
    """Raise ExampleFailed if the program rejects the options and arguments of a command."""
    _, name, *arguments = shlex.split(command)
    if name in OPTIONS:
        return
    if name not in COMMANDS:
        raise ExampleFailed(f"{command}: there is no command {name}")
    try:
        COMMANDS[name].make_context(name, arguments)
    except typer.Exit:
        return
    except (typer.TyperException, UsageError) as error:
        raise ExampleFailed(f"{command}: {error}") from error


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args()
    url = os.environ.get("ESDEDUP_TEST_ELASTICSEARCH_URL")
    engines = all(importlib.util.find_spec(name) for name in ("daft", "ray"))
    failed = False
    for path in options.pages or pages():
        before = path.read_text("utf-8")
        try:
            after = rewritten(before, url, options.fill, engines)
        except ExampleFailed as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = True
            continue
        if path.resolve() == REFERENCE:
            after = with_commands(after)
        if before != after:
            print(path, "differs" if options.check else "written")
            failed |= options.check
            if not options.check:
                path.write_text(after, "utf-8")
    sys.exit(failed)


def with_commands(page: str) -> str:
    """Return the page with the reference of all commands between its marks."""
    return _GENERATED.sub(lambda marks: f"{marks[1]}\n{commands_page()}\n{marks[2]}", page)


if __name__ == "__main__":
    main()
