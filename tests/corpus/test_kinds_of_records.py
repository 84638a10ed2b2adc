"""Lists, frames, tables, datasets, streams and Parquet files of the same rows give one answer."""

import datetime
import decimal
import json
import re
import uuid
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from esdedup.exceptions import RecordError, UsageError
from esdedup.records.files import Record, read_records
from esdedup.stores.plain_values import in_memory, plain
from esdedup.text.instants import instant_of
from tests.helpers.commands import words
from tests.helpers.indices import open_index
from tests.helpers.packages import imported
from tests.helpers.places import Place

A = "the council approved the new budget for schools roads and parks on monday evening"
B = "a football match that nobody will remember ended without any goals in the rain"
KINDS = ["list", "pandas", "numpy", "polars", "table", "batch", "dataset", "reader"]
every_kind = pytest.mark.parametrize("kind", KINDS)
NOON = datetime.datetime(2024, 5, 1, 12)
BERLIN_NAME = "Europe/Berlin"
BERLIN = datetime.timezone(datetime.timedelta(hours=2))
IN_BERLIN = NOON.replace(tzinfo=BERLIN)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
Values = tuple[pa.DataType, list[Any]]
VALUES: Mapping[str, Values] = {
    "text": (pa.string(), ["p", "q", "第"]),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["q", "p", "q"]),
    "view": (pa.string_view(), ["q", "p", "q"]),
    "bytes": (pa.binary(), [b"q", b"p", "é".encode()]),
    "true": (pa.bool_(), [True, False, True]),
    "whole": (pa.int64(), [5, 9, 7]),
    "small": (pa.uint8(), [5, 9, 7]),
    "float": (pa.float64(), [5.5, 9.0, -7.25]),
    "single": (pa.float32(), [5.5, 9.0, -7.25]),
    "date": (pa.date32(), [datetime.date(2024, 1, day) for day in (2, 3, 1)]),
    "clock": (pa.time64("us"), [datetime.time(1, 2, 3, 4), datetime.time(9), datetime.time(8)]),
    "second": (pa.timestamp("s"), [NOON.replace(day=day) for day in (2, 3, 1)]),
    "micro": (pa.timestamp("us"), [NOON.replace(microsecond=micro) for micro in (2, 3, 1)]),
    "nano": (pa.timestamp("ns"), [1_234_567_002, 1_234_567_003, 1_234_567_000]),
    "zoned": (pa.timestamp("us", BERLIN_NAME), [IN_BERLIN.replace(day=d) for d in (2, 3, 1)]),
    "zoned nano": (pa.timestamp("ns", "UTC"), [1_234_567_002, 1_234_567_003, 1_234_567_000]),
    "span": (pa.duration("us"), [datetime.timedelta(hours=hours) for hours in (9, 31, 2)]),
    "money": (pa.decimal128(10, 2), [decimal.Decimal(n) for n in ("2.50", "9.00", "-7.25")]),
    "count": (pa.decimal128(10, 0), [decimal.Decimal(n) for n in (5, 9, 7)]),
    "precise": (pa.decimal128(38, 20), [decimal.Decimal(f"{n}." + "1" * 20) for n in (5, 9, 7)]),
    "texts": (pa.list_(pa.string()), [["p", "q"], ["q", "p"], []]),
    "days": (pa.list_(pa.date32()), [[NOON.date()], [NOON.date()], []]),
    "moments": (pa.list_(pa.timestamp("ns")), [[1_000], [1_001], []]),
    "numbers": (pa.list_(pa.int16()), [[1, 2], [2, 1], [3]]),
    "object": (pa.struct({"a": pa.date32(), "b": pa.int8()}), [{"a": NOON.date(), "b": 1}] * 3),
}  # fmt: skip
every_type = pytest.mark.parametrize("name", VALUES)


def rows_of(column: pa.Array) -> pa.Table:
    """Return rows of which the first two, and the next two, have one text."""
    texts = [A, A, f"{B} 1", f"{B} 1"]
    return pa.table({"n": range(4), "text": texts, "v": pa.concat_arrays([column, column[:1]])})


