"""Files that hold the results of a command (--output): Parquet, Arrow or JSON lines."""

from dataclasses import dataclass
from pathlib import Path

from esdedup.cli.command import setting
from esdedup.cli.output import check_folder
from esdedup.files import Tabular, check_result, write_table


@dataclass(frozen=True)
class ResultFile:
    """The option that names a file for the results, in place of standard output."""

    output: Path | None = setting(
        None, "Write the results to this new file: .parquet, .arrow, .jsonl.", "-o"
    )

    @property
    def named(self) -> dict[str, list[str | None]]:
        """The file to write, by its option."""
        return {"--output": [None if self.output is None else str(self.output)]}

    def check(self) -> None:
        """Raise UsageError if the file can't be written, or exists."""
        if (path := self.output) is not None:
            check_folder("--output", path)
            check_result("--output", str(path))

    def write(self, table: Tabular) -> None:
        """Write a table to the file as a whole, or not at all."""
        assert self.output is not None
        write_table(str(self.output), table)
