"""Results as tables, for Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from esdedup.exceptions import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TableFormat = Literal["parquet", "arrow"]
_ROWS_AT_ONCE = 1 << 16


class PandasFrame(Protocol):
    """A frame of pandas, or of a library that follows it."""

    @property
    def columns(self) -> object: ...
    @property
    def iloc(self) -> object: ...


class PolarsFrame(Protocol):
    """A frame of Polars that is in memory."""

    @property
    def columns(self) -> list[str]: ...
    def lazy(self) -> object: ...


class ArrowTable(Protocol):
    """A table or a record batch of pyarrow, or a Dataset of `datasets`."""

    @property
    def column_names(self) -> list[str]: ...
    def take(self, indices: Any, /) -> Any: ...


class ArrowStream(Protocol):
    """An object with Arrow's C stream, which is read once."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


Frame = PandasFrame | PolarsFrame | ArrowTable
"""A table in memory, of whose rows one of the same type can be made."""


def require_pyarrow(use: str = "Parquet and Arrow files need") -> ModuleType:
    """Return pyarrow. Raise MissingExtra if it is not installed."""
    try:
        import pyarrow.compute
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtra(f"{use} pyarrow: pip install 'esdedup[parquet]'") from error
    module: ModuleType = pyarrow
    return module


class Tabular:
    """A result that is a table too: what reads Arrow's C stream accepts it as it is.

    `polars.DataFrame(result)` and, in DuckDB, `FROM result` work. columns: the Arrow types of the
    columns by name.
    """

    columns: ClassVar[dict[str, str]]

    def table_rows(self) -> Iterator[tuple[object, ...]]:
        """Return the values of each row, in the order of `columns`."""
        raise NotImplementedError

    def arrow_schema(self) -> pa.Schema:
        """Return the `pyarrow.Schema`. Raises MissingExtra without pyarrow."""
        return require_pyarrow("Arrow needs").schema(list(self.columns.items()))

    def arrow_batches(self, rows_at_once: int = _ROWS_AT_ONCE) -> Iterator[pa.RecordBatch]:
        """Yield the rows as some `pyarrow.RecordBatch`. rows_at_once: the most of a batch."""
        schema, rows = self.arrow_schema(), self.table_rows()
        while batch := list(itertools.islice(rows, rows_at_once)):
            columns = zip(zip(*batch, strict=True), schema, strict=True)
            arrays = [require_pyarrow().array(values, field.type) for values, field in columns]
            yield require_pyarrow().record_batch(arrays, schema=schema)

    def to_arrow(self) -> pa.Table:
        """Return a `pyarrow.Table`. Raises MissingExtra without pyarrow."""
        return require_pyarrow().Table.from_batches(self.arrow_batches(), self.arrow_schema())

    def to_pandas(self) -> pd.DataFrame:
        """Return a `pandas.DataFrame`. Raises MissingExtra without pyarrow or pandas."""
        try:
            return self.to_arrow().to_pandas()
        except ModuleNotFoundError as error:
            raise MissingExtra("pandas is not installed: python -m pip install pandas") from error

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)
