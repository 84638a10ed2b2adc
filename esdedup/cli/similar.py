"""esdedup similar: the documents most like a text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.cli.options import (
    AsJson,
    Distance,
    MetricOption,
    Target,
    Threshold,
    with_target,
)
from esdedup.cli.output import message, print_json, print_table, snippet, wants_json
from esdedup.datatypes import FIELD, Match, Result
from esdedup.exceptions import UsageError
from esdedup.fields import value_at
from esdedup.records import STDIN
from esdedup.search import Limits

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
WithSource = Annotated[
    bool, typer.Option("--source", help="With JSON: the fields of each match too.")
]


@with_target
def similar(
    target: Target,
    text: TextOption = None,
    file: FileOption = None,
    id: IdOption = None,
    metric: MetricOption = "jaccard",
    threshold: Threshold = 0.5,
    distance: Distance = None,
    k: K = 10,
    candidates: CandidatesOption = 1_000,
    source: WithSource = False,
    as_json: AsJson = None,
) -> None:
    """Find the documents most similar to a text, a file, or an indexed document."""
    if sum(given is not None for given in (text, file, id)) != 1:
        raise UsageError("give one of --text, --file and --id")
    check_metric_options(metric, threshold, distance)
    limits = Limits(metric, threshold, distance, k, candidates)
    with target.open() as index:
        query = index.query(_read(file) if file is not None else text, id)
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


def check_metric_options(metric: str, threshold: float, distance: int | None) -> None:
    """Raises UsageError for a limit that goes with the other metric."""
    if metric == "jaccard" and distance is not None:
        raise UsageError("--distance goes with --metric hamming")
    if metric == "hamming" and threshold != 0.5:
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
