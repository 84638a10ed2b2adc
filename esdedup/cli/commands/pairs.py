"""esdedup pairs: list all similar pairs of an index, or of files."""

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from typing import Annotated

from typer import Exit

from esdedup import Limits, Scheme, UsageError
from esdedup.cli import output
from esdedup.cli.command import argument, setting
from esdedup.cli.files import FORMATS, FileOptions, dead_letters, warn_of_records
from esdedup.cli.options import Target, as_json, check_limits, refuse
from esdedup.cli.output import count, message
from esdedup.cli.result_files import ResultFile
from esdedup.cli.surroundings import surroundings
from esdedup.files import (
    DeadLetterFile,
    PairRequest,
    ShareSizes,
    against_kind,
    total_bytes,
)
from esdedup.results import Pair, SimilarPairs

_SHOWN = 100
"""Pairs in a table."""
TextsOf = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class SetOptions:
    """Which documents are compared, and what is shown of them."""

    against: list[str] | None = setting(
        None, "Also compare FILES with these; may be repeated.", metavar="FILES", rare=True
    )
    only_between: bool = setting(
        False, "Compare with --against only, and not within FILES.", rare=True
    )
    source: list[str] | None = setting(
        None, "Field to show of both documents; may be repeated.", metavar="FIELD", rare=True
    )


def pairs_command(
    target: Target,
    limits: Annotated[Limits, "pairs"],
    of_files: FileOptions,
    results: ResultFile,
    sets: SetOptions,
    files: list[str] | None = argument(
        None, f"Read these instead of an index. {FORMATS}", metavar="[FILES]..."
    ),
    k: int | None = setting(
        None,
        "Maximum number of pairs to show.",
        "-k",
        bounds=(1, None),
        rare=True,
        show_default="100 in a table, all as JSON",
    ),
    as_json: bool = as_json(),
) -> None:
    """Find all pairs of similar documents, each once.

    Example: esdedup pairs news.jsonl --threshold 0.8

    Similarities are exact. Documents of equal text are listed once each, with the first of them.
    With FILES no index is created, and the bands are chosen for --threshold and --recall, unless
    --scheme sets them. --output - writes JSON lines to standard output.
    """
    to_file = results.output is not None and not results.is_standard_output
    if to_file and k is not None:
        raise UsageError("-k can't be combined with a file of --output, which has all pairs")

    def show(pairs: SimilarPairs, texts_of: TextsOf, scheme: Scheme | None) -> None:
        message(*pairs.warnings(limits))
        bound = output.in_brackets(_bound(pairs, limits, scheme))
        place = "file" if files else "index"
        message(output.repeated_ids(pairs.repeated, place))
        if pairs.copies and not sets.against:
            having = count(pairs.copies, "document has", "documents have")
            message(f"{having} the text of an earlier one: listed with the first of each text only")
        if results.is_standard_output:
            results.write_lines(pairs, k)
            message(f"{count(len(pairs), 'pair')} of {count(len(pairs.ids), 'document')}{bound}")
            _warn_of_others(pairs, k)
        elif results.output is not None:
            results.write(pairs)
            counts = {"documents": len(pairs.ids), "pairs": len(pairs)}
            details = {"output": str(results.output.resolve())}
            output.print_counts(counts, as_json, title=str(results.output), details=details)
        elif not as_json:
            _show_table(pairs, texts_of, _SHOWN if k is None else k, bound)
        else:
            for pair in itertools.islice(pairs, k):
                of_sets = {"in_against": pair.in_against} if pairs.of_against else {}
                output.print_json(
                    {**_line(pair), **_places(pair, place), **of_sets, **_sources(pair)}
                )
            _warn_of_others(pairs, k)

    if files:
        refuse([option.name for option in fields(Target)], "can't be combined with FILES")
        files = of_files.named(files)
        if not sets.against:
            refuse(["only_between"], "requires --against")
        for name in sets.against or []:
            if against_kind(name) != "files":
                raise UsageError(
                    f"--against {name}: pairs of files are compared with files only; esdedup"
                    " similar --batch compares files with an index"
                )
        sets = replace(sets, against=of_files.named(sets.against) if sets.against else None)
        inputs = [*files, *(sets.against or [])]
        letters = dead_letters(of_files.dead_letter, "pairs", inputs, results.named)
        if not results.is_standard_output:
            results.check()
        _in_files(files, of_files, sets, limits, letters, show)
        return
    of_sets = "requires FILES: esdedup similar --batch FILES compares files with an index"
    refuse(["against", "only_between"], of_sets)
    refuse([*(option.name for option in fields(FileOptions))], "requires FILES")
    if not results.is_standard_output:
        results.check()
    with target.open() as index:
        output.warn_before(index, limits)
        with output.Progress() as progress:
            pairs = index.pairs(source=sets.source or (), limits=limits, on_step=progress.step)
        show(pairs, index.texts_of(limits), index.scheme)


