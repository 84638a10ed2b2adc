"""Real texts for the benchmarks, fetched once and kept as JSON lines of `id` and `text`.

    python -m benchmarks.lib.corpora [NAME ...] [--folder FOLDER]

    debian    descriptions of the packages of the Debian release that runs here, in English
    chinese   paragraphs of 40 to 4,000 characters of the Chinese manual pages in Debian's package
              manpages-zh, their macros left out; those of which a quarter is Han characters

Debian's are fetched by apt-get from where the system gets its packages; the system's own lists stay
as they are, and nothing is installed. The other benchmarks call this by themselves.
"""

import argparse
import gzip
import hashlib
import itertools
import json
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import platformdirs

LEAST, MOST = 40, 4_000
ROFF = re.compile(r"\\f[BIRP]|\\(?:\(..|\[[^]]*\]|[&%c])|\\[|^~/,]")
HAN = re.compile("[\u4e00-\u9fff]")
MACRO = re.compile(r"^\.(?:[BI]|BR|RB|IR|RI|BI|IB) +")


@dataclass(frozen=True)
class Corpus:
    """A file of texts, with its description for the results."""

    name: str
    path: Path
    source: str
    documents: int
    bytes: int
    sha256: str

    def texts(self) -> list[str]:
        """The texts in the order of the file; their rows are what results name."""
        with self.path.open(encoding="utf-8") as file:
            return [json.loads(line)["text"] for line in file]

    def described(self) -> dict[str, Any]:
        """The description for a file of results."""
        return {name: value for name, value in asdict(self).items() if name != "path"}


def corpus(name: str, folder: Path | None = None) -> Corpus:
    """A corpus by name, fetched unless it was before."""
    home = folder or kept()
    home.mkdir(parents=True, exist_ok=True)
    path, note = home / f"{name}.jsonl", home / f"{name}.source"
    if not path.exists():
        source, texts = _of_debian(name)
        unfinished = path.with_suffix(".tmp")
        with unfinished.open("w", encoding="utf-8") as file:
            for id, text in texts:
                file.write(json.dumps({"id": id, "text": text}, ensure_ascii=False) + "\n")
        note.write_text(source, "utf-8")
        unfinished.replace(path)
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return Corpus(name, path, note.read_text("utf-8"), data.count(b"\n"), len(data), digest)


def kept() -> Path:
    """The folder of fetched texts and peers, outside the tree."""
    return Path(platformdirs.user_cache_dir("esdedup-benchmarks"))


def _of_debian(name: str) -> tuple[str, Iterator[tuple[str, str]]]:
    release = platform.freedesktop_os_release().get("VERSION", "of an unknown release")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for part in ("lists/partial", "cache"):
            (home / part).mkdir(parents=True)
        places = (f"Dir::State::lists={home}/lists", f"Dir::Cache={home}/cache")
        apt = ("apt-get", "-q", *(f"-o{each}" for each in (*places, "Acquire::Languages=en")))
        _run(*apt, "update")
        if name != "chinese":
            lists = sorted(map(str, (home / "lists").glob("*_Translation-en*")))
            text = _run("/usr/lib/apt/apt-helper", "cat-file", *lists).decode("utf-8")
            return f"package descriptions of Debian {release}", iter([*_descriptions(text)])
        _run(*apt, "download", "manpages-zh", within=home)
        (package,) = home.glob("manpages-zh_*.deb")
        _run("dpkg-deb", "-x", str(package), str(home / "pages"))
        return f"{package.stem} of Debian {release}", iter(
            list(_paragraphs(home / "pages" / "usr/share/man"))
        )


def _run(*command: str, within: Path | None = None) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=within).stdout


def _descriptions(file: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for paragraph in file.split("\n\n"):
        lines = paragraph.split("\n")
        name = lines[0].removeprefix("Package: ")
        for at, line in enumerate(lines):
            if line.startswith("Description-en: ") and name not in seen:
                seen.add(name)
                rest = itertools.takewhile(lambda more: more.startswith(" "), lines[at + 1 :])
                yield name, " ".join([line.partition(": ")[2], *(more.strip() for more in rest)])


def _paragraphs(pages: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(pages.rglob("*.gz")):
        if path.is_symlink() or not path.is_file():
            continue
        # The same page in another script is a text of its own.
        page = path.relative_to(pages)
        paragraphs = [""]
        for line in gzip.decompress(path.read_bytes()).decode("utf-8", "replace").split("\n"):
            macro = line.startswith((".", "'")) and not MACRO.match(line)
            if macro or not line.strip():
                paragraphs.append("")
            else:
                paragraphs[-1] += ROFF.sub("", MACRO.sub("", line)).replace("\\-", "-") + "\n"
        for number, text in enumerate(paragraphs):
            if LEAST <= len(text) <= MOST and 4 * len(HAN.findall(text)) >= len(text):
                yield f"{page}:{number}", text.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=["debian", "chinese"])
    parser.add_argument("--folder", type=Path, help="where to keep the texts")
    options = parser.parse_args()
    for name in options.names:
        found = corpus(name, options.folder)
        print(json.dumps({"path": str(found.path), **found.described()}))


if __name__ == "__main__":
    main()
