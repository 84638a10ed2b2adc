"""esdedup pairs: all similar pairs of an index."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from esdedup.buckets import Capped
from esdedup.cli.answers import lacking_recall
from esdedup.cli.options import (
    DEFAULT_THRESHOLD,
    AsJson,
    Distance,
    MaxBucket,
    MetricOption,
    Recall,
    Target,
    Threshold,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, snippet, wants_json
from esdedup.cli.progress import steps
from esdedup.cli.similar import check_metric_options
from esdedup.datatypes import Metric, Pair, Statistics
from esdedup.fields import value_at
from esdedup.groups import MAX_BUCKET
from esdedup.index import Index
from esdedup.search import RECALL
from esdedup.stoplist import stopped_tokens

_FETCHED = 1_000


@with_target
def pairs(
    target: Target,
    metric: MetricOption = "jaccard",
    threshold: Threshold = None,
    distance: Distance = None,
    recall: Recall = RECALL,
    max_bucket: MaxBucket = MAX_BUCKET,
    as_json: AsJson = None,
) -> None:
    """Find all pairs of similar documents, each once, with their exact similarity."""
    check_metric_options(metric, threshold, distance)
    wanted = DEFAULT_THRESHOLD if threshold is None else threshold
    with target.open() as index:
        tell_left_out(index.statistics())
        tell_stopped(index.meta.stop, metric)
        with steps() as on_step:
            found = index.pairs(
                metric=metric,
                threshold=wanted,
                distance=distance,
                recall=recall,
                max_bucket=max_bucket,
                on_step=on_step,
            )
        tell_recall(found.recall, wanted, recall)
        tell_capped(found.capped, max_bucket)
        if wants_json(as_json):
            for pair in found:
                print_json(_document(pair))
        else:
            _show(index, found, metric == "hamming")


def tell_left_out(statistics: Statistics) -> None:
    """Says how many documents can't be compared."""
    if (words := left_out(statistics)) is not None:
        message(words)


def left_out(statistics: Statistics) -> str | None:
    """How many documents can't be compared, in words, or None."""
    skipped = statistics.documents - statistics.sketched
    if not skipped:
        return None
    return (
        f"{skipped:,} of {statistics.documents:,} documents have no tokens of this index's"
        " scheme and are left out"
    )


def tell_stopped(stop: Sequence[str], metric: Metric) -> None:
    """Says that documents do not meet in what the index's stop list has."""
    if some := stopped_tokens(stop, "minhash" if metric == "jaccard" else "simhash"):
        message(
            f"{len(some):,} tokens are in the index's stop list: documents that share only these"
            " are not compared, unless their texts are equal"
        )


def tell_recall(expected: float, threshold: float, recall: float) -> None:
    """Says where many pairs at the threshold share too few bands to be found."""
    if (lack := lacking_recall(expected, threshold, recall)) is not None:
        message(lack)


def tell_capped(cut: Capped, max_bucket: int) -> None:
    """Says where not every document of a bucket was compared with every other."""
    if (words := capped(cut, max_bucket)) is not None:
        message(words)


def capped(cut: Capped, max_bucket: int) -> str | None:
    """Where not every document of a bucket was compared with every other, in words, or None."""
    if not cut.buckets:
        return None
    return (
        f"{cut.buckets:,} buckets hold more than {max_bucket:,} documents, up to"
        f" {cut.largest:,}: each was compared with the first {max_bucket:,} of them, and a pair"
        " may be missing. Raise --max-bucket"
    )


def _document(pair: Pair) -> dict[str, str | float | int | None]:
    if pair.similarity is not None:
        return {"left": pair.left, "right": pair.right, "similarity": pair.similarity}
    return {"left": pair.left, "right": pair.right, "distance": pair.distance}


def _show(index: Index, found: Iterable[Pair], by_distance: bool) -> None:
    rows = list(_rows(index, iter(found)))
    if not rows:
        message("No similar pairs")
        return
    value = "distance" if by_distance else "similarity"
    print_table(
        [(value, "number"), ("documents", "key"), ("text", "line")],
        rows,
        title=f"{len(rows):,} near-duplicate pairs",
    )


def _rows(index: Index, found: Iterator[Pair]) -> Iterator[tuple[str, str, str]]:
    while some := list(itertools.islice(found, _FETCHED)):
        ids = sorted({id for pair in some for id in (pair.left, pair.right)})
        texts = {
            document.id: snippet(value_at(document.source, index.meta.text_field))
            for document in index.store.get(ids)
        }
        for pair in some:
            value = f"{pair.similarity:.3f}" if pair.distance is None else str(pair.distance)
            both = (pair.left, pair.right)
            yield value, "\n".join(both), "\n".join(texts.get(id, "") for id in both)
