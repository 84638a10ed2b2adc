"""Read and replace values in the text of JSON, and leave every other byte unchanged.

Numbers keep their digits, keys their order, and blanks their places, because only what changes is
serialised.
"""

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeVar

from esdedup.exceptions import RecordError
from esdedup.models import Fields
from esdedup.stores.plain_values import is_nan
from esdedup.stores.to_json import check_depth, to_json

REMOVED = object()
"""In the fields of a change: remove the value of this name."""

_BLANK = " \t\n\r"
_MOST_DIGITS = 400
"""Digits of a number that is read: of 1,024 bits 309. Python rejects those of some thousands."""
_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
"""A string or a comment."""
_PLAIN_NAME = re.compile(r"[\w.]+", re.ASCII)
"""A name that JSON holds as it is, or with \\u."""


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


VALUES = json.JSONDecoder(parse_int=_integer)
"""Parses values. An integer that Python rejects is read as the text of its digits."""


def _short_integer(digits: str) -> int:
    return int(digits) if len(digits) <= _MOST_DIGITS else True


SHAPES = json.JSONDecoder(parse_int=_short_integer, parse_float=bool)
"""Parses quickly where fractions and longer integers are not used: each becomes the same object."""


def _digits(digits: str) -> dict[str, int]:
    # In parsed JSON, the value 0 is such an object itself.
    return {digits: 0}


_DIGITS = json.JSONDecoder(parse_int=_digits, parse_float=_digits)


class Number(float):
    """A fraction, or an integer of very many digits, and the digits that it has in a text."""

    __slots__ = ("digits",)
    digits: str

    def __new__(cls, digits: str) -> Self:
        """Return the number. digits: as in JSON."""
        number = super().__new__(cls, digits)
        number.digits = digits
        return number


def _exact_integer(digits: str) -> int | Number:
    try:
        return int(digits)
    except ValueError:
        return Number(digits)


EXACT = json.JSONDecoder(parse_int=_exact_integer, parse_float=Number)
"""Parses values whose numbers keep their digits, which `exact_json` writes again."""


