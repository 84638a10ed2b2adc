"""Documents that stay take values of fields from their duplicates: `collect` and `fill`."""

import json
import tempfile
from collections.abc import Mapping
from decimal import Decimal
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
from esdedup import UsageError
from esdedup.exceptions import InputError
from esdedup.records.merge import Merge
from tests.helpers.commands import read_lines, run_command, words, write_lines
from tests.helpers.packages import imported

COPY, OTHER = words(1), words(2)


def write_copies() -> None:
    """Write two files: three copies with different fields, and a text of its own."""
    first = f'{{"id": 1, "text": "{COPY}",  "url": "a", "price": 1.10}}\n'
    other = f'{{ "text": "{OTHER}" , "url":"z", "id": 2}}\n'
    Path("in").mkdir()
    Path("in/a.jsonl").write_text(first + other)
    copies = [
        {"id": 3, "text": COPY, "url": ["b", "a"], "author": "Ann", "meta": {"tags": "x"}},
        {"id": 4, "text": COPY, "url": None, "author": "Bob", "meta": {"tags": ["y", "x"]}},
    ]
    write_lines(Path("in/b.jsonl"), copies)


def test_what_stays_takes_values_and_keeps_its_other_bytes() -> None:
    write_copies()
    fields = ["url", "meta.tags"]
    report = esdedup.clean("in", "out", collect=fields, fill="author")
    first = f'{{"id": 1, "text": "{COPY}",  "url": ["a","b"], "price": 1.10'
    taken = ',"meta":{"tags":["x","y"]},"author":"Ann"}\n'
    other = f'{{ "text": "{OTHER}" , "url":["z"], "id": 2}}\n'
    assert Path("out/a.jsonl").read_text() == first + taken + other
    assert Path("out/b.jsonl").read_bytes() == b""
    merged = report.merged
    assert merged is not None
    assert (merged.documents, merged.values) == (1, {"url": 1, "meta.tags": 2, "author": 1})
    (sample,) = merged.samples
    new_values = {"url": ["a", "b"], "meta.tags": ["x", "y"], "author": "Ann"}
    assert (sample.file, sample.line, sample.values) == ("in/a.jsonl", 1, new_values)
    assert esdedup.CleanReport.open("out") == report
    assert esdedup.clean("in", None, collect=fields, fill="author") == report


def test_files_and_records_collect_fields_of_the_scope() -> None:
    """They are compared only once, unlike documents of an index."""
    records = [{"text": COPY, "date": f"2026-03-0{day}"} for day in (1, 2, 9)]
    dates: list[Any] = [["2026-03-01", "2026-03-02"], ["2026-03-09"]]
    result = esdedup.dedup(records, within="date:3d", collect="date")
    assert [record["date"] for record in result.kept] == dates
    write_lines(Path("a.jsonl"), records)
    esdedup.clean("a.jsonl", "out.jsonl", within="date:3d", collect="date")
    assert [record["date"] for record in read_lines(Path("out.jsonl"))] == dates


def test_a_command_shows_and_writes_new_values() -> None:
    write_copies()
    options = ["--collect", "url", "--fill", "author", "--fill", "meta"]
    shown = run_command("clean", "in", *options, "--table", status=0)
    assert "New values of 1 document" in shown.out
    assert '["a", "b"]' in shown.out
    summary = "1 document takes values of duplicates: 1 of url, 1 of author, 1 of meta"
    assert summary in shown.err
    assert json.loads(run_command("clean", "in", *options).out)["merged"]["values"] == {
        "url": 1, "author": 1, "meta": 1,
    }  # fmt: skip
    run_command("clean", "in", *options, "-o", "out", status=0)
    assert read_lines("out/a.jsonl")[0]["meta"] == {"tags": "x"}
    run_command("clean", "in", *options, "-o", "out.jsonl", status=0)
    assert Path("out.jsonl").read_bytes() == Path("out/a.jsonl").read_bytes()
    assert "merged" not in json.loads(run_command("clean", "in").out)


def test_the_document_that_stays_may_be_in_a_later_file() -> None:
    write_copies()
    esdedup.clean("in", "out", keep="last", collect="url", method="components")
    assert read_lines("out/b.jsonl")[0]["url"] == ["a", "b"]
    assert [record["id"] for record in read_lines("out/a.jsonl")] == [2]


def test_what_duplicates_a_document_of_other_files_gives_nothing() -> None:
    write_copies()
    report = esdedup.clean("in/b.jsonl", "out", against="in/a.jsonl", collect="url")
    assert report.merged is not None
    assert (report.removed, report.merged.documents) == (2, 0)


