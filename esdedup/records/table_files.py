"""Files of tables of results: Parquet, Arrow or JSON lines."""

from collections.abc import Iterator
from pathlib import Path

from esdedup.records.locations import is_address, written
from esdedup.records.rewrite import packed
from esdedup.records.targets import check_new, check_table
from esdedup.tabular import Tabular, require_pyarrow
from esdedup.text.characters import json_line


def check_result(setting: str, path: str) -> None:
    """Raise UsageError if a file for a table exists, or has another ending than one of a table."""
    check_table(setting, path)
    if path.endswith((".parquet", ".arrow")):
        require_pyarrow()
    check_new(setting, path)


def objects_of(table: Tabular) -> Iterator[dict[str, object]]:
    """Yield the rows of a table as objects of JSON, without empty cells."""
    for row in table.table_rows():
        cells = zip(table.columns, row, strict=True)
        yield {column: cell for column, cell in cells if cell is not None}


def write_table(path: str, table: Tabular, like: str | None = None) -> None:
    """Write a table to a file as a whole, or not at all.

    path: ends in one of `TABLES`. like: a path whose permissions it gets.
    """
    with written(path if is_address(path) else str(Path(path).resolve()), like) as file:
        if path.endswith((".jsonl", ".zst", ".gz")):
            with packed(file, path) as out:
                for line in objects_of(table):
                    out.write(json_line(line).encode())
            return
        pa = require_pyarrow()
        make = pa.parquet.ParquetWriter if path.endswith(".parquet") else pa.ipc.new_file
        with make(file, table.arrow_schema()) as writer:
            for batch in table.arrow_batches():
                writer.write_batch(batch)
