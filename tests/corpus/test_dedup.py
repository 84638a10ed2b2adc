"""`esdedup.dedup`: records of any kind in memory, without an index."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import esdedup
from esdedup.compare.columns import columns_by_id, columns_by_number
from esdedup.compare.keep_rule import KeepRule
from esdedup.compare.plan import Plan
from esdedup.compare.resources import Resources
from esdedup.compare.source import Records, RecordSource
from esdedup.groups.groups import Grouping, groups_among
from esdedup.models import Document
from esdedup.runs.run import Run, ShareSizes
from esdedup.runs.shares import Shares
from esdedup.sketch.limits import Limits
from esdedup.tabular import require_pyarrow
from tests.helpers.commands import words
from tests.helpers.indices import open_index
from tests.helpers.packages import imported

RECORDS = [
    {"n": n, "body": words(n - n % 3 if n % 2 else n, 30) + f" {n % 4}", "rank": (7 * n) % 11}
    for n in range(90)
] + [{"n": 90, "body": "今天下午举行第三次读书会，欢迎大家参加。", "rank": 1}] * 2


def in_index(records: list[dict[str, Any]], **options: Any) -> dict[int, tuple[int, float | None]]:
    """Return by the number of a duplicate its original, as an index of the records has them."""
    with open_index(
        ":memory:", ({**each, "id": row} for row, each in enumerate(records)), text_field="body"
    ) as index:
        return {
            int(each.id): (int(group.representative), each.similarity)
            for group in index.groups(**options)
            for each in group.members
        }


KINDS = ["list", "table", "batch", "pandas", "polars"]


def of_kind(kind: str) -> Any:
    if kind == "list":
        return RECORDS
    if kind == "generator":
        return iter(RECORDS)
    table = pytest.importorskip("pyarrow").Table.from_pylist(RECORDS)
    frames = {"table": lambda: table, "batch": lambda: table.to_batches()[0]}
    frames |= {
        "pandas": lambda: table.to_pandas(),
        "polars": lambda: imported("polars").from_arrow(table),
        "reader": lambda: table.to_reader(),
        "duckdb": lambda: imported("duckdb").from_arrow(table),
    }
    return frames[kind]()


def rows_of(found: Any) -> list[int]:
    """Return the numbers of records of any kind."""
    if isinstance(found, list):
        return [each["n"] for each in found]
    column = found["n"]
    return [*(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list())]


@pytest.mark.parametrize("kind", [*KINDS, "generator", "reader", "duckdb"])
def test_records_of_each_kind_are_those_of_an_index(kind: str) -> None:
    for keep in ("first", "longest", "highest:rank"):
        records = of_kind(kind)
        expected = in_index(RECORDS, threshold=0.7, keep=keep)
        found = esdedup.dedup(records, text="body", threshold=0.7, keep=keep)
        assert {each.row: (each.original, each.similarity) for each in found.duplicates} == expected
        assert len(expected) > 20
        kept = [row for row in range(len(RECORDS)) if row not in expected]
        assert rows_of(found.kept) == [RECORDS[row]["n"] for row in kept]
        assert rows_of(found.removed) == [RECORDS[row]["n"] for row in sorted(expected)]
        if kind in ("reader", "duckdb"):
            assert type(found.kept) is require_pyarrow().Table
        elif kind != "generator":
            assert type(found.kept) is type(found.removed) is type(records)
        assert repr(found) == f"<Deduplicated: {len(kept)} kept, {len(expected)} removed of 92>"


@pytest.mark.parametrize("id", [None, "n"])
@pytest.mark.parametrize("keep", ["first", "longest"])
def test_streams_are_read_once_and_not_kept(id: str | None, keep: str) -> None:
    pa = require_pyarrow()
    rows = [each | {"n": f"{row % 80}", "more": "x" * 20_000} for row, each in enumerate(RECORDS)]
    table = pa.Table.from_pylist(rows)
    whole, most = pa.total_allocated_bytes(), 0

    def batches() -> Iterator[Any]:
        nonlocal most
        for start in range(0, len(rows), 10):
            most = max(most, pa.total_allocated_bytes() - whole)
            yield pa.RecordBatch.from_pylist(rows[start : start + 10], table.schema)

    reader = pa.RecordBatchReader.from_batches(table.schema, batches())
    found = esdedup.group(reader, "body", id=id, threshold=0.7, keep=keep)
    assert most < 3 * 10 * 21_000
    same = esdedup.group(table, "body", id=id, threshold=0.7, keep=keep)
    assert found.to_arrow() == same.to_arrow()
    assert found.duplicates > 20
    pairs = esdedup.pairs(table.to_reader(10), "body", id=id, threshold=0.7)
    assert pairs.to_arrow() == esdedup.pairs(table, "body", id=id, threshold=0.7).to_arrow()


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.parametrize("keep", ["first", "longest"])
def test_records_in_several_shares_are_grouped_as_those_of_one(by_id: bool, keep: str) -> None:
    texts = [str(record["body"]) for record in RECORDS]
    ids = [f"{row % 80}" for row in range(len(texts))] if by_id else None
    plan = Plan.of_texts(None, Limits(threshold=0.7), KeepRule.parse(keep), ["body"])
    grouping = Grouping(plan.limits, keep=plan.keep).by(plan)
    documents = (Document(str(row), {"body": text}) for row, text in enumerate(texts))
    keys = plan.keep.keys(documents, ["body"])
    batches = [
        Records(
            texts[start : start + 10],
            None if ids is None else ids[start : start + 10],
            keys.picked(np.arange(start, min(start + 10, len(texts)))) if len(keys) else keys,
        )
        for start in range(0, len(texts), 10)
    ]
    with Run.temporary(ShareSizes(documents=70)) as run:
        shares = Shares(run)
        shares.write_all(RecordSource(plan, batches).parts())
        assert len(shares.all()) == 2
        columns = columns_by_id(shares, plan) if by_id else columns_by_number(shares, plan)
        found = groups_among(columns, plan, grouping, Resources(run.folder))
    rows = [{"body": text, "n": f"{row % 80}"} for row, text in enumerate(texts)]
    table = require_pyarrow().Table.from_pylist(rows)
    same = esdedup.group(table, "body", id="n" if by_id else None, threshold=0.7, keep=keep)
    assert found.to_arrow() == same.to_arrow()
    assert found.duplicates > 20


def test_a_higher_threshold_is_the_result_of_a_new_call() -> None:
    first = esdedup.dedup(RECORDS, text="body", threshold=0.6)
    for threshold in (0.6, 0.8, 1.0):
        again = first.rethreshold(threshold)
        fresh = esdedup.dedup(RECORDS, text="body", threshold=threshold)
        assert again.duplicates == fresh.duplicates
    with pytest.raises(esdedup.UsageError, match=r"threshold 0.5: use at least 0.6"):
        first.rethreshold(0.9).rethreshold(0.5)
    assert first.rethreshold(0.9).rethreshold(0.6).duplicates == first.duplicates
    with pytest.raises(esdedup.UsageError, match="threshold: use a number"):
        first.rethreshold("0.9")  # type: ignore[arg-type]


def test_texts_and_missing_texts() -> None:
    texts = ["one text of some words", "another text", "one text of some words", "", ""]
    found = esdedup.dedup(texts)
    assert (found.kept, found.removed) == ([*texts[:2], "", ""], texts[2:3])
    for missing in (None, float("nan")):
        frame = pytest.importorskip("pandas").DataFrame(
            {"text": ["a b c", missing, "a b c", missing]}
        )
        assert esdedup.dedup(frame).kept["text"].isna().tolist() == [False, True, True]
    assert (esdedup.dedup([]).kept, esdedup.dedup(["a"]).kept) == ([], ["a"])
    records: list[dict[str, str | None]] = [{"text": "a"}, {"text": None}, {}]
    assert esdedup.dedup(records).removed == []
    assert esdedup.dedup([{"text": None}]).kept == [{"text": None}]
    assert len(esdedup.group(["", ""])) == 0
    pandas, polars = pytest.importorskip("pandas"), imported("polars")
    column = require_pyarrow().chunked_array([texts])
    for series in (pandas.Series(texts), polars.Series(texts), column):
        assert esdedup.dedup(series).kept == found.kept
    odd = pandas.DataFrame({"text": texts, "column_names": texts, 3: texts})
    assert len(esdedup.dedup(odd).removed) == len(esdedup.dedup(odd, text="3").removed) == 1


def test_texts_alone_are_strings() -> None:
    wrong: Any
    for wrong in (3, ["b"]):
        for call in (esdedup.pairs, esdedup.group):
            with pytest.raises(
                esdedup.exceptions.RecordError, match="record 1: use a mapping or text, not"
            ):
                call(["a", wrong])


def test_wrong_arguments_are_named() -> None:
    table = pytest.importorskip("pyarrow").table({"body": ["a"], "n": [1]})
    for records, options, said in (
        (table, {}, "there is no column 'text'. There are: body, n"),
        (table, {"text": "n"}, "record 0: the field 'n' is not text but int"),
        (
            [{"body": "a"}],
            {},
            "no record has the field 'text': name .* by text=. There are: body",
        ),
        (["a", 3], {}, "record 1: use a mapping or text, not int"),
        ("a text", {}, "records: give a list, not a single str"),
        (["a"], {"threshold": 2.0}, "threshold 2.0"),
        (["a"], {"treshold": 0.5}, "did you mean 'threshold'"),
        ([{"body": "a"}], {"text_field": "body"}, "did you mean 'text'"),
        (["a"], {"column": "body"}, "use records, text, vector, against, "),
    ):
        with pytest.raises(esdedup.EsdedupError, match=said):
            esdedup.dedup(records, **options)


@pytest.mark.parametrize("call", [esdedup.pairs, esdedup.group])
def test_a_field_of_ids_that_no_record_has_is_named(call: Any) -> None:
    records = [{"body": "a"}, {"body": "b", "doc": 7}]
    said = "no record has the field 'id': name the field of the ids by id=. There are: body"
    with pytest.raises(esdedup.UsageError, match=said):
        call(records, text="body", id="id")
    call(records, text="body", id="doc")


def test_groups_have_positions() -> None:
    texts = ["one text of all", "another text here", "one text of all", "one text of all"]
    groups = esdedup.group([*texts, texts[1]])
    assert [groups[0], groups[1]] == [*groups] == groups[:] == [groups[-2], groups[-1]]
    assert groups[1:] == [groups[1]]
    assert [member.id for member in groups[0].members] == ["2", "3"]
    with pytest.raises(IndexError):
        groups[2]


def test_a_notebook_shows_a_histogram() -> None:
    found = esdedup.dedup(RECORDS, text="body", threshold=0.5)
    shown = found._repr_html_()
    values = np.array([each.similarity for each in found.duplicates], np.float64)
    counts, _ = np.histogram(values, 10, (values.min(), 1.0))
    assert "&lt;Deduplicated: " in shown
    assert all(f">{count:,}</td>" in shown for count in counts)
    equal = esdedup.dedup(["a text of words"] * 3)._repr_html_()
    assert "1.00" in equal
    assert "1.1" not in equal
