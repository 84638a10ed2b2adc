"""An index whose scheme is of an earlier version goes on as it was."""

import json
from pathlib import Path

import pytest

import esdedup
from esdedup import Scheme
from esdedup.exceptions import SchemeMismatch
from esdedup.sketch.sketch import text_digests
from esdedup.text.characters import VERSIONS
from esdedup.text.normalise import normalise
from tests.helpers.indices import fill_index, open_index

FOLDER = Path(__file__).parents[2] / "unit" / "sketch"
TEXTS = json.loads((FOLDER / "golden_4.json").read_text("utf-8"))["texts"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_index_keeps_the_version_of_its_scheme(version: int, tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    texts = [text for text in TEXTS if text.strip()]
    fill_index(
        file,
        ({"id": str(row), "text": text} for row, text in enumerate(texts[::2])),
        scheme=Scheme(version=version),
    )
    with open_index(
        file, ({"id": f"later{row}", "text": text} for row, text in enumerate(texts[1::2]))
    ) as index:
        assert index.scheme == Scheme(version=version)
        stored = [index.get(str(row)).source["esdedup"] for row in range(len(texts[::2]))]
        assert {tokens["scheme"] for tokens in stored} == {index.scheme.id}
        digests = text_digests(normalise(texts[::2], index.scheme.normalisation))
        assert [tokens["digest"] for tokens in stored] == digests
        plain = index.similar("مرحبا بكم في مدينة", threshold=0.99).matches
        assert bool(plain) == (version > 3)
    other = Scheme(version=7 - version)
    with (
        pytest.raises(SchemeMismatch, match=f"version {version}, not {7 - version}"),
        esdedup.open(file, scheme=other) as index,
    ):
        index.add([{"id": "x", "text": "some words of a text"}])
