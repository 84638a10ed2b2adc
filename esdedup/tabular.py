"""Results as tables, for Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, ClassVar, Literal

from esdedup.exceptions import MissingExtra

TableFormat = Literal["parquet", "arrow"]
_ROWS_AT_ONCE = 1 << 16
_TYPES = {str: "string", float: "float64", int: "int64", bool: "bool"}


def require_pyarrow(use: str = "Parquet and Arrow files need") -> Any:
    """Return pyarrow. Raise MissingExtra if it is not installed."""
    try:
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(f"{use} pyarrow: pip install 'esdedup[parquet]'") from error
    return pyarrow


def write_table(
    file: IO[bytes],
    kind: TableFormat,
    columns: Mapping[str, type],
    batches: Iterable[Sequence[tuple[Any, ...]]],
) -> None:
    """Write rows to a file, with a few batches in memory.

    columns: types by names: str, float, int or bool. batches: rows of as many values; None is null.
    Raises MissingExtra without pyarrow, OSError if the file can't be written.
    """
    pa = require_pyarrow()
    schema = pa.schema([(name, _TYPES[each]) for name, each in columns.items()])
    make = pa.parquet.ParquetWriter if kind == "parquet" else pa.ipc.new_file
    with make(file, schema) as writer:
        for rows in batches:
            writer.write_batch(_batch(rows, schema))


def _batch(rows: Sequence[tuple[Any, ...]], schema: Any) -> Any:
    pa = require_pyarrow()
    values = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(each, field.type) for each, field in values]
    return pa.record_batch(arrays, schema=schema)


class Tabular:
    """A result that is a table too: what reads Arrow's C stream accepts it as it is.

    `polars.DataFrame(result)` and, in DuckDB, `FROM result` work. columns: the Arrow types of the
    columns by name.
    """

    columns: ClassVar[dict[str, str]]

    def table_rows(self) -> Iterator[tuple[Any, ...]]:
        """Return the values of each row, in the order of `columns`."""
        raise NotImplementedError

    def to_arrow(self) -> Any:
        """Return a `pyarrow.Table`. Raises MissingExtra without pyarrow."""
        pa = require_pyarrow("Arrow needs")
        schema = pa.schema(list(self.columns.items()))
        rows, batches = self.table_rows(), []
        while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            batches.append(_batch(some, schema))
        return pa.Table.from_batches(batches, schema)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`. Raises MissingExtra without pyarrow or pandas."""
        try:
            return self.to_arrow().to_pandas()
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas is not installed: pip install pandas") from error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)
