"""esdedup pairs: all similar pairs of an index, or of files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import typer

from esdedup.cli.files import DeadLetterFile, FileOptions, check_files, chunks_of, total_bytes
from esdedup.cli.options import (
    AsJson,
    Distance,
    Looking,
    MaxPerBucket,
    MetricOption,
    Recall,
    Target,
    check_metric_options,
    scheme_in,
    with_target,
)
from esdedup.cli.output import (
    count,
    message,
    print_json,
    print_table,
    progress,
    snippet,
    steps,
    wants_json,
    warn_after,
    warn_before,
)
from esdedup.dedup.file_pairs import pairs_in_files
from esdedup.dedup.pairs import SimilarPairs
from esdedup.dedup.verify import TextsOf, texts_in
from esdedup.exceptions import UsageError
from esdedup.models import Pair
from esdedup.search.limits import LOOKING, MAX_PER_BUCKET, RECALL, Limits
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta

_FETCHED = 1_000
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILES",
        help="Files of documents, as index takes them, instead of an index.",
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
    threshold: Looking = None,
    distance: Distance = None,
    recall: Recall = RECALL,
    max_per_bucket: MaxPerBucket = MAX_PER_BUCKET,
    of_files: FileOptions,
    as_json: AsJson = None,
) -> None:
    """Find all pairs of similar documents, each once.

    Example: esdedup pairs news.jsonl --threshold 0.8

    Similarities are exact. With FILES no index is made.
    """
    check_metric_options(metric, threshold, distance)
    least = LOOKING if threshold is None else threshold
    limits = Limits(metric, least, distance, recall=recall, max_per_bucket=max_per_bucket)
    if files:
        _refuse_target(context)
        if _in_files(files, of_files, limits, wants_json(as_json)):
            raise typer.Exit(1)
        return
    of_files.refuse()
    with target.open() as index:
        warn_before(index, metric)
        with steps() as on_step:
            found = index.pairs(
                metric=metric,
                threshold=least,
                distance=distance,
                recall=recall,
                max_per_bucket=max_per_bucket,
                on_step=on_step,
            )
        texts_of = texts_in(index.store, index.meta.text_field)
        _answer(found, texts_of, limits, wants_json(as_json))


def _refuse_target(context: typer.Context) -> None:
    """Raises UsageError if an option names an index; the environment may name one."""
    for option in fields(Target):
        source = context.get_parameter_source(option.name)
        if source is not None and source.name == "COMMANDLINE":
            name = option.name.replace("_", "-")
            raise UsageError(f"--{name} goes with an index: leave it out, or FILES")


def _in_files(files: list[str], options: FileOptions, limits: Limits, as_json: bool) -> int:
    """Shows the pairs of files, and returns the number of records that could not be compared."""
    check_files(files, options.format)
    scheme = scheme_in(options.scheme) or Scheme()
    meta = IndexMeta(scheme, options.text_field or "text")
    with ExitStack() as stack:
        path = options.dead_letter or Path("pairs.dead-letter.jsonl")
        letters = stack.enter_context(DeadLetterFile(path))
        with progress("Sketching", total_bytes(files)) as (advance, documents), steps() as on_step:
            found, read = pairs_in_files(
                chunks_of(files, options.format, advance),
                meta,
                letters,
                limits,
                id_field=options.id_field,
                workers=options.workers,
                on_read=documents,
                on_step=on_step,
            )
        _answer(found, read.texts_of, limits, as_json)
        if read.failed:
            message(f"{read.failed} of {read.read} records were left out: see {letters.path}")
    return read.failed


def _answer(found: SimilarPairs, texts_of: TextsOf, limits: Limits, as_json: bool) -> None:
    warn_after(found.recall, found.capped, limits)
    if as_json:
        for pair in found:
            print_json(_as_json(pair))
        return
    rows = list(_rows(texts_of, iter(found)))
    if not rows:
        message("No similar pairs")
        return
    value = "distance" if limits.metric == "hamming" else "similarity"
    print_table(
        [(value, "number"), ("documents", "key"), ("text", "line")],
        rows,
        title=count(len(rows), "near-duplicate pair"),
    )


def _as_json(pair: Pair) -> dict[str, str | float | int | None]:
    if pair.similarity is not None:
        return {"left": pair.left, "right": pair.right, "similarity": pair.similarity}
    return {"left": pair.left, "right": pair.right, "distance": pair.distance}


def _rows(texts_of: TextsOf, found: Iterator[Pair]) -> Iterator[tuple[str, str, str]]:
    while some := list(itertools.islice(found, _FETCHED)):
        ids = sorted({id for pair in some for id in (pair.left, pair.right)})
        texts = dict(zip(ids, map(snippet, texts_of(ids)), strict=True))
        for pair in some:
            value = f"{pair.similarity:.3f}" if pair.distance is None else str(pair.distance)
            both = (pair.left, pair.right)
            yield value, "\n".join(both), "\n".join(texts[id] for id in both)
