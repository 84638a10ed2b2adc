"""Times in the forms that feeds, mails and logs have."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esdedup.text.instants import instant_of, number_of

TOKYO = timezone(timedelta(hours=9))
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00:00Z", "2026-03-01T12:00Z", "2026-03-01T12:00", "2026-03-01T12",
        "2026-03-01 12:00:00", "2026-03-01 12:00:00 UTC", "2026/03/01 12:00:00",
        "2026-03-01T21:00:00+09:00", "2026-03-01T21:00:00+0900", "2026-03-01T21+09",
        "2026-03-01T12:00:00.000Z", "2026-03-01T12:00:00,000000000Z", "20260301T120000Z",
        "2026-03-01t12:00:00z", " 2026-03-01T12:00:00Z\n", "2026-03-01T11:59:60Z",
        "Sun, 01 Mar 2026 12:00:00 GMT", "Sun, 1 Mar 2026 12:00 UT", "1 Mar 26 12:00:00 +0000",
        "Sun, 01 Mar 2026 21:00:00 +0900 (JST)", "Sun, 01 Mar 2026 07:00:00 EST",
        "Sunday, 01-Mar-26 12:00:00 GMT", "Sun, 01 Mar 2026 12:00:00",
        1772366400, 1772366400.0, "1772366400", 1772366400000, "1772366400000",
        1772366400000000, 1772366400000000000, Decimal("1772366400"), NOON,
        NOON.astimezone(TOKYO), NOON.replace(tzinfo=None),
    ],
)  # fmt: skip
def test_one_time_in_many_forms(text: Any) -> None:
    instant = instant_of(text)
    assert instant is not None
    assert instant.nanoseconds == int(NOON.timestamp()) * 10**9


@pytest.mark.parametrize(
    "value",
    [
        "01.03.2026", "03/01/2026", "1.3.26", "2026-3-1", "2026-02-30", "2026-13-01", "",
        "2026-03-01T24:00:00Z", "2026-03-01T12:60Z", "2026-03-01T12:00:00 CET", "yesterday",
        "2026-03-01T12:00:00+25:00", "Sun, 31 Feb 2026 12:00:00 GMT", "2026-03/01", "12:00",
        None, True, math.nan, math.inf, 10**30, 10**400, Decimal("1e400"), Decimal("nan"), [], {},
    ],
)  # fmt: skip
def test_what_is_no_time(value: Any) -> None:
    assert instant_of(value) is None


def test_fractions_and_days_are_in_order() -> None:
    written = [
        "2025", "2026-02", "2026-02-28", "2026-03-01T00:30:00+09:00", "2026-03-01",
        "2026-03-01T02:00:00Z", "2026-03-01T02:00:00.1Z", "2026-03-01T02:00:00.100000001Z",
        "2026-03-01T02:00:00.2Z", "Sun, 01 Mar 2026 12:00:00 +0100", "9999-12-31T23:59:59Z",
    ]  # fmt: skip
    instants = [instant_of(text) for text in written]
    assert [each.kind for each in instants if each is not None] == ["dates"] * len(written)
    moments = [each.nanoseconds for each in instants if each is not None]
    assert moments == sorted({*moments})
    kinds = [instant_of(each) for each in (0, "0", 5, -5, 10**12, date(2026, 3, 1))]
    assert [each.kind.partition(" ")[0] for each in kinds if each is not None] == [
        "", "", "seconds", "seconds", "milliseconds", "dates"
    ]  # fmt: skip


@given(
    st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2200, 1, 1)),
    st.integers(-14 * 4, 14 * 4),
)
def test_all_forms_of_a_time_are_one_instant(time: datetime, quarters: int) -> None:
    zoned = time.replace(tzinfo=timezone(timedelta(minutes=15 * quarters)))
    to_the_second = zoned.replace(microsecond=0)
    since = (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    for value in (zoned, zoned.isoformat(), zoned.isoformat(" ")):
        instant = instant_of(value)
        assert instant is not None
        assert instant.nanoseconds == 1_000 * since
    mail = instant_of(format_datetime(to_the_second))
    assert mail == instant_of(to_the_second)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("10", 10.0), ("9.5", 9.5), ("-1e3", -1000.0), (" 7 ", 7.0), ("1e400", math.inf),
        (True, 1.0), (3, 3.0), (10**400, math.inf), (-(10**400), -math.inf), ("nan", None),
        ("inf", None), ("1_000", None), ("x", None), ("", None), (None, None), (math.nan, None),
        ("1,5", None), ("0x10", None),
    ],
)  # fmt: skip
def test_numbers_and_texts_of_digits(value: Any, number: float | None) -> None:
    assert number_of(value) == number
