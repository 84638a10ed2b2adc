"""The value that a parameter of a request has, as the servers read the query string."""

from unittest import mock
from urllib.parse import quote_plus

from hypothesis import given
from hypothesis import strategies as st

from esdedup.proxy.http import Request

NAMES = st.sampled_from(["index", "pipeline", "inde", ""])
VALUES = st.text(st.characters(codec="utf-8"), max_size=4)


def parameter(query: bytes, name: str) -> str | None:
    scope = {"method": "POST", "raw_path": b"/_bulk", "query_string": query, "headers": []}
    return Request(scope, mock.AsyncMock(), mock.AsyncMock(), 1.0).parameter(name)


@given(st.lists(st.tuples(NAMES, VALUES, st.sampled_from("&;"))), st.booleans())
def test_the_last_value_counts(pairs: list[tuple[str, str, str]], with_fragment: bool) -> None:
    written = "".join(f"{name}={quote_plus(value)}{after}" for name, value, after in pairs)
    query = written.encode() + b"#&index=hidden" * with_fragment
    last = {name: value for name, value, _ in pairs}
    assert parameter(query, "index") == last.get("index")
    assert parameter(query.replace(b"index", b"%69ndex"), "index") == last.get("index")


def test_a_name_alone_has_an_empty_value() -> None:
    assert parameter(b"index=a&index", "index") == ""
    assert parameter(b"", "index") is None
