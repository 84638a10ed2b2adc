"""Keep rules order documents."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.compare.keep_rule import KeepRule, rows_of, sort_keys
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
