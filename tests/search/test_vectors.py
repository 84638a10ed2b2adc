"""Vectors in a field of documents, alone and beside texts, in all stores and commands."""

import base64
import csv
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow.parquet
import pytest

import esdedup
from esdedup import MinHash, Scheme, Vectors
from esdedup.exceptions import RecordError
from esdedup.proxy.splice import SentSource, Splicer
from esdedup.sketch.vectors import F32, written_vector
from esdedup.stores.mapping import IndexMeta
from tests.helpers.commands import call, esdedup_command, fill, run_command, words, write_lines
from tests.helpers.packages import imported
from tests.helpers.places import Place, clusters
from tests.helpers.vectors import clustered, directions

SIZE = 160
"""Of as many dimensions, servers make a field of vectors of an unmapped one."""
BESIDE = Scheme([MinHash(), Vectors(SIZE, name="embedding", fields=["embedding"])])
COSINES = {"near00": 0.999, "near01": 0.98, "near02": 0.96, "near03": 0.93, "near04": 0.85}


def vectors() -> dict[str, F32]:
    """Return 30 random directions, and some at each of `COSINES` of one of them."""
    axes = directions(30, SIZE, seed=7).astype(np.float64)
    vector_of = {f"r{row:02}": axis for row, axis in enumerate(axes)}
    original = vector_of["r07"]
    for row, (id, cosine) in enumerate(COSINES.items()):
        across = axes[20 + row] - (axes[20 + row] @ original) * original
        across /= np.linalg.norm(across)
        vector_of[id] = cosine * original + math.sqrt(1 - cosine * cosine) * across
    # As long as it may be: lengths do not count.
    vector_of["near01"] = vector_of["near01"] * 40
    return {id: vector.astype(np.float32) for id, vector in vector_of.items()}


VECTORS = vectors()


def numbers(id: str) -> list[float]:
    return [float(number) for number in VECTORS[id]]


def records(field: str = "embedding") -> list[dict[str, Any]]:
    return [{"id": id, field: numbers(id)} for id in VECTORS]


def cosine(left: str, right: str) -> float:
    wide_left, wide_right = (VECTORS[id].astype(np.float64) for id in (left, right))
    lengths = np.linalg.norm(wide_left) * np.linalg.norm(wide_right)
    return float(wide_left @ wide_right / lengths)


def similar_to(id: str, least: float) -> dict[str, float]:
    cosines = {other: cosine(id, other) for other in VECTORS if other != id}
    return {other: value for other, value in cosines.items() if value >= least}


def pairs_within(least: float) -> dict[tuple[str, str], float]:
    return {
        (min(left, right), max(left, right)): value
        for left in VECTORS
        for right, value in similar_to(left, least).items()
    }


def near(result: esdedup.results.Result) -> dict[str, float | None]:
    return {match.id: match.similarity for match in result}


def values_of(pairs: esdedup.results.SimilarPairs) -> dict[tuple[str, str], float | None]:
    return {(min(pair.left, pair.right), max(pair.left, pair.right)): pair.similarity
            for pair in pairs}  # fmt: skip


@pytest.mark.on_every_server
def test_all_within_the_cosine_are_found(place: Place, folder: Path) -> None:
    scheme = Scheme([Vectors(SIZE, 0.9)])
    with esdedup.open(place.target, place.index, scheme=scheme, text_field="embedding") as index:
        index.add(records())
        for least in (0.8, 0.9, 0.95, 0.97):
            expected = similar_to("r07", least)
            for query in (json.dumps(numbers("r07")), str(numbers("r07"))):
                result = index.similar(query, cosine=least, k=100)
                assert near(result) == pytest.approx({"r07": 1.0, **expected})
            assert near(index.similar(id="r07", cosine=least)) == pytest.approx(expected)
            pairs = index.pairs(cosine=least)
            assert values_of(pairs) == pytest.approx(pairs_within(least))
            assert pairs.recall is not None
            assert pairs.recall >= 0.999
        assert near(index.similar(id="r07")) == pytest.approx(similar_to("r07", 0.9))
        with pytest.raises(esdedup.UsageError, match="a vector of 2 numbers, where the sketch"):
            index.similar("[1, 2]")
        with pytest.raises(esdedup.UsageError, match="compares by cosine, so use a cosine"):
            index.similar(id="r07", threshold=0.9)
        with pytest.raises(RecordError, match="the field 'embedding': a vector of zeros"):
            index.add([{"id": "zero", "embedding": [0.0] * SIZE}])
        log = folder / "log.jsonl.zst"
        removed = index.dedup("delete", cosine=0.97, apply=True, log=log)
        assert removed.report is not None
        assert removed.report.done == 2
        query = str(numbers("r07"))
        assert near(index.similar(query, cosine=0.95)).keys() == {"near00", "near02"}
        index.undo(log)
        assert near(index.similar(id="r07", cosine=0.95)) == pytest.approx(similar_to("r07", 0.95))


