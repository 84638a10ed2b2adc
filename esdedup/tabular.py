"""Results as tables, for Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

from esdedup.exceptions import MissingExtra

_ROWS_AT_ONCE = 1 << 16


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
        try:
            import pyarrow as pa
        except ImportError as error:
            raise MissingExtra("Arrow needs pyarrow: pip install 'esdedup[parquet]'") from error
        schema = pa.schema(list(self.columns.items()))
        rows, batches = self.table_rows(), []
        while some := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            arrays = [
                pa.array(values, field.type)
                for values, field in zip(zip(*some, strict=True), schema, strict=True)
            ]
            batches.append(pa.record_batch(arrays, schema=schema))
        return pa.Table.from_batches(batches, schema)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`. Raises MissingExtra without pyarrow or pandas."""
        try:
            return self.to_arrow().to_pandas()
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas is not installed: pip install pandas") from error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)
