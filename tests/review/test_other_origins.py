"""Pages of other origins, open in the browser that is signed in: they change and read nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.helpers.places import Place, local
from tests.review.browser import WAIT_MS, Watch
from tests.review.conftest import OpenPage, Review
from tests.review.documents import articles, index
from tests.review.reviewing import OtherSite, Reviewing
from tests.review.test_every_page import everything

pytestmark = [local, pytest.mark.xdist_group("browser")]

PAGES = ("/", "/groups", "/search?id=en-01", "/judge", "/judgements.jsonl", "/static/review.js")
FORMS = {
    "/verdict": {"left": "en-08", "right": "en-09", "verdict": "different"},
    "/group/represent": {"id": "en-09"},
    "/decide/run": {"action": "mark", "state": "1"},
}

# It knows even the secret path. `read` is all that it got.
ATTACK = """<!doctype html><html lang="en"><title>attack</title><body><script>
const { root, forms, pages } = INPUT;
const read = [];

const fetched = async (address, options) => {
  try {
    const answer = await fetch(address, { ...options, signal: AbortSignal.timeout(2000) });
    if (answer.type !== "opaque") read.push([address, await answer.text()]);
  } catch {}
};

const loaded = (tag, attributes) => new Promise(done => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.onload = () => done(element);
  element.onerror = () => done(null);
  setTimeout(done, 2000, null);
  document.body.append(element);
});

const attack = async () => {
  for (const [path, fields] of Object.entries(forms)) {
    const body = new URLSearchParams(fields);
    for (const mode of ["cors", "no-cors"])
      await fetched(root + path, { method: "POST", mode, credentials: "include", body });
    navigator.sendBeacon(root + path, body);
    await loaded("img", { src: root + path + "?" + body, alt: "" });
    const name = "frame" + path;
    const form = Object.assign(document.createElement("form"),
      { action: root + path, method: "POST", target: name });
    for (const [name, value] of Object.entries(fields))
      form.append(Object.assign(document.createElement("input"), { name, value }));
    document.body.append(form);
    const sent = loaded("iframe", { name });
    form.submit();
    await sent;
  }
  for (const page of pages.map(path => root + path)) {
    for (const credentials of ["include", "omit"])
      for (const mode of ["cors", "no-cors"]) await fetched(page, { mode, credentials });
    if (await loaded("script", { src: page })) read.push([page, "script"]);
    const frame = await loaded("iframe", { src: page });
    try { read.push([page, frame.contentDocument.body.textContent || "empty"]); } catch {}
  }
  return read;
};
</script>"""


@pytest.fixture
def app(review: Review, tmp_path: Path, target: list[str]) -> Reviewing:
    index(tmp_path, target, articles())
    return review("--write")


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
    given = {"root": app.at(page, ""), "forms": FORMS, "pages": PAGES}
    other_site.page = ATTACK.replace("INPUT", json.dumps(given))
    tab = page.context.new_page()
    tab.goto(other_site.origin.replace("127.0.0.1", host))
    before = everything(place)
    assert tab.evaluate("attack()") == []
    # Neither does a form that leads the whole tab here.
    with tab.expect_navigation(timeout=WAIT_MS) as navigation:
        tab.evaluate("document.forms[0].target = ''; document.forms[0].requestSubmit()")
    assert navigation.value.status == 403
    assert everything(place) == before
    # Browsers send the cookies of a host to all of its ports, but ours only below its path.
    assert not [name for name in other_site.cookies if "esdedup" in name]
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    # The console shows the refused requests.
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
    assert answer.status == 400
    assert place.index not in page.content()
    assert app.token not in page.content()
    watch.complaints.clear()
