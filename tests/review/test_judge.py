"""The pages Judge and Threshold over HTTP, without a browser."""

import html
import re
from pathlib import Path

import numpy as np
import pytest

import esdedup
from esdedup import MinHash, Scheme, Vectors
from esdedup.analysis.judging import Interval
from esdedup.review.judge import in_percent, similarities_on_axis
from tests.helpers.vectors import clustered
from tests.review.visitor import Visitor, links, visiting


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of 60 texts, each with a copy. Its first 0 to 19 of 40 words are other ones."""
    rng = np.random.default_rng(3)
    documents = []
    for number in range(60):
        words = [f"w{at}" for at in rng.integers(0, 9_000, 40).tolist()]
        copy = list(words)
        copy[: number // 3] = [f"x{number}-{at}" for at in range(number // 3)]
        documents += [
            {"id": f"a{number}", "text": " ".join(words)},
            {"id": f"b{number}", "text": " ".join(copy)},
        ]
    file = tmp_path_factory.mktemp("judge") / "index.db"
    visiting(file, documents)
    return file


@pytest.fixture
def visitor(file: Path) -> Visitor:
    """A visitor who may judge, and an index without judgements."""
    visitor = visiting(file, threshold=0.7)
    index = visitor.review.index
    for each in index.judgements.read().pairs:
        index.judgements.remove(each.left, each.right)
    visitor.settled("/judge")
    return visitor


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


def said(page: str) -> str:
    (found,) = re.findall(r'<p role="status">([^<]*)<', page)
    return html.unescape(found)


def test_pairs_are_judged_one_after_the_other(visitor: Visitor) -> None:
    page, shown = visitor.get("/judge").text, []
    for verdict in ("duplicate", "unsure", "different"):
        shown.append(pair(page))
        page = key(visitor, page, verdict)
    *_, last = visitor.review.index.judgements.read().pairs
    assert {last.left, last.right} == {*shown[-1]}
    similarity = visitor.review.index.explain(last.left, last.right).similarity
    assert (last.verdict, last.similarity, last.drawn) == ("different", similarity, True)
    # The similarity of a pair is hidden until it is judged.
    assert said(page).startswith(f"Judged: not a duplicate, similarity {similarity:.3f}. 3 of ")
    assert re.fullmatch(r"3 of about \d+ judged", said(visitor.get("/judge").text))
    # A pair is shown again after an undo, and was drawn as before.
    page = key(visitor, page, "undo?from=judge")
    assert (pair(page), said(page)[:5]) == (shown[-1], "2 of ")
    key(visitor, page, "different")
    assert visitor.review.index.judgements.read().pairs[-1].drawn


def test_a_pair_whose_document_is_gone_is_left_out(visitor: Visitor) -> None:
    index = visitor.review.index
    page = visitor.get("/judge").text
    gone = html.unescape(pair(page)[0])
    document = index.get(gone)
    index.delete([gone])
    (judge,) = [each for each in links(page, "/verdict") if "=duplicate" in each]
    answer, after = visitor.post(judge), visitor.get("/judge").text
    index.add([{**document.source, "id": gone}])
    assert (answer.status_code, "has no document" in answer.text) == (404, True)
    assert (said(after)[:5], gone in pair(after)) == ("0 of ", False)


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


@pytest.mark.parametrize(
    ("floor", "named"),
    [
        (0.3, [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]),
        (0.82, [0.85, 0.9, 0.95, 1.0]),
        (0.96, [0.96, 0.97, 0.98, 0.99, 1.0]),
        (1.0, [1.0]),
    ],
)
def test_an_axis_names_round_similarities(floor: float, named: list[float]) -> None:
    assert similarities_on_axis(floor) == named


def test_groups_may_have_another_threshold_or_none(file: Path) -> None:
    low = visiting(file, threshold=0.2).settled("/threshold")
    assert "Pairs less similar than 0.3 are too many" in low
    by_distance = visiting(file, sketch="simhash").settled("/threshold")
    assert "not by a similarity" in by_distance


def test_another_threshold_shows_the_pairs_that_change_sides(visitor: Visitor) -> None:
    page = visitor.settled("/threshold")
    assert "For precision at 0.7, judge 20 pairs of similarity 0.7 or more: 0 so far." in page
    # What nothing is known of is not listed.
    assert "Of 100" not in page
    assert "<table" not in page
    for judged in (2, 18):
        page = visitor.get("/judge").text
        for _ in range(judged):
            page = key(visitor, page, "duplicate")
    assert " of about " in said(page)
    page = visitor.get("/threshold").text
    assert re.search(r"Of 100 documents removed, at least \d+ are duplicates", page)
    assert re.search(r"Of 100 documents that repeat others, about \d+ are removed", page)
    page = visitor.get("/threshold?other=0.8").text
    found = links(page, "/compare")
    assert found
    for each in found:
        assert visitor.get(each).status_code == 200
    values = re.findall(r'data-name="Similarity">([\d.]+)<', page)
    assert values
    assert all(0.7 <= float(each) <= 0.8 for each in values)
    assert "Judged: a duplicate" in page
    border = visitor.get("/threshold/border?other=0.8").text
    assert "<html" not in border
    near = [float(each) for each in re.findall(r'<p><span class="number">([\d.]+)<', border)]
    assert len(near) == 4
    assert near == sorted(near, reverse=True)
    assert near[1] >= 0.8 > near[2]
    assert visitor.get("/threshold?other=0.1").status_code == 400
    assert visitor.get("/threshold?other=x").status_code == 400


def test_an_index_without_bands_can_not_be_judged(tmp_path: Path) -> None:
    scheme = esdedup.Scheme([esdedup.SimHash()])
    with esdedup.open(tmp_path / "index.db", scheme=scheme) as index:
        index.create()
    visitor = visiting(tmp_path / "index.db", [{"id": "a", "text": "one two three four"}])
    for path in ("/judge", "/threshold"):
        assert "no sketch with bands" in visitor.settled(path)


def test_vectors_are_judged_by_their_cosine(tmp_path: Path) -> None:
    vectors = clustered(120, 32, seed=11)
    documents = [
        {"id": f"v{row}", "text": f"text number {row}", "embedding": vector.tolist()}
        for row, vector in enumerate(vectors)
    ]
    sketches = [MinHash(), Vectors(32, name="embedding", fields=["embedding"])]
    file = tmp_path / "index.db"
    with esdedup.open(file, scheme=Scheme(sketches)) as index:
        index.add(documents)
    visitor = visiting(file, sketch="embedding", threshold=0.8, cosine=0.95)
    first = visitor.settled("/judge")
    assert "near the threshold 0.95" in first
    left, right = pair(first)
    assert "text number" in first
    wide = {row["id"]: np.array(row["embedding"]) for row in documents}
    cosine = wide[left] @ wide[right] / np.linalg.norm(wide[left]) / np.linalg.norm(wide[right])
    answer = key(visitor, first, "duplicate")
    assert f"similarity {cosine:.3f}" in answer
    page = visitor.settled("/threshold")
    assert "not by a similarity" not in page
    assert "At 0.95, the threshold of the groups," in page
    assert re.search(
        r"At 0.98, \d+ documents are removed", visitor.settled("/threshold?other=0.98")
    )
    visitor.post("/threshold/use?threshold=0.98")
    assert visitor.review.threshold == 0.98
    assert visitor.review.group_search.grouping.limits.cosine == 0.98
