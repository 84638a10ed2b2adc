"""Clears our fields in the JSON of a source that is too long to be parsed.

The source passes piece by piece. Values of our fields are replaced by null, and all other bytes
stay: only strings and nesting are followed, for which numpy takes 60 ns a byte.
"""

import json
import re
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from esdedup.exceptions import RecordError

_PIECE = 1 << 13
"""Bytes that are followed together. Arrays of them take 40 times as much memory."""
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_BACKSLASHES = re.compile(rb"\\+\Z")
_ENCODING = re.compile(rb"[\0\xc0\xc1\xf5-\xff]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]")
"""Bytes of no UTF-8. The servers read UTF-16, UTF-32 and characters in more bytes than needed."""
_QUOTE = ord('"')
_STRUCTURE = np.zeros(256, np.bool_)
_STRUCTURE[[*b"{}[],:"]] = True
_ALLOWED = _STRUCTURE.copy()
_ALLOWED[[*b" \t\r\n+-.0123456789Eaeflnrstu"]] = True
"""Bytes outside of strings. With a comment, which the servers accept, quotes could be missed."""
_BLANK = np.zeros(256, np.bool_)
_BLANK[[*b" \t\r\n"]] = True
_STEPS = np.zeros(256, np.int32)
_STEPS[[*b"{["]], _STEPS[[*b"}]"]] = 1, -1
DOCUMENTS = ("doc", "upsert")
"""The members of an update that hold a document."""
_LONGEST_KEY = 1 << 12
"""Bytes of a key. Longer ones are rejected, so that no key fills the memory."""


class LongSource:
    """A document, or the body of an update, that arrives in pieces."""

    def __init__(self, fields: Collection[str], update: bool) -> None:
        """Begin to read a source.

        fields: the names of ours.
        update: whether the documents are in members of the source.
        """
        self._fields = frozenset(fields)
        self._prefixes = tuple(f"{field}." for field in fields)
        self._update = update
        self._level = 2 if update else 1
        self._carry = b""
        self._in_string = False
        self._depth = 0
        # The levels of objects whose keys are read, and those where the next string is a key.
        self._levels_of_keys: set[int] = set()
        self._levels_at_key: set[int] = set()
        self._key = b""
        self._in_key = False
        # The level of the value that is being left out; 0 for none.
        self._level_left_out = 0

    def cleared(self, source: bytes) -> bytes:
        """Return the next bytes without the values of our fields.

        Raises RecordError if the source is not JSON, or not in UTF-8.
        """
        starts = range(0, len(source), _PIECE)
        return b"".join(self._piece(source[start : start + _PIECE]) for start in starts)

    def end(self) -> None:
        """Raise RecordError if the source is incomplete."""
        if self._carry or self._in_string or self._depth or not self._levels_of_keys:
            raise RecordError("the JSON ends too early")

    def _piece(self, piece: bytes) -> bytes:
        data = self._carry + piece
        # An escape, or a character, may continue in the next piece.
        ending = _BACKSLASHES.search(data)
        length = len(data) - (len(ending[0]) % 2 if ending else 0)
        if data[length - 1 : length] in (b"\xe0", b"\xf0"):
            length -= 1
        self._carry, data = data[length:], data[:length]
        if not data:
            return b""
        if _ENCODING.search(data):
            raise RecordError("not UTF-8")
        # Two bytes for two: positions stay. The servers accept no escape outside of a string.
        codes = np.frombuffer(_ESCAPE.sub(b"\0\0", data), np.uint8)
        quotes = codes == _QUOTE
        # Each quote begins or ends a string.
        in_string = np.logical_xor.accumulate(quotes) ^ self._in_string
        outside = ~(in_string | quotes)
        steps = np.where(outside, _STEPS[codes], 0)
        depths = self._depth + np.cumsum(steps, dtype=np.int32)
        # The depth around a byte: of a bracket, that outside of what it encloses.
        around = depths - (steps == 1)
        if (
            (outside & ~_ALLOWED[codes]).any()
            or (outside & (around < 1) & ~_BLANK[codes] & (steps == 0)).any()
            or (quotes & (depths < 1)).any()
        ):
            raise RecordError("not JSON")
        events = (quotes | (outside & _STRUCTURE[codes])) & (around <= self._level)
        cleared = self._without_ours(data, np.flatnonzero(events), around)
        self._in_string, self._depth = bool(in_string[-1]), int(depths[-1])
        return cleared

    def _without_ours(
        self, data: bytes, events: NDArray[np.int64], levels: NDArray[np.int32]
    ) -> bytes:
        """Return a piece without the values of our fields.

        events: positions of quotes and of structure, ascending.
        levels: by position, the depth around a byte.
        """
        pieces: list[bytes] = []
        copied_to, key_start = 0, 0
        # Of deeper strings, neither quote is among the events.
        in_string = self._in_string and self._depth <= self._level
        for position, level in zip(events.tolist(), levels[events].tolist(), strict=True):
            byte = data[position : position + 1]
            if byte == b'"':
                in_string = not in_string
                if self._in_key:
                    self._add_to_key(data[key_start:position])
                    self._in_key = False
                elif in_string and level in self._levels_at_key:
                    self._key, key_start, self._in_key = b"", position + 1, True
                    self._levels_at_key.discard(level)
            elif byte in b"{[":
                self._open(level + 1, is_object=byte == b"{")
            elif byte == b":":
                if not self._level_left_out and level == self._level and self._is_ours():
                    pieces += [data[copied_to : position + 1], b"null"]
                    self._level_left_out = level
            else:
                # A comma ends a value of its level, a bracket one of the level within.
                level_of_value = level if byte == b"," else level + 1
                if 0 < level_of_value == self._level_left_out:
                    copied_to, self._level_left_out = position, 0
                if byte == b",":
                    self._levels_at_key |= self._levels_of_keys & {level}
                else:
                    self._close(level + 1)
        if self._in_key:
            self._add_to_key(data[key_start:])
        if not self._level_left_out:
            pieces.append(data[copied_to:])
        return b"".join(pieces)

    def _add_to_key(self, characters: bytes) -> None:
        self._key += characters
        if len(self._key) > _LONGEST_KEY:
            raise RecordError(f"a key of more than {_LONGEST_KEY} bytes")

    def _open(self, level: int, is_object: bool) -> None:
        """Enter an array or an object, whose members have this level."""
        if level == 1 and (not is_object or self._levels_of_keys):
            raise RecordError("not a JSON object")
        inside = level == 1 or (self._update and level == 2 and self._name() in DOCUMENTS)
        if is_object and inside:
            self._levels_of_keys.add(level)
            self._levels_at_key.add(level)

    def _close(self, level: int) -> None:
        if level > 1:
            self._levels_of_keys.discard(level)
        self._levels_at_key.discard(level)

    def _name(self) -> str:
        """Return the last key that was read. Raises RecordError if it is none of JSON."""
        try:
            key = self._key.decode("utf-8", "surrogatepass")
            return str(json.loads(f'"{key}"')) if "\\" in key else key
        except ValueError as error:
            raise RecordError("a key is not JSON") from error

    def _is_ours(self) -> bool:
        if self._level not in self._levels_of_keys:
            return False
        name = self._name()
        return name in self._fields or name.startswith(self._prefixes)