@pytest.fixture
def beside(place: Place) -> Iterator[esdedup.Index]:
    with esdedup.open(place.target, place.index, scheme=BESIDE, text_field="body") as opened:
        yield opened


def whole(index: esdedup.Index) -> dict[str, dict[str, Any]]:
    """Return the stored documents without our fields, with their vectors as float32."""
    documents = index.store.get([*VECTORS, "bare"])
    sources = {document.id: dict(document.source) for document in documents}
    for source in sources.values():
        for name in [name for name in source if name.startswith("esdedup")]:
            del source[name]
        vector = source.get("embedding")
        if vector is not None:
            # Elasticsearch keeps a vector scaled to length 1, and its length.
            rounded = np.round(np.array(vector, np.float64) / np.linalg.norm(vector), 6)
            source["embedding"] = rounded.tolist()
    return sources


@pytest.mark.on_every_server
def test_no_change_of_a_document_loses_its_vector(
    place: Place, beside: esdedup.Index, folder: Path
) -> None:
    documents = [
        {"id": id, "body": words(row // 2, 30), "embedding": numbers(id)}
        for row, id in enumerate(VECTORS)
    ]
    beside.add([*documents, {"id": "bare", "body": words(1_000)}])
    before = whole(beside)
    assert all("embedding" in source for id, source in before.items() if id != "bare")
    # Words and vectors of one document are compared apart.
    assert len(beside.pairs()) == 17
    expected = similar_to("r07", 0.95)
    assert near(beside.similar(id="r07", sketch="embedding")) == pytest.approx(expected)
    groups = beside.group(sketch="embedding", cosine=0.95).groups
    (group,) = groups
    assert {member.id for member in group.members} | {group.representative} == {"r07", *expected}
    assert whole(beside) == before
    to_place = {"delete": None, "move": f"{place.index}-moved"}
    for action, to in to_place.items():
        log = folder / f"{action}.jsonl.zst"
        done = beside.dedup(action, to=to, sketch="embedding", cosine=0.95, apply=True, log=log)  # type: ignore[arg-type]
        assert done.report is not None
        assert done.report.done == 3
        assert whole(beside).keys() == before.keys() - {"near01", "near02", "r07"}
        beside.undo(log)
        assert whole(beside) == before
    assert near(beside.similar(id="r07", sketch="embedding")) == pytest.approx(expected)
    beside.update([{"id": "bare", "embedding": numbers("r07")}])
    (match,) = beside.similar(id="bare", sketch="embedding", cosine=1.0)
    assert (match.id, match.similarity) == ("r07", 1.0)


@pytest.mark.on_every_server
@pytest.mark.parametrize("batches", [1, 2], ids=["in one batch", "after another"])
def test_documents_that_arrive_are_marked(place: Place, batches: int) -> None:
    documents = [{"id": id, "embedding": numbers(id)} for id in ("r07", "near00", "near04", "r08")]
    scheme = Scheme([Vectors(SIZE)])
    with esdedup.open(place.target, place.index, scheme=scheme, text_field="embedding") as index:
        for start in range(0, 4, 4 // batches):
            arriving = documents[start : start + 4 // batches]
            index.add(arriving if batches == 1 else arriving[:1], on_duplicate="mark")
            if batches == 2:
                index.add(arriving[1:], on_duplicate="mark")
        marks = {
            id: document.source["esdedup"].get("original")
            for id in ("r07", "near00", "near04", "r08")
            if (document := index.get(id)) is not None
        }
        assert marks == {"r07": None, "near00": "r07", "near04": None, "r08": None}


def test_documents_that_arrive_are_refused_with_their_cosine(folder: Path) -> None:
    write_lines(
        folder / "d.jsonl", [{"id": id, "embedding": numbers(id)} for id in ("r07", "near01")]
    )
    options = ["--vectors", f"embedding:{SIZE}", "--on-duplicate", "fail"]
    ran = run_command("index", "d.jsonl", *options, "--db", "x.db", "-i", "d")
    assert (ran.status, ran.json[0]["created"], ran.json[0]["failed"]) == (1, 1, 1)
    assert "d.jsonl:2: it is a near-duplicate of 'r07' (cosine 0.980)" in ran.err


def test_wrong_vectors_go_to_the_dead_letter(folder: Path) -> None:
    lines: list[Any] = records()
    lines[3]["embedding"] = lines[3]["embedding"][:-1]
    lines[4]["embedding"] = None
    lines[5]["embedding"] = [0] * SIZE
    lines[6]["embedding"] = "text"
    lines[8]["embedding"][0] = 1e300
    del lines[9]["embedding"]
    write_lines(folder / "d.jsonl", lines)
    options = ["d.jsonl", "--vectors", f"embedding:{SIZE}", "--cosine", "0.9"]
    indexed = run_command("index", *options, "--db", "x.db", "-i", "d")
    assert (indexed.status, indexed.json[0]["created"], indexed.json[0]["failed"]) == (1, 29, 6)
    assert f"d.jsonl:4: the field 'embedding': a vector of {SIZE - 1} numbers" in indexed.err
    letters = (folder / "d.dead-letter.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(letter)["line"] for letter in letters] == [4, 5, 6, 7, 9, 10]
    at = ["--db", "x.db", "-i", "d"]
    query = json.dumps(numbers("r07"))
    result = run_command("similar", *at, "--vector", query, "-k", "100").json[0]
    assert {match["id"]: match["similarity"] for match in result["matches"]} == pytest.approx(
        {"r07": 1.0, **similar_to("r07", 0.9)}
    )
    of_index, of_files = run_command("pairs", *at), run_command("pairs", *options)
    assert of_files.status == 1
    for ran in (of_index, of_files):
        values = {(pair["left"], pair["right"]): pair["similarity"] for pair in ran.json}
        assert {(min(ids), max(ids)): value for ids, value in values.items()} == pytest.approx(
            pairs_within(0.9)
        )
    cleaned = run_command("clean", *options, "--output", "out")
    assert cleaned.status == 1
    kept = {json.loads(line)["id"] for line in (folder / "out/d.jsonl").read_text().splitlines()}
    assert kept & {"near00", "near01", "near02", "near03"} == set()
    assert {"r07", "r29", "near04"} <= kept
    for wrong, message in (
        (["similar", *at, "--vector", "[1]"], "a vector of 1 numbers"),
        (["similar", *at, "--vector", query, "-t", "0.8"], "compares by cosine: use --cosine"),
        (["similar", *at, "--bits", "ff"], "the index has 0 fields of fingerprints"),
        (["index", "d.jsonl", "--vectors", "embedding"], "and the number of dimensions"),
        (["index", "d.jsonl", "--vectors", "embedding:1"], "dimensions 1: use 2 to 4,096"),
        (["index", "d.jsonl", "--vectors", "embedding:9", "--cosine", "2"], "cosine 2.0"),
        (["decontaminate", "d.jsonl", "--vectors", "embedding:9"], "can't be combined with"),
    ):
        ran = run_command(*wrong)
        assert ran.status == 2
        assert message in ran.err


@clusters
def test_vectors_are_added_to_an_index_in_use(place: Place, folder: Path) -> None:
    url, name = str(place.target), place.index
    is_opensearch = "lucene" not in url and "opensearch" in str(place.index)
    field = {} if is_opensearch else {"embedding": {"type": "dense_vector", "dims": SIZE}}
    body: dict[str, Any] = {"settings": {"number_of_replicas": 0}}
    try:
        call(url, "PUT", f"/{name}", {**body, "mappings": {"properties": field}})
    except AssertionError:
        # Its vectors are of a plugin that the server lacks: a list of numbers.
        call(url, "PUT", f"/{name}", body)
    fill(url, name, {id: {"title": id, "embedding": numbers(id)} for id in VECTORS})
    at = ("--index", name)
    attached = esdedup_command(url, "attach", *at, "--vectors", f"embedding:{SIZE}")
    assert attached.status == 0, attached.err
    filled = esdedup_command(url, "backfill", *at)
    assert (filled.status, filled.json[0]["written"], filled.json[0]["failed"]) == (0, 35, 0)
    assert esdedup_command(url, "check", *at).status == 0
    query = json.dumps(numbers("r07"))
    result = esdedup_command(url, "similar", *at, "--vector", query).json[0]
    assert {match["id"]: match["similarity"] for match in result["matches"]} == pytest.approx(
        {"r07": 1.0, **similar_to("r07", 0.95)}
    )
    # Another client changes a document.
    changed = {"doc": {"embedding": numbers("r08")}}
    call(url, "POST", f"/{name}/_update/near01?refresh=true", changed)
    assert esdedup_command(url, "check", *at).json[0]["stale"]["count"] == 1
    assert esdedup_command(url, "backfill", *at, "--stale").json[0]["written"] == 1
    with esdedup.open(url, name) as index:
        assert near(index.similar(id="near01")) == {"r08": 1.0}
        for left, right in (("r07", "near02"), ("r07", "r08")):
            explained = index.explain(left, right)
            facts = {fact: value for fact, value, _ in explained.facts()}
            assert facts["embedding: cosine"] == f"{cosine(left, right):.3f}"


def test_vectors_in_base64() -> None:
    forms = {"base64": ">f4", "base64-little": "<f4"}
    for encoding, form in forms.items():
        scheme = Scheme([Vectors(SIZE, encoding=encoding)])  # type: ignore[arg-type]
        with esdedup.open(":memory:", "d", scheme=scheme, text_field="embedding") as index:
            index.add(
                {"id": id, "embedding": base64.b64encode(vector.astype(form).tobytes()).decode()}
                for id, vector in VECTORS.items()
            )
            assert near(index.similar(id="r07")) == pytest.approx(similar_to("r07", 0.95))


def test_vectors_in_columns_of_tables(folder: Path) -> None:
    fields = {id: json.dumps(numbers(id)) for id in VECTORS}
    with (folder / "d.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "embedding"), *fields.items()])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records()), folder / "d.parquet")
    for name in ("d.csv", "d.parquet"):
        options = [name, "--vectors", f"embedding:{SIZE}", "--cosine", "0.9"]
        pairs = run_command("pairs", *options, status=0)
        values = {(pair["left"], pair["right"]): pair["similarity"] for pair in pairs.json}
        assert {(min(ids), max(ids)): value for ids, value in values.items()} == pytest.approx(
            pairs_within(0.9)
        )
        at = ["--db", "x.db", "-i", name.replace(".", "-")]
        run_command("index", *options, *at, status=0)
        result = run_command("similar", *at, "--id", "r07", "-k", "100", status=0).json[0]
        assert {match["id"]: match["similarity"] for match in result["matches"]} == pytest.approx(
            similar_to("r07", 0.9)
        )
    for name, wrong in (("wrong.csv", '"[1, null]"'), ("short.csv", '"[1, 2]"'), ("no.csv", "x")):
        (folder / name).write_text(f"id,embedding\na,{wrong}\n", "utf-8")
    refused = run_command("index", "wrong.csv", "short.csv", "no.csv", *options[1:], *at)
    assert refused.status == 1
    form = f"a vector of {SIZE} numbers: a list of numbers"
    for place_of_record, reason in (
        ("wrong.csv:2", "number 2 of the vector is None"),
        ("short.csv:2", "a vector of 2 numbers, where the sketch 'embedding' has"),
        ("no.csv:2", f"'x' is not {form}"),
    ):
        assert f"{place_of_record}: the field 'embedding': {reason}" in refused.err
    missing = run_command("clean", "d.csv", "--vectors", "vector:9", "-o", "out.csv", status=2)
    assert "or of vectors (--vectors)" in missing.err


def test_the_proxy_adds_tokens_of_vectors() -> None:
    meta = IndexMeta(BESIDE, ("body",))
    bodies = [
        {"body": words(1, 30), "embedding": numbers("r07")},
        {"body": words(1, 30), "embedding": [1, 2]},
        {"embedding": numbers("r08")},
    ]
    sources = [SentSource(json.dumps(body).encode()) for body in bodies]
    spliced, outcomes = Splicer(1 << 20).with_tokens(sources, {None: meta})
    both, of_text, of_vector = map(json.loads, spliced)
    stored = BESIDE.sketch("embedding").tokens
    for document in (both, of_vector):
        assert len(document["esdedup_embedding"]["vectors_embedding"]) == stored
    assert "esdedup_embedding" not in of_text
    assert outcomes == ["added"] * 3


def test_records_in_memory() -> None:
    scheme = Scheme([Vectors(SIZE)])
    pairs = esdedup.pairs(records(), text="embedding", id="id", scheme=scheme, cosine=0.9)
    assert values_of(pairs) == pytest.approx(pairs_within(0.9))
    kept = esdedup.dedup(records(), text="embedding", scheme=scheme, cosine=0.95).kept
    assert {record["id"] for record in kept} == VECTORS.keys() - {"near00", "near01", "near02"}


@pytest.mark.parametrize("form", ["list", "iterator", "pandas", "polars", "arrow"])
def test_records_and_frames_by_their_vectors(form: str) -> None:
    forms: dict[str, Callable[[], Any]] = {
        "list": records,
        "iterator": lambda: iter(records()),
        "pandas": lambda: pandas.DataFrame(records()),
        "polars": lambda: imported("polars").DataFrame(records()),
        "arrow": lambda: pyarrow.Table.from_pylist(records()),
    }
    make = forms[form]
    pairs = esdedup.pairs(make(), vector="embedding", id="id", cosine=0.9)
    assert values_of(pairs) == pytest.approx(pairs_within(0.9))
    assert {pair.left for pair in esdedup.pairs(make(), vector="embedding", id="id")} <= {
        "r07", *COSINES,
    }  # fmt: skip
    groups = esdedup.group(make(), vector="embedding", id="id", cosine=0.95)
    assert [group.representative for group in groups] == ["near00"]
    result = esdedup.dedup(make(), vector="embedding", cosine=0.95)
    assert len(result.kept) == len(VECTORS) - 3


@pytest.mark.parametrize("form", ["list", "pandas", "polars", "arrow"])
def test_frames_of_columns_of_a_fixed_size(form: str) -> None:
    rows, ids = np.array([*VECTORS.values()]), [*VECTORS]
    # The first and a later one are missing.
    is_missing = np.isin(np.arange(len(rows)), [0, 9])
    column = pyarrow.FixedSizeListArray.from_arrays(
        pyarrow.array(rows.ravel()), SIZE, mask=pyarrow.array(is_missing)
    )
    chunks = [{"embedding": row} for row in column.to_pylist()]
    table = pyarrow.table({"id": ids, "embedding": column, "chunk": chunks})
    make: dict[str, Callable[[Any], Any]] = {
        "list": lambda table: table.to_pylist(),
        "pandas": lambda table: table.to_pandas(),
        "polars": imported("polars").from_arrow,
        "arrow": lambda table: table,
    }
    frame, empty = make[form](table), make[form](table.slice(0, 0))
    expected = {
        pair: value for pair, value in pairs_within(0.9).items() if not {"r00", "r09"} & {*pair}
    }
    for field in ("embedding", "chunk.embedding"):
        pairs = esdedup.pairs(frame, vector=field, id="id", cosine=0.9)
        assert values_of(pairs) == pytest.approx(expected)
    assert len(esdedup.dedup(frame, vector="embedding").kept) == len(VECTORS) - 3
    assert len(esdedup.pairs(empty, vector="embedding", id="id")) == 0
    assert len(esdedup.pairs(empty, vector="embedding", id="id", against=frame)) == 0
    assert len(esdedup.group(empty, vector="embedding", id="id")) == 0
    assert len(esdedup.dedup(empty, vector="embedding", against=frame).kept) == 0
    if form != "list":
        for records in (frame, empty):
            with pytest.raises(esdedup.UsageError, match=r"no column 'vector'\. There are: id"):
                esdedup.pairs(records, vector="vector")
    with pytest.raises(RecordError, match=r"record 3: .* number 2 of the vector is None"):
        esdedup.pairs([*table.to_pylist()[:3], {"embedding": [1.0, None]}], vector="embedding")


def test_vectors_of_records_are_named_alone() -> None:
    for arguments, message in (
        ({"text": "body"}, "can't be combined with `text`"),
        ({"scheme": Scheme()}, "can't be combined with `scheme`"),
        ({"threshold": 0.9}, "compares by cosine, so use a cosine"),
        ({"cosine": 1.1}, "cosine 1.1: use a cosine above 0, up to 1"),
    ):
        with pytest.raises(esdedup.UsageError, match=message):
            esdedup.pairs(records(), vector="embedding", **arguments)
    with pytest.raises(esdedup.UsageError, match="no record has a list of numbers in the field"):
        esdedup.pairs(records(), vector="id")
    with pytest.raises(esdedup.UsageError, match="no record has a list of numbers"):
        esdedup.pairs([{"a": 1}], vector="embedding")
    wrong = [*records(), {"id": "short", "embedding": [1.0, 2.0]}]
    with pytest.raises(RecordError, match=r"35.*a vector of 2 numbers, where the sketch .* 160"):
        esdedup.dedup(wrong, vector="embedding")


def check_brute_force(vectors: F32, target: str | Path, name: str, least: float) -> None:
    """Compare the pairs of vectors, and searches for some, with those of brute force."""
    wide = vectors.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    expected = set[tuple[int, int]]()
    for start in range(0, len(wide), 1_000):
        left, right = np.nonzero(wide[start : start + 1_000] @ wide.T >= least)
        left += start
        is_ordered = left < right
        expected |= {*zip(left[is_ordered].tolist(), right[is_ordered].tolist(), strict=True)}
    scheme = Scheme([Vectors(vectors.shape[1], least)])
    documents = (
        {"id": str(row), "embedding": vector.tolist()} for row, vector in enumerate(vectors)
    )
    with esdedup.open(target, name, scheme=scheme, text_field="embedding") as index:
        index.add(documents)
        similar = index.pairs(max_per_bucket=1_000_000)
        pairs = {(int(pair.left), int(pair.right)) for pair in similar}
        pairs = {(min(pair), max(pair)) for pair in pairs}
        assert pairs <= expected
        assert similar.recall is not None
        assert similar.recall >= 0.999
        # The promise is of pairs just at the cosine; most are nearer.
        missed = len(expected) - len(pairs)
        assert missed <= 0.001 * len(expected) + 3 * math.sqrt(0.001 * len(expected))
        rng = np.random.default_rng(5)
        found = possible = 0
        for row in rng.choice(len(vectors), 40, replace=False).tolist():
            matches = {int(match.id) for match in index.similar(id=str(row), k=1_000)}
            true = {left + right - row for left, right in expected if row in (left, right)}
            assert matches <= true
            found, possible = found + len(matches), possible + len(true)
        assert possible - found <= 0.001 * possible + 3 * math.sqrt(0.001 * possible) + 1


@pytest.mark.parametrize("least", [0.9, 0.95, 0.98])
def test_pairs_are_those_of_brute_force(folder: Path, least: float) -> None:
    check_brute_force(clustered(1_200, 64, seed=3), folder / "v.db", "v", least)


@pytest.mark.nightly
@pytest.mark.on_every_server
@pytest.mark.parametrize("least", [0.9, 0.95, 0.98])
def test_pairs_of_many_vectors_are_those_of_brute_force(place: Place, least: float) -> None:
    check_brute_force(clustered(20_000, 128, seed=4), place.target, place.index, least)


def test_a_vector_is_shown_by_the_text_beside_it(folder: Path) -> None:
    lines = [{**record, "title": "A", "text": f"Text of {record['id']}."} for record in records()]
    write_lines(folder / "d.jsonl", lines)
    options = ["--vectors", f"embedding:{SIZE}", "--cosine", "0.97"]
    at = ["--db", "x.db", "-i", "d"]
    assert run_command("index", "d.jsonl", *options, *at).status == 0
    shown = {
        "similar": run_command("similar", *at, "--id", "r07", "--table"),
        "pairs": run_command("pairs", *at, "--table"),
        "explain": run_command("explain", *at, "r07", "near00", "--table"),
        "buckets": run_command("stats", *at, "--hot", "1", "--table"),
    }
    for command, ran in shown.items():
        assert "Text of" in ran.out, command
        assert written_vector(VECTORS["near00"])[:16] not in ran.out, command
    # Files are read for their vectors alone.
    first = f"[{VECTORS['near00'][0]:.3g}, {VECTORS['near00'][1]:.3g}, "
    of_files = run_command("pairs", "d.jsonl", *options, "--table")
    assert first in of_files.out
    cleaned = run_command("clean", "d.jsonl", *options, "--output", "out", "--json")
    samples = cleaned.json[0]["samples"]
    assert any(first in sample["text"] + sample["original_text"]
               for sample in samples)  # fmt: skip
