"""Split the text of many rows of CSV or TSV into fields, and change a field of a row.

The csv module reads character by character, in several times the time. Its `strict` reader returns
the same rows for every text that `has_whole_rows` accepts.

pyarrow's reader takes less than half of the time of `rows_in_text`, but reports no line of a row,
and reads text after a closing quote, and a quote that is never closed, without an error. It would
save 2 of 46 microseconds per document, for a second reader (`benchmarks.own.columns`).
"""

from collections.abc import Sequence

import numpy as np

from esdedup.text.arrays import I64, Unsigned
from esdedup.text.characters import code_points

_QUOTE, _LINE_FEED = b'"\n'


def has_whole_rows(text: str, delimiter: str) -> bool:
    """Return whether a text that begins at a row has whole rows, with quotes only around fields.

    text: lines that end with a line feed, without a carriage return before it.

    Within quotes, two stand for one. Other texts, such as 5" of a field without quotes, depend on
    the state of the reader.
    """
    if "\r" in text:
        return False  # An error, or a character within quotes.
    if '"' not in text:
        return True
    points = _points(text)
    quotes = np.flatnonzero(points == _QUOTE)
    if quotes.size % 2:
        return False
    # A quote that follows another one begins a field only in appearance: both are one character.
    borders = np.array([_QUOTE, _LINE_FEED, ord(delimiter)], np.uint32)
    opening, closing = quotes[::2], quotes[1::2]
    begins_field = np.isin(points[opening - 1], borders) | (opening == 0)
    return bool(begins_field.all() and np.isin(points[closing + 1], borders).all())


def rows_in_text(text: str, delimiter: str) -> tuple[list[int], list[Sequence[str]]]:
    """Return the rows of a text that `has_whole_rows`, and the line of each, from 0.

    Empty lines between rows are no rows.
    """
    points = _points(text)
    line_feeds = points == _LINE_FEED
    ends = np.flatnonzero(line_feeds | (points == ord(delimiter)))
    if '"' in text:
        # Before a delimiter outside of quotes there is an even number of them.
        ends = ends[np.searchsorted(np.flatnonzero(points == _QUOTE), ends) % 2 == 0]
    starts = np.append(0, ends[:-1] + 1)
    fields = [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    for position in np.flatnonzero(points[starts] == _QUOTE).tolist():
        fields[position] = fields[position][1:-1].replace('""', '"')
    last_fields = np.flatnonzero(line_feeds[ends])
    first_fields = np.append(0, last_fields[:-1] + 1)
    is_empty = starts[first_fields] == ends[last_fields]
    first_fields, last_fields = first_fields[~is_empty], last_fields[~is_empty]
    lines: I64 = np.searchsorted(np.flatnonzero(line_feeds), starts[first_fields])
    bounds = zip(first_fields.tolist(), (last_fields + 1).tolist(), strict=True)
    return lines.tolist(), [fields[first:end] for first, end in bounds]


def with_field(row: str, column: int, delimiter: str, text: str) -> str:
    """Return a row of CSV with another text in a column; all else stays as it came."""
    start, end = 0, -1
    for _ in range(column + 1):
        start = end + 1
        end = _end_of_field(row, start, delimiter)
    if "\r\n" in row[start:end]:
        # Readers may return the lines of a text without their carriage returns.
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    is_quoted = row[start : start + 1] == '"' or any(mark in text for mark in f'{delimiter}"\r\n')
    # A row of one empty field would be no row.
    if is_quoted or not text:
        text = '"' + text.replace('"', '""') + '"'
    return row[:start] + text + row[end:]


def _end_of_field(row: str, start: int, delimiter: str) -> int:
    """Return the end of the field of a row of CSV that starts at a character."""
    if row[start : start + 1] == '"':
        position = start + 1
        while (position := row.index('"', position) + 1) < len(row) and row[position] == '"':
            position += 1
        return position
    ends = (row.find(mark, start) for mark in (delimiter, "\r", "\n"))
    return min((end for end in ends if end >= 0), default=len(row))


def _points(text: str) -> Unsigned:
    """Return the code points of a text, in few bytes: shape (len(text),)."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return code_points(text)
