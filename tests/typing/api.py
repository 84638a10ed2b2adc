"""Calls of the public API as users write them. Type checkers accept all; nothing runs them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import elasticsearch
import opensearchpy
import polars

import esdedup
from esdedup import admin
from esdedup.results import Explanation, Statistics, UndoReport
from esdedup.search.hot_buckets import HotBuckets
from esdedup.stores import BulkPolicy


def documents() -> Iterator[dict[str, Any]]:
    yield {"id": "a", "text": "The council met on Monday"}
    yield {"text": "A document without an id"}


def on_step(name: str, done: int, total: int) -> None:
    print(f"{name}: {done} of {total}")


def schemes() -> list[esdedup.Scheme]:
    return [
        esdedup.Scheme(),
        esdedup.Scheme.for_threshold(0.8, recall=0.99),
        esdedup.Scheme(
            [esdedup.MinHash(bands=32, rows=4)],
            normalisation=esdedup.Normalisation("NFC", casefold=False),
            shingling=esdedup.Shingling("char", 5),
        ),
    ]


def opened() -> list[esdedup.Index]:
    connection = esdedup.Connection("http://localhost:9200", api_key="id:key")
    nodes = esdedup.Connection(["http://a:9200", "http://b:9200"], bearer_token="token")
    return [
        esdedup.open(),
        esdedup.open("news.db", "news", scheme=esdedup.Scheme(), text_field="body"),
        esdedup.open(Path("news.db")),
        esdedup.open("http://localhost:9200", "news", username="ann", password="secret"),
        esdedup.open("https://localhost:9200", api_key="id:key", ca_certs=Path("ca.pem")),
        esdedup.open(connection, "news", policy=BulkPolicy(actions=2)),
        esdedup.open(nodes, "news"),
        esdedup.open(elasticsearch.Elasticsearch("http://localhost:9200"), "news"),
        esdedup.open(opensearchpy.OpenSearch("http://localhost:9200"), "news", retry_for=0),
    ]


def writing(index: esdedup.Index) -> None:
    index.create()
    report: esdedup.results.IngestReport = index.add(documents())
    index.add([{"key": "a", "text": "x"}], id_field="key", on_duplicate="skip")
    index.add(documents(), on_duplicate="group")
    index.add(documents(), on_duplicate=esdedup.DuplicatePolicy("mark", threshold=0.9))
    updated: int = index.update([{"id": "a", "text": "another text"}])
    document: esdedup.Document = index.get("a")
    deleted: int = index.delete(["a"])
    print(report.created, updated, document.source["text"], deleted)


def searching(index: esdedup.Index) -> None:
    result: esdedup.results.Result = index.similar("The council met", threshold=0.6, k=5)
    for match in result.matches:
        print(match.id, match.similarity, match.source)
    index.similar(id="a", threshold=None)
    index.similar(id="a", sketch="simhash", distance=7, filters=[{"term": {"tenant": "a"}}])
    query: esdedup.Query = index.query("The council met")
    results: list[esdedup.results.Result] = index.similar_many([query], esdedup.Limits(k=3))
    body: dict[str, Any] = index.request_body("The council met", threshold=0.7, collapse=True)
    verified: esdedup.results.Result = index.verify("The council met", {"hits": {}}, threshold=0.7)
    index.verify("The council met", [{"_id": "a"}], limits=esdedup.Limits())
    index.request_body_of(query, esdedup.Limits(), collapse=True)
    explanation: Explanation = index.explain("a", "b")
    print(len(results), body, verified, explanation.similarity)


def whole_index(index: esdedup.Index) -> None:
    pairs: esdedup.results.SimilarPairs = index.pairs(threshold=0.7, on_step=on_step)
    for pair in pairs:
        print(pair.left, pair.right, pair.similarity)
    groups: esdedup.results.Groups = index.groups(
        threshold=0.9, method="components", keep="longest"
    )
    for group in groups:
        print(group.representative, [member.id for member in group.members])
    report: esdedup.results.GroupReport = index.group(
        collapse_ready=True, work="news.group", on_step=on_step
    )
    print(report.groups.duplicates, report.marks.written, report.missed)
    limits = esdedup.Limits("simhash", distance=3, max_per_bucket=100)
    index.groups(grouping=esdedup.Grouping(limits))
    page: esdedup.results.Report = index.report(threshold=0.8)
    Path("report.html").write_text(page.html("news"))
    print(page.to_json()["duplicates"], page.warnings)


def records(rows: list[dict[str, str]], frame: polars.DataFrame) -> None:
    texts: list[str] = esdedup.dedup(line for line in ["a text", "another"]).kept
    retained: list[dict[str, str]] = esdedup.dedup(rows, "body", keep="longest").kept
    removed: list[dict[str, str]] = esdedup.dedup(rows).rethreshold(0.9).removed
    table: polars.DataFrame = esdedup.dedup(frame, threshold=0.9).kept
    column: list[Any] = esdedup.dedup(frame["text"]).kept
    near: list[str] = esdedup.dedup(["a text"], against=frame["text"], exact=True).kept
    masked = esdedup.dedup(frame, against=rows, contained=0.8, mask=True, progress=True)
    clean: polars.DataFrame = masked.kept
    items: list[int] = [item.item for item in masked.contained]
    listed: esdedup.results.Duplicates = esdedup.dedup(rows, progress=on_step).duplicates
    duplicate: esdedup.results.Duplicate = listed[0]
    print(near, clean, items, duplicate.in_against, polars.DataFrame(listed))
    similar: esdedup.results.SimilarPairs = esdedup.pairs(frame, threshold=0.7, max_per_bucket=10)
    pair: esdedup.results.Pair = esdedup.pairs(frame, progress=on_step)[0]
    print(pair.left, [pair.right for pair in similar[:10]])
    exact: esdedup.results.Groups = esdedup.group(rows, exact=True)
    table_of_pairs: polars.DataFrame = polars.DataFrame(similar)
    print(texts, retained, removed, table, column, exact, table_of_pairs)


def taking_out(index: esdedup.Index) -> None:
    plan: esdedup.results.Dedup = index.dedup("delete", threshold=0.9, keep="newest:published")
    if plan.groups.duplicates < 100:
        done = plan.apply()
        assert done.report is not None
        print(done.report.done, done.report.failures)
        if done.log is not None:
            undone: UndoReport = index.undo(done.log)
            print(undone.restored, undone.damage)
    index.dedup("move", apply=True, to="duplicates", log="moved.jsonl", exact=True)


def looking(index: esdedup.Index) -> None:
    statistics: Statistics = index.statistics()
    hot: HotBuckets = index.hot_buckets(5, sketches=["minhash"])
    kept: tuple[str, ...] = index.stop_list.replace([bucket.token for bucket in hot.buckets])
    print(statistics.documents, kept, index.scheme.id, index.meta.text_fields)


def enriching(index: esdedup.Index) -> Iterator[dict[str, Any]]:
    actions = ({"_index": "news", "_id": each["id"], "_source": each} for each in documents())
    yield from esdedup.enrich(actions, index=index)


def administering() -> None:
    url = "http://localhost:9200"
    plan: admin.AttachPlan = admin.plan_attach(url, "news", text_field=["title", "body"])
    admin.attach(url, plan)
    filled: admin.ChangeReport = admin.backfill(url, "news", admin.Effort(workers=4))
    found: admin.Check = admin.check(url, "news")
    switched: admin.ChangeReport = admin.switch(url, "news", esdedup.Scheme(seed=2))
    print(filled.written, found.good, switched)
