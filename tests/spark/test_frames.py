"""Pairs and groups on Spark are those of one process, for the same documents."""

import json
import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import esdedup
from benchmarks.lib.planted import planted
from esdedup import Limits, Scheme, UsageError
from esdedup.compare.file_pairs import FileSets, pairs_in_files
from esdedup.compare.plan import Plan
from esdedup.compare.source import FileSource
from esdedup.groups.groups import Grouping, Method
from esdedup.records.files import chunks_of_file
from esdedup.results import Groups, Pair, SimilarPairs
from esdedup.runs.run import Run
from esdedup.spark import SparkResult, dedup, groups, pairs, write_groups
from esdedup.spark.documents import numbered as numbered_documents
from esdedup.spark.group_jobs import members_of
from esdedup.spark.pair_jobs import plan_of
from esdedup.spark.tables import JobTables
from tests.helpers.commands import read_lines
from tests.helpers.indices import open_index
from tests.helpers.vectors import clustered
from tests.spark.sizes import pairing_sizes

# One process starts Spark.
pytestmark = pytest.mark.xdist_group("spark")

ARTICLES = Path(__file__).parents[2] / "examples" / "articles.jsonl"
Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    return read_lines(path)


def frame(spark: SparkSession, rows: Sequence[Row], parts: int = 2) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist([*rows])).repartition(parts)


def numbered(texts: Iterable[str]) -> list[Row]:
    return [{"id": str(number), "text": text} for number, text in enumerate(texts)]


def pairs_of_files(path: Path, rows: Sequence[Row], limits: Limits) -> SimilarPairs:
    """The pairs that `esdedup pairs FILE` finds."""
    file = path / "documents.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    plan = Plan.of_texts(Scheme().for_texts(limits), limits)

    def refuse(bad: object) -> None:
        raise AssertionError(bad)

    with Run.temporary() as folder:
        source = FileSource(plan, chunks_of_file(str(file)), refuse)
        return pairs_in_files(folder, FileSets(source))[0]


def columns_of(pair: Pair) -> dict[str, Any]:
    """Return a pair as a row of Spark's table has it."""
    return {
        "left": pair.left,
        "right": pair.right,
        "similarity": pair.similarity,
        "equal": pair.equal,
    }


def rounded(pairs: Iterable[Any]) -> set[tuple[str, str, float, bool]]:
    rows = [(pair["left"], pair["right"], pair["similarity"], pair["equal"]) for pair in pairs]
    assert len(rows) == len(set(rows))
    return set(rows)


def marks(found: Groups) -> dict[str, tuple[Any, ...]]:
    """The digest, group, original and similarity of each document."""
    made = {}
    alone = np.bincount(found.representative, minlength=len(found.ids)) < 2
    for row, id in enumerate(found.ids):
        head = int(found.representative[row])
        group = None if alone[head] else found.ids[head]
        of = (group, float(found.value[row])) if row != head else (None, None)
        made[id] = (found.digest(row), group, *of)
    return made


def marks_of(found: SparkResult) -> dict[str, tuple[Any, ...]]:
    rows = found.table.select("id", "digest", "group", "original", "similarity").collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: tuple(row)[1:] for row in rows}