def test_elements_of_an_array_take_values() -> None:
    write_copies()
    elements = [*Path("in/a.jsonl").read_text().splitlines(), json.dumps({"text": COPY, "url": 7})]
    Path("array.jsonl").write_text("[" + " ,\n".join(elements) + "\n]")
    esdedup.clean("array.jsonl", "out.jsonl", collect="url")
    first, other = elements[0].replace('"a"', '["a",7]'), elements[1].replace('"z"', '["z"]')
    assert Path("out.jsonl").read_text() == f"[{first} ,\n{other}\n]"


@pytest.mark.parametrize("is_array", [False, True])
def test_numbers_keep_their_digits(is_array: bool) -> None:
    place = '{"lat": 52.12345678901234567890, "lon": -0.50}'
    lines = [
        f'{{"id": 1, "text": "{COPY}", "sizes": 2.50}}',
        f'{{"id": 2, "text": "{OTHER}", "sizes": 499.90, "place": [1.10]}}',
        f'{{"text": "{COPY}", "price": 100.10, "sizes": [2.5, 3, 1E+2], "place": {place}}}',
    ]
    between = ",\n" if is_array else "\n"
    text = between.join(lines)
    Path("in.json").write_text(f"[{text}]" if is_array else f"{text}\n")
    esdedup.clean("in.json", "out.json", collect="sizes", fill=["price", "place"])
    first = lines[0].replace("2.50}", "[2.50,3,1E+2]")
    first += f',"price":100.10,"place":{place.replace(": ", ":").replace(", ", ",")}}}'
    expected = between.join([first, lines[1].replace("499.90", "[499.90]")])
    assert Path("out.json").read_text() == (f"[{expected}]" if is_array else f"{expected}\n")


integers = st.integers(-(10**30), 10**30).map(str)
fractions = st.from_regex(
    r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,25}([eE][+-]?[0-9]{1,2})?)", fullmatch=True
)


def distinct_numbers(numbers: list[str]) -> list[str]:
    """Return the first of equal numbers. 1 and 1.0 differ, and 0.0 and -0.0."""
    first: dict[object, str] = {}
    for number in numbers:
        value = Decimal(number)
        first.setdefault(("." in number, value.is_signed(), value), number)
    return [*first.values()]


@given(st.lists(integers | fractions, max_size=4), st.lists(integers | fractions, min_size=1))
def test_each_number_is_taken_once_with_its_first_digits(
    present: list[str], taken: list[str]
) -> None:
    lines = [
        f'{{"text": "{COPY}", "numbers": [{",".join(numbers)}]}}' for numbers in (present, taken)
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.jsonl"), Path(folder, "out.jsonl")
        source.write_text("\n".join(lines) + "\n")
        esdedup.clean(source, target, collect="numbers")
        (record,) = target.read_text().splitlines()
    collected = distinct_numbers(present + taken)
    if len(collected) > len(distinct_numbers(present)):
        assert record == f'{{"text": "{COPY}", "numbers": [{",".join(collected)}]}}'
    else:
        assert record == lines[0]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_columns_become_lists(ending: str) -> None:
    columns = {
        "text": [COPY, OTHER, COPY, OTHER],
        "url": ["a", None, "b", "c"],
        "tags": [[1], [2], [3, 1], None],
        "author": [None, "Ann", "Bob", None],
        "price": [1.5, 2.5, 3.5, 4.5],
    }
    table = pa.table(columns)
    file = Path(f"in.{ending}")
    if ending == "parquet":
        pq.write_table(table, file, row_group_size=1)
    else:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=1)
    esdedup.clean(file, f"out.{ending}", collect=["url", "tags"], fill="author")
    read = pq.read_table if ending == "parquet" else lambda path: pa.ipc.open_file(path).read_all()
    cleaned = read(f"out.{ending}")
    assert cleaned.schema.field("url").type == pa.list_(pa.string())
    assert cleaned.schema.field("price").type == pa.float64()
    assert cleaned.to_pydict() == {
        "text": [COPY, OTHER],
        "url": [["a", "b"], ["c"]],
        "tags": [[1, 3], [2]],
        "author": ["Bob", "Ann"],
        "price": [1.5, 2.5],
    }


