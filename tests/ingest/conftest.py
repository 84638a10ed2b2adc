"""Each test runs in a folder of its own."""

from collections.abc import Iterator

import pytest

import esdedup
from tests.helpers.places import Place


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with esdedup.open(place.target, place.index) as index:
        index.create()
        yield index
