"""The peers, each set in an environment of its own, outside the tree.

    python -m benchmarks.peers.environments

makes them all; the other benchmarks make those that they need.
"""

import json
import subprocess
import sys
import venv

from benchmarks.lib.corpora import kept

PACKAGES = {
    "sketches": (
        "datasketch==2.0.0",
        "gaoya==0.2.2",
        "rensa==0.5.0",
        "xxhash==4.1.0",
    ),
    "lance": ("pylance==14.0.2",),
    # Apart, because it holds many packages back.
    "text-dedup": ("text-dedup==0.4.0",),
    "suffix-array": ("numpy==2.4.6", "pydivsufsort==0.0.20"),
    "semhash": ("pyarrow==26.0.1", "semhash==0.5.0", "wordllama==0.4.0.post1"),
    # xxhash 4 refuses the strings that it hashes.
    "datatrove": (
        "datatrove[io]==0.10.1",
        "jieba==0.42.1",
        "nltk==3.10.4",
        "regex==2026.11.19",
        "spacy==3.8.18",
        "tokenizers==0.23.3",
        "xxhash==3.8.2",
    ),
}


def python_of(environment: str) -> str:
    """The Python of an environment, which is made unless it is there as asked for."""
    folder = kept() / f"{environment}-python{sys.version_info.major}.{sys.version_info.minor}"
    python, done = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join(PACKAGES[environment])
    if not done.exists() or done.read_text("utf-8") != wanted:
        venv.create(folder, clear=True, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", *PACKAGES[environment]]
        subprocess.run(command, check=True, stdout=sys.stderr)
        done.write_text(wanted, "utf-8")
    return str(python)


def versions_of(environment: str, *more: str) -> dict[str, str]:
    """The versions of the packages of an environment, and of `more` of their dependencies."""
    command = [python_of(environment), "-m", "pip", "list", "--format", "json"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    wanted = {
        each.partition("==")[0].partition("[")[0].lower().replace("_", "-")
        for each in PACKAGES[environment]
    }
    wanted |= set(more)
    return {
        each["name"]: each["version"]
        for each in found
        if each["name"].lower().replace("_", "-") in wanted
    }


if __name__ == "__main__":
    for name in PACKAGES:
        print(name, python_of(name), json.dumps(versions_of(name)))
