"""A browser, and `esdedup review` over the place of a test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.review.browser import Watch, running_browser
from tests.review.reviewing import Reviewing
from tests.servers.provide import refusing

Review = Callable[..., Reviewing]
OpenPage = Callable[..., Page]


# Not of the session: while it runs, tests of other modules could not run an event loop.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, which starts for the first test that needs it."""
    with refusing(), running_browser() as found:
        yield found


@pytest.fixture
def review(tmp_path: Path, target: list[str]) -> Iterator[Review]:
    """Start `esdedup review` over the place of the test, with more options; it ends with it."""
    with ExitStack() as running:

        def start(*options: str) -> Reviewing:
            return running.enter_context(Reviewing(tmp_path, *target, *options))

        yield start


@pytest.fixture
def watch() -> Watch:
    """The faults on the pages of a test, which fails if it leaves any here."""
    return Watch()


@pytest.fixture
def open_page(browser: Browser, watch: Watch) -> Iterator[OpenPage]:
    """Open an address in a browser that has visited nothing; options of `Browser.new_context`."""
    with ExitStack() as opened:

        def open_one(address: str, **options: Any) -> Page:
            context = opened.enter_context(browser.new_context(**options))
            watch.over(context, address)
            page = context.new_page()
            page.goto(address)
            return page

        yield open_one
    assert watch.complaints == []