def _finite(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


SHOWN = json.JSONDecoder(parse_int=_integer, parse_float=_finite, parse_constant=str)
"""Parses values to show. A number that JSON or Python rejects is read as its text."""


Value = TypeVar("Value")
Reader = Callable[[str, int], tuple[Value, int]]
"""A function that returns the value at a place of a text, and the value's end."""


class JsonMember(NamedTuple):
    """A key of an object, and the value that is stored in the text from start to end.

    key_start: place of the key's quote.
    """

    key: str
    key_start: int
    start: int
    end: int
    value: Any


def value_of(text: str, decoder: json.JSONDecoder = SHAPES) -> tuple[Any, int, int]:
    """Return the value of a JSON text, its start and its end. Raises ValueError.

    Short texts take half the time of `JSONDecoder.decode`, which finds blanks by patterns.
    """
    start = len(text) - len(text.lstrip(_BLANK))
    value, end = decoder.raw_decode(text, start)
    if text[end:].strip(_BLANK):
        raise ValueError("something follows the value")
    return value, start, end


def members(text: str, start: int, decoder: json.JSONDecoder = SHAPES) -> Iterator[JsonMember]:
    """Yield the members of the valid object at `start`."""
    position = after_blanks(text, start + 1)
    while text[position] != "}":
        key_start = position
        key, position = decoder.raw_decode(text, position)
        value_start = after_blanks(text, after_blanks(text, position) + 1)  # After the colon.
        value, position = decoder.raw_decode(text, value_start)
        yield JsonMember(key, key_start, value_start, position, value)
        position = after_blanks(text, position)
        if text[position] == ",":
            position = after_blanks(text, position + 1)


def after_blanks(text: str, position: int) -> int:
    """Return the place of the next character that is not blank."""
    while text[position] in _BLANK:
        position += 1
    return position


def with_digits(text: str) -> Fields:
    """Parse an object for a comparison in which 100.1 and 100.10 differ.

    A number becomes an object with its digits as the name, which is not equal to a string.
    """
    fields: Fields = _DIGITS.decode(text)
    return fields


def holds(value: object, kind: type) -> bool:
    """Return whether a value, or one in its lists and objects, is just of a type."""
    # Without a call for each level: a value may be nested as deeply as Python parses.
    remaining = [value]
    while remaining:
        item = remaining.pop()
        if isinstance(item, dict):
            item = [*item.values()]
        if not isinstance(item, list):
            if type(item) is kind:
                return True
            continue
        # Most are lists of tokens, which are looked at without a step for each.
        kinds = set(map(type, item))
        if kind in kinds:
            return True
        if dict in kinds or list in kinds:
            remaining += [inner for inner in item if isinstance(inner, dict | list)]
    return False


def may_lack_digits(value: object) -> bool:
    """Return whether a parsed value may have numbers without all of their digits.

    They are fractions, and the strings that `VALUES` makes of long integers. `EXACT` reads them.
    """
    remaining = [value]
    while remaining:
        item = remaining.pop()
        if isinstance(item, dict | list):
            remaining.extend(item.values() if isinstance(item, dict) else item)
        elif isinstance(item, str):
            if len(item) > _MOST_DIGITS and item.removeprefix("-").isdigit():
                return True
        elif type(item) is float:
            return True
    return False


def exact_json(value: object, subject: str) -> str:
    """Return compact JSON as `to_json` does, with the digits of each `Number`.

    subject: names the value in messages. Raises RecordError if JSON can't hold it.
    """
    if not holds(value, Number):
        return to_json(value, subject)

    def written(leaf: object) -> str:
        return leaf.digits if isinstance(leaf, Number) else to_json(leaf, subject)

    text = json_of_leaves(value, written)
    check_depth(text, value)
    return text


def any_json(value: object) -> str:
    """Return compact JSON as `exact_json` does, also of a value that no store accepts.

    It is as Python's json module writes and reads it: NaN and infinity have names, and the halves
    of surrogate pairs are escaped.
    """
    try:
        return exact_json(value, "a value")
    except RecordError:
        if isinstance(value, dict | list):
            return json_of_leaves(value, any_json)
        return json.dumps(value)


def json_without_nan(value: object, subject: str) -> str:
    """Return compact JSON as `exact_json` does, with null in place of NaN. Raises its errors."""

    def written(leaf: object) -> str:
        return "null" if is_nan(leaf) else exact_json(leaf, subject)

    text = json_of_leaves(value, written)
    check_depth(text, value)
    return text


class _JsonPart(NamedTuple):
    """A part of the JSON of a list or an object."""

    text: str


_COMMA = _JsonPart(",")


def json_of_leaves(
    value: object, written: Callable[[object], str], *, sort_keys: bool = False
) -> str:
    """Return the JSON of a value of lists and objects. written: returns that of any other value."""
    written_parts, remaining = list[str](), [value]
    # Without a call for each level, as in `holds`.
    while remaining:
        item = remaining.pop()
        inner: list[object] = []
        if isinstance(item, _JsonPart):
            written_parts.append(item.text)
        elif isinstance(item, Mapping):
            fields = [(_JsonPart(f"{written(name)}:"), field) for name, field in item.items()]
            if sort_keys:
                fields.sort(key=operator.itemgetter(0))
            for name, field in fields:
                inner += [_COMMA, name, field]
            remaining += [_JsonPart("}"), *inner[:0:-1], _JsonPart("{")]
        elif isinstance(item, list):
            for member in item:
                inner += [_COMMA, member]
            remaining += [_JsonPart("]"), *inner[:0:-1], _JsonPart("[")]
        else:
            written_parts.append(written(item))
    return "".join(written_parts)


def merged_text(
    text: str,
    fields: Mapping[str, object],
    subject: str,
    write: Callable[[object], str] | None = None,
) -> str:
    """Merge fields into the text of an object, objects into objects, as a cluster does.

    A field `REMOVED` is removed. subject: names the fields in messages. write: returns the JSON of
    a value; by default `exact_json`. Raises RecordError if JSON can't hold them, ValueError if the
    text is not an object.
    """
    written = write or (lambda value: exact_json(_present(value), subject))
    for name, value in fields.items():
        member = _member(text, name)
        if value is REMOVED:
            text = text if member is None else _without(text, member)
        elif member is None:
            text = _with(text, name, written(value), subject)
        elif isinstance(value, Mapping) and isinstance(member.value, dict):
            inner = merged_text(text[member.start : member.end], value, subject, write)
            text = text[: member.start] + inner + text[member.end :]
        else:
            text = text[: member.start] + written(value) + text[member.end :]
    return text


def text_with(text: str, name: str, value: str) -> str:
    """Put a value, as JSON, into the text of an object, in place of one of this name or last."""
    if (member := _member(text, name)) is None:
        return _with(text, name, value, "a name")
    return text[: member.start] + value + text[member.end :]


def text_with_fields(text: str, fields: Mapping[str, object], subject: str) -> str:
    """Put fields into the text of an object, each as `text_with` does.

    subject: names the object in messages. Raises RecordError if JSON can't hold the fields.
    """
    for name, value in fields.items():
        text = text_with(text, name, to_json(value, subject))
    return text


def text_without(text: str, name: str) -> str:
    """Remove all values of a name from the text of an object."""
    while (member := _member(text, name)) is not None:
        text = _without(text, member)
    return text


def one_line(text: str) -> str:
    """Return JSON without line feeds, which can only be between values, for a line of requests."""
    return text.replace("\n", " ") if "\n" in text else text


def without_comments(text: str) -> str:
    """Remove comments, which Elasticsearch accepts in documents and returns with them."""
    return _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else "", text)


