"""The messages of the pages in the language of the browser.

Pages are written in English. This folder has one file a language, a JSON object: "messages" has the
translation of each English message of the pages, "sentences" those of whole sentences, which the
library writes with their values, such as warnings and errors.
"""

import functools
import json
import re
from collections.abc import Mapping
from contextvars import ContextVar
from importlib.resources import files

from markupsafe import Markup, escape

from esdedup.text.characters import visible

ENGLISH = "en"
_LANGUAGE: ContextVar[str] = ContextVar("language", default=ENGLISH)
"""The language of the request that is being answered."""
_PLACE = re.compile(r"\{(\w+)\}")
_LONG = 20
"""Characters of a pattern that is certain to be of a whole sentence, if it matches."""
_SENTENCE_END = re.compile(r"(?<=[^.])\. (?=[A-Z`])")


@functools.cache
def _files() -> dict[str, dict[str, dict[str, str]]]:
    """Return the content of each file, by language."""
    folder = files("esdedup.review.messages")
    return {
        file.name.removesuffix(".json"): json.loads(file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".json")
    }


@functools.cache
def translations() -> dict[str, dict[str, str]]:
    """Return the translation of each English message of the pages, by language."""
    return {language: content["messages"] for language, content in _files().items()}


@functools.cache
def _sentences(language: str) -> list[tuple[int, re.Pattern[str], str]]:
    """Return the patterns of the library's sentences, the longest first, with translations.

    Each is preceded by the number of its characters, without values.
    """
    by_english = _files()[language]["sentences"] if language in _files() else {}
    patterns = []
    for english in sorted(by_english, key=lambda text: -len(_PLACE.sub("", text))):
        # Every other part is the name of a value.
        parts = _PLACE.split(english)
        parts[::2] = map(re.escape, parts[::2])
        parts[1::2] = (f"(?P<{name}>.+?)" for name in parts[1::2])
        characters = len(_PLACE.sub("", english))
        pattern = re.compile("".join(parts), re.DOTALL)
        patterns.append((characters, pattern, by_english[english]))
    return patterns


def preferred(accepted: str) -> str:
    """Return the language of the pages that a browser prefers. accepted: its Accept-Language."""
    weighted = []
    for position, item in enumerate(accepted.split(",")):
        name, _, weight = item.strip().partition(";q=")
        language = name.partition("-")[0].lower()
        if language != ENGLISH and language not in translations():
            continue
        try:
            weighted.append((-float(weight or 1), position, language))
        except ValueError:
            continue
    return min(weighted)[2] if weighted else ENGLISH


def speak(accepted: str) -> None:
    """Answer this request in the language that its browser prefers."""
    _LANGUAGE.set(preferred(accepted))


def spoken() -> str:
    """Return the language of the request that is being answered."""
    return _LANGUAGE.get()


def message(text: str, values: Mapping[str, object] | None = None) -> Markup:
    """Return a message in the language of the request, its values escaped.

    text: in English, with the names of values in braces. "one document|{n} documents" has a form
    for an n of 1, and one for other numbers. Markup in it is kept.
    """
    values = values or {}
    translated = translations().get(spoken(), {}).get(text, text)
    singular, has_forms, plural = translated.partition("|")
    form = plural if has_forms and values.get("n") != 1 else singular
    return Markup(_PLACE.sub(lambda place: _written(values[place[1]]), form))


def sentence(text: str) -> str:
    """Return what the library writes in English in the language of the request, if it is known.

    text: one sentence or several. Values in it may be sentences themselves.
    """
    if (translated := _translated(text, _LONG)) is not None:
        return translated
    parts = [_translated(part) or part for part in _SENTENCE_END.split(text)]
    return text if spoken() == ENGLISH else "。".join(parts)


def _translated(text: str, least: int = 0) -> str | None:
    """Return the translation of one sentence, or None. least: characters of a pattern's words."""
    for characters, pattern, translation in _sentences(spoken()):
        if characters < least:
            break
        if found := pattern.fullmatch(text):
            values = {name: sentence(value) for name, value in found.groupdict().items()}
            return _with_values(translation, values)
    return None


def _with_values(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in place of their names in braces."""
    return _PLACE.sub(lambda place: values[place[1]], text)


def _written(value: object) -> str:
    """Return a value as it stands in a message: numbers with separators, texts escaped."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Markup):
        return str(value)
    return str(escape(visible(str(value))))
