"""esdedup pairs: all similar pairs of an index."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from esdedup.cli.options import (
    DEFAULT_THRESHOLD,
    AsJson,
    Distance,
    MetricOption,
    Target,
    Threshold,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, snippet, wants_json
from esdedup.cli.progress import progress
from esdedup.cli.similar import check_metric_options
from esdedup.datatypes import Pair
from esdedup.fields import value_at
from esdedup.index import Index

_FETCHED = 1_000


@with_target
def pairs(
    target: Target,
    metric: MetricOption = "jaccard",
    threshold: Threshold = None,
    distance: Distance = None,
    as_json: AsJson = None,
) -> None:
    """Find all pairs of similar documents, each once, with their exact similarity."""
    check_metric_options(metric, threshold, distance)
    wanted = DEFAULT_THRESHOLD if threshold is None else threshold
    with target.open() as index:
        found = _found(index, metric, wanted, distance)
        if wants_json(as_json):
            for pair in found:
                print_json(_document(pair))
        else:
            _show(index, found, metric == "hamming")


def _found(index: Index, metric: str, threshold: float, distance: int | None) -> Iterator[Pair]:
    """The pairs, with a progress bar until the first one is ready."""
    statistics = index.statistics()
    skipped = statistics.documents - statistics.sketched
    if skipped:
        message(
            f"{skipped:,} of {statistics.documents:,} documents have no tokens of this index's"
            " scheme and are left out"
        )
    with progress("Reading tokens", statistics.sketched) as (advance, documents):
        read = 0

        def on_scan(count: int) -> None:
            nonlocal read
            read += count
            advance(count)
            documents(read)

        found = index.pairs(
            metric="hamming" if metric == "hamming" else "jaccard",
            threshold=threshold,
            distance=distance,
            on_scan=on_scan,
        )
        first = list(itertools.islice(found, 1))
    return itertools.chain(first, found)


def _document(pair: Pair) -> dict[str, str | float | int | None]:
    if pair.similarity is not None:
        return {"left": pair.left, "right": pair.right, "similarity": pair.similarity}
    return {"left": pair.left, "right": pair.right, "distance": pair.distance}


def _show(index: Index, found: Iterator[Pair], by_distance: bool) -> None:
    rows = list(_rows(index, found))
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
