"""Ids that several places have begin with the place, and the last document of each stays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.models import natural
from esdedup.runs.places import LastOfEachId, PlacedIds, PlacesOfDocuments, place_in, repeated_in
from esdedup.text.strings import Strings

documents = st.lists(
    st.tuples(st.sampled_from(["x-10", "x-2", "y"]), st.sampled_from(["1", "10", "2", "a", "a\0"]))
)


@given(documents)
def test_the_last_document_of_each_id_in_each_place(placed: list[tuple[str, str]]) -> None:
    ids = Strings.of([id for _, id in placed])
    last = LastOfEachId.of(ids, PlacesOfDocuments.of(place for place, _ in placed))
    last_row = {document: row for row, document in enumerate(placed)}
    order = sorted(last_row, key=lambda document: (natural(document[1]), natural(document[0])))
    assert last.rows.tolist() == [last_row[document] for document in order]
    places_of = {id: {place for place, other in placed if other == id} for _, id in placed}
    expected = [f"{place}/{id}" if len(places_of[id]) > 1 else id for place, id in order]
    picked = last.ids.picked(last.rows)
    assert [*picked] == expected
    assert [picked[row] for row in range(len(picked))] == expected
    repeated = [place if len(places_of[id]) > 1 else None for place, id in order]
    assert [place_in(picked, row) for row in range(len(picked))] == repeated
    assert repeated_in(picked) == sum(place is not None for place in repeated)


@given(documents, st.sets(st.sampled_from(["x-10", "x-2", "y"])))
def test_documents_of_places_that_are_gone_are_left_out(
    placed: list[tuple[str, str]], present: set[str]
) -> None:
    ids = Strings.of([id for _, id in placed])
    last = LastOfEachId.of(ids, PlacesOfDocuments.of(place for place, _ in placed), present)
    rows = [row for row, (place, _) in enumerate(placed) if place in present]
    without = LastOfEachId.of(ids.picked(np.array(rows, np.int64)), _places_of(placed, rows))
    assert last.rows.tolist() == [rows[row] for row in without.rows.tolist()]
    assert [*last.ids.picked(last.rows)] == [*without.ids.picked(without.rows)]


def _places_of(placed: list[tuple[str, str]], rows: list[int]) -> PlacesOfDocuments:
    return PlacesOfDocuments.of(placed[row][0] for row in rows)


@given(documents, documents)
def test_joined_places_are_those_of_all_documents(
    first: list[tuple[str, str]], second: list[tuple[str, str]]
) -> None:
    names = [[place for place, _ in part] for part in (first, second)]
    joined = PlacesOfDocuments.joined([*map(PlacesOfDocuments.of, names)])
    assert [joined.names[number] for number in joined.numbers.tolist()] == [*names[0], *names[1]]
    assert [*joined.names] == sorted({*names[0], *names[1]}, key=natural)


def test_ids_of_one_place_are_as_they_are() -> None:
    ids = Strings.of(["b", "a", "b"])
    for places in (None, PlacesOfDocuments.of(["x", "x", "x"])):
        last = LastOfEachId.of(ids, places)
        assert last.rows.tolist() == [1, 2]
        assert not isinstance(last.ids, PlacedIds)
        assert place_in(last.ids, 0) is None
    with pytest.raises(IndexError):
        last.ids[3]
    assert PlacesOfDocuments.of(["y", "x"]).picked(np.array([1])).numbers.tolist() == [0]
