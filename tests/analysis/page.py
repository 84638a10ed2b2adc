"""HTML pages as a browser makes them of their source."""

import base64
import hashlib
import html.parser


class Page(html.parser.HTMLParser):
    """What a browser would make of a page. Raises AssertionError where elements do not match."""

    VOID = ("meta", "rect")

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.marked: list[str] = []
        self.shown = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)
        if dict(attrs).get("class") == "text":
            self.texts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.shown += data
        if "div" in self._open and self.texts:
            self.texts[-1] += data
        if self._open and self._open[-1] == "mark":
            self.marked.append(data)


def assert_safe(page: Page) -> None:
    names = {tag for tag, _ in page.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "a", "base", "form", "bold"}
    named = {name for _, attrs in page.tags for name in attrs}
    assert not named & {"style", "src", "href", "srcset", "action"}
    assert not any(name.startswith("on") for name in named)
    values = [value or "" for tag, attrs in page.tags if tag != "meta" for value in attrs.values()]
    assert not any("//" in value for value in values)
    (policy,) = [attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs]
    assert policy is not None
    style = page.source.split("<style>")[1].split("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'")
    assert "url(" not in style
    assert len(page.source.encode()) < 1_000_000