@pytest.mark.parametrize(
    "options",
    [
        # The longest is kept of files too, and by passages.
        pytest.param({"method": "leader", "keep": "longest"}, marks=pytest.mark.nightly),
        {"method": "components", "keep": "newest:size", "threshold": 0.5},
        {"method": "leader", "keep": "oldest:at", "threshold": 0.6},
        # Equal texts are grouped below too, by the newest.
        pytest.param({"exact": True}, marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_groups_of_the_articles(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any]
) -> None:
    rng = random.Random(1)
    # Two hours of which a clock in Berlin shows the second one first.
    hours = [datetime(2024, 10, 27, 0, 30, tzinfo=UTC), datetime(2024, 10, 27, 1, 15, tzinfo=UTC)]
    rows = [
        {**row, "size": rng.choice([None, 1, 2.5, 7]), "at": rng.choice(hours)}
        for row in read(ARTICLES)
    ]
    again = [{"id": f"{row['id']} again", "text": row["text"].upper()} for row in rows[:5]]
    rows += [{**row, "at": hours[0], "size": None} for row in again]
    with open_index(
        tmp_path / "index.db", ({**row, "at": row.get("at", hours[0]).isoformat()} for row in rows)
    ) as index:
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        found = groups(frame(spark, rows), scheme=index.meta, **options)
        assert marks_of(found) == marks(index.groups(**options))


def test_executors_weigh_words_as_the_index_does(spark: SparkSession, tmp_path: Path) -> None:
    rows = read(ARTICLES)
    weights = esdedup.weights([row["text"] for row in rows], features=1)
    scheme = Scheme([esdedup.SimHash(feature_size=1, weights=weights)])
    options = {"sketch": "simhash", "distance": 7}
    with open_index(tmp_path / "index.db", rows, scheme=scheme) as index:
        local = index.groups(**options)  # type: ignore[arg-type]
    found = groups(frame(spark, rows), scheme=scheme, **options)  # type: ignore[arg-type]
    assert local.duplicates > 3
    rows_of_groups = found.table.select("id", "group", "original", "distance").collect()
    grouped = {row.id: tuple(row)[1:] for row in rows_of_groups}
    assert grouped == {id: mark[1:] for id, mark in marks(local).items()}


def test_a_stop_list_and_a_least_number_of_bands_hold(spark: SparkSession, tmp_path: Path) -> None:
    rows = numbered(f"{text[:150]} {BOILERPLATE}" for text in planted(300)[0])
    with open_index(tmp_path / "index.db", rows) as index:
        index.stop_list.replace(
            [bucket.token for bucket in index.hot_buckets(2, sketches=["minhash"]).buckets]
        )
        # At 0.95 three bands of twelve must be shared.
        options = {"threshold": 0.95, "max_per_bucket": 20}
        local = index.groups(**options)  # type: ignore[arg-type]
        with (
            pytest.warns(UserWarning, match="missing is unknown"),
            pytest.warns(UserWarning, match="hold more than 20 documents"),
        ):
            found = groups(frame(spark, rows), scheme=index.meta, **options)  # type: ignore[arg-type]
        assert marks_of(found) == marks(local)
        assert found.report.capped == local.capped


BOILERPLATE = (
    "This message is meant for its receiver only. If you are not the receiver, tell the sender and"
    " delete it. Opinions in it are those of the sender. No virus was found when it was sent."
)


def test_large_buckets_are_paired_in_slices(spark: SparkSession, tmp_path: Path) -> None:
    sizes = {"slice": 150, "small_bucket": 20, "broadcast": 0, "pairs": 2_000}
    sizes |= {"meetings": 1_000, "meetings_of_row": 0, "sample": 4}
    rng = random.Random(2)
    texts = ["We are out of office. Your mail is read on Monday."] * 1_000
    texts += [f"{BOILERPLATE} Case {rng.random()}, {rng.random()}" for _ in range(500)]
    texts += planted(300)[0]
    rng.shuffle(texts)
    rows, limits = numbered(texts), Limits(threshold=0.8, max_per_bucket=20)
    with (
        pairing_sizes(spark, **sizes),
        pytest.warns(UserWarning, match="missing is unknown"),
        pytest.warns(UserWarning, match=r"hold more than 20 documents, up to [1-9]\d\d"),
        pytest.warns(UserWarning, match="pairs are similar") as told,
    ):
        found = pairs(frame(spark, rows, 4), threshold=0.8, max_per_bucket=20)
    local = pairs_of_files(tmp_path, rows, limits)
    assert rounded(found.table.collect()) == rounded(map(columns_of, local))
    assert len(local) > 10_000
    (said,) = (str(each.message) for each in told if "pairs are similar" in str(each.message))
    estimate = int(said.split()[1].replace(",", ""))
    assert estimate == pytest.approx(len(local) - local.copies, rel=0.3)
    report = found.report
    assert (report.documents, report.capped) == (len(rows), local.capped)
    assert (report.basis, report.recall) == (local.basis, local.recall)


# Without --all, other tests limit buckets, and test_clean.py finds leaders in blocks.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:How many similar pairs are missing is unknown")
@pytest.mark.filterwarnings("ignore:[0-9]+ buckets hold more than 9 documents")
@pytest.mark.parametrize(("cap", "meetings"), [(1_000, 5_000), (9, 500)])
def test_leaders_are_found_in_blocks(spark: SparkSession, cap: int, meetings: int) -> None:
    rng = random.Random(cap)
    # Texts of which each resembles its neighbours, so that one leads or not by those before.
    words = [f"{rng.getrandbits(30):x}" for _ in range(300)]
    texts = [" ".join(words[at : at + 40]) for at in range(0, 260, rng.choice([2, 3]))]
    texts += [f"{BOILERPLATE} Case {rng.random()}, {rng.random()}" for _ in range(200)]
    texts += [*planted(200)[0], *texts[::9]]
    rng.shuffle(texts)
    plan = plan_of(None, Limits(threshold=0.7, max_per_bucket=cap))
    grouping = Grouping(limits=plan.limits)
    sizes = {"meetings": meetings, "meetings_of_row": 0, "growth": 4}
    with pairing_sizes(spark, **sizes), JobTables.of(spark, None, None) as tables:
        rows = frame(spark, numbered(texts), 3)
        documents = numbered_documents(rows, plan, tables, "id", ["text"])
        members, _ = members_of(documents, plan, grouping.by(plan), tables)
        followers = members.collect()
        ids = {row.number: row.id for row in documents.table.select("number", "id").collect()}
        blocks = [*Path(tables.place.removeprefix("file:"), "tables").glob("members-*")]
    assert len(blocks) > 3
    assert {ids[row.number]: (ids[row.head], row.similarity) for row in followers} == {
        id: mark[2:]
        for id, mark in marks(esdedup.group(texts, grouping=grouping)).items()
        if None not in mark
    }


def test_rows_that_are_left_out_are_told(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Row] = [
        {"id": 1, "text": ["The council met on Monday", "to discuss the budget."]},
        {"id": 2, "text": ["The council met on Monday\nto discuss the budget."]},
        {"id": 2, "text": ["The council met on Friday."]},
        {"id": 3, "text": None},
        {"id": None, "text": ["The council met on Monday."]},
        {"id": 4, "text": ["🎉"]},
        {"id": 5, "text": ["🎉"]},
        {"id": 6, "text": [""]},
    ]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = pairs(frame(spark, rows), work=str(tmp_path / "work"))
    said = [str(each.message) for each in told if each.category is UserWarning]
    assert [text.partition(":")[0] for text in said] == [
        "2 rows without an id or a text are left out",
        "1 rows have an id that another row has, which stays",
    ]
    rows_of_pairs = {(row.left, row.right, row.equal) for row in found.table.collect()}
    assert ("4", "5", True) in rows_of_pairs
    assert rows_of_pairs <= {("4", "5", True), ("1", "2", True)}
    report = found.report
    counts = report.documents, report.left_out, report.repeated, report.without_words
    assert counts == (5, 2, 1, 1)
    # Only the result is left in the folder.
    (folder,) = (tmp_path / "work").iterdir()
    assert [each.name for each in folder.iterdir()] == ["pairs"]
    assert found.folder == str(folder)
    found.close()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("newest:date", "2026-03-01"), ("oldest:date", "2026-01-01"), ("longest", "2026-02-01")],
)
def test_of_rows_with_one_id_the_preferred_one_stays(
    spark: SparkSession, keep: str, kept: str
) -> None:
    """Its text is compared, and its values decide which document stays."""
    versions = {
        "2026-01-01": "The council met on Monday to discuss the budget of the town.",
        "2026-02-01": "Ferries to the islands stop tonight because a storm comes from the west.",
        "2026-03-01": "The library opens again after the works on its roof.",
    }
    rows = [{"id": "a", "text": text, "date": date} for date, text in versions.items()]
    # Each text has one more row.
    rows += [{"id": date, "text": text, "date": "2026-02-15"} for date, text in versions.items()]
    with pytest.warns(UserWarning, match="2 rows have an id that another row has"):
        found = groups(frame(spark, rows), keep=keep, exact=True)
    with found:
        assert found.report.repeated == 2
        group_of = {row["id"]: row["group"] for row in found.table.collect()}
    assert [id for id in versions if group_of[id] == group_of["a"] is not None] == [kept]


