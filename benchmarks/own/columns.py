"""Where `esdedup index` spends its time with each format, and what columns can save.

    python -m benchmarks.own.columns [--documents 20000] [--name columns]

- Shares of real texts that are ASCII, and that normalisation leaves unchanged: only these could go
  from a column to the sketches without being written again.
- Stages of `index` into a local file, by the product's own functions, in its own chunks, in the
  processor time of one thread. All but the last one write nothing.
- Rows of the same CSV file by the csv module, by the product, and by pyarrow. Pyarrow reports no
  line of a row, and reads text after a closing quote, and a quote that is never closed, without an
  error; so a file would have to be looked through for these before.
"""

import argparse
import csv
import io
import json
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyarrow import csv as arrow_csv

import esdedup
from benchmarks.lib import measuring
from benchmarks.lib.corpora import corpus
from benchmarks.peers.local import prepare
from esdedup.records.csv_rows import has_whole_rows, rows_in_text
from esdedup.records.documents import document_columns, encoded_columns
from esdedup.records.files import Chunk, chunks_of_file
from esdedup.sketch.sketch import sketch
from esdedup.text.normalise import Normalisation, normalise

FORMATS = {"jsonl": "JSON lines", "csv": "CSV", "parquet": "Parquet"}
MOST_TEXTS = 20_000


def code() -> Iterator[str]:
    """Yield the modules of Python's standard library."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        yield path.read_text("utf-8", "replace")


def shares(name: str, texts: Iterable[str]) -> dict[str, Any]:
    """Return which fractions of texts are ASCII, and unchanged by normalisation."""
    sample = [text for text, _ in zip(texts, range(MOST_TEXTS), strict=False)]
    normalised = normalise(sample, Normalisation())
    pairs = zip(sample, normalised, strict=True)
    return {
        "corpus": name,
        "texts": len(sample),
        "ascii": sum(map(str.isascii, sample)) / len(sample),
        "unchanged": sum(text == form for text, form in pairs) / len(sample),
    }


def stages(path: Path, place: Path) -> dict[str, float]:
    """Return the seconds of each stage of indexing a file."""
    seconds = defaultdict[str, float](float)

    def timed(stage: str, call: Callable[..., Any], *arguments: Any) -> Any:
        began = time.thread_time()
        result = call(*arguments)
        seconds[stage] += time.thread_time() - began
        return result

    index = esdedup.open(place)
    index.add([{"id": "first", "text": "an index is created with its first document"}])
    meta, chunks = index.meta, chunks_of_file(str(path))
    while (chunk := timed("read", next, chunks, None)) is not None:
        records = timed("columns and JSON", _columns, chunk)
        documents = timed("documents", document_columns, records, meta, None)
        texts = [*dict.fromkeys(documents.texts)]
        timed("sketch", sketch, texts, meta.scheme)
        began = time.thread_time()
        with_tokens = encoded_columns(documents, meta)
        seconds["pack"] += time.thread_time() - began
        assert with_tokens is not None
        timed("write", index.store.write, with_tokens)
    # The tokens were packed after they were computed once more.
    seconds["pack"] -= seconds["sketch"]
    return seconds


def _columns(chunk: Chunk) -> Any:
    return chunk.columns(with_json=True)


def readers(path: Path) -> dict[str, float]:
    """Return the seconds in which each reader has the rows or columns of a CSV file as lists."""
    data = path.read_bytes()
    text = data.decode().replace("\r\n", "\n")

    def by_module() -> None:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))

    def by_pyarrow() -> None:
        options = arrow_csv.ParseOptions(newlines_in_values=True)
        table = arrow_csv.read_csv(
            io.BytesIO(data), arrow_csv.ReadOptions(use_threads=False), options
        )
        for column in table.columns:
            column.to_pylist()

    calls: Mapping[str, Callable[[], object]] = {
        "csv module": by_module,
        "esdedup, the look for quotes and ends": lambda: has_whole_rows(text, ","),
        "esdedup, rows and lines": lambda: rows_in_text(text, ","),
        "pyarrow": by_pyarrow,
    }
    seconds = {}
    for name, call in calls.items():
        began = time.thread_time()
        call()
        seconds[name] = time.thread_time() - began
    return seconds


def tables(document: Mapping[str, Any]) -> str:
    """Return the tables of a result."""
    results = document["results"]
    lines = ["| corpus | texts | ASCII | unchanged by normalisation |", "|---|---:|---:|---:|"]
    lines += [
        f"| {row['corpus']} | {row['texts']:,} | {row['ascii']:.1%} | {row['unchanged']:.1%} |"
        for row in results["shares"]
    ]
    by_format = results["stages"]
    lines += ["", f"| processor µs per document | {' | '.join(FORMATS.values())} |"]
    lines.append("|---|---:|---:|---:|")
    for stage in by_format["jsonl"]:
        cells = (f"{1e6 * by_format[name][stage] / results['documents']:.1f}" for name in FORMATS)
        lines.append(f"| {stage} | {' | '.join(cells)} |")
    lines += ["", "| rows of CSV by | processor µs per document |", "|---|---:|"]
    for name, seconds in results["readers"].items():
        lines.append(f"| {name} | {1e6 * seconds / results['documents']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and save the result."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--name", default="columns")
    options = parser.parse_args()
    named = {name: corpus(name).texts() for name in ("debian", "chinese")}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        prepare(options.documents, folder)
        results = {
            "documents": options.documents,
            "shares": [shares(name, texts) for name, texts in named.items()]
            + [shares("Python's standard library", code())],
            "stages": {
                name: stages(folder / f"documents.{name}", folder / f"{name}.db")
                for name in FORMATS
            },
            "readers": readers(folder / "documents.csv"),
        }
    file = measuring.save(options.name, results)
    print(tables(json.loads(file.read_text("utf-8"))))


if __name__ == "__main__":
    main()
