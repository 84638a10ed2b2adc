"""esdedup scheme: choose parameters, see their recall and cost, and write them to a file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from esdedup.analysis.describe import describe
from esdedup.analysis.feature_weights import count_corpus, weighted_by_corpus, weighted_by_table
from esdedup.analysis.sampling import texts_of_index
from esdedup.arguments import setting
from esdedup.cli.files import named_files
from esdedup.cli.options import Target, as_json
from esdedup.cli.output import message, print_json, print_table, steps, wants_json, write_page
from esdedup.exceptions import UsageError
from esdedup.models import MOST_SAMPLED
from esdedup.records.files import Record, read_records
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.segments import parse_layout
from esdedup.sketch.kinds.simhash import SimHash, Weighting
from esdedup.sketch.kinds.weights import MAX_COUNTED, Frequencies
from esdedup.sketch.scheme import Scheme
from esdedup.stores.fields import quoted, text_at
from esdedup.text.normalise import Form, Normalisation, normalise
from esdedup.text.shingles import Shingling

_CORPUS_BATCH = 2_000
MOST_DOCUMENTS = 1e15
output = setting(None, "File to write the scheme to.", "-o")


def scheme_command(
    target: Target,
    output: Path | None = output,
    threshold: float = setting(0.5, "Jaccard similarity to find ...", "-t"),
    # With one swap, the bands of the default scheme find this share.
    recall: float = setting(0.94, "... with this probability."),
    shingle: str = setting("word:3", "word:N, char:N or jieba:N (Chinese words)."),
    documents: float = setting(
        1e6, "Show the cost at this many documents.", min=1, max=MOST_DOCUMENTS
    ),
    form: Form = setting("NFKC", "Unicode normal form.", "--normalise", rare=True),
    casefold: bool = setting(True, "Fold case.", rare=True),
    stop_words: Path | None = setting(None, "File of stop words, one a line."),
    seed: int = setting(1, "Key of all hashes.", rare=True),
    minhash: bool = setting(True, "Compute bands.", rare=True),
    permutations: int = setting(128, "Length of a signature.", rare=True),
    bands: int | None = setting(None, "Number of bands; with --rows.", rare=True),
    rows: int | None = setting(None, "Rows of a band; with --bands.", rare=True),
    token_bits: int = setting(30, "Bits of a band's token.", rare=True),
    signature: int = setting(0, "Single values as tokens, for similar --nearest: 128."),
    simhash: bool = setting(True, "Compute segments."),
    segments: str = setting("4x16", "Segments x bits: 4x16, 2x32, 4x32."),
    features: int = setting(2, "Tokens of a feature.", rare=True),
    weighting: Weighting = setting("tf", "Weigh by occurrences, or each once.", rare=True),
    weights: Path | None = setting(None, "JSON file of weights or of frequencies."),
    idf_from: list[str] | None = setting(None, "Files to count document frequencies in."),
    text_field: list[str] | None = setting(
        None, "Field of these files with the text; may be repeated.", rare=True
    ),
    encoding: str | None = setting(None, "Encoding of these files.", rare=True),
    idf_from_index: bool = setting(False, "Count document frequencies in the index."),
    sample: int | None = setting(
        None, "Count in this many random documents.", min=1, max=MOST_SAMPLED, rare=True
    ),
    as_json: bool | None = as_json(),
) -> None:
    """Choose the parameters of an index, and show their recall and cost.

    Example: esdedup scheme --threshold 0.7 --shingle char:5 -o scheme.json

    With --output, or in a pipe, the scheme is written for esdedup index --scheme. A file for
    --weights holds {"weights": {FEATURE: WEIGHT}}, or
    {"documents": N, "frequencies": {FEATURE: DOCUMENTS}}.
    """
    normalisation = Normalisation(form, casefold)
    others: dict[str, Any] = {
        "normalisation": normalisation,
        "shingling": _shingling(shingle, stop_words, normalisation),
        "simhash": SimHash(parse_layout(segments), features, weighting) if simhash else None,
        "seed": seed,
    }
    if (bands is None) != (rows is None):
        raise UsageError("--bands and --rows require each other")
    if not minhash:
        made = Scheme(minhash=None, **others)
    elif bands is not None and rows is not None:
        made = Scheme(minhash=MinHash(permutations, bands, rows, token_bits, signature), **others)
    else:
        others |= {"permutations": permutations, "token_bits": token_bits, "signature": signature}
        made = Scheme.for_threshold(threshold, recall=recall, **others)
    if [weights is not None, bool(idf_from), idf_from_index].count(True) > 1:
        raise UsageError("use one of --weights, --idf-from and --idf-from-index")
    if sample is not None and not idf_from_index:
        raise UsageError("--sample requires --idf-from-index")
    if idf_from_index:
        made = _with_frequencies(made, _counted_in(target, made, sample))
    elif idf_from:
        texts = _texts(idf_from, text_field or ["text"], encoding)
        made = _with_frequencies(made, count_corpus(made, texts))
    elif weights is not None:
        made = _weighted(made, weights)
    write_scheme(output, made)
    if wants_json(as_json):
        print_json(made.to_json())
    else:
        print_table([("", "text"), ("", "text")], describe(made, documents))


def write_scheme(path: Path | None, scheme: Scheme) -> None:
    """Write a scheme file, if one is named. Raises UsageError if it can't be written."""
    if path is not None:
        write_page("--output", path, json.dumps(scheme.to_json(), ensure_ascii=False) + "\n")


