"""A second index in the store of a test, to move documents to."""

from collections.abc import Iterator

import pytest

from esdedup.stores import Store
from tests.conftest import delete_index
from tests.helpers.places import Place


@pytest.fixture
def others(place: Place) -> Iterator[Place]:
    """Another index in the same store."""
    others = Place(place.target, f"{place.index}-others")
    yield others
    if isinstance(place.target, str):
        delete_index(place.target, others.index)


@pytest.fixture
def there(others: Place) -> Iterator[Store]:
    """The store of the other index."""
    store = others.open()
    yield store
    store.close()
