"""esdedup pairs: all similar pairs of an index, or of files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from esdedup.cli import options, output
from esdedup.cli.files import (
    FileOptions,
    dead_letters,
    total_bytes,
    warn_of_repeated,
    warn_without_words,
)
from esdedup.cli.output import count, message
from esdedup.cli.result_files import ResultFile, write_rows
from esdedup.exceptions import UsageError
from esdedup.models import Pair
from esdedup.pairing.file_pairs import pairs_in_files
from esdedup.pairing.pairs import SimilarPairs, similar_pairs
from esdedup.pairing.scan import WorkFolder
from esdedup.pairing.verify import texts_in
from esdedup.search.limits import (
    LOOKING,
    MAX_PER_BUCKET,
    RECALL,
    Limits,
    comparing_scheme,
)
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

AllEqual = Annotated[
    bool,
    typer.Option("--all-equal", help="List every pair of equal texts, and with each of these."),
]


@options.with_target
def pairs(
    target: options.Target,
    context: typer.Context,
    *,
    files: Files = None,
    metric: options.MetricOption = "jaccard",
    threshold: options.Looking = None,
    distance: options.Distance = None,
    recall: options.Recall = RECALL,
    max_per_bucket: options.MaxPerBucket = MAX_PER_BUCKET,
    all_equal: AllEqual = False,
    of_files: FileOptions,
    results: ResultFile,
    as_json: options.AsJson = None,
) -> None:
    """Find all pairs of similar documents, each once.

    Example: esdedup pairs news.jsonl --threshold 0.8

    Similarities are exact. Documents of equal text are listed once each, with the first of them.
    With FILES no index is made, and the bands are chosen for --threshold and --recall, unless
    --scheme gives them.
    """
    options.check_metric_options(metric, threshold, distance)
    least = LOOKING if threshold is None else threshold
    limits = Limits(metric, least, distance, recall=recall, max_per_bucket=max_per_bucket)
    answer = _Answer(limits, all_equal, results, output.wants_json(as_json))
    if files:
        _refuse_target(context)
        _in_files(files, of_files, answer)
        return
    of_files.refuse()
    results.check()
    with target.open() as index:
        output.warn_before(index, metric)
        with output.steps() as on_step:
            found = similar_pairs(index.store, index.meta, limits, on_step)
        output.tell_reading(found.basis, limits)
        answer.show(found, texts_in(index.store, index.meta.text_fields))


def _refuse_target(context: typer.Context) -> None:
    """Raise UsageError if an option names an index; the environment may name one."""
    for option in fields(options.Target):
        source = context.get_parameter_source(option.name)
        if source is not None and source.name == "COMMANDLINE":
            name = options.option_of(option.name)
            raise UsageError(f"{name} goes with an index: leave it out, or FILES")


def _in_files(files: list[str], of: FileOptions, answer: _Answer) -> None:
    """Show the pairs of files. The exit status is 1 if records could not be compared."""
    files, limits = of.named(files), answer.limits
    answer.results.check(files)
    scheme = options.scheme_in(of.scheme) or comparing_scheme(Scheme(), limits)
    meta = IndexMeta(scheme, tuple(of.text_field or ["text"]))
    dead_letter = of.dead_letter or Path("pairs.dead-letter.jsonl")
    with dead_letters(dead_letter) as letters, WorkFolder.temporary() as folder:
        bar = output.progress("Sketching", total_bytes(files))
        with bar as (advance, documents), output.steps() as on_step:
            found, read = pairs_in_files(
                of.chunks(files, meta.text_fields, advance, columns=(), as_json=False),
                meta,
                letters,
                limits,
                folder,
                id_field=of.id_field,
                workers=of.workers,
                on_read=documents,
                on_step=on_step,
            )
        warn_of_repeated(read.repeated, read.first)
        warn_without_words(read.without_words)
        answer.show(found, read.texts_of)
        if read.failed:
            message(f"{read.failed} of {read.read} records were left out: see {letters.path}")
            raise typer.Exit(1)


@dataclass(frozen=True)
class _Answer:
    """Prints the pairs, or writes them to a file and prints their number.

    results: says which file, if any. as_json: print JSON, not tables.
    """

    limits: Limits
    all_equal: bool
    results: ResultFile
    as_json: bool

    @property
    def measure(self) -> str:
        return "distance" if self.limits.metric == "hamming" else "similarity"

    def show(self, found: SimilarPairs, texts_of: Callable[[list[str]], list[str]]) -> None:
        output.warn_after(found.recall, found.capped, self.limits)
        waiting = found.every() if self.all_equal else iter(found)
        if found.copies and not self.all_equal:
            message(
                f"{count(found.copies, 'document has', 'documents have')} the text of an earlier"
                " one: listed with the first of each text only. --all-equal lists every pair"
            )
        if self.results.output is not None:
            self._write(found, waiting, self.results.output)
        elif self.as_json:
            for pair in waiting:
                value = getattr(pair, self.measure)
                ids = {"left": pair.left, "right": pair.right}
                output.print_json({**ids, self.measure: value, "equal": pair.equal})
        else:
            self._show_table(waiting, texts_of)

    def _write(self, found: SimilarPairs, pairs: Iterator[Pair], path: Path) -> None:
        kind = int if self.measure == "distance" else float
        columns = {"left": str, "right": str, self.measure: kind, "equal": bool}
        rows = ((pair.left, pair.right, getattr(pair, self.measure), pair.equal) for pair in pairs)
        written = write_rows(path, columns, rows)
        counts = {"documents": len(found.ids), "pairs": written}
        output.print_counts(
            counts, self.as_json, title=str(path), more={"output": str(path.resolve())}
        )

    def _show_table(
        self, pairs: Iterator[Pair], texts_of: Callable[[list[str]], list[str]]
    ) -> None:
        rows: list[tuple[str, str, str]] = []
        while some := list(itertools.islice(pairs, _FETCHED)):
            ids = sorted({id for pair in some for id in (pair.left, pair.right)})
            texts = dict(zip(ids, map(output.snippet, texts_of(ids)), strict=True))
            for pair in some:
                value = f"{pair.similarity:.3f}" if pair.distance is None else str(pair.distance)
                shown = f"{texts[pair.left]}\n{texts[pair.right]}"
                rows.append((value, f"{pair.left}\n{pair.right}", shown))
        if not rows:
            message("No similar pairs")
            return
        title = count(len(rows), "near-duplicate pair")
        columns: list[tuple[str, output.Kind]] = [
            (self.measure, "number"),
            ("documents", "key"),
            ("text", "line"),
        ]
        output.print_table(columns, rows, title)
