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
from tests.review.reviewing import OtherSite
from tests.review.test_every_page import everything

pytestmark = [local, pytest.mark.xdist_group("browser")]

PAGES = ("/", "/groups", "/search?id=en-01", "/judgements.jsonl", "/static/review.js")
FORMS = {
    "/verdict": {"left": "en-08", "right": "en-09", "verdict": "different"},
    "/group/represent": {"id": "en-09"},
}

# It knows even the secret path. `read` is all that it got.
ATTACK = """<!doctype html><html lang="en"><title>attack</title><body><script>
const { root, forms, pages } = INPUT;
const read = [];
const fetched = async (path, mode, options) => {
  try {
    const answer = await fetch(root + path, { mode, credentials: "include", ...options });
    if (answer.type !== "opaque") read.push([path, await answer.text()]);
  } catch {}
};
const loaded = (tag, attributes) => new Promise(done => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.onload = element.onerror = event => done(event.type === "load" ? element : null);
  setTimeout(done, 2000, null);
  document.body.append(element);
});
const attack = async () => {
  for (const mode of ["cors", "no-cors"]) {
    for (const [path, fields] of Object.entries(forms))
      await fetched(path, mode, { method: "POST", body: new URLSearchParams(fields) });
    for (const path of pages) await fetched(path, mode, {});
  }
  for (const path of pages) {
    if (await loaded("script", { src: root + path })) read.push([path, "script"]);
    const frame = await loaded("iframe", { src: root + path });
    try { read.push([path, frame.contentDocument.body.textContent || "empty"]); } catch {}
  }
  return read;
};
const send = ([path, fields]) => {
  const form = Object.assign(document.createElement("form"), { action: root + path });
  form.method = "POST";
  for (const [name, value] of Object.entries(fields))
    form.append(Object.assign(document.createElement("input"), { name, value }));
  document.body.append(form);
  form.submit();
};
</script>"""


# The same host is the same site for cookies: the browser sends them from there.
@pytest.mark.parametrize(
    "host", ["127.0.0.1", pytest.param("localhost", marks=pytest.mark.nightly)]
)
def test_a_page_of_another_origin_changes_and_reads_nothing(
    review: Review, place: Place, target: list[str], tmp_path: Path,
    open_page: OpenPage, watch: Watch, other_site: OtherSite, host: str,
) -> None:  # fmt: skip
    index(tmp_path, target, articles())
    app = review("--write")
    page = open_page(app.url)
    given = {"root": app.at(page, ""), "forms": FORMS, "pages": PAGES}
    other_site.page = ATTACK.replace("INPUT", json.dumps(given))
    tab = page.context.new_page()
    tab.goto(other_site.origin.replace("127.0.0.1", host))
    before = everything(place)
    assert tab.evaluate("attack()") == []
    # Neither does a form that leads the whole tab here.
    with tab.expect_navigation(timeout=WAIT_MS) as navigation:
        tab.evaluate("send(Object.entries(forms)[0])")
    assert navigation.value.status == 403
    assert everything(place) == before
    # Browsers send the cookies of a host to all of its ports, but ours only below its path.
    assert not [name for name in other_site.cookies if "esdedup" in name]
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Search")
    # The console shows the refused requests.
    watch.complaints.clear()
