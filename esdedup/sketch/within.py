"""The scope of duplicates: fields that they agree in, and times that are near each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from esdedup.arguments import check_list, check_type
from esdedup.exceptions import UsageError

_MICROSECONDS = {
    "w": 7 * 86_400 * 10**6,
    "d": 86_400 * 10**6,
    "h": 3_600 * 10**6,
    "m": 60 * 10**6,
    "s": 10**6,
    "ms": 10**3,
}
"""Units of a window, the longest first."""
_WINDOW = re.compile(r"(?P<field>.+):(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>[a-z]*)", re.DOTALL)
_LONGEST = 100 * 366 * _MICROSECONDS["d"]
"""A century: slots of a window are numbers of 64 bits."""


@dataclass(frozen=True)
class TimeWindow:
    """A field of times, which are near each other in similar documents.

    field: its name.
    microseconds: the most between the times of two documents.
    """

    field: str
    microseconds: int

    def __str__(self) -> str:
        fitting = (
            f"{self.field}:{self.microseconds // size}{unit}"
            for unit, size in _MICROSECONDS.items()
            if self.microseconds % size == 0
        )
        return next(fitting)


@dataclass(frozen=True)
class Within:
    """The scope in which documents can be duplicates of each other; by default all documents.

    A document that lacks the value of a field is in no scope, so that it is no duplicate and has
    none.

    fields: names of fields whose values are the same in both documents.
    windows: fields of times that are near each other.
    """

    fields: tuple[str, ...] = ()
    windows: tuple[TimeWindow, ...] = ()

    @staticmethod
    def parse(texts: str | Sequence[str]) -> Within:
        """Parse fields and windows, such as "source" and "date:3d".

        A window ends in a colon, a number and a unit: w, d, h, m (minutes), s or ms. Raises
        UsageError for one of another form.
        """
        if isinstance(texts, str):
            texts = [texts]
        check_list("within", texts)
        fields, windows = list[str](), list[TimeWindow]()
        for text in texts:
            check_type("within", text, "str")
            if not text.strip():
                raise UsageError("`within` is empty: name a field")
            if (match := _WINDOW.fullmatch(text)) is None:
                fields.append(text)
            else:
                windows.append(_window(match))
        return Within(tuple(dict.fromkeys(fields)), tuple(dict.fromkeys(windows)))

    def __bool__(self) -> bool:
        """Return whether there is anything to agree in."""
        return bool(self.fields or self.windows)

    def __str__(self) -> str:
        return ", ".join(self.to_json())

    def renamed(self, names: Mapping[str, str]) -> Within:
        """Return the scope for documents whose fields have other names."""
        windows = (TimeWindow(names[window.field], window.microseconds) for window in self.windows)
        return Within(tuple(names[field] for field in self.fields), tuple(windows))

    def to_json(self) -> list[str]:
        """Return what `parse` reads."""
        return [*self.fields, *map(str, self.windows)]


def _window(match: re.Match[str]) -> TimeWindow:
    size = _MICROSECONDS.get(match["unit"])
    if size is None:
        units = "w, d, h, m (minutes), s or ms"
        raise UsageError(f"within {match[0]!r}: use a number and one of {units}, such as 3d")
    microseconds = round(float(match["number"]) * size)
    if not 0 < microseconds <= _LONGEST:
        raise UsageError(f"within {match[0]!r}: use more than 0, up to 100 years")
    return TimeWindow(match["field"], microseconds)
