"""Keep rules order documents."""

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.compare.keep_rule import KeepRule, rows_of, sort_keys
from esdedup.exceptions import UsageError
from esdedup.models import Document, natural
from esdedup.text.instants import instant_of
from esdedup.text.strings import Strings, natural_order

IDS = st.lists(st.text("a01\0é2-", min_size=1, max_size=5), unique=True, min_size=1, max_size=9)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False),
    st.text("a\0\x01é😀", max_size=4),
)


@pytest.mark.parametrize("name", ["first", "last", "first:day", "last:day"])
@given(ids=IDS, data=st.data())
def test_documents_are_in_the_order_of_the_rule(
    name: str, ids: list[str], data: st.DataObject
) -> None:
    rule, strings = KeepRule.parse(name), Strings.of(ids)
    # At least one has a value, as the rule requires.
    values = [0, *(data.draw(VALUES) for _ in ids[1:])]

    rows = sorted(range(len(ids)), key=lambda row: natural(ids[row]))
    if rule.by == "id":
        expected = rows[::-1] if rule.last else rows
    else:
        numbers, texts = (
            sorted(
                (row for row in rows if isinstance(values[row], kind)),
                key=values.__getitem__,
                reverse=rule.last,
            )
            for kind in ((int, float), str)
        )
        expected = [*numbers, *texts, *(row for row in rows if values[row] is None)]
    keys = [
        rule.key(Document(id, {"day": value}), ()) for id, value in zip(ids, values, strict=True)
    ]
    assert rule.order(natural_order(strings)[0], Strings.of_bytes(keys)).tolist() == expected
    # Spark sorts by the same bytes, with those of the ids behind them.
    made = sort_keys(rule, strings, keys)
    assert sorted(range(len(ids)), key=made.__getitem__) == expected


@given(ids=IDS, data=st.data())
def test_preferred_values_come_in_their_order(ids: list[str], data: st.DataObject) -> None:
    rule = KeepRule.parse("first:source=true, 2,b c")
    assert str(rule) == "first:source=true,2,b c"
    assert KeepRule.parse(str(rule)) == rule
    drawn = st.sampled_from([True, "true", 2, "b c", "B C", ["2"], None, "other"])
    values = ["b c", *(data.draw(drawn) for _ in ids[1:])]
    rows = sorted(range(len(ids)), key=lambda row: natural(ids[row]))
    places = {True: 0, "true": 0, 2: 1, "b c": 2}
    expected = sorted(
        rows,
        key=lambda row: 3 if isinstance(values[row], list) else places.get(values[row], 3),
    )
    strings = Strings.of(ids)
    keys = [
        rule.key(Document(id, {"source": value}), ()) for id, value in zip(ids, values, strict=True)
    ]
    assert rule.order(natural_order(strings)[0], Strings.of_bytes(keys)).tolist() == expected
    made = sort_keys(rule, strings, keys)
    assert sorted(range(len(ids)), key=made.__getitem__) == expected


@pytest.mark.parametrize("text", ["first:source=", "first:=a", "first:s=a,,b", "first:s=a,a"])
def test_lists_of_values_are_checked(text: str) -> None:
    with pytest.raises(UsageError, match=r"VALUE|once"):
        KeepRule.parse(text)
    with pytest.raises(UsageError, match="use first:source=a"):
        KeepRule.parse("last:source=a")


def test_values_that_no_document_has_are_an_error() -> None:
    rule, ids = KeepRule.parse("first:source=reuter"), Strings.of(["1", "2"])
    keys = rule.keys([Document(id, {"source": "reuters"}) for id in ids], ())
    with pytest.raises(UsageError, match="no document has one of these values in field 'source'"):
        rule.order(natural_order(ids)[0], keys)


