"""All pages that links lead to, and the forms in them."""

import html
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlsplit

import httpx

from tests.review.visitor import Visitor

_OF_A_KIND = 5
"""Pages that differ only in the query, such as those of several documents."""


@dataclass(frozen=True)
class Form:
    """The values that a form sends. action: below the root of the pages."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and its links and forms."""

    def __init__(self, root: str, answer: httpx.Response) -> None:
        super().__init__()
        self.answer = answer
        self._root = root
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.links: list[str] = []
        self.forms: list[Form] = []
        self.feed(answer.text if "html" in answer.headers["content-type"] else "")
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        self.links += [self._own(given[name]) for name in ("href", "src") if name in given]
        if tag == "form" and given.get("method") != "dialog":
            self.forms.append(Form(self._own(given["action"]), given["method"].upper()))
        elif "name" in given and self.forms:
            self.forms[-1].fields[given["name"]] = given.get("value", "")

    handle_startendtag = handle_starttag

    def _own(self, address: str) -> str:
        assert address.startswith((f"{self._root}/", "#")), address
        return html.unescape(address.removeprefix(self._root))


def crawl(visitor: Visitor, *starts: str) -> dict[str, Parsed]:
    """Return the pages that links lead to when groups are found, the nearest first, by address."""
    for path in ("/groups", "/judge"):
        visitor.settled(path)
    found: dict[str, Parsed] = {}
    kinds: Counter[str] = Counter()
    waiting = ["/", "/search?id=plain", "/search?id=en-01", "/group?id=plain", *starts]
    while waiting:
        address = waiting.pop(0).partition("#")[0]
        kind = urlsplit(address).path
        if not address or address in found or kinds[kind] == _OF_A_KIND:
            continue
        kinds[kind] += 1
        found[address] = Parsed(visitor.review.root, visitor.get(address))
        waiting += found[address].links
    return found


def changes(pages: dict[str, Parsed]) -> Iterator[Form]:
    """Yield one form for each path that changes something."""
    seen = set()
    for parsed in pages.values():
        for form in parsed.forms:
            if form.method != "GET" and (path := urlsplit(form.action).path) not in seen:
                seen.add(path)
                yield form
