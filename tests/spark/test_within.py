"""In a scope, pairs and groups on Spark are those of one process."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import esdedup
from esdedup import UsageError
from esdedup.results import Groups
from esdedup.spark import SparkResult, clean, dedup, groups, pairs
from tests.helpers.commands import write_lines
from tests.helpers.scoped_documents import THRESHOLD, corpus, in_scope, one_type_a_field

# One process starts Spark.
pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:.* documents lack a"),
]
DOCUMENTS = one_type_a_field(corpus(200))
FIELD, WINDOW = ("source",), ("source", "date:3d")


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    """The documents, whose ids are in the order of their rows."""
    rows = [{**document, "id": f"{row:04}"} for row, document in enumerate(DOCUMENTS)]
    return spark.createDataFrame(pa.Table.from_pylist(rows)).repartition(2)


def originals_of(groups: Groups) -> dict[int, int]:
    return {
        int(member.id): int(group.representative) for group in groups for member in group.members
    }


def originals(result: SparkResult) -> dict[int, int]:
    rows = result.table.where("original is not null").select("id", "original").collect()
    return {int(row.id): int(row.original) for row in rows}


@pytest.mark.parametrize(
    ("within", "method"),
    [
        # Files are cleaned below by the same leaders, and scopes of frames are those of pairs.
        pytest.param(WINDOW, "leader", marks=pytest.mark.nightly),
        pytest.param(FIELD, "leader", marks=pytest.mark.nightly),
        pytest.param(WINDOW, "components", marks=pytest.mark.nightly),
    ],
)
def test_groups_are_those_of_one_process(
    frame: DataFrame, within: tuple[str, ...], method: Any
) -> None:
    settings: dict[str, Any] = {"threshold": THRESHOLD, "within": within, "method": method}
    expected = esdedup.group(DOCUMENTS, id="id", **settings)
    with groups(frame, **settings) as result:
        assert originals(result) == originals_of(expected)
        assert result.report.unscoped == expected.unscoped > 0


def test_pairs_are_those_of_one_process(frame: DataFrame) -> None:
    settings: Any = {"threshold": THRESHOLD, "within": WINDOW}
    expected = esdedup.pairs(DOCUMENTS, id="id", **settings)
    with pairs(frame, **settings) as result:
        rows = result.table.collect()
    listed = {(int(row.left), int(row.right), row.equal) for row in rows}
    assert len(listed) == len(rows)
    ids = {(int(pair.left), int(pair.right), pair.equal) for pair in expected}
    assert listed == {(min(left, right), max(left, right), equal) for left, right, equal in ids}


def test_dedup_keeps_copies_of_other_scopes(frame: DataFrame) -> None:
    with dedup(frame, threshold=THRESHOLD, within=FIELD, exact=True) as result:
        kept = result.table.select("text", "source").collect()
    scoped = [row for row in kept if row.source is not None]
    assert len(scoped) == len({tuple(row) for row in scoped})
    values = {(document["text"], document["source"]) for document in DOCUMENTS}
    assert {tuple(row) for row in kept} == values
    lacking = sum(not in_scope(document, document, FIELD) for document in DOCUMENTS)
    assert len(kept) - len(scoped) == lacking


def test_clean_removes_what_one_process_removes(spark: SparkSession, folder: Path) -> None:
    write_lines(folder / "feed.jsonl", DOCUMENTS)
    settings: Any = {"threshold": THRESHOLD, "within": WINDOW}
    expected = esdedup.clean("feed.jsonl", "expected", **settings)
    report = clean(spark, ["feed.jsonl"], "out", **settings)
    assert (report.removed, report.unscoped) == (expected.removed, expected.unscoped)
    out, of_one_process = (folder / name / "feed.jsonl" for name in ("out", "expected"))
    assert out.read_bytes() == of_one_process.read_bytes()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"within": "date:3d", "exact": True}, "`exact` with a window of time"),
        ({"within": "publisher"}, "there is no column 'publisher'"),
    ],
)
def test_what_has_no_meaning_is_refused(
    frame: DataFrame, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        groups(frame, **settings)
