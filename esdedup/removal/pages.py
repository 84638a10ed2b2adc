"""How many documents of a run are in memory at the same time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from esdedup.stores.concurrency import Window

FIRST_PAGE = 100
"""Documents of the first page, which shows how long documents are."""
LARGEST_PAGE = 1_000
"""Maximum documents of a page."""
_CHARACTERS = 20_000_000
"""About the characters of all pages that are in memory at the same time."""
Page = TypeVar("Page")
Result = TypeVar("Result")


@dataclass
class PageSize:
    """The size of a page, so that all pages that are at work at the same time fit into memory.

    pages: their number.
    documents: maximum of a page.
    """

    pages: int
    documents: int = field(default_factory=lambda: FIRST_PAGE)

    def fit(self, mean_characters: int) -> None:
        """Change the size for documents of a length."""
        fitting = _CHARACTERS // self.pages // max(1, mean_characters)
        self.documents = max(1, min(LARGEST_PAGE, fitting))


def first_alone(
    window: Window, work: Callable[[Page], Result], pages: Iterator[Page]
) -> Generator[Result]:
    """Yield `work(page)` of each page, as `Window.in_order`.

    Nothing else is done beside the first page, whose documents set the size of all others.
    """
    yield from map(work, islice(pages, 1))
    yield from window.in_order(work, pages)
