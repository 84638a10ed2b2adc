"""Groups and searches of the pages are within a scope."""

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.review.visitor import links, plain, visiting

TEXT = "the council of the town agreed that the old bridge will be repaired before the winter"
DOCUMENTS = [
    {"id": "a1", "text": TEXT, "source": "ap"},
    {"id": "a2", "text": TEXT, "source": "ap"},
    {"id": "b1", "text": TEXT, "source": "afp"},
    {"id": "none", "text": TEXT},
]


def test_the_pages_are_within_the_scope(tmp_path: Path) -> None:
    visitor = visiting(tmp_path / "a.db", DOCUMENTS, within="source")
    review = visitor.review
    assert review.group_search.find().over.wait(60)
    groups = review.group_search.groups()
    assert groups is not None
    assert [(group.representative, group.members[0].id) for group in groups] == [("a1", "a2")]
    review.decisions.judge([("a1", "a2")], "different")
    groups = review.group_search.groups()
    assert groups is not None
    assert [*groups] == []
    review.decisions.undo()
    assert "1 document lacks a value of 'source'" in plain(visitor.get("/groups").text)
    assert "within source, form a group" in plain(visitor.get("/decide").text)


def test_a_search_is_in_the_scope_of_its_document(tmp_path: Path) -> None:
    visitor = visiting(tmp_path / "a.db", DOCUMENTS, within="source")
    by_id = visitor.get("/search", params={"id": "a1"})
    # The document itself is shown first.
    assert ids_of(by_id.text) == {"a1", "a2"}
    by_text = visitor.get("/search", params={"text": TEXT})
    assert ids_of(by_text.text) == {"a1", "a2", "b1", "none"}
    assert "of any scope: source" in by_text.text
    lacking = visitor.get("/search", params={"id": "none"})
    assert ids_of(lacking.text) == {"none"}
    assert "The document lacks a value of" in lacking.text


def ids_of(page: str) -> set[str]:
    """The ids of the documents that a page links to."""
    addresses = map(urlsplit, links(page, "/document?"))
    return {id for address in addresses for id in parse_qs(address.query)["id"]}
