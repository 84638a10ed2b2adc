"""esdedup similar, query: find the documents most similar to a text, or print the search."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Annotated, Any

from typer import Exit

from esdedup import Index, Limits, Query, UsageError
from esdedup.cli import options, output
from esdedup.cli.command import setting
from esdedup.cli.files import FileOptions, Reasons
from esdedup.cli.options import Target, as_json, check_limits, typed
from esdedup.cli.output import count, message, print_json
from esdedup.results import Match, Result

_SHOWN = 100
"""Matches in a table of many texts."""
_LEFT_OUT = "The document of the same id and text is left out: --other-set lists it"
TextAt = Callable[[Mapping[str, object]], str | None]


@dataclass(frozen=True)
class SearchOptions:
    """The options that name the text to search for."""

    text: str | None = setting(None, "The text itself.")
    file: str | None = setting(
        None, "A file that holds the text; - is standard input.", metavar="FILE"
    )
    encoding: str | None = setting(
        None, "Encoding of files.", rare=True, show_default="UTF-8", metavar="NAME"
    )
    id: str | None = setting(None, "The id of an indexed document.", metavar="ID")
    bits: str | None = setting(None, "A fingerprint, as the field of --sketch holds it.")
    vector: str | None = setting(
        None, "A vector, as the field of --sketch holds it, or JSON.", rare=True
    )
    nearest: bool = setting(False, "Find the k nearest documents: no threshold.")
    filter: list[str] | None = setting(
        None, "A query that matches must meet too; may be repeated.", metavar="JSON"
    )

    def limits(
        self, limits: Limits, other_texts: Mapping[str, str | None] = MappingProxyType({})
    ) -> Limits:
        """Return the limits, without the threshold for --nearest.

        other_texts: values of a command's further options that name what to search for.
        """
        texts = {"text": self.text, "file": self.file, "id": self.id}
        texts |= {"bits": self.bits, "vector": self.vector}
        texts |= other_texts
        if sum(value is not None for value in texts.values()) != 1:
            *names, last = (f"--{name}" for name in texts)
            raise UsageError(f"use one of {', '.join(names)} and {last}")
        if self.nearest and typed("threshold"):
            raise UsageError("--nearest can't be combined with --threshold")
        return replace(limits, threshold=None) if self.nearest else limits

    def chosen(self, index: Index, limits: Limits) -> Limits:
        """Return the limits, with the sketch of fingerprints, or of vectors, that is searched."""
        if (self.bits is None and self.vector is None) or limits.sketch is not None:
            return limits
        option, limit, values = "--bits", "distance", "fingerprints"
        if self.vector is not None:
            option, limit, values = "--vector", "cosine", "vectors"
        names = [
            kind.name
            for kind in index.scheme.sketches
            if kind.reads_values and kind.measure.limit == limit
        ]
        if len(names) != 1:
            advice = f"name one by --sketch: {', '.join(names)}" if names else "use --text"
            raise UsageError(f"{option}: the index has {len(names)} fields of {values}: {advice}")
        return replace(limits, sketch=names[0])

    def query(self, index: Index, limits: Limits) -> Query:
        """Return the query by the text, the file, the fingerprint, the vector or the id."""
        texts = {"--text": self.text, "--id": self.id, "--bits": self.bits}
        for option, value in {**texts, "--vector": self.vector}.items():
            if value is not None and value.encode(errors="ignore").decode() != value:
                raise UsageError(f"{option}: not of the locale's encoding: set LC_ALL=C.UTF-8")
        text = self.text or self.bits or self.vector
        if self.file is not None:
            text = index.text_in_file(self.file, self.encoding)
        return index.query(text, self.id, self.filters(), limits.sketch, limits.within)

    def filters(self) -> list[dict[str, Any]]:
        """Return the queries of --filter. Raises UsageError if one is not a JSON object."""
        read = []
        for text in self.filter or ():
            try:
                read.append(json.loads(text))
            except ValueError as error:
                raise UsageError(f"--filter {text}: not valid JSON: {error}") from error
            if not isinstance(read[-1], dict):
                raise UsageError(
                    f'--filter {text}: use an object like {{"term": {{"field": "x"}}}}'
                )
        return read


def similar_command(
    target: Target,
    search: SearchOptions,
    limits: Annotated[Limits, "query"],
    batch: str | None = setting(
        None, "Many texts: a file, folder or pattern, as index reads it.", metavar="FILE"
    ),
    other_set: bool = setting(
        False, "With --batch: list equal documents of the same ids too.", rare=True
    ),
    delimiter: str | None = options.delimiter(),
    source: bool = setting(False, "With JSON: include the fields of each match."),
    as_json: bool = as_json(),
) -> None:
    """Find the documents most similar to a text.

    Example: esdedup similar -i news --text "The council met on Monday"

    Name the text, a file that holds it, a fingerprint (--bits), a vector (--vector), the id of a
    document, or many texts (--batch).
    """
    limits = search.limits(limits, {"batch": batch})
    if batch is None and delimiter is not None:
        raise UsageError("--delimiter requires --batch")
    if batch is None and other_set:
        raise UsageError("--other-set requires --batch")
    with target.open() as index:
        if batch is not None:
            shown = _BatchOutput(as_json, source)
            texts = _BatchInput(batch, delimiter, other_set)
            _answer_all(index, texts, limits, search, shown)
            return
        limits = search.chosen(index, limits)
        query = search.query(index, limits)
        (result,) = index.similar_many([query], limits)
        meta, chosen = index.meta_of(limits), index.scheme.chosen(limits)
        check_limits(index.scheme, limits)
        warnings = index.warnings(result, limits, query)
    message(*warnings)
    if as_json:
        print_json(_as_json(result, search.id, source))
        return
    measure = chosen.measure
    bound = measure.bound_of_query(chosen.settled(limits))
    if not result.matches:
        message(f"No similar documents{output.in_brackets(bound)}")
        return
    rows = [
        (*_measured(match), match.id, output.snippet(_shown(match, meta.shown_text(match.source))))
        for match in result.matches
    ]
    columns: list[tuple[str, output.Kind]]
    columns = [(name, "number") for name in measure.query_columns]
    output.print_table([*columns, ("id", "key"), ("text", "line")], rows, bound)
    total = len(rows) if result.total is None else result.total
    message(output.shown(len(rows), total, "match", f"-k {total} shows all", "matches"))


def query_command(
    target: Target,
    search: SearchOptions,
    limits: Annotated[Limits, "query"],
    collapse: bool = setting(False, "Return only the best document of each group."),
) -> None:
    """Print the search for a text's candidates as JSON.

    Example: esdedup query -i news --id 17 --collapse

    Any client can send it. The score of a hit is the number of tokens that it shares with the text.
    Hits share as many as the recall at the threshold requires.
    """
    limits = search.limits(limits)
    with target.open() as index:
        limits = search.chosen(index, limits)
        check_limits(index.scheme, limits)
        query = search.query(index, limits)
        print_json(index.request_body_of(query, limits, collapse=collapse))
        message(index.store.unattached().warning)
        if stop := index.meta.stop:
            message(f"The search skips the stop list of the index ({count(len(stop), 'token')})")


def _measured(match: Match) -> tuple[str, ...]:
    """Return the measures of a match, in the order of `Measure.query_columns`."""
    if match.cover is not None:
        shares = (match.cover.of_query, match.cover.of_document)
        return f"{match.cover.words:,}", *(f"{share:.2f}" for share in shares)
    return (match.measure.text(match.value),)


def _shown(match: Match, text: str | None) -> str | None:
    """Return the text of a match, from its longest passage on."""
    if text is None or match.cover is None or not match.cover.passages:
        return text
    start, end = max(match.cover.passages, key=lambda passage: passage.words).document_span
    return text[start:end]


def _as_json(result: Result, id: str | None, with_source: bool) -> dict[str, Any]:
    matches = []
    for match in result.matches:
        measure = match.measure
        value: dict[str, Any] = {measure.column: measure.typed(match.value)}
        if match.cover is not None:
            value = {measure.name: asdict(match.cover)}
        line = {"id": match.id, **value, "matched": match.matched}
        line |= output.index_of("index", match.index)
        if with_source:
            line["source"] = dict(match.source)
        matches.append(line)
    return {
        "query": id,
        "matches": matches,
        "matches_total": result.total,
        "candidates": result.candidates,
        "truncated": result.truncated,
        "expected_recall": result.recall,
        "asked": result.asked,
        "stopped": result.stopped,
        "guarantee": result.guarantee,
        **output.unattached_of(result.unattached),
    }


@dataclass(frozen=True)
class _BatchInput:
    """Many texts to search for.

    file: a file, folder or pattern.
    delimiter: of CSV.
    other_set: none of them is of a document of the index.
    """

    file: str
    delimiter: str | None
    other_set: bool


@dataclass
class _BatchOutput:
    """Shows the results of many texts.

    as_json: as a line of JSON each, or a table of the first matches.
    with_source: with the fields of each match, in JSON.
    rows: of the table.
    matches: number of all.
    """

    as_json: bool
    with_source: bool
    rows: list[tuple[str, ...]] = field(default_factory=list)
    matches: int = 0

    def add(self, name: str, result: Result, text_at: TextAt) -> None:
        """Print the result of a text, or keep it for the table. text_at: of a match's fields."""
        if self.as_json:
            print_json(_as_json(result, name, self.with_source))
            return
        self.matches += len(result.matches)
        for match in result.matches[: _SHOWN - len(self.rows)]:
            text = output.snippet(_shown(match, text_at(match.source)))
            self.rows.append((name, *_measured(match), match.id, text))

    def print(self, values: Sequence[str], title: str | None) -> None:
        """Print the table, if there is one. values: titles of columns. title: which match."""
        if self.as_json:
            return
        if not self.rows:
            message(f"No similar documents{output.in_brackets(title)}")
            return
        columns: list[tuple[str, output.Kind]] = [("query", "key")]
        columns += [(name, "number") for name in values]
        output.print_table([*columns, ("id", "key"), ("text", "line")], self.rows, title)
        advice = "--json shows all"
        message(output.shown(len(self.rows), self.matches, "match", advice, "matches"))


