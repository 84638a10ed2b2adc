"""esdedup similar, query: the documents most like a text, and the search that finds them."""

from __future__ import annotations

import itertools
import json
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
    Recall,
    Target,
    Threshold,
    check_metric_options,
    with_target,
)
from esdedup.cli.output import answer, message, print_json, show, wants_json
from esdedup.exceptions import RecordError, UsageError
from esdedup.index import Index
from esdedup.ingest.files import STDIN, BadRecord, Record, read_records
from esdedup.models import Query, Result
from esdedup.search.limits import RECALL, Limits
from esdedup.search.warnings import lacking
from esdedup.stores.fields import text_of, value_at

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
Nearest = Annotated[
    bool,
    typer.Option(
        "--nearest",
        help="The k nearest by Jaccard similarity, however unlike, in place of a threshold.",
    ),
]
LargestBucket = Annotated[
    int | None,
    typer.Option(
        "--max-bucket",
        min=1,
        metavar="N",
        show_default="no limit",
        help="Leave out bands or segments that more documents share than that.",
    ),
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
    nearest: Nearest = False,
    distance: Distance = None,
    k: K = 10,
    recall: Recall = RECALL,
    candidates: CandidatesOption = 1_000,
    max_bucket: LargestBucket = None,
    filter: FilterOption = None,
    source: WithSource = False,
    as_json: AsJson = None,
) -> None:
    """Find the documents most similar to a text, a file, an indexed document, or many texts."""
    _check_one(text, file, id, batch)
    check_metric_options(metric, threshold, distance)
    wanted = _threshold(metric, threshold, nearest)
    if nearest and max_bucket is not None:
        raise UsageError("--max-bucket goes without --nearest")
    limits = Limits(metric, wanted, distance, k, candidates, recall, max_bucket)
    filters = _read_filters(filter)
    with target.open() as index:
        if batch is not None:
            _answer_all(index, batch, limits, filters, source)
            return
        query = index.query(_read(file) if file is not None else text, id, filters)
        (result,) = index.similar_many([query], limits)
        text_field = index.meta.text_field
        values = _has_values(index)
    if result.truncated:
        message(
            f"More than {candidates} candidates: the best {candidates} were"
            " verified, and a match may be missing. Raise --candidates"
        )
    if (lack := lacking(result, limits, values)) is not None:
        message(lack)
    if result.stopped:
        message(_what_was_stopped(result, metric))
    if wants_json(as_json):
        print_json(answer(result, id, source))
    else:
        show(result, limits, text_field)


@with_target
def query(
    target: Target,
    text: TextOption = None,
    file: FileOption = None,
    id: IdOption = None,
    metric: MetricOption = "jaccard",
    threshold: Threshold = None,
    nearest: Nearest = False,
    distance: Distance = None,
    recall: Recall = RECALL,
    candidates: CandidatesOption = 1_000,
    filter: FilterOption = None,
    collapse: Collapse = False,
) -> None:
    """Print the JSON body of the search for a text's candidates, for any client to send.

    A hit's score is the number of tokens that it shares with the text; hits share as many as the
    recall at the threshold allows to ask for.
    """
    _check_one(text, file, id)
    check_metric_options(metric, threshold, distance)
    wanted_threshold = _threshold(metric, threshold, nearest)
    limits = Limits(metric, wanted_threshold, distance, candidates=candidates, recall=recall)
    with target.open() as index:
        wanted = index.query(_read(file) if file is not None else text, id, _read_filters(filter))
        print_json(index.request_body(wanted, limits, collapse=collapse))
        if stop := index.meta.stop:
            message(f"What is in the index's stop list ({len(stop)} tokens) is not looked for")


def _what_was_stopped(result: Result, metric: str) -> str:
    parts = "bands" if metric == "jaccard" else "segments"
    if result.blind:
        return f"Nothing could be looked for: all {parts} of the text are in the stop list"
    missing = (
        "a match that shares only these is missing"
        if metric == "jaccard"
        else "matches within the distance may be missing"
    )
    return (
        f"{result.stopped} {parts} of the text were left out, as their buckets are in the stop list"
        f" or over --max-bucket: {missing}"
    )


def _read_filters(filters: list[str] | None) -> list[dict[str, Any]]:
    """The queries that --filter gives. Raises UsageError for what is no JSON object."""
    read = []
    for text in filters or ():
        try:
            found = json.loads(text)
        except ValueError as error:
            raise UsageError(f"--filter {text}: no JSON: {error}") from error
        if not isinstance(found, dict):
            raise UsageError(f'--filter {text}: use an object like {{"term": {{"field": "x"}}}}')
        read.append(found)
    return read


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
    bad = truncated = few = stopped = blind = 0
    lack: str | None = None
    values = _has_values(index)
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
            lack = lacking(result, limits, values)
            few += lack is not None
            stopped += result.stopped > 0
            blind += result.blind
            print_json(answer(result, name, with_source))
    if truncated:
        message(
            f"{truncated} texts had more candidates than {limits.candidates}: matches may be"
            " missing where an answer says truncated. Raise --candidates"
        )
    if lack is not None and limits.threshold is not None:
        message(lack)
    elif few:
        message(
            f"{few} texts have fewer than {limits.matches} matches, or may lack some: see"
            " expected_recall"
        )
    if stopped:
        message(
            f"{stopped} texts have buckets in the stop list or over --max-bucket, which were left"
            f" out; for {blind} nothing could be looked for"
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


def _threshold(metric: str, threshold: float | None, nearest: bool) -> float | None:
    """The threshold to look with: None for the nearest. Raises UsageError for options at odds."""
    if not nearest:
        return DEFAULT_THRESHOLD if threshold is None else threshold
    if metric == "hamming":
        raise UsageError("--nearest goes with --metric jaccard")
    if threshold is not None:
        raise UsageError("give one of --threshold and --nearest")
    return None


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: byte {error.start} is not valid UTF-8") from error


def _has_values(index: Index) -> bool:
    minhash = index.scheme.minhash
    return minhash is not None and minhash.signature > 0
