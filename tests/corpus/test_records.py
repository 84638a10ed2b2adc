"""`esdedup.dedup` with other records: what `clean` and `decontaminate` do with the same texts."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from tests.helpers.commands import words, write_lines
from tests.helpers.packages import imported

ITEM = words(1, 20)
PAGES = [
    words(2),
    f"{words(3)} {ITEM} {words(4)}",
    ITEM,
    f"{ITEM} {words(5)} {ITEM.replace('w', 'W')} end",
    words(2),
]
KINDS = ["list", "texts", "table", "batch", "pandas", "polars", "dataset", "generator"]


def of_kind(kind: str, texts: list[str]) -> Any:
    """Return records of texts, with a number each."""
    rows = [{"n": n, "body": text, "more": f"{n}"} for n, text in enumerate(texts)]
    if kind == "list":
        return rows
    if kind == "texts":
        return texts
    if kind == "generator":
        return iter(rows)
    if kind == "dataset":
        return imported("datasets").Dataset.from_list(rows)
    if kind == "iterable dataset":
        return imported("datasets").Dataset.from_list(rows).to_iterable_dataset()
    table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        return imported("polars").from_arrow(table)
    return table if kind == "table" else table.to_batches()[0]


def texts_of(records: Any) -> list[str]:
    """Return the texts of records of any kind."""
    if isinstance(records, list):
        return [record if isinstance(record, str) else record["body"] for record in records]
    column = records["body"]
    return [*(column.to_pylist() if hasattr(column, "to_pylist") else column)]


def texts_in(path: str) -> list[str]:
    lines = Path(path).read_text("utf-8").splitlines()
    return [json.loads(line)["body"] for line in lines]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=20),
    st.integers(0, 19),
    st.sampled_from([{}, {"method": "components"}, {"keep": "longest"}, {"exact": True}]),
)
def test_records_near_others_are_those_of_clean(
    made: list[tuple[int, int]], earlier: int, options: dict[str, Any]
) -> None:
    texts = [" ".join(words(topic, 24).split()[edits:]) for topic, edits in made]
    rows = [{"id": f"{n:02}", "body": text} for n, text in enumerate(texts)]
    against, records = rows[:earlier], rows[earlier:]
    write_lines(Path("old.jsonl"), against)
    write_lines(Path("new.jsonl"), records)
    for path in ("out.jsonl", "removed.jsonl"):
        Path(path).unlink(missing_ok=True)
    esdedup.clean(
        "new.jsonl",
        "out.jsonl",
        against="old.jsonl",
        text_field="body",
        removed="removed.jsonl",
        **options,
    )
    result = esdedup.dedup(records, "body", against=against, **options)
    assert texts_of(result.kept) == texts_in("out.jsonl")
    removed = [json.loads(line) for line in Path("removed.jsonl").read_text().splitlines()]
    listed = [
        (records[d.row]["id"], (against if d.in_against else records)[d.original]["id"])
        for d in result.duplicates
    ]
    assert listed == [(row["id"], row["original_id"]) for row in removed]
    assert [d.similarity for d in result.duplicates] == [row["similarity"] for row in removed]


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_compared_with_each_other_kind(kind: str) -> None:
    new, old = [words(n) for n in range(5, 12)], [words(n) for n in range(8)]
    for other in KINDS:
        result = esdedup.dedup(of_kind(kind, new), "body", against=of_kind(other, old))
        assert texts_of(result.kept) == new[3:]
        assert repr(result) == "<Deduplicated: 4 kept, 3 removed of 7>"
        assert [duplicate.original for duplicate in result.duplicates] == [5, 6, 7]
        assert all(duplicate.in_against for duplicate in result.duplicates)
        assert {group.representative for group in result.groups} == {
            "against:5", "against:6", "against:7",
        }  # fmt: skip


@pytest.mark.parametrize("mask", [False, True])
def test_records_with_items_are_those_of_decontaminate(mask: bool) -> None:
    write_lines(Path("items.jsonl"), [{"body": words(0)}, {"body": ITEM}])
    write_lines(Path("pages.jsonl"), [{"body": text} for text in PAGES])
    esdedup.decontaminate(
        "pages.jsonl",
        "items.jsonl",
        "out/",
        mask=mask,
        text_field="body",
        removed="removed.jsonl",
    )
    expected = texts_in("out/pages.jsonl")
    listed = [json.loads(line) for line in Path("removed.jsonl").read_text().splitlines()]
    for kind in KINDS:
        records = of_kind(kind, PAGES)
        result = esdedup.dedup(
            records, "body", against=of_kind(kind, [words(0), ITEM]), contained=0.8, mask=mask
        )
        assert texts_of(result.kept) == expected
        assert [(d.row, d.original) for d in result.duplicates] == (
            [(2, 1)] if mask else [(1, 1), (2, 1), (3, 1)]
        )
        assert texts_of(result.removed) == [PAGES[d.row] for d in result.duplicates]
        assert [
            (item.row + 1, item.item + 1, item.start, item.end) for item in result.contained
        ] == [(row["line"], row["original_line"], row["start"], row["end"]) for row in listed]
        if kind not in ("texts", "generator"):
            assert type(result.kept) is type(records)
        if kind not in ("list", "texts", "generator"):
            names = getattr(result.kept, "column_names", None) or result.kept.columns
            assert [*names] == ["n", "body", "more"]
        if mask:
            assert ITEM not in " ".join(expected)
            assert repr(result) == "<Deduplicated: 4 kept, 2 masked, 1 removed of 5>"


@pytest.mark.parametrize("mask", [True, "sentences"])
def test_every_place_of_an_item_is_masked(mask: bool | Literal["sentences"]) -> None:
    filler = words(3, 60)
    page = f"First page. {ITEM}. {filler}. {ITEM}. The end of page."
    result = esdedup.dedup([page, ITEM], against=[ITEM], contained=0.8, mask=mask)
    assert result.kept == [f"First page. {filler}. The end of page."]
    # Records are counted once.
    assert repr(result) == "<Deduplicated: 1 kept, 1 masked, 1 removed of 2>"
    assert [(each.row, each.original) for each in result.duplicates] == [(1, 0)]
    starts = page.index(ITEM), page.rindex(ITEM)
    places = [*((0, start, start + len(ITEM)) for start in starts), (1, 0, len(ITEM))]
    assert [(each.row, each.start, each.end) for each in result.contained] == places
    again = esdedup.dedup(result.kept, against=[ITEM], contained=0.8, mask=mask)
    assert (again.kept, [*again.contained]) == (result.kept, [])


def test_types_of_masked_columns_stay() -> None:
    pa, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    table = pa.table({"text": pa.array(PAGES, pa.large_string()), "text_": PAGES})
    result = esdedup.dedup(table, against=[ITEM], contained=0.8, mask=True)
    assert result.kept.schema == table.schema
    coded = table.set_column(0, "text", table["text"].dictionary_encode())
    kept = esdedup.dedup(coded, against=[ITEM], contained=0.8, mask=True).kept
    assert kept.schema == coded.schema
    assert kept["text"].to_pylist() == result.kept["text"].to_pylist()
    frame = pandas.DataFrame({3: pandas.Series(PAGES, [*"abcde"], "string")})
    masked = esdedup.dedup(frame, "3", against=[ITEM], contained=0.8, mask=True).kept
    assert masked[3].dtype == "string"
    assert masked[3].tolist() == result.kept["text"].to_pylist()
    assert [*masked.index] == [*"abde"]
    assert frame[3].tolist() == PAGES


def test_no_items_and_no_records() -> None:
    for contained in (None, 0.8):
        empty = esdedup.dedup(["a text"], against=[], contained=contained)
        assert (empty.kept, empty.removed, [*empty.contained]) == (["a text"], [], [])
        nothing: esdedup.results.Deduplicated[list[str]] = esdedup.dedup(
            [], against=["a text"], contained=contained
        )
        assert (nothing.kept, nothing.removed) == ([], [])


def test_the_keep_rule_needs_no_field_of_the_others() -> None:
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"text": [words(1), words(1), words(2)], "rank": [1, 2, 3]})
    other = pandas.DataFrame({"text": [words(2)]})
    result = esdedup.dedup(rows, against=other, keep="highest:rank")
    assert result.kept["rank"].tolist() == [2]
    odd = rows.assign(rank=["x", 2, 3])
    with pytest.warns(UserWarning, match=r"1 document has a value that is no number.* 'x' of doc"):
        unordered = esdedup.dedup(odd, against=other, keep="highest:rank").groups.unordered
    assert [*unordered.examples] == [("0", "x")]


def test_a_higher_threshold_keeps_the_comparison_with_others() -> None:
    text = words(1, 40)
    near = " ".join([*text.split()[3:], "new", "words"])
    result = esdedup.dedup([near, text, near], against=[text], threshold=0.6)
    assert [(d.row, d.in_against) for d in result.duplicates] == [(0, True), (1, True), (2, True)]
    fresh = esdedup.dedup([near, text, near], against=[text], threshold=0.99)
    assert result.rethreshold(0.99).duplicates == fresh.duplicates
    assert [(d.row, d.original, d.in_against) for d in fresh.duplicates] == [
        (1, 0, True),
        (2, 0, False),
    ]
    with pytest.raises(esdedup.UsageError, match="rethreshold requires a threshold"):
        esdedup.dedup([text], against=[text], contained=0.8).rethreshold(0.9)


def test_wrong_settings_are_named() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"contained": 0.8}, "`contained` requires `against`"),
        ({"mask": True}, "`mask` requires `contained`"),
        ({"against": ["a"], "contained": 0.0}, "contained 0.0: use a share above 0, up to 1"),
        ({"against": ["a"], "contained": "0.8"}, "contained: use a number"),
        ({"against": ["a"], "contained": 0.8, "exact": True}, "can't be combined"),
        ({"against": ["a"], "contained": 0.8, "threshold": 0.5}, "can't be combined"),
        ({"against": "a text"}, "against: give a list, not a single str"),
        ({"against": [3]}, "record of against 0: use a mapping or text, not int"),
        ({"against": [{"x": "a"}]}, "no record of against has the field 'text'"),
        ({"progress": 3}, "progress: use True or a function, not int"),
    ]
    for options, message in wrong:
        with pytest.raises(esdedup.EsdedupError, match=message):
            esdedup.dedup(["a text"], **options)
    table = pytest.importorskip("pyarrow").table({"x": ["a"]})
    with pytest.raises(esdedup.UsageError, match="against: there is no column 'text'"):
        esdedup.dedup(["a text"], against=table)
    nested = [{"a": {"b": PAGES[1]}}]
    for records, field in ((nested, "a.b"), ([{"a": [PAGES[1]]}], "a")):
        result = esdedup.dedup(records, field, against=[ITEM], contained=0.8, mask=True)
        with pytest.raises(
            esdedup.exceptions.RecordError, match="record 0: `mask` requires a text"
        ):
            _ = result.kept
    with pytest.raises(esdedup.UsageError, match="`mask` requires one field"):
        esdedup.dedup(nested, ["a", "b"], against=[ITEM], contained=0.8, mask=True)


def test_rows_that_are_not_in_memory_are_rejected() -> None:
    polars, datasets = imported("polars"), imported("datasets")
    lazy = polars.LazyFrame({"text": ["a text"]})
    dataset = datasets.Dataset.from_dict({"text": ["a text"]})
    splits = datasets.DatasetDict(train=dataset, test=dataset)
    for call in (esdedup.dedup, esdedup.pairs, esdedup.group):
        with pytest.raises(esdedup.UsageError, match=r"LazyFrame .* result of `\.collect\(\)`"):
            call(lazy)
        with pytest.raises(esdedup.UsageError, match=r"one split .* 'train', 'test'"):
            call(splits)
    with pytest.raises(esdedup.UsageError, match=r"against: .* `\.collect\(\)`"):
        esdedup.dedup(["a text"], against=lazy)


def test_an_iterable_dataset_becomes_a_list() -> None:
    dataset = of_kind("iterable dataset", [words(1), words(2), words(1)])
    for records in (dataset, dataset.map(lambda row: row)):
        assert esdedup.dedup(records, "body").kept == of_kind("list", [words(1), words(2)])
        assert esdedup.pairs(records, "body", id="n")[0].right == "2"
        assert [group.representative for group in esdedup.group(records, "body")] == ["0"]


def test_steps_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [words(n) + end for n in range(5) for end in (" one", " two")]
    calls: list[Any] = [
        lambda progress: esdedup.dedup(texts, progress=progress),
        lambda progress: esdedup.dedup(texts, against=texts, progress=progress),
        lambda progress: esdedup.dedup(texts, against=texts, contained=0.8, progress=progress),
        lambda progress: esdedup.pairs(texts, progress=progress),
        lambda progress: esdedup.group(texts, progress=progress),
    ]
    for call in calls:
        steps = list[tuple[str, int, int]]()
        call(lambda *step, steps=steps: steps.append(step))
        names = list(dict.fromkeys(name for name, *_ in steps))
        assert names[0] == "Sketching"
        assert len(names) > 1
        assert all(amount <= total for _, amount, total in steps if total)
        call(True)
        shown = capsys.readouterr().err.splitlines()
        assert [line.split(":")[0] for line in shown] == names
        call(None)
        call(False)
        assert capsys.readouterr().err == ""


def test_results_are_tables() -> None:
    polars = imported("polars")
    result = esdedup.dedup(PAGES, against=[words(0), ITEM], contained=0.8)
    frame = polars.DataFrame(result.duplicates)
    assert frame.columns == ["row", "original", "in_against", "similarity", "distance"]
    assert frame.rows() == [(row, 1, True, 1.0, None) for row in (1, 2, 3)]
    assert result.contained.to_pandas()["item"].tolist() == [1, 1, 1]
    assert result.duplicates[0].row == 1
    assert [duplicate.row for duplicate in result.duplicates[1:]] == [2, 3]
    shown = result.duplicates._repr_html_()
    assert "&lt;Duplicates: 3&gt;" in shown
    assert "<th>similarity</th></tr>" in shown
    assert shown.count("<tr><td>") == 3


def test_notebooks_show_the_first_rows() -> None:
    pairs = esdedup.pairs(["a text of words"] * 15)
    shown = pairs._repr_html_()
    assert "&lt;SimilarPairs: 14 of 15 documents&gt;" in shown
    assert shown.count("<tr><td>") == 10
    assert "<td>0</td><td>1</td><td>1.000</td><td>True</td></tr>" in shown
    assert "The first 10 rows are shown. to_arrow() returns all." in shown
    named = [{"id": "<b>", "text": "a text"}, {"id": "a", "text": "a text"}]
    assert "&lt;b&gt;</td>" in esdedup.group(named, id="id")._repr_html_()
    assert "rows are shown" not in esdedup.pairs(["a text"])._repr_html_()
    with esdedup.open(":memory:") as index:
        index.add(["a text of words"])
        result = index.similar("a text of words")
        assert result._repr_html_().count("<tr><td>") == 1


def test_pairs_have_positions() -> None:
    texts = [" ".join(words(topic).split()[edits:]) for topic in range(5) for edits in range(4)]
    pairs = esdedup.pairs(texts)
    listed = [*pairs]
    assert len(listed) == len(pairs) > 20
    assert [pairs[row] for row in range(len(pairs))] == listed
    assert pairs[-1] == listed[-1]
    assert pairs[2:9:3] == listed[2:9:3]
    with pytest.raises(IndexError):
        _ = pairs[len(pairs)]
