"""esdedup scheme, weights: choose parameters, show their recall and cost, and weigh words."""

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from esdedup import (
    Limits,
    Scheme,
    Server,
    Shingling,
    Signature,
    SimHash,
    UsageError,
    Weights,
    admin,
)
from esdedup.cli import options
from esdedup.cli.command import argument, setting
from esdedup.cli.files import FORMATS
from esdedup.cli.options import Target, as_json, refuse, scheme_in, value_sketches, with_sketches
from esdedup.cli.output import (
    Kind,
    Progress,
    check_folder,
    count,
    json_line,
    message,
    only_plain,
    print_counts,
    print_facts,
    print_json,
    print_table,
    write_page,
)
from esdedup.files import Format, Reading, check_new, check_targets, total_bytes, written

_PERCENT_A_BLOCK = 6.25
_RECALL = 0.94
"""With one swap, the bands of the default scheme find this share at the default threshold."""


def scheme_command(
    target: Target,
    output: Path | None = setting(None, "File to write the scheme to.", "-o"),
    threshold: float = setting(0.5, "Similarity to find.", "-t"),
    recall: float | None = setting(
        None, "Share to find at --threshold.", show_default="0.94, of vectors 0.999"
    ),
    sample: int | None = setting(
        None, "Measure the cost on this many documents of the index.", bounds=(2, admin.Sample.most)
    ),
    sketch: str | None = setting(
        None,
        "With --sample: the sketch to measure, such as that of vectors.",
        show_default="the index's first",
        metavar="NAME",
        rare=True,
    ),
    documents: float | None = setting(
        None,
        "Show the cost at this many documents.",
        bounds=(1, 1e15),
        show_default="the index's, or 1e6",
    ),
    scheme: Path | None = setting(
        None, "Scheme file to change.", show_default="the index's, or the default one"
    ),
    shingle: str | None = setting(
        None, "word:N, char:N or jieba:N (Chinese words).", show_default="word:3"
    ),
    signature: int | None = setting(
        None, "Single values as tokens, for similar --nearest: 128.", show_default="none", rare=True
    ),
    bits: str | None = options.bits(),
    distance: int | None = options.distance(),
    vectors: str | None = options.vectors(),
    cosine: float | None = options.cosine(),
    passages: bool = options.passages(),
    server: bool = options.server(),
    weights: Path | None = setting(
        None, "Weights of words for SimHash, of esdedup weights.", show_default="none"
    ),
    fold: list[str] | None = setting(
        None,
        "Fold spellings: marks, arabic, turkish, hyphens or entities.",
        metavar="FOLD",
        rare=True,
        show_default="none",
    ),
    punctuation: bool = setting(False, "Make every punctuation mark a word, for code.", rare=True),
    seed: int | None = setting(None, "Key of all hashes.", rare=True, show_default="1"),
    as_json: bool = as_json(),
) -> None:
    """Choose the parameters of an index, and show their recall and cost.

    Example: esdedup scheme --threshold 0.7 --shingle char:5 -o scheme.json

    With --output, or in a pipe, the scheme is written for esdedup index --scheme. Everything else,
    such as stop words, the normal form, segments, and other bands and rows, can be changed in that
    file: the first sketch is the default one. With --sample, the figures are of the documents of an
    index: of its texts, or of vectors, at a --cosine.
    """
    changes_words = bool(shingle or fold or punctuation or seed is not None)
    if sample is not None and (scheme or server or changes_words):
        raise UsageError(
            "--sample measures the index's own scheme: leave out --scheme, --shingle, --server,"
            " --fold, --punctuation and --seed"
        )
    if output is not None:
        check_folder("--output", output)
        check_targets({"--output": [str(output)]}, map(str, filter(None, (scheme, weights))))
    base = scheme_in(scheme) or Scheme()
    drawn: admin.Sample | None = None
    by_cosine: Limits | None = None
    if sample is not None:
        with target.open() as index, Progress() as progress:
            base = index.scheme
            measured = base.sketch(sketch)
            if measured.measure.limit == "cosine":
                refuse(("threshold", "signature", "weights"), "is for texts: use --cosine")
                by_cosine = measured.settled(Limits(measured.name, cosine=cosine, recall=recall))
            elif vectors is None:
                refuse(("cosine",), "requires --vectors, or a --sample of vectors")
            on_drawn = partial(progress.step, "Sampling")
            drawn = admin.sample_neighbours(index, sample, sketch=sketch, on_drawn=on_drawn)
        _warn_of(drawn, "text" if by_cosine is None else "vector")
    else:
        refuse(("sketch",), "requires --sample")
        if vectors is None:
            refuse(("cosine",), "requires --vectors, or a --sample of vectors")
    if shingle is not None:
        unit, colon, size = shingle.partition(":")
        if not colon or not size.isdecimal() or unit not in ("word", "char", "jieba"):
            raise UsageError(f"--shingle {shingle}: use word:N, char:N or jieba:N")
        former = base.shingling
        shingling = Shingling(
            unit,  # type: ignore[arg-type]
            int(size),
            former.stop_words,
            punctuation=former.punctuation,
        )
        base = replace(base, shingling=shingling)
    if punctuation:
        base = replace(base, shingling=replace(base.shingling, punctuation=True))
    if fold:
        normalisation = replace(base.normalisation, fold=fold)  # type: ignore[arg-type]
        base = replace(base, normalisation=normalisation)
    if seed is not None:
        base = replace(base, seed=seed)
    if weights is not None and (
        server or not any(isinstance(kind, SimHash) for kind in base.sketches)
    ):
        raise UsageError("--weights is for SimHash, which the scheme lacks")
    of_values = value_sketches(bits, distance, vectors, cosine)
    recall = _RECALL if recall is None else recall
    if server:
        of_server = replace(base, sketches=[Server.for_threshold(threshold, recall)])
        of_server = with_sketches(of_server, passages, of_values)
        design = admin.SchemeDesign.of_server(of_server, threshold, recall, documents)
    else:
        table = None if weights is None else Weights.read(weights)
        base = _with_words(base, shingle, signature, table)
        base = with_sketches(base, passages, of_values)
        if by_cosine is not None and drawn is not None:
            design = admin.design_by_cost(base, by_cosine, drawn, documents)
        else:
            design = admin.design_scheme(base, threshold, recall, documents, drawn)
    if output is not None:
        page = json_line(design.scheme.to_json())
        # The same scheme may be written again; another one may have been changed by hand.
        check_new("--output", str(output), page.encode())
        write_page(output, page)
    if as_json:
        print_json(design.to_json())
    elif drawn is None:
        print_facts(design.scheme.describe(design.neighbours.documents))
    else:
        _show_sample(drawn, design)


