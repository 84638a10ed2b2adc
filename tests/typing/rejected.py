"""Calls that type checkers must reject. mypy and pyright check this file, and nothing runs it.

Each line has the error that it must have: `warn_unused_ignores` fails for one that is accepted.
"""

import elasticsearch
import polars
from pyspark.sql import DataFrame

import esdedup
from esdedup.spark import dedup, groups, pairs, read_index, write_groups


def misspelt_settings(index: esdedup.Index, texts: list[str]) -> None:
    index.similar("a text", threshhold=0.5)  # type: ignore[call-arg]
    index.request_body("a text", threshhold=0.5)  # type: ignore[call-arg]
    index.verify("a text", [], threshhold=0.5)  # type: ignore[call-arg]
    index.pairs(threshhold=0.5)  # type: ignore[call-arg]
    index.groups(threshhold=0.5)  # type: ignore[call-arg]
    index.group(threshhold=0.5)  # type: ignore[call-arg]
    index.report(threshhold=0.5)  # type: ignore[call-arg]
    index.dedup("delete", threshhold=0.5)  # type: ignore[call-arg]
    index.weights(mots=5)  # type: ignore[call-arg]
    esdedup.pairs(texts, threshhold=0.5)  # type: ignore[call-arg]
    esdedup.group(texts, threshhold=0.5)  # type: ignore[call-arg]
    esdedup.dedup(texts, threshhold=0.5)  # type: ignore[call-overload]
    esdedup.weights(texts, mots=5)  # type: ignore[call-arg]


def settings_of_other_work(index: esdedup.Index, texts: list[str]) -> None:
    index.similar("a text", max_per_bucket=5)  # type: ignore[call-arg]
    index.pairs(k=5)  # type: ignore[call-arg]
    index.pairs(keep="first")  # type: ignore[call-arg]
    esdedup.group(texts, k=5)  # type: ignore[call-arg]


def values_of_other_types(index: esdedup.Index, texts: list[str], lazy: polars.LazyFrame) -> None:
    index.similar("a text", threshold="0.5")  # type: ignore[arg-type]
    index.similar("a text", k=None)  # type: ignore[arg-type]
    index.groups(method="chain")  # type: ignore[arg-type]
    index.groups(keep=3)  # type: ignore[arg-type]
    index.groups(grouping=esdedup.Limits())  # type: ignore[arg-type]
    index.dedup("drop")  # type: ignore[arg-type]
    esdedup.group(texts, exact="no")  # type: ignore[arg-type]
    esdedup.pairs([1, 2])  # type: ignore[list-item]
    esdedup.dedup([1, 2])  # type: ignore[type-var]
    esdedup.dedup(texts, against=5)  # type: ignore[call-overload]
    esdedup.dedup(texts, against=texts, contained="0.8")  # type: ignore[call-overload]
    esdedup.pairs(texts, progress="yes")  # type: ignore[arg-type]
    esdedup.dedup(lazy)  # type: ignore[call-overload]
    esdedup.pairs(lazy)  # type: ignore[arg-type]


def connections(client: elasticsearch.AsyncElasticsearch) -> None:
    esdedup.open(client)  # type: ignore[arg-type]
    esdedup.open("http://localhost:9200", user="ann")  # type: ignore[call-arg]
    esdedup.open("http://localhost:9200", retry_for="5m")  # type: ignore[arg-type]
    esdedup.Connection(9200)  # type: ignore[arg-type]


def records_stay_what_they_are(records: list[dict[str, str]]) -> list[str]:
    return esdedup.dedup(records).kept  # type: ignore[return-value]


def on_spark(df: DataFrame) -> None:
    pairs(df, threshhold=0.5)  # type: ignore[call-arg]
    groups(df, threshhold=0.5)  # type: ignore[call-arg]
    dedup(df, threshhold=0.5)  # type: ignore[call-arg]
    read_index(df.sparkSession, "", "news", user="ann")  # type: ignore[call-arg]
    write_groups(df, "", "news", user="ann")  # type: ignore[call-arg]
