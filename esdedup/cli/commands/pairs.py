"""esdedup pairs: all similar pairs of an index, or of files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from esdedup.cli.files import DeadLetterFile, FileOptions, check_files, chunks_of, total_bytes
from esdedup.cli.options import (
    DEFAULT_THRESHOLD,
    AsJson,
    Distance,
    MaxPerBucket,
    MetricOption,
    Recall,
    Target,
    Threshold,
    check_metric_options,
    scheme_in,
    with_target,
)
from esdedup.cli.output import (
    message,
    print_json,
    print_table,
    progress,
    snippet,
    steps,
    wants_json,
)
from esdedup.dedup.file_pairs import pairs_in_files
from esdedup.dedup.pairs import SimilarPairs, similar_pairs
from esdedup.dedup.verify import TextsOf, texts_in
from esdedup.exceptions import UsageError
from esdedup.models import Metric, Pair, Statistics
from esdedup.search.buckets import Capped
from esdedup.search.limits import MAX_PER_BUCKET, RECALL, Limits
from esdedup.search.warnings import cut_buckets, lacking_recall, without_tokens
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta
from esdedup.stores.stop_list import stopped_tokens

_FETCHED = 1_000


Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES",
        help="Files of documents, as esdedup index takes them, in place of an index: none is made.",
        show_default=False,
    ),
]


@with_target
def pairs(
    target: Target,
    context: typer.Context,
    *,
    files: Files = None,
    metric: MetricOption = "jaccard",
    threshold: Threshold = None,
    distance: Distance = None,
    recall: Recall = RECALL,
    max_per_bucket: MaxPerBucket = MAX_PER_BUCKET,
    of_files: FileOptions,
    as_json: AsJson = None,
) -> None:
    """Find all pairs of similar documents, each once, with their exact similarity."""
    check_metric_options(metric, threshold, distance)
    wanted = DEFAULT_THRESHOLD if threshold is None else threshold
    limits = Limits(metric, wanted, distance, recall=recall, max_per_bucket=max_per_bucket)
    if files:
        _refuse_target(context)
        failed = _in_files(files, of_files, limits, wants_json(as_json))
        if failed:
            raise typer.Exit(1)
        return
    of_files.refuse()
    with target.open() as index:
        tell_left_out(index.statistics())
        tell_stopped(index.meta.stop, metric)
        with steps() as on_step:
            found = similar_pairs(index.store, index.meta, limits, on_step)
        texts_of = texts_in(index.store, index.meta.text_field)
        _answer(found, texts_of, limits, wants_json(as_json))


def _refuse_target(context: typer.Context) -> None:
    """Raises UsageError where an option names an index; the environment may name one."""
    for option in fields(Target):
        source = context.get_parameter_source(option.name)
        if source is not None and source.name == "COMMANDLINE":
            name = option.name.replace("_", "-")
            raise UsageError(f"--{name} goes with an index: leave it out, or FILES")


def _in_files(files: list[str], options: FileOptions, limits: Limits, as_json: bool) -> int:
    """Shows the pairs of files; how many of their records could not be compared."""
    check_files(files, options.format)
    scheme = scheme_in(options.scheme) or Scheme()
    meta = IndexMeta(scheme, options.text_field or "text")
    with ExitStack() as stack:
        path = options.dead_letter or Path("pairs.dead-letter.jsonl")
        letters = stack.enter_context(DeadLetterFile(path))
        with progress("Sketching", total_bytes(files)) as (advance, documents), steps() as on_step:
            found = pairs_in_files(
                chunks_of(files, options.format, advance),
                meta,
                letters,
                limits,
                id_field=options.id_field,
                workers=options.workers,
                on_read=documents,
                on_step=on_step,
            )
        _answer(found.pairs, found.texts_of, limits, as_json)
        if found.failed:
            message(f"{found.failed} of {found.read} records were left out: see {letters.path}")
    return found.failed


def _answer(found: SimilarPairs, texts_of: TextsOf, limits: Limits, as_json: bool) -> None:
    tell_recall(found.recall, limits.least_similarity, limits.recall)
    tell_capped(found.capped, limits.max_per_bucket)
    if as_json:
        for pair in found:
            print_json(_document(pair))
    else:
        _show(texts_of, found, limits.metric == "hamming")


def tell_left_out(statistics: Statistics) -> None:
    """Says how many documents can't be compared."""
    if (words := without_tokens(statistics)) is not None:
        message(words)


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
    if (words := cut_buckets(cut, max_bucket)) is not None:
        message(words)


def _document(pair: Pair) -> dict[str, str | float | int | None]:
    if pair.similarity is not None:
        return {"left": pair.left, "right": pair.right, "similarity": pair.similarity}
    return {"left": pair.left, "right": pair.right, "distance": pair.distance}


def _show(texts_of: TextsOf, found: Iterable[Pair], by_distance: bool) -> None:
    rows = list(_rows(texts_of, iter(found)))
    if not rows:
        message("No similar pairs")
        return
    value = "distance" if by_distance else "similarity"
    print_table(
        [(value, "number"), ("documents", "key"), ("text", "line")],
        rows,
        title=f"{len(rows):,} near-duplicate pairs",
    )


def _rows(texts_of: TextsOf, found: Iterator[Pair]) -> Iterator[tuple[str, str, str]]:
    while some := list(itertools.islice(found, _FETCHED)):
        ids = sorted({id for pair in some for id in (pair.left, pair.right)})
        texts = dict(zip(ids, map(snippet, texts_of(ids)), strict=True))
        for pair in some:
            value = f"{pair.similarity:.3f}" if pair.distance is None else str(pair.distance)
            both = (pair.left, pair.right)
            yield value, "\n".join(both), "\n".join(texts[id] for id in both)