def test_arguments_that_do_not_fit_are_named(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        pa.table({"id": ["a"], "text": ["b"], "size": [1.5], "date": [None]})
    )
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: pairs(df, "body"), "no column 'body'; there are: id, text"),
        (lambda: pairs(df, id="size"), "column 'size': use ids"),
        (lambda: dedup(df, id="number"), "no column 'number'; there are: id, text"),
        (lambda: pairs(df, "size"), "column 'size' is double: use strings"),
        (lambda: pairs(df, threshold=2.0), "threshold 2.0"),
        (lambda: groups(df, keep="newest:day"), "no column 'day'"),
        (lambda: groups(df, keep="newest:date"), "no document has a time"),
        (lambda: groups(df, method="chain"), "method 'chain'"),  # type: ignore[arg-type]
        (lambda: groups(df, scheme="v1"), "use a Scheme or an IndexMeta"),  # type: ignore[arg-type]
    ]
    for call, said in wrong:
        with pytest.raises(UsageError, match=said):
            call()


def test_frames_of_other_libraries_are_rejected(spark: SparkSession) -> None:
    frame = polars.DataFrame({"id": ["a"], "text": ["b"]})
    calls: list[Callable[[Any], Any]] = [pairs, groups, dedup]
    for call in calls:
        with pytest.raises(UsageError, match=r"df: use a .* of Spark, not polars\.DataFrame"):
            call(frame)
        with pytest.raises(UsageError, match=r"not pandas\.DataFrame"):
            call(frame.to_pandas())
    with pytest.raises(UsageError, match="use a DataFrame of Spark"):
        write_groups(frame, "", "news")  # type: ignore[arg-type]
    df = spark.createDataFrame(frame.to_arrow())
    for of_records in (esdedup.dedup, esdedup.pairs, esdedup.group):
        with pytest.raises(UsageError, match=r"records: .* `esdedup.spark` .* `\.toPandas\(\)`"):
            of_records(df)
    with pytest.raises(UsageError, match=r"against: .* `esdedup.spark`"):
        esdedup.dedup(["a text"], against=df)


