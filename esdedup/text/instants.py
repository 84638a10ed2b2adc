"""Reads times in the forms that feeds, mails and logs have, as instants that can be compared.

Forms: ISO 8601 (also with a blank before the time, or with slashes), RFC 822 and its successors,
and epochs, as numbers or as digits in a text. A time without a zone is in UTC, as it is for
Elasticsearch and OpenSearch. A form that may mean two days, such as 01.03.2026, is no time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import MappingProxyType
from typing import Any

_SECOND = 10**9
_UNITS = (("seconds", 9), ("milliseconds", 6), ("microseconds", 3), ("nanoseconds", 0))
KINDS = ("", "dates", *(f"{unit} since 1970" for unit, _ in _UNITS))
"""Forms of times. Values of two of them, of one field, are a mistake."""
_LEAST_OF_NEXT = 10**11
"""A number of at least as many seconds, the year 5138, counts milliseconds, from 1973 on; and so on
for microseconds and nanoseconds."""
_EPOCH_TEXT = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_ZONE = r"(?P<zone>Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)"
_CLOCK = (
    r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,](?P<part>[0-9]+))?)?"
)
_ISO = re.compile(
    r"(?P<year>[0-9]{4})(?:(?P<mark>[-/])(?P<month>[0-9]{2})(?:(?P=mark)(?P<day>[0-9]{2})"
    rf"(?:(?:[T ]\s*)(?:{_CLOCK}|(?P<only>[0-9]{{2}}))\s*{_ZONE}?)?)?)?",
    re.IGNORECASE,
)
_BASIC = re.compile(
    r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})T(?P<hour>[0-9]{2})(?P<minute>[0-9]{2})"
    rf"(?:(?P<second>[0-9]{{2}})(?:[.,](?P<part>[0-9]+))?)?{_ZONE}?",
    re.IGNORECASE,
)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_MAIL = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s+)?(?P<day>[0-9]{1,2})[\s-]+"
    rf"(?P<name>{_MONTHS.replace(' ', '|')})[\s-]+(?P<year>[0-9]{{4}}|[0-9]{{2}})"
    rf"(?:\s+{_CLOCK}(?:\s*(?P<zone>[+-][0-9]{{4}}|UTC|UT|Z|GMT|[ECMP][SD]T))?)?(?:\s*\([^()]*\))?",
    re.IGNORECASE,
)
_HOURS: Mapping[str, int] = MappingProxyType(
    {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
)
"""The zones that RFC 822 names."""
_NO_OFFSET = timedelta()
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Instant:
    """A point in time.

    nanoseconds: since 1970 in UTC.
    kind: one of `KINDS`: how it was written. "" is the number 0, the same in all units.
    """

    nanoseconds: int
    kind: str


def instant_of(value: Any) -> Instant | None:
    """Return the time that a value is, or None."""
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, datetime):
        return _of_datetime(value)
    if isinstance(value, date):
        return Instant((value.toordinal() - _EPOCH) * 86_400 * _SECOND, "dates")
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    number = Decimal(value)
    return _of_number(number) if number.is_finite() else None


def number_of(value: Any) -> float | None:
    """Return the number that a value is, or that a text writes in digits, or None."""
    if isinstance(value, str):
        text = value.strip()
        return float(text) if _NUMBER.fullmatch(text) else None
    if not isinstance(value, (int, float, Decimal)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return None if math.isnan(number) else number


def _of_number(value: Decimal) -> Instant | None:
    least = _LEAST_OF_NEXT
    for kind, power in _UNITS:
        if value.copy_abs() < least:
            return Instant(int(value.scaleb(power)), f"{kind} since 1970" if value else "")
        least *= 1_000
    return None


def _of_datetime(value: datetime) -> Instant | None:
    if value != value:
        # The missing time of pandas.
        return None
    seconds = (value.toordinal() - _EPOCH) * 86_400
    seconds += value.hour * 3_600 + value.minute * 60 + value.second
    # A zone can take a time out of the years that Python has.
    offset = value.utcoffset() or _NO_OFFSET
    seconds -= offset.days * 86_400 + offset.seconds
    # Times of pandas have nanoseconds.
    below = (value.microsecond - offset.microseconds) * 1_000 + getattr(value, "nanosecond", 0)
    return Instant(seconds * _SECOND + below, "dates")


def _of_text(text: str) -> Instant | None:
    # As for the servers, four digits are a year, and not an epoch.
    iso = _ISO.fullmatch(text)
    if iso is None:
        if _EPOCH_TEXT.fullmatch(text):
            return _of_number(Decimal(text))
        iso = _BASIC.fullmatch(text)
    if iso is not None:
        return _of_parts(iso.groupdict(), int(iso["month"] or 1), int(iso["year"]))
    if (mail := _MAIL.fullmatch(text)) is None:
        return None
    year = int(mail["year"])
    if year < 100:
        # RFC 2822, section 4.3.
        year += 2000 if year < 50 else 1900
    month = 1 + _MONTHS.split().index(mail["name"].lower())
    return _of_parts(mail.groupdict(), month, year)


def _of_parts(parts: Mapping[str, str | None], month: int, year: int) -> Instant | None:
    hour, minute = int(parts["hour"] or parts.get("only") or 0), int(parts["minute"] or 0)
    second, day = int(parts["second"] or 0), int(parts["day"] or 1)
    # A minute may have a leap second.
    if not (hour < 24 and minute < 60 and second <= 60):
        return None
    try:
        days = date(year, month, day).toordinal() - _EPOCH
    except ValueError:
        return None
    zone = _offset((parts["zone"] or "Z").upper())
    if zone is None:
        return None
    seconds = days * 86_400 + hour * 3_600 + minute * 60 + second - zone
    below = int((parts["part"] or "0")[:9].ljust(9, "0"))
    return Instant(seconds * _SECOND + below, "dates")


def _offset(zone: str) -> int | None:
    """Return the seconds of a zone before UTC, or None if there is no such zone."""
    if zone[0] not in "+-":
        return 3_600 * _HOURS.get(zone, 0)
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 3_600 + minutes * 60) * (-1 if zone[0] == "-" else 1)
