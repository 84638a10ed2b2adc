"""Local indices of texts with planted groups of near-duplicates."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.lib.measuring import ESDEDUP, run
from benchmarks.lib.planted import planted

Fields = Callable[[int], Mapping[str, str]]
"""A function that returns the fields of a document beside its id and its text, by its number."""


def no_fields(number: int) -> Mapping[str, str]:
    """Return no fields."""
    return {}


@contextmanager
def planted_index(count: int, fields: Fields = no_fields) -> Iterator[Path]:
    """Index planted texts, and yield the database; `documents.jsonl` is in the same folder.

    count: number of documents. Their ids are the numbers from 0.
    """
    with tempfile.TemporaryDirectory(prefix="esdedup-benchmark-") as name:
        folder = Path(name)
        file, db = folder / "documents.jsonl", folder / "documents.db"
        with file.open("w", encoding="utf-8") as lines:
            for number, text in enumerate(planted(count)[0]):
                document = {"id": str(number), "text": text, **fields(number)}
                lines.write(json.dumps(document) + "\n")
        run([*ESDEDUP, "index", str(file), "--db", str(db)], folder / "out")
        yield db
