"""Results as tables, for Arrow, pandas, Polars and DuckDB."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, overload

from esdedup.exceptions import MissingExtra

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TableFormat = Literal["parquet", "arrow"]
_ROWS_AT_ONCE = 1 << 16
_ROWS_IN_NOTEBOOK = 10
_Row = TypeVar("_Row")


class PandasFrame(Protocol):
    """A frame of pandas, or of a library that follows it."""

    @property
    def columns(self) -> object: ...
    @property
    def iloc(self) -> object: ...


class PolarsFrame(Protocol):
    """A frame of Polars that is in memory, as a LazyFrame is not."""

    @property
    def columns(self) -> list[str]: ...
    @property
    def height(self) -> int: ...
    def lazy(self) -> object: ...


class ArrowTable(Protocol):
    """A table or a record batch of pyarrow, or a Dataset of `datasets`."""

    @property
    def column_names(self) -> list[str]: ...
    @property
    def num_rows(self) -> int: ...
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

    def _repr_html_(self) -> str:
        """Return the first rows, for a notebook, without columns that are empty in all of them."""
        rows = [*itertools.islice(self.table_rows(), _ROWS_IN_NOTEBOOK + 1)]
        shown = rows[:_ROWS_IN_NOTEBOOK]
        filled = [
            column
            for column in range(len(self.columns))
            if not shown or any(row[column] is not None for row in shown)
        ]
        names = [*self.columns]
        head = _html_row("th", [names[column] for column in filled])
        body = "".join(_html_row("td", [row[column] for column in filled]) for row in shown)
        note = ""
        if len(rows) > len(shown):
            note = f"<p>The first {len(shown)} rows are shown. to_arrow() returns all.</p>"
        caption = html.escape(self._caption())
        return f"<p>{caption}</p><table>{head}{body}</table>{note}"

    def _caption(self) -> str:
        """Return the line over the table in a notebook."""
        return repr(self)


def _html_row(tag: str, values: Sequence[object]) -> str:
    """Return a row of a table. tag: of its cells."""
    cells = "".join(f"<{tag}>{html.escape(_written(value))}</{tag}>" for value in values)
    return f"<tr>{cells}</tr>"


def _written(value: object) -> str:
    """Return a value as a notebook shows it."""
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


class TabularList(Tabular, Generic[_Row]):
    """Values in a list that is a table too, and is equal to a list of the same values."""

    def __init__(self, values: Iterable[_Row]) -> None:
        self._values = [*values]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[_Row]:
        return iter(self._values)

    @overload
    def __getitem__(self, row: int) -> _Row: ...
    @overload
    def __getitem__(self, row: slice) -> list[_Row]: ...
    def __getitem__(self, row: int | slice) -> _Row | list[_Row]:
        return self._values[row]

    def __eq__(self, values: object) -> bool:
        if isinstance(values, TabularList):
            return bool(self._values == values._values)
        return bool(self._values == values)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._values)

    def _caption(self) -> str:
        return f"<{type(self).__name__}: {len(self):,}>"
