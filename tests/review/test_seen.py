"""A judgement is on the texts that a person saw, and replaces no verdict that they did not see."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import esdedup
from esdedup.stores.judgements import digests_of
from tests.helpers.commands import words
from tests.helpers.places import whole
from tests.review.visitor import Visitor, links, plain, verdict_form, visiting

TEXT = words(1, 60)
DOCUMENTS = [
    *({"id": f"a{number}", "text": f"{TEXT} number{number}"} for number in (1, 2, 3)),
    {"id": "other", "text": words(2, 60)},
]
CHANGED = "a story that has nothing to do with the former one " + words(3, 40)
PAGES = ["/compare?left=a1&right=a2", "/group?id=a1", "/judge"]
CHANGED_TEXT = "A text has changed since you saw it"
JUDGED = "These documents were judged since you saw them"


@pytest.fixture
def visitor(tmp_path: Path) -> Visitor:
    """A visitor who may write, when groups are found and pairs drawn."""
    visitor = visiting(tmp_path / "a.db", DOCUMENTS)
    for path in ("/groups", "/judge"):
        visitor.settled(path)
    return visitor


@pytest.fixture
def other(visitor: Visitor, tmp_path: Path) -> Iterator[esdedup.Index]:
    """Another client of the index, which changes texts and judges."""
    with esdedup.open(tmp_path / "a.db") as index:
        yield index


def form(visitor: Visitor, path: str, verdict: str) -> tuple[str, str, str]:
    """A form of a page, and the ids that it is about."""
    page = visitor.get(path).text
    address = verdict_form(page, verdict)
    values = dict(each.partition("=")[::2] for each in address.partition("?")[2].split("&"))
    return address, values["left"], values["right"]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("verdict", ["duplicate", "different"])
def test_a_verdict_on_a_text_that_changed_is_asked_again(
    visitor: Visitor, other: esdedup.Index, path: str, verdict: str
) -> None:
    address, left, right = form(visitor, path, verdict)
    other.add([{"id": right, "text": CHANGED}])
    answer = visitor.post(address)
    assert not other.judgements.read()
    assert CHANGED_TEXT in plain(answer.text)
    assert "nothing to do with the former one" in plain(answer.text)
    # The same button again is on the text of now, and leads on from the page that it was on.
    after = visitor.post(verdict_form(answer.text, verdict))
    assert after.url.path.endswith(path.partition("?")[0])
    (stored,) = other.judgements.read().pairs
    assert ({stored.left, stored.right}, stored.verdict) == ({left, right}, verdict)
    digests = digests_of(other.store.get([left, right]), ["text"], other.scheme.normalisation)
    assert stored.digests == (digests[stored.left], digests[stored.right])
    assert stored.drawn == (path == "/judge")


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(
    ("mine", "theirs", "shown"),
    [
        ("different", "duplicate", "Judged: a duplicate"),
        ("duplicate", "different", "Judged: not a duplicate"),
    ],
)
def test_the_verdict_of_another_person_is_shown_before_it_is_replaced(
    visitor: Visitor, other: esdedup.Index, path: str, mine: Any, theirs: Any, shown: str
) -> None:
    address, left, right = form(visitor, path, mine)
    before = other.judgements.judge(left, right, theirs, drawn=path == "/judge")
    answer = visitor.post(address)
    assert other.judgements.read().pairs == (before,)
    assert JUDGED in plain(answer.text)
    assert shown in plain(answer.text)
    after = visitor.post(verdict_form(answer.text, mine))
    (stored,) = other.judgements.read().pairs
    assert stored.verdict == mine
    assert "again=" not in str(after.url)
    visitor.post("/undo?from=judge")
    assert other.judgements.read().pairs == (before,)


@pytest.mark.parametrize(("mine", "theirs"), [("duplicate", "duplicate"), ("different", "unsure")])
def test_verdicts_that_do_not_contradict_each_other_are_not_asked_again(
    visitor: Visitor, other: esdedup.Index, mine: Any, theirs: Any
) -> None:
    address, left, right = form(visitor, PAGES[0], mine)
    other.judgements.judge(left, right, theirs)
    answer = visitor.post(address)
    assert JUDGED not in plain(answer.text)
    assert other.judgements.read().pairs[0].verdict == mine


def test_a_pair_that_is_not_drawn_any_more_is_compared(
    visitor: Visitor, other: esdedup.Index
) -> None:
    address, _, right = form(visitor, "/judge", "different")
    other.add([{"id": right, "text": CHANGED}])
    for start, path in (("/groups/find", "/groups"), ("/judge/draw", "/judge")):
        visitor.post(start)
        visitor.settled(path)
    answer = visitor.post(address)
    assert answer.url.path.endswith("/compare")
    assert CHANGED_TEXT in plain(answer.text)
    visitor.post(verdict_form(answer.text, "different"))
    (stored,) = other.judgements.read().pairs
    assert not stored.drawn


def test_a_form_that_names_no_texts_is_refused(visitor: Visitor, other: esdedup.Index) -> None:
    address, *_ = form(visitor, PAGES[0], "duplicate")
    for broken in (
        "/verdict?left=a1&right=a2&verdict=duplicate",
        address.replace("texts=", "text="),
        address.replace("judged=", "time="),
    ):
        answer = visitor.post(broken)
        assert answer.status_code == 400
        assert "which texts you saw" in answer.text
    assert not other.judgements.read()


def apart(visitor: Visitor) -> Callable[[], Any]:
    """Take a group apart from the list, when that shows it."""
    page = visitor.get("/groups").text
    (accept,) = [each for each in links(page, "/groups/accept") if "rows=" in each]
    row = page.partition('name="row')[2].partition('"')[0]
    return lambda: visitor.post(accept, data={"how": "apart", f"row{row}": "on"})


def split(how: str) -> Callable[[Visitor], Callable[[], Any]]:
    """Split the group on its page."""

    def opened(visitor: Visitor) -> Callable[[], Any]:
        page = visitor.get("/group?id=a1").text
        (action,) = links(page, "/group/split")
        row = page.partition('form="split" name="row')[2].partition('"')[0]
        return lambda: visitor.post(action, data={"how": how, f"row{row}": "on"})

    return opened


BATCHES = pytest.mark.parametrize(
    "opened", [apart, split("all"), split("selected")], ids=["apart", "all", "selected"]
)


@BATCHES
def test_a_group_is_not_taken_apart_after_a_text_of_it_changed(
    visitor: Visitor, other: esdedup.Index, opened: Callable[[Visitor], Callable[[], Any]]
) -> None:
    press = opened(visitor)
    other.add([{"id": "a3", "text": f"{TEXT} another number"}])
    answer = press()
    assert answer.status_code == 400
    assert "the text of &#39;a3&#39; has changed since you saw it" in answer.text.lower()
    assert not other.judgements.read()
    # The page shows the group of the texts of now.
    assert opened(visitor)().status_code == 200
    stored = other.judgements.read().pairs
    assert {each.verdict for each in stored} == {"different"}
    digests = digests_of(other.store.get(["a1", "a2", "a3"]), ["text"], stored[0].normalisation)
    for each in stored:
        assert each.digests == (digests[each.left], digests[each.right])


BESIDE = esdedup.Scheme(
    [
        esdedup.MinHash(),
        esdedup.Vectors(4, 0.9, name="v", fields=["v"]),
        esdedup.Bits(64, 8, name="h", fields=["h"]),
        esdedup.MinHash(name="title", fields=["title"]),
    ]
)
BY_OTHER_FIELDS = pytest.mark.parametrize(
    "way",
    [
        {"sketch": "v", "cosine": 0.9, "threshold": 0.8},
        {"sketch": "h", "distance": 8},
        {"sketch": "title", "threshold": 0.6},
    ],
    ids=["v", "h", "title"],
)


def visiting_by_another_field(file: Path, way: dict[str, Any]) -> Visitor:
    """A visitor of a group of three documents that are similar in all fields but their texts."""
    documents = [
        {
            "id": f"a{number}",
            "text": words(number, 60),
            "title": f"{TEXT} number{number}",
            "h": f"{0xFF00 + number:016x}",
            "v": [1.0, 0.5, 0.25, number / 1000],
        }
        for number in (1, 2, 3)
    ]
    visitor = visiting(file, documents, scheme=BESIDE, **way)
    visitor.settled("/groups")
    return visitor


@BATCHES
@BY_OTHER_FIELDS
def test_a_group_by_another_field_is_taken_apart(
    tmp_path: Path, way: dict[str, Any], opened: Callable[[Visitor], Callable[[], Any]]
) -> None:
    visitor = visiting_by_another_field(tmp_path / "a.db", way)
    with esdedup.open(tmp_path / "a.db") as other:
        press = opened(visitor)
        other.update([{"id": "a3", "text": CHANGED}])
        answer = press()
        assert answer.status_code == 400
        assert "the text of &#39;a3&#39; has changed since you saw it" in answer.text.lower()
        assert not other.judgements.read()
        assert opened(visitor)().status_code == 200
        assert {each.verdict for each in other.judgements.read().pairs} == {"different"}
        found = other.groups(**way)
        assert found.judged.different == len(other.judgements.read().pairs)
        assert found.judged.stale == 0
        visitor.post("/undo?from=judge")
        assert not other.judgements.read()
        assert "a3" in plain(visitor.get("/group?id=a1").text)


@pytest.mark.parametrize("path", PAGES[:2])
@BY_OTHER_FIELDS
def test_a_verdict_on_a_pair_changes_the_groups_by_another_field(
    tmp_path: Path, way: dict[str, Any], path: str
) -> None:
    visitor = visiting_by_another_field(tmp_path / "a.db", way)
    address, left, right = form(visitor, path, "different")
    visitor.post(address)
    groups = visitor.review.group_search.groups()
    assert groups is not None
    of = dict(zip(groups.ids, groups.representative.tolist(), strict=True))
    assert of[left] != of[right]
    assert groups.duplicates == 1


@BATCHES
def test_a_group_is_not_taken_apart_over_the_verdict_of_another_person(
    visitor: Visitor, other: esdedup.Index, opened: Callable[[Visitor], Callable[[], Any]]
) -> None:
    press = opened(visitor)
    theirs = [other.judgements.judge("a1", id, "duplicate") for id in ("a2", "a3")]
    answer = press()
    assert answer.status_code == 400
    assert "were judged duplicates since you saw them" in answer.text
    assert [*other.judgements.read().pairs] == theirs
    assert "Judged: a duplicate" in visitor.get("/group?id=a1").text
    assert opened(visitor)().status_code == 200
    assert "different" in {each.verdict for each in other.judgements.read().pairs}
    visitor.post("/undo?from=judge")
    assert [*other.judgements.read().pairs] == theirs


def test_own_verdicts_are_known_when_a_group_is_taken_apart(
    visitor: Visitor, other: esdedup.Index
) -> None:
    visitor.judge("a1", "a2", "duplicate")
    other.judgements.judge("a2", "a3", "unsure")
    assert split("all")(visitor)().status_code == 200
    assert {each.verdict for each in other.judgements.read().pairs} == {"different"}


def test_nothing_is_removed_by_a_verdict_on_another_text(
    visitor: Visitor, other: esdedup.Index
) -> None:
    address, *_ = form(visitor, "/compare?left=a1&right=a2", "duplicate")
    other.add([{"id": "a2", "text": CHANGED}])
    visitor.post(address)
    visitor.judge("a1", "other", "duplicate")
    visitor.post("/groups/find")
    visitor.settled("/groups")
    page = visitor.get("/decide/confirm?action=delete").text
    (run,) = links(page, "/decide/run")
    # The text of a document that a judgement joined changes after the page was shown.
    other.add([{"id": "other", "text": f"{CHANGED} and more"}])
    visitor.post(run, data={"word": "delete"})
    visitor.settled("/decide")
    assert {*whole(other.store)} == {"a1", "a2", "other"}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.just("")),
        st.tuples(st.just("text"), st.sampled_from(["one", "two"])),
        st.tuples(st.just("theirs"), st.sampled_from(["duplicate", "different", "unsure"])),
        st.tuples(st.just("press"), st.sampled_from(["duplicate", "different", "unsure"])),
    ),
    max_size=8,
)


@settings(max_examples=25)
@given(STEPS)
def test_each_stored_verdict_is_on_what_its_page_showed(steps: list[tuple[str, Any]]) -> None:
    """Whatever others do between the page and its button."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.db"
        visitor = visiting(file, DOCUMENTS[:2])
        page = visitor.get(PAGES[0]).text
        shown = text = "number2"
        verdict, seen = "", ""
        with esdedup.open(file) as index:
            for step, value in steps:
                if step == "open":
                    page = visitor.get(PAGES[0]).text
                    shown, seen = text, verdict
                elif step == "text":
                    text = value
                    index.add([{"id": "a2", "text": f"{TEXT} {value}"}])
                elif step == "theirs":
                    index.judgements.judge("a1", "a2", value)
                    verdict = f"{value} {text}"
                else:
                    visitor.post(verdict_form(page, value))
                    former = verdict.partition(" ")[0]
                    known = verdict == seen or former in ("", "unsure", value)
                    if shown == text and known:
                        verdict = f"{value} {text}"
                stored = index.judgements.read().pairs
                assert [each.verdict for each in stored] == verdict.split()[:1]
                for each in stored:
                    judged = {"id": "a2", "text": f"{TEXT} {verdict.split()[1]}"}
                    documents = [esdedup.Document("a2", judged)]
                    digests = digests_of(documents, ["text"], each.normalisation)
                    assert each.digests[1] == digests["a2"]
