"""The tests in a browser notice what goes wrong on a page."""

from __future__ import annotations

import pytest

from tests.review.browser import Watch, barriers, scrolls_sideways
from tests.review.conftest import OpenPage
from tests.review.reviewing import OtherSite

pytestmark = pytest.mark.xdist_group("browser")

FAULTY = """<!doctype html><html><title>faulty</title>
<meta http-equiv="Content-Security-Policy" content="img-src 'self'">
<p><input><span style="color: #999; background: #aaa">grey</span></p>
<div style="width: 1000px">wide</div>
<img src="http://127.0.0.1:9/elsewhere.png" alt="">
<script>fetch("http://127.0.0.1:9/api").catch(() => alert("asked")); undefined.name</script>
"""


def test_faults_of_a_page_are_noted(
    open_page: OpenPage, watch: Watch, other_site: OtherSite
) -> None:
    other_site.page = FAULTY
    page = open_page(other_site.origin, viewport={"width": 390, "height": 844})
    assert scrolls_sideways(page)
    rules = {line.partition(":")[0] for line in barriers(page)}
    assert rules >= {"label", "color-contrast", "html-has-lang", "page-has-heading-one", "region"}
    kinds = {complaint.partition(":")[0] for complaint in watch.complaints}
    assert kinds == {"console", "dialog", "request failed", "request to another origin", "script"}
    watch.complaints.clear()