def _bound(pairs: SimilarPairs, limits: Limits, scheme: Scheme | None) -> str | None:
    """Return in words which pairs are listed. scheme: None if it follows from the limits."""
    settled = limits if scheme is None else scheme.chosen(limits).settled(limits)
    return pairs.measure.bound_of_pairs(settled)


def _in_files(
    files: list[str],
    of_files: FileOptions,
    sets: SetOptions,
    limits: Limits,
    dead_letter: DeadLetterFile,
    show: Callable[[SimilarPairs, TextsOf, Scheme | None], None],
) -> None:
    """Show the pairs of files. The exit status is 1 if records were skipped."""
    scheme, text_field = of_files.scheme_and_fields(limits.distance, cosine=limits.cosine)
    check_limits(scheme, limits)
    with dead_letter as letters, ExitStack() as opened:
        against = sets.against or []
        with output.Progress("Sketching", total_bytes([*files, *against])) as progress:
            request = PairRequest(
                files,
                of_files.reading(text_field or ["text"]),
                limits,
                letters,
                scheme,
                of_files.processes(files),
                surroundings().sizes or ShareSizes(),
                against,
                sets.only_between,
                sets.source or (),
            )
            running = request.run(progress.advance, progress.show, progress.step, progress.compare)
            pairs, read = opened.enter_context(running)
        without_words = int((~read.columns.filled).sum()) - pairs.blank
        warn_of_records(read.repeated, without_words)
        shown = pairs.measure.comparison.shown
        show(pairs, lambda ids: [*map(shown, read.texts_of(ids))], scheme)
        if read.failed:
            message(f"{read.failed} of {read.read} records were skipped: see {letters.path}")
            raise Exit(1)


def _warn_of_others(pairs: SimilarPairs, most: int | None) -> None:
    """Report how many pairs JSON lines leave out."""
    rows = len(pairs) if most is None else min(most, len(pairs))
    message(output.shown(rows, len(pairs), "pair", "without -k, all are"))


def _show_table(pairs: SimilarPairs, texts_of: TextsOf, most: int, bound: str) -> None:
    """Print the first pairs. bound: which values they have, in words."""
    first_pairs = list(itertools.islice(pairs, most))
    if not first_pairs:
        message(f"No similar pairs{bound}")
        return
    ids = sorted({id for pair in first_pairs for id in (pair.left, pair.right)})
    texts = dict(zip(ids, map(output.snippet, texts_of(ids)), strict=True))
    rows = [
        (
            _value(pair),
            f"{pair.left}\n{pair.right}",
            *_shown_fields(pair),
            f"{texts[pair.left]}\n{texts[pair.right]}",
        )
        for pair in first_pairs
    ]
    columns: list[tuple[str, output.Kind]] = [
        (pairs.measure.pair_title, "number"),
        ("documents", "key"),
        *((field, "text") for field in pairs.label_fields),
    ]
    title = f"{count(len(pairs), 'near-duplicate pair')}{bound}"
    output.print_table([*columns, ("text", "line")], rows, title)
    message(output.shown(len(rows), len(pairs), "pair", "-k N shows more, --json all"))


def _places(pair: Pair, place: str) -> dict[str, str]:
    """Return the files or indices of a pair's documents whose ids repeat. place: what they are."""
    left = output.index_of(f"left_{place}", pair.left_index)
    return left | output.index_of(f"right_{place}", pair.right_index)


def _line(pair: Pair) -> dict[str, object]:
    """Return a pair as JSON has it."""
    measure, value = pair.measure, pair.measure.typed(pair.value)
    line = {"left": pair.left, "right": pair.right, measure.column: value, "equal": pair.equal}
    shares = {"of_left": pair.of_left, "of_right": pair.of_right}
    return {**line, **{name: share for name, share in shares.items() if share is not None}}


def _sources(pair: Pair) -> dict[str, object]:
    """Return the fields to show of both documents, as JSON has them."""
    if pair.left_source is None:
        return {}
    return {"left_source": pair.left_source, "right_source": pair.right_source}


def _shown_fields(pair: Pair) -> list[str]:
    """Return the cells of the fields to show, of each both documents."""
    left, right = pair.left_source or {}, pair.right_source or {}
    return [
        "\n".join("-" if value is None else output.snippet(str(value)) for value in values)
        for values in zip(left.values(), right.values(), strict=True)
    ]


def _value(pair: Pair) -> str:
    """Return the measure of a pair; the share of each document on a line of its own."""
    if pair.of_left is not None:
        return f"{pair.of_left:.3f}\n{pair.of_right:.3f}"
    return pair.measure.text(pair.value)
