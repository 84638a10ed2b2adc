"""esdedup weights: count in how many documents words occur, and write their weights."""

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from esdedup import Scheme
from esdedup.analysis.weighing import Weighed, Weighing, texts_of, weigh
from esdedup.arguments import setting
from esdedup.cli.files import FORMATS, checked, total_bytes
from esdedup.cli.options import Target, as_json, refuse, scheme_in
from esdedup.cli.output import Progress, check_folder, count, message, print_counts
from esdedup.records.files import Format, Record, check_file, chunks_of
from esdedup.records.locations import written
from esdedup.records.paths import files_named
from esdedup.records.streams import check_encoding
from esdedup.records.targets import check_new
from esdedup.stores.fields import text_at


def weights_command(
    target: Target,
    weighing: Weighing,
    files: list[str] | None = setting(
        None, f"Read these instead of an index. {FORMATS}", argument=True, metavar="[FILES]..."
    ),
    output: Path = setting(..., "New file to write the weights to.", "-o"),
    scheme: Path | None = setting(
        None, "Scheme file, of esdedup scheme.", show_default="the index's, or the default one"
    ),
    text_field: list[str] | None = setting(
        None, "With FILES: field of the text; may be repeated.", show_default="text"
    ),
    format: Format | None = setting(
        None, "Format; file: each file is one document.", rare=True, show_default="by the ending"
    ),
    encoding: str | None = setting(
        None, "Encoding of the files, such as utf-16.", rare=True, show_default="UTF-8"
    ),
    as_json: bool = as_json(),
) -> None:
    """Weigh words by how many documents have them, for SimHash.

    Example: esdedup weights news.jsonl -o weights.tsv

    A line has a word, a tab and its weight: ln((1 + documents) / (1 + documents with the word)).
    The line without a word has the weight of all other words. You can change the file, or write one
    by hand: a word of weight 0 does not count. To use it: esdedup scheme --weights FILE.
    """
    check_folder("--output", output)
    check_new("--output", str(output))
    named = scheme_in(scheme)
    if files:
        refuse([each.name for each in fields(Target)], "can't be combined with FILES")
        reading = _Files(files, text_field or ["text"], format, encoding)
        weighed = weigh(reading.texts(), named or Scheme(), weighing)
    else:
        refuse(("text_field", "format", "encoding"), "requires FILES")
        with target.open() as index, Progress("Counting") as progress:
            texts = _counted(texts_of(index.store, index.meta), progress)
            weighed = weigh(texts, named or index.scheme, weighing)
    _show(weighed, output, as_json)


class _Files:
    """Files of documents, whose texts are read."""

    def __init__(
        self, files: list[str], text_fields: list[str], format: Format | None, encoding: str | None
    ) -> None:
        check_encoding(encoding)
        self._files, left_out = files_named(files, format)
        for file in self._files:
            check_file(file, format, encoding)
        if left_out:
            some = count(len(left_out), "file is", "files are")
            message(f"{some} skipped, a link or of unknown ending: first {left_out[0]}")
        self._text_fields, self._format, self._encoding = text_fields, format, encoding

    def texts(self) -> Iterator[str]:
        """Yield the texts. Records without one are counted, and reported at the end."""
        skipped = 0
        names = self._text_fields
        with Progress("Counting", total_bytes(self._files)) as progress:
            advance = progress.advance
            chunks = chunks_of(self._files, self._format, advance, self._encoding, names)
            documents = 0
            for chunk in checked(chunks, names, None):
                for record in chunk.records():
                    documents += 1
                    progress.show(documents)
                    text = text_at(record.source, names) if isinstance(record, Record) else None
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


def _show(weighed: Weighed, output: Path, as_json: bool) -> None:
    """Write the table, and show its counts."""
    weights = weighed.weights
    with written(str(output.resolve())) as file:
        file.write(weights.text.encode())
    counts = {
        "documents": weighed.documents,
        "counted_words": weighed.words,
        "weighed_words": len(weights.words),
    }
    more = {"default": weights.default, "digest": weights.digest, "output": str(output)}
    print_counts(counts, as_json, title=str(output), more=more)
