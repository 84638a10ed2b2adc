"""The messages of the pages in other languages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

import esdedup.review
from esdedup.review.messages import preferred, translations
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
    assert "Who stays" in ENGLISH
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
