"""The newest copy stays, however the times are written."""

import random
import re
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import esdedup
from tests.helpers.commands import call, fill, read_lines, run_command, write_lines
from tests.helpers.indices import attach_index, open_index
from tests.helpers.places import Place, clusters

TEXT = "the council of the town agreed that the old bridge will be repaired before the winter"


@pytest.mark.filterwarnings("ignore:keep ")
@pytest.mark.parametrize(
    ("rule", "values", "stays"),
    [
        ("newest", ["2026-03-01T09:30:00+09:00", "2026-03-01T02:00:00Z"], 1),
        ("newest", ["2026-03-01T02:00:00Z", "2026-03-01T02:00:00.100Z"], 1),
        ("newest", ["Wed, 04 Feb 2026 08:00:00 GMT", "Mon, 02 Mar 2026 08:00:00 GMT"], 1),
        ("newest", ["Mon, 02 Mar 2026", "2026-03-03"], 1),
        ("newest", ["9", "10"], 1),
        ("oldest", ["9", "10"], 0),
        ("newest", [1772323200000, "1804000000000"], 1),
        ("newest", ["28.02.2026", "2020-01-01", "01.03.2026"], 1),
        ("newest", [None, "", "2020-01-01"], 2),
        ("oldest", [[1, 2], "2020-01-01"], 1),
        ("highest", ["9", "10"], 1),
        ("highest", ["n/a", 9, "10.5", 10], 2),
        ("lowest", ["10", 9, None], 1),
        # As they are: numbers before texts, and texts by their characters.
        ("last", ["9", "10"], 0),
        ("last", ["2026", 5], 1),
    ],
)
def test_values_are_compared_by_what_they_mean(rule: str, values: list[Any], stays: int) -> None:
    records = [{"id": str(number), "text": TEXT, "d": value} for number, value in enumerate(values)]
    result = esdedup.dedup(records, keep=f"{rule}:d")
    assert result.kept == [records[stays]]
    assert result.groups.grouping.to_json()["keep"] == f"{rule}:d"
    with open_index(":memory:", records) as index:
        (group,) = index.groups(keep=f"{rule}:d")
        assert group.representative == str(stays)


TIMES = st.datetimes(min_value=datetime(1980, 1, 1), max_value=datetime(2100, 1, 1))


@given(st.lists(TIMES, min_size=1, max_size=9), st.randoms(), st.booleans())
def test_the_order_is_that_of_the_instants(
    times: list[datetime], draw: random.Random, newest: bool
) -> None:
    records, instants = [], []
    for time in times:
        zoned = time.replace(tzinfo=timezone(timedelta(hours=draw.randrange(-11, 12))))
        form = draw.randrange(4)
        if form == 0:
            zoned = zoned.replace(microsecond=0)
        instants.append(zoned.astimezone(UTC))
        value = [format_datetime(zoned), zoned.isoformat(), zoned.isoformat(" "), zoned][form]
        records.append({"text": TEXT, "at": value})
    (newer,) = esdedup.dedup(records, keep="newest:at" if newest else "oldest:at").kept
    chosen = instants[records.index(newer)]
    assert chosen == (max(instants) if newest else min(instants))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["2026-03-01", 1772323200000], "'0' has dates and document '1' has milliseconds since"),
        ([1772323200, 1772323200000], "'1' has milliseconds since 1970 in that field"),
        (["01.03.2026", "soon"], "keep newest:d: no document has a time in that field"),
        ([None], "keep newest:d: no document has a time in that field"),
    ],
)
def test_times_of_two_kinds_are_refused(values: list[Any], message: str) -> None:
    records = [{"id": str(number), "text": TEXT, "d": value} for number, value in enumerate(values)]
    with pytest.raises(esdedup.UsageError, match=re.escape(message)):
        esdedup.dedup(records, keep="newest:d")
    with (
        open_index("x.db", records) as index,
        pytest.raises(esdedup.UsageError, match=re.escape(message)),
    ):
        index.groups(keep="newest:d")


def test_zero_is_of_every_unit() -> None:
    records = [{"text": TEXT, "d": value} for value in (0, 1772323200000)]
    assert esdedup.dedup(records, keep="newest:d").kept == records[1:]


def test_values_that_are_no_time_are_named_before_anything_is_removed(folder: Path) -> None:
    values = ["2020-01-01", "01.03.2026", "02.03.2026", None]
    records = [{"id": f"r{n}", "text": TEXT, "d": value} for n, value in enumerate(values)]
    write_lines(folder / "r.jsonl", records)
    warning = (
        "keep newest:d: 2 documents have a value that is no time, and comes last, such as"
        " '01.03.2026' of document 'r1', '02.03.2026' of document 'r2'"
    )
    unordered = {"count": 2, "examples": [["r1", "01.03.2026"], ["r2", "02.03.2026"]]}
    run = run_command("clean", "r.jsonl", "-o", "out", "--keep", "newest:d", status=0)
    assert warning in run.err
    assert run.json[0]["unordered"] == unordered
    lines = read_lines(folder / "out/r.jsonl")
    assert lines == records[:1]
    run_command("index", "r.jsonl", status=0)
    for command in ("group", "report", "dedup"):
        ran = run_command(command, "--keep", "newest:d", "--json", status=0)
        assert warning in ran.err
    with esdedup.open() as index, pytest.warns(UserWarning, match="2 documents have a value"):
        plan = index.dedup("delete", keep="newest:d", apply=True, log="log.jsonl")
    assert plan.report is not None
    assert plan.report.done == 3
    tables = run_command("clean", "r.jsonl", "-o", "again", "--keep", "highest:d", status=2)
    assert "keep highest:d: no document has a number" in tables.err


@pytest.mark.on_every_server
@clusters
def test_a_date_is_compared_as_the_server_sees_it(place: Place) -> None:
    url, name = str(place.target), place.index
    fields = {
        "text": {"type": "text"},
        "d": {"type": "date"},
        "own": {"type": "date", "format": "dd.MM.yyyy||epoch_second"},
        "fine": {"type": "date_nanos"},
        "word": {"type": "keyword"},
    }
    call(url, "PUT", f"/{name}", {"mappings": {"properties": fields}})
    times = {
        "tokyo": ("2026-03-01T09:30:00+09:00", "01.03.2026", "2026-03-01T00:00:00.000000002Z"),
        "utc": ("2026-03-01T02:00:00Z", "28.02.2026", "2026-03-01T00:00:00.000000001Z"),
        "epoch": (1772323200000, 1772323200 + 86_400, 1772323200000),
    }
    documents = {
        id: {"text": TEXT, "d": d, "own": custom, "fine": fine, "word": "01.03.2026"}
        for id, (d, custom, fine) in times.items()
    }
    fill(url, name, {**documents, "none": {"text": TEXT}})
    attach_index(url, name, "--text-field", "text")
    with esdedup.open(place.target, name) as index:
        for rule, stays in (
            ("newest:d", "utc"), ("oldest:d", "epoch"), ("newest:own", "epoch"),
            ("oldest:own", "utc"), ("newest:fine", "tokyo"), ("oldest:fine", "epoch"),
        ):  # fmt: skip
            groups = index.groups(keep=rule)
            (group,) = groups
            assert (rule, group.representative) == (rule, stays)
            assert groups.unordered.count == 0
        with pytest.raises(esdedup.UsageError, match="no document has a time in that field"):
            index.groups(keep="newest:word")
        documents_held = index.store.hold([*times], [esdedup.models.TimeField("d")])
        assert [document.id for document in documents_held] == [*times]
        assert {held.document.source["d"][:10] for held in documents_held} == {"2026-03-01"}
