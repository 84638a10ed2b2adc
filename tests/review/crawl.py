"""All pages that links lead to, and the forms in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx

MOST_PAGES = 100
_OF_A_KIND = 5
"""Pages that differ only in the query, such as those of several documents."""
_LINKS = ("href", "src")


@dataclass(frozen=True)
class Form:
    """The values that a form or a button sends. action: below the root of the pages."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)


class Parsed(HTMLParser):
    """The elements of a page with their attributes, and its links and forms."""

    def __init__(self, url: str, source: str) -> None:
        super().__init__()
        self._url = url
        self._origin = origin_of(url)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.links: list[str] = []
        self.forms: list[Form] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        self.links += [urljoin(self._url, given[name]) for name in _LINKS if name in given]
        if tag == "form" and given.get("method") != "dialog":
            method = given.get("method", "get").upper()
            self.forms.append(Form(self._own(given.get("action", "")), method))
        elif "name" in given and self.forms:
            self.forms[-1].fields[given["name"]] = given.get("value", "")

    handle_startendtag = handle_starttag

    def _own(self, action: str) -> str:
        address = urlsplit(urljoin(self._url, action))
        assert origin_of(address.geturl()) == self._origin, action
        root = "/" + urlsplit(self._url).path.split("/")[1]
        assert address.path.startswith(root + "/"), action
        path = address.path.removeprefix(root)
        return address._replace(scheme="", netloc="", path=path).geturl()


def crawl(client: httpx.Client, *starts: str) -> dict[str, tuple[httpx.Response, Parsed]]:
    """Return the answers at addresses that links of the site lead to, the nearest first."""
    found: dict[str, tuple[httpx.Response, Parsed]] = {}
    kinds: Counter[str] = Counter()
    root = str(client.base_url).rstrip("/")
    own = origin_of(root)
    waiting = [root + start for start in starts]
    while waiting and len(found) < MOST_PAGES:
        address = waiting.pop(0).partition("#")[0]
        kind = urlsplit(address).path
        if address in found or kinds[kind] == _OF_A_KIND or origin_of(address) != own:
            continue
        kinds[kind] += 1
        answer = client.get(address)
        html = "html" in answer.headers.get("content-type", "")
        found[address] = (answer, Parsed(address, answer.text if html else ""))
        waiting += found[address][1].links
    return found


def changes(pages: dict[str, tuple[httpx.Response, Parsed]]) -> Iterator[Form]:
    """One form for each address and method that changes something."""
    seen = set()
    for _, parsed in pages.values():
        for form in parsed.forms:
            key = (urlsplit(form.action).path, form.method)
            if form.method != "GET" and key not in seen:
                seen.add(key)
                yield form


def origin_of(address: str) -> str:
    """The scheme, host and port of an address."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
