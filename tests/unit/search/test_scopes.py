"""A document is in the scope that it was in if no field is returned as changed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.search.scopes import changed_in_scope, scope_of, scope_words
from esdedup.sketch.within import Within

SCOPES = ["a", "b", "date:3d", "seen:1h", "date:1d"]
values = st.sampled_from(["x", "y", 1, "1", 1.0, ["x", "y"], ["y", "x"], "", None])
times = st.sampled_from(
    ["2026-03-01", "2026-03-01T00:00:00Z", "1969-12-31", 0, 1_700_000_000, "soon", ["2026-03-01"]]
)
sources = st.fixed_dictionaries(
    {}, optional={"a": values, "b": values, "date": times, "seen": times}
)


@given(
    within=st.lists(st.sampled_from(SCOPES), min_size=1, unique=True).map(Within.parse),
    former=sources,
    source=sources,
)
def test_the_same_scope_and_no_changed_field_are_one(
    within: Within, former: dict[str, Any], source: dict[str, Any]
) -> None:
    words = scope_words(within, [former])[0].tolist()
    changed = changed_in_scope(within, words, source)
    scope = scope_of(within, former)
    assert (changed == []) == (scope is None or scope_of(within, source) == scope)
    assert changed_in_scope(within, words, former) == []
    assert [*dict.fromkeys(changed)] == changed


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ({"a": "x", "b": 1.0, "date": "2026-03-01T00:00Z"}, []),
        ({"a": "x", "b": 2, "date": "2026-03-01"}, ["a", "b"]),
        ({"b": 1, "date": "2026-03-01"}, ["a", "b"]),
        ({"a": "x", "b": 1, "date": "2026-03-02"}, ["date"]),
        ({"a": "x", "b": 1}, ["date"]),
        ({}, ["a", "b", "date"]),
    ],
)
def test_the_fields_that_may_have_changed_are_named(
    source: dict[str, Any], changed: list[str]
) -> None:
    within = Within.parse(["a", "b", "date:3d", "date:1d"])
    words = scope_words(within, [{"a": "x", "b": "1", "date": "2026-03-01"}])[0].tolist()
    assert changed_in_scope(within, words, source) == changed
