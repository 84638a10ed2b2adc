"""Decisions on the pages, and the way back from each of them."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import esdedup
from esdedup.review.group_search import members_of
from esdedup.review.pages import Review
from esdedup.sketch.sketch import text_digests
from esdedup.stores.judgements import VERDICTS, Judgement
from tests.helpers.commands import words
from tests.helpers.full_disk import largest_file
from tests.review.visitor import visiting

Open = Callable[..., Review]
DOCUMENTS = [
    {"id": f"{id}{at}", "text": words(seed, 60).replace(" ", f" x{at} ", 1)}
    for seed, id in enumerate("ab")
    for at in (1, 2, 3)
]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Open the pages over six documents in two groups, with the groups found."""

    def start(**grouping: Any) -> Review:
        review = visiting(tmp_path / "a.db", DOCUMENTS, **grouping).review
        assert review.group_search.find().over.wait(60)
        return review

    return start


def groups(review: Review) -> set[tuple[str, ...]]:
    """The ids of each group, its representative first."""
    found = review.group_search.groups()
    assert found is not None
    return {
        (found.ids[head], *sorted(found.ids[row] for row in members_of(found, head)))
        for head in found.heads.tolist()
    }


BOTH = {("a1", "a2", "a3"), ("b1", "b2", "b3")}


@pytest.mark.parametrize("method", ["leader", "components"])
def test_undo_gives_back_the_groups_of_all_documents(opened: Open, method: str) -> None:
    review = opened(method=method)
    assert groups(review) == BOTH
    review.decisions.judge([("a2", "b1")], "duplicate")
    joined = groups(review)
    assert joined != BOTH
    review.decisions.judge([("a1", "b1")], "different")
    assert groups(review) != joined
    review.decisions.undo()
    assert groups(review) == joined
    review.decisions.undo()
    assert groups(review) == BOTH


def test_a_judgement_of_another_client_is_not_undone(opened: Open, tmp_path: Path) -> None:
    review = opened()
    with esdedup.open(tmp_path / "a.db") as other:
        review.decisions.judge([("a1", "a2")], "duplicate")
        theirs = other.judgements.judge("a1", "a2", "different")
        with pytest.raises(esdedup.UsageError, match="judged again by another client"):
            review.decisions.undo()
        assert other.judgements.read().pairs == (theirs,)


def test_another_choice_replaces_those_of_the_group(opened: Open) -> None:
    review = opened()
    for id in ("a2", "b2", "a3"):
        review.decisions.represent(id, ["a1", "a2", "a3", "b1", "b2", "b3"])
        assert review.index.judgements.read().representatives == (id,)
    assert groups(review) == {("a3", "a1", "a2"), ("b1", "b2", "b3")}
    review.decisions.unrepresent("a3")
    assert groups(review) == BOTH
    assert review.group_search.outdated is None
    # Groups that were found with a choice must all be found again without it.
    review.index.judgements.represent("b2")
    review = opened()
    assert groups(review) == {("a1", "a2", "a3"), ("b2", "b1", "b3")}
    review.decisions.unrepresent("b2")
    assert "when all groups are found again" in str(review.group_search.outdated)


def test_undo_writes_the_judgement_before_unchanged(opened: Open) -> None:
    review = opened()
    index = review.index
    earlier = index.judgements.judge("a1", "a2", "duplicate")
    made = review.decisions.judge([("a1", "a2")], "different")
    index.add([{"id": "a1", "text": "Another text, of which nobody has judged a word."}])
    # A first try that fails leaves the judgement to be undone.
    with largest_file(0), pytest.raises(esdedup.exceptions.StoreError):
        review.decisions.undo(made.time)
    assert index.judgements.read().pairs == made.judgements
    review.decisions.undo(made.time)
    with pytest.raises(esdedup.UsageError, match="nothing to undo"):
        review.decisions.undo(made.time)
    assert index.judgements.read().pairs == (earlier,)


JUDGED = st.builds(
    lambda ids, verdict, day, turned: (ids, verdict, f"2026-01-{day:02}T00:00:00+00:00", turned),
    st.sampled_from([("a1", "a2"), ("a2", "a10"), ("a1", "b1")]),
    st.sampled_from(VERDICTS),
    st.integers(1, 4),
    st.booleans(),
)


@settings(max_examples=25)
@given(st.lists(JUDGED, max_size=3), st.lists(JUDGED, max_size=8))
def test_of_each_pair_the_newest_judgement_of_files_is_kept(stored: Any, lines: Any) -> None:
    """In whatever order they are in the files, and whichever id comes first."""
    scheme = esdedup.Scheme()
    normalisation = scheme.normalisation.to_json() | {"version": scheme.normalisation.version}

    def judgement(ids: tuple[str, str], verdict: str, judged: str, turned: bool) -> Judgement:
        digests = text_digests([*ids])
        step = -1 if turned else 1
        left, right = ids[::step]
        return Judgement.from_json(
            {"left": left, "right": right, "verdict": verdict, "digests": digests[::step]}
            | {"normalisation": normalisation, "similarity": None, "judged": judged}
            | {"drawn": False}
        )

    with tempfile.TemporaryDirectory() as folder:
        review = visiting(Path(folder) / "a.db", DOCUMENTS).review
        judgements = review.index.judgements
        wanted: dict[tuple[str, str], str] = {}
        for each in stored:
            judgements.write([judgement(*each)])
            wanted[each[0]] = each[2]
        before = dict(wanted)
        review.decisions.read([judgement(*each) for each in lines])
        for ids, _, judged, _ in lines:
            wanted[ids] = max(judged, wanted.get(ids, ""))
        found = judgements.read().pairs
        assert {(each.left, each.right): each.judged for each in found} == wanted
        for each in found:
            assert [*each.digests] == text_digests([each.left, each.right])
            ids = each.left, each.right
            known = stored if each.judged == before.get(ids) else lines
            assert (ids, each.verdict, each.judged) in {row[:3] for row in known}


def test_what_changes_no_group_leaves_them(opened: Open) -> None:
    review = opened(split_templates=True)
    review.decisions.judge([("a1", "b1")], "unsure")
    review.decisions.undo()
    assert (review.group_search.decided, review.group_search.outdated) == (0, None)
    assert groups(review) == BOTH
    # Templates are split among all documents.
    review.decisions.judge([("a1", "a2")], "different")
    assert groups(review) == BOTH
    assert "find all groups again" in str(review.group_search.outdated)
