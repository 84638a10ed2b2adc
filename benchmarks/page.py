"""Puts the tables of all results into the pages that have marks that name them.

    python -m benchmarks.page [--check]

Each benchmark says how its results read as tables (`tables`). --check: changes nothing, and ends
with status 1 if a page shows other figures than the results.
"""

import argparse
import importlib
import json
import re
import sys
from pathlib import Path

from benchmarks.lib.measuring import RESULTS

_DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    _DOCS / "explanation" / "benchmarks.md",
    _DOCS / "how-to" / "images.md",
    _DOCS / "how-to" / "web-services.md",
)
SECTION = re.compile(r"(<!-- ([\w-]+) -->\n).*?(<!-- /\2 -->)", re.DOTALL)


def rendered(page: str) -> str:
    """The page with the tables of the results as they are."""

    def filled(found: re.Match[str]) -> str:
        document = json.loads((RESULTS / f"{found[2]}.json").read_text("utf-8"))
        # What follows a hyphen tells runs of a benchmark apart.
        name = found[2].partition("-")[0]
        folder = "own" if (RESULTS.parent / "own" / f"{name}.py").exists() else "peers"
        tables = importlib.import_module(f"benchmarks.{folder}.{name}").tables(document)
        return f"{found[1]}{provenance(document)}\n\n{tables.strip()}\n{found[3]}"

    return SECTION.sub(filled, page)


def provenance(document: dict[str, object]) -> str:
    """Return the command, its commit if a later one measures less, date, machine and versions."""
    machine, versions = document["machine"], document["versions"]
    assert isinstance(machine, dict)
    assert isinstance(versions, dict)
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    commit = f" at commit {document['commit']}," if "commit" in document else ""
    return (
        f"`{document['command']}`{commit} on {document['date']}, {machine['processor']},"
        f" {machine['cores']} {'core' if machine['cores'] == 1 else 'cores'}; {named}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for page in PAGES:
        before = page.read_text("utf-8")
        after = rendered(before)
        if options.check and before != after:
            sys.exit(f"{page.name} shows other figures than benchmarks/results")
        if not options.check:
            page.write_text(after, "utf-8")


if __name__ == "__main__":
    main()
