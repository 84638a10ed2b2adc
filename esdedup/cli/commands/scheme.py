"""esdedup scheme: choose parameters, see what they promise and cost, write them to a file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from esdedup.analysis.feature_weights import (
    count_corpus,
    weighted_as_given,
    weighted_by_corpus,
    weighted_by_frequencies,
)
from esdedup.analysis.sampling import texts_of_index
from esdedup.cli.options import (
    CHANCE_SIMILARITY,
    MOST_DOCUMENTS,
    AsJson,
    Target,
    describe,
    with_target,
    write_scheme,
)
from esdedup.cli.output import message, print_json, print_table, progress, wants_json
from esdedup.exceptions import RecordError, UsageError
from esdedup.ingest.files import Record, read_records
from esdedup.models import MOST_SAMPLED
from esdedup.sketch.banding import choose_banding
from esdedup.sketch.minhash import MinHash
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.segments import parse_layout
from esdedup.sketch.simhash import SimHash, Weighting
from esdedup.sketch.weights import MAX_COUNTED, Frequencies
from esdedup.stores.fields import text_of
from esdedup.text.normalise import Form, Normalisation, normalise
from esdedup.text.shingles import Shingling

_TEXT, _MINHASH, _SIMHASH = "Text", "MinHash", "SimHash"
_CORPUS_BATCH = 2_000


@with_target
def scheme(
    target: Target,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write the scheme to.")
    ] = None,
    documents: Annotated[
        float, typer.Option(min=1, max=MOST_DOCUMENTS, help="Say the cost at so many documents.")
    ] = 1e6,
    chance: Annotated[
        float,
        typer.Option(min=0, max=1, help="Jaccard similarity of unrelated texts, for the cost."),
    ] = CHANCE_SIMILARITY,
    form: Annotated[
        Form, typer.Option("--normalise", rich_help_panel=_TEXT, help="Unicode normal form.")
    ] = "NFKC",
    casefold: Annotated[
        bool, typer.Option("--casefold/--no-casefold", rich_help_panel=_TEXT, help="Fold case.")
    ] = True,
    shingle: Annotated[
        str,
        typer.Option(rich_help_panel=_TEXT, help="word:N, char:N or jieba:N (Chinese words)."),
    ] = "word:3",
    stop_words: Annotated[
        Path | None, typer.Option(rich_help_panel=_TEXT, help="File of stop words, one a line.")
    ] = None,
    seed: Annotated[int, typer.Option(rich_help_panel=_TEXT, help="Key of all hashes.")] = 1,
    minhash: Annotated[
        bool, typer.Option("--minhash/--no-minhash", rich_help_panel=_MINHASH, help="Have bands.")
    ] = True,
    threshold: Annotated[
        float,
        typer.Option(rich_help_panel=_MINHASH, help="Jaccard similarity to be found ..."),
    ] = 0.5,
    recall: Annotated[
        float, typer.Option(rich_help_panel=_MINHASH, help="... with this probability.")
    ] = 0.95,
    permutations: Annotated[
        int, typer.Option(rich_help_panel=_MINHASH, help="Length of a signature.")
    ] = 128,
    bands: Annotated[
        int | None, typer.Option(rich_help_panel=_MINHASH, help="Bands; with --rows.")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(rich_help_panel=_MINHASH, help="Rows a band; with --bands.")
    ] = None,
    token_bits: Annotated[
        int, typer.Option(rich_help_panel=_MINHASH, help="Bits of a band token.")
    ] = 30,
    signature: Annotated[
        int,
        typer.Option(
            rich_help_panel=_MINHASH,
            help="Values of the signature to be tokens too, for similar --nearest, such as 128.",
        ),
    ] = 0,
    simhash: Annotated[
        bool,
        typer.Option("--simhash/--no-simhash", rich_help_panel=_SIMHASH, help="Have segments."),
    ] = True,
    segments: Annotated[
        str,
        typer.Option(
            rich_help_panel=_SIMHASH,
            help="Segments x bits, as 4x16, 2x32 or 4x32; or blocks and choice, as 6c3.",
        ),
    ] = "4x16",
    bits: Annotated[
        int, typer.Option(rich_help_panel=_SIMHASH, help="64 or 128, for blocks and choice.")
    ] = 64,
    features: Annotated[int, typer.Option(rich_help_panel=_SIMHASH, help="Tokens a feature.")] = 2,
    weighting: Annotated[
        Weighting, typer.Option(rich_help_panel=_SIMHASH, help="By occurrences, or each once.")
    ] = "tf",
    weights: Annotated[
        Path | None,
        typer.Option(
            rich_help_panel=_SIMHASH,
            help='JSON: {"weights": {feature: weight}} or'
            ' {"documents": N, "frequencies": {feature: documents}}.',
        ),
    ] = None,
    idf_from: Annotated[
        list[str] | None,
        typer.Option(rich_help_panel=_SIMHASH, help="Files to count document frequencies in."),
    ] = None,
    text_field: Annotated[
        str, typer.Option(rich_help_panel=_SIMHASH, help="Their field with the text.")
    ] = "text",
    idf_from_index: Annotated[
        bool,
        typer.Option(
            "--idf-from-index",
            rich_help_panel=_SIMHASH,
            help="Count document frequencies in the index that --url, --db and --index name.",
        ),
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_SAMPLED,
            rich_help_panel=_SIMHASH,
            show_default="all",
            help="Count them in so many random documents of it.",
        ),
    ] = None,
    as_json: AsJson = None,
) -> None:
    """Choose the parameters of an index, and see what they promise and cost.

    With --output, or in a pipe, the scheme is written for `esdedup index --scheme`.
    """
    made = Scheme(
        normalisation=Normalisation(form, casefold),
        shingling=_shingling(shingle, stop_words, Normalisation(form, casefold)),
        minhash=_minhash(threshold, recall, permutations, bands, rows, token_bits, signature)
        if minhash
        else None,
        simhash=SimHash(parse_layout(segments, bits), features, weighting) if simhash else None,
        seed=seed,
    )
    if [weights is not None, bool(idf_from), idf_from_index].count(True) > 1:
        raise UsageError("give one of --weights, --idf-from and --idf-from-index")
    if sample is not None and not idf_from_index:
        raise UsageError("--sample goes with --idf-from-index")
    if idf_from_index:
        made = _counted_in(target, made, sample)
    else:
        made = _weighted(made, weights, idf_from, text_field)
    if output is not None:
        write_scheme(output, made)
    if wants_json(as_json):
        print_json(made.to_json())
    else:
        print_table([("", "text"), ("", "text")], describe(made, documents, chance))


def _shingling(text: str, stop_words: Path | None, normalisation: Normalisation) -> Shingling:
    unit, colon, size = text.partition(":")
    if not colon or not size.isdecimal() or unit not in ("word", "char", "jieba"):
        raise UsageError(f"--shingle {text}: use word:N, char:N or jieba:N")
    words: list[str] = []
    if stop_words is not None:
        words = [line.strip() for line in _text_of_file(stop_words).splitlines() if line.strip()]
    chosen = tuple(normalise(words, normalisation))
    return Shingling(unit, int(size), chosen)  # type: ignore[arg-type]


def _minhash(
    threshold: float,
    recall: float,
    permutations: int,
    bands: int | None,
    rows: int | None,
    token_bits: int,
    signature: int,
) -> MinHash:
    if (bands is None) != (rows is None):
        raise UsageError("--bands and --rows go together")
    if bands is None or rows is None:
        bands, rows = choose_banding(threshold, recall, permutations)
    return MinHash(permutations, bands, rows, token_bits, signature)


def _weighted(
    scheme: Scheme, weights: Path | None, idf_from: list[str] | None, text_field: str
) -> Scheme:
    if idf_from:
        return _with_frequencies(scheme, count_corpus(scheme, _texts(idf_from, text_field)))
    if weights is None:
        return scheme
    table = _json_of_file(weights)
    try:
        if "weights" in table:
            return weighted_as_given(scheme, table["weights"], table.get("default", 1.0))
        return weighted_by_frequencies(scheme, table["frequencies"], table["documents"])
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f'--weights {weights}: give {{"weights": {{feature: weight}}}} or'
            ' {"documents": N, "frequencies": {feature: documents}}'
        ) from error


def _counted_in(target: Target, scheme: Scheme, sample: int | None) -> Scheme:
    with target.open() as index:
        total = index.statistics().sketched if sample is None else sample
        with progress("Counting features", total) as (advance, documents):
            read = 0

            def on_read(count: int) -> None:
                nonlocal read
                read += count
                advance(count)
                documents(read)

            texts = texts_of_index(index.store, index.meta, sample, on_read=on_read)
            counted = count_corpus(scheme, texts)
    if not counted.documents:
        raise UsageError(f"{index.store.where} has no texts to count features in")
    if read > counted.documents:
        message(f"{read - counted.documents:,} documents without a text were left out")
    return _with_frequencies(scheme, counted)


def _with_frequencies(scheme: Scheme, counted: Frequencies) -> Scheme:
    if counted.error:
        message(
            f"there are more than {MAX_COUNTED:,} different features, and the rarest were not"
            f" held: a count of documents may be too low by {counted.error:,} of"
            f" {counted.documents:,}"
        )
    return weighted_by_corpus(scheme, counted)


def _texts(files: list[str], text_field: str) -> Iterator[list[str]]:
    """The texts of files, in batches; records without a text are counted and left out."""
    texts, skipped = [], 0
    for record in itertools.chain.from_iterable(read_records(file) for file in files):
        try:
            if not isinstance(record, Record):
                raise RecordError(record.reason)
            texts.append(text_of(record.source, text_field))
        except RecordError:
            skipped += 1
        if len(texts) == _CORPUS_BATCH:
            yield texts
            texts = []
    yield texts
    if skipped:
        message(f"{skipped} records without a text in {text_field!r} were left out")


def _text_of_file(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _json_of_file(path: Path) -> Any:
    try:
        return json.loads(_text_of_file(path))
    except json.JSONDecodeError as error:
        raise UsageError(f"{path}: not valid JSON: {error}") from error
