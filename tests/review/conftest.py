"""A browser."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.review.browser import running_browser, watched
from tests.servers.provide import refusing

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
