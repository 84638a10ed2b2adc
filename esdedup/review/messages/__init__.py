"""The messages of the pages in the language of the browser.

Pages are written in English. This folder has one file a language: a JSON object with the
translation of each English message. Messages of the library, such as warnings, stay in English.
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


@functools.cache
def translations() -> dict[str, dict[str, str]]:
    """Return the translation of each English message, by language."""
    folder = files("esdedup.review.messages")
    return {
        file.name.removesuffix(".json"): json.loads(file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".json")
    }


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


def _written(value: object) -> str:
    """Return a value as it stands in a message: numbers with separators, texts escaped."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Markup):
        return str(value)
    return str(escape(visible(str(value))))
