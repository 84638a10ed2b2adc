"""Put the tables of all results into the pages that have marks that name them.

    python -m benchmarks.page [--check]

The function `tables` of each benchmark renders its results. A page marks where they are shown:

- `<!-- NAME -->` and `<!-- /NAME -->`: all tables of benchmarks/results/NAME.json.
- `<!-- NAME table 2 -->`: the second of these tables only.
- `<!-- NAME table 2, rows esdedup; rensa, columns 1 3 -->`: of that table, the rows that begin with
  one of these texts, and these columns.

--check: change nothing, and exit with status 1 if a page shows other figures than the results.
"""

import argparse
import importlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.lib.measuring import RESULTS

_DOCS = Path(__file__).parents[1] / "docs"
PAGES = (
    _DOCS / "explanation" / "benchmarks.md",
    _DOCS / "how-to" / "images.md",
    _DOCS / "how-to" / "remove-repeated-spans.md",
    _DOCS / "how-to" / "vectors.md",
    _DOCS / "how-to" / "web-services.md",
    *sorted(RESULTS.glob("*.md")),
)
SECTION = re.compile(
    r"(?P<mark><!-- (?P<name>[\w-]+)(?: table (?P<table>\d+))?(?:, rows (?P<rows>[^>]+?))?"
    r"(?:, columns (?P<columns>[\d ]+))? -->\n).*?(?P<end><!-- /(?P=name) -->)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Selection:
    """The part of a result's tables that a page shows.

    table: the number of a table, from 1.
    rows: the beginnings of the rows that are shown; none for all.
    columns: the numbers of the columns that are shown, from 1; none for all.
    """

    table: int
    rows: tuple[str, ...]
    columns: tuple[int, ...]


def rendered(page: str) -> str:
    """Return the page with the tables of the results as they are."""

    def filled(mark: re.Match[str]) -> str:
        document = json.loads((RESULTS / f"{mark['name']}.json").read_text("utf-8"))
        # The part after a hyphen distinguishes runs of a benchmark.
        name = mark["name"].partition("-")[0]
        folder = "own" if (RESULTS.parent / "own" / f"{name}.py").exists() else "peers"
        tables = importlib.import_module(f"benchmarks.{folder}.{name}").tables(document).strip()
        if mark["table"]:
            shown = f"{selected(tables, selection_of(mark))}\n\n{short_provenance(document)}"
        else:
            shown = f"{provenance(document)}\n\n{tables}"
        return f"{mark['mark']}{shown}\n{mark['end']}"

    return SECTION.sub(filled, page)


def selection_of(mark: re.Match[str]) -> Selection:
    rows = tuple(name.strip() for name in (mark["rows"] or "").split(";") if name.strip())
    columns = tuple(int(number) for number in (mark["columns"] or "").split())
    return Selection(int(mark["table"]), rows, columns)


def selected(tables: str, selection: Selection) -> str:
    """Return one of the tables, with the paragraph before it if that is its caption.

    Raises SystemExit if a row that the page names is missing.
    """
    blocks = tables.split("\n\n")
    places = [place for place, block in enumerate(blocks) if block.startswith("|")]
    place = places[selection.table - 1]
    head, rule, *rows = blocks[place].splitlines()
    for name in selection.rows:
        if not any(label_of(row).startswith(name) for row in rows):
            sys.exit(f"no row of the table begins with {name!r}")
    if selection.rows:
        rows = [row for row in rows if label_of(row).startswith(selection.rows)]
    table = "\n".join(with_columns(line, selection.columns) for line in (head, rule, *rows))
    before = blocks[place - 1] if place else "|"
    return table if before.startswith("|") else f"{before}\n\n{table}"


def label_of(row: str) -> str:
    """Return the text of a row from its first cell on, without empty cells."""
    return row.lstrip("| ")


def with_columns(line: str, columns: tuple[int, ...]) -> str:
    """Return a line of a table with these columns only."""
    if not columns:
        return line
    cells = line.strip("|").split("|")
    return f"|{'|'.join(cells[column - 1] for column in columns)}|"


def short_provenance(document: dict[str, object]) -> str:
    """Return the command, its commit if a later one measures less, and the date."""
    commit = f" at commit {document['commit']}" if "commit" in document else ""
    return f"`{document['command']}`{commit}, {document['date']}."


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
    """Write or check the pages."""
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