@pytest.mark.parametrize("setting", ["collect", "fill"])
def test_nan_is_no_value(setting: str) -> None:
    how: dict[str, Any] = {setting: "price"}
    table = pa.table({"text": [COPY, OTHER, COPY], "price": [np.nan, np.nan, 2.5]})
    pq.write_table(table, "in.parquet")
    esdedup.clean("in.parquet", "out.parquet", **how)
    prices = pq.read_table("out.parquet")["price"].to_pylist()
    # A column that is not changed keeps its values.
    expected = [[2.5], None] if setting == "collect" else [2.5, np.nan]
    assert repr(prices) == repr(expected)
    of_arrow = esdedup.dedup(table, **how).kept["price"].to_pylist()
    of_polars = esdedup.dedup(imported("polars").DataFrame(table), **how).kept["price"].to_list()
    assert repr(of_arrow) == repr(of_polars) == repr(expected).replace("np.float64(nan)", "nan")
    lines = [f'{{"text": "{COPY}", "price": NaN}}', f'{{"text": "{COPY}", "price": 2.5}}']
    Path("in.jsonl").write_text("\n".join(lines))
    esdedup.clean("in.jsonl", "out.jsonl", **how)
    value = "[2.5]" if setting == "collect" else "2.5"
    assert Path("out.jsonl").read_text() == f'{{"text": "{COPY}", "price": {value}}}\n'


def test_records_that_no_store_accepts_take_and_give_values() -> None:
    first = f'{{"text": "{COPY}", "url": "x", "url": "a", "other": NaN, "half": "\\ud83d"}}\n'
    second = f'{{"text": "{COPY}", "url": ["b"], "id": 0.5, "author": "Ann", "author": "Bob"}}\n'
    Path("in.jsonl").write_text(first + second)
    esdedup.clean("in.jsonl", "out.jsonl", collect="url", fill="author")
    taken = first.replace('"a"', '["a","b"]').replace("}\n", ',"author":"Bob"}\n')
    assert Path("out.jsonl").read_text() == taken
    # A value of its own stays, whatever it is.
    esdedup.clean("in.jsonl", "half.jsonl", collect=["half", "other"])
    halves = first.replace('"\\ud83d"', '["\\ud83d"]').replace("NaN", "[]")
    assert Path("half.jsonl").read_text() == halves


@pytest.mark.parametrize("setting", ["collect", "fill"])
@pytest.mark.parametrize("is_array", [False, True])
def test_a_value_that_json_lacks_costs_no_other_value(setting: str, is_array: bool) -> None:
    lines = [
        f'{{"text": "{COPY}"}}',
        f'{{"text": "{COPY}", "v": Infinity, "w": "\\ud83d"}}',
        f'{{"text": "{COPY}", "v": {{"a": NaN, "b": 1.50}}, "w": [NaN, 2.0]}}',
        f'{{"text": "{OTHER}", "v": -Infinity}}',
    ]
    text = ",\n".join(lines) if is_array else "\n".join(lines)
    Path("in.json").write_text(f"[{text}]" if is_array else text)
    done = run_command(
        "clean", "in.json", "-o", "out.json", f"--{setting}", "v", f"--{setting}", "w"
    )
    assert done.status == 1
    assert "values of 1 duplicate have no form in JSON: see clean.dead-letter.jsonl" in done.err
    (letter,) = read_lines("clean.dead-letter.jsonl")
    assert (letter["file"], letter["line"]) == ("in.json", 2)
    assert "its value of 'v' can't be written as JSON" in letter["reason"]
    assert letter["record"] == '{"v":Infinity,"w":"\\ud83d"}'
    report = json.loads(done.out)
    assert (report["failed"], report["removed"]) == (0, 2)
    assert (report["merged"]["documents"], report["merged"]["untaken"]) == (1, 1)
    has_list = setting == "collect"
    values = (
        '"v":[{"a":null,"b":1.50}],"w":[2.0]'
        if has_list
        else '"v":{"a":null,"b":1.50},"w":[null,2.0]'
    )
    first = lines[0].replace("}", f",{values}}}")
    last = lines[3].replace("-Infinity", "[-Infinity]") if has_list else lines[3]
    written = f"[{first},\n{last}]" if is_array else f"{first}\n{last}\n"
    assert Path("out.json").read_text().rstrip() == written.rstrip()


