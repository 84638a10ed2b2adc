"""Splits Chinese text into words with the optional package jieba."""

import functools
import logging
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from esdedup.exceptions import MissingExtra, UsageError


def installed_version() -> str:
    """Return the version of jieba. Raises MissingExtra if it is not installed."""
    return str(_jieba().__version__)


def cut(texts: Sequence[str], version: str) -> list[list[str]]:
    """Cut each text into words and punctuation. Joined, the pieces are the text.

    Raises UsageError if another version is installed, because its dictionary may cut differently,
    and MissingExtra if jieba is not installed.
    """
    installed = installed_version()
    if installed != version:
        raise UsageError(
            f"the scheme's words were split by jieba {version}, but jieba {installed}"
            f" is installed: pip install 'jieba=={version}'"
        )
    return [list(_segmenter().cut(text)) for text in texts]


def _jieba() -> ModuleType:
    try:
        import jieba
    except ImportError as error:
        raise MissingExtra(
            "Chinese word segmentation needs jieba: pip install 'esdedup[jieba]'"
        ) from error
    module: ModuleType = jieba
    return module


@functools.cache
def _segmenter() -> Any:
    """Return a segmenter of our own. A user may have added words to the global one of jieba."""
    # jieba logs to standard error that it loads its dictionary.
    logging.getLogger("jieba").setLevel(logging.WARNING)
    segmenter = _jieba().Tokenizer()
    segmenter.initialize()
    return segmenter
