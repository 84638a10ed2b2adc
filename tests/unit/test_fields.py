"""The text of a document: the strings of its text fields, joined."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.exceptions import RecordError
from esdedup.stores.fields import only, replaces_field, text_at, text_of

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.just("x"), inner, max_size=1),
    max_leaves=12,
)


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


@given(st.dictionaries(st.sampled_from("abc"), values), st.permutations("abc"))
def test_the_strings_of_all_fields_are_one_text(source: dict[str, Any], order: list[str]) -> None:
    expected = [text for field in order for text in strings(source.get(field))]
    assert text_at(source, order) == ("\n".join(expected) if expected else None)


@given(st.lists(values, max_size=4), st.booleans())
def test_a_list_of_objects_holds_the_strings_of_each(found: list[Any], dotted: bool) -> None:
    """As the servers read it, and the same from a part of the source as from the whole."""
    each = [{"b": value} for value in found]
    source = {"o.a": each} if dotted else {"o": {"a": each}}
    assert text_at(source, ["o.a.b"]) == text_at({"t": found}, ["t"])
    assert text_at(only(source, ["o.a.b"]), ["o.a.b"]) == text_at(source, ["o.a.b"])


def merged(source: Any, update: Any) -> Any:
    """Return a document as servers update it: objects are merged, all else is replaced."""
    if not (isinstance(source, dict) and isinstance(update, dict)):
        return update
    changed = {key: merged(source.get(key), value) for key, value in update.items()}
    return {**source, **changed}


nested = st.recursive(
    st.none() | st.sampled_from("xyz"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from("ab"), nested, min_size=1)


SOURCES: dict[str, dict[str, Any]] = {"a.b": {"a": {"b": "x"}}, "a.b.b": {"a": {"b": {"b": "x"}}}}


@given(objects, st.sampled_from([*SOURCES]))
def test_an_update_that_replaces_no_field_leaves_its_text(
    update: dict[str, Any], path: str
) -> None:
    source = SOURCES[path]
    text = text_at(merged(source, update), [path])
    expected = update if replaces_field(update, path) else source
    assert text == text_at(expected, [path])


@pytest.mark.parametrize(
    ("update", "is_given"),
    [
        ({"a": []}, True),
        ({"a": [{"c": "x"}]}, True),
        ({"a": "x"}, True),
        ({"a.b": [None]}, True),
        ({"a": None}, True),
        ({"a": {}}, False),
        ({"a": {"c": "x"}}, False),
        ({"b": {"c": "x"}}, False),
    ],
)
def test_what_replaces_an_object_of_a_field_gives_it(
    update: dict[str, Any], is_given: bool
) -> None:
    assert replaces_field(update, "a.b.c" if "a.b" in update else "a.b") is is_given


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"n": 1}, "the fields 'title', 'body' are missing or null"),
        ({"title": None, "body": 5}, "the field 'body' is not text but int"),
        ({"title": [], "body": [None, 1]}, "the field 'title' is a list without text"),
    ],
)
def test_a_document_without_a_text(source: dict[str, Any], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        text_of(source, ["title", "body"])