def test_a_value_that_json_lacks_and_that_what_stays_has_is_no_fault() -> None:
    lines = [
        f'{{"text": "{COPY}", "v": [{values}]}}' for values in ("Infinity, 1", "Infinity", "2")
    ]
    Path("in.jsonl").write_text("\n".join(lines))
    report = esdedup.clean("in.jsonl", "out.jsonl", collect="v")
    assert report.merged is not None
    assert report.merged.untaken == 0
    assert Path("out.jsonl").read_text().rstrip() == lines[0].replace("Infinity, 1", "Infinity,1,2")
    # The report is JSON that any program reads.
    shown = run_command("clean", "in.jsonl", "--collect", "v", status=0).out
    assert '["Infinity", 1, 2]' in shown


def test_tables_hold_infinity_and_lists_with_nan() -> None:
    columns = {
        "text": [COPY, COPY, OTHER],
        "f": [[1.5], [np.nan, 2.5], [np.inf]],
        "g": [1.5, -np.inf, np.nan],
    }
    table = pa.table(columns)
    pq.write_table(table, "in.parquet")
    report = esdedup.clean("in.parquet", "out.parquet", collect=["f", "g"])
    in_memory = esdedup.dedup(table, collect=["f", "g"]).kept
    cleaned = pq.read_table("out.parquet")
    assert cleaned["f"].to_pylist() == in_memory["f"].to_pylist() == [[1.5, 2.5], [np.inf]]
    assert cleaned["g"].to_pylist()[0] == in_memory["g"].to_pylist()[0] == [1.5, -np.inf]
    assert report.merged is not None
    assert (report.merged.values, report.merged.untaken) == ({"f": 1, "g": 1}, 0)


@pytest.mark.parametrize("levels", [300, 480, 498])
@pytest.mark.parametrize("kind", ["[]", '{"a":}'])
def test_a_deeply_nested_value_is_taken(levels: int, kind: str) -> None:
    opening, closing = kind[:-1], kind[-1]
    value = f"{opening * levels}1.50{closing * levels}"
    lines = [f'{{"text": "{COPY}"}}', f'{{"text": "{COPY}", "v": {value}}}']
    Path("in.jsonl").write_text("\n".join(lines))
    report = esdedup.clean("in.jsonl", "filled.jsonl", fill="v")
    assert report.merged is not None
    assert (report.merged.documents, report.merged.untaken) == (1, 0)
    assert Path("filled.jsonl").read_text() == f'{{"text": "{COPY}","v":{value}}}\n'
    esdedup.clean("in.jsonl", "collected.jsonl", collect="v")
    expected = value if kind == "[]" else f"[{value}]"
    assert Path("collected.jsonl").read_text() == f'{{"text": "{COPY}","v":{expected}}}\n'


def test_a_value_that_is_nested_too_deeply_is_not_taken() -> None:
    value = "[" * 600 + "1.50" + "]" * 600
    lines = [
        f'{{"text": "{COPY}"}}',
        f'{{"text": "{COPY}", "v": {value}}}',
        f'{{"text": "{OTHER}"}}',
    ]
    Path("in.jsonl").write_text("\n".join(lines))
    done = run_command("clean", "in.jsonl", "-o", "out.jsonl", "--fill", "v", status=1)
    assert "in.jsonl:2: no other record can take values of it: nested too deeply" in done.err
    assert Path("out.jsonl").read_text().splitlines() == [lines[0], lines[2]]
    Path("in.jsonl").write_text("\n".join(lines[1:]))
    esdedup.clean("in.jsonl", "own.jsonl", collect="v")
    assert Path("own.jsonl").read_text().splitlines() == lines[1:]


@pytest.mark.parametrize("digits", [401, 1_000, 5_000])
def test_integers_keep_all_their_digits(digits: int) -> None:
    number = "-" + "9" * digits
    lines = [
        f'{{"text": "{COPY}", "v": 1.50}}',
        f'{{"text": "{COPY}", "v": [{number}, "{number}"], "w": {number}}}',
        f'{{"text": "{OTHER}", "v": {number}}}',
    ]
    Path("in.jsonl").write_text("\n".join(lines))
    esdedup.clean("in.jsonl", "out.jsonl", collect="v", fill="w")
    first, other = Path("out.jsonl").read_text().splitlines()
    assert first == f'{{"text": "{COPY}", "v": [1.50,{number},"{number}"],"w":{number}}}'
    assert other == lines[2].replace(number, f"[{number}]")


