"""Frames, tables and datasets keep their rows, texts and values, whatever types they have."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup import UsageError
from esdedup.exceptions import RecordError
from tests.helpers.packages import imported

NEWS = "the council approved the new budget for schools roads and parks on monday evening"
OTHER = "a football match that nobody will remember ended without any goals in the rain"
ITEM = "which of the two ferries that leave the old harbour in the morning carries no cars"


def test_two_columns_of_one_name_are_an_error() -> None:
    frame = pd.DataFrame({"text": [f"{NEWS} {n}" for n in range(9)], "w": range(9)})
    doubled = pd.concat([frame, frame], axis=1)
    table = pa.Table.from_arrays([pa.array([NEWS, OTHER])] * 2, names=["text", "text"])
    mixed = pd.DataFrame([[NEWS, "a"], [OTHER, "b"]], columns=[1, "1"])
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: esdedup.dedup(doubled), "two columns have the name 'text'"),
        (lambda: esdedup.pairs(doubled), "two columns have the name 'text'"),
        (lambda: esdedup.group(table), "two columns have the name 'text'"),
        (lambda: esdedup.group(table.to_reader()), "two columns have the name 'text'"),
        (lambda: esdedup.dedup([NEWS], against=doubled), "against: two columns have the name"),
        (lambda: esdedup.dedup(mixed, "1"), "two columns have the name '1'"),
    ]
    named = pd.concat([frame, frame[["w"]]], axis=1)
    calls += [
        (lambda: esdedup.dedup(named, conflict="w"), "two columns have the name 'w'"),
        (lambda: esdedup.dedup(named, fill="w"), "two columns have the name 'w'"),
        (lambda: esdedup.dedup(named, collect="w"), "two columns have the name 'w'"),
        (lambda: esdedup.group(named, id="w"), "two columns have the name 'w'"),
        (lambda: esdedup.pairs(named, source="w.x"), "two columns have the name 'w'"),
    ]
    for call, message in calls:
        with pytest.raises(UsageError, match=f"^{message}"):
            call()
    # A column that is not read may be there twice.
    assert len(esdedup.dedup(named, threshold=1.0).kept) == 9


def made(kind: str, texts: list[str]) -> Any:
    """Return a frame with a column of texts, in the order given."""
    if kind == "categorical":
        return pd.DataFrame({"text": pd.Categorical(texts)})
    if kind == "dictionary":
        return pa.table({"text": pa.array(texts).dictionary_encode()})
    if kind in ("views", "batch of views"):
        column = pa.array(texts, pa.string_view())
        return (pa.table if kind == "views" else pa.record_batch)({"text": column})
    if kind in ("polars enum", "polars categorical"):
        pl = imported("polars")
        dtype = pl.Enum(texts) if kind == "polars enum" else pl.Categorical
        return pl.DataFrame([pl.Series("text", texts, dtype)])
    of_dict = imported("datasets").Dataset.from_dict
    if kind == "chosen dataset":
        return of_dict({"text": ["", *texts[::-1]]}).select(range(len(texts), 0, -1))
    more = {"text_": [*range(len(texts))]} if kind == "wide dataset" else {}
    return of_dict({**more, "text": texts})


KINDS_OF_TEXT = [
    "categorical", "dictionary", "views", "batch of views", "polars enum", "polars categorical",
    "dataset", "wide dataset", "chosen dataset",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS_OF_TEXT)
def test_masked_texts_are_in_columns_of_any_type(kind: str) -> None:
    frame = made(kind, [f"{NEWS}. {ITEM}.", OTHER])
    result = esdedup.dedup(frame, against=[ITEM], contained=0.8, mask=True)
    kept = result.kept
    assert type(kept) is type(frame)
    assert len(result.removed) == 0
    column = kept["text"]
    texts = column.to_pylist() if hasattr(column, "to_pylist") else [*column]
    assert texts == [f"{NEWS}.", OTHER]
    if kind == "categorical":
        # Not even the categories have the item.
        assert column.dtype == object


def times_of_polars(kind: str, numbers: list[int | None]) -> Any:
    pl = imported("polars")
    types = {
        "datetime": pl.Datetime("ns"),
        "zoned": pl.Datetime("ns", "America/New_York"),
        "duration": pl.Duration("ns"),
        "time": pl.Time,
        "list": pl.List(pl.Datetime("ns")),
    }
    column = pl.Series("c", numbers, pl.Int64)
    if kind == "list":
        column = pl.Series("c", [None if n is None else [n] for n in numbers], pl.List(pl.Int64))
    return column.cast(types[kind])


def times_of_arrow(kind: str, numbers: list[int | None]) -> Any:
    types = {
        "datetime": pa.timestamp("ns"),
        "zoned": pa.timestamp("ns", "America/New_York"),
        "duration": pa.duration("ns"),
        "time": pa.time64("ns"),
        "list": pa.list_(pa.time64("ns")),
    }
    if kind == "list":
        lists = [None if n is None else [n] for n in numbers]
        return pa.array(lists, pa.list_(pa.int64())).cast(types[kind])
    return pa.array(numbers, pa.int64()).cast(types[kind])


def flat_numbers(column: Any) -> list[int]:
    """Return the nanoseconds in a column of times, or of lists of them."""
    column = column.to_arrow() if hasattr(column, "to_arrow") else column
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        column = column.flatten()
    return [*column.cast(pa.int64()).drop_null().to_pylist()]


@pytest.mark.parametrize("library", ["polars", "arrow", "datasets"])
@pytest.mark.parametrize("kind", ["datetime", "zoned", "duration", "time", "list"])
@pytest.mark.parametrize("setting", ["collect", "fill"])
def test_times_keep_their_nanoseconds(library: str, kind: str, setting: str) -> None:
    first, second = 1_234_567_891, 1_234_567_893
    texts, numbers = [OTHER, NEWS, NEWS, NEWS], [first, None, first, second]
    frame: Any
    if library == "polars":
        pl = imported("polars")
        frame = pl.DataFrame([pl.Series("text", texts), times_of_polars(kind, numbers)])
    else:
        frame = pa.table({"text": texts, "c": times_of_arrow(kind, numbers)})
    if library == "datasets":
        frame = imported("datasets").Dataset(frame)
    settings: dict[str, Any] = {setting: "c"}
    kept = esdedup.dedup(frame, **settings).kept
    assert type(kept) is type(frame)
    if library == "datasets":
        kept = kept.with_format("arrow")[:]
    expected = [first, first, second] if setting == "collect" else [first, first]
    assert flat_numbers(kept["c"]) == expected
    # Nothing is a duplicate.
    alone = frame.select([0]) if library == "datasets" else frame[:1]
    kept = esdedup.dedup(alone, **settings).kept
    if library == "datasets":
        kept = kept.with_format("arrow")[:]
    assert flat_numbers(kept["c"]) == [first]


def nested(library: str, shape: str, column: Any) -> tuple[Any, str]:
    """Return a frame whose column v has the values of another one, and their path."""
    if library == "polars":
        pl = imported("polars")
        value = pl.struct(d="v") if shape == "struct" else pl.concat_list("v")
        frame = pl.DataFrame([pl.Series("text", [NEWS] * len(column)), column.alias("v")])
        if shape != "plain":
            frame = frame.select("text", v=value)
        if shape == "array":
            frame = frame.with_columns(pl.col("v").list.to_array(1))
    else:
        if shape == "struct":
            column = pa.StructArray.from_arrays([column], ["d"])
        elif shape == "list":
            column = pa.ListArray.from_arrays(range(len(column) + 1), column)
        elif shape == "array":
            column = pa.FixedSizeListArray.from_arrays(column, 1)
        frame = pa.table({"text": [NEWS] * len(column), "v": column})
        if library == "pandas":
            frame = frame.to_pandas(types_mapper=pd.ArrowDtype)
    return frame, "v.d" if shape == "struct" else "v"


@pytest.mark.parametrize("library", ["polars", "arrow", "pandas"])
@pytest.mark.parametrize("kind", ["datetime", "zoned", "duration", "time"])
@pytest.mark.parametrize("shape", ["plain", "struct", "list", "array"])
def test_times_are_compared_and_collected_by_their_nanoseconds(
    library: str, kind: str, shape: str
) -> None:
    times = times_of_polars if library == "polars" else times_of_arrow
    frame, path = nested(library, shape, times(kind, [1_000_001, 1_000_002, 1_000_001]))
    if shape in ("plain", "struct"):
        (duplicate,) = esdedup.dedup(frame, within=[path]).duplicates
        assert (duplicate.row, duplicate.original) == (2, 0)
    assert len(esdedup.dedup(frame, conflict=path).duplicates) == 0
    collected = esdedup.dedup(frame, collect="v").kept["v"]
    if library == "pandas":
        collected = collected.array.__arrow_array__()
    values = collected.explode() if library == "polars" else collected.chunk(0).flatten()
    if shape == "struct":
        values = values.struct.field("d") if library == "polars" else values.field("d")
    assert flat_numbers(values) == [1_000_001, 1_000_002]


@pytest.mark.parametrize("library", ["arrow", "polars", "pandas"])
@pytest.mark.parametrize("kind", ["timestamp[us]", "timestamp[s, UTC]", "date32"])
def test_a_time_beyond_the_calendar_is_no_error(library: str, kind: str) -> None:
    types = {"timestamp[s, UTC]": pa.timestamp("s", "UTC"), "timestamp[us]": pa.timestamp("us")}
    numbers = [1, 1 << 60 if kind == "timestamp[us]" else 1 << 30, 2]
    if kind == "timestamp[s, UTC]":
        numbers[1] = 1 << 40
    kept_type = types.get(kind, pa.date32())
    stored = pa.array(numbers, pa.int32() if kind == "date32" else pa.int64())
    frame: Any = pa.table({"text": [NEWS] * 3, "n": [0, 1, 2], "d": stored.cast(kept_type)})
    if library == "polars":
        frame = imported("polars").from_arrow(frame)
    elif library == "pandas":
        frame = frame.to_pandas(types_mapper=pd.ArrowDtype)
    with pytest.warns(UserWarning, match="1 document has a value that is no time, and comes last"):
        kept = esdedup.dedup(frame, keep="newest:d").kept
    assert [*kept["n"]] in ([2], [pa.scalar(2)])
    assert len(esdedup.dedup(frame, within=["d"]).duplicates) == 0
    assert len(esdedup.dedup(frame, conflict="d").duplicates) == 0
    assert len(esdedup.dedup(frame, collect="d").duplicates) == 2


def test_a_row_that_cant_be_read_is_named() -> None:
    letters = pa.py_buffer(b"\0\0\0\0\0\0\0\0\1\0\0\0")
    bad = pa.StringArray.from_buffers(2, letters, pa.py_buffer(b"\xe9"))
    table = pa.table({"text": [NEWS] * 4, "v": pa.chunked_array([pa.array(["a", "b"]), bad])})
    for records in (table, table.to_reader(max_chunksize=1)):
        with pytest.raises(RecordError, match=r"^record 3: the column 'v' can't be read: "):
            esdedup.group(records, keep="first:v")


def fixed_lists(kind: str) -> Any:
    lists = pa.array([[1, 2], [3, 4], [1, 5]], pa.list_(pa.int16(), 2))
    table = pa.table({"text": [NEWS, OTHER, NEWS], "v": lists})
    if kind == "polars":
        pl = imported("polars")
        return pl.DataFrame(table).cast({"v": pl.Array(pl.Int16, 2)})
    if kind == "pandas":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return imported("datasets").Dataset(table) if kind == "datasets" else table


@pytest.mark.parametrize("kind", ["arrow", "polars", "pandas", "datasets"])
def test_lists_of_a_fixed_length_are_collected_into_longer_ones(kind: str) -> None:
    frame = fixed_lists(kind)
    kept = esdedup.dedup(frame, collect="v").kept
    assert type(kept) is type(frame)
    column = kept["v"]
    values = column.to_pylist() if hasattr(column, "to_pylist") else [*map(list, column)]
    assert values == [[1, 2, 5], [3, 4]]
    assert esdedup.dedup(frame, fill="v").kept["v"][0] is not None


def fail(step: str, *_: int) -> None:
    """Refuse any step of a comparison."""
    raise AssertionError(step)


def test_columns_of_which_no_lists_can_be_made_are_refused_before_a_comparison() -> None:
    pl = imported("polars")
    columns: list[Any] = [
        pa.array([b"a" * 16, b"b" * 16], pa.uuid()),
        pa.compute.run_end_encode(pa.array(["a", "b"])),
        pa.array([{"u": b"a" * 16}, None], pa.struct({"u": pa.binary(16)})).cast(
            pa.struct({"u": pa.uuid()})
        ),
    ]
    frames = [pa.table({"text": [NEWS, NEWS], "v": column}) for column in columns]
    frames.append(pl.DataFrame({"text": [NEWS] * 2, "v": pl.Series([(1,), {2}], dtype=pl.Object)}))
    for frame in frames:
        with pytest.raises(UsageError, match=r"^`collect`: the column 'v' has values of type "):
            esdedup.dedup(frame, collect="v", progress=fail)
        # They are filled, because rows keep their values.
        assert len(esdedup.dedup(frame, fill="v").kept) == 1


def test_a_transform_of_a_dataset_changes_what_is_compared_alone() -> None:
    columns = {"text": [NEWS, f"{NEWS.upper()}", OTHER], "v": [None, "a", "b"], "n": [1, 2, 3]}
    stored = imported("datasets").Dataset.from_dict(columns)

    def transform(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {**batch, **{"n": [-n for n in batch["n"]]}} if "n" in batch else batch

    changed = stored.with_transform(transform)
    result = esdedup.dedup(changed, collect="v", fill="n", keep="highest:n").kept
    assert result.format["type"] == "custom"
    assert result.with_format(None)[:] == {"text": [NEWS, OTHER], "v": [["a"], ["b"]], "n": [1, 3]}
    with_items = imported("datasets").Dataset.from_dict({"text": [f"{NEWS}. {ITEM}.", OTHER]})
    masked = esdedup.dedup(
        with_items.with_transform(dict), against=[ITEM], contained=0.8, mask=True
    )
    assert masked.kept.with_format(None)["text"][:] == [f"{NEWS}.", OTHER]
    upper = with_items.with_transform(lambda batch: {"text": [t.upper() for t in batch["text"]]})
    with pytest.raises(UsageError, match="the transform of the Dataset changes 'text'"):
        esdedup.dedup(upper, against=[ITEM], contained=0.8, mask=True)


FILLED: list[tuple[str, Callable[[], Any]]] = [
    (
        "decimal",
        lambda: pa.array([None, "1." + "1" * 30, "2"], pa.string()).cast(pa.decimal128(38, 30)),
    ),
    ("map", lambda: pa.array([None, [("k", 1)], [("k", 2)]], pa.map_(pa.string(), pa.int64()))),
    ("half", lambda: pa.array([None, 1.5, 2.5], pa.float16())),
    ("uuid", lambda: pa.array([None, b"a" * 16, b"b" * 16], pa.uuid())),
    ("views", lambda: pa.array([None, ["a"], ["b"]], pa.list_(pa.string_view()))),
    ("struct", lambda: pa.array([None, {"t": 1}, {"t": 2}], pa.struct({"t": pa.time64("ns")}))),
    ("coded", lambda: pa.array([None, "a", "b"]).dictionary_encode()),
]


@pytest.mark.parametrize(("name", "column"), FILLED, ids=[name for name, _ in FILLED])
def test_values_of_any_type_are_filled_as_they_are(name: str, column: Callable[[], Any]) -> None:
    values = column()
    table = pa.table({"text": [NEWS, NEWS, OTHER], "c": values})
    kept = esdedup.dedup(table, fill="c").kept
    assert kept.schema == table.schema
    assert kept["c"].to_pylist() == [values[1].as_py(), values[2].as_py()]


def test_columns_of_pandas_keep_their_types() -> None:
    frame = pd.DataFrame(
        {
            "text": [NEWS, NEWS, OTHER],
            "c": pd.Categorical([None, "a", "b"]),
            "n": pd.array([None, 2, 3], "Int64"),
            "t": pd.to_datetime([None, 1_234_567_891, 5], unit="ns", utc=True),
            "l": [None, [1], [2]],
        },
        index=[7, 7, 7],
    )
    kept = esdedup.dedup(frame, fill=["c", "n", "t", "l"]).kept
    assert [*kept.index] == [7, 7]
    assert (kept.dtypes == frame.dtypes).all()
    assert kept["c"].tolist() == ["a", "b"]
    assert kept["n"].tolist() == [2, 3]
    assert [time.value for time in kept["t"]] == [1_234_567_891, 5]
    assert kept["l"].tolist() == [[1], [2]]
    collected = esdedup.dedup(frame, collect=["t", "l"]).kept
    assert [time.value for times in collected["t"] for time in times] == [1_234_567_891, 5]


@given(
    numbers=st.lists(st.one_of(st.none(), st.integers(0, 86_399_999_999_999)), min_size=1),
    texts=st.data(),
)
def test_what_stays_has_the_values_that_it_had(
    numbers: list[int | None], texts: st.DataObject
) -> None:
    """A filled column of times has its own numbers, or the first ones of its duplicates."""
    of_rows = texts.draw(
        st.lists(st.sampled_from([NEWS, OTHER, ITEM]), min_size=len(numbers), max_size=len(numbers))
    )
    column = pa.array(numbers, pa.int64()).cast(pa.time64("ns"))
    kept = esdedup.dedup(pa.table({"text": of_rows, "c": column}), fill="c", exact=True).kept
    values = kept["c"].cast(pa.int64()).to_pylist()
    expected = []
    for text in dict.fromkeys(of_rows):
        of_text = [n for n, each in zip(numbers, of_rows, strict=True) if each == text]
        expected.append(next((n for n in of_text if n is not None), None))
    assert values == expected


def test_tables_with_views_are_split() -> None:
    pl = imported("polars")
    table = pa.table(
        pl.DataFrame({"text": [NEWS, OTHER, NEWS, ITEM], "n": [[str(n)] for n in range(4)]})
    )
    assert pa.types.is_string_view(table.schema.field("text").type)
    result = esdedup.dedup(table)
    assert result.kept.schema == result.removed.schema == table.schema
    assert result.kept["n"].to_pylist() == [["0"], ["1"], ["3"]]
    assert result.removed["text"].to_pylist() == [NEWS]
    assert esdedup.dedup(table[:0]).kept.num_rows == 0
    batch = esdedup.dedup(table.to_batches()[0])
    assert type(batch.kept) is pa.RecordBatch
    assert batch.kept["n"].to_pylist() == [["0"], ["1"], ["3"]]
