"""`esdedup review` in a real browser, as a person uses it."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

import esdedup
from tests.helpers.places import Place, local, whole
from tests.review.browser import barriers, running_browser, watched
from tests.review.documents import articles, families, hostile, index
from tests.review.reviewing import Reviewing
from tests.servers.provide import refusing

pytestmark = pytest.mark.xdist_group("browser")

ARABIC = "يعاد افتتاح جسر المشاة فوق القناة يوم السبت بعد أحد عشر أسبوعا من أعمال الترميم"
JUDGED = 12
KEYS = [("d", "duplicate"), ("n", "different"), ("s", "unsure")]
PHONE = {"width": 390, "height": 844}


OpenPage = Callable[..., Page]


# Not of the session: while it runs, tests of other modules could not run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, which starts for the first test that needs it."""
    with refusing(), running_browser() as found:
        yield found


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open an address in a browser that has visited nothing; options of `Browser.new_context`."""
    complaints = []
    with ExitStack() as opened:

        def open_one(address: str, **options: Any) -> Page:
            context = opened.enter_context(browser.new_context(**options))
            complaints.append(watched(context, address))
            page = context.new_page()
            page.goto(address)
            return page

        yield open_one
    assert not any(complaints), complaints


def go(page: Page, name: str) -> None:
    """Open a page by the navigation."""
    link = page.get_by_role("navigation", name="Pages").get_by_role("link", name=name)
    link.click()
    expect(link).to_have_attribute("aria-current", "page")


def press(page: Page, key: str) -> None:
    """Press a key when the page is there with its scripts, which come after its text."""
    page.wait_for_load_state()
    page.keyboard.press(key)


def item(page: Page, id: str) -> Locator:
    """The part of a list that is about a document."""
    heading = page.get_by_role("heading", name=re.compile(rf"\b{id}\b"))
    return page.get_by_role("listitem").filter(has=heading)


def search(page: Page) -> None:
    """By an id, with differences marked, and a result compared, by keyboard alone."""
    keys, focused = page.keyboard, page.locator(":focus")
    # The page loads again when the groups are found.
    expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
    keys.press("Tab")
    expect(focused).to_have_text("Skip to the content")
    go(page, "Search")
    press(page, "/")
    keys.type("/?jkn")
    expect(focused).to_have_value("/?jkn")
    page.get_by_role("textbox", name="Document id").focus()
    keys.type("en-08")
    keys.press("Enter")
    expect(focused).to_have_text("2 similar documents")
    expect(item(page, "en-10").locator("mark")).to_have_text(["Bulletin: ", "a", "Friday"])
    press(page, "?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("Escape")
    for key, id in (("j", "en-10"), ("j", "en-09"), ("k", "en-10")):
        keys.press(key)
        expect(focused).to_contain_text(id)
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("en-08 and en-10")
    tokens = page.get_by_text("of 12 tokens are equal")
    expect(tokens).not_to_be_visible()
    page.get_by_text("Shared tokens").click()
    expect(tokens).to_be_visible()


def judge(page: Page) -> set[tuple[str, ...]]:
    """Judge pairs with no other thing than keys. Returns the ids and verdicts."""
    go(page, "Judge")
    said, sides = page.get_by_role("status"), page.get_by_role("heading", level=3)
    expect(said).to_have_text(judged_so_far(0))
    button = page.get_by_role("button", name="Duplicate").first
    place, judged = button.bounding_box(), set()
    for number in range(1, JUDGED + 1):
        left, right = sides.all_inner_texts()
        key, verdict = KEYS[int(left[1:3]) % 2] if left[0] == right[0] == "f" else KEYS[2]
        press(page, key)
        # This looks again sooner than `expect` does.
        said.filter(has_text=judged_so_far(number)).wait_for()
        # The next verdict is under the same finger.
        assert button.bounding_box() == place
        judged.add((*sorted((left, right)), verdict))
    press(page, "d")
    said.filter(has_text=judged_so_far(JUDGED + 1)).wait_for()
    press(page, "u")
    expect(said).to_have_text(judged_so_far(JUDGED))
    assert {verdict for *_, verdict in judged} == {verdict for _, verdict in KEYS}
    return judged


def judged_so_far(number: int) -> re.Pattern[str]:
    """What Judge shows after some judgements."""
    return re.compile(rf"\b{number} (of about \d+ )?judged")


def export(page: Page) -> None:
    """Read the file of an export back."""
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    page.get_by_text("Read judgements back").click()
    page.get_by_label("File of an export").set_input_files(download.value.path())
    page.get_by_role("button", name="Keep these judgements").click()
    expect(page.get_by_role("status")).to_contain_text(f"0 of {JUDGED} judgements were kept")


def decide_on_groups(page: Page) -> None:
    """Split one group, and choose another representative for one, by keyboard alone."""
    go(page, "Groups")
    page.get_by_role("link", name="Storm warning", exact=True).press("Enter")
    notice, focused = page.get_by_role("status"), page.locator(":focus")
    expect(page.get_by_role("article")).to_have_count(2)
    press(page, "j")
    expect(focused).to_contain_text("en-09")
    press(page, "n")
    expect(notice).to_contain_text("en-08 and en-09: judged not duplicates")
    # The notice stays in sight, and does not cover the member that has the focus.
    expect(focused).to_contain_text("en-10")
    above, below = notice.bounding_box(), focused.bounding_box()
    assert above is not None
    assert below is not None
    assert 0 <= above["y"] <= above["y"] + above["height"] <= below["y"]
    press(page, "u")
    expect(notice).to_have_count(0)
    expect(focused).to_contain_text("en-09")
    press(page, "r")
    expect(notice).to_contain_text("en-09 represents this group")
    go(page, "Groups")
    page.get_by_role("link", name="Library hours", exact=True).press("Enter")
    press(page, "j")
    press(page, "n")
    notice.get_by_role("link", name="Its group now").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("en-17 is in no group")
    go(page, "Groups")
    page.get_by_role("button", name="Find groups again").press("Enter")
    expect(page.get_by_role("link", name="Ferries stop as storm nears")).to_be_visible()
    for title in ("Storm warning", "Library hours"):
        expect(page.get_by_role("link", name=title, exact=True)).to_have_count(0)


def delete(page: Page) -> None:
    go(page, "Decide")
    page.get_by_role("radio", name="Delete duplicates").check()
    page.get_by_role("button", name="Continue").press("Enter")
    page.get_by_role("textbox", name="Type delete to continue").fill("delete")
    press(page, "Enter")
    ended(page, "duplicates", r"\d+ deleted")


def undo(page: Page) -> None:
    page.get_by_role("button", name=re.compile("^Undo")).press("Enter")
    ended(page, "Undo", r"\d+ restored")


def ended(page: Page, name: str, counts: str) -> None:
    """Wait until a run has ended, and the page does not ask for its progress any more."""
    run = page.get_by_role("status", name=re.compile(name)).get_by_role("paragraph").first
    expect(run).to_have_text(re.compile(f"^{counts}"))
    expect(page.get_by_role("progressbar")).to_have_count(0)


# On OpenSearch, the tests of words open pages, and those in tests/removal undo removals.
@pytest.mark.parametrize("place", ["local", "opensearch"], indirect=True)
def test_look_judge_decide_and_undo(
    place: Place, target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    index(tmp_path, target, [*articles(), *families(30)])
    options = (*target, "--write", "--show", "title")
    with Reviewing(tmp_path, *options) as app:
        page = open_page(app.url)
        search(page)
        judged = judge(page)
    with Reviewing(tmp_path, *options) as app:
        page = open_page(app.url)
        go(page, "Judge")
        expect(page.get_by_role("status")).to_have_text(judged_so_far(JUDGED))
        export(page)
        decide_on_groups(page)
        with esdedup.open(place.target, place.index) as opened:
            before = whole(opened.store)
            delete(page)
            after = whole(opened.store)
            assert set(before) - set(after) >= {"en-08"}
            assert set(after) >= {"en-09", "en-16", "en-17"}
            undo(page)
            assert whole(opened.store) == before
            groups = opened.groups()
            heads = groups.representative.tolist()
            head = {id: groups.ids[row] for id, row in zip(groups.ids, heads, strict=True)}
            for left, right, verdict in judged:
                together = head[left] == head[right]
                assert verdict == "unsure" or together == (verdict == "duplicate")


ADDRESSES = (
    "/",
    "/search",
    "/search?id=plain",
    "/compare?left=en-08&right=en-09",
    "/groups",
    "/group?id=plain",
    "/judge",
    "/threshold?other=0.6",
    "/decide",
    "/decide/confirm?action=delete",
)


@local
def test_everybody_can_use_each_page(
    target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    """With a screen reader, in the dark, on a phone; and texts of documents show as texts."""
    documents = [*articles(), *families(10), *hostile(), {"id": "arabic", "text": ARABIC}]
    index(tmp_path, target, documents)
    with Reviewing(tmp_path, *target, "--write", "--show", "url", "--show", "source") as app:
        page = open_page(app.url, viewport=PHONE)
        go(page, "Groups")
        expect(page.get_by_role("table")).to_be_visible()
        go(page, "Judge")
        expect(page.get_by_role("button", name="Skip")).to_be_visible()
        for address in ADDRESSES:
            page.goto(app.at(page, address))
            expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
            assert barriers(page) == [], address
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], address
            page.emulate_media(color_scheme="dark")
            assert barriers(page, "color-contrast") == [], address
            page.emulate_media(color_scheme="light")
            if "plain" in address:
                expect(page.get_by_role("main")).to_contain_text("<script>alert('script')</script>")
                expect(page.locator("#injected")).to_have_count(0)
        page.goto(app.at(page, "/document?id=arabic"))
        shown = page.get_by_text(ARABIC)
        assert shown.evaluate("each => getComputedStyle(each).direction") == "rtl"
        # The language of a text is not that of the page.
        assert shown.evaluate("each => each.closest('[lang]').lang") == ""


@local
def test_groups_are_a_queue(target: list[str], tmp_path: Path, open_page: OpenPage) -> None:
    """Filtered by a field, accepted by a key, ticked together, and kept across starts."""
    index(tmp_path, target, [*articles(), *families(5)])
    options = (*target, "--write", "--show", "title", "--show", "lang", "--threshold", "0.6")
    with Reviewing(tmp_path, *options) as app:
        page = open_page(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        expect(page.get_by_role("article")).to_have_count(3)
        page.get_by_role("link", name="Look through the groups").first.press("Enter")
        page.get_by_role("combobox", name="lang").select_option("zh")
        page.get_by_role("combobox", name="Order").select_option("the least similar first")
        page.get_by_role("button", name="Show").press("Enter")
        expect(page.get_by_role("status").filter(has_text="7 groups")).to_be_visible()
        press(page, "j")
        press(page, "Enter")
        heading = page.get_by_role("heading", level=1)
        first = heading.inner_text()
        expect(page.get_by_role("main")).to_contain_text("group 1 of 7")
        # The one that stays is there once, and of the other only what differs.
        expect(page.locator("main ins").nth(1)).to_be_visible()
        press(page, "a")
        expect(page.get_by_role("main")).to_contain_text("group 2 of 7")
        expect(heading).not_to_have_text(first)
        press(page, "g")
        expect(page.get_by_role("main")).to_contain_text("group 3 of 7")
        page.get_by_role("link", name="All groups").press("Enter")
        expect(page.get_by_text("1 of ")).to_contain_text("looked at")
        for key in ("j", "j", "x", "j", "x"):
            press(page, key)
        press(page, "a")
        expect(page.get_by_role("status").filter(has_text="2 groups looked at")).to_be_visible()
        expect(page.get_by_text("3 of ")).to_contain_text("looked at")
        press(page, "u")
        expect(page.get_by_text("1 of ")).to_contain_text("looked at")
        page.get_by_role("button", name="All on this page are right").press("Enter")
        expect(page.get_by_text("7 of ")).to_contain_text("looked at")
    with Reviewing(tmp_path, *options) as app:
        page = open_page(app.url)
        go(page, "Groups")
        expect(page.get_by_text("7 of ")).to_contain_text("looked at")


@local
def test_the_newest_stay(target: list[str], tmp_path: Path, open_page: OpenPage) -> None:
    """The rule is tried on the page, with the groups it changes, used, and so deleted."""
    index(tmp_path, target, articles())
    options = (*target, "--write", "--show", "title", "--threshold", "0.6")
    with Reviewing(tmp_path, *options) as app:
        page = open_page(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        go(page, "Decide")
        page.get_by_label("Keep the").select_option("newest by a field")
        page.get_by_role("combobox", name="Field").fill("date")
        page.get_by_role("button", name="Show what changes").press("Enter")
        said = page.get_by_role("status")
        expect(said).to_contain_text("Another document stays in 8 of 15 groups.")
        rows = page.get_by_role("table").last.get_by_role("row")
        expect(rows.filter(has_text="en-08")).to_contain_text("2026-11-10")
        page.get_by_role("button", name="Use this rule").press("Enter")
        expect(page.get_by_text("the document with the newest date stays")).to_be_visible()
        delete(page)
        page.goto(app.at(page, "/document?id=en-10"))
        expect(page.get_by_role("heading", level=1)).to_have_text("en-10")


@local
def test_a_slider_shows_the_pairs_at_the_border(
    target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    """And what a person judged below the threshold is counted apart, and can be left out."""
    index(tmp_path, target, families(12))
    with Reviewing(tmp_path, *target, "--write") as app:
        page = open_page(app.url)
        go(page, "Threshold")
        slider = page.get_by_role("slider", name="Threshold")
        expect(slider).to_have_value("0.8")
        expect(page.get_by_text("the threshold of the groups,")).to_be_visible()
        before = page.locator("#border li").first.inner_text()
        slider.focus()
        for _ in range(20):
            press(page, "ArrowLeft")
        expect(page.get_by_text("At 0.6, ")).to_be_visible()
        expect(page.locator("#border li").first).not_to_have_text(before)
        expect(page.locator("#border li.above").last).to_contain_text(re.compile(r"0\.[67]"))
        expect(page.locator("#border li.below").first).to_contain_text(re.compile(r"0\.[345]"))
        assert barriers(page) == []
        page.goto(app.at(page, "/compare?left=f07-0&right=f08-0"))
        press(page, "d")
        expect(page.get_by_role("status")).to_contain_text("judged duplicates")
        go(page, "Decide")
        duplicates = page.locator("dd.number").nth(1)
        count = int(duplicates.inner_text())
        expect(page.get_by_role("main")).to_contain_text("only because you judged so")
        page.get_by_role("link", name="Leave them out").press("Enter")
        expect(page.get_by_role("link", name="Include them")).to_be_visible()
        assert int(duplicates.inner_text()) < count


@pytest.mark.on_every_server
@pytest.mark.parametrize("place", ["local", "opensearch"], indirect=True)
def test_words_are_found_and_in_chinese(
    place: Place, target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    index(tmp_path, target, articles())
    with Reviewing(tmp_path, *target, "--show", "title") as app:
        page = open_page(app.url, locale="zh-CN")
        expect(page.get_by_role("heading", level=1)).to_contain_text("重复")
        page.get_by_role("link", name="搜索", exact=True).first.press("Enter")
        press(page, "/")
        page.keyboard.type("夜里在东部沿海登陆")
        page.keyboard.press("Enter")
        expect(page.locator(":focus")).to_have_text("3 个文档含有这些词")
        expect(page.locator("main mark").first).to_have_text("夜里在东部沿海登陆")
        assert barriers(page) == []


@local
def test_a_search_shows_first_what_is_searched_for(
    target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    index(tmp_path, target, articles())
    with Reviewing(tmp_path, *target) as app:
        page = open_page(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        page.goto(app.at(page, "/search?id=en-08"))
        parts = page.get_by_role("main").get_by_role("heading", level=2)
        expect(parts).to_have_text(["The document that you search for", "2 similar documents"])
        expect(page.get_by_role("region", name="The document")).to_contain_text("storm")
        text = page.get_by_role("region", name="The document").locator(".text").inner_text()
        page.get_by_text("Documents similar to a text").click()
        page.get_by_role("textbox", name="Text", exact=True).fill(f"{text} Stay inside.")
        page.get_by_role("button", name="Search by text").press("Enter")
        expect(parts).to_have_text(["The text that you search for", "3 similar documents"])
        expect(page.get_by_role("region", name="The text")).to_contain_text("Stay inside.")
        assert barriers(page) == []


@local
def test_after_a_decision_the_next_group_is_one_key_or_button_away(
    target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    index(tmp_path, target, articles())
    options = (*target, "--write", "--show", "title", "--threshold", "0.6")
    with Reviewing(tmp_path, *options) as app:
        page = open_page(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        for by_key in (True, False):
            page.goto(app.at(page, "/groups?todo=1"))
            page.get_by_role("table").get_by_role("link").last.press("Enter")
            heading = page.get_by_role("heading", level=1)
            expect(heading).to_contain_text("Group of")
            expect(page.get_by_role("article")).to_have_count(1)
            press(page, "j")
            press(page, "n")
            # The group of two is none any more.
            expect(heading).to_contain_text("is in no group")
            expect(page.get_by_role("status")).to_contain_text("judged not duplicates")
            if by_key:
                press(page, "g")
            else:
                page.get_by_role("link", name="Next group").click()
            expect(heading).to_contain_text("Group of")


@local
def test_a_verdict_on_a_text_that_changed_is_asked_again(
    place: Place, target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    index(tmp_path, target, articles())
    with Reviewing(tmp_path, *target, "--write", "--threshold", "0.6") as app:
        page = open_page(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        page.goto(app.at(page, "/compare?left=en-08&right=en-09"))
        with esdedup.open(place.target, place.index) as other:
            other.add([{"id": "en-09", "text": "The museum in the old town opens on Sunday."}])
            press(page, "d")
            alert = page.get_by_role("alert")
            expect(alert).to_contain_text("A text has changed since you saw it")
            expect(page.get_by_role("main")).to_contain_text("The museum in the old town")
            assert barriers(page) == []
            assert not other.judgements.read()
            press(page, "n")
            expect(page.get_by_role("status")).to_contain_text("judged not duplicates")
            expect(alert).to_have_count(0)
            assert [each.verdict for each in other.judgements.read().pairs] == ["different"]


@local
def test_documents_can_be_read_before_they_are_deleted(
    target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    """Each with the document that stays."""
    index(tmp_path, target, articles())
    with Reviewing(tmp_path, *target, "--write", "--threshold", "0.6") as app:
        page = open_page(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        page.goto(app.at(page, "/decide/confirm?action=delete"))
        read = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="en-09"))
        expect(read).not_to_be_visible()
        page.get_by_text("Read the documents").click()
        expect(read).to_contain_text("(Coast Wire) A storm from the west")
        expect(page.get_by_role("textbox", name="Type delete")).to_have_value("")
        assert barriers(page) == []
        read.get_by_role("link", name="en-08").press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("en-08 and en-09")


@local
def test_long_texts_show_where_they_differ(
    target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    """Texts of 300,000 characters, beside each other and in their group."""
    places = [f"place{number}" for number in range(30_000)]
    changed = [*places[:20_000], "other", "words", *places[20_001:]]
    texts = [" ".join(words) for words in (places, changed)]
    assert min(map(len, texts)) > 300_000
    documents = [{"id": f"long-{number}", "text": text} for number, text in enumerate(texts)]
    index(tmp_path, target, documents)
    with Reviewing(tmp_path, *target) as app:
        page = open_page(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        page.goto(app.at(page, "/compare?left=long-0&right=long-1"))
        marks = page.get_by_role("main").locator(".text mark")
        expect(marks).to_have_text(["place20000", "other words"])
        page.goto(app.at(page, "/group?id=long-0"))
        member = page.get_by_role("article")
        expect(member.locator("del")).to_have_text("place20000")
        expect(member.locator("ins")).to_have_text("other words")


@local
def test_the_pages_are_on_one_line_of_a_phone(
    target: list[str], tmp_path: Path, open_page: OpenPage
) -> None:
    index(tmp_path, target, articles())
    with Reviewing(tmp_path, *target) as app:
        for locale in ("en", "zh-CN"):
            page = open_page(app.url, viewport=PHONE, locale=locale)
            # The first page loads again when the groups are found.
            page.goto(app.at(page, "/search"))
            links = page.get_by_role("navigation").first.get_by_role("link")
            expect(links).to_have_count(6)
            tops = [link.evaluate("each => each.offsetTop") for link in links.all()]
            assert len({*tops}) == 1, (locale, tops)