def test_a_killed_run_resumes_with_the_same_values() -> None:
    write_copies()
    whole = esdedup.clean("in", "whole", collect="url")

    def end(step: str, *_: int) -> None:
        if step == "Writing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        esdedup.clean("in", "out", collect="url", progress=end)
    with pytest.raises(UsageError, match="unfinished run with another collect"):
        esdedup.clean("in", "out", collect="author")
    steps = list[str]()
    report = esdedup.clean("in", "out", collect="url", progress=lambda step, *_: steps.append(step))
    assert {*steps} == {"Writing"}
    assert report == whole
    assert Path("out/a.jsonl").read_bytes() == Path("whole/a.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", f"text,url\n{COPY},a\n", "`collect` requires JSON lines or tables, not csv"),
        ("a.txt", COPY, "`collect` requires JSON lines or tables, not text"),
    ],
)
def test_formats_without_lists_are_refused(name: str, content: str, message: str) -> None:
    Path(name).write_text(content)
    with pytest.raises(UsageError, match=message):
        esdedup.clean(name, "out", collect="url")
    assert not Path("out").exists()


def test_fields_that_cant_be_taken_are_refused() -> None:
    write_copies()
    with pytest.raises(UsageError, match="`collect` text: documents are compared by"):
        esdedup.clean("in", "out", collect="text")
    with pytest.raises(UsageError, match="'url' is named in both `collect` and `fill`"):
        esdedup.clean("in", "out", collect="url", fill="url")
    with pytest.raises(UsageError, match="`fill` can't be combined with `unit`"):
        esdedup.clean("in", "out", fill="url", unit="line")
    with pytest.raises(UsageError, match="collect: give a list"):
        Merge.parse(7)  # type: ignore[arg-type]
    pq.write_table(pa.table({"text": [COPY], "day": pa.array([1], pa.date32())}), "in.parquet")
    for field, message in {
        "url": "there is no column 'url'",
        "day": "values of type date32",
    }.items():
        with pytest.raises(UsageError, match=message):
            esdedup.clean("in.parquet", "out", collect=field)


def test_a_field_below_a_text_is_no_place_for_values() -> None:
    write_lines(
        Path("in.jsonl"), [{"text": COPY, "meta": "none"}, {"text": COPY, "meta": {"url": "a"}}]
    )
    with pytest.raises(InputError, match="line 1: its field 'meta' is no object"):
        esdedup.clean("in.jsonl", "out.jsonl", collect="meta.url")


@pytest.mark.parametrize(
    ("values", "duplicates", "expected"),
    [
        ({"tags": "a"}, [{"tags": "a"}], {}),
        ({"tags": ["a", "a"]}, [{"tags": ["a"]}], {}),
        ({}, [{"tags": ["a", None, ""]}], {"tags": ["a"]}),
        (
            {"tags": 1},
            [{"tags": True}, {"tags": 1.5}, {"tags": "1"}],
            {"tags": [1, True, 1.5, "1"]},
        ),
        ({"tags": {"a": 1, "b": 2}}, [{"tags": {"b": 2, "a": 1}}], {}),
        ({"tags": {"a": 1}}, [{"tags": [{"a": 2}]}], {"tags": [{"a": 1}, {"a": 2}]}),
        ({"by": float("nan")}, [{"by": np.float32("nan")}, {"by": 2}, {"by": 3}], {"by": 2}),
        ({"by": "", "tags": 1}, [{"by": []}, {"by": 0}, {"by": "Ann"}], {"by": 0}),
    ],
)
def test_values_are_distinct_as_json(
    values: Mapping[str, Any], duplicates: list[Mapping[str, Any]], expected: Mapping[str, Any]
) -> None:
    merge = Merge(("tags",), ("by",))
    present = merge.values_in(values)
    new_values = merge.new_values(present, map(merge.values_in, duplicates))
    assert json.dumps(new_values) == json.dumps(expected)


def copies() -> list[dict[str, Any]]:
    """Return three copies of a text with other fields, and a text of its own."""
    return [
        {"text": COPY, "url": "a", "author": None},
        {"text": OTHER, "url": "z", "author": "Z"},
        {"text": COPY, "url": "b", "author": "Ann"},
        {"text": COPY, "url": None, "author": "Bob"},
    ]


EXPECTED = [
    {"text": COPY, "url": ["a", "b"], "author": "Ann"},
    {"text": OTHER, "url": ["z"], "author": "Z"},
]