def test_the_newest_row_stays_however_its_time_is_written(spark: SparkSession) -> None:
    times = ["2026-03-01T09:30:00+09:00", "Sun, 01 Mar 2026 02:00:00 GMT", "01.03.2026", None]
    rows = [{"id": str(n), "text": "one text of all", "at": at} for n, at in enumerate(times)]
    warning = "1 document has a value that is no time, and comes last, such as '01.03.2026' of"
    with pytest.warns(UserWarning, match=warning):
        found = groups(frame(spark, rows), keep="newest:at", exact=True)
    assert {row["group"] for row in found.table.collect()} == {"1"}
    assert found.report.unordered.examples == [("2", "01.03.2026")]
    with pytest.warns(UserWarning, match=warning):
        kept = dedup(frame(spark, rows), id="id", keep="newest:at", exact=True)
    with kept:
        assert [row["id"] for row in kept.table.collect()] == ["1"]
        assert kept.report.unordered.examples == [("2", "01.03.2026")]
    mixed = [{**rows[0]}, {**rows[1], "at": "1772323200000"}]
    with pytest.raises(UsageError, match="document '0' has dates and document '1' has millisec"):
        groups(frame(spark, mixed), keep="newest:at")


OF_PASSAGES: Any = {"scheme": Scheme([esdedup.Passages(3, 4)]), "cover": 0.4, "words": 9}


def texts_with_passages() -> list[str]:
    """Return texts that hold others, or the beginning of others, or no words."""
    texts = planted(120)[0]
    texts += [f"{one} {other}" for one, other in zip(texts[:40], texts[40:80], strict=True)]
    texts += [text.partition(". ")[0] for text in texts[::7]] + texts[:5] + ["a b", "a b", ""]
    return texts


def test_texts_are_compared_by_passages(spark: SparkSession) -> None:
    texts = texts_with_passages()
    local = esdedup.pairs(texts, **OF_PASSAGES)
    found = pairs(frame(spark, numbered(texts)), **OF_PASSAGES)
    assert rounded(found.table.collect()) == rounded(map(columns_of, local))
    assert len(local) > 100
    assert (found.report.recall, found.report.capped) == (1.0, local.capped)


# Components are found among the articles too.
@pytest.mark.parametrize(
    "method", ["leader", pytest.param("components", marks=pytest.mark.nightly)]
)
def test_texts_are_grouped_by_passages(spark: SparkSession, method: Method) -> None:
    texts = texts_with_passages()
    grouped = groups(frame(spark, numbered(texts)), method=method, **OF_PASSAGES)
    of_one = marks(esdedup.group(texts, method=method, **OF_PASSAGES))
    assert marks_of(grouped) == of_one
    # The longest text of a group represents it.
    assert of_one["0"][2] is not None


OF_VECTORS: Any = {"scheme": Scheme([esdedup.Vectors(16)]), "cosine": 0.95}


def rows_with_vectors() -> list[Row]:
    vectors = clustered(120, 16, seed=5)
    return [{"id": f"d{row:03}", "vector": vector.tolist()} for row, vector in enumerate(vectors)]


def test_vectors_are_compared_by_cosine(spark: SparkSession) -> None:
    rows = rows_with_vectors()
    of_spark = pairs(frame(spark, rows), "vector", **OF_VECTORS)
    of_one = esdedup.pairs(rows, "vector", id="id", **OF_VECTORS)
    values = {(row["left"], row["right"]): row["similarity"] for row in of_spark.table.collect()}
    assert len(values) > 50
    assert values == pytest.approx({(pair.left, pair.right): pair.similarity for pair in of_one})
    assert of_spark.report.recall == of_one.recall


