"""The commands' work in a line of Python each."""

import math
import re
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import esdedup
from esdedup import UsageError
from esdedup.exceptions import RecordError
from tests.helpers.commands import words
from tests.helpers.indices import open_index
from tests.helpers.packages import imported

TEXTS = [f"{words(1)} {ending}" for ending in ("one", "two", "three")] + [words(2), words(3)]
DOCUMENTS = [{"id": f"d{number}", "text": text} for number, text in enumerate(TEXTS)]


@pytest.fixture
def index(tmp_path: Path) -> esdedup.Index:
    opened = esdedup.open(tmp_path / "a.db")
    opened.add(DOCUMENTS)
    return opened


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"a text", "document 1: use a mapping or text, not bytes"),
        ({"id": uuid.UUID(int=5), "text": "x"}, "document 1: the id field 'id' is neither text"),
        ({"id": "a", "text": b"x"}, "document 1: the field 'text' is not text but bytes"),
        ({"id": "a", "text": []}, "document 1: the field 'text' is a list without text"),
        ({"id": "a", "text": "x", "more": {1}}, "document 'a' can't be written as JSON: a set"),
        ({"id": "a", "text": "x", "more": math.nan}, "document 'a' can't be written as JSON"),
        # One that is a duplicate too is refused as the others.
        ({**DOCUMENTS[0], "id": "b", "at": datetime.now(UTC)}, "document 1: it is"),
    ],
)
def test_what_is_no_document_of_json_is_named(
    index: esdedup.Index, document: Any, reason: str
) -> None:
    with pytest.raises(RecordError, match=reason):
        index.add([document], on_duplicate="fail")


def test_an_update_that_is_not_json_is_no_damage(index: esdedup.Index) -> None:
    with pytest.raises(RecordError, match="document 'd1' can't be written as JSON: a set"):
        index.update([{"id": "d1", "esdedup": {"note": {1}}}])


def test_documents_without_an_id_get_a_random_one(tmp_path: Path) -> None:
    documents: list[dict[str, Any]] = [{"text": text} for text in TEXTS]
    with esdedup.open(tmp_path / "a.db") as index:
        for _ in range(2):
            assert index.add([*documents, {"id": "own", "text": "an own id"}]).failed == 0
        ids = [one.id for batch in index.store.scan([], index.meta) for one in batch]
        found = {one.id: one.source for one in index.store.get(ids)}
        assert len(found) == 11
        assert all(re.fullmatch("[0-9a-f]{32}", id) for id in found if id != "own")
        # Their fields are those that were given.
        assert all("id" not in source for id, source in found.items() if id != "own")
        assert index.add([{"id": None, "text": "x y"}, {"id": "", "text": "y z"}]).created == 2
        for wrong in (1.5, True):
            with pytest.raises(RecordError, match="id field 'id'"):
                index.add([{"id": wrong, "text": "x"}])


def test_texts_without_an_index() -> None:
    (pair,) = found = esdedup.pairs([*TEXTS[2:], TEXTS[2]], threshold=0.9)
    assert (pair.left, pair.right, pair.equal, len(found)) == ("0", "3", True, 1)
    groups = esdedup.group(TEXTS, keep="last")
    assert [(each.representative, len(each.members)) for each in groups] == [("2", 2)]
    assert repr(groups) == "<Groups: 1 of 5 documents, 2 duplicates>"
    assert esdedup.similarity("a b c d", "a b c e") == 1 / 3
    with pytest.raises(UsageError, match="no argument 'treshold': did you mean 'threshold'"):
        esdedup.pairs(TEXTS, treshold=0.9)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="records: give a list"):
        esdedup.group(TEXTS[0])
    with pytest.raises(UsageError, match="no argument 'user': did you mean 'username'"):
        esdedup.open("http://localhost:1", user="ann")  # type: ignore[call-arg]


def test_an_index_in_memory_takes_texts_and_leaves_no_file() -> None:
    with open_index(":memory:", TEXTS) as index:
        folder = Path(index.store.address).parent
        result = index.similar(TEXTS[0])
        assert len(result) == 3
        assert {match.source["text"] for match in result} == {*TEXTS[:3]}
        assert {name for match in result for name in match.source} == {"text"}
    assert not folder.exists()


def test_results_are_tables_of_other_libraries(index: esdedup.Index) -> None:
    duckdb, polars = imported("duckdb"), imported("polars")
    result, groups, pairs = index.similar(id="d0"), index.groups(), index.pairs(threshold=0.9)
    for found, columns in (
        (result, ["id", "similarity", "distance", "matched"]),
        (groups, ["group", "id", "similarity", "distance"]),
        (pairs, ["left", "right", "similarity", "distance", "equal", "of_left", "of_right"]),
        (index.groups(threshold=1.0), ["group", "id", "similarity", "distance"]),
    ):
        assert polars.DataFrame(found).columns == columns
        assert found.to_arrow().num_rows == len(found.to_pandas())
    assert polars.DataFrame(groups).rows()[0] == ("d0", "d0", None, None)
    counted = duckdb.query("SELECT count(*) FROM pairs")
    assert counted is not None
    assert counted.fetchall() == [(len(pairs),)]
    assert esdedup.arrow.tokens(polars.DataFrame({"text": TEXTS})).num_rows == len(TEXTS)


def test_python_m_esdedup() -> None:
    shown = subprocess.check_output(
        [sys.executable, "-m", "esdedup", "similar", "--help"], text=True
    )
    assert "Usage: esdedup similar" in shown


def test_an_index_shows_its_place_and_size() -> None:
    with esdedup.open("news.db", "news") as index:
        assert repr(index) == "<Index 'news' in news.db: no documents yet>"
        index.add(DOCUMENTS)
        assert repr(index) == "<Index 'news' in news.db: 5 documents>"
    assert repr(index) == "<Index 'news' in news.db: closed>"