def test_records_in_memory_take_values() -> None:
    records = copies()
    result = esdedup.dedup(records, collect="url", fill="author")
    assert result.kept == EXPECTED
    assert records == copies()
    assert result.removed == copies()[2:]
    assert result.rethreshold(0.9).kept == EXPECTED
    pl = imported("polars")
    of_frame = esdedup.dedup(pl.DataFrame(records), collect=["url"], fill=["author"]).kept
    assert of_frame.to_dicts() == EXPECTED
    assert of_frame.schema["url"] == pl.List(pl.String)
    of_pandas = esdedup.dedup(pd.DataFrame(records), collect="url", fill="author").kept
    assert of_pandas.to_dict("records") == EXPECTED
    of_table = esdedup.dedup(pa.Table.from_pylist(records), collect="url", fill="author").kept
    assert of_table.to_pylist() == EXPECTED
    assert of_table.schema.field("url").type == pa.list_(pa.string())
    of_table = esdedup.dedup(of_table.slice(0, 2), collect="url").kept
    assert of_table.to_pylist() == EXPECTED


MISSING: list[Any] = [
    None, np.nan, pd.NaT, pd.NA, np.datetime64("NaT"), np.timedelta64("NaT"), Decimal("NaN"), "",
    np.array([]), [pd.NaT, ""], (), np.array([np.nan]),
]  # fmt: skip


@pytest.mark.parametrize("missing", MISSING, ids=map(repr, MISSING))
def test_what_is_missing_in_frames_is_missing_in_lists(missing: Any) -> None:
    time = pd.Timestamp(1_234_567_891)
    records: list[dict[str, Any]] = [
        {"text": COPY, "v": missing},
        {"text": COPY, "v": time},
        {"text": OTHER, "v": time},
        {"text": OTHER, "v": missing},
    ]
    kept = esdedup.dedup(records, fill="v").kept
    assert [record["v"] for record in kept] == [time, time]
    kept = esdedup.dedup(records, collect="v").kept
    assert [record["v"] for record in kept] == [[time], [time]]


def test_values_of_programs_are_collected_once_and_stay_what_they_are() -> None:
    values: list[Any] = [
        np.array([1, 2]), (2, 3), np.int64(3), "3", 3, np.array(4), pd.Timestamp("2020-01-01"),
        np.datetime64("2020-01-01", "ns"), np.timedelta64(1, "s"), np.timedelta64(1, "D"),
        {"t": pd.Timestamp(0)}, {"t": np.datetime64(0, "ns")}, np.array([[5, 6]]), [[5, 6]],
    ]  # fmt: skip
    records = [{"text": COPY, "v": value} for value in values]
    (kept,) = esdedup.dedup(records, collect="v").kept
    expected = [1, 2, 3, "3", np.array(4), values[6], values[8], values[9], values[10], [5, 6]]
    assert repr(kept["v"]) == repr(expected)
    assert type(kept["v"][5]) is pd.Timestamp


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, np.float32("nan")])
def test_a_missing_vector_in_a_list_is_near_no_other(missing: Any) -> None:
    vectors: list[Any] = [missing, [1.0, 0.5], np.array([1.0, 0.5]), missing]
    for records, path in (
        ([{"v": vector} for vector in vectors], "v"),
        ([{"a": {"v": vector}} for vector in vectors], "a.v"),
    ):
        result = esdedup.dedup(records, vector=path)
        assert [duplicate.row for duplicate in result.duplicates] == [2]


def test_records_of_others_give_no_values() -> None:
    records: list[dict[str, Any]] = [{"text": COPY, "url": "b"}, {"text": OTHER, "url": "z"}]
    kept = esdedup.dedup(records, against=[COPY], collect="url").kept
    assert kept == [{"text": OTHER, "url": ["z"]}]
    nested = [{"text": COPY, "meta": {"n": 1}}, {"text": COPY, "meta": {"tags": "x"}}]
    kept = esdedup.dedup(nested, collect="meta.tags").kept
    assert kept == [{"text": COPY, "meta": {"n": 1, "tags": ["x"]}}]


def test_texts_and_items_are_refused() -> None:
    refusals: list[tuple[Any, dict[str, Any], str]] = [
        ([COPY, COPY], {"collect": "url"}, "`collect` requires records with fields, not texts"),
        (pd.DataFrame(copies()), {"fill": "by"}, "`fill`: there is no column 'by'"),
        (copies(), {"fill": "text"}, "`fill` text: documents are compared by"),
        (
            copies(),
            {"collect": "url", "against": [COPY], "contained": 0.5},
            "`collect` can't be combined with `contained`",
        ),
    ]
    for records, settings, message in refusals:
        with pytest.raises(UsageError, match=message):
            esdedup.dedup(records, **settings)
