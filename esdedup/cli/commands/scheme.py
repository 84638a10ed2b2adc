"""esdedup scheme: choose parameters, see their recall and cost, and write them to a file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from esdedup.analysis.describe import describe
from esdedup.arguments import setting
from esdedup.cli.files import named_files
from esdedup.cli.options import Target, as_json
from esdedup.cli.output import message, print_json, print_table, wants_json, write_page
from esdedup.exceptions import UsageError
from esdedup.records.files import Record, read_records
from esdedup.sketch.kinds.minhash import MinHash
from esdedup.sketch.kinds.segments import parse_segments
from esdedup.sketch.kinds.signature import Signature
from esdedup.sketch.kinds.simhash import SimHash, Weighting
from esdedup.sketch.kinds.weights import inverse_document_frequency
from esdedup.sketch.scheme import Scheme
from esdedup.sketch.sketch import features_of
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
    simhash: bool = setting(True, "Compute segments."),
    permutations: int = setting(128, "Length of a signature.", rare=True),
    bands: int | None = setting(None, "Number of bands; with --rows.", rare=True),
    rows: int | None = setting(None, "Rows of a band; with --bands.", rare=True),
    token_bits: int = setting(30, "Bits of a band's token.", rare=True),
    signature: int = setting(0, "Single values as tokens, for similar --nearest: 128."),
    segments: str = setting("4x16", "SimHash segments x bits: 4x16, 2x32, 4x32."),
    features: int = setting(2, "Tokens of a SimHash feature.", rare=True),
    weighting: Weighting = setting("tf", "Weigh by occurrences, or each once.", rare=True),
    idf_from: list[str] | None = setting(
        None, "Weigh features by their document frequencies in these files."
    ),
    text_field: list[str] | None = setting(
        None, "Field of these files with the text; may be repeated.", rare=True
    ),
    encoding: str | None = setting(None, "Encoding of these files.", rare=True),
    as_json: bool | None = as_json(),
) -> None:
    """Choose the parameters of an index, and show their recall and cost.

    Example: esdedup scheme --threshold 0.7 --shingle char:5 -o scheme.json

    With --output, or in a pipe, the scheme is written for esdedup index --scheme. Its list of
    sketches may be changed there: the first one is the default, and each has a name.
    """
    normalisation = Normalisation(form, casefold)
    others: dict[str, Any] = {
        "normalisation": normalisation,
        "shingling": _shingling(shingle, stop_words, normalisation),
        "seed": seed,
    }
    segmented = SimHash(*parse_segments(segments), features, weighting)
    if idf_from:
        texts = _texts(idf_from, text_field or ["text"], encoding)
        plain = Scheme((segmented,), **others)
        counted = (features_of(batch, plain, features) for batch in texts)
        segmented = replace(segmented, table=inverse_document_frequency(counted))
    more = [*([Signature(signature)] if signature else []), *([segmented] if simhash else [])]
    if (bands is None) != (rows is None):
        raise UsageError("--bands and --rows require each other")
    if not minhash:
        made = Scheme(more, **others)
    elif bands is not None and rows is not None:
        made = Scheme([MinHash(permutations, bands, rows, token_bits), *more], **others)
    else:
        others |= {"permutations": permutations, "token_bits": token_bits, "sketches": more}
        made = Scheme.for_threshold(threshold, recall=recall, **others)
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