def _answer_all(
    index: Index,
    texts: _BatchInput,
    limits: Limits,
    search: SearchOptions,
    shown: _BatchOutput,
) -> None:
    """Show the result of each text."""
    reasons = Reasons("... and more")
    texts_by_warning: Counter[str] = Counter()
    answered, left_out = 0, 0
    check_limits(index.scheme, limits)
    text_at, chosen = index.meta_of(limits).shown_text, index.scheme.chosen(limits)
    filters, encoding, delimiter = search.filters(), search.encoding, texts.delimiter
    files = FileOptions(encoding=encoding, delimiter=delimiter).named([texts.file])
    for batch in index.queries_in_files(
        files, limits, filters, encoding, delimiter, other_set=texts.other_set
    ):
        queries: list[tuple[str, Query]] = []
        for record in batch:
            if record.query is None:
                reasons.show(record.record, record.reason)
            else:
                queries.append((record.name, record.query))
        results = index.similar_many([query for _, query in queries], limits)
        for (name, query), result in zip(queries, results, strict=True):
            shown.add(name, result, text_at)
            texts_by_warning.update(index.warnings_of_many(result, limits, query))
            answered += 1
        left_out += sum(record.leaves_out_itself for record in batch)
    shown.print(chosen.measure.query_columns, chosen.measure.bound_of_query(chosen.settled(limits)))
    for warning, number in texts_by_warning.items():
        message(f"{number:,} of {count(answered, 'text')}: {warning}")
    if left_out:
        message(f"{left_out:,} of {count(answered, 'text')}: {_LEFT_OUT}")
    if reasons.count:
        message(f"{count(reasons.count, 'record')} skipped")
        raise Exit(1)
