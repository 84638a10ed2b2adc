"""esdedup pairs: list all similar pairs of an index, or of files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from click.exceptions import Exit

from esdedup.arguments import setting
from esdedup.cli import output
from esdedup.cli.command import option_of
from esdedup.cli.files import (
    FORMATS,
    FileOptions,
    dead_letters,
    total_bytes,
    warn_of_repeated,
    warn_without_words,
)
from esdedup.cli.options import Target, as_json, scheme_in, typed
from esdedup.cli.output import count, message
from esdedup.cli.result_files import ResultFile, write_rows
from esdedup.exceptions import UsageError
from esdedup.models import Pair
from esdedup.pairing.file_pairs import pairs_in_files
from esdedup.pairing.pairs import SimilarPairs
from esdedup.pairing.scan import WorkFolder
from esdedup.pairing.verify import texts_in
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.stores.mapping import IndexMeta


def pairs_command(
    target: Target,
    limits: Annotated[Limits, "pairs"],
    of_files: FileOptions,
    results: ResultFile,
    files: list[str] | None = setting(
        None, f"Read these instead of an index. {FORMATS}", argument=True, metavar="[FILES]..."
    ),
    all_equal: bool = setting(False, "List every pair of equal texts."),
    k: int = setting(100, "Maximum number of pairs in a table.", "-k", min=1, rare=True),
    as_json: bool | None = as_json(),
) -> None:
    """Find all pairs of similar documents, each once.

    Example: esdedup pairs news.jsonl --threshold 0.8

    Similarities are exact. Documents of equal text are listed once each, with the first of them.
    With FILES no index is created, and the bands are chosen for --threshold and --recall, unless
    --scheme sets them.
    """
    answer = _Answer(limits, all_equal, results, output.wants_json(as_json), k)
    if files:
        for option in fields(Target):
            if typed(option.name):
                raise UsageError(f"{option_of(option.name)} can't be combined with FILES")
        _in_files(files, of_files, answer)
        return
    of_files.refuse()
    results.check()
    with target.open() as index:
        output.warn_before(index, limits)
        with output.steps() as on_step:
            found = index.pairs(limits=limits, on_step=on_step)
        answer.show(found, texts_in(index.store, index.meta.text_fields))


def _in_files(files: list[str], of: FileOptions, answer: _Answer) -> None:
    """Show the pairs of files. The exit status is 1 if records were skipped."""
    files, limits = of.named(files), answer.limits
    answer.results.check(files)
    scheme = scheme_in(of.scheme) or Scheme().for_texts(limits)
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
            message(f"{read.failed} of {read.read} records were skipped: see {letters.path}")
            raise Exit(1)


@dataclass(frozen=True)
class _Answer:
    """Prints the pairs, or writes them to a file and prints their number.

    results: the file, if any. as_json: print JSON, not tables. most: pairs of a table.
    """

    limits: Limits
    all_equal: bool
    results: ResultFile
    as_json: bool
    most: int

    def show(self, found: SimilarPairs, texts_of: Callable[[list[str]], list[str]]) -> None:
        output.warn_after(found.recall, found.capped, self.limits)
        measure = "similarity" if found.metric == "jaccard" else "distance"
        waiting = found.every() if self.all_equal else iter(found)
        if found.copies and not self.all_equal:
            message(
                f"{count(found.copies, 'document has', 'documents have')} the text of an earlier"
                " one: listed with the first of each text only. --all-equal lists every pair"
            )
        if self.results.output is not None:
            self._write(found, waiting, self.results.output, measure)
        elif self.as_json:
            for pair in waiting:
                value = getattr(pair, measure)
                ids = {"left": pair.left, "right": pair.right}
                output.print_json({**ids, measure: value, "equal": pair.equal})
        else:
            self._show_table(waiting, texts_of, measure)

    def _write(self, found: SimilarPairs, pairs: Iterator[Pair], path: Path, measure: str) -> None:
        kind = int if measure == "distance" else float
        columns = {"left": str, "right": str, measure: kind, "equal": bool}
        rows = ((pair.left, pair.right, getattr(pair, measure), pair.equal) for pair in pairs)
        written = write_rows(path, columns, rows)
        counts = {"documents": len(found.ids), "pairs": written}
        output.print_counts(
            counts, self.as_json, title=str(path), more={"output": str(path.resolve())}
        )

    def _show_table(
        self,
        pairs: Iterator[Pair],
        texts_of: Callable[[list[str]], list[str]],
        measure: str,
    ) -> None:
        rows: list[tuple[str, str, str]] = []
        some = list(itertools.islice(pairs, self.most))
        if not some:
            message("No similar pairs")
            return
        ids = sorted({id for pair in some for id in (pair.left, pair.right)})
        texts = dict(zip(ids, map(output.snippet, texts_of(ids)), strict=True))
        for pair in some:
            value = f"{pair.similarity:.3f}" if pair.distance is None else str(pair.distance)
            shown = f"{texts[pair.left]}\n{texts[pair.right]}"
            rows.append((value, f"{pair.left}\n{pair.right}", shown))
        total = len(rows) + sum(1 for _ in pairs)
        title = count(total, "near-duplicate pair")
        columns: list[tuple[str, output.Kind]] = [
            (measure, "number"),
            ("documents", "key"),
            ("text", "line"),
        ]
        output.print_table(columns, rows, title)
        output.warn(output.shown(len(rows), total, "pair", "-k N shows more, --json all"))