@given(ids=IDS, data=st.data())
@pytest.mark.parametrize("by_id", ["", "first", "last"])
def test_later_rules_decide_ties(by_id: str, ids: list[str], data: st.DataObject) -> None:
    names = ["first:source=b,a", "last:name", "newest:day", "lowest:rank"]
    names = data.draw(st.permutations(names))[: data.draw(st.integers(1, 4))]
    rule = KeepRule.parse([*names, *([by_id] if by_id else [])])
    drawn = st.fixed_dictionaries(
        {
            "source": st.sampled_from(["a", "b", "c", None]),
            "name": st.sampled_from(["", "\0", "\0\0", "\1", "é", 2, 2.5, None]),
            "day": st.sampled_from(["2026-03-01", "2026-03-02", "no day", "neither", None]),
            "rank": st.sampled_from([1, 2, "3", "none", "x" * 90, None]),
        }
    )
    usable = {"source": "a", "name": "x", "day": "2026-03-01", "rank": 1}
    documents = [
        Document(id, data.draw(drawn) if place else usable) for place, id in enumerate(ids)
    ]
    strings = Strings.of(ids)
    order = natural_order(strings)[0]
    # Sort by the last rule first: sorting is stable.
    expected = order[::-1] if by_id == "last" else order
    unordered = set()
    for name in reversed(names):
        single = KeepRule.parse(name)
        keys = single.keys(documents, ())
        ranks = {row: rank for rank, row in enumerate(single.order(order, keys).tolist())}
        sortable = [key[:1] if key.startswith(b"\3") else key for key in keys.encoded()]
        first_rank = {
            row: min(ranks[tied] for tied in ranks if sortable[tied] == sortable[row])
            for row in ranks
        }
        expected = np.array(sorted(expected.tolist(), key=first_rank.__getitem__))
        unordered |= {row for row, key in enumerate(keys.encoded()) if key.startswith(b"\3")}
    keys = rule.keys(documents, ())
    assert rule.order(order, keys).tolist() == expected.tolist()
    wrong = rule.unordered(keys, lambda rows: [ids[row] for row in rows.tolist()])
    assert wrong.count == len(unordered)
    assert [id for id, _ in wrong.examples] == [ids[row] for row in sorted(unordered)[:3]]


def test_rules_in_a_row_are_checked() -> None:
    for rules, words in (
        ([], "name a rule"),
        (["first", "longest"], "must be the last"),
        (["longest", "most-words"], "can't be combined"),
        (["auto", "longest"], "can't be combined"),
        (["newest:day", "first:day=x"], "in one rule only"),
        (["longest", "shortest"], "in one rule only"),
    ):
        with pytest.raises(UsageError, match=words):
            KeepRule.parse(rules)
    rule, ids = KeepRule.parse(["longest", "newest:dya"]), Strings.of(["1", "2"])
    keys = rule.keys([Document(id, {"day": "2026", "text": "a"}) for id in ids], ["text"])
    with pytest.raises(UsageError, match="keep newest:dya: no document has a time"):
        rule.order(natural_order(ids)[0], keys)


TIMES = st.one_of(
    st.none(),
    st.sampled_from(["", "01.03.2026", "soon", "2026-03-01", "2026-03-01T09:00:00+09:00"]),
    st.datetimes(min_value=datetime(1500, 1, 1)).map(datetime.isoformat),
    st.datetimes(),
)


@pytest.mark.parametrize("rule", [KeepRule.parse("oldest:day"), KeepRule.parse("newest:day")])
@given(ids=IDS, data=st.data())
def test_documents_are_in_the_order_of_their_times(
    rule: KeepRule, ids: list[str], data: st.DataObject
) -> None:
    values = ["2026-03-01", *(data.draw(TIMES) for _ in ids[1:])]
    rows = sorted(range(len(ids)), key=lambda row: natural(ids[row]))
    instants = {row: instant_of(values[row]) for row in rows}
    timed = {row: instant.nanoseconds for row, instant in instants.items() if instant is not None}
    expected = sorted(timed, key=timed.__getitem__, reverse=rule.last)
    expected += [row for row in rows if values[row] in (None, "")]
    expected += (wrong := [row for row in rows if row not in expected])
    strings = Strings.of(ids)
    keys = [
        rule.key(Document(id, {"day": value}), ()) for id, value in zip(ids, values, strict=True)
    ]
    packed = Strings.of_bytes(keys)
    assert rule.order(natural_order(strings)[0], packed).tolist() == expected
    made = sort_keys(rule, strings, keys)
    assert sorted(range(len(ids)), key=made.__getitem__) == expected
    unordered = rule.unordered(packed, lambda some: [ids[row] for row in some.tolist()])
    assert unordered.count == len(wrong)
    assert [*unordered.examples] == [(ids[row], values[row]) for row in sorted(wrong)[:3]]


@given(st.lists(st.text(max_size=4), unique=True), st.lists(st.text(max_size=4), max_size=5))
def test_the_rows_of_ids_are_found(ids: list[str], others: list[str]) -> None:
    wanted = [*ids[::2], *others]
    expected = [row for row, id in enumerate(ids) if id in wanted]
    assert rows_of(Strings.of(ids), wanted).tolist() == expected
    assert rows_of(ids, wanted).tolist() == expected
