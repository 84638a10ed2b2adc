"""Search for words in the texts of a local file, with FTS5 of SQLite.

The index is in a temporary file of its own, so that the file of documents stays as it is. Chinese,
Japanese, Korean and Thai characters are words of their own there: a phrase of them is found in any
text, without a dictionary.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence

from esdedup.exceptions import StoreError
from esdedup.models import Document
from esdedup.stores.fields import text_at

_ALONE = re.compile("([\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af])")
"""Characters that are written without spaces between words."""
_WORD = re.compile(r"\w+")
_MOST_CHARACTERS = 200_000
"""Characters of a text in which words are found."""


class FullText:
    """The texts of an index, to search in. Threads may share it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._version: object = None
        # An empty name is a temporary file, which SQLite deletes when it is closed.
        self._db = sqlite3.connect("", check_same_thread=False)

    def is_of(self, version: object) -> bool:
        """Return whether the texts are those of a version of the documents."""
        # Not in turn: a page must not wait for texts that are being read.
        return version == self._version

    def read(
        self,
        batches: Iterable[Sequence[Document]],
        text_fields: Sequence[str],
        version: object,
        on_read: Callable[[int], None],
    ) -> None:
        """Read the texts of all documents. Raises StoreError if SQLite has no FTS5.

        on_read: gets the number of documents so far; what it raises ends the reading.
        """
        with self._turn, self._db:
            self._version = None
            self._db.execute("DROP TABLE IF EXISTS texts")
            self._db.execute("DROP TABLE IF EXISTS ids")
            try:
                self._db.execute("CREATE VIRTUAL TABLE texts USING fts5(words, content='')")
            except sqlite3.OperationalError as error:
                raise StoreError(
                    f"SQLite of this Python can't search for words: {error}"
                ) from error
            self._db.execute("CREATE TABLE ids (number INTEGER PRIMARY KEY, id TEXT)")
            number = 0
            for batch in batches:
                texts = [text_at(document.source, text_fields) or "" for document in batch]
                numbers = range(number, number + len(batch))
                number += len(batch)
                self._db.executemany(
                    "INSERT INTO texts (rowid, words) VALUES (?, ?)",
                    zip(numbers, map(_spaced, texts), strict=True),
                )
                self._db.executemany(
                    "INSERT INTO ids VALUES (?, ?)",
                    zip(numbers, [document.id for document in batch], strict=True),
                )
                on_read(number)
            self._version = version

    def find(self, words: str, limit: int) -> tuple[list[str], int]:
        """Return ids of at most `limit` texts with all words, phrases first, and their number."""
        if not (terms := _WORD.findall(_spaced(words))):
            return [], 0
        phrase = f'"{" ".join(terms)}"'
        # Characters without a space between them are a phrase.
        all_words = " AND ".join(f'"{_spaced(word)}"' for word in _WORD.findall(words))
        with self._turn:
            (total,) = self._db.execute(
                "SELECT count(*) FROM texts WHERE texts MATCH ?", (all_words,)
            ).fetchone()
            ids: dict[str, None] = {}
            for expression in (phrase, all_words):
                query = (
                    "SELECT id FROM (SELECT rowid AS number, rank FROM texts WHERE texts MATCH ?"
                    " ORDER BY rank LIMIT ?) JOIN ids USING (number) ORDER BY rank"
                )
                rows = self._db.execute(query, (expression, limit)).fetchall()
                ids.update(dict.fromkeys(id for (id,) in rows))
        return [*ids][:limit], total

    def close(self) -> None:
        """Delete the texts."""
        with self._turn:
            self._db.close()


def _spaced(text: str) -> str:
    """Return a text with spaces around each character that is a word."""
    # A lone surrogate can't be written.
    writable = text[:_MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")
    return _ALONE.sub(r" \1 ", writable)
