"""The pages Judge and Threshold over HTTP, without a browser."""

import html
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import esdedup
from esdedup.analysis.judging import Interval
from esdedup.arguments import from_settings
from esdedup.groups.groups import Grouping
from esdedup.review.app import review_of
from esdedup.review.judge import in_percent
from esdedup.stores.place import Place
from tests.review.visitor import Visitor, links

HOSTILE = "<b onclick=alert(1)>\u202e\u001b[31m{{ 7919*7907 }}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """An index of 60 texts, each with a copy. Its first 0 to 19 of 40 words are other ones."""
    rng = np.random.default_rng(3)
    documents = []
    for number in range(60):
        words = [f"w{at}" for at in rng.integers(0, 9_000, 40).tolist()]
        copy = list(words)
        copy[: number // 3] = [f"x{number}-{at}" for at in range(number // 3)]
        documents += [
            {"id": f"a{number}", "text": " ".join(words) + HOSTILE, "city": f"City {number}"},
            {"id": f"b{number}" if number else HOSTILE, "text": " ".join(copy) + HOSTILE},
        ]
    with esdedup.open(tmp_path_factory.mktemp("judge") / "index.db") as index:
        index.add(documents)
        return index.place


@pytest.fixture
def visitor(place: Place) -> Visitor:
    """A visitor who may judge, and an index without judgements."""
    visitor = visiting(place)
    index = visitor.review.index
    for each in index.judgements().pairs:
        index.unjudge(each.left, each.right)
    visitor.settled("/judge")
    return visitor


def visiting(place: Place, write: bool = True, **grouping: Any) -> Visitor:
    wanted = from_settings(Grouping, {"threshold": 0.7, **grouping})
    return Visitor(review_of(place, wanted, write=write, show=["city"]))


def pair(page: str) -> tuple[str, str]:
    """The ids of the pair that is shown."""
    left, right = re.findall(r'<h3><a href="[^"]*"><bdi class="id">([^<]*)<', page)
    return left, right


def key(visitor: Visitor, page: str, wanted: str) -> str:
    """Press a button of a page, and return the next page."""
    (path,) = [
        each for each in links(page, "/") if f"verdict={wanted}" in each or each[1:] == wanted
    ]
    answer = visitor.post(path)
    assert answer.status_code == 200
    return answer.text


UNDO = "undo?from=judge"


def said(page: str) -> str:
    (found,) = re.findall(r'<p role="status">([^<]*)<', page)
    return html.unescape(found)


def test_pairs_are_judged_one_after_the_other(visitor: Visitor) -> None:
    page = visitor.get("/judge").text
    shown = [pair(page)]
    for verdict in ("duplicate", "different", "unsure", "duplicate"):
        page = key(visitor, page, verdict)
        shown.append(pair(page))
    assert len(set(shown)) == 5
    kept = visitor.review.index.judgements().pairs
    assert [each.verdict for each in kept] == ["duplicate", "different", "unsure", "duplicate"]
    assert all(each.drawn for each in kept)
    assert {each.left for each in kept} <= {id for ids in shown[:4] for id in ids}
    similarity = visitor.review.index.explain(kept[-1].left, kept[-1].right).similarity
    assert kept[-1].similarity == similarity
    # The similarity of a pair is hidden until it is judged.
    assert said(page) == f"Judged: a duplicate, similarity {similarity:.3f}. 4 judged"
    assert said(visitor.get("/judge").text) == "4 judged"
    # A pair is shown again after an undo, and was drawn as before.
    page = key(visitor, page, UNDO)
    assert (pair(page), said(page)) == (shown[3], "3 judged")
    key(visitor, page, "different")
    assert visitor.review.index.judgements().pairs[-1].drawn


def test_a_pair_whose_document_is_gone_is_left_out(visitor: Visitor) -> None:
    index = visitor.review.index
    page = visitor.get("/judge").text
    gone = html.unescape(pair(page)[0])
    document = index.get(gone)
    index.delete([gone])
    try:
        (judge,) = [each for each in links(page, "/verdict") if "=duplicate" in each]
        answer = visitor.post(judge)
        assert (answer.status_code, "has no document" in answer.text) == (404, True)
        after = visitor.get("/judge").text
        assert said(after) == "0 judged"
        assert gone not in pair(after)
    finally:
        index.add([{**document.source, "id": gone}])


@pytest.mark.parametrize(
    ("interval", "wanted"),
    [
        (None, ("unknown", "")),
        (Interval(1.0, 0.0, 1.0), ("unknown", "")),
        (Interval(1.0, 0.6, 1.0), ("100.0%", "60.0 to 100.0%")),
        (Interval(0.99999, 0.98, 1.0), ("99.9%", "98.0 to 100.0%")),
    ],
)
def test_a_share_that_says_nothing_is_unknown(
    interval: Interval | None, wanted: tuple[str, str]
) -> None:
    assert in_percent(interval) == wanted


def test_groups_may_have_another_threshold_or_none(place: Place) -> None:
    low = visiting(place, threshold=0.2).settled("/threshold")
    assert "Pairs less similar than 0.3 are too many" in low
    by_distance = visiting(place, threshold=0.8, sketch="simhash").settled("/threshold")
    assert "not by Jaccard similarity" in by_distance


def test_another_threshold_shows_the_pairs_that_change_sides(visitor: Visitor) -> None:
    page = visitor.settled("/threshold")
    assert "For precision at 0.7, judge 20 pairs of similarity 0.7 or more: 0 so far." in page
    assert "unknown" in page
    assert "<polyline" not in page
    page = visitor.get("/judge").text
    for _ in range(20):
        page = key(visitor, page, "duplicate")
    page = visitor.get("/threshold?other=0.8").text
    assert page.count("<polyline") == 2
    found = links(page, "/compare")
    assert found
    for each in found:
        assert visitor.get(each).status_code == 200
    values = re.findall(r'data-name="Similarity">([\d.]+)<', page)
    assert len(values) == len(found)
    assert all(0.7 <= float(each) <= 0.8 for each in values)
    assert "Judged: a duplicate" in page
    assert visitor.get("/threshold?other=0.1").status_code == 400
    assert visitor.get("/threshold?other=x").status_code == 400


def test_an_index_without_bands_can_not_be_judged(tmp_path: Path) -> None:
    scheme = esdedup.Scheme([esdedup.SimHash()])
    with esdedup.open(tmp_path / "index.db", scheme=scheme) as index:
        index.add([{"id": "a", "text": "one two three four"}])
        place = index.place
    visitor = visiting(place)
    for path in ("/judge", "/threshold"):
        assert "no sketch with bands" in visitor.settled(path)