def column_of(name: str) -> pa.Array:
    kind, values = VALUES[name]
    return pa.array(values, kind)


def of_kind(kind: str, table: pa.Table) -> Any:
    if kind == "list":
        return table.to_pylist()
    if kind == "pandas":
        return table.to_pandas()
    if kind == "numpy":
        # Records of programs that read frames row by row.
        return [row.to_dict() for _, row in table.to_pandas().iterrows()]
    if kind == "polars":
        return imported("polars").from_arrow(table)
    if kind == "batch":
        return table.combine_chunks().to_batches()[0]
    if kind == "dataset":
        return imported("datasets").Dataset(table)
    return table.to_reader(3) if kind == "reader" else table


def numbers_of(records: Any) -> list[int]:
    """Return the numbers of records of any kind."""
    if isinstance(records, list):
        return [int(record["n"]) for record in records]
    column = records["n"]
    return [*(column.to_pylist() if hasattr(column, "to_pylist") else map(int, column))]


def of_file(table: pa.Table, **settings: Any) -> Any:
    """Return what stays of a Parquet file, or the message of a refusal."""
    pq.write_table(table, "rows.parquet")
    Path("clean").mkdir(exist_ok=True)
    try:
        esdedup.clean(["rows.parquet"], "clean/rows.parquet", **settings)
    except UsageError as error:
        return str(error)
    found = pq.read_table("clean/rows.parquet")["n"].to_pylist()
    for path in Path("clean").iterdir():
        path.unlink()
    return found


def in_program(records: Any, **settings: Any) -> Any:
    """Return what stays of records, or the message of a refusal."""
    try:
        return numbers_of(esdedup.dedup(records, **settings).kept)
    except UsageError as error:
        return str(error)


@every_type
@every_kind
def test_values_are_those_of_a_file(kind: str, name: str) -> None:
    table = rows_of(column_of(name))
    pq.write_table(table, "rows.parquet")
    expected = [each.source for each in read_records("rows.parquet") if isinstance(each, Record)]
    pairs = esdedup.pairs(of_kind(kind, table), source="v", threshold=0.9)
    shown = {pair.left: pair.left_source for pair in pairs}
    shown |= {pair.right: pair.right_source for pair in pairs}
    assert shown == {str(row): {"v": source["v"]} for row, source in enumerate(expected)}


RULES = {
    "first:v": ["text", "whole", "float", "date", "clock", "nano", "money", "count", "span"],
    "last:v": ["text", "whole", "small", "date", "zoned", "precise", "bytes", "view", "coded"],
    "newest:v": ["date", "second", "micro", "nano", "zoned nano", "whole", "texts", "moments"],
    "oldest:v": ["date", "zoned", "text"],
    "highest:v": ["whole", "small", "float", "single", "money", "count", "precise", "true", "days"],
    "first:v=9,2024-01-03,q": ["whole", "count", "date", "text", "texts", "float", "single"],
    "first:v=2.5,true": ["money", "true", "object"],
}


@pytest.mark.filterwarnings("ignore:keep ")
@pytest.mark.parametrize("keep", RULES)
def test_the_same_document_stays(keep: str) -> None:
    for name in RULES[keep]:
        table = rows_of(column_of(name))
        expected = of_file(table, keep=keep)
        for kind in KINDS:
            assert in_program(of_kind(kind, table), keep=keep) == expected, (kind, name)


@pytest.mark.filterwarnings("ignore:.*duplicates of none")
@every_type
def test_scopes_and_conflicts_are_the_same(name: str) -> None:
    table = rows_of(column_of(name))
    settings: list[dict[str, Any]] = [{"within": ["v"]}, {"conflict": "v"}]
    if name in ("date", "second", "micro", "nano", "zoned", "zoned nano"):
        settings += [{"within": ["v:1d"]}]
    for setting in settings:
        expected = of_file(table, **setting)
        for kind in KINDS:
            assert in_program(of_kind(kind, table), **setting) == expected, (kind, setting)


