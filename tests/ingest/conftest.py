"""Each test runs in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import esdedup
from tests.helpers.places import Place


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with esdedup.open(place.target, place.index) as index:
        index.create()
        yield index
