"""Documents for the tests of the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.helpers.commands import run_command, words, write_lines

ARTICLES = Path(__file__).parents[2] / "examples" / "articles.jsonl"
WORDS = 60

HOSTILE = "".join(
    (
        "</textarea></title></template><!-- \"'><script>alert('script')</script>",
        "<img src=x onerror=\"alert('image')\"><svg/onload=alert('vector')>",
        "<b id=injected>bold</b><form id=injected action=//elsewhere.test><input name=token>",
        "<base href=//elsewhere.test><meta http-equiv=refresh content='0;//elsewhere.test'>",
        "{{ 7 * 191 }}{% raw %}${7 * 191} &lt;b&gt; --> ",
        "\u202egnp.exe\u202c\u2066\u200f",
        "\x1b]0;title\x07\x1b[2J\x9b31m\x00\x08\x7f",
    )
)
"""Markup, scripts, templates, bidirectional controls and escapes of terminals."""


def articles() -> list[dict[str, Any]]:
    """The articles of the examples, of which some are copies of others."""
    return [json.loads(line) for line in ARTICLES.read_text("utf-8").splitlines()]


def families(count: int) -> list[dict[str, Any]]:
    """Three texts a family, whose similarities are from 0.3 to 1 over all families."""
    made = []
    for family in range(count):
        base = words(family, WORDS).split()
        for copy in range(3):
            changed = copy * (1 + family % 10)
            text = " ".join([*base[: WORDS - changed], *words(10_000 + family, changed).split()])
            made.append({"id": f"f{family:02}-{copy}", "text": text, "family": family})
    return made


def hostile() -> list[dict[str, Any]]:
    """Three similar documents full of markup, in their ids and fields too, and a plain one."""
    text = f"{HOSTILE} {words(77)} {HOSTILE}"
    return [
        {
            "id": f"{number}{HOSTILE}"[:200],
            "text": text + number * " more",
            "url": "javascript:alert('link')",
            "source": {HOSTILE: HOSTILE},
        }
        for number in range(3)
    ] + [{"id": "plain", "text": text + " plain"}]


def index(folder: Path, target: Sequence[str], documents: list[dict[str, Any]]) -> None:
    """Write documents with their tokens into an index."""
    file = folder / "documents.jsonl"
    write_lines(file, documents)
    ran = run_command("index", str(file), *target)
    assert ran.status == 0, ran.err