def _warn_of(drawn: admin.Sample, compared: str) -> None:
    """Report documents without a text or vector, and neighbours that were not compared."""
    if drawn.without_text:
        message(f"{drawn.without_text:,} sampled documents have no {compared} and are skipped")
    if drawn.truncated:
        message(
            f"{drawn.truncated:,} sampled documents have more candidates than were verified:"
            " there are more neighbours of low similarity than shown"
        )


def _with_words(
    scheme: Scheme, shingle: str | None, signature: int | None, weights: Weights | None
) -> Scheme:
    """Return a scheme whose sketches have the requested single values and weights."""
    sketches = list(scheme.sketches)
    if signature:
        sketches = [sketch for sketch in sketches if not isinstance(sketch, Signature)]
        sketches.append(Signature(signature))
    for place, sketch in enumerate(sketches):
        if not isinstance(sketch, SimHash):
            continue
        size = sketch.feature_size
        if shingle:
            # A feature of more words than a shingle would depend on words that no shingle does.
            size = min(SimHash.feature_size, scheme.shingling.size)
        if weights is not None:
            size = weights.words_of_a_feature(scheme.shingling) or size
        table = sketch.weights if weights is None else weights
        sketches[place] = replace(sketch, weights=table, feature_size=size)
    return replace(scheme, sketches=tuple(sketches))


def _show_sample(sample: admin.Sample, design: admin.SchemeDesign) -> None:
    """Print the S-curve and the neighbours by similarity, and all choices of bands and rows."""
    threshold, neighbours = design.threshold, design.neighbours
    chosen = next(choice.sketch for choice in design.choices if choice.chosen)
    banding = f"{chosen.tokens} bands of {chosen.rows_of_band} rows"
    block, rows = "#" if only_plain() else "█", []
    for bar in design.s_curve():
        mark = "<" if bar.bin.low <= threshold < bar.bin.high else ""
        blocks = block * round(bar.length / _PERCENT_A_BLOCK)
        row = [f"{bar.bin.name} {mark}", f"{bar.bin.count:.1%}", blocks, _number(bar.neighbours)]
        rows.append(row)
    of_values = design.measure.pair_title
    columns: list[tuple[str, Kind]] = [(of_values, "key"), ("met", "number"), ("", "key")]
    columns.append(("neighbours", "number"))
    limit = design.measure.limit
    print_table(columns, rows, f"S-curve of {banding}; < is the {limit} {threshold:g}")
    names = ["banding", "terms", "bytes", f"at {threshold:g}", "candidates", "recall"]
    print_table(
        [(name, "number") for name in [*names, "missed", "wasted"]],
        map(_cells, design.choices),
        title=f"{banding} at {neighbours.documents:,.0f} documents, by a sample of"
        f" {sample.sampled:,}",
    )
    message(
        f"The sample of {sample.sampled:,} documents shows {neighbours.sampled_from(threshold):,}"
        f" neighbours at or over {threshold:g}: few give a poor estimate"
    )