@every_kind
def test_lists_and_bytes_are_texts(kind: str) -> None:
    table = pa.table({"n": range(3), "text": [[A, B], [A, B], [B]]})
    assert in_program(of_kind(kind, table)) == of_file(table) == [0, 2]
    table = pa.table({"n": range(3), "text": [A.encode(), A.encode(), B.encode()]})
    assert in_program(of_kind(kind, table)) == of_file(table) == [0, 2]


@every_kind
def test_missing_values_are_one_thing(kind: str) -> None:
    for missing in (None, float("nan")):
        column = pa.array([missing, 5.0, missing])
        table = rows_of(column)
        for setting in ({"keep": "highest:v"}, {"keep": "first:v"}, {"conflict": "v"}):
            assert in_program(of_kind(kind, table), **setting) == in_program(
                rows_of(pa.array([None, 5.0, None])).to_pylist(), **setting
            )


ODD = [
    datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(-datetime.timedelta(hours=9))),
    datetime.datetime(1, 1, 1, tzinfo=BERLIN), pd.Timestamp.max, pd.Timestamp(0, tz="Asia/Tokyo"),
    pd.NaT, pd.NA, np.datetime64("NaT"), np.datetime64("2024-05"), np.datetime64(1, "ns"),
    np.timedelta64("NaT"), np.timedelta64(3, "s"), pd.Timedelta(3), datetime.timedelta(1),
    decimal.Decimal("NaN"), decimal.Decimal("sNaN"), decimal.Decimal("-Infinity"),
    decimal.Decimal("1E+3"), np.int64(9), np.float32(0.5), np.longdouble(2), np.bool_(True),
    np.str_("x"), np.bytes_(b"x"), b"\xff", np.complex128(1j), 1j, ID, {1, 2}, object(),
    np.array(3), np.array([[1, 2]]), np.array([NOON], "M8[ns]"), np.array([ID, None], object),
    [NOON, (NOON, {"a": NOON})], {"a": np.int8(1)}, float("inf"), pd.Interval(0, 1),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:keep ", "ignore:.*duplicates of none")
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_no_value_of_a_record_ends_in_another_error(value: Any) -> None:
    rows = [{"text": A, "v": value}, {"text": A, "v": 5}, {"text": A}]
    every: list[dict[str, Any]] = [
        *({"keep": f"{rule}:v"} for rule in ("first", "last", "newest", "oldest", "highest")),
        {"keep": "first:v=5,x"},
        {"within": ["v"]},
        {"conflict": "v"},
        {"within": ["v:3d"]},
    ]
    for settings in every:
        try:
            esdedup.dedup(rows, **settings)
        except UsageError:
            assert "within" not in settings
    json.dumps([pair.left_source for pair in esdedup.pairs(rows, source="v")])


def test_numbers_of_numpy_are_numbers() -> None:
    rows: list[dict[str, Any]] = [{"text": A, "v": np.int64(9)}, {"text": A, "v": 5}]
    for keep in ("highest:v", "last:v", "first:v=9"):
        assert esdedup.dedup(rows, keep=keep).kept == rows[:1]
        rows[0]["v"] = decimal.Decimal(9)
    # The records themselves are as they were.
    assert type(rows[0]["v"]) is decimal.Decimal
    assert [group.representative for group in esdedup.group(rows, id="v", keep="last")] == ["9"]


TIMES = st.datetimes(timezones=st.one_of(st.none(), st.timezones()))


@given(TIMES)
def test_a_time_is_the_same_as_text(time: datetime.datetime) -> None:
    written = in_memory(time)
    assert type(written) is str
    assert instant_of(written) == instant_of(time)