def _shingling(text: str, stop_words: Path | None, normalisation: Normalisation) -> Shingling:
    unit, colon, size = text.partition(":")
    if not colon or not size.isdecimal() or unit not in ("word", "char", "jieba"):
        raise UsageError(f"--shingle {text}: use word:N, char:N or jieba:N")
    lines = [] if stop_words is None else _text_of_file(stop_words).splitlines()
    words = normalise([line.strip() for line in lines if line.strip()], normalisation)
    return Shingling(unit, int(size), tuple(words))  # type: ignore[arg-type]


def _weighted(scheme: Scheme, weights: Path) -> Scheme:
    try:
        return weighted_by_table(scheme, json.loads(_text_of_file(weights)))
    except json.JSONDecodeError as error:
        raise UsageError(f"{weights}: not valid JSON: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f'--weights {weights}: give {{"weights": {{feature: weight}}}} or'
            ' {"documents": N, "frequencies": {feature: documents}}'
        ) from error


def _counted_in(target: Target, scheme: Scheme, sample: int | None) -> Frequencies:
    read = 0
    with target.open() as index, steps() as on_step:
        total = index.statistics().sketched if sample is None else sample

        def on_read(done: int) -> None:
            nonlocal read
            read = done
            on_step("Counting features", done, total)

        texts = texts_of_index(index.store, index.meta, sample, on_read=on_read)
        counted = count_corpus(scheme, texts)
    if not counted.documents:
        raise UsageError(f"{index.store.where} has no texts to count features in")
    if (skipped := read - counted.documents) > 0:
        message(f"documents without a text were left out: {skipped:,}")
    return counted


def _with_frequencies(scheme: Scheme, counted: Frequencies) -> Scheme:
    if counted.error:
        message(
            f"there are more than {MAX_COUNTED:,} different features, and the rarest were not"
            f" held: a count of documents may be too low by {counted.error:,} of"
            f" {counted.documents:,}"
        )
    return weighted_by_corpus(scheme, counted)


def _texts(files: list[str], text_fields: list[str], encoding: str | None) -> Iterator[list[str]]:
    """The texts of files, in batches. Records without a text are counted and left out."""
    skipped = 0
    files = named_files(files, encoding=encoding)
    read = partial(read_records, encoding=encoding, columns=text_fields)
    records = itertools.chain.from_iterable(map(read, files))
    while batch := list(itertools.islice(records, _CORPUS_BATCH)):
        found = [text_at(each.source, text_fields) for each in batch if isinstance(each, Record)]
        texts = [text for text in found if text is not None]
        skipped += len(batch) - len(texts)
        yield texts
    if skipped:
        message(f"{skipped} records without a text in {quoted(text_fields)} were left out")


def _text_of_file(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