# Groups are formed of any similar pairs, as of those of texts.
@pytest.mark.nightly
def test_vectors_are_grouped_by_cosine(spark: SparkSession) -> None:
    rows = rows_with_vectors()
    grouped = groups(frame(spark, rows), "vector", **OF_VECTORS)
    originals = {row["id"]: row["original"] for row in grouped.table.collect() if row["original"]}
    assert originals == {
        rows[duplicate.row]["id"]: rows[duplicate.original]["id"]
        for duplicate in esdedup.dedup(rows, "vector", **OF_VECTORS).duplicates
    }


def codes_near_others(size: int, distance: int) -> list[int]:
    """Return fingerprints, of which some are about this distance from earlier ones."""
    rng = np.random.default_rng(size)
    codes = [int.from_bytes(rng.bytes(size // 8)) for _ in range(60)]
    for code in codes[:12]:
        for far in rng.integers(0, distance + 3, 3).tolist():
            bits = rng.choice(size, far, replace=False).tolist()
            codes.append(code ^ sum(1 << bit for bit in bits))
    return codes


@pytest.mark.parametrize(
    ("size", "distance"), [(64, 8), pytest.param(256, 31, marks=pytest.mark.nightly)]
)
def test_fingerprints_are_compared_by_distance(
    spark: SparkSession, size: int, distance: int
) -> None:
    codes = codes_near_others(size, distance)
    encoding: Any = "int" if size == 64 else "hex"
    written = [code - 2**63 if size == 64 else f"{code:0{size // 4}x}" for code in codes]
    if size == 64:
        codes = [(code - 2**63) % 2**64 for code in codes]
    rows = [{"id": f"d{row:03}", "code": value} for row, value in enumerate(written)]
    scheme = Scheme([esdedup.Bits(size, distance, encoding)])
    found = pairs(frame(spark, rows), "code", scheme=scheme)
    assert found.report.recall == 1.0
    near = {
        (rows[a]["id"], rows[b]["id"]): (codes[a] ^ codes[b]).bit_count()
        for a in range(len(codes))
        for b in range(a + 1, len(codes))
    }
    first = {code: rows[codes.index(code)]["id"] for code in codes}
    wanted = {
        ids: apart
        for ids, apart in near.items()
        if apart <= distance
        and (apart == 0 or {*ids} <= {*first.values()})
        and (apart or ids[0] in first.values())
    }
    assert {(row["left"], row["right"]): row["distance"] for row in found.table.collect()} == wanted


# Groups of fingerprints of words have distances too.
@pytest.mark.nightly
def test_fingerprints_are_grouped_by_distance(spark: SparkSession) -> None:
    codes = codes_near_others(64, 8)
    rows = [{"id": f"d{row:03}", "code": f"{code:016x}"} for row, code in enumerate(codes)]
    options: Any = {"scheme": Scheme([esdedup.Bits(64, 8, "hex")])}
    grouped = groups(frame(spark, rows), "code", **options)
    done = esdedup.dedup(rows, "code", **options)
    spark_groups = {row["id"]: (row["original"], row["distance"]) for row in grouped.table.collect()
                    if row["original"]}  # fmt: skip
    assert spark_groups == {
        rows[each.row]["id"]: (rows[each.original]["id"], each.distance) for each in done.duplicates
    }


def test_rows_that_stay_keep_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    texts = [*planted(200)[0], "", "", "🎉", "🎉"]
    rows = [
        {"Doc": {"Body": text or None, "n": n}, "size": n * 37 % 211, "bits": "x", "a.b": n}
        for n, text in enumerate(texts)
    ]
    df = frame(spark, rows, 1)
    with dedup(df, "doc.body", keep="highest:SIZE", work=str(tmp_path / "work")) as found:
        assert (found.table.schema, found.report.left_out) == (df.schema, 2)
        kept = [row.asDict(recursive=True) for row in found.table.collect()]
    local = esdedup.dedup([{**row["Doc"], **row} for row in rows], "Body", keep="highest:size")  # type: ignore[dict-item]
    of_local = {row["n"] for row in local.kept}
    assert {row["a.b"] for row in kept} == of_local
    assert len(kept) == len(of_local) < len(rows)
    assert all(row == rows[row["a.b"]] for row in kept)
    assert [*(tmp_path / "work").iterdir()] == []
    usable = df.where("doc.body is not null")
    with groups(usable, "DOC.body", id="a.b", exact=True) as grouped:
        equal = grouped.table.where("original is not null").select("id").collect()
    of_one = esdedup.dedup([text for text in texts if text], exact=True)
    assert len(equal) == len(of_one.duplicates) > 1
