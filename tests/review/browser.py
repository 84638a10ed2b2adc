"""Chromium, and pages in it that note everything that goes wrong."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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

from tools.servers.jdk import Unavailable

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


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Chromium without a window. While it runs, this thread can't run another event loop.

    Raises Unavailable if there is no Chromium.
    """
    names = [os.environ[CHOSEN]] if os.environ.get(CHOSEN) else NAMES
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        raise Unavailable(f"no browser: none of {', '.join(names)} was found; or set {CHOSEN}")
    expect.set_options(WAIT_MS)
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=program, args=QUIET) as browser,
    ):
        yield browser


def origin_of(address: str) -> str:
    """The scheme, host and port of an address."""
    return "/".join(address.split("/")[:3])


def watched(context: BrowserContext, address: str) -> list[str]:
    """Return errors, dialogs, failed requests, and those to other origins, as they happen."""
    complaints: list[str] = []

    def on_request(request: Request) -> None:
        if origin_of(request.url) != origin_of(address):
            complaints.append(f"request to another origin: {request.url}")

    def on_failure(request: Request) -> None:
        # A download ends the navigation that began it.
        if request.failure != "net::ERR_ABORTED":
            complaints.append(f"request failed: {request.url}: {request.failure}")

    def on_console(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(f"console: {message.text}")

    context.on("console", on_console)
    context.on("weberror", lambda error: complaints.append(f"script: {error.error}"))
    context.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    context.on("request", on_request)
    context.on("requestfailed", on_failure)
    return complaints


def barriers(page: Page, *rules: str) -> list[str]:
    """Return a line for each element that breaks a rule of axe-core, by default of all rules."""
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
