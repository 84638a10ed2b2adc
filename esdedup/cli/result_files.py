"""Files that hold the results of a command (--output): Parquet, Arrow or JSON lines."""

import itertools
from dataclasses import dataclass
from pathlib import Path

from esdedup.cli.command import setting
from esdedup.cli.output import check_folder, print_json
from esdedup.files import STDIN, Tabular, check_result, objects_of, write_table


@dataclass(frozen=True)
class ResultFile:
    """The option that names a file for the results, in place of standard output."""

    output: Path | None = setting(
        None, "Write the results to this new file: .parquet, .arrow, .jsonl.", "-o"
    )

    @property
    def named(self) -> dict[str, list[str | None]]:
        """The file to write, by its option."""
        is_file = self.output is not None and not self.is_standard_output
        return {"--output": [str(self.output) if is_file else None]}

    @property
    def is_standard_output(self) -> bool:
        """Whether the option names standard output, for JSON lines."""
        return str(self.output) == STDIN

    def check(self) -> None:
        """Raise UsageError if the file can't be written, or exists."""
        if (path := self.output) is not None:
            check_folder("--output", path)
            check_result("--output", str(path))

    def write_lines(self, table: Tabular, most: int | None = None) -> None:
        """Write a table to standard output, in JSON lines. most: the number of rows, None: all."""
        for row in itertools.islice(objects_of(table), most):
            print_json(row)

    def write(self, table: Tabular) -> None:
        """Write a table to the file as a whole, or not at all."""
        assert self.output is not None
        write_table(str(self.output), table)
