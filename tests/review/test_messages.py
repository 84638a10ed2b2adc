"""The messages of the pages in other languages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

import esdedup.review
from esdedup.analysis.templates import Template, warning_of
from esdedup.compare.keep_rule import KeepRule, Unordered
from esdedup.groups.constraints import JudgedCounts
from esdedup.groups.groups import Grouping
from esdedup.models import Statistics, Unattached
from esdedup.review.groups import rules_of
from esdedup.review.messages import preferred, sentence, speak, translations
from esdedup.search.buckets import Capped
from esdedup.search.scopes import warning_of_missing, warning_of_query
from esdedup.search.warnings import missing_pairs, not_compared
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.within import Within
from tests.review.visitor import plain, visiting

FOLDER = Path(esdedup.review.__file__).parent
PLACE = re.compile(r"\{(\w+)\}")


def of_templates() -> Iterator[str]:
    """Yield the messages of all templates."""
    environment = jinja2.Environment()
    for file in FOLDER.glob("templates/*.html"):
        for call in environment.parse(file.read_text("utf-8")).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name == "_":
                message = call.args[0]
                if isinstance(message, nodes.Const):
                    yield message.value
                else:
                    yield from (
                        pair.value.value
                        for pair in message.find_all(nodes.Pair)
                        if isinstance(pair.value, nodes.Const)
                    )


def of_modules() -> Iterator[str]:
    """Yield the messages that modules write."""
    for file in FOLDER.glob("**/*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        tables = {
            ast.unparse(assigned.targets[0]): assigned.value
            for assigned in tree.body
            if isinstance(assigned, ast.Assign)
        }
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "message":
                text = call.args[0]
                if isinstance(text, ast.Subscript) and isinstance(text.value, ast.Name):
                    text = tables[text.value.id]
                for value in text.values if isinstance(text, ast.Dict) else [text]:
                    if isinstance(value, ast.Constant):
                        yield str(value.value)
                    elif isinstance(value, ast.Subscript):
                        yield from ast.literal_eval(value.value)


ENGLISH = sorted({*of_templates(), *of_modules()} - {""})


def test_messages_are_found() -> None:
    assert len(ENGLISH) > 150
    assert "Which document stays" in ENGLISH
    assert "today {time}" in ENGLISH


@pytest.mark.parametrize("language", [*translations()])
def test_every_message_has_a_translation_with_the_same_values(language: str) -> None:
    translated = translations()[language]
    missing = [message for message in ENGLISH if message not in translated]
    assert not missing
    for english, text in translated.items():
        assert {*PLACE.findall(text)} <= {*PLACE.findall(english)}, english
        assert re.findall("<[^>]+>", text) == re.findall("<[^>]+>", english.partition("|")[0])


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en-US,en;q=0.9,zh;q=0.5", "en"),
        ("de-CH, zh-TW;q=0.4, en;q=0.2", "zh"),
        ("fr", "en"),
        ("", "en"),
        ("zh;q=much, en", "en"),
    ],
)
def test_the_language_is_that_of_the_browser(accepted: str, language: str) -> None:
    assert preferred(accepted) == language


def test_pages_speak_the_language_of_each_request(tmp_path: Path) -> None:
    text = "The council met on Monday and voted for the new bridge over the"
    documents = [{"id": f"a{number}", "text": f"{text} river {number}"} for number in range(3)]
    visitor = visiting(tmp_path / "a.db", documents)
    visitor.settled("/groups")
    chinese = {"accept-language": "zh-CN"}
    page = visitor.get("/", headers=chinese).text
    assert '<html lang="zh">' in page
    assert "3 个文档中有 2 个（66.7%）是重复的" in plain(page)
    assert "2 of 3 documents (66.7%) repeat others" in plain(visitor.get("/").text)
    assert "未找到" in plain(visitor.get("/document?id=no", headers=chinese).text)


LIMITS = Limits(threshold=0.7)
WITHIN = Within.parse("source")
LIBRARY = [
    *missing_pairs(0.8, Capped(2, 30_000), LIMITS),
    *missing_pairs(None, Capped(), LIMITS),
    *not_compared(Statistics(3_000, 2_990, 0, 1, "", Unattached("news", ("old", "older"))), 1),
    *not_compared(Statistics(3_000, 3_000, 0, 1, "", Unattached("news", ("old",))), 25),
    warning_of("a1", 1_200, Template(3, (("one", "two"), ("three",)))),
    warning_of("a1", 12, Template(1, (("one",), ("two",)))),
    warning_of_query(WITHIN),
    str(warning_of_missing(WITHIN, 1)),
    str(warning_of_missing(WITHIN, 2_000)),
    str(Unordered(1, [("a1", "soon")]).warning(KeepRule.parse("newest:date"))),
    str(JudgedCounts(different=3, duplicates=1_000, stale=2)),
    *(
        rules_of(
            Grouping(limits=LIMITS, keep=KeepRule.parse(keep.split(",")), **settings),
            Scheme(),
        )
        for keep, settings in (
            ("first", {}),
            ("newest:date,longest", {"exact": True}),
            ("longest", {"method": "components"}),
        )
    ),
]
"""Sentences of the library, which it may write otherwise one day: their patterns must follow."""


@pytest.mark.parametrize("text", LIBRARY)
def test_sentences_of_the_library_are_translated(text: str) -> None:
    speak("zh")
    translated = sentence(text)
    # Commands, settings, names and values stay.
    words = re.sub(r"`[^`]*`|'[^']*'|[A-Za-z0-9._-]+/[^ ）]+", "", translated)
    assert not re.search("[a-z]+ [a-z]+ [a-z]+", words), translated
    assert {*re.findall(r"\d[\d,.]*\d|`\w+`", text)} <= {
        *re.findall(r"\d[\d,.]*\d|`\w+`", translated)
    }
    speak("en")
    assert sentence(text) == text


def test_sentences_that_are_not_known_stay_in_english() -> None:
    speak("zh")
    assert sentence("The disk is full. Delete something.") == "The disk is full。Delete something."
    assert sentence("connection refused") == "connection refused"
    speak("")


def test_no_page_in_chinese_speaks_english(tmp_path: Path) -> None:
    texts = ["市图书馆每个星期三举行读书会，欢迎大家参加", "台风今天夜里在东部沿海登陆，客轮停航"]
    documents = [
        {"id": f"{kind}-{number}", "text": f"{text}。{number}" * 2, "source": "甲"}
        for kind, text in enumerate(texts)
        for number in range(9)
    ]
    visitor = visiting(tmp_path / "a.db", documents, show=["source"], threshold=0.7)
    for path in ("/groups", "/judge"):
        visitor.settled(path)
    visitor.judge("0-0", "0-1", "duplicate")
    for path in (
        "/",
        "/groups",
        "/group?id=0-0",
        "/judge",
        "/threshold?other=0.6",
        "/decide?keep=longest",
        "/decide/confirm?action=delete",
        "/search?id=0-0",
        "/search?id=0-0&number=x",
        "/compare?left=0-0&right=0-1",
        "/compare?left=0-0&right=0-1&again=text",
        "/compare?left=0-0&right=0-1&again=judged",
        "/document?id=no",
        "/decide/confirm?action=no",
    ):
        page = visitor.get(path, headers={"accept-language": "zh-CN"}).text
        # The name of the program, commands, the description of the method, and bytes.
        page = re.sub(
            '<title>.*?</title>|<code>.*?</code>|<div lang="en">.*?</div>', "", page, flags=re.S
        )
        found = re.findall(r"[A-Za-z]{2,} [A-Za-z]{2,}(?: \w+)*", plain(page))
        assert all(words.startswith("esdedup review") for words in found), (path, found)
        # Sentences follow each other without a space.
        assert not re.search("[。，：] [一-鿿]", page), path
