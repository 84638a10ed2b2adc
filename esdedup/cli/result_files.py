"""Files that hold the results of a command (--output): Parquet, Arrow or JSON lines."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from esdedup import UsageError
from esdedup.arguments import setting
from esdedup.cli.output import check_page, json_line
from esdedup.records.locations import is_address, written
from esdedup.records.rewrite import packed
from esdedup.tabular import Tabular, require_pyarrow


@dataclass(frozen=True)
class ResultFile:
    """The option that names a file for the results, in place of standard output."""

    output: Path | None = setting(
        None, "Write the results to this file: .parquet, .arrow or .jsonl.", "-o"
    )

    def check(self, inputs: Iterable[str] = ()) -> None:
        """Raise UsageError if the file can't be written. inputs: files that the command reads."""
        if (path := self.output) is None:
            return
        check_page(path)
        if path.suffix not in (".parquet", ".arrow", ".jsonl"):
            raise UsageError(f"--output {path}: end the name in .parquet, .arrow or .jsonl")
        if path.suffix != ".jsonl":
            require_pyarrow()
        if path.exists() and not path.is_file():
            raise UsageError(f"--output {path}: it is not a plain file")
        if path.resolve() in [Path(each).resolve() for each in inputs]:
            raise UsageError(f"--output {path}: the command reads this file: name another")

    def write(self, table: Tabular) -> None:
        """Write a table to the file as a whole, or not at all."""
        assert self.output is not None
        write_table(str(self.output), table)


def write_table(path: str, table: Tabular) -> None:
    """Write a table to a file as a whole, or not at all: .parquet, .arrow, .jsonl, .jsonl.zst."""
    with written(path if is_address(path) else str(Path(path).resolve())) as file:
        if path.endswith((".jsonl", ".zst", ".gz")):
            with packed(file, path) as out:
                for row in table.table_rows():
                    line = {k: v for k, v in zip(table.columns, row, strict=True) if v is not None}
                    out.write(json_line(line).encode())
            return
        pa = require_pyarrow()
        make = pa.parquet.ParquetWriter if path.endswith(".parquet") else pa.ipc.new_file
        with make(file, table.arrow_schema()) as writer:
            for batch in table.arrow_batches():
                writer.write_batch(batch)
