"""The official clients of other languages, each installed in a folder of its own, outside the tree.

    python -m benchmarks.lib.clients

installs them all; the benchmarks install those that they need. It needs npm and go.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.lib.corpora import kept

PROGRAMS = Path(__file__).parents[1] / "clients"
JAVASCRIPT = ("@elastic/elasticsearch", "9.5.1")
GO = ("github.com/elastic/go-elasticsearch/v9", "v9.5.2")
NAMES = ("python", "python-parallel", "javascript", "go")
"""`helpers.bulk` and `helpers.parallel_bulk`, `helpers.bulk`, `esutil.BulkIndexer`."""


def command_of(name: str) -> list[str]:
    """The command of a client's program, which is installed unless it was before."""
    if name == "javascript":
        return ["node", str(_javascript() / "bulk.mjs")]
    if name == "go":
        return [str(_go() / "bulk")]
    helper = "parallel_bulk" if name == "python-parallel" else "bulk"
    return [sys.executable, str(PROGRAMS / "bulk.py"), helper]


def versions_of(names: list[str]) -> dict[str, str]:
    """The versions of the clients that are not Python's, by their packages."""
    return dict(each for name, each in (("javascript", JAVASCRIPT), ("go", GO)) if name in names)


def _javascript() -> Path:
    package, version = JAVASCRIPT
    return _installed(
        f"javascript-{version}",
        "bulk.mjs",
        ["npm", "install", "--prefix", ".", "--no-audit", "--no-fund", f"{package}@{version}"],
    )


def _go() -> Path:
    package, version = GO
    return _installed(
        f"go-{version}",
        "bulk.go",
        ["go", "mod", "init", "bulk"],
        ["go", "get", f"{package}@{version}", f"{package}/esutil@{version}"],
        ["go", "build", "-o", "bulk", "bulk.go"],
    )


def _installed(name: str, program: str, *commands: list[str]) -> Path:
    """The folder of a program and what it needs, made by the commands unless it is there."""
    folder = kept() / f"client-{name}"
    source = (PROGRAMS / program).read_bytes()
    done = folder / "installed"
    if not done.exists() or done.read_bytes() != source:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / program).write_bytes(source)
        for command in commands:
            if shutil.which(command[0]) is None:
                sys.exit(f"there is no {command[0]}, which the client needs")
            subprocess.run(command, check=True, cwd=folder, stdout=sys.stderr)
        done.write_bytes(source)
    return folder


if __name__ == "__main__":
    for each in NAMES:
        print(each, *command_of(each))
