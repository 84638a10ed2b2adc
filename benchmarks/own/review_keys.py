"""Keys and seconds of a steward's work in `esdedup review`, by keyboard only, in Chromium.

    python -m benchmarks.own.review_keys [--documents 20000] [--groups 20] [--folder OUT]

Made-up texts with planted groups of near-duplicates (benchmarks/lib/planted.py), each with a source
and a date. The work: look through groups of one source, let the newest of each group stay, delete
the others, and undo that. The seconds are those of the browser and the pages, without the person.
"""

import argparse
import functools
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from benchmarks.lib import measuring
from benchmarks.lib.measuring import Figures
from benchmarks.lib.planted_index import planted_index
from tests.review.browser import running_browser
from tests.review.reviewing import Reviewing

SOURCES = ("agency", "blog", "newspaper")
MOST_TABS = 150
WAIT_MS = 600_000


class Keyboard:
    """Presses keys on a page, and counts them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.keys = 0

    def press(self, key: str) -> None:
        """Press a key when the scripts of the page are there."""
        self.page.wait_for_load_state()
        self.page.keyboard.press(key)
        self.keys += 1

    def write(self, text: str) -> None:
        """Type a text into the field that has the focus."""
        self.page.keyboard.type(text)
        self.keys += len(text)

    def tab_to(self, element: Locator) -> None:
        """Press Tab until an element has the focus."""
        self.page.wait_for_load_state()
        for _ in range(MOST_TABS):
            if element.evaluate("element => element === document.activeElement"):
                return
            self.press("Tab")
        raise AssertionError(f"not reached by Tab: {element}")

    def activate(self, role: str, name: str) -> None:
        """Go to a button or a link, and press Enter."""
        found = self.page.get_by_role(role, name=re.compile(name)).first  # type: ignore[arg-type]
        self.tab_to(found)
        self.press("Enter")


def look_through(keyboard: Keyboard, groups: int) -> None:
    """Accept the first groups of one source."""
    page = keyboard.page
    keyboard.activate("link", "^Look through the groups$")
    keyboard.tab_to(page.get_by_role("combobox", name="source"))
    keyboard.write("n")
    keyboard.activate("button", "^Show$")
    page.wait_for_url(re.compile("in.source=newspaper"))
    keyboard.press("j")
    keyboard.press("Enter")
    heading = page.get_by_role("heading", level=1)
    for _ in range(groups):
        expect(heading).to_contain_text("Group of")
        address = page.url
        keyboard.press("a")
        expect(page).not_to_have_url(address)


def let_the_newest_stay(keyboard: Keyboard) -> None:
    """Choose the rule, look at what it changes, and use it."""
    page = keyboard.page
    keyboard.activate("link", "^Decide$")
    keyboard.tab_to(page.get_by_label("Keep the"))
    keyboard.write("newest")
    keyboard.tab_to(page.get_by_role("combobox", name="Field"))
    keyboard.write("date")
    keyboard.activate("button", "^Show what changes$")
    expect(page.get_by_text("Another document stays in")).to_be_visible()
    keyboard.activate("button", "^Use this rule$")
    expect(page.get_by_text("the document with the newest date stays")).to_be_visible()


def delete_and_undo(keyboard: Keyboard) -> None:
    """Delete the duplicates, and restore them."""
    page = keyboard.page
    keyboard.tab_to(page.get_by_role("radio", name="Mark duplicates"))
    keyboard.press("ArrowDown")
    keyboard.activate("button", "^Continue$")
    keyboard.tab_to(page.get_by_role("textbox", name="Type delete to continue"))
    keyboard.write("delete")
    keyboard.press("Enter")
    expect(page.get_by_text(re.compile(r"^[\d,]+ deleted"))).to_be_visible()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    keyboard.activate("button", "^Undo the deletion")
    expect(page.get_by_text(re.compile(r"^[\d,]+ restored"))).to_be_visible()


def measure(db: Path, options: argparse.Namespace) -> Figures:
    """Do the work once; return the keys and the seconds of each part."""
    figures: Figures = {"documents": options.documents, "groups": options.groups}
    target = ("--db", str(db), "--write", "--show", "source", "--show", "date")
    with running_browser() as browser, Reviewing(db.parent, *target) as app:
        expect.set_options(WAIT_MS)
        page = browser.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(app.url)
        expect(page.get_by_role("heading", level=1)).to_contain_text("repeat others")
        keyboard = Keyboard(page)
        parts: dict[str, Callable[[Keyboard], None]] = {
            "look through groups": functools.partial(look_through, groups=options.groups),
            "let the newest stay": let_the_newest_stay,
            "delete and undo": delete_and_undo,
        }
        for name, work in parts.items():
            before, began = keyboard.keys, time.perf_counter()
            work(keyboard)
            seconds = round(time.perf_counter() - began, 1)
            figures[name] = {"keys": keyboard.keys - before, "seconds": seconds}
    return figures


def source_and_date(number: int) -> Mapping[str, str]:
    """Return the source and the date of a document."""
    return {"source": SOURCES[number % 3], "date": f"2026-10-{number % 28 + 1:02}"}


def tables(document: dict[str, Any]) -> str:
    """Return keys and seconds of each part of the work."""
    figures = document["results"]
    parts = {name: part for name, part in figures.items() if isinstance(part, dict)}
    keys = sum(part["keys"] for part in parts.values())
    looked_through = f"{figures['groups']} groups looked through"
    lines = [
        f"{figures['documents']:,} documents, {looked_through}, {keys} keys.",
        "",
        "| part of the work | keys | seconds |",
        "| --- | ---: | ---: |",
        *(f"| {name} | {part['keys']} | {part['seconds']} |" for name, part in parts.items()),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where the results go")
    options = parser.parse_args()
    with planted_index(options.documents, source_and_date) as db:
        results = measure(db, options)
    described = [{"name": "texts", "source": "benchmarks/lib/planted.py"}]
    print(measuring.save("review_keys", results, described, folder=options.folder))


if __name__ == "__main__":
    main()