@given(
    st.recursive(
        st.one_of(
            st.none(), st.booleans(), st.integers(), st.text(), st.dates(), st.times(), TIMES,
            st.decimals(allow_nan=False, allow_infinity=False), st.uuids(),
            st.floats(allow_nan=False, allow_infinity=False),
            st.integers(-(2**63), 2**63 - 1).map(np.int64), st.integers(0, 9).map(np.float32),
            st.lists(st.integers(0, 9)).map(np.array),
        ),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)  # fmt: skip
def test_a_value_of_a_program_is_one_of_json(value: Any) -> None:
    try:
        found = plain(value)
    except OverflowError:
        return
    assert json.loads(json.dumps(found)) == found
    assert plain(found) == found


STORED = [
    (np.datetime64("2026-01-01", "ns"), "2026-01-01T00:00:00"),
    (np.datetime64(1, "ns"), "1970-01-01T00:00:00.000000001"),
    (np.datetime64("20000-01-01T00", "h"), "20000-01-01T00"),
    (np.array(["2026-01-01"], "M8[ns]"), ["2026-01-01T00:00:00"]),
    (IN_BERLIN, "2024-05-01T10:00:00Z"),
    (pd.NaT, None),
    (decimal.Decimal(10**15), 10**15),
    ({"a": np.int8(1), "b": ID, "c": (1, 2)}, {"a": 1, "b": str(ID), "c": [1, 2]}),
]


@pytest.mark.on_every_server
def test_values_of_a_program_are_stored_as_those_of_a_file(place: Place) -> None:
    records = [{"id": n, "text": words(n), f"v{n}": value} for n, (value, _) in enumerate(STORED)]
    # The server chooses no type for it.
    records[2]["v2"] = {"a": [records[2]["v2"]]}
    with open_index(place) as index:
        index.add(records)
        for n, (_, expected) in enumerate(STORED):
            stored = index.get(str(n)).source[f"v{n}"]
            assert stored == ({"a": [expected]} if n == 2 else expected)
        spans: list[Any] = [np.timedelta64(5, "ns"), datetime.timedelta(1), pd.Timedelta(5)]
        for span in spans:
            with pytest.raises(RecordError, match=r"(?i)a timedelta.* has no form in JSON"):
                index.add([{"id": "span", "text": A, "v": span}])


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "s", "ms", "us"])
def test_a_time_of_numpy_beyond_the_calendar_is_no_other_time(unit: Any) -> None:
    late = np.datetime64("20000", "Y").astype(f"M8[{unit}]")
    assert str(plain(late)).startswith("20000-01")
    rows = [{"text": A, "v": late}, {"text": A, "v": NOON}, {"text": A, "v": None}]
    with pytest.warns(UserWarning, match="1 document has a value that is no time"):
        kept = esdedup.dedup(rows, keep="newest:v").kept
    assert kept == rows[1:2]


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
def test_a_missing_text_is_no_error(missing: Any) -> None:
    pl, texts = imported("polars"), [A, None, A]
    column: Any
    columns: list[Any] = [[A, missing, A], pd.Series([A, missing, A]), np.array([A, missing, A])]
    columns += [pa.array(texts), pa.chunked_array([texts]), pl.Series(texts)]
    for column in columns:
        found = esdedup.dedup(column)
        assert [each.row for each in found.duplicates] == [2]
        assert len(found.kept) == 2
        assert len(esdedup.pairs(column)) == 1
        assert [each.row for each in esdedup.dedup([A, B], against=column).duplicates] == [0]
    without_text: Any = [missing, missing]
    assert esdedup.dedup(without_text).removed == []
    wrong: Any = [A, 3]
    with pytest.raises(RecordError, match="record 1: use a mapping or text, not int"):
        esdedup.dedup(wrong)


