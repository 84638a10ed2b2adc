"""The names of the tables of one index, quoted for SQL."""

import re


class TableNames:
    """The tables of one index in a local file.

    documents: id, tokens and source of each document, by number.
    groups: the marks of documents. They are in a table of their own, so that `group` writes small
        rows and no documents.
    listed: the number up to which the tokens of documents are listed.
    runs: the runs of each list of tokens (`postings`).
    marked: the documents with their marks.
    """

    def __init__(self, index: str) -> None:
        # SQLite ignores case in names, and reserves those that begin with sqlite_.
        cased = re.sub("[A-Z^]", lambda letter: f"^{letter[0].lower()}", index)
        self._index = cased.replace('"', '""')
        self.documents, self.groups = self.quoted("documents"), self.quoted("groups")
        self.listed, self.runs = self.quoted("listed"), self.quoted("runs")
        self.marked = f"{self.documents} LEFT JOIN {self.groups} USING (number)"

    def quoted(self, name: str) -> str:
        """Return the quoted name of a table: one of the attributes, or a list's run."""
        return f'"{name}:{self._index}"'
