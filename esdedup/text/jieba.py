"""Chinese words by jieba, a package that is an extra."""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from typing import Any

from esdedup.exceptions import MissingExtra, UsageError


def installed_version() -> str:
    """The version of the package. Raises MissingExtra where it is not installed."""
    return str(_jieba().__version__)


def cut(texts: Sequence[str], version: str) -> list[list[str]]:
    """The pieces that jieba cuts each text into, punctuation too; joined they are the text.

    Raises UsageError where another version than the given one is installed: its dictionary may cut
    otherwise. Raises MissingExtra where none is.
    """
    installed = installed_version()
    if installed != version:
        raise UsageError(
            f"the scheme's words were split by jieba {version}, but jieba {installed}"
            f" is installed: pip install 'jieba=={version}'"
        )
    return [list(_segmenter().cut(text)) for text in texts]


def _jieba() -> Any:
    try:
        import jieba
    except ImportError as error:
        raise MissingExtra(
            "Chinese word segmentation needs jieba: pip install 'esdedup[jieba]'"
        ) from error
    return jieba


@functools.cache
def _segmenter() -> Any:
    """A segmenter of our own: jieba's global one may have had words added to it."""
    # It reports the loading of its dictionary on standard error.
    logging.getLogger("jieba").setLevel(logging.WARNING)
    segmenter = _jieba().Tokenizer()
    segmenter.initialize()
    return segmenter