def test_a_field_may_be_in_later_batches_only() -> None:
    datasets = imported("datasets")
    many = [{"other": 1}] * 10_000
    rows: dict[str, list[dict[str, Any]]] = {
        "first batch": [*({"text": words(n, 12)} for n in range(10_000)), *many[:3]],
        "last batch": [*many, {"text": A}, {"text": A}],
        "last id": [*({"text": ""} for _ in many), {"text": A, "id": "z"}, {"text": A, "id": "y"}],
    }
    for name, records in rows.items():
        made = datasets.IterableDataset.from_generator(lambda records=records: iter(records))
        id = "id" if name == "last id" else None
        found = esdedup.pairs(made, id=id, threshold=0.99)
        assert found.to_arrow() == esdedup.pairs(records, id=id, threshold=0.99).to_arrow()
    nothing = datasets.IterableDataset.from_generator(lambda: iter(many * 2))
    with pytest.raises(UsageError, match=r"no record has the field 'text'.* There are: other"):
        esdedup.group(nothing)
    with pytest.raises(UsageError, match=r"no record has the field 'id'.* There are: text"):
        esdedup.group(
            datasets.IterableDataset.from_generator(lambda: iter([{"text": A}] * 2)), id="id"
        )


LOSSES: Mapping[str, tuple[dict[str, Any], list[str]]] = {
    "buckets": ({"max_per_bucket": 1}, ["missing is unknown", "buckets hold more than 1 doc"]),
    "scope": ({"within": ["w"]}, ["20 documents lack a value of 'w': duplicates of none"]),
    "order": ({"keep": "newest:d"}, ["1 document has a value that is no time, .* 'soon' of"]),
    "both": (
        {"within": ["w"], "keep": "highest:d"},
        ["20 documents lack a value of 'w'", "keep highest:d: 40 documents have a value that is"],
    ),
    "nothing": ({"keep": "newest:day", "conflict": "w"}, []),
}


@pytest.mark.parametrize("case", LOSSES)
def test_nothing_is_lost_without_a_warning(case: str) -> None:
    rows = [
        {"text": f"{A} {n}", "d": "2020-01-01" if n else "soon", "w": None if n % 2 else 1}
        for n in range(40)
    ]
    rows = [{**row, "day": "2020-01-01"} for row in rows]
    settings, messages = LOSSES[case]
    if case == "both":
        rows[0]["d"] = 5
        messages = [message.replace("40", "39") for message in messages]
    calls = [esdedup.dedup, esdedup.group]
    if "keep" not in settings:
        calls.append(esdedup.pairs)
    call: Any
    for call in calls:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(rows, **settings)
        assert len(caught) == len(messages)
        for warning, message in zip(caught, messages, strict=True):
            assert re.search(message, str(warning.message))
            assert warning.category is UserWarning
            # That of the call, not of a line of esdedup.
            assert warning.filename == __file__


@every_kind
def test_the_keep_field_of_what_is_only_compared_with_is_not_read(kind: str) -> None:
    texts = [A, A, B]
    table = pa.table({"n": range(3), "text": texts, "v": ["2024-01-01", "2024-01-02", "2024"]})
    against = pa.table({"text": ["x y", f"{B}!"], "v": [1_772_366_400] * 2})
    for keep in ("newest:v", ["longest", "newest:v"], "last:v"):
        found = esdedup.dedup(of_kind(kind, table), against=of_kind(kind, against), keep=keep)
        assert numbers_of(found.kept) == [1], keep
    wrong = pa.table({"n": range(3), "text": texts, "v": ["soon", "2024-01-02", "1772366400"]})
    said = "document '1' has dates and document '2' has seconds since 1970"
    with pytest.raises(UsageError, match=said):
        esdedup.dedup(of_kind(kind, wrong), against=of_kind(kind, against), keep="newest:v")
    wrong = pa.table({"n": range(3), "text": texts, "v": ["soon", "2024-01-02", "2024"]})
    with pytest.warns(UserWarning, match="1 document has a value .* 'soon' of document '0'"):
        esdedup.dedup(of_kind(kind, wrong), against=of_kind(kind, against), keep="newest:v")


def test_a_list_without_numbers_is_no_vector() -> None:
    rows: Any
    for rows in ([{"v": []}, {"v": [1.0, 2.0]}], [{"v": np.array([])}]):
        with pytest.raises(UsageError, match="the first vector in the field 'v' is an empty list"):
            esdedup.pairs(rows, vector="v")
