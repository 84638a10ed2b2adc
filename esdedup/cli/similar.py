"""esdedup similar, query: the documents most like a text, and the search that finds them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.cli.options import (
    DEFAULT_THRESHOLD,
    AsJson,
    Distance,
    FilterOption,
    MetricOption,
    Target,
    Threshold,
    read_filters,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, snippet, wants_json
from esdedup.datatypes import FIELD, Match, Result
from esdedup.exceptions import RecordError, UsageError
from esdedup.fields import text_of, value_at
from esdedup.index import Index
from esdedup.records import STDIN, BadRecord, Record, read_records
from esdedup.search import Limits, Query

_QUERIES_AT_ONCE = 500

TextOption = Annotated[str | None, typer.Option("--text", help="The text itself.")]
FileOption = Annotated[
    str | None, typer.Option("--file", help="A file that holds the text; - for standard input.")
]
IdOption = Annotated[str | None, typer.Option("--id", help="The id of an indexed document.")]
K = Annotated[int, typer.Option("-k", min=1, help="At most so many matches.")]
CandidatesOption = Annotated[
    int,
    typer.Option("--candidates", min=1, max=10_000, help="Candidates to verify, at most."),
]
Batch = Annotated[
    str | None,
    typer.Option(
        "--batch",
        metavar="FILE",
        help="A file of texts, in the formats that index takes; - for standard input. The answers"
        " come in its order.",
    ),
]
Collapse = Annotated[
    bool,
    typer.Option("--collapse", help="Only the best of each group (index --on-duplicate mark)."),
]
WithSource = Annotated[
    bool, typer.Option("--source", help="With JSON: the fields of each match too.")
]


@with_target
def similar(
    target: Target,
    text: TextOption = None,
    file: FileOption = None,
    id: IdOption = None,
    batch: Batch = None,
    metric: MetricOption = "jaccard",
    threshold: Threshold = None,
    distance: Distance = None,
    k: K = 10,
    candidates: CandidatesOption = 1_000,
    filter: FilterOption = None,
    source: WithSource = False,
    as_json: AsJson = None,
) -> None:
    """Find the documents most similar to a text, a file, an indexed document, or many texts."""
    _check_one(text, file, id, batch)
    check_metric_options(metric, threshold, distance)
    least = DEFAULT_THRESHOLD if threshold is None else threshold
    limits = Limits(metric, least, distance, k, candidates)
    filters = read_filters(filter)
    with target.open() as index:
        if batch is not None:
            _answer_all(index, batch, limits, filters, source)
            return
        query = index.query(_read(file) if file is not None else text, id, filters)
        (result,) = index.similar_many([query], limits)
        text_field = index.meta.text_field
    if result.truncated:
        message(
            f"More than {result.candidates} candidates: the best {result.candidates} were"
            " verified, and a match may be missing. Raise --candidates"
        )
    if wants_json(as_json):
        print_json(_document(result, id, source))
    else:
        _show(result.matches, text_field)


@with_target
def query(
    target: Target,
    text: TextOption = None,
    file: FileOption = None,
    id: IdOption = None,
    metric: MetricOption = "jaccard",
    distance: Distance = None,
    candidates: CandidatesOption = 1_000,
    filter: FilterOption = None,
    collapse: Collapse = False,
) -> None:
    """Print the JSON body of the search for a text's candidates, for any client to send.

    A hit's score is the number of tokens that it shares with the text.
    """
    _check_one(text, file, id)
    check_metric_options(metric, None, distance)
    limits = Limits(metric, distance=distance, candidates=candidates)
    with target.open() as index:
        wanted = index.query(_read(file) if file is not None else text, id, read_filters(filter))
        print_json(index.request_body(wanted, limits, collapse=collapse))


def _check_one(*given: str | None) -> None:
    if sum(value is not None for value in given) != 1:
        names = ["--text", "--file", "--id", "--batch"][: len(given)]
        raise UsageError(f"give one of {', '.join(names[:-1])} and {names[-1]}")


def _answer_all(
    index: Index, file: str, limits: Limits, filters: list[dict[str, Any]], with_source: bool
) -> None:
    """A line of JSON for each text of a file."""
    if file != STDIN and not Path(file).is_file():
        raise UsageError(f"{file}: there is no such file")
    bad = truncated = 0
    for some in _chunks(read_records(file, None, lambda _: None)):
        queries: list[tuple[str, Query]] = []
        for record in some:
            try:
                queries.append(_query_of(record, index.meta.text_field, filters))
            except RecordError as error:
                bad += 1
                message(f"{record.file}:{record.line}: {error}")
        results = index.similar_many([query for _, query in queries], limits)
        for (name, _), result in zip(queries, results, strict=True):
            truncated += result.truncated
            print_json(_document(result, name, with_source))
    if truncated:
        message(
            f"{truncated} texts had more candidates than {limits.candidates}: matches may be"
            " missing where an answer says truncated. Raise --candidates"
        )
    if bad:
        message(f"{bad} records were not looked for")
        raise typer.Exit(1)


def _query_of(
    record: Record | BadRecord, text_field: str, filters: list[dict[str, Any]]
) -> tuple[str, Query]:
    """The query of a record, with its name: its id, which is left out of its own matches."""
    if isinstance(record, BadRecord):
        raise RecordError(record.reason)
    text, id = text_of(record.source, text_field), value_at(record.source, "id")
    named = isinstance(id, (str, int)) and not isinstance(id, bool)
    name = str(id) if named else f"{record.file}:{record.line}"
    return name, Query(text, name if named else None, filters)


def _chunks(records: Iterable[Record | BadRecord]) -> Iterator[list[Record | BadRecord]]:
    source = iter(records)
    while some := list(itertools.islice(source, _QUERIES_AT_ONCE)):
        yield some


def check_metric_options(metric: str, threshold: float | None, distance: int | None) -> None:
    """Raises UsageError for a limit that goes with the other metric."""
    if metric == "jaccard" and distance is not None:
        raise UsageError("--distance goes with --metric hamming")
    if metric == "hamming" and threshold is not None:
        raise UsageError("--threshold goes with --metric jaccard")


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: byte {error.start} is not valid UTF-8") from error


def _document(result: Result, id: str | None, with_source: bool) -> dict[str, Any]:
    return {
        "query": id,
        "matches": [_match(match, with_source) for match in result.matches],
        "candidates": result.candidates,
        "truncated": result.truncated,
    }


def _match(match: Match, with_source: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"id": match.id}
    if match.similarity is not None:
        document["similarity"] = match.similarity
    else:
        document["distance"] = match.distance
    document["matched"] = match.matched
    if with_source:
        document["source"] = {name: value for name, value in match.source.items() if name != FIELD}
    return document


def _show(matches: list[Match], text_field: str) -> None:
    if not matches:
        message("No similar documents")
        return
    by_distance = matches[0].similarity is None
    print_table(
        [
            ("distance" if by_distance else "similarity", "number"),
            ("id", "key"),
            ("text", "line"),
        ],
        [
            (
                str(match.distance) if by_distance else f"{match.similarity:.3f}",
                match.id,
                snippet(value_at(match.source, text_field)),
            )
            for match in matches
        ],
    )
