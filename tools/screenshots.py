"""Write the pictures of `esdedup review` in the documentation.

    python -m tools.screenshots [PAGE...]

Index the articles in `examples/`, edited copies of them, and two texts in Arabic, open each page
in Chromium, and write its picture to `docs/how-to/review/`. This needs the packages of the extra
`test` and of the group `docs`.
"""

import io
import random
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect

from tests.review.browser import running_browser
from tests.review.documents import articles, index
from tests.review.reviewing import Reviewing

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "review"
COLOURS = 64
VIEW: ViewportSize = {"width": 1100, "height": 800}
_SENTENCE = re.compile(r"[^.!?。！？]+[.!?。！？]+\s*")

ARABIC = (
    "يعاد افتتاح جسر المشاة فوق القناة يوم {} بعد أحد عشر أسبوعا من أعمال الترميم. استبدل "
    "العمال أربعين لوحا خشبيا تالفا ولحموا عارضتين متصدعتين. يرجى من راكبي الدراجات "
    "النزول عنها حتى يجف السطح."
)


def documents() -> list[dict[str, Any]]:
    """Return the articles, each followed by copies with more and more edits."""
    made = articles()
    rng = random.Random(17)
    for number, article in enumerate([*made]):
        other = rng.choice([each for each in made if each["lang"] == article["lang"]])
        sentences, others = (_SENTENCE.findall(each["text"]) for each in (article, other))
        copies = [
            [*sentences, others[0]],
            sentences[:-1],
            [sentences[0], *others[1:]],
        ]
        for copy, edited in enumerate(copies[number % 3 :], number % 3):
            made.append(
                article | {"id": f"{article['id']}-copy{copy + 1}", "text": "".join(edited).strip()}
            )
    for number, day in enumerate(("السبت", "الأحد"), 1):
        made.append(
            {"id": f"ar-0{number}", "lang": "ar", "title": "جسر المشاة", "text": ARABIC.format(day)}
            | {"date": f"2026-10-0{number}"}
        )
    return made


_JUDGED = 40


def judge(page: Page, app: Reviewing) -> None:
    """Judge pairs. Copies with a sentence replaced are not duplicates."""
    page.goto(app.at(page, "/judge"))
    said, sides = page.get_by_role("status"), page.get_by_role("heading", level=3)
    for number in range(_JUDGED):
        expect(said).to_contain_text(re.compile(rf"\b{number} (of about \d+ )?judged"))
        page.wait_for_load_state()
        ids = [each.inner_text() for each in sides.all()]
        page.keyboard.press("n" if any(id.endswith("copy3") for id in ids) else "d")
    expect(said).to_contain_text(re.compile(rf"\b{_JUDGED} (of about \d+ )?judged"))


def pages() -> dict[str, str]:
    """Return the address of each page, by the name of its picture."""
    return {
        "search": "/search?id=en-08&threshold=0.6",
        "groups": "/groups",
        "group": "/group?id=en-08",
        "right-to-left": "/compare?left=ar-01&right=ar-02",
        "judge": "/judge",
        "threshold": "/threshold?other=0.6",
        "decide": "/decide",
    }


def photograph(page: Page, folder: Path, file: Path) -> None:
    """Write a picture of the top of a page, with few colours and without the folder's name."""
    page.wait_for_load_state("networkidle")
    page.evaluate(
        """folder => {
            for (const each of document.querySelectorAll("bdi, code"))
                if (each.textContent.includes(folder))
                    each.textContent = each.textContent.replace(folder, "~");
            document.activeElement.blur();
            window.scrollTo(0, 0);
        }""",
        str(folder),
    )
    picture = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
    few = picture.convert("RGB").quantize(COLOURS, kmeans=2, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def main(wanted: Sequence[str]) -> None:
    """Write the pictures of these pages, or of all if none is named."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, running_browser() as browser:
        folder = Path(name)
        target = ["--db", str(folder / "esdedup.db"), "--index", "news"]
        index(folder, target, documents())
        target[1] = "esdedup.db"
        options = [*target, "--write", "--threshold", "0.7"]
        with Reviewing(folder, *options, "--show", "title", "--show", "date") as app:
            page = browser.new_page()
            page.goto(app.url)
            judge(page, app)
            page.goto(app.at(page, "/groups"))
            expect(page.get_by_role("table")).to_be_visible()
            page = browser.new_page(viewport=VIEW)
            page.goto(app.url)
            for name, address in pages().items():
                if wanted and name not in wanted:
                    continue
                page.goto(app.at(page, address))
                photograph(page, folder, FOLDER / f"{name}.png")
                if name == "decide":
                    page.get_by_role("radio", name="Delete duplicates").check()
                    page.get_by_role("button", name="Continue").click()
                    expect(page.get_by_role("button", name="Delete")).to_be_visible()
                    photograph(page, folder, FOLDER / "confirm.png")


if __name__ == "__main__":
    main(sys.argv[1:])
