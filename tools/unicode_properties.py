"""Write tools/unicode_properties.json: properties of all characters in Unicode 16.0.

Python's own database lacks two of them and changes with every release, so they come from pinned
packages:

    python -m pip install --target packages \
        fonttools==4.56.0 unicodedata2==16.0.0 uniseg==0.10.1
    PYTHONPATH=packages:. python -m tools.unicode_properties
"""

import importlib
import json
import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

UNICODE_VERSION = "16.0.0"
TARGET = Path(__file__).parent / "unicode_properties.json"


def runs_of(values: Sequence[str]) -> list[tuple[int, str]]:
    """Return the first code point and the value of each run of equal values."""
    runs, point = [], 0
    for value, group in groupby(values):
        runs.append((point, value))
        point += sum(1 for _ in group)
    return runs


def main() -> None:
    """Write the file."""
    categories = importlib.import_module("unicodedata2")
    breaks = importlib.import_module("uniseg.linebreak")
    scripts = importlib.import_module("fontTools.unicodedata")
    for package in (categories, importlib.import_module("uniseg")):
        if package.unidata_version != UNICODE_VERSION:
            sys.exit(f"{package.__name__} is of Unicode {package.unidata_version}")
    characters = [chr(point) for point in range(sys.maxunicode + 1)]
    properties = {
        "General_Category": [categories.category(character) for character in characters],
        "Line_Break": [breaks.line_break(character).value for character in characters],
        "Script": [scripts.script_name(scripts.script(character)) for character in characters],
    }
    runs = {name: runs_of(values) for name, values in properties.items()}
    document = json.dumps({"unicode": UNICODE_VERSION, **runs}, separators=(",", ":"))
    TARGET.write_text(document.replace("]],", "]],\n") + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
