"""Bytes that Spark sorts put documents in the order of the keep rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.pairing.keep_rule import KeepRule, rows_of, sort_key, sort_keys
from esdedup.pairing.strings import Strings, natural_order

IDS = st.lists(st.text("a01\0é2-", min_size=1, max_size=5), unique=True, min_size=1, max_size=9)
KEYS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(2**53 - 2, 2**53 + 2),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text("a\0\x01é😀", max_size=4),
)


@pytest.mark.parametrize("name", ["first", "last", "first:day", "last:day"])
@given(ids=IDS, data=st.data())
def test_sort_keys_sort_as_the_rule_orders(name: str, ids: list[str], data: st.DataObject) -> None:
    rule, strings = KeepRule.parse(name), Strings.of(ids)
    # At least one has a value, as the rule asks for.
    keys = [0, *(data.draw(KEYS) for _ in ids[1:])]
    wanted = rule.order(natural_order(strings)[0], keys).tolist()
    made = sort_keys(rule, strings, [sort_key(key, rule.last) for key in keys])
    assert sorted(range(len(ids)), key=made.__getitem__) == wanted


@given(st.lists(st.text(max_size=4), unique=True), st.lists(st.text(max_size=4), max_size=5))
def test_the_rows_of_ids_are_found(ids: list[str], others: list[str]) -> None:
    wanted = [*ids[::2], *others]
    expected = [row for row, id in enumerate(ids) if id in wanted]
    assert rows_of(Strings.of(ids), wanted).tolist() == expected
    assert rows_of(ids, wanted).tolist() == expected
