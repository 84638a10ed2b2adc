"""esdedup scheme: choose parameters, show their recall and cost, and write them to a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from esdedup.analysis.describe import CHANCE_SIMILARITY, describe
from esdedup.analysis.distribution import BINS, bars, similarity_histogram
from esdedup.analysis.sampling import Sampled, sample_neighbours
from esdedup.analysis.to_json import to_json
from esdedup.analysis.tuning import Choice, choices, meeting, unrelated
from esdedup.arguments import setting
from esdedup.cli.options import Target, as_json, scheme_in
from esdedup.cli.output import (
    Kind,
    message,
    only_plain,
    print_json,
    print_table,
    steps,
    wants_json,
    write_page,
)
from esdedup.exceptions import UsageError
from esdedup.models import MOST_SAMPLED
from esdedup.sketch.banding import bands_needed
from esdedup.sketch.kinds.bands import MOST_PERMUTATIONS
from esdedup.sketch.kinds.base import Sketch
from esdedup.sketch.kinds.segments import parse_segments
from esdedup.sketch.kinds.signature import Signature
from esdedup.sketch.kinds.simhash import SimHash
from esdedup.sketch.limits import Limits
from esdedup.sketch.scheme import Scheme
from esdedup.text.normalise import normalise
from esdedup.text.shingles import Shingling

_BINS = 50
_PERCENT_A_BLOCK = 6.25


def scheme_command(
    target: Target,
    output: Path | None = setting(None, "File to write the scheme to.", "-o"),
    threshold: float = setting(0.5, "Jaccard similarity to find ...", "-t"),
    # With one swap, the bands of the default scheme find this share.
    recall: float = setting(0.94, "... with this probability."),
    sample: int | None = setting(
        None, "Measure the cost on this many documents of the index.", min=2, max=MOST_SAMPLED
    ),
    documents: float | None = setting(
        None,
        "Show the cost at this many documents.",
        min=1,
        max=1e15,
        show_default="the index's, or 1e6",
    ),
    scheme: Path | None = setting(
        None, "Scheme file to change.", show_default="the index's, or the default one"
    ),
    shingle: str | None = setting(
        None, "word:N, char:N or jieba:N (Chinese words).", show_default="word:3"
    ),
    stop_words: Path | None = setting(None, "File of stop words, one a line."),
    signature: int | None = setting(
        None, "Single values as tokens, for similar --nearest: 128.", show_default="none"
    ),
    simhash: bool = setting(True, "Compute segments."),
    segments: str | None = setting(
        None, "SimHash segments x bits: 4x16, 2x32, 4x32.", show_default="4x16"
    ),
    features: int | None = setting(None, "Size of SimHash features.", rare=True, show_default="2"),
    bands: int | None = setting(None, "Number of bands; requires --rows.", rare=True),
    rows: int | None = setting(
        None, "Rows of a band.", rare=True, show_default="the most that reach the recall"
    ),
    permutations: int | None = setting(
        None, "Length of a signature.", min=1, max=MOST_PERMUTATIONS, rare=True
    ),
    seed: int | None = setting(None, "Key of all hashes.", rare=True, show_default="1"),
    as_json: bool | None = as_json(),
) -> None:
    """Choose the parameters of an index, and show their recall and cost.

    Example: esdedup scheme --threshold 0.7 --shingle char:5 -o scheme.json

    With --output, or in a pipe, the scheme is written for esdedup index --scheme. Everything else,
    such as the normal form and the names of sketches, can be changed in that file: the first sketch
    is the default one. With --sample, the figures are of the documents of an index.
    """
    if sample is not None and (scheme or shingle or stop_words or seed is not None):
        raise UsageError(
            "--sample measures the index's own scheme: leave out --scheme, --shingle, --stop-words"
            " and --seed"
        )
    if bands is not None and (rows is None or sample is not None):
        raise UsageError("--bands requires --rows, and can't be combined with --sample")
    base, sampled = scheme_in(scheme) or Scheme(), None
    neighbours = unrelated(documents or 1e6, CHANCE_SIMILARITY)
    if sample is not None:
        base, sampled = _sampled(target, sample)
        neighbours = sampled.neighbours.of(documents or sampled.neighbours.documents)
    if shingle or stop_words:
        base = replace(base, shingling=_shingling(shingle, stop_words, base))
    base = replace(base, seed=base.seed if seed is None else seed)
    fingerprint = next((each for each in base.sketches if isinstance(each, SimHash)), SimHash())
    if segments:
        size, pieces = parse_segments(segments)
        fingerprint = replace(fingerprint, size=size, segments=pieces)
    if features is not None:
        fingerprint = replace(fingerprint, feature_size=features)
    sketches: dict[str, Sketch] = {each.name: each for each in base.sketches}
    if signature:
        sketches["signature"] = Signature(signature)
    sketches.pop(fingerprint.name, None)
    if simhash:
        sketches[fingerprint.name] = fingerprint
    base = replace(base, sketches=tuple(sketches.values()))
    banded = base.banded
    if permutations is None:
        needed = bands_needed(threshold, recall, 1) if 0 < threshold < 1 and 0 < recall < 1 else 0
        permutations = banded.permutations
        while permutations < min(needed or 0, MOST_PERMUTATIONS):
            permutations *= 2
    base = base.replaced(banded.wide(permutations))
    found: list[Choice] = []
    if bands is not None and rows is not None:
        made = base.replaced(base.banded.banded_by(bands, rows))
    else:
        found = choices(threshold, recall, neighbours, base, rows)
        made = base.replaced(next(choice.sketch for choice in found if choice.chosen))
    if output is not None:
        page = json.dumps(made.to_json(), ensure_ascii=False) + "\n"
        write_page("--output", output, page)
    if wants_json(as_json):
        answer = made.to_json()
        if sampled is not None:
            wanted = {"threshold": threshold, "recall": recall, "documents": neighbours.documents}
            seen = sampled.neighbours.seen_from(threshold)
            answer = {**wanted, "choices": found, "scheme": made}
            answer["sample"] = {**to_json(sampled), "neighbours_at_threshold": seen}
            answer["histogram"] = similarity_histogram(neighbours.histogram(_BINS))
        print_json(to_json(answer))
    elif sampled is None:
        print_table([("", "text"), ("", "text")], describe(made, neighbours.documents))
    else:
        _show_sample(replace(sampled, neighbours=neighbours), found, threshold)


def _shingling(shingle: str | None, stop_words: Path | None, base: Scheme) -> Shingling:
    """Return the shingling of the base, changed. Raises UsageError."""
    changed = base.shingling
    if shingle is not None:
        unit, colon, size = shingle.partition(":")
        if not colon or not size.isdecimal() or unit not in ("word", "char", "jieba"):
            raise UsageError(f"--shingle {shingle}: use word:N, char:N or jieba:N")
        changed = Shingling(unit, int(size), changed.stop_words)  # type: ignore[arg-type]
    if stop_words is None:
        return changed
    try:
        lines = stop_words.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{stop_words}: {getattr(error, 'strerror', None) or error}") from error
    words = normalise([line.strip() for line in lines if line.strip()], base.normalisation)
    return replace(changed, stop_words=tuple(words))


def _sampled(target: Target, count: int) -> tuple[Scheme, Sampled]:
    with target.open() as index, steps() as on_step:
        scheme = index.scheme
        sampled = sample_neighbours(
            index.store, index.meta, count, on_query=lambda done: on_step("Sampling", done, count)
        )
    if sampled.without_text:
        message(f"{sampled.without_text:,} sampled documents have no text and are skipped")
    if sampled.truncated:
        message(
            f"{sampled.truncated:,} sampled documents have more candidates than were verified:"
            " there are more neighbours of low similarity than shown"
        )
    return scheme, sampled


def _show_sample(sampled: Sampled, found: list[Choice], threshold: float) -> None:
    """Print the S-curve and the neighbours by similarity, and all choices of bands and rows."""
    neighbours = sampled.neighbours
    chosen = next(choice.sketch for choice in found if choice.chosen)
    banding = f"{chosen.bands} bands of {chosen.rows} rows"
    swaps = chosen.swaps(Limits(threshold=threshold))
    curve = similarity_histogram(meeting((np.arange(BINS) + 0.5) / BINS, chosen, swaps))
    seen = bars(similarity_histogram(neighbours.histogram(BINS)), log_scale=True)
    rows = []
    for (each, length), (near, near_length) in zip(bars(curve), seen, strict=True):
        mark = "<" if each.low <= threshold < each.high else ""
        cells = [f"{each.name} {mark}", f"{each.count:.1%}", _bar(length)]
        rows.append([*cells, _number(near.count), _bar(near_length)])
    columns: list[tuple[str, Kind]] = [("similarity", "key"), ("met", "number"), ("", "key")]
    columns += [("neighbours", "number"), ("", "key")]
    print_table(columns, rows, f"S-curve of {banding}; < is the threshold {threshold:g}")
    names = ["banding", "terms", "bytes", f"at {threshold:g}", "candidates", "recall"]
    print_table(
        [(name, "number") for name in [*names, "missed", "wasted"]],
        map(_cells, found),
        title=f"{banding} at {neighbours.documents:,.0f} documents, by a sample of"
        f" {sampled.sampled:,}",
    )
    message(
        f"The sample of {sampled.sampled:,} documents shows {neighbours.seen_from(threshold):,}"
        f" neighbours at or over {threshold:g}: few give a poor estimate"
    )


def _bar(percent: float) -> str:
    return ("#" if only_plain() else "█") * round(percent / _PERCENT_A_BLOCK)


def _number(value: float) -> str:
    """Return a number with three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.0e}"


def _cells(choice: Choice) -> list[str]:
    expected = choice.expected
    return [
        f"{'* ' * choice.chosen}{choice.sketch.bands} x {choice.sketch.rows}",
        f"{choice.terms:,}",
        f"{choice.bytes:.0f}",
        f"{100 * choice.recall_at_threshold:.1f}%",
        _number(expected.candidates),
        "" if expected.recall is None else f"{100 * expected.recall:.2f}%",
        _number(expected.missed),
        _number(expected.wasted),
    ]
