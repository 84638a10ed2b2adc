"""Pairs and groups compare tokens if their bands reach the recall asked for, else texts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import esdedup
from esdedup.models import natural
from esdedup.stores.changes import update
from esdedup.text.strings import Strings, natural_order
from tests.helpers.commands import run_command, words
from tests.helpers.indices import open_index
from tests.helpers.places import Place

FEW = esdedup.Scheme([esdedup.MinHash(permutations=12, bands=4, rows=3), esdedup.SimHash()], seed=7)
"""Bands that find 41% of the pairs at Jaccard 0.5, and 94% at 0.8."""


def alike(count: int) -> list[dict[str, Any]]:
    """Pairs of texts of which one has other words at the end: about Jaccard 0.5."""
    made = []
    for n in range(count):
        text = words(n, 24).split()
        made.append({"id": f"d{2 * n}", "text": " ".join(text)})
        made.append(
            {"id": f"d{2 * n + 1}", "text": " ".join([*text[:17], *words(5_000 + n, 7).split()])}
        )
    return made


@pytest.fixture
def index(place: Place) -> Iterator[esdedup.Index]:
    with open_index(place, alike(100), scheme=FEW) as index:
        yield index


def test_pairs_reach_the_recall_that_stored_bands_do_not(index: esdedup.Index) -> None:
    asked = index.pairs(threshold=0.5)
    assert str(asked.basis) == "texts, 52 bands of 3 rows"
    assert (asked.recall or 0) >= 0.999
    assert len(asked) == 100
    less = index.pairs(threshold=0.5, recall=0.3)
    assert str(less.basis) == "tokens, 4 bands of 3 rows"
    assert 0.3 <= (less.recall or 0) < 0.5
    assert len(less) < 80
    assert {(pair.left, pair.right) for pair in less} < {(pair.left, pair.right) for pair in asked}
    # No scheme has more bands for it: the warning of low recall is the only one.
    assert index.pairs(threshold=0.0001).basis.read == "tokens"
    by_distance = index.pairs(sketch="simhash")
    assert (by_distance.basis.read, by_distance.basis.bands) == ("tokens", None)


def test_with_a_stop_list_stored_tokens_are_read(index: esdedup.Index) -> None:
    (hot, *_) = index.hot_buckets(1, sketches=["minhash"]).buckets
    index.stop_list.replace([hot.token])
    assert index.pairs(threshold=0.5).basis.read == "tokens"
    index.stop_list.replace([])
    assert index.pairs(threshold=0.5).basis.read == "texts"


def test_groups_say_what_was_compared(place: Place, index: esdedup.Index, tmp_path: Path) -> None:
    shown = ["duplicates", "read", "bands", "rows"]
    folder = ["--work", str(tmp_path / "work")]
    page = ["--output", str(tmp_path / "page.html")]
    expected: list[tuple[list[str], list[object]]] = [
        (["-t", "0.5"], [100, "texts", 52, 3]),
        (["-t", "0.95", "--recall", "0.9"], [0, "tokens", 4, 3]),
        (["--exact"], [0, "tokens", None, None]),
    ]
    for options, figures in expected:
        ran = run_command("group", *place.options, *options, "--dry-run", *folder)
        assert [ran.json[0][name] for name in shown] == figures
        ran = run_command("report", *place.options, *options, *page)
        assert [ran.json[0][name] for name in shown] == figures


IDS = st.text(st.sampled_from("ab019\0\1é中/:\ue000😀"), max_size=9)


@given(st.lists(IDS, max_size=40))
@example(["1" * 300, "1" * 299, "x" + "0" * 300, "x" + "0" * 200 + "5", "x", "10", "9", "09"])
def test_ids_in_arrays_have_the_natural_order(ids: list[str]) -> None:
    strings = Strings.of(ids)
    assert (list(strings), strings[:2]) == (ids, ids[:2])
    order, first = natural_order(strings)
    assert order.tolist() == sorted(range(len(ids)), key=lambda row: natural(ids[row]))
    ordered = list(strings.picked(order))
    assert ordered == sorted(ids, key=natural)
    assert first.tolist() == [
        row == 0 or ordered[row] != ordered[row - 1] for row in range(len(ids))
    ]


def test_documents_whose_text_went_are_alone(tmp_path: Path) -> None:
    with open_index(
        tmp_path / "a.db",
        [{"id": "a", "text": words(1, 20)}, {"id": "b", "text": words(1, 20)}],
        scheme=FEW,
    ) as index:
        assert [(pair.left, pair.right) for pair in index.pairs()] == [("a", "b")]
        update(index.store, [esdedup.Document("b", {"text": None})])
        assert len(index.pairs()) == 0
        assert json.dumps([*index.groups(threshold=0.5)]) == "[]"


def test_what_is_stopped_is_not_promised(index: esdedup.Index) -> None:
    footer = words(9_999, 37)
    index.add([{"id": f"f{n}", "text": f"{words(70_000 + n, 10)} {footer}"} for n in range(60)])
    index.stop_list.replace([bucket.token for bucket in index.hot_buckets(over=40).buckets])
    for found in (index.pairs(threshold=0.5), index.group().groups, index.similar(footer)):
        assert found.recall is None
