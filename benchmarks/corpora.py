"""Makes files of real texts for the other benchmarks, of what the system's package tool has.

    python benchmarks/corpora.py debian FILE FILE.jsonl  # descriptions of Debian's packages
    python benchmarks/corpora.py man FOLDER FILE.jsonl   # manual pages, in any language
    python benchmarks/corpora.py lines FILE FILE.jsonl   # lines of an id, a space and a text

The descriptions are read from what `apt-get update -o Acquire::Languages=en` fetches:

    /usr/lib/apt/apt-helper cat-file /var/lib/apt/lists/*_Translation-en* > FILE

Manual pages (such as the package manpages-zh, by `apt-get download` and `dpkg-deb -x`) are cut
into paragraphs of 40 to 4,000 characters, their macros left out.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

LEAST, MOST = 40, 4_000
ROFF = re.compile(r"\\f[BIRP]|\\(?:\(..|\[[^]]*\]|[&%c])|\\[|^~/,]")
MACRO = re.compile(r"^\.(?:[BI]|BR|RB|IR|RI|BI|IB) +")


def debian(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for paragraph in Path(options.source).read_text("utf-8").split("\n\n"):
        lines = paragraph.split("\n")
        name = lines[0].removeprefix("Package: ")
        for at, line in enumerate(lines):
            if line.startswith("Description-en: "):
                rest = itertools.takewhile(lambda more: more.startswith(" "), lines[at + 1 :])
                text = " ".join([line.partition(": ")[2], *(more.strip() for more in rest)])
                yield name, text


def manual_pages(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for path in sorted(Path(options.source).rglob("*.gz")):
        if path.is_symlink() or not path.is_file():
            continue
        paragraphs = [""]
        for line in gzip.decompress(path.read_bytes()).decode("utf-8", "replace").split("\n"):
            macro = line.startswith((".", "'")) and not MACRO.match(line)
            if macro or not line.strip():
                paragraphs.append("")
            else:
                paragraphs[-1] += ROFF.sub("", MACRO.sub("", line)).replace("\\-", "-") + "\n"
        for number, text in enumerate(paragraphs):
            if LEAST <= len(text) <= MOST:
                yield f"{path.name}:{number}", text.strip()


def lines(options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for line in Path(options.source).read_text("utf-8").splitlines():
        id, _, text = line.partition(" ")
        yield id, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(required=True)
    for name, make in (("debian", debian), ("man", manual_pages), ("lines", lines)):
        kind = kinds.add_parser(name)
        kind.set_defaults(make=make)
        kind.add_argument("source", metavar="FOLDER" if name == "man" else "FILE")
        kind.add_argument("out", type=Path, metavar="FILE.jsonl")
    options = parser.parse_args()
    count = 0
    with options.out.open("w", encoding="utf-8") as file:
        for id, text in options.make(options):
            file.write(json.dumps({"id": id, "text": text}, ensure_ascii=False) + "\n")
            count += 1
    print(f"{count:,} texts in {options.out}")


if __name__ == "__main__":
    main()