def rewritten_number(text: str) -> str | None:
    """Return a number that a server's own update of a document would rewrite, or None.

    Servers read numbers with a fraction or an exponent as doubles, and write these as Java does.
    """
    numbers: list[str] = []

    def note(digits: str) -> bool:
        numbers.append(digits)
        return True

    json.JSONDecoder(parse_int=lambda _: True, parse_float=note).decode(text)
    return next((digits for digits in numbers if not _stays(digits)), None)


def _stays(digits: str) -> bool:
    value = float(digits)
    # Java writes others with an exponent.
    plain = value == 0 or 1e-3 <= abs(value) < 1e7
    return plain and repr(value) == digits


def _present(value: object) -> object:
    """Return a value to add without the names to remove."""
    if not isinstance(value, Mapping) or not holds(value, type(REMOVED)):
        return value
    return {name: _present(field) for name, field in value.items() if field is not REMOVED}


def _member(text: str, name: str) -> JsonMember | None:
    """Return the last member of an object with a name."""
    # Our field is the last one of most documents. A key that only an object's end follows is one
    # of the outermost object.
    end = len(text.rstrip(_BLANK)) - 1
    if text[end] != "}":
        raise ValueError("not a JSON object")
    quoted = f'"{name}":'
    position = text.rfind(quoted)
    if position > 0 and text[position - 1] in f",{{{_BLANK}":
        start = after_blanks(text, position + len(quoted))
        value, stop = SHAPES.raw_decode(text, start)
        if after_blanks(text, stop) == end:
            return JsonMember(name, position, start, stop, value)
    elif position < 0 and name not in text and "\\u" not in text and _PLAIN_NAME.fullmatch(name):
        return None
    start = after_blanks(text, 0)
    named = [member for member in members(text, start) if member.key == name]
    return named[-1] if named else None


def _with(text: str, name: str, value: str, subject: str) -> str:
    end = len(text.rstrip(_BLANK)) - 1
    comma = "" if text[:end].rstrip(_BLANK).endswith("{") else ","
    return f"{text[:end]}{comma}{to_json(name, subject)}:{value}{text[end:]}"


def _without(text: str, member: JsonMember) -> str:
    before = text[: member.key_start].rstrip(_BLANK)
    if before.endswith(","):
        return before[:-1] + text[member.end :]
    after = after_blanks(text, member.end)
    if text[after] == ",":
        return text[: member.key_start] + text[after_blanks(text, after + 1) :]
    return text[: member.key_start] + text[member.end :]


def values_with_texts(
    text: str, paths: Mapping[str, Reader[object]], start: int = 0
) -> tuple[Fields, int]:
    """Parse the object at `start`, some members by functions of their own; return its end too.

    paths: the functions by name. Raises ValueError if the text is not valid.
    """
    values: Fields = {}
    if text[start] != "{":
        raise ValueError("not a JSON object")
    position = after_blanks(text, start + 1)
    while text[position] != "}":
        key, position = VALUES.raw_decode(text, position)
        position = after_blanks(text, after_blanks(text, position) + 1)
        read: Reader[object] = paths.get(key, VALUES.raw_decode)
        values[key], position = read(text, position)
        position = after_blanks(text, position)
        if text[position] == ",":
            position = after_blanks(text, position + 1)
    return values, position + 1


def list_with_texts(text: str, start: int, item: Reader[Value]) -> tuple[list[Value], int]:
    """Parse the array at `start`, each item by a function; return its end too."""
    values: list[Value] = []
    if text[start] != "[":
        raise ValueError("not a JSON array")
    position = after_blanks(text, start + 1)
    while text[position] != "]":
        value, position = item(text, position)
        values.append(value)
        position = after_blanks(text, position)
        if text[position] == ",":
            position = after_blanks(text, position + 1)
    return values, position + 1
