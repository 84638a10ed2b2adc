"""esdedup examples: write the sample documents of the documentation."""

from importlib.resources import files
from pathlib import Path

from esdedup import UsageError
from esdedup.cli import output
from esdedup.cli.command import argument
from esdedup.cli.output import message

SAMPLES = ("articles.jsonl", "more.jsonl", "truth.tsv")
"""Documents, more of them, and the pairs of near-duplicates among them."""


def examples_command(
    folder: Path = argument(Path("examples"), "Where to write them.", metavar="[FOLDER]"),
) -> None:
    """Write sample documents to try esdedup on.

    Example: esdedup examples && esdedup pairs examples/articles.jsonl

    They are in English and Chinese. No file is overwritten.
    """
    samples = files("esdedup.examples")
    texts = {name: samples.joinpath(name).read_text("utf-8") for name in SAMPLES}
    existing = [folder / name for name in SAMPLES if (folder / name).exists()]
    if different := [path for path in existing if path.read_text("utf-8") != texts[path.name]]:
        raise UsageError(f"{different[0]} exists: name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8", newline="\n")
    written = output.count(len(SAMPLES), "file")
    message(f"{written} in {folder}. Next: esdedup pairs {folder / SAMPLES[0]}")