def _number(value: float) -> str:
    """Return a number with three digits."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 or value == 0 else f"{value:.0e}"


def _cells(choice: admin.Choice) -> list[str]:
    expected = choice.expected
    return [
        f"{'* ' * choice.chosen}{choice.sketch.tokens} x {choice.sketch.rows_of_band}",
        f"{choice.terms:,}",
        f"{choice.bytes:.0f}",
        f"{100 * choice.recall_at_threshold:.1f}%",
        _number(expected.candidates),
        "" if expected.recall is None else f"{100 * expected.recall:.2f}%",
        _number(expected.missed),
        _number(expected.wasted),
    ]


def weights_command(
    target: Target,
    weighing: admin.Weighing,
    files: list[str] | None = argument(
        None, f"Read these instead of an index. {FORMATS}", metavar="[FILES]..."
    ),
    output: Path = setting(..., "New file to write the weights to.", "-o"),
    scheme: Path | None = setting(
        None, "Scheme file, of esdedup scheme.", show_default="the index's, or the default one"
    ),
    text_field: list[str] | None = setting(
        None,
        "With FILES: field of the text; may be repeated.",
        show_default="text",
        metavar="FIELD",
    ),
    format: Format | None = setting(
        None, "Format; file: each file is one document.", rare=True, show_default="by the ending"
    ),
    encoding: str | None = setting(
        None,
        "Encoding of the files, such as utf-16.",
        rare=True,
        show_default="UTF-8",
        metavar="NAME",
    ),
    delimiter: str | None = options.delimiter(),
    as_json: bool = as_json(),
) -> None:
    """Weigh words by how many documents have them, for fingerprints.

    Example: esdedup weights news.jsonl -o weights.tsv

    A line has a word, a tab and its weight: ln((1 + documents) / (1 + documents with the word)).
    The line without a word has the weight of all other words. You can change the file, or write one
    by hand: a word of weight 0 does not count. To use it in SimHash: esdedup scheme --weights FILE.
    """
    check_folder("--output", output)
    check_targets({"--output": [str(output)]}, [*(files or []), *map(str, filter(None, [scheme]))])
    check_new("--output", str(output))
    named = scheme_in(scheme)
    if files:
        refuse([option.name for option in fields(Target)], "can't be combined with FILES")
        reading = Reading(format, encoding, text_field or ["text"], delimiter=delimiter)
        texts = _texts_of_files(reading, reading.files(files))
        weighed = admin.weigh(texts, named or Scheme(), weighing)
    else:
        refuse(("text_field", "format", "encoding", "delimiter"), "requires FILES")
        with target.open() as index, Progress("Counting") as progress:
            texts = _counted(index.texts(), progress)
            weighed = admin.weigh(texts, named or index.scheme, weighing)
    _show(weighed, output, as_json)


def _texts_of_files(reading: Reading, files: list[str]) -> Iterator[str]:
    """Yield the texts of files. Records without one are counted, and reported at the end."""
    skipped = 0
    with Progress("Counting", total_bytes(files)) as progress:
        for number, text in enumerate(reading.texts(files, progress.advance), 1):
            progress.show(number)
            if text is None:
                skipped += 1
            else:
                yield text
    if skipped:
        message(f"{count(skipped, 'record')} without a text: skipped")


def _counted(texts: Iterator[str], progress: Progress) -> Iterator[str]:
    for text in texts:
        progress.count(1)
        yield text


def _show(weighed: admin.Weighed, output: Path, as_json: bool) -> None:
    """Write the table, and show its counts."""
    weights = weighed.weights
    with written(str(output.resolve())) as file:
        file.write(weights.text.encode())
    counts = {
        "documents": weighed.documents,
        "counted_words": weighed.words,
        "weighed_words": len(weights.words),
    }
    details = {"default": weights.default, "digest": weights.digest, "output": str(output)}
    print_counts(counts, as_json, title=str(output), details=details)
