"""Fingerprints of plain images, which say nothing, are similar to none unless they are included."""

from pathlib import Path

import pytest

from esdedup import Bits, Scheme
from tests.helpers.commands import run_command, write_lines
from tests.helpers.indices import open_index
from tests.helpers.places import Place

BLANK = {
    "p1": "8000000000000000",
    "p2": "8000000000000000",
    "z1": "0000000000000000",
    "z2": "0000000000000000",
    "o1": "7fffffffffffffff",
    "o2": "ffffffffffffffff",
    "r1": "c3c3c3c3c3c3c3c3",
    "r2": "c3c3c3c3c3c3c3c3",
}
SIMILAR = {"a": "d1e8c2735a9f0b46", "b": "d1e8c2735a9f0b47"}
RECORDS = [{"id": id, "phash": phash} for id, phash in {**BLANK, **SIMILAR}.items()]


@pytest.mark.on_every_server
def test_blank_fingerprints_of_an_index_are_similar_to_none(place: Place) -> None:
    scheme = Scheme([Bits(64, 4)])
    with open_index(place, RECORDS, scheme=scheme, text_field="phash") as index:
        pairs = index.pairs()
        assert [(pair.left, pair.right) for pair in pairs] == [("a", "b")]
        assert pairs.blank == len(BLANK)
        assert index.similar(BLANK["p1"]).matches == []
        assert index.similar(id="z1").matches == []
        assert [match.id for match in index.similar(id="a").matches] == ["b"]


@pytest.mark.parametrize(("form", "removed"), [("phash:64", {"b"}), ("phash:64:hex:all", None)])
def test_blank_fingerprints_of_files(folder: Path, form: str, removed: set[str] | None) -> None:
    write_lines(folder / "images.jsonl", RECORDS)
    options = ["images.jsonl", "--bits", form, "--distance", "4", "--json"]
    report = run_command("clean", *options, "--output", "out.jsonl").json[0]
    if removed is None:
        assert report["removed"] > 1
        assert "blank" not in report
    else:
        assert report["removed"] == len(removed)
        assert report["blank"] == len(BLANK)
        shown = run_command("pairs", *options)
        assert "8 documents have a blank fingerprint" in shown.err


def test_blank_fingerprints_are_part_of_a_scheme_only_if_they_are_compared() -> None:
    scheme = Scheme([Bits(64, 4, with_blank=True)])
    assert Scheme.from_json(scheme.to_json()) == scheme
    assert "with_blank" not in str(Scheme([Bits(64, 4)]).to_json())
    assert Bits(96, 4).text("c3" * 12) == "c3" * 12, "no rows of a square"
