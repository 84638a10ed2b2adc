"""Pages of other origins, open in the browser that is signed in: they change and read nothing."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.helpers.places import Place, local
from tests.review.browser import WAIT_MS, Watch
from tests.review.conftest import OpenPage, Review
from tests.review.crawl import changes
from tests.review.documents import articles, index
from tests.review.reviewing import OtherSite, Reviewing
from tests.review.test_every_page import crawl_all, everything

pytestmark = [local, pytest.mark.xdist_group("browser")]

PAGES = ("/", "/groups", "/search?id=en-01", "/judge", "/decide", "/judgements.jsonl")

# Every way that a page has to send something or to read an answer. `read` is all that it got.
ATTACK = """<!doctype html><html lang="en"><title>attack</title><body><script>
const { origin, forms, pages } = INPUT;
const read = [];

const soon = () => AbortSignal.timeout(2000);

const fetched = async (address, options) => {
  try {
    const answer = await fetch(address, { ...options, signal: soon() });
    if (answer.type !== "opaque") read.push([address, await answer.text()]);
  } catch {}
};

const loaded = (tag, attributes) => new Promise(done => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.onload = () => done(element);
  element.onerror = () => done(null);
  soon().onabort = () => done(null);
  document.body.append(element);
});

const framed = async address => {
  const frame = await loaded("iframe", { src: address });
  try { read.push([address, frame.contentDocument.body.textContent || "empty"]); } catch {}
};

const posted = async form => {
  const frame = Object.assign(document.createElement("iframe"), { name: "f" + Math.random() });
  const made = Object.assign(document.createElement("form"), form, { target: frame.name });
  for (const [name, value] of Object.entries(form.fields))
    made.append(Object.assign(document.createElement("input"), { name, value }));
  document.body.append(frame, made);
  await new Promise(done => {
    frame.onload = soon().onabort = done;
    HTMLFormElement.prototype.submit.call(made);
  });
};

const attack = async () => {
  for (const { action: path, method, fields } of forms) {
    const action = origin + path;
    const body = new URLSearchParams(fields);
    for (const credentials of ["include", "omit"])
      for (const mode of ["cors", "no-cors"])
        await fetched(action, { method, mode, credentials, body });
    await fetched(action, { method: "POST", mode: "no-cors", credentials: "include",
                            body: JSON.stringify(fields), referrerPolicy: "no-referrer" });
    navigator.sendBeacon(action, body);
    await loaded("img", { src: action + "?" + body, alt: "" });
    await posted({ action, method, fields });
  }
  for (const page of pages.map(path => origin + path)) {
    for (const credentials of ["include", "omit"])
      for (const mode of ["cors", "no-cors"]) await fetched(page, { mode, credentials });
    if ((await loaded("img", { src: page, alt: "" }))?.naturalWidth) read.push([page, "image"]);
    if (await loaded("script", { src: page })) read.push([page, "script"]);
    await framed(page);
  }
  if (await loaded("script", { src: origin + "/static/review.js" })) read.push(["", "script"]);
  return read;
};
</script>"""


@pytest.fixture
def app(review: Review, tmp_path: Path, target: list[str]) -> Reviewing:
    index(tmp_path, target, articles())
    return review("--write")


def attacker(page: Page, app: Reviewing, site: OtherSite, host: str) -> Page:
    """A tab beside a signed-in one, with a page of another origin."""
    forms = [asdict(form) for form in changes(crawl_all(app))]
    assert len(forms) > 3
    given = {"origin": app.at(page, ""), "forms": forms, "pages": PAGES}
    site.page = ATTACK.replace("INPUT", json.dumps(given).replace("<", "\\u003c"))
    tab = page.context.new_page()
    tab.goto(site.origin.replace("127.0.0.1", host))
    return tab


# The same host is the same site for cookies: the browser sends them from there.
@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("localhost", marks=pytest.mark.nightly)]
)
def test_a_page_of_another_origin_changes_and_reads_nothing(
    app: Reviewing,
    place: Place,
    open_page: OpenPage,
    watch: Watch,
    other_site: OtherSite,
    host: str,
) -> None:
    page = open_page(app.url)
    tab = attacker(page, app, other_site, host)
    before = everything(place)
    assert tab.evaluate("attack()") == []
    # Neither does a form that leads the whole tab here.
    with tab.expect_navigation(timeout=WAIT_MS) as navigation:
        tab.evaluate("document.forms[0].target = ''; document.forms[0].requestSubmit()")
    assert navigation.value.status == 403
    assert everything(place) == before
    # Browsers send cookies to all ports of a host.
    assert not [name for name in other_site.cookies if "esdedup" in name]
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    # The refused requests stand in the console.
    watch.complaints.clear()


def test_a_name_that_leads_here_gets_nothing(
    app: Reviewing, place: Place, open_page: OpenPage, watch: Watch
) -> None:
    """DNS rebinding: a page of its origin comes from us, if we answer."""
    page = open_page(app.url)
    # The browser's complaint may come after the page.
    with page.expect_console_message():
        answer = page.goto(app.url.replace("127.0.0.1", "rebound.localhost"))
    assert answer is not None
    assert answer.status in (400, 421)
    assert place.index not in page.content()
    assert app.token not in page.content()
    watch.complaints.clear()
