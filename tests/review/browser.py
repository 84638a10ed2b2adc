"""Chromium, and pages in it that note everything that goes wrong."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

from tests.servers.jdk import Unavailable

CHOSEN = "ESDEDUP_TEST_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")

# It looks for updates and for hosts of its maker if nothing forbids it.
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
WAIT_MS = 10_000


def find_chromium() -> str:
    """The path of Chromium; the one that the environment names comes first.

    Raises Unavailable if there is none.
    """
    names = [os.environ[CHOSEN]] if os.environ.get(CHOSEN) else NAMES
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    raise Unavailable(f"no browser: none of {', '.join(names)} was found; or set {CHOSEN}")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium without a window. While it runs, this thread can't run another event loop.

    Raises Unavailable if there is no Chromium.
    """
    program = find_chromium()
    expect.set_options(WAIT_MS)
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=program, args=QUIET) as browser,
    ):
        yield browser


def origin_of(address: str) -> str:
    """The scheme, host and port of an address."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


@dataclass
class Watch:
    """Notes errors, dialogs, requests that fail, and requests to other origins."""

    complaints: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext, address: str) -> None:
        """Watch all pages of a context, which may send requests to this address."""
        note, own = self.complaints.append, origin_of(address)

        def on_request(request: Request) -> None:
            if origin_of(request.url) != own:
                note(f"request to another origin: {request.url}")

        def on_failure(request: Request) -> None:
            # A download ends the navigation that began it.
            if request.failure != "net::ERR_ABORTED":
                note(f"request failed: {request.url}: {request.failure}")

        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                note(f"console: {message.text}")

        context.on("console", on_console)
        context.on("weberror", lambda error: note(f"script: {error.error}"))
        context.on("dialog", lambda dialog: note(f"dialog: {dialog.message}"))
        context.on("request", on_request)
        context.on("requestfailed", on_failure)


def barriers(page: Page, *rules: str) -> list[str]:
    """Find what keeps people from using a page, by rules of axe-core; by default by all of them.

    They cover landmarks, headings, names of controls, languages and contrast. Returns a line for
    each element and rule that it breaks.
    """
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(AXE_SCRIPT)
    found: list[dict[str, Any]] = page.evaluate(
        "rules => axe.run(rules.length ? { runOnly: rules } : {}).then(found => found.violations)",
        rules,
    )
    return [
        f"{rule['id']}: {node['html'][:200]} ({node.get('failureSummary', '')})"
        for rule in found
        for node in rule["nodes"]
    ]


def scrolls_sideways(page: Page) -> bool:
    """Return whether the page is wider than its window."""
    wider: bool = page.evaluate(
        "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    )
    return wider
