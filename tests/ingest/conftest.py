"""Each test runs in a folder of its own."""

from collections.abc import Iterator

import pytest

import esdedup
from tests.helpers.indices import open_index
from tests.helpers.places import Place


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with open_index(place) as index:
        yield index
